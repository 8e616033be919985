//! What sampling promises: edges of the graph, the right numbers of them, blocks that fit together, the
//! same for any threads and any company, the right probabilities, and sums without bias. Cannot catch:
//! time.

use super::draw::Draw;
use super::*;
use crate::graph::Propagation;
use crate::testing::{random_dataset, with_relations};
use proptest::prelude::*;
use std::collections::BTreeSet;

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

const TIMES: u64 = 20_000;

/// χ² of counts that should all be alike, by degrees of freedom.
fn chi_squared(counts: &[u64]) -> f64 {
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let terms = counts.iter().map(|&c| (c as f64 - mean).powi(2) / mean);
    terms.sum::<f64>() / (counts.len() - 1) as f64
}

/// Every set of three of seven edges comes as often; every edge of long rows does, too.
#[test]
fn uniform_draws_are_uniform() {
    let mut draw = Draw::default();
    let mut sets = std::collections::BTreeMap::new();
    for (d, k, count) in [(7, 3, 35), (7, 5, 21)] {
        sets.clear();
        for key in 0..TIMES {
            draw.distinct(rng::key(key, 0, Purpose::Sample, 0), d, k);
            *sets.entry(draw.picked.clone()).or_insert(0u64) += 1;
        }
        let counts: Vec<u64> = sets.values().copied().collect();
        assert_eq!(counts.len(), count);
        // 0.1 % of true samples have more than 1.9 with 34 degrees of freedom, 2.3 with 20.
        assert!(chi_squared(&counts) < 1.9, "{}", chi_squared(&counts));
    }
    for (d, k, replace) in [
        (100, 9, false),
        (100, 9, true),
        (100, 70, false),
        (5000, 300, false),
        (70_000, 2000, false),
    ] {
        let mut counts = vec![0u64; 50];
        for key in 0..200 * TIMES / k as u64 / 10 {
            let row = rng::key(key, 1, Purpose::Sample, 0);
            match replace {
                true => draw.repeated(row, d, k),
                false => draw.distinct(row, d, k),
            }
            assert_eq!(draw.picked.len(), k);
            assert!((draw.factor - d as f32 / k as f32).abs() < 1e-5);
            draw.picked
                .iter()
                .for_each(|&p| counts[p as usize * 50 / d] += 1);
        }
        // 0.1 % have more than 1.75 with 49 degrees of freedom.
        assert!(
            chi_squared(&counts) < 1.75,
            "{d} {k}: {}",
            chi_squared(&counts)
        );
    }
}

/// Rows of every length that marks are kept differently for.
#[test]
fn distinct_draws_are_distinct() {
    let mut draw = Draw::default();
    for d in [1, 2, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 70_000] {
        for k in [1, 2, 31, 32, 33, d / 2, d / 2 + 1, d - 1, d, d + 1] {
            draw.distinct(rng::key(d as u64, k as u64, Purpose::Sample, 0), d, k);
            assert_eq!(draw.picked.len(), k.min(d), "{k} of {d}");
            assert!(draw.picked.windows(2).all(|w| w[0] < w[1]), "{k} of {d}");
            assert!(draw.picked.last().is_none_or(|&p| (p as usize) < d));
        }
    }
}

/// The first of biased draws comes in proportion, and sums are estimated without bias.
#[test]
fn biased_draws_are_in_proportion_and_sums_without_bias() {
    let bias = [1.0f32, 0.0, 2.0, 4.0, 0.5, 8.0, 3.0, 1.5];
    let x = [3.0f64, 100.0, -1.0, 2.0, 5.0, 1.0, 0.5, -4.0];
    // What a bias of 0 hides cannot be estimated.
    let sum: f64 = x
        .iter()
        .zip(bias)
        .filter(|(_, b)| *b > 0.0)
        .map(|(x, _)| x)
        .sum();
    let mut draw = Draw::default();
    for replace in [false, true] {
        let mut pick = |key: u64, k: usize| {
            let row = rng::key(key, 2, Purpose::Sample, 0);
            match replace {
                true => draw.repeated_by(row, &bias, k),
                false => draw.distinct_by(row, &bias, k),
            }
            draw.picked
                .iter()
                .copied()
                .zip(draw.factors.iter().copied())
                .collect::<Vec<_>>()
        };
        let mut counts = [0u64; 8];
        (0..TIMES).for_each(|key| counts[pick(key, 1)[0].0 as usize] += 1);
        assert_eq!(counts[1], 0);
        let total: f32 = bias.iter().sum();
        let terms = counts
            .iter()
            .zip(bias)
            .filter(|(_, b)| *b > 0.0)
            .map(|(&c, b)| {
                let expected = TIMES as f64 * f64::from(b / total);
                (c as f64 - expected).powi(2) / expected
            });
        // 0.1 % have more than 22.5 with 6 degrees of freedom.
        assert!(terms.sum::<f64>() < 22.5, "{counts:?}");
        for k in [2, 3, 5] {
            let estimate = |key| -> f64 {
                let picks = pick(key, k);
                picks
                    .iter()
                    .map(|&(i, f)| x[i as usize] * f64::from(f))
                    .sum()
            };
            let estimates: Vec<f64> = (0..TIMES).map(estimate).collect();
            let mean = estimates.iter().sum::<f64>() / TIMES as f64;
            let spread = estimates.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / TIMES as f64;
            let error = (spread / TIMES as f64).sqrt();
            assert!(
                (mean - sum).abs() < 4.0 * error,
                "{k}: {mean} of {sum}, error {error}"
            );
        }
    }
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
