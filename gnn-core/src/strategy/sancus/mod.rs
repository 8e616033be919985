//! SANCUS: a rank does not broadcast its rows while the ones sent before are fresh enough.
//!
//! # Paper
//! Peng et al., "SANCUS: Staleness-Aware Communication-Avoiding Full-Graph Decentralized Training in
//! Large-Scale Graph Neural Networks", PVLDB 15(9), 2022,
//! <https://www.vldb.org/pvldb/vol15/p1937-peng.pdf>.
//! # Idea
//! [`broadcast`](super::broadcast) sends every rank's rows `H_j` to everybody, each layer and epoch.
//! Rows change slowly, so every rank keeps, per layer, the last `H̃_j` that it got and the epoch it
//! is of. A rank is *active* and broadcasts, or *stale*: then everybody multiplies by the kept
//! `H̃_j`, and nothing at all is sent. A stale rank still receives. A rank's own block is never a
//! kept one.
//!
//! | `bound` | a rank is active when | who knows |
//! |---|---|---|
//! | `epoch-fixed=E` (Algorithm 4) | its kept rows are older than `E` epochs | everybody |
//! | `epoch-adaptive=A` (Algorithm 5) | some rank finds its kept rows older than `A` | everybody |
//! | `variation=H` (Algorithm 6) | `‖H_i − H̃_i‖ > H` | itself |
//!
//! With `E = 1` the rows travel every second epoch. Algorithm 5 can be read in two ways, `wake`:
//!
//! | `wake` | what `EndProcedure for P(j)` ends | eight ranks, A1 |
//! |---|---|---|
//! | `every` (default) | the look of `P(j)`, which is active now; the others look on | save what E1 saves, as in Table 5; rows are at most `A` epochs old |
//! | `one` | the look of whoever has found `P(j)` | at most two are refreshed an epoch: save half as much again, and rows grow to 4 epochs while they queue |
//!
//! Either way ranks are refreshed in different epochs. Where all are too old at once, as after the first
//! `A + 1` epochs, nobody is left to look at the last: its rows are `A + 1` old that once, and then it
//! and the others take turns (`bound.rs`).
//! # Agreement
//! The epochs of kept rows are the same on every rank, since broadcasts reach everybody. So the
//! first two bounds need no word: each rank works out who is active. For the third each rank
//! broadcasts one word, active or not, before its layer's products; it is counted (`bytes_agreed`
//! in the `stale` frame, and in `comm`).
//! # Norm
//! `norm=relative` (default) compares `‖H − H̃‖ / ‖H‖`; `absolute` is the paper's. The absolute norm
//! of a block grows with its rows and its width: the same bound means something else on another
//! number of ranks. Dropout counts as variation, since two epochs' masks differ.
//! # Backward
//! Gradients always travel. With `clip = th > 0` a rank scales its block of them to the L2 norm
//! `th · √N` where it is larger, before it is sent or used; that saves no bytes.
//! # Features
//! Where the first layer aggregates the features themselves, they are sent once: they never change,
//! and dropout's mask is made anew by whoever needs it. The `stale` frame shows those bytes under
//! the state `input`, so that they are not taken for savings of the bound.
//! # SkipG
//! [`SKIPG`] bounds the staleness of gradients instead: rows always travel forward, and it is the
//! backward blocks that are kept and skipped. The paper's comparison, which loses more accuracy. Here it
//! does with three layers and large steps, on Cora by means of ten seeds
//! (`tests/real_data/sancus.rs` holds that), and otherwise loses no more.
//! # Bytes
//! Each layer `4 · width · |V_j| · (N − 1)` for every active rank `j`, the gradients' as for
//! `broadcast`. A stale rank sends nothing of its own, and hands on what active ones send where blocks
//! go around the ring ([`Communicator::post_broadcast`](crate::comm::Communicator::post_broadcast)).
//! # Differs
//! A run that goes on from a checkpoint has its kept rows; features travel once more.
//! Evaluation sends everything anew and keeps nothing. The paper also caches the features' block
//! and counts what that saves. Ranks are in step, so all keep rows of the same epochs; where they are not,
//! as in the paper, refreshes scatter more (Figure 24).
//! # Measured
//! Accuracy and bytes saved: `notebooks/measured/sancus.md`.
//! # Exact when
//! `bound=epoch-fixed=0` or `variation=0`, with `clip=0`: then the bits are those of `broadcast`.

mod bound;
mod cache;
mod clip;
mod features;
#[cfg(test)]
mod tests;

use super::broadcast::{FIXED_WEIGHTS, OVERLAP};
use super::full_graph::block_rows::{self, BlockRows, OnBlocks, Trip};
use super::full_graph::{Freshness, StaleRow};
use super::{Built, Entry, Exact, Knob, Setup};
use crate::backend::Mat;
use crate::checkpoint::State;
use crate::comm::Label;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Aggregate, Aggregation, At};
use crate::record::Direction;
use crate::record::frame::FrameRow;
use crate::spec::{Knobs, Value};
use bound::{Bound, Wake};
use cache::Cache;
use features::Features;
use std::collections::BTreeMap;

/// The settings.
struct Policy {
    bound: Bound,
    wake: Wake,
    relative: bool,
    /// The L2 norm `th` to which gradients are clipped; 0 for never.
    clip: f64,
    /// Whether drift is measured where the bound does not need it.
    drift: bool,
    /// The direction in which broadcasts are skipped.
    skips: Direction,
}

/// Block rows that are sent when they have become too stale.
struct Sancus {
    blocks: BlockRows,
    policy: Policy,
    /// What was received last, by layer.
    caches: BTreeMap<usize, Cache>,
    features: Option<Features>,
}

impl Sancus {
    /// A product whose other blocks are the kept ones, but for those of active ranks.
    fn bounded(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let cache = self
            .caches
            .entry(at.layer)
            .or_insert_with(|| Cache::new(cx.size()));
        let drift = self.policy.measures().then(|| cache.drift(cx, x)).flatten();
        let active = match self.policy.bound {
            Bound::EpochFixed(most) => bound::epoch_fixed(&cache.versions, cx.epoch, most),
            Bound::EpochAdaptive(most) => {
                bound::epoch_adaptive(&cache.versions, cx.epoch, most, self.policy.wake)
            }
            Bound::Variation(most) => {
                // What is not a number is no reason to keep old rows.
                let far = |d| {
                    let size = self.policy.size(d);
                    size > most || size.is_nan()
                };
                agree(cx, at, drift.is_none_or(far))?
            }
        };
        let agreed = 4 * u64::from(self.policy.bound.needs_agreement());
        let state = |is_active| match is_active {
            true => Freshness::Active,
            false => Freshness::Stale,
        };
        cache.note(cx, at, x, state(active[cx.rank()]), drift, agreed);
        self.blocks.foresee(cx, at, x.ncols(), &active);
        cache.renew(cx, x, &active, self.policy.measures());
        let trip = Trip {
            at,
            own: x,
            sent: x,
            travels: &active,
        };
        let product = self.blocks.product(cx, &trip, &mut |_, root, arrived| {
            cache.block(root, arrived)
        });
        self.report(cx);
        product
    }

    /// Tells how large the caches are.
    fn report(&self, cx: &Ctx) {
        let features = self.features.as_ref().map_or(0, Features::bytes);
        let caches = self.caches.values().map(Cache::bytes).sum::<u64>();
        cx.caches(features + caches);
    }
}

impl Policy {
    fn of(knobs: &Knobs, skips: Direction) -> Policy {
        Policy {
            bound: Bound::parse(knobs.word("bound")).expect("the knob's check parsed it"),
            wake: match knobs.word("wake") {
                "one" => Wake::One,
                _ => Wake::Every,
            },
            relative: knobs.word("norm") == "relative",
            clip: knobs.number("clip"),
            drift: knobs.flag("drift"),
            skips,
        }
    }

    /// Whether a rank compares its rows with those it sent last.
    fn measures(&self) -> bool {
        self.drift || matches!(self.bound, Bound::Variation(_))
    }

    /// A drift in the norm of the bound.
    fn size(&self, drift: cache::Drift) -> f64 {
        if self.relative {
            drift.relative
        } else {
            drift.l2
        }
    }
}

/// Every rank's word on whether it is active. Collective.
fn agree(cx: &mut Ctx, at: At, mine: bool) -> Result<Vec<bool>> {
    let label = Label {
        layer: at.layer as u16,
        direction: at.direction,
    };
    let word = vec![f32::from(u8::from(mine))];
    let mut tickets = Vec::with_capacity(cx.size());
    for peer in (0..cx.size()).filter(|&peer| peer != cx.rank()) {
        cx.predict((label.layer, label.direction, peer as u32), 4);
    }
    for root in 0..cx.size() {
        tickets.push(cx.comm.post_broadcast(label, root, word.clone(), 1)?);
    }
    let mut active = Vec::with_capacity(tickets.len());
    for ticket in tickets {
        active.push(cx.comm.finish(ticket)?.concat() == [1.0]);
    }
    Ok(active)
}

impl Aggregate for Sancus {
    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        if let Some(features) = &mut self.features
            && at.layer == 0
            && at.direction != Direction::Backward
        {
            let product = features.product(cx, &self.blocks, at, x);
            self.report(cx);
            return product;
        }
        let clipped = match at.direction {
            Direction::Backward => clip::clipped(cx, x, self.policy.clip),
            _ => None,
        };
        let x = clipped.as_ref().unwrap_or(x);
        if at.direction == self.policy.skips {
            return self.bounded(cx, at, x);
        }
        self.blocks.exact(cx, at, x)
    }

    fn save(&self, cx: &Ctx, own: &mut State) {
        for (layer, cache) in &self.caches {
            own.put_number(format!("stale/{layer}"), *layer as u64);
            cache.save(cx, &format!("stale/{layer}"), own);
        }
    }

    fn restore(&mut self, cx: &Ctx, own: &mut State) -> Result<()> {
        let named =
            |(name, &layer): (&String, &u64)| (*name == format!("stale/{layer}")).then_some(layer);
        let layers: Vec<u64> = own.numbers.iter().filter_map(named).collect();
        for layer in layers {
            let cache = Cache::restore(cx, &format!("stale/{layer}"), own);
            self.caches.insert(layer as usize, cache);
        }
        Ok(())
    }
}

fn build_skipping(setup: Setup, cx: &mut Ctx, skips: Direction) -> Result<Built> {
    block_rows::build(setup, cx, |cx, parts| {
        let OnBlocks {
            blocks,
            members,
            model,
            input,
            mut aggregations,
        } = parts;
        let spec = &cx.plan.spec;
        let own = input.dense().filter(|_| model.aggregates_features());
        let features = own.map(|own| Features::new(own, members, spec));
        let once = |a: &Aggregation| {
            features.is_some() && (a.layer, a.direction) == (0, Direction::Forward)
        };
        aggregations.retain(|a| a.direction != skips && !once(a));
        let policy = Policy::of(&spec.knobs, skips);
        let caches = BTreeMap::new();
        (
            Sancus {
                blocks,
                policy,
                caches,
                features,
            },
            aggregations,
        )
    })
}

const KNOBS: &[Knob] = &[
    Knob {
        name: "bound",
        default: "epoch-fixed=1",
        doc: "when kept rows are too stale: epoch-fixed=E or epoch-adaptive=A epochs, or variation=H",
        check: |v| matches!(v, Value::Str(text) if Bound::parse(text).is_some()),
    },
    Knob {
        name: "wake",
        default: "every",
        doc: "of epoch-adaptive=A: every rank whose rows are too old is woken, or each rank wakes one",
        check: |v| matches!(v, Value::Str(s) if s == "every" || s == "one"),
    },
    Knob {
        name: "norm",
        default: "relative",
        doc: "of variation=H: relative to the rows' own L2 norm, or absolute",
        check: |v| matches!(v, Value::Str(s) if s == "relative" || s == "absolute"),
    },
    Knob {
        name: "clip",
        default: "0",
        doc: "gradients are clipped to this L2 norm times the root of the number of ranks; 0 never",
        check: |v| v.as_f64().is_some_and(|th| th >= 0.0 && th.is_finite()),
    },
    Knob {
        name: "drift",
        default: "false",
        doc: "measure how far kept rows are from the present ones, also where the bound does not ask",
        check: |v| matches!(v, Value::Bool(_)),
    },
    OVERLAP,
];

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "sancus",
    paper: "https://www.vldb.org/pvldb/vol15/p1937-peng.pdf",
    summary: "block rows; a rank skips its broadcast while what it sent before is fresh enough",
    models: FIXED_WEIGHTS,
    knobs: KNOBS,
    exact: Exact::With(&[("bound", "epoch-fixed=0")]),
    frames: &[StaleRow::FRAME],
    resumes: true,
    build: |setup, cx| build_skipping(setup, cx, Direction::Forward),
    ..Entry::BASE
};

/// The entry of its losing comparison: the same bounds on gradients.
pub const SKIPG: Entry = Entry {
    name: "skipg",
    summary: "block rows; gradients, not embeddings, are reused while fresh enough",
    build: |setup, cx| build_skipping(setup, cx, Direction::Backward),
    ..ENTRY
};
