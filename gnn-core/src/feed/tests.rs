//! What ranks draw together: the very edges, in the very order, that one rank draws, whoever owns what;
//! and the rows they pull are those of the data set. Cannot catch: an error that one rank has too
//! (`sample/tests.rs` does).

use super::cut::RankPart;
use super::task::DrawAt;
use super::*;
use crate::graph::{Propagation, WeightedRows};
use crate::rng;
use crate::sample::{FanOut, Sampler};
use crate::spec::{RunSpec, Value};
use crate::testing::{random_dataset, with_relations, world};
use kernels::par::Par;
use proptest::prelude::*;
use std::sync::Arc;

/// By row: its sources by the data set's ids, the bits of their weights, and their types.
type Drawn = Vec<Vec<(u32, u32, u16)>>;

/// Waits a little, or not at all, as the clock and `seed` will have it.
pub(super) fn delay(seed: Option<u64>) {
    let Some(seed) = seed else { return };
    let drawn = rng::below(seed, crate::record::now_ns(), 8);
    match drawn {
        0 => std::thread::sleep(std::time::Duration::from_micros(400)),
        1..4 => std::thread::yield_now(),
        _ => {}
    }
}

fn spec() -> RunSpec {
    let pairs = [("strategy", Value::Str("distdgl".into()))];
    RunSpec::from_pairs(pairs).expect("valid pairs")
}

/// What each rank draws of the vertices `wanted`, and the features it gets of them.
fn drawn(
    ranks: usize,
    (n, edges): (usize, usize),
    fan_out: FanOut,
    (replace, typed): (bool, bool),
    seed: u64,
) -> Vec<(Drawn, Vec<Vec<f32>>)> {
    let mut data = random_dataset(n, edges, 3, 2, false, seed);
    if typed {
        data = with_relations(data, 3, seed);
    }
    let way = if typed {
        Propagation::RelationMean
    } else {
        Propagation::Mean
    };
    let rows = WeightedRows::new(&data.graph, None, way);
    let pick = |v: u32| rng::below(seed ^ 5, u64::from(v), ranks as u64) as u32;
    let owner: Vec<u32> = (0..n as u32).map(pick).collect();
    world(&spec(), ranks, |cx, _| {
        let by = Ownership {
            owner: Some(&owner),
            rank: cx.rank(),
            ranks,
        };
        let RankPart {
            numbers,
            own,
            halo,
            block,
            columns,
            ..
        } = cut(&rows, None, by).expect("a valid cut");
        let here = [&own[..], &halo[..]].concat();
        let typed = block.n_relations();
        let mut sampler = Sampler::new(Arc::new(block), vec![fan_out.clone()], seed);
        sampler = sampler.with_ids(here).expect("one a column");
        if replace {
            sampler = sampler.with_replacement();
        }
        let shard = Shard::new(cx.rank(), numbers, sampler, columns, typed);
        let shard = Arc::new(shard);
        let rows = match data.features.select_rows(&own) {
            crate::dataset::Features::Dense(x) => RowData::Dense(Arc::new(x)),
            _ => unreachable!("made dense"),
        };
        let post = cx.post.clone().expect("works in the background");
        let served = Served {
            shard: Arc::clone(&shard),
            rows: rows.clone(),
            hidden: Arc::default(),
            table: None,
            delays: None,
        };
        let server = Server::start(&post, served, Turn::Cost).expect("a thread");
        let all = Arc::clone(&shard.numbers);
        let mut reach = Reach {
            cache: Arc::new(Cache::none(&rows)),
            shard,
            rows,
            hidden: None,
            desk: Some(Desk::new(post.open(SERVER + 1).expect("a mailbox"))),
            par: Arc::new(Par::new(1)),
            halo: Halo::Drawn,
            counted: 0,
        };
        // Every vertex, in an order of its own.
        let mut wanted: Vec<u32> = (0..n as u32).collect();
        rng::shuffle(seed, &mut wanted);
        let number = |v: &u32| all.ids.iter().position(|id| id == v).expect("numbered") as u32;
        let asked: Vec<u32> = wanted.iter().map(number).collect();
        let of = DrawAt {
            layer: 0,
            at: (2, 7),
            without: None,
        };
        let (hop, _) = reach.hop(of, &asked).expect("drawn");
        let edge = |e: usize| {
            let weight = hop.weights.as_ref().map_or(0, |w| w[e].to_bits());
            let kind = hop.types.as_ref().map_or(0, |t| t[e]);
            (all.ids[hop.sources[e] as usize], weight, kind)
        };
        let edges = hop.indptr.windows(2);
        let edges = edges.map(|w| (w[0] as usize..w[1] as usize).map(edge).collect());
        let others: Vec<u32> = asked
            .iter()
            .copied()
            .filter(|&v| all.owner(v) != cx.rank())
            .collect();
        let fetched = reach.fetch(&others).expect("fetched");
        let RowData::Dense(x) = fetched else {
            unreachable!("made dense")
        };
        let mut features = vec![Vec::new(); n];
        for (&number, row) in others.iter().zip(x.rows()) {
            features[all.ids[number as usize] as usize] = row.to_vec();
        }
        let drawn = edges.collect();
        cx.comm.agree(&[0.0]).expect("in step");
        drop(reach);
        drop(server);
        (drawn, features)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_number_of_ranks_draws_the_same(
        n in 1usize..60, degree in 0usize..8, k in 0u32..6, all: bool, replace: bool, typed: bool, seed: u64,
    ) {
        let fan_out = if all { FanOut::All } else { FanOut::Of(k) };
        let draw = |ranks| drawn(ranks, (n, n * degree), fan_out.clone(), (replace, typed), seed);
        let alone = draw(1).remove(0).0;
        let features = random_dataset(n, 0, 3, 2, false, seed).features;
        let crate::dataset::Features::Dense(x) = features else { unreachable!("made dense") };
        for ranks in 2..=4 {
            for (rank, (drawn, rows)) in draw(ranks).into_iter().enumerate() {
                prop_assert_eq!(&drawn, &alone, "rank {} of {}", rank, ranks);
                for (v, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
                    prop_assert_eq!(row, &x.row(v).to_vec(), "features of {}", v);
                }
            }
        }
    }
}
