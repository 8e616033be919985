//! A halo exchange that asks, each time, whether rows travel: the narrowest seam for a strategy, and the
//! one that a few lines in a cell implement.
//!
//! # Idea
//! As `halo`, but before a layer's remote rows are fetched, and before their gradients go
//! back to their owners, the strategy is asked: afresh, or those of the last time again? Reused rows and
//! gradients are constants of the epoch in which they travelled. Evaluation is not asked and always fetches.
//! # Agreement
//! An exchange is collective: every rank has to decide alike. What every rank knows (the epoch, the layer,
//! [`Exchange::age`], [`Exchange::drift`], settings) decides alike; a rank's own rows do not.
//! # Bytes
//! Those of `halo` for every exchange that fetches, none for one that reuses.
//! # Exact when
//! Every exchange fetches afresh.

use super::{Freshness, StaleRow};
use crate::backend::Mat;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::model::{At, Neighbours};
use crate::record::Direction;
use crate::record::frame::FrameRow;
use crate::spec::Knobs;
use crate::strategy::halo::{self, Halo};
use crate::strategy::{Built, Setup};
use std::collections::BTreeMap;

/// What decides when remote rows travel. Cells know it as `Strategy`.
pub trait ExchangeRule {
    /// Says what becomes of one exchange: [`Exchange::fetch_fresh`] or [`Exchange::reuse_last`]. Asked for
    /// each layer, forward for rows and backward for their gradients, in the same order on every rank.
    ///
    /// # Errors
    /// Whatever it meets; every rank ends then.
    fn exchange(&mut self, x: &mut Exchange<'_>) -> Result<()>;
}

/// What travelled last at one place of the model.
struct Last {
    epoch: u64,
    /// Remote rows `[n_remote, d]`, or for each peer the gradients of the rows that it reads.
    parts: Vec<Mat>,
    /// What this rank's part in it was, where drift is asked for ([`sent`]).
    sent: Option<Mat>,
}

/// One exchange that is to be decided.
pub struct Exchange<'a> {
    cx: &'a mut Ctx,
    at: At,
    last: Option<&'a Last>,
    /// This rank's rows, or the gradients of all that it reads.
    x: &'a Mat,
    n_local: usize,
    fresh: Option<bool>,
    drift: Option<f64>,
    asked_drift: bool,
}

impl Exchange<'_> {
    /// Epoch, from 0.
    pub fn epoch(&self) -> usize {
        self.cx.epoch as usize
    }

    /// Layer, from 0.
    pub fn layer(&self) -> usize {
        self.at.layer
    }

    /// Whether gradients are about to go back to the owners of rows; else rows come from them.
    pub fn backward(&self) -> bool {
        self.at.direction == Direction::Backward
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.cx.rank()
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.cx.size()
    }

    /// Adds a row to a frame of the strategy's own, of this epoch and rank. Evaluation is not recorded.
    pub fn row<R: FrameRow + 'static>(&self, row: R) {
        self.cx.row(row);
    }

    /// Epochs since the rows at hand travelled; none before the first time.
    pub fn age(&self) -> Option<usize> {
        self.last.map(|last| (self.cx.epoch - last.epoch) as usize)
    }

    /// By how much this rank's rows have changed since they travelled last, `‖H − H̃‖ / ‖H‖` (backward, the
    /// gradients that it is to send back): the largest of all ranks, so that every rank decides alike. Infinite before the first time, and the first time
    /// that it is asked for. Collective; 8 bytes from every rank to every other.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub fn drift(&mut self) -> Result<f64> {
        self.asked_drift = true;
        if let Some(drift) = self.drift {
            return Ok(drift);
        }
        let cx = &mut *self.cx;
        let now = sent(cx, self.at, self.x, self.n_local);
        let mine = match self.last.and_then(|last| last.sent.as_ref()) {
            None => f64::INFINITY,
            Some(then) => {
                let mut apart = cx.backend.copy(then);
                cx.backend.axpby(1.0, &now, -1.0, &mut apart);
                let (apart, size) = (cx.norm(&apart), cx.norm(&now));
                if apart == 0.0 { 0.0 } else { apart / size }
            }
        };
        let all = cx.comm.agree(&[mine])?;
        // What is not a number is no reason to keep old rows.
        let largest = all.concat().into_iter().fold(0.0, |most: f64, d| {
            if d.is_nan() {
                f64::INFINITY
            } else {
                most.max(d)
            }
        });
        self.drift = Some(largest);
        Ok(largest)
    }

    /// The rows travel.
    ///
    /// # Errors
    /// None; it is a result so that it can end [`ExchangeRule::exchange`].
    pub fn fetch_fresh(&mut self) -> Result<()> {
        self.fresh = Some(true);
        Ok(())
    }

    /// Those of the last time are used again, and nothing travels. Before the first time, they travel.
    ///
    /// # Errors
    /// As [`Exchange::fetch_fresh`].
    pub fn reuse_last(&mut self) -> Result<()> {
        self.fresh = Some(self.last.is_none());
        Ok(())
    }
}

/// The rows of a rank's matrix whose change matters to others: forward its own `[n_local, d]`, backward the
/// gradients of remote ones `[n_remote, d]`.
fn sent(cx: &Ctx, at: At, x: &Mat, n_local: usize) -> Mat {
    let rows = match at.direction {
        Direction::Backward => n_local..x.nrows(),
        _ => 0..n_local,
    };
    cx.backend.rows(x, rows)
}

/// Builds training whose exchanges `make` decides, from the request's settings: the
/// [`Entry::build`](crate::strategy::Entry) of such a strategy. Collective.
///
/// # Errors
/// As for `halo`.
pub fn build<S: ExchangeRule + 'static>(
    setup: Setup,
    cx: &mut Ctx,
    make: impl FnOnce(&Knobs) -> S,
) -> Result<Built> {
    let rule = make(&cx.plan.spec.knobs);
    halo::build_over(setup, cx, true, |halo, _| {
        let deciding = Deciding {
            halo,
            rule,
            last: BTreeMap::new(),
            drifts: false,
        };
        (deciding, Vec::new())
    })
}

/// Rows cross the cut when the strategy says so.
struct Deciding<S> {
    halo: Halo,
    rule: S,
    /// By layer and whether it is backward.
    last: BTreeMap<(usize, bool), Last>,
    /// Whether the strategy has asked for drift, so that rows have to be kept for it.
    drifts: bool,
}

impl<S: ExchangeRule> Deciding<S> {
    /// Whether an exchange of `x` is to travel.
    fn decide(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<bool> {
        let last = self.last.get(&key(at));
        let last = last.filter(|last| last.parts.iter().all(|part| part.ncols() == x.ncols()));
        let mut exchange = Exchange {
            cx,
            at,
            last,
            x,
            n_local: self.halo.local_rows(x.nrows()),
            fresh: None,
            drift: None,
            asked_drift: false,
        };
        self.rule.exchange(&mut exchange)?;
        let (fresh, drift) = (exchange.fresh, exchange.drift);
        self.drifts |= exchange.asked_drift;
        let fresh = fresh.ok_or_else(|| Error::Unsupported {
            what: format!("an exchange of layer {} without a decision", at.layer),
            reason: "`exchange` returned before it had said what becomes of the rows".into(),
            help: "call x.fetch_fresh() or x.reuse_last() on every path".into(),
        })?;
        let age = self.last.get(&key(at)).map_or(0, |l| cx.epoch - l.epoch);
        self.note(cx, at, x.ncols(), fresh, age, drift);
        Ok(fresh)
    }

    /// Says what becomes of an exchange: bytes, and a row of the `stale` frame for each peer.
    fn note(&self, cx: &Ctx, at: At, width: usize, fresh: bool, age: u64, drift: Option<f64>) {
        let (sends, reads) = self.halo.counts();
        let counts = if key(at).1 { reads } else { &sends[..] };
        for (peer, &rows) in counts.iter().enumerate().filter(|(_, rows)| **rows > 0) {
            let bytes = 4 * (rows * width) as u64;
            let share = |it: bool| if it { bytes } else { 0 };
            cx.predict((at.layer as u16, at.direction, peer as u32), share(fresh));
            let age = if fresh { 0 } else { age };
            cx.row(StaleRow {
                layer: at.layer as u16,
                direction: at.direction,
                peer: peer as u32,
                state: if fresh {
                    Freshness::Active
                } else {
                    Freshness::Stale
                },
                age_mean_epochs: age as f64,
                age_max_epochs: age as u32,
                rows_reused: if fresh { 0 } else { rows as u64 },
                bytes_sent: share(fresh),
                bytes_saved: share(!fresh),
                bytes_agreed: if drift.is_some() { 8 } else { 0 },
                drift_l2: None,
                drift_rel: drift.filter(|d| d.is_finite()),
            });
        }
    }

    /// Keeps what has travelled.
    fn keep(&mut self, cx: &Ctx, at: At, parts: Vec<Mat>, sent: Option<Mat>) {
        let epoch = cx.epoch;
        let key = key(at);
        self.last.insert(key, Last { epoch, parts, sent });
        let bytes = |x: &Mat| 4 * x.len() as u64;
        let of = |last: &Last| last.parts.iter().chain(&last.sent).map(bytes).sum::<u64>();
        cx.caches(self.last.values().map(of).sum());
    }

    /// What the next drift is measured against, where it is asked for.
    fn sent(&self, cx: &Ctx, at: At, x: &Mat) -> Option<Mat> {
        let n_local = self.halo.local_rows(x.nrows());
        self.drifts.then(|| sent(cx, at, x, n_local))
    }
}

fn key(at: At) -> (usize, bool) {
    (at.layer, at.direction == Direction::Backward)
}

impl<S: ExchangeRule> Neighbours for Deciding<S> {
    fn pull(
        &mut self,
        cx: &mut Ctx,
        at: At,
        x: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &Mat) -> Result<()>,
    ) -> Result<()> {
        if at.direction == Direction::Eval {
            return self.halo.pull(cx, at, x, meanwhile);
        }
        let first = self.halo.local_rows(x.nrows());
        let remote = x.nrows() - first;
        if self.decide(cx, at, x)? {
            let sent = self.sent(cx, at, x);
            self.halo.pull(cx, at, x, meanwhile)?;
            let rows = cx.backend.rows(x, first..x.nrows());
            self.keep(cx, at, vec![rows], sent);
            return Ok(());
        }
        meanwhile(cx, x)?;
        let last = &self.last[&key(at)];
        cx.backend.copy_rows(&last.parts[0], 0, remote, x, first);
        cx.halo(at.direction, 0, remote);
        Ok(())
    }

    fn push(
        &mut self,
        cx: &mut Ctx,
        at: At,
        g: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &mut Mat) -> Result<()>,
    ) -> Result<()> {
        if self.decide(cx, at, g)? {
            let sent = self.sent(cx, at, g);
            let parts = self.halo.send_back(cx, at, g, meanwhile)?;
            self.halo.add(cx, &parts, g);
            self.keep(cx, at, parts, sent);
            return Ok(());
        }
        meanwhile(cx, g)?;
        self.halo.add(cx, &self.last[&key(at)].parts, g);
        Ok(())
    }
}
