//! What sampling promises: edges of the graph, the right numbers of them, blocks that fit together, the
//! same for any threads and any company, the right probabilities, and sums without bias. Cannot catch:
//! time.

mod odds;

use super::*;
use crate::graph::Propagation;
use crate::testing::{random_dataset, shim, with_relations};
use kernels::par::Par;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

fn sampler(n: usize, edges: usize, fan_outs: &[FanOut], seed: u64) -> Sampler {
    let graph = random_dataset(n, edges, 1, 2, false, seed).graph;
    Sampler::new(
        Arc::new(graph.propagation(Propagation::Mean)),
        fan_outs.to_vec(),
        seed,
    )
}

fn ways(base: Sampler) -> [Sampler; 4] {
    let replace = base.clone().with_replacement();
    [
        base.clone().by_degree(),
        replace.clone().by_degree(),
        base,
        replace,
    ]
}

fn drawn(sampler: &Sampler, seeds: &[u32], threads: usize) -> MiniBatch {
    let par = Par::new(threads);
    sampler
        .batch((3, 5), seeds, &par, &mut Compact::default())
        .expect("vertices")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn blocks_are_of_the_graph_and_fit_together(
        n in 1usize..200, degree in 0usize..9, k in 0u32..12, l in 0u32..6, seed: u64,
    ) {
        let fan_outs = [FanOut::Of(l), FanOut::All, FanOut::Of(k)];
        for sampler in ways(sampler(n, n * degree, &fan_outs, seed)) {
            let a = sampler.graph.csr();
            let seeds: Vec<u32> = (0..n as u32).step_by(3).collect();
            let batch = drawn(&sampler, &seeds, 1);
            let mut columns = batch.inputs.clone();
            prop_assert_eq!(columns.iter().collect::<BTreeSet<_>>().len(), columns.len());
            for (block, fan_out) in batch.blocks.iter().zip(&fan_outs) {
                prop_assert_eq!(block.n_src, columns.len());
                let csr = block.csr();
                for r in 0..block.n_dst {
                    let v = columns[r] as usize;
                    let got: Vec<u32> = csr.indices[csr.span(r)].iter().map(|&c| columns[c as usize]).collect();
                    let all = &a.indices[a.span(v)];
                    let (d, can) = match (&sampler.bias, fan_out) {
                        (None, _) | (_, FanOut::All) => (all.len(), all.len()),
                        (Some(bias), _) => (all.len(), bias[a.span(v)].iter().filter(|b| **b > 0.0).count()),
                    };
                    let expected = match fan_out {
                        FanOut::Of(k) if sampler.replace && can > 0 => *k as usize,
                        FanOut::Of(k) => can.min(*k as usize),
                        _ => d,
                    };
                    prop_assert_eq!(got.len(), expected);
                    prop_assert!(got.iter().all(|s| all.contains(s)));
                    if !sampler.replace {
                        // The graph may have an edge more than once; each is drawn once at most.
                        let times = |list: &[u32], s: u32| list.iter().filter(|&&t| t == s).count();
                        prop_assert!(got.iter().all(|&s| times(&got, s) <= times(all, s)));
                        prop_assert!(got.is_sorted());
                    }
                }
                columns.truncate(block.n_dst);
            }
            prop_assert_eq!(&columns, &seeds);
            prop_assert_eq!(&batch.seeds, &seeds);
        }
    }

    /// What is drawn for a vertex depends on nobody else: not on threads, nor on the other seeds.
    #[test]
    fn neither_threads_nor_company_change_a_draw(n in 2usize..1500, degree in 0usize..9, k in 0u32..9, seed: u64) {
        for sampler in ways(sampler(n, n * degree, &[FanOut::Of(k)], seed)) {
            let seeds: Vec<u32> = (0..n as u32).rev().collect();
            let row = |batch: &MiniBatch, v: u32| {
                let r = batch.seeds.iter().position(|&s| s == v).expect("a seed");
                let a = batch.blocks[0].csr();
                let edges = a.span(r).map(|e| (batch.inputs[a.indices[e] as usize], a.weight(e).to_bits()));
                edges.collect::<Vec<_>>()
            };
            let whole = drawn(&sampler, &seeds, 1);
            let threads = drawn(&sampler, &seeds, 3);
            prop_assert_eq!(&whole.inputs, &threads.inputs);
            prop_assert_eq!(whole.blocks[0].csr().indices, threads.blocks[0].csr().indices);
            for v in [0, n as u32 / 2, n as u32 - 1] {
                prop_assert_eq!(row(&whole, v), row(&drawn(&sampler, &[v], 1), v));
            }
        }
    }

    /// A part with all in-edges of its rows draws what the whole graph draws.
    #[test]
    fn a_part_draws_what_the_whole_graph_draws(
        n in 2usize..300, degree in 0usize..9, k in 0u32..9, of in 1u32..5, seed: u64,
    ) {
        for whole in ways(sampler(n, n * degree, &[FanOut::Of(k)], seed)) {
            let (mut rows, others): (Vec<u32>, Vec<u32>) =
                (0..n as u32).partition(|v| v.is_multiple_of(of));
            let mine = rows.clone();
            rows.extend(others);
            let part = part_of(&whole, mine.len(), rows);
            let ids = part.ids.clone().expect("given");
            let locals: Vec<u32> = (0..mine.len() as u32).rev().collect();
            let vertices: Vec<u32> = locals.iter().map(|&l| mine[l as usize]).collect();
            let par = Par::new(2);
            let ours = part.draw(0, (3, 5), &locals, &par);
            let all = whole.draw(0, (3, 5), &vertices, &par);
            let sources: Vec<u32> = ours.sources.iter().map(|&c| ids[c as usize]).collect();
            prop_assert_eq!((ours.indptr, sources, ours.weights), (all.indptr, all.sources, all.weights));
        }
    }
}

/// The first `rows` of `ids`, with all of their in-edges.
fn part_of(whole: &Sampler, rows: usize, ids: Vec<u32>) -> Sampler {
    let a = whole.graph.csr();
    let mut at = vec![0u32; ids.len()];
    ids.iter().zip(0..).for_each(|(&v, c)| at[v as usize] = c);
    let spans: Vec<_> = ids[..rows].iter().map(|&v| a.span(v as usize)).collect();
    let mut indptr = vec![0u64];
    for span in &spans {
        indptr.push(indptr[indptr.len() - 1] + span.len() as u64);
    }
    let edges = || spans.iter().cloned().flatten();
    let indices = edges().map(|e| at[a.indices[e] as usize]).collect();
    let weights = edges().map(|e| a.weight(e)).collect();
    let block = Block::new(rows, ids.len(), indptr, indices, Some(weights)).expect("fits");
    let bias = whole.bias.as_ref();
    let bias = bias.map(|b| Arc::new(edges().map(|e| b[e]).collect()));
    let part = Sampler {
        graph: Arc::new(block),
        bias,
        ..whole.clone()
    };
    part.with_ids(ids).expect("one a column")
}

/// What a device draws, through the host shim. It catches draws that are others than the host's.
#[test]
fn a_device_draws_what_the_host_draws() {
    let Some(device) = shim() else { return };
    let fan_outs = [FanOut::Of(4), FanOut::All, FanOut::Of(7), FanOut::Of(40)];
    for (n, edges, seed) in [(1, 0, 1), (60, 500, 2), (300, 9000, 3)] {
        let plain = sampler(n, edges, &fan_outs, seed);
        let typed = with_relations(random_dataset(n, edges, 1, 2, false, seed), 3, seed);
        let typed = typed.graph.propagation(Propagation::Mean);
        let typed = Sampler::new(Arc::new(typed), fan_outs.to_vec(), seed);
        let ids = (0..n as u32).map(|v| 5 * v + 2).collect();
        for host in [
            plain.clone().with_replacement(),
            plain.clone().unweighted(),
            plain.with_ids(ids).expect("one a column"),
            typed,
        ] {
            let on = host.clone().on_device(&device);
            let seeds: Vec<u32> = (0..n as u32).rev().step_by(2).collect();
            let (got, want) = (drawn(&on, &seeds, 1), drawn(&host, &seeds, 2));
            assert_eq!(got.inputs, want.inputs);
            for (got, want) in got.blocks.iter().zip(&want.blocks) {
                let lists = |b: &crate::graph::Block| {
                    let a = b.csr();
                    (
                        a.indptr.to_vec(),
                        a.indices.to_vec(),
                        a.weights.map(<[f32]>::to_vec),
                    )
                };
                assert_eq!(lists(got), lists(want));
                assert_eq!(got.types().map(|t| &t[..]), want.types().map(|t| &t[..]));
            }
        }
    }
    // What it cannot draw is the host's.
    let biased = sampler(60, 500, &[FanOut::Of(3)], 5).by_degree();
    let on = biased.clone().on_device(&device);
    assert_eq!(
        drawn(&on, &[3, 1], 1).inputs,
        drawn(&biased, &[3, 1], 1).inputs
    );
}

/// What a thread draws by itself is what all threads draw together.
#[test]
fn batches_at_a_time_are_those_one_after_the_other() {
    let base = sampler(300, 3000, &[FanOut::Of(3), FanOut::Of(5)], 7);
    let order: Vec<u32> = (0..300).collect();
    let lists: Vec<&[u32]> = order.chunks(70).collect();
    for (threads, count) in [(1, 5), (3, 5), (3, 2), (2, 0)] {
        let par = Par::new(threads);
        let mut compacts = Vec::new();
        let got = base.batches((1, 4), &lists[..count], &par, &mut compacts);
        let got = got.expect("vertices");
        assert_eq!(got.len(), count);
        for (k, (one, seeds)) in got.iter().zip(&lists).enumerate() {
            let at = (1, 4 + k as u64);
            let alone = base.batch(at, seeds, &par, &mut Compact::default());
            let alone = alone.expect("vertices");
            assert_eq!((&one.seeds, &one.inputs), (&alone.seeds, &alone.inputs));
            for (a, b) in one.blocks.iter().zip(&alone.blocks) {
                assert_eq!(
                    (a.csr().indices, a.csr().weights),
                    (b.csr().indices, b.csr().weights)
                );
            }
        }
    }
}

/// The same edges, with the graph's own weights or none.
#[test]
fn unweighted_leaves_out_the_factors() {
    let with = sampler(200, 3000, &[FanOut::Of(4)], 3);
    let seeds: Vec<u32> = (0..200).collect();
    let plain = drawn(&with.clone().unweighted(), &seeds, 1);
    let estimates = drawn(&with, &seeds, 1);
    let (a, b) = (plain.blocks[0].csr(), estimates.blocks[0].csr());
    assert_eq!(a.indices, b.indices);
    let whole = with.graph.csr();
    for &v in &seeds {
        // Of a mean all weights of a row are alike.
        let of_row = a.span(v as usize).map(|e| a.weight(e));
        assert!(
            of_row
                .into_iter()
                .all(|w| w == whole.weight(whole.span(v as usize).start))
        );
    }
    assert_ne!(a.weights, b.weights);
    let (indptr, indices) = (whole.indptr.to_vec(), whole.indices.to_vec());
    let bare = Block::new(200, 200, indptr, indices, None).expect("the graph's");
    let bare = Sampler {
        graph: Arc::new(bare),
        ..with
    };
    assert!(drawn(&bare, &seeds, 1).blocks[0].csr().weights.is_some());
    assert!(
        drawn(&bare.unweighted(), &seeds, 1).blocks[0]
            .csr()
            .weights
            .is_none()
    );
}

/// Everything taken is the graph itself, weights and types included.
#[test]
fn all_of_everything_is_the_graph() {
    let data = with_relations(random_dataset(60, 300, 1, 2, false, 4), 3, 4);
    let graph = data.graph.propagation(Propagation::RelationMean);
    for fan_out in [FanOut::All, FanOut::Of(1000)] {
        let sampler = Sampler::new(Arc::new(graph.clone()), vec![fan_out], 1);
        let seeds: Vec<u32> = (0..60).collect();
        let batch = drawn(&sampler, &seeds, 2);
        let (a, b) = (graph.csr(), batch.blocks[0].csr());
        assert_eq!(batch.inputs, seeds);
        assert_eq!(
            (a.indptr, a.indices, a.weights),
            (b.indptr, b.indices, b.weights)
        );
        let types = |b: &Block| b.types().map(|t| t.to_vec());
        assert_eq!(types(&graph), types(&batch.blocks[0]));
    }
}

#[test]
fn epochs_batches_layers_and_seeds_draw_apart() {
    let base = sampler(400, 8000, &[FanOut::Of(4), FanOut::Of(4)], 1);
    let seeds: Vec<u32> = (0..400).collect();
    let par = Par::new(1);
    let of = |sampler: &Sampler, at| {
        let batch = sampler.batch(at, &seeds, &par, &mut Compact::default());
        let batch = batch.expect("vertices");
        let sources = |b: &Block, ids: &[u32]| -> Vec<u32> {
            b.csr().indices.iter().map(|&c| ids[c as usize]).collect()
        };
        // All vertices are rows of both blocks, so that numbers are vertices.
        [0, 1].map(|l| sources(&batch.blocks[l], &batch.inputs))
    };
    let other = sampler(400, 8000, &[FanOut::Of(4), FanOut::Of(4)], 2);
    let first = of(&base, (0, 0));
    assert_eq!(first, of(&base, (0, 0)));
    assert_ne!(first[0], first[1]);
    assert_ne!(first, of(&base, (1, 0)));
    assert_ne!(first, of(&base, (0, 1)));
    let again = Sampler {
        graph: Arc::clone(&base.graph),
        ..other
    };
    assert_ne!(first, of(&again, (0, 0)));
}

#[test]
fn wrong_seeds_and_biases_are_refused_with_words() {
    let base = sampler(10, 30, &[FanOut::Of(2)], 1);
    let edges = base.graph.n_edges();
    let par = Par::new(1);
    let e = base.batch((0, 0), &[3, 10], &par, &mut Compact::default());
    assert!(e.expect_err("no vertex").to_string().contains("10"));
    let e = base.clone().with_ids(vec![0; 9]).expect_err("too few");
    assert!(e.to_string().contains("ids of a sampler"), "{e}");
    let part = part_of(&base, 4, (0..10).collect());
    let two = Sampler {
        fan_outs: vec![FanOut::All; 2],
        ..part
    };
    let e = two.batch((0, 0), &[3], &par, &mut Compact::default());
    assert!(e.expect_err("a part").to_string().contains("hops"));
    let e = base.clone().with_bias(vec![1.0; edges + 1]);
    assert!(
        e.expect_err("too many")
            .to_string()
            .contains(&edges.to_string())
    );
    for wrong in [-1.0, f32::NAN, f32::INFINITY] {
        let mut bias = vec![1.0; edges];
        bias[2] = wrong;
        let e = base.clone().with_bias(bias).expect_err("no bias");
        assert!(e.to_string().contains("edge 2"), "{e}");
    }
}
