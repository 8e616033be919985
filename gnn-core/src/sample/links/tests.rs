//! Batches of edges: blocks are those of a graph that never had the edges, and pairs are what they say.

use super::*;
use crate::graph::{Block, Propagation};
use crate::sample::FanOut;
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
