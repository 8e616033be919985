//! Training with everything on the device, in one chunk: what HongTu is compared with, and what it does itself
//! where everything fits and it may choose (`memory = auto`).
//!
//! It is graph parallelism as in [`halo`], on one rank as in [`single`], so that nobody is compared with less
//! than there is.

use super::batches::{TwoLevels, Volumes};
use super::frames::TransfersRow;
use super::need::{self, Need};
use crate::backend::Mat;
use crate::checkpoint::Snapshot;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::strategy::{Built, Setup, Strategy, halo, single};

/// A rank's training within a budget.
struct InMemory {
    of: Box<dyn Strategy>,
    volumes: Volumes,
    need: Need,
    /// Bytes of the device; 0 is no limit.
    budget: u64,
}

fn plain(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    match cx.size() {
        1 => (single::ENTRY.build)(setup, cx),
        _ => halo::build_overlapping(setup, cx),
    }
}

/// What it needs on the device. Collective.
///
/// # Errors
/// Whatever building the training meets.
pub(super) fn need(setup: &Setup, cx: &mut Ctx) -> Result<Need> {
    need::of_strategy(cx, |cx| Ok(plain(setup.clone(), cx)?.strategy))
}

/// It, on a device of `budget` bytes. Collective.
///
/// # Errors
/// [`Error::Budget`] where it needs more.
pub(super) fn build(setup: Setup, cx: &mut Ctx, (need, budget): (Need, u64)) -> Result<Built> {
    if need.fits(budget) != Some(true) {
        return Err(Error::Budget {
            of: "device",
            item: "rows, gradients and edges of all vertices".into(),
            asked: need.matrices + need.chunks,
            free: budget,
            budget,
        });
    }
    let volumes = volumes(&setup, cx);
    if budget > 0 {
        cx.backend.limit(budget - need.chunks);
    }
    let built = plain(setup, cx)?;
    Ok(Built {
        strategy: Box::new(InMemory {
            of: built.strategy,
            volumes,
            need,
            budget,
        }),
        ..built
    })
}

/// What would be loaded otherwise, in one chunk.
fn volumes(setup: &Setup, cx: &Ctx) -> Volumes {
    let graph = &setup.data.graph;
    // Whatever the order of vertices.
    let whole = graph.propagation(cx.plan.spec.model.propagation());
    let all_one = vec![0; graph.n()];
    let levels = TwoLevels {
        whole: whole.csr(),
        device: setup.owner.as_ref().map_or(&all_one, |owner| owner),
        batch: &all_one,
        devices: cx.size(),
        batches: 1,
        reads_own: false,
    };
    Volumes::of(&levels)
}

impl Strategy for InMemory {
    fn epoch(&mut self, cx: &mut Ctx) -> Result<f64> {
        let loss = self.of.epoch(cx)?;
        need::check(cx, self.need.chunks, self.budget)?;
        cx.row(TransfersRow::of_nothing(self.volumes));
        Ok(loss)
    }

    fn logits(&mut self, cx: &mut Ctx) -> Result<kernels::Mat> {
        self.of.logits(cx)
    }

    fn gradients(&self) -> Vec<&Mat> {
        self.of.gradients()
    }

    fn save(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        self.of.save(cx, snapshot)
    }

    fn restore(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        self.of.restore(cx, snapshot)
    }
}
