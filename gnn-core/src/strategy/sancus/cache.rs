//! What a rank keeps of the rows that others sent, and what it tells about them.

use crate::backend::Mat;
use crate::checkpoint::State;
use crate::ctx::Ctx;
use crate::model::At;
use crate::strategy::full_graph::{Freshness, StaleRow};
use std::rc::Rc;

/// The rows of one layer that were received last.
pub(super) struct Cache {
    /// The epoch of every rank's rows, this rank's own included: what others have of them.
    pub(super) versions: Vec<Option<u64>>,
    /// Every other rank's rows `[n_j, d]`.
    blocks: Vec<Option<Rc<Mat>>>,
    /// This rank's rows as they were sent last, where drift is measured: `[n_i, d]`.
    sent: Option<Mat>,
}

/// How far a rank's rows are from those that it sent last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Drift {
    /// `‖H − H̃‖`.
    pub(super) l2: f64,
    /// `‖H − H̃‖ / ‖H‖`; 0 where nothing differs.
    pub(super) relative: f64,
}

impl Cache {
    pub(super) fn new(ranks: usize) -> Cache {
        Cache {
            versions: vec![None; ranks],
            blocks: vec![None; ranks],
            sent: None,
        }
    }

    /// How far `x: [n_i, d]` is from what was sent last; none before that.
    pub(super) fn drift(&self, cx: &Ctx, x: &Mat) -> Option<Drift> {
        let mut difference = cx.backend.copy(self.sent.as_ref()?);
        cx.backend.axpby(1.0, x, -1.0, &mut difference);
        let l2 = cx.norm(&difference);
        let relative = if l2 == 0.0 { 0.0 } else { l2 / cx.norm(x) };
        Some(Drift { l2, relative })
    }

    /// From now on the rows of active ranks are those of this epoch; `x: [n_i, d]` are this rank's.
    pub(super) fn renew(&mut self, cx: &Ctx, x: &Mat, active: &[bool], measures: bool) {
        for (version, _) in self.versions.iter_mut().zip(active).filter(|(_, a)| **a) {
            *version = Some(cx.epoch);
        }
        if measures && active[cx.rank()] {
            self.sent = Some(cx.backend.copy(x));
        }
    }

    /// Another rank's rows: what arrived now, which is kept, or what was kept.
    pub(super) fn block(&mut self, rank: usize, arrived: Option<Mat>) -> Rc<Mat> {
        if let Some(rows) = arrived {
            self.blocks[rank] = Some(Rc::new(rows));
        }
        let kept = self.blocks[rank].as_ref();
        Rc::clone(kept.expect("a rank without kept rows is active"))
    }

    /// Adds it to `state` under names that begin with `name`.
    pub(super) fn save(&self, cx: &Ctx, name: &str, state: &mut State) {
        let backend = cx.backend.as_ref();
        for (rank, version) in self.versions.iter().enumerate() {
            if let Some(version) = version {
                state.put_number(format!("{name}/version/{rank}"), *version);
            }
        }
        for (rank, rows) in self.blocks.iter().enumerate() {
            if let Some(rows) = rows {
                state.put(format!("{name}/block/{rank}"), backend, rows);
            }
        }
        if let Some(sent) = &self.sent {
            state.put(format!("{name}/sent"), backend, sent);
        }
    }

    /// Takes it back.
    pub(super) fn restore(cx: &Ctx, name: &str, state: &mut State) -> Cache {
        let backend = cx.backend.as_ref();
        let mut take = |name: String| Some(backend.upload(state.tensors.remove(&name)?));
        let ranks = 0..cx.size();
        Cache {
            blocks: ranks
                .clone()
                .map(|r| take(format!("{name}/block/{r}")).map(Rc::new))
                .collect(),
            sent: take(format!("{name}/sent")),
            versions: ranks
                .map(|r| state.numbers.get(&format!("{name}/version/{r}")).copied())
                .collect(),
        }
    }

    /// Bytes of everything kept.
    pub(super) fn bytes(&self) -> u64 {
        let blocks = self.blocks.iter().flatten().map(|b| b.len());
        let floats = blocks.sum::<usize>() + self.sent.as_ref().map_or(0, Mat::len);
        4 * floats as u64
    }

    /// Tells what becomes of this rank's rows `x: [n_i, d]` in this epoch, before it does: one row of
    /// the `stale` frame for each peer.
    pub(super) fn note(
        &self,
        cx: &Ctx,
        at: At,
        x: &Mat,
        state: Freshness,
        drift: Option<Drift>,
        agreed: u64,
    ) {
        let version = self.versions[cx.rank()];
        let travels = match state {
            Freshness::Active => true,
            Freshness::Stale => false,
            Freshness::Input => version.is_none(),
        };
        // Features do not age.
        let aged = state == Freshness::Stale;
        let age = version.filter(|_| aged).map_or(0, |v| cx.epoch - v);
        let bytes = 4 * x.len() as u64;
        let share = |it: bool| if it { bytes } else { 0 };
        for peer in (0..cx.size()).filter(|&p| p != cx.rank()) {
            cx.row(StaleRow {
                layer: at.layer as u16,
                direction: at.direction,
                peer: peer as u32,
                state,
                age_mean_epochs: age as f64,
                age_max_epochs: age as u32,
                rows_reused: if travels { 0 } else { x.nrows() as u64 },
                bytes_sent: share(travels),
                bytes_saved: share(!travels),
                bytes_agreed: agreed,
                drift_l2: drift.map(|d| d.l2),
                drift_rel: drift.map(|d| d.relative),
            });
        }
    }
}
