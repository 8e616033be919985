//! Batches in the making, through the whole of what a rank has: however hops are split, and in whatever
//! order answers come, a batch is the same bit by bit; ranks that ask nobody draw what owners would have
//! drawn. Cannot catch: a batch that is wrong however it is made (`sampled.rs` and `feed/tests.rs` do).

use super::{random_owner, spec};
use crate::ctx::Ctx;
use crate::dataset::Dataset;
use crate::feed::{
    Halo, Historical, MadeBatch, MadeInput, Maker, Numbers, RowData, SeedsBy, SharedHistory,
};
use crate::model::ModelKind;
use crate::record::Direction;
use crate::sample::Hop;
use crate::spec::{RunSpec, Value};
use crate::strategy::mini_batch::{Base, Settings};
use crate::strategy::{Setup, distdgl, find};
use crate::testing::{random_dataset, world};
use kernels::{Mat, Par};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Edges by row, with the bits of their weights; ids of rows and columns, by layer; input rows.
type Bits = (
    Vec<(Vec<u64>, Vec<u32>, Vec<u32>)>,
    Vec<[Vec<u32>; 2]>,
    Vec<u32>,
);

fn bits(made: &MadeBatch) -> Bits {
    let floats = |x: &[f32]| -> Vec<u32> { x.iter().map(|x| x.to_bits()).collect() };
    let layers = &made.hops.layers;
    let blocks = layers.iter().filter_map(|layer| layer.block.as_ref());
    let edges = blocks.map(|block| {
        let a = block.csr();
        let weights = a.weights.map(floats).unwrap_or_default();
        (a.indptr.to_vec(), a.indices.to_vec(), weights)
    });
    let ids = layers.iter().map(|l| [l.rows.to_vec(), l.columns.to_vec()]);
    let input = match &made.input {
        MadeInput::Rows(RowData::Dense(x), _) => floats(x.as_slice().expect("contiguous")),
        MadeInput::InPlace(parts, RowData::Dense(x), _) => {
            let fetched = floats(x.as_slice().expect("contiguous"));
            let a = parts.iter().map(|(_, a)| a.view().indices.to_vec());
            [fetched, a.collect::<Vec<_>>().concat()].concat()
        }
        _ => unreachable!("features are dense and read"),
    };
    (edges.collect(), ids.collect(), input)
}

pub(crate) fn sampled(model: ModelKind, dropout: f64) -> RunSpec {
    let entry = find("distdgl").expect("registered");
    let mut pairs = spec(entry, model, 2, 8).to_pairs();
    pairs.retain(|(key, _)| !["fanout", "batch", "dropout"].contains(&key.as_str()));
    pairs.push(("fanout".into(), Value::Str("3,4".into())));
    pairs.push(("batch".into(), Value::Int(7)));
    pairs.push(("dropout".into(), Value::Float(dropout)));
    RunSpec::from_pairs(pairs).expect("valid pairs")
}

/// What `f` says of a maker on each rank.
pub(crate) fn with_maker<T: Send>(
    of: (&RunSpec, &Arc<Dataset>, usize),
    f: impl Fn(&mut Maker) -> T + Sync,
) -> Vec<T> {
    with_makers(of, |_| {}, |_, maker| f(maker))
}

/// What `f` says of a maker on each rank, whose settings `change` has changed.
fn with_makers<T: Send>(
    (spec, data, ranks): (&RunSpec, &Arc<Dataset>, usize),
    change: impl Fn(&mut Settings) + Sync,
    f: impl Fn(&mut Ctx, &mut Maker) -> T + Sync,
) -> Vec<T> {
    let owner = Arc::new(random_owner(data.n(), ranks, false, 3));
    world(spec, ranks, |cx, _| {
        let setup = Setup::of(Arc::clone(data), (ranks > 1).then(|| Arc::clone(&owner)));
        let mut settings = distdgl::settings(&cx.plan.spec).expect("readable");
        change(&mut settings);
        let base = Base::of(&setup, cx, settings).expect("a valid cut");
        let mut beside = base.start(cx).expect("starts");
        let mut makers = beside.makers(cx).expect("makers");
        let said = f(cx, &mut makers[0]);
        cx.comm.agree(&[0.0]).expect("in step");
        said
    })
}

/// A hop asked for in pieces gives the block of the whole hop.
#[test]
fn hops_in_pieces_give_the_unsplit_block() {
    let data = Arc::new(random_dataset(90, 700, 6, 3, false, 21));
    for (model, dropout) in [(ModelKind::Sage, 0.0), (ModelKind::Gat, 0.4)] {
        for ranks in 1..=3 {
            let of = |grain: usize| {
                let spec = sampled(model, dropout);
                let on = (&spec, &data, ranks);
                let change = |settings: &mut Settings| settings.grain = grain;
                with_makers(on, change, |_, maker| {
                    let batches = maker.seeds.batches();
                    let made = |step| bits(&maker.make(1, step).expect("made"));
                    (0..batches).map(made).collect::<Vec<_>>()
                })
            };
            let whole = of(usize::MAX);
            for grain in [1, 5, 64] {
                assert!(of(grain) == whole, "{model} on {ranks} ranks by {grain}");
            }
        }
    }
}

/// Several batches on their way at once, whose answers come mixed, are those made one after the other.
#[test]
fn batches_abreast_are_those_one_after_the_other() {
    let data = Arc::new(random_dataset(90, 700, 6, 3, false, 21));
    let spec = sampled(ModelKind::Sage, 0.0);
    for ranks in 1..=3 {
        let all = with_makers(
            (&spec, &data, ranks),
            |s| s.grain = 4,
            |_, maker| {
                let batches = maker.seeds.batches();
                let alone = |step| bits(&maker.make(1, step).expect("made"));
                let alone: Vec<Bits> = (0..batches).map(alone).collect();
                let start = |step| maker.start(1, step).expect("begun");
                let mut making: Vec<_> = (0..batches).map(start).collect();
                let mut made = vec![None; making.len()];
                let mut most = 0;
                while made.iter().any(Option::is_none) {
                    // The youngest first, so that batches are finished out of order.
                    for k in (0..making.len())
                        .rev()
                        .filter(|&k| made[k].is_none())
                        .collect::<Vec<_>>()
                    {
                        let whole = maker.go_on(&mut making[k]).expect("goes on");
                        made[k] = whole.map(|whole| bits(&whole));
                    }
                    let waiting = made.iter().filter(|m| m.is_none()).count();
                    most = most.max(waiting);
                    if let Some(k) = made.iter().position(Option::is_none) {
                        maker.wait(&mut making[k]).expect("an answer");
                    }
                }
                let made: Vec<Bits> = made.into_iter().flatten().collect();
                assert!(made == alone);
                (most, batches)
            },
        );
        for (most, batches) in all {
            // One rank asks nobody.
            let expected = if ranks == 1 { 0 } else { batches as usize };
            assert_eq!(most, expected);
        }
    }
}

/// Has rows of every second vertex, which are its number.
struct Even {
    own: std::ops::Range<u32>,
    numbers: Arc<Numbers>,
}

impl Even {
    fn has(&self, number: u32) -> bool {
        self.numbers.ids[number as usize].is_multiple_of(2)
    }
}

impl Historical for Even {
    fn keep(&mut self, _layer: usize, hop: &mut Hop) {
        let keep = |v: &u32| self.own.contains(v) || self.has(*v);
        let ends = hop.indptr.windows(2).scan(0, |end, span| {
            let row = &hop.sources[span[0] as usize..span[1] as usize];
            *end += row.iter().filter(|v| keep(v)).count() as u64;
            Some(*end)
        });
        let indptr = std::iter::once(0).chain(ends).collect();
        let mut kept = hop.sources.iter().map(keep);
        if let Some(weights) = &mut hop.weights {
            let mut kept = hop.sources.iter().map(keep);
            weights.retain(|_| kept.next() == Some(true));
        }
        let mut sources = hop.sources.clone();
        sources.retain(|_| kept.next() == Some(true));
        drop(kept);
        (hop.indptr, hop.sources) = (indptr, sources);
    }

    fn has(&self, _layer: usize, number: u32) -> bool {
        Even::has(self, number)
    }

    fn reads(&mut self, _layer: usize, below: &[u32], leaves: &[u32]) {
        assert!(below.iter().all(|v| self.own.contains(v)));
        assert!(leaves.iter().all(|v| !self.own.contains(v) && self.has(*v)));
    }

    fn features(&mut self, numbers: &[u32], _par: &Par) -> RowData {
        let x = Mat::from_shape_fn((numbers.len(), 6), |(k, _)| numbers[k] as f32);
        RowData::Dense(Arc::new(x))
    }
}

/// A rank that asks nobody draws what the owners would have drawn of its own vertices. Of others', those whose
/// rows are there are leaves, behind this rank's in the columns, and are in no row of the layer below, but of
/// the input; the rest is not in the batch.
#[test]
fn local_batches_draw_own_rows_and_end_at_others() {
    let data = Arc::new(random_dataset(90, 700, 6, 3, false, 21));
    let spec = sampled(ModelKind::Gcn, 0.0);
    for ranks in 1..=3 {
        let owner = random_owner(90, ranks, false, 3);
        let drawn = |halo: Halo| {
            let change = |settings: &mut Settings| {
                settings.halo = halo;
                settings.seeds = SeedsBy::Owner;
            };
            with_makers((&spec, &data, ranks), change, |cx, maker| {
                let wants = &mut maker.collector.wants;
                (wants.in_place, wants.leaves_apart) = (false, false);
                let numbers = Arc::clone(&maker.collector.reach.shard.numbers);
                let own = numbers.of(cx.rank());
                let even = || Arc::new(Mutex::new(Even { own, numbers })) as SharedHistory;
                maker.collector.history = (halo == Halo::Leaves).then(even);
                let batches = maker.seeds.batches();
                let made = |step| maker.make(1, step).expect("made");
                let made: Vec<MadeBatch> = (0..batches).map(made).collect();
                let letters = cx.post.as_ref().map(|post| post.take_sent(1));
                let all = made
                    .iter()
                    .map(|made| (bits(made), made.hops.inputs.to_vec()));
                (all.collect::<Vec<_>>(), letters.unwrap_or_default())
            })
        };
        let (local, asked) = (drawn(Halo::Leaves), drawn(Halo::Drawn));
        let steps: BTreeSet<usize> = local.iter().map(|r| r.0.len()).collect();
        assert_eq!(steps.len(), 1, "as many steps on every rank");
        for (rank, (local, asked)) in local.iter().zip(&asked).enumerate() {
            let own = |v: &u32| owner[*v as usize] as usize == rank;
            let sampled = |lane: &&(u16, Direction, u32)| lane.1 == Direction::Sample;
            assert_eq!(local.1.keys().filter(sampled).count(), 0, "nobody is asked");
            assert!(ranks == 1 || asked.1.keys().any(|lane| sampled(&lane)));
            for (((edges, ids, _), inputs), ((all, all_ids, _), _)) in local.0.iter().zip(&asked.0)
            {
                // The last layer's rows are the same, so what is drawn of them is.
                assert_eq!(ids[1][0], all_ids[1][0]);
                let named = |(indptr, indices, weights): &(Vec<u64>, Vec<u32>, Vec<u32>),
                             columns: &[u32]| {
                    let columns = indices.iter().map(|&c| columns[c as usize]);
                    (
                        indptr.clone(),
                        columns.collect::<Vec<u32>>(),
                        weights.clone(),
                    )
                };
                let there = |v: &u32| own(v) || v.is_multiple_of(2);
                let edges_of = |of: (Vec<u64>, Vec<u32>, Vec<u32>)| {
                    let rows = of.0.windows(2).enumerate();
                    let rows = rows.flat_map(|(r, span)| (span[0]..span[1]).map(move |_| r));
                    let each = rows.zip(of.1).zip(of.2);
                    each.filter(|((_, v), _)| there(v)).collect::<Vec<_>>()
                };
                let [mine, whole] = [named(&edges[1], &ids[1][1]), named(&all[1], &all_ids[1][1])];
                assert_eq!(edges_of(mine), edges_of(whole));
                let [rows, columns] = &ids[0];
                assert!(columns.starts_with(rows) && columns == inputs);
                assert!(rows.iter().all(own) && columns.iter().all(there));
                let [rows, columns] = &ids[1];
                let solid = ids[0][0].len();
                assert!(columns.starts_with(rows) && columns.starts_with(&ids[0][0]));
                assert!(!columns[solid..].iter().any(own), "leaves follow");
                assert!(columns.iter().all(there));
            }
        }
        let leaves = |r: &(Vec<(Bits, Vec<u32>)>, _)| {
            r.0.iter().any(|b| b.0.1[1][1].len() > b.0.1[0][0].len())
        };
        assert_eq!(local.iter().any(leaves), ranks > 1);
    }
}
