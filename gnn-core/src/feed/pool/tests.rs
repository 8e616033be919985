//! A batch as a graph of operations, done in any order that its state allows: nothing is done before what it reads
//! is there, nothing twice, and in the end everything has been found that the unsplit batch has. Cannot catch: what
//! threads do to each other (`strategy/bytegnn/tests.rs` does).

use super::dag::{Dag, Finder, Plan, Seeded, Todo};
use super::operation::{Operation, Operations};
use crate::feed::make::Maker;
use crate::feed::task::DrawAt;
use crate::model::ModelKind;
use crate::rng;
use crate::strategy::tests::feeds::{sampled, with_maker};
use crate::testing::random_dataset;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What has been done of a batch.
#[derive(Default)]
struct Done {
    /// By layer, rows that have been drawn; and rows that may be.
    drawn: Vec<BTreeSet<u32>>,
    known: Vec<BTreeSet<u32>>,
    fetched: BTreeSet<u32>,
    blocks: Vec<usize>,
    ended: bool,
}

/// Does the operations of a batch, the next one as `seed` will have it; how many there were.
fn run(maker: &mut Maker, at: (u64, u64), grain: usize, seed: u64) -> (Done, usize) {
    let making = maker.seeded(at.0, at.1).expect("seeds");
    let wants = maker.collector.wants;
    let shard = Arc::clone(&maker.collector.reach.shard);
    let width = maker.collector.reach.rows.width();
    let kept = |_| false;
    let finder = Finder {
        shard: &shard,
        is_kept: &kept,
        width,
    };
    let plan = Arc::new(Plan {
        grains: vec![grain; wants.layers],
        fetches: 2 * grain,
        ..Plan::new(wants, false, grain, &shard)
    });
    let mut done = Done {
        drawn: vec![BTreeSet::new(); wants.layers],
        known: vec![making.rows().iter().copied().collect(); wants.layers],
        ..Done::default()
    };
    let dag = Dag::new(3, at);
    let seeded = Seeded::Rows(Box::new(making));
    let mut ready: Vec<Todo> = dag.seeded(&plan, seeded, &finder);
    let mut count = 0;
    while !ready.is_empty() {
        let next = rng::below(seed, count as u64, ready.len() as u64) as usize;
        let Todo { what, ask, .. } = ready.swap_remove(next);
        count += 1;
        let ((place, part), logical) = (what, &plan.logical);
        let operator = logical.operator(place);
        let more = match (operator.name(), operator.layer()) {
            ("neighbourhood", Some(layer)) => {
                assert_eq!(place, logical.hop(layer));
                let rows = dag.state().rows_to_draw(layer, part);
                assert!(ask.is_none_or(|(owner, asked)| owner != shard.rank && asked == rows));
                for &v in &rows {
                    assert!(done.known[layer].contains(&v), "a row before it is found");
                    assert!(done.drawn[layer].insert(v), "a row that was drawn before");
                }
                let of = DrawAt {
                    layer,
                    at,
                    without: dag.without(),
                };
                let (hop, _) = maker.collector.reach.hop(of, &rows).expect("drawn");
                for below in &mut done.known[..layer] {
                    below.extend(&hop.sources);
                }
                dag.state().drawn(layer, part, hop, &finder)
            }
            ("features", None) => {
                let (owner, rows) = ask.expect("rows of others");
                assert_ne!(owner, shard.rank);
                for &v in &rows {
                    assert!(done.fetched.insert(v), "a row that was fetched before");
                }
                let rows = maker.collector.reach.fetch(&rows).expect("fetched");
                dag.state().fetched(part, rows, &finder)
            }
            ("block", Some(layer)) => {
                let (parts, making) = dag.state().take_hop(layer);
                let rows: BTreeSet<u32> = parts.iter().flat_map(|p| p.rows.clone()).collect();
                assert_eq!(rows, done.drawn[layer], "all of a layer's rows");
                assert!(parts.iter().all(|p| p.got.is_some()));
                let above = done.blocks.last().map_or(wants.layers, |&l| l);
                assert_eq!(layer + 1, above, "blocks from the last layer down");
                done.blocks.push(layer);
                dag.state().blocked(making, &finder)
            }
            ("end", None) => {
                assert_eq!(done.blocks.len(), wants.layers);
                assert!(!std::mem::replace(&mut done.ended, true), "a second end");
                Vec::new()
            }
            (name, _) => unreachable!("nothing says {name}"),
        };
        ready.extend(more);
    }
    (done, count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn operations_wait_for_what_they_read_and_find_what_the_unsplit_batch_has(
        n in 20usize..90, degree in 1usize..8, ranks in 1usize..4, grain in 1usize..12, dropout: bool, seed: u64,
    ) {
        let data = Arc::new(random_dataset(n, n * degree, 4, 3, false, seed));
        let spec = sampled(ModelKind::Sage, if dropout { 0.4 } else { 0.0 });
        with_maker((&spec, &data, ranks), |maker| {
            for step in 0..maker.seeds.batches() {
                let made = maker.make(1, step).expect("made");
                let (done, count) = run(maker, (1, step), grain, seed ^ step);
                assert!(done.ended && count > 0);
                let ids = &maker.collector.reach.shard.numbers.ids;
                for (layer, rows) in done.drawn.iter().enumerate() {
                    let found: BTreeSet<u32> = rows.iter().map(|&v| ids[v as usize]).collect();
                    let expected: BTreeSet<u32> = made.hops.layers[layer].rows.iter().copied().collect();
                    assert_eq!(found, expected, "rows of layer {layer}");
                }
                assert_eq!(done.fetched.len() as u64, made.stats.rows_remote);
            }
        });
    }

    /// Whatever comes when, what is taken is the first of what is there; and everything is taken.
    #[test]
    fn no_batch_waits_behind_a_younger_one(
        steps in prop::collection::vec((prop::bool::weighted(0.6), 0u64..6, 0u64..50), 1..200),
    ) {
        let mut all = Operations::default();
        let mut there: Vec<(u64, u64)> = Vec::new();
        for (comes, number, cost) in steps {
            if comes {
                let dag = Arc::new(Dag::new(number, (0, number)));
                all.push(Operation { dag, cost, what: (0, 0), came: None }, true);
                there.push((number, cost));
            } else if let Some(taken) = all.pop() {
                there.sort_unstable();
                prop_assert_eq!(there.remove(0), (taken.dag.number, taken.cost));
            } else {
                prop_assert!(there.is_empty());
            }
        }
        let left = std::iter::from_fn(|| all.pop()).count();
        prop_assert_eq!(left, there.len());
    }
}
