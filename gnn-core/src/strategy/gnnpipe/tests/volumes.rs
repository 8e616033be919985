//! That one chunk is `single` in any shape; and what is sent and how much of it is old, by closed forms
//! that are counted here from the graph alone.

use super::{MODELS, pairs, random_chunks};
use crate::dataset::Dataset;
use crate::graph::{EdgeOptions, Graph};
use crate::model::ModelKind;
use crate::record::Direction;
use crate::rng;
use crate::spec::{RunSpec, Value};
use crate::strategy::STRATEGIES;
use crate::strategy::gnnpipe::ENTRY;
use crate::strategy::gnnpipe::frames::StageRow;
use crate::strategy::tests::{Trained, assert_same, train};
use crate::testing::{random_dataset, with_relations};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Stages and ranks of each, of all worlds of up to four.
const SHAPES: [(usize, usize); 8] = [
    (1, 1),
    (1, 2),
    (2, 1),
    (1, 3),
    (3, 1),
    (1, 4),
    (2, 2),
    (4, 1),
];
const LAYERS: usize = 4;
const HIDDEN: usize = 8;

/// A request for `strategy` with further settings, whose steps do not magnify rounding.
fn request(strategy: &str, model: ModelKind, more: &[(&str, usize)]) -> RunSpec {
    let mut all = pairs(strategy, model, LAYERS, HIDDEN);
    if model == ModelKind::Gin {
        all.retain(|(k, _)| k != "lr");
        all.push(("lr".into(), Value::Float(1e-5)));
    }
    let int = |(k, n): &(&str, usize)| ((*k).to_owned(), Value::Int(*n as i64));
    all.extend(more.iter().map(int));
    RunSpec::from_pairs(all).expect("valid pairs")
}

/// The same, in `stages` of `groups` ranks and `chunks`.
fn in_shape(
    model: ModelKind,
    (stages, groups): (usize, usize),
    chunks: usize,
    more: &[(&str, usize)],
) -> RunSpec {
    let shape = [
        ("ranks", stages * groups),
        ("stages", stages),
        ("groups", groups),
        ("chunks", chunks),
    ];
    let spec = request("gnnpipe", model, &[&shape, more].concat());
    ENTRY.check(&spec).expect("can be run");
    spec
}

#[test]
fn one_chunk_equals_single_in_any_shape() {
    let plain = random_dataset(40, 150, 5, 4, false, 3);
    let typed = Arc::new(with_relations(plain.clone(), 3, 3));
    let plain = Arc::new(plain);
    let single = &STRATEGIES[0];
    for &model in ENTRY.models {
        let data = match model {
            ModelKind::Rgcn => &typed,
            _ => &plain,
        };
        let expected = train(single, &request("single", model, &[]), data, None, 1);
        for shape in SHAPES {
            let spec = in_shape(model, shape, 1, &[]);
            let got = train(&ENTRY, &spec, data, None, spec.ranks);
            let what = format!("{model} in {shape:?} stages and ranks of each");
            assert_same(&what, model, &expected[0], &got);
        }
    }
}

/// A random graph whose edges all have their like in the other direction.
fn symmetric(n: usize, edges: usize, seed: u64) -> Dataset {
    let end = |i: usize| rng::below(seed, i as u64, n as u64) as u32;
    let (src, dst): (Vec<u32>, Vec<u32>) = (0..edges).map(|e| (end(2 * e), end(2 * e + 1))).unzip();
    let options = EdgeOptions {
        symmetrise: true,
        dedup: true,
        ..EdgeOptions::AS_IS
    };
    let mut data = random_dataset(n, 0, HIDDEN, 3, false, seed);
    data.graph = Graph::from_edges(n, &src, &dst, options).expect("edges are in range");
    data
}

/// Edges over which a model aggregates, as sources and destinations.
fn edges_of(data: &Dataset, model: ModelKind) -> Vec<(usize, usize)> {
    let block = data.graph.propagation(model.propagation());
    let near = |v: usize| block.csr().indices[block.csr().span(v)].iter();
    let all = (0..block.n_dst).flat_map(|v| near(v).map(move |&s| (s as usize, v)));
    all.collect()
}

/// Bytes of the last epoch in some directions, all ranks together.
fn sent(ranks: &[Trained], directions: &[Direction]) -> u64 {
    let last = ranks.iter().flat_map(|rank| rank.sent.last());
    let lanes = last
        .flatten()
        .filter(|(lane, _)| directions.contains(&lane.1));
    lanes.map(|(_, bytes)| bytes).sum()
}

/// The paper's section 3.5 and Table 5: `2(S - 1)` boundaries with V rows of H; within stages what the
/// halo of the nested cut is, in every layer but the first, whose features do not travel again; and
/// weight gradients once around each stage.
#[test]
fn bytes_are_those_of_the_closed_form() {
    const ROWS: [Direction; 2] = [Direction::Forward, Direction::Backward];
    let data = Arc::new(symmetric(60, 150, 5));
    let n = data.n() as u64;
    for model in MODELS {
        let residual = model == ModelKind::Gcnii;
        for (stages, groups) in SHAPES {
            for interleave in [1, 2] {
                if interleave == 2 && (stages == 1 || stages * 2 > LAYERS) {
                    continue;
                }
                let more = [("interleave", interleave)];
                let spec = in_shape(model, (stages, groups), 5, &more);
                let chunk = random_chunks(data.n(), 5, 2);
                let owner = chunk.iter().map(|&k| k as u32).collect();
                let ranks = train(&ENTRY, &spec, &data, Some(owner), spec.ranks);
                let what = format!("{model}, {stages} stages of {groups}, {interleave} pieces");
                let place = |v: usize| rng::below(0x4e57, v as u64, groups as u64);
                let boundary: BTreeSet<(u64, usize)> = match groups {
                    1 => BTreeSet::new(),
                    _ => edges_of(&data, model)
                        .into_iter()
                        .filter(|&(s, v)| place(s) != place(v))
                        .map(|(s, v)| (place(v), s))
                        .collect(),
                };
                // Layers that aggregate rows which are not features; for those two a dense layer is first.
                let dense = matches!(model, ModelKind::Gcnii | ModelKind::Resgcn);
                let layers = if dense { LAYERS } else { LAYERS - 1 } as u64;
                let within = 2 * 4 * HIDDEN as u64 * layers * boundary.len() as u64;
                let crossings = (stages * interleave - 1) as u64;
                let width = if residual { 2 } else { 1 } * HIDDEN as u64;
                let between = 2 * 4 * crossings * n * width;
                assert_eq!(sent(&ranks, &ROWS), within + between, "{what}");
                // Each rank has the gradients of its own layers; every member of a stage the same.
                let of_rank = |r: &Trained| r.gradients.iter().map(Vec::len).sum::<usize>();
                let held: usize = ranks.iter().map(of_rank).sum();
                let weights = 4 * 2 * (groups - 1) * held / groups;
                assert_eq!(sent(&ranks, &[Direction::Grad]), weights as u64, "{what}");
            }
        }
    }
}

/// On a symmetric graph every edge between two chunks is read old by the one that comes first, and its
/// like fresh by the other, whatever the order: half of them.
#[test]
fn the_stale_share_is_half_of_the_edges_between_chunks() {
    let data = Arc::new(symmetric(60, 150, 6));
    for chunks in [2, 5, 90] {
        let chunk = random_chunks(data.n(), chunks, 7);
        let owner: Vec<u32> = chunk.iter().map(|&k| k as u32).collect();
        for model in MODELS {
            let edges = edges_of(&data, model);
            let cross = edges.iter().filter(|(s, v)| chunk[*s] != chunk[*v]).count();
            for shape in [(1, 1), (2, 1), (2, 2)] {
                let spec = in_shape(model, shape, chunks, &[]);
                let ranks = train(&ENTRY, &spec, &data, Some(owner.clone()), spec.ranks);
                let rows = ranks.iter().flat_map(|rank| rank.rows::<StageRow>());
                let [mut all, mut stale] = [0, 0];
                for row in rows.filter(|row| row.epoch == 2) {
                    (all, stale) = (all + row.edges, stale + row.stale_edges);
                }
                let dense = matches!(model, ModelKind::Gcnii | ModelKind::Resgcn);
                let layers = if dense { LAYERS } else { LAYERS - 1 };
                let what = format!("{model}, {chunks} chunks, {shape:?}");
                assert_eq!(all, (layers * edges.len()) as u64, "{what}");
                assert_eq!(2 * stale, (layers * cross) as u64, "{what}");
            }
        }
    }
}
