//! How likely a batch reads each vertex, by arithmetic on the graph: which rows of others are worth keeping,
//! without drawing anything.
//!
//! ```text
//! R(v) = seeds of a batch / a rank's seeds, for those; 0 for others
//! from the last layer down:  R(u) ← 1 − (1 − R(u)) · Π (1 − t(u, v) · R(v))   over the edges (u, v)
//! t(u, v) = min(1, fan-out / in-degree of v)
//! ```
//!
//! # Paper
//! Vertex-wise inclusion probabilities: Kaler et al., "Communication-Efficient Graph Neural Networks with
//! Probabilistic Neighborhood Expansion Analysis and Caching" (SALIENT++), MLSys 2023, § 3,
//! <https://arxiv.org/abs/2305.03152>.
//! # Differs
//! Rows of a layer are rows of every layer below, and are drawn from again there, so that R grows from layer to
//! layer. Draws count as independent of each other, which they are on a tree. With replacement t is `1 − (1 − 1/d)^k`; by degree, a source's share of the degrees stands for `1/d`.

use crate::graph::Graph;
use crate::sample::FanOut;

/// How in-edges are drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DrawnHow<'a> {
    /// By layer.
    pub(crate) fan_outs: &'a [FanOut],
    pub(crate) replace: bool,
    pub(crate) by_degree: bool,
    /// Every row has an edge of its own beside the graph's.
    pub(crate) loops: bool,
    /// The vertices that draw; none where all do.
    pub(crate) by: Option<&'a [bool]>,
}

impl DrawnHow<'_> {
    /// How likely an edge is among `k` that are drawn, whose share is `share`; all are, where there is no `k`.
    fn takes(&self, k: Option<u32>, share: f64) -> f64 {
        match k.map(f64::from) {
            None => 1.0,
            Some(k) if self.replace => 1.0 - (1.0 - share).powf(k),
            Some(k) => (k * share).min(1.0),
        }
    }
}

/// For each vertex of `graph`, how likely a batch reads it, whose seeds are `seeds` with the likelihood of each.
pub(crate) fn inclusion(graph: &Graph, how: DrawnHow<'_>, seeds: &[(u32, f64)]) -> Vec<f64> {
    let mut read = vec![0f64; graph.n()];
    for &(v, likely) in seeds {
        let read = &mut read[v as usize];
        *read = 1.0 - (1.0 - *read) * (1.0 - likely);
    }
    let pieces = graph.pieces();
    // Logarithms of how likely each vertex is not read.
    let mut missed = vec![0f64; graph.n()];
    let mut weights = Vec::new();
    for fan_out in how.fan_outs.iter().rev() {
        let by_type = matches!(fan_out, FanOut::PerType(_));
        for (missed, read) in missed.iter_mut().zip(&read) {
            *missed = (-read).ln_1p();
        }
        for piece in &pieces {
            let draws = |v: &usize| read[*v] > 0.0 && how.by.is_none_or(|by| by[*v]);
            for v in piece.clone().filter(draws) {
                let sources = graph.neighbours(v);
                shares((graph, v), how, by_type, &mut weights);
                for (e, (&u, &share)) in sources.iter().zip(&weights).enumerate() {
                    let k = fan_out.of(type_of(graph, v, e));
                    missed[u as usize] += (-how.takes(k, share) * read[v]).ln_1p();
                }
            }
            graph.release(piece.clone());
        }
        for (read, missed) in read.iter_mut().zip(&missed) {
            *read = -missed.exp_m1();
        }
    }
    read
}

/// The type of the `e`-th in-edge of `v`; 0 where there are none.
fn type_of(graph: &Graph, v: usize, e: usize) -> usize {
    let first = graph.indptr()[v] as usize;
    let types = graph.relations().map(|r| r.types());
    types.map_or(0, |types| usize::from(types[first + e]))
}

/// Each in-edge's share of those that it is drawn among: all of `v`'s, or those of its type where that is how
/// they are drawn.
fn shares((graph, v): (&Graph, usize), how: DrawnHow<'_>, by_type: bool, shares: &mut Vec<f64>) {
    let weight = |u: u32| match how.by_degree {
        true => graph.in_degree(u as usize) as f64,
        false => 1.0,
    };
    shares.clear();
    shares.extend(graph.neighbours(v).iter().map(|&u| weight(u)));
    if by_type {
        let types = graph.relations().map_or(1, |r| r.count());
        let mut sums = vec![0.0; types];
        (0..shares.len()).for_each(|e| sums[type_of(graph, v, e)] += shares[e]);
        (0..shares.len()).for_each(|e| shares[e] /= sums[type_of(graph, v, e)].max(1.0));
        return;
    }
    let own = if how.loops { weight(v as u32) } else { 0.0 };
    let sum = shares.iter().sum::<f64>() + own;
    shares.iter_mut().for_each(|share| *share /= sum.max(1.0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{EdgeOptions, Propagation};
    use crate::sample::{Compact, Sampler};
    use crate::testing::random_dataset;
    use kernels::par::Par;
    use std::sync::Arc;

    fn how(fan_outs: &[FanOut]) -> DrawnHow<'_> {
        DrawnHow {
            fan_outs,
            replace: false,
            by_degree: false,
            loops: false,
            by: None,
        }
    }

    /// Where only the seed draws, its neighbours are read and nothing behind them.
    #[test]
    fn others_are_read_and_draw_nothing() {
        let data = random_dataset(40, 200, 3, 2, false, 5);
        let fan_outs = [FanOut::All, FanOut::All];
        let by: Vec<bool> = (0..40).map(|v| v == 7).collect();
        let how = DrawnHow {
            by: Some(&by),
            ..how(&fan_outs)
        };
        let read = inclusion(&data.graph, how, &[(7, 1.0)]);
        for (v, read) in (0..40u32).zip(read) {
            let is_near = v == 7 || data.graph.neighbours(7).contains(&v);
            assert!(
                (read - f64::from(u8::from(is_near))).abs() < 1e-9,
                "{v}: {read}"
            );
        }
    }

    /// How often batches of the one seed 0 read each vertex.
    fn counted(graph: &Graph, fan_outs: &[FanOut], replace: bool) -> Vec<f64> {
        const BATCHES: u64 = 20_000;
        let block = graph.propagation(Propagation::Sum);
        let mut sampler = Sampler::new(Arc::new(block), fan_outs.to_vec(), 5);
        if replace {
            sampler = sampler.with_replacement();
        }
        let (mut counts, mut compact) = (vec![0.0; graph.n()], Compact::default());
        for batch in 0..BATCHES {
            let drawn = sampler.batch((0, batch), &[0], &Par::new(1), &mut compact);
            let inputs = drawn.expect("drawn").inputs;
            inputs.iter().for_each(|&v| counts[v as usize] += 1.0);
        }
        counts.iter().map(|c| c / BATCHES as f64).collect()
    }

    /// 0 reads 1, 2 and 3; 1 reads 4 to 8, 2 reads 9.
    fn tree() -> Graph {
        let edges = [
            (1, 0),
            (2, 0),
            (3, 0),
            (4, 1),
            (5, 1),
            (6, 1),
            (7, 1),
            (8, 1),
            (9, 2),
        ];
        let (src, dst): (Vec<u32>, Vec<u32>) = edges.into_iter().unzip();
        Graph::from_edges(10, &src, &dst, EdgeOptions::AS_IS).expect("a tree")
    }

    #[test]
    fn a_tree_is_read_as_often_as_is_said() {
        let graph = tree();
        let fan_outs = [FanOut::Of(2), FanOut::Of(2)];
        let got = inclusion(&graph, how(&fan_outs), &[(0, 1.0)]);
        // Rows of the last layer are drawn from again by the first.
        let row = 1.0 - (1.0 - 2.0 / 3.0f64).powi(2);
        let below = [1.0, row, row, row];
        let leaves = [2.0 / 3.0 * 0.4, 2.0 / 3.0];
        let expected = |v: usize| match v {
            0..4 => below[v],
            4..9 => leaves[0],
            _ => leaves[1],
        };
        for (v, p) in got.iter().enumerate() {
            assert!((p - expected(v)).abs() < 1e-12, "{v}: {p} {}", expected(v));
        }
        for replace in [false, true] {
            let how = DrawnHow {
                replace,
                ..how(&fan_outs)
            };
            let said = inclusion(&graph, how, &[(0, 1.0)]);
            for (said, counted) in said.iter().zip(counted(&graph, &fan_outs, replace)) {
                assert!((said - counted).abs() < 0.02, "{said} {counted}");
            }
        }
    }

    #[test]
    fn whole_neighbourhoods_are_read_for_certain() {
        let graph = random_dataset(60, 150, 1, 2, false, 3).graph;
        let fan_outs = [FanOut::All, FanOut::All];
        let got = inclusion(&graph, how(&fan_outs), &[(0, 1.0), (7, 1.0)]);
        let mut reached = vec![false; 60];
        (reached[0], reached[7]) = (true, true);
        for _ in 0..2 {
            let before = reached.clone();
            for v in (0..60).filter(|&v| before[v]) {
                graph
                    .neighbours(v)
                    .iter()
                    .for_each(|&u| reached[u as usize] = true);
            }
        }
        for (p, reached) in got.iter().zip(reached) {
            assert_eq!(*p, f64::from(u8::from(reached)));
        }
    }

    #[test]
    fn seeds_that_are_named_twice_are_likelier() {
        let got = inclusion(&tree(), how(&[]), &[(3, 0.5), (3, 0.5)]);
        assert!((got[3] - 0.75).abs() < 1e-12 && got[0] == 0.0);
    }
}
