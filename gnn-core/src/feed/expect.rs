//! How large batches will be, before any is drawn.
//!
//! A vertex is in a level of a batch with some probability; of seeds it is known. A row `u` that is there
//! draws a certain one of its `d` in-neighbours with `min(1, k / d)`, so a vertex `v` becomes a source with
//!
//! ```text
//! 1 − (1 − p(v)) · Π over rows u that read v of (1 − p(u) · min(1, k / d(u)))
//! ```
//!
//! if rows are there or not independently of each other. That is all that is assumed: degrees, who reads
//! whom and who trains are those of the graph. One pass over the edges a layer.
//!
//! Rows that one seed has drawn are there together, and in a graph with hubs or communities read the same
//! vertices: what is expected is too much. On R-MAT graphs of scale 14 and 18, one hop is right within 1 %,
//! distinct vertices of the second are 4 to 10 % too many, of the third 12 % (fan-outs 10 and 25, and 5, 4
//! and 3).

use crate::graph::Graph;
use crate::sample::FanOut;

/// What is drawn from, and how.
pub(crate) struct Draws<'a> {
    pub(crate) graph: &'a Graph,
    /// Every row has a loop of its own, whatever loops the graph has.
    pub(crate) loops: bool,
    pub(crate) fan_outs: &'a [FanOut],
    pub(crate) replace: bool,
    /// The vertices that draw; none where all do.
    pub(crate) by: Option<&'a [bool]>,
}

/// Expected sizes of a batch.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Expected {
    /// By layer: rows, the distinct vertices that they and their edges name, and edges.
    pub(crate) rows: Vec<f64>,
    pub(crate) columns: Vec<f64>,
    pub(crate) edges: Vec<f64>,
    /// By vertex, the probability that the first layer names it: `[n]`.
    pub(crate) inputs: Vec<f32>,
}

impl Draws<'_> {
    /// Of batches of `batch` vertices out of `seeds`, which are distinct and all as likely. None for
    /// fan-outs by type.
    pub(crate) fn expected(&self, seeds: &[u32], batch: f64) -> Option<Expected> {
        let n = self.graph.n();
        let mut there = vec![0f32; n];
        let share = (batch / seeds.len().max(1) as f64).min(1.0) as f32;
        seeds.iter().for_each(|&v| there[v as usize] = share);
        let layers = self.fan_outs.len();
        let mut sizes = Expected {
            rows: vec![0.0; layers],
            columns: vec![0.0; layers],
            edges: vec![0.0; layers],
            inputs: Vec::new(),
        };
        // By vertex, the logarithm of the probability that nobody draws it.
        let mut missed = vec![0f32; n];
        for layer in (0..layers).rev() {
            missed.fill(0.0);
            if let Some(by) = self.by {
                // Others are read, and draw nothing themselves.
                let drawn = there.iter_mut().zip(by);
                drawn.filter(|(_, by)| !**by).for_each(|(p, _)| *p = 0.0);
            }
            let k = match &self.fan_outs[layer] {
                FanOut::All => None,
                FanOut::Of(k) => Some(*k as usize),
                FanOut::PerType(_) => return None,
            };
            sizes.rows[layer] = there.iter().map(|&p| f64::from(p)).sum();
            sizes.edges[layer] = self.draw(k, &there, &mut missed);
            for (p, missed) in there.iter_mut().zip(&missed) {
                *p = 1.0 - (1.0 - *p) * missed.exp();
            }
            sizes.columns[layer] = there.iter().map(|&p| f64::from(p)).sum();
        }
        sizes.inputs = there;
        Some(sizes)
    }

    /// Adds what each row that may be there does to its sources; how many edges are expected.
    fn draw(&self, k: Option<usize>, there: &[f32], missed: &mut [f32]) -> f64 {
        let mut edges = 0.0;
        for piece in self.graph.pieces() {
            for u in piece.clone().filter(|&u| there[u] > 0.0) {
                let sources = self.graph.neighbours(u);
                let own = |s: &u32| self.loops && *s as usize == u;
                let loops = sources.iter().filter(|s| own(s)).count();
                let d = sources.len() - loops + usize::from(self.loops);
                if d == 0 {
                    continue;
                }
                let (drawn, each) = self.row(k, d);
                edges += f64::from(there[u]) * drawn;
                // A row that is certain to draw all leaves nothing to chance.
                let stays = (1.0 - there[u] * each).max(1e-12).ln();
                // The source of a loop is the row itself, which is there without it.
                for &s in sources.iter().filter(|s| !own(s)) {
                    missed[s as usize] += stays;
                }
            }
            self.graph.release(piece);
        }
        edges
    }

    /// Of a row of `d` edges: how many are drawn, and the probability that a certain one is among them.
    fn row(&self, k: Option<usize>, d: usize) -> (f64, f32) {
        match k {
            None => (d as f64, 1.0),
            Some(k) if self.replace => {
                let never = (1.0 - 1.0 / d as f64).powf(k as f64);
                (k as f64, (1.0 - never) as f32)
            }
            Some(k) => (k.min(d) as f64, k.min(d) as f32 / d as f32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::load;
    use crate::graph::Propagation;
    use crate::rng;
    use crate::sample::{Compact, Sampler};
    use kernels::par::Par;
    use std::sync::Arc;

    /// Mean sizes of some batches, drawn: rows, columns and edges of each layer.
    fn measured(draws: &Draws<'_>, how: Propagation, seeds: &[u32], batch: usize) -> Vec<[f64; 3]> {
        let block = Arc::new(draws.graph.propagation(how));
        let mut sampler = Sampler::new(block, draws.fan_outs.to_vec(), 3);
        if draws.replace {
            sampler = sampler.with_replacement();
        }
        let (par, mut compact) = (Par::new(2), Compact::default());
        let mut seeds = seeds.to_vec();
        rng::shuffle(5, &mut seeds);
        let batches: Vec<&[u32]> = seeds.chunks_exact(batch).take(40).collect();
        let mut sums = vec![[0.0; 3]; draws.fan_outs.len()];
        for (number, seeds) in (0..).zip(&batches) {
            let drawn = sampler.batch((0, number), seeds, &par, &mut compact);
            for (sum, block) in sums.iter_mut().zip(drawn.expect("draws").blocks) {
                let sizes = [block.n_dst, block.n_src, block.n_edges()];
                sum.iter_mut().zip(sizes).for_each(|(s, x)| *s += x as f64);
            }
        }
        let mean = |sum: [f64; 3]| sum.map(|s| s / batches.len() as f64);
        sums.into_iter().map(mean).collect()
    }

    #[test]
    fn batches_are_as_large_as_expected() {
        for (text, batch) in [
            ("rmat:scale=14,edge-factor=8,feat=1", 250),
            ("sbm:nodes=20000,classes=8,feat=1,degree=12", 300),
        ] {
            let data = load(text, 1).expect("a built-in");
            let train = data.train.iter().zip(0u32..).filter(|(t, _)| **t);
            let seeds: Vec<u32> = train.map(|(_, v)| v).collect();
            for (how, loops) in [(Propagation::Mean, false), (Propagation::GcnSym, true)] {
                for (fan_outs, replace) in [
                    (vec![FanOut::Of(10), FanOut::Of(25)], false),
                    (vec![FanOut::Of(5), FanOut::Of(4), FanOut::Of(3)], false),
                    (vec![FanOut::Of(4), FanOut::Of(6)], true),
                    (vec![FanOut::All], false),
                ] {
                    let draws = Draws {
                        graph: &data.graph,
                        loops,
                        fan_outs: &fan_outs,
                        replace,
                        by: None,
                    };
                    let expected = draws.expected(&seeds, batch as f64).expect("known");
                    for (l, found) in measured(&draws, how, &seeds, batch).into_iter().enumerate() {
                        let foreseen = [expected.rows[l], expected.columns[l], expected.edges[l]];
                        for (foreseen, found) in foreseen.into_iter().zip(found) {
                            let off = (foreseen - found).abs() / found;
                            let near = match fan_outs.len() - l {
                                1 => 0.02,
                                2 => 0.12,
                                _ => 0.18,
                            };
                            assert!(
                                off < near,
                                "{text}, {how:?}, {fan_outs:?}, layer {l}: {foreseen} for {found}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// Where only vertex 0 draws, a batch ends at its neighbours however many layers there are.
    #[test]
    fn others_are_read_and_draw_nothing() {
        let data = load("karate", 1).expect("a built-in");
        let by: Vec<bool> = (0..34).map(|v| v == 0).collect();
        let fan_outs = [FanOut::All, FanOut::All];
        let draws = Draws {
            graph: &data.graph,
            loops: false,
            fan_outs: &fan_outs,
            replace: false,
            by: Some(&by),
        };
        let expected = draws.expected(&[0], 1.0).expect("known");
        let degree = data.graph.in_degree(0) as f64;
        assert_eq!(expected.rows, [1.0; 2]);
        for (found, wanted) in [(&expected.edges, degree), (&expected.columns, 1.0 + degree)] {
            found
                .iter()
                .for_each(|x| assert!((x - wanted).abs() < 1e-4, "{x} for {wanted}"));
        }
    }

    #[test]
    fn all_of_everything_is_certain() {
        let data = load("karate", 1).expect("a built-in");
        let all: Vec<u32> = (0..34).collect();
        let fan_outs = [FanOut::All, FanOut::All];
        let draws = Draws {
            graph: &data.graph,
            loops: true,
            fan_outs: &fan_outs,
            replace: false,
            by: None,
        };
        let expected = draws.expected(&all, 34.0).expect("known");
        let edges = (data.graph.n_edges() + 34) as f64;
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-3, "{a} for {b}");
        expected.edges.iter().for_each(|&e| near(e, edges));
        expected.columns.iter().for_each(|&c| near(c, 34.0));
        let by_type = [FanOut::PerType(vec![1])];
        assert_eq!(
            Draws {
                fan_outs: &by_type,
                ..draws
            }
            .expected(&all, 1.0),
            None
        );
    }
}
