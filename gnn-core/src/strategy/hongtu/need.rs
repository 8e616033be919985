//! What training takes on the device, found by training without computing.
//!
//! An epoch and an evaluation go through a [`Hollow`] backend, whose matrices have shapes and no elements:
//! what they would take at their fullest moment is exact to the byte for a device that is a part of the
//! host's memory, since every matrix on it is made by its backend. Lists of edges are there beside them: of
//! all chunks where these fit, else of the chunk that is computed.

use super::trainer::{HongTu, bytes_pinned};
use crate::backend::{Backend, Hollow, Ledger, Metered};
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::record::{Meter, Pass};
use crate::strategy::Strategy;
use std::rc::Rc;

/// Bytes on the device of the rank that needs most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    /// Matrices at the fullest moment.
    pub(super) matrices: u64,
    /// Lists of the largest chunk.
    pub(super) chunk: u64,
    /// Lists of all chunks, with what is made of those that stay.
    pub(super) chunks: u64,
}

impl Need {
    /// Whether lists of all chunks fit, too, into so many bytes, of which 0 is no limit; none where nothing
    /// does.
    pub(super) fn fits(self, budget: u64) -> Option<bool> {
        if budget == 0 {
            return Some(true);
        }
        let with = |lists: u64| self.matrices + lists <= budget;
        with(self.chunk).then(|| with(self.chunks))
    }

    /// The refusal of what does not fit.
    pub(super) fn refused(self, chunks: usize, budget: u64) -> Error {
        Error::Budget {
            of: "device",
            item: format!("rows, weights and edges of a chunk ({chunks} a device)"),
            asked: self.matrices + self.chunk,
            free: budget,
            budget,
        }
    }
}

/// Tells what the device has held with so many bytes of lists, and that it was no more than `budget`.
///
/// # Errors
/// [`Error::Budget`] otherwise.
pub(super) fn check(cx: &Ctx, lists: u64, budget: u64) -> Result<()> {
    if budget == 0 {
        return Ok(());
    }
    let matrices = cx.meter().most_held();
    cx.meter().on_device(matrices + lists);
    if matrices + lists <= budget {
        return Ok(());
    }
    Err(Error::Budget {
        of: "device",
        item: "matrices of an epoch beside the edges".into(),
        asked: matrices,
        free: budget.saturating_sub(lists),
        budget,
    })
}

/// Does something on a device that computes nothing; the most that its matrices have taken, and the lists of
/// edges and sparse features that were read. Times, bytes and rows that are counted meanwhile are nobody's.
fn without_computing(cx: &mut Ctx, f: impl FnOnce(&mut Ctx) -> Result<()>) -> Result<(u64, u64)> {
    let (meter, ledger) = (Rc::new(Meter::new(None)), Rc::new(Ledger::default()));
    let host = cx.plan.spec.backend == "cpu";
    let hollow = Metered::new(Hollow::new(Rc::clone(&ledger), host), Rc::clone(&meter));
    let hollow: Box<dyn Backend> = Box::new(hollow);
    let device = std::mem::replace(&mut cx.backend, hollow);
    let done = f(cx);
    cx.backend = device;
    let of_run = cx.meter();
    of_run.take_traffic();
    of_run.take_times();
    of_run.take_copies();
    of_run.take_blocked();
    let lists = ledger.list_bytes() + ledger.input_bytes();
    done.map(|()| (meter.most_held(), lists as u64))
}

/// What a strategy needs that has all its lists on the device. Collective: the most of all ranks.
///
/// # Errors
/// Whatever the communicator meets.
pub(super) fn of_strategy(
    cx: &mut Ctx,
    make: impl FnOnce(&mut Ctx) -> Result<Box<dyn Strategy>>,
) -> Result<Need> {
    let (matrices, lists) = without_computing(cx, |cx| {
        let mut strategy = make(cx)?;
        strategy.epoch(cx)?;
        cx.pass(Pass::Eval);
        strategy.logits(cx)?;
        cx.pass(Pass::Setup);
        Ok(())
    })?;
    agreed(cx, [matrices, lists, lists])
}

fn agreed(cx: &mut Ctx, [matrices, chunk, chunks]: [u64; 3]) -> Result<Need> {
    let mine = [matrices, chunk, chunks].map(|bytes| bytes as f64);
    let all = cx.comm.agree(&mine)?;
    let most = |k: usize| all.iter().map(|of| of[k] as u64).max().unwrap_or(0);
    Ok(Need {
        matrices: most(0),
        chunk: most(1),
        chunks: most(2),
    })
}

/// What `make` needs, which makes a training on the device it is given. Collective: the most of all ranks.
///
/// # Errors
/// Whatever the communicator meets.
pub(super) fn of(
    cx: &mut Ctx,
    make: impl FnOnce(&mut Ctx) -> Result<HongTu>,
) -> Result<(HongTu, Need)> {
    let mut made = None;
    let (matrices, _) = without_computing(cx, |cx| {
        let mut training = make(cx)?;
        training.pass(cx)?;
        made = Some(training);
        Ok(())
    })?;
    let mut made = made.expect("made above");
    made.pinned_bytes = bytes_pinned(&made);
    let lists = &made.list_bytes;
    let chunk = lists.iter().copied().max().unwrap_or(0);
    let need = agreed(cx, [matrices, chunk, made.pinned_bytes])?;
    Ok((made, need))
}
