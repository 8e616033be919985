//! Batches for link prediction: edges, pairs without an edge beside them, and blocks for the ends of both.
//!
//! # Paper
//! That a model must not see the edge it is asked about: Zhang & Chen, "Link prediction based on graph
//! neural networks", NeurIPS 2018, <https://arxiv.org/abs/1802.09691>.

use super::draw::Draw;
use super::{Compact, MiniBatch, Sampler};
use crate::dataset::Pair;
use crate::error::{Error, Result};
use crate::head::Negatives;
use crate::rng::{self, Purpose};
use kernels::hash;
use kernels::par::Par;

/// Where the pairs without an edge come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Negative {
    /// So many an edge, both ends anywhere, as [`Negatives`] draws them: they depend on the edge alone.
    Uniform(u32),
    /// So many an edge: its first end with the second ends of other edges of the batch. Fewer where
    /// these are edges too.
    InBatch(u32),
}

/// Edges and pairs, and the batch of their ends.
#[derive(Debug, Clone)]
pub struct LinkBatch {
    /// Its seeds are the distinct ends, in the order in which `positives` and then `negatives` have them.
    pub batch: MiniBatch,
    /// The edges, as positions among the seeds.
    pub positives: Vec<Pair>,
    /// Pairs without an edge, likewise; those beside an edge follow each other.
    pub negatives: Vec<Pair>,
    /// By negative, the positive that it is beside.
    pub beside: Vec<u32>,
}

/// Draws batches of the edges that a model is trained on.
///
/// The blocks have neither the edges of the batch nor their reverses, everything else is as
/// if the graph did not have them. Weights of the graph stay what they were.
pub struct Links {
    sampler: Sampler,
    edges: TrainEdges,
}

/// The edges that a model is trained on, and how pairs without an edge are drawn beside them.
pub(crate) struct TrainEdges {
    train: Vec<Pair>,
    known: Negatives,
    negative: Negative,
    seed: u64,
}

/// What is drawn for some edges.
pub(crate) struct Beside {
    /// The edges.
    pub(crate) positives: Vec<Pair>,
    /// Pairs without an edge; those beside an edge follow each other.
    pub(crate) negatives: Vec<Pair>,
    /// By negative, the positive that it is beside.
    pub(crate) beside: Vec<u32>,
}

impl TrainEdges {
    /// The edges `train` of a graph of `n` vertices.
    pub(crate) fn new(n: usize, train: Vec<Pair>, negative: Negative, seed: u64) -> TrainEdges {
        TrainEdges {
            known: Negatives::new(n, &train, seed),
            train,
            negative,
            seed,
        }
    }

    /// Some edges, as positions among those to train on, with what is drawn beside them in an epoch.
    pub(crate) fn draw(&self, epoch: u64, edges: &[u32]) -> Beside {
        let positives: Vec<Pair> = edges.iter().map(|&e| self.train[e as usize]).collect();
        let (negatives, beside) = match self.negative {
            Negative::Uniform(k) => self.uniform(epoch, edges, k as usize),
            Negative::InBatch(k) => self.in_batch(epoch, edges, &positives, k as usize),
        };
        Beside {
            positives,
            negatives,
            beside,
        }
    }
}

impl Links {
    /// Batches of the edges `train`, whose ends are vertices of the sampler's graph.
    ///
    /// # Errors
    /// [`Error::Shape`] for an end that is no vertex.
    pub fn new(sampler: Sampler, train: Vec<Pair>, negative: Negative) -> Result<Links> {
        let n = sampler.graph.n_dst;
        if let Some(v) = train.iter().flatten().find(|&&v| v as usize >= n) {
            return Err(Error::Shape {
                op: "edges to train on".into(),
                expected: format!("ends below {n}"),
                got: v.to_string(),
            });
        }
        let edges = TrainEdges::new(n, train, negative, sampler.seed);
        Ok(Links { sampler, edges })
    }

    /// The batch of some edges, as positions among those to train on, that has the number `batch` in its
    /// epoch.
    ///
    /// # Errors
    /// [`Error::Shape`] for an edge that is not there; as [`Sampler::batch`].
    pub fn batch(
        &self,
        (epoch, batch): (u64, u64),
        edges: &[u32],
        par: &Par,
        compact: &mut Compact,
    ) -> Result<LinkBatch> {
        let count = self.edges.train.len();
        if let Some(e) = edges.iter().find(|&&e| e as usize >= count) {
            return Err(Error::Shape {
                op: "edges of a batch".into(),
                expected: format!("numbers below {count}"),
                got: e.to_string(),
            });
        }
        let Beside {
            positives,
            negatives,
            beside,
        } = self.edges.draw(epoch, edges);
        let ends = positives.iter().chain(&negatives).flatten();
        let mut ends: Vec<u32> = ends.copied().collect();
        let seeds = compact.number(self.sampler.graph.n_src, &[], &mut ends);
        let without = Without::new(&positives);
        let batch = self.sampler.batch_by(&seeds, compact, |layer, rows| {
            let at = (epoch, batch);
            self.sampler
                .draw_without(layer, at, rows, Some(&without), par)
        })?;
        let mut pairs: Vec<Pair> = ends.chunks_exact(2).map(|p| [p[0], p[1]]).collect();
        let negatives = pairs.split_off(positives.len());
        Ok(LinkBatch {
            batch,
            positives: pairs,
            negatives,
            beside,
        })
    }
}

impl TrainEdges {
    fn uniform(&self, epoch: u64, edges: &[u32], k: usize) -> (Vec<Pair>, Vec<u32>) {
        let drawn = edges.iter().flat_map(|&e| {
            let first = e as usize * k;
            self.known.draw(epoch, first..first + k)
        });
        let beside = (0..edges.len() as u32).flat_map(|p| std::iter::repeat_n(p, k));
        (drawn.collect(), beside.collect())
    }

    fn in_batch(
        &self,
        epoch: u64,
        edges: &[u32],
        positives: &[Pair],
        k: usize,
    ) -> (Vec<Pair>, Vec<u32>) {
        let key = rng::key(self.seed, epoch, Purpose::Negative, 1);
        let (mut pairs, mut beside) = (Vec::new(), Vec::new());
        let mut draw = Draw::default();
        for (p, (&e, &[head, _])) in edges.iter().zip(positives).enumerate() {
            draw.distinct(hash::row(key, e), positives.len() - 1, k);
            for &other in &draw.picked {
                // All but the edge itself.
                let other = other as usize + usize::from(other as usize >= p);
                let pair = [head, positives[other][1]];
                if pair[0] != pair[1] && !self.known.known(pair) {
                    pairs.push(pair);
                    beside.push(p as u32);
                }
            }
        }
        (pairs, beside)
    }
}

/// Edges that are as if the graph did not have them: (row, source), ascending.
#[derive(Debug)]
pub(crate) struct Without(Vec<[u32; 2]>);

impl Without {
    /// Edges as rows with their sources.
    pub(crate) fn of_rows(mut edges: Vec<[u32; 2]>) -> Without {
        edges.sort_unstable();
        Without(edges)
    }

    /// Both directions of some edges.
    pub(crate) fn new(edges: &[Pair]) -> Without {
        let both = edges.iter().flat_map(|&[u, v]| [[u, v], [v, u]]);
        let mut both: Vec<[u32; 2]> = both.collect();
        both.sort_unstable();
        both.dedup();
        Without(both)
    }

    /// Those of row `v`.
    pub(crate) fn of(&self, v: u32) -> &[[u32; 2]] {
        let rest = &self.0[self.0.partition_point(|pair| pair[0] < v)..];
        &rest[..rest.partition_point(|pair| pair[0] == v)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::FanOut;
    use super::*;
    use crate::graph::{Block, Propagation};
    use crate::testing::random_dataset;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn graph(n: usize, degree: usize, seed: u64) -> Block {
        let graph = random_dataset(n, n * degree, 1, 2, false, seed).graph;
        let block = graph.propagation(Propagation::Mean);
        let a = block.csr();
        Block::new(n, n, a.indptr.to_vec(), a.indices.to_vec(), None).expect("the graph's")
    }

    /// Every in-edge as a pair (source, row), each once.
    fn pairs(block: &Block) -> Vec<Pair> {
        let a = block.csr();
        let all =
            (0..block.n_dst).flat_map(|v| a.indices[a.span(v)].iter().map(move |&s| [s, v as u32]));
        all.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The graph without some edges, in both directions.
    fn less(block: &Block, gone: &[Pair]) -> Block {
        let a = block.csr();
        let (mut indptr, mut indices) = (vec![0], Vec::new());
        for v in 0..block.n_dst {
            let kept = a.indices[a.span(v)].iter().copied();
            let kept =
                kept.filter(|&s| !gone.contains(&[s, v as u32]) && !gone.contains(&[v as u32, s]));
            indices.extend(kept);
            indptr.push(indices.len() as u64);
        }
        Block::new(block.n_dst, block.n_src, indptr, indices, None).expect("fewer edges")
    }

    fn fan_outs(k: u32) -> Vec<FanOut> {
        vec![FanOut::All, FanOut::Of(k)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Blocks are those of a graph that never had the edges: others' draws do not change, and what is
        /// left is drawn as often as it should be.
        #[test]
        fn blocks_are_those_of_the_graph_without_the_edges(
            n in 3usize..80, degree in 1usize..9, k in 1u32..6, replace: bool, uniform: bool, seed: u64,
        ) {
            let whole = graph(n, degree, seed);
            let train = pairs(&whole);
            prop_assume!(!train.is_empty());
            let edges: Vec<u32> = (0..train.len() as u32).step_by(5).collect();
            let how = if uniform { Negative::Uniform(2) } else { Negative::InBatch(3) };
            let sampler = |graph: &Block| {
                let sampler = Sampler::new(Arc::new(graph.clone()), fan_outs(k), seed);
                if replace { sampler.with_replacement() } else { sampler }
            };
            let links = Links::new(sampler(&whole), train.clone(), how).expect("vertices");
            let par = Par::new(1);
            let got = links.batch((2, 7), &edges, &par, &mut Compact::default()).expect("edges");
            let threads = links.batch((2, 7), &edges, &Par::new(3), &mut Compact::default());
            prop_assert_eq!(&threads.expect("edges").batch.inputs, &got.batch.inputs);

            let gone: Vec<Pair> = edges.iter().map(|&e| train[e as usize]).collect();
            let other = sampler(&less(&whole, &gone));
            let expected = other.batch((2, 7), &got.batch.seeds, &par, &mut Compact::default()).expect("seeds");
            prop_assert_eq!(&got.batch.inputs, &expected.inputs);
            for (a, b) in got.batch.blocks.iter().zip(&expected.blocks) {
                let (a, b) = (a.csr(), b.csr());
                prop_assert_eq!((a.indptr, a.indices, a.weights), (b.indptr, b.indices, b.weights));
            }

            // Pairs are what they say, and seeds come in the order of their first appearance.
            let seeds = &got.batch.seeds;
            let vertices = |p: &Pair| p.map(|at| seeds[at as usize]);
            prop_assert_eq!(got.positives.iter().map(vertices).collect::<Vec<_>>(), gone.clone());
            let mut first = Vec::new();
            for at in got.positives.iter().chain(&got.negatives).flatten() {
                if !first.contains(at) { first.push(*at); }
            }
            prop_assert!(first.iter().copied().eq(0..seeds.len() as u32));
            prop_assert_eq!(got.beside.len(), got.negatives.len());
            prop_assert!(got.beside.is_sorted());
            for (negative, &p) in got.negatives.iter().zip(&got.beside) {
                let [u, v] = vertices(negative);
                if !uniform {
                    let edge = gone[p as usize];
                    prop_assert!(u == edge[0] && gone.iter().any(|g| g[1] == v));
                }
                // A small graph may be so dense that only edges are drawn.
                if !uniform || n > 60 && degree < 4 {
                    prop_assert!(u != v && !train.contains(&[u, v]) && !train.contains(&[v, u]));
                }
            }
            if uniform {
                prop_assert_eq!(got.negatives.len(), 2 * edges.len());
            }
        }

        /// An edge's own negatives do not depend on the others of its batch.
        #[test]
        fn uniform_negatives_depend_on_the_edge_alone(seed: u64, e in 0u32..100) {
            let whole = graph(100, 3, seed);
            let links = Links::new(Sampler::new(Arc::new(whole.clone()), vec![], seed), pairs(&whole), Negative::Uniform(3));
            let links = links.expect("vertices");
            let of = |batch: u64, edges: &[u32]| -> Vec<Pair> {
                let got = links.batch((1, batch), edges, &Par::new(1), &mut Compact::default()).expect("edges");
                let seeds = got.batch.seeds;
                let last = &got.negatives[got.negatives.len() - 3..];
                last.iter().map(|p| p.map(|at| seeds[at as usize])).collect()
            };
            prop_assert_eq!(of(0, &[e]), of(4, &[e / 2, 50, e]));
        }
    }

    #[test]
    fn wrong_edges_are_refused_with_words() {
        let whole = graph(20, 2, 1);
        let sampler = Sampler::new(Arc::new(whole), vec![FanOut::Of(2)], 1);
        let links = Links::new(sampler.clone(), vec![[0, 20]], Negative::Uniform(1));
        assert!(links.err().expect("no vertex").to_string().contains("20"));
        let links = Links::new(sampler, vec![[0, 1]], Negative::InBatch(1)).expect("vertices");
        let mut compact = Compact::default();
        let mut batch = |edges: &[u32]| links.batch((0, 0), edges, &Par::new(1), &mut compact);
        assert!(
            batch(&[1])
                .expect_err("no edge")
                .to_string()
                .contains("edges of a batch")
        );
        // One edge has no others beside it, and none needs no blocks.
        assert!(batch(&[0]).expect("an edge").negatives.is_empty());
        assert!(batch(&[]).expect("nothing").batch.seeds.is_empty());
    }
}
