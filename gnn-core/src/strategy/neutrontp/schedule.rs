//! Split, rounds of aggregation on slices chunk by chunk, gather: one way through the graph.
//!
//! ```text
//! split ─▶ round 0: chunk 0, chunk 1, … ─▶ … ─▶ last round: chunk 0, chunk 1, … ─▶ gather
//! ```
//!
//! Pipelined, the split is cut into a message for each chunk, with the rows that no earlier chunk
//! needs, and the gather into a message for each chunk's destinations. Chunk `j` of the first round
//! runs when its message is there, while those of later chunks travel; results of the last round travel
//! while later chunks run. Where it can ([`Pipeline::BySource`]), the first round goes by chunks of sources
//! instead, which hides the split of dense graphs too. Every row travels once either way: bytes
//! stay as they are, and numbers but for the rounding of slices wide enough to be aggregated by segments.
//!
//! [`Pipeline::BySource`]: super::chunks::Pipeline::BySource

use super::chunks::Way;
use super::cuts::Cut;
use super::layout::{
    Columns, Portion, Turns, finish_gather, finish_split, post_gather, post_split,
};
use crate::backend::{Mat, Sparse, Write};
use crate::comm::{Label, Ticket};
use crate::ctx::Ctx;
use crate::device::BudgetedDevice;
use crate::error::Result;
use crate::model::in_pieces;
use std::collections::VecDeque;
use std::ops::{Deref, Range};
use std::rc::Rc;

/// One round: `Y = own · X + others · A X` on every column apart.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    /// `A`: rows are destinations.
    pub(super) a: &'a Sparse,
    /// Values `[1, edges]` in the place of those of `A`.
    pub(super) values: Option<&'a Mat>,
    /// Factor of `X`.
    pub(super) own: f32,
    /// Factor of `A X`.
    pub(super) others: f32,
    /// Rows that a vertex has in `Y`.
    pub(super) group: usize,
    /// What a device is given of each chunk; none without a device.
    pub(super) cuts: &'a [Cut],
}

impl<'a> Step<'a> {
    /// `Y = A X`.
    pub(super) fn plain(a: &'a Sparse) -> Step<'a> {
        Step {
            a,
            values: None,
            own: 0.0,
            others: 1.0,
            group: 1,
            cuts: &[],
        }
    }
}

/// A matrix that may belong to somebody else.
pub(super) enum Held<'a> {
    /// Somebody else's.
    Lent(&'a Mat),
    /// Shared, or nobody else's.
    Shared(Rc<Mat>),
}

impl Deref for Held<'_> {
    type Target = Mat;
    fn deref(&self) -> &Mat {
        match self {
            Held::Lent(x) => x,
            Held::Shared(x) => x,
        }
    }
}

/// Who takes the slices that a step read, when it has read them.
pub(super) type Done<'a> = &'a mut dyn FnMut(&mut Ctx, usize, Held<'_>) -> Result<()>;

/// Runs steps on slices.
pub(super) struct Schedule {
    /// The device that chunks run on, where it has a budget.
    pub(super) device: Option<BudgetedDevice>,
    /// Who has one more of columns that do not divide.
    pub(super) turns: Turns,
}

impl Schedule {
    /// `x: [n_local · group, d]` by rows through `steps` to `[n_local · group', d]` by rows.
    /// `labels` are those of the split and of the gather. `done` gets the slices
    /// `[n · group, own columns]` that each step read. Collective.
    ///
    /// # Errors
    /// Whatever the communicator or `done` meets; a device without enough memory.
    pub(super) fn run(
        &self,
        cx: &mut Ctx,
        labels: (Label, Label),
        way: &Way,
        x: Held<'_>,
        steps: &[Step<'_>],
        done: Done<'_>,
    ) -> Result<Mat> {
        let (d, alone) = (x.ncols(), cx.size() == 1);
        let turn = self.turns.at(cx.epoch, labels.0.direction, cx.size());
        let columns = Columns::new(d, cx.size(), turn);
        let mut arriving = VecDeque::new();
        let mut source = if alone {
            x
        } else {
            let width = columns.of(cx.rank()).len();
            let mut slices = cx.backend.fresh(steps[0].a.n_cols(), width);
            for portion in &way.split {
                let ticket = post_split(cx, labels.0, portion, &columns, &x, &mut slices)?;
                arriving.push_back((portion, ticket));
            }
            drop(x);
            Held::Shared(Rc::new(slices))
        };
        let mut leaving = VecDeque::new();
        let mut result = None;
        for (i, step) in steps.iter().enumerate() {
            let last = i + 1 == steps.len();
            let (rows, width) = (step.a.rows(), source.ncols());
            let mut y = cx.backend.fresh(rows, width);
            let by_source = i == 0 && !alone && !way.columns.is_empty();
            if by_source {
                by_sources(cx, way, &mut arriving, &mut source, &mut y)?;
                combine(cx, step, 0..rows, &source, &mut y);
            }
            let chunks = if by_source { &[] } else { &way.bounds[..] };
            for (j, b) in chunks.windows(2).enumerate() {
                arrive(cx, &mut arriving, &mut source)?;
                let moving = !arriving.is_empty() || !leaving.is_empty();
                let chunk = (j, b[0] * step.group..b[1] * step.group);
                self.chunk(cx, step, chunk, (&*source, &mut y), moving)?;
                let leaves = if way.gather.len() > 1 {
                    way.gather.get(j)
                } else {
                    None
                };
                if let Some(portion) = leaves.filter(|_| last && !alone) {
                    let out = result.get_or_insert_with(|| {
                        let local: usize = way.gather.iter().map(|p| p.own_rows()).sum();
                        cx.backend.fresh(local, d)
                    });
                    let ticket = post_gather(cx, labels.1, portion, &columns, &y, out)?;
                    leaving.push_back((portion, ticket));
                }
            }
            let read = std::mem::replace(&mut source, Held::Shared(Rc::new(y)));
            done(cx, i, read)?;
        }
        if let Some(device) = &self.device {
            device.settle();
        }
        let Held::Shared(y) = source else {
            unreachable!("there is at least one step")
        };
        let y = Rc::into_inner(y).expect("nobody was given the last one");
        if alone {
            return Ok(y);
        }
        if let [portion] = &way.gather[..] {
            let out = result.insert(cx.backend.fresh(portion.own_rows(), d));
            let ticket = post_gather(cx, labels.1, portion, &columns, &y, out)?;
            leaving.push_back((portion, ticket));
        }
        drop(y);
        let mut out = result.expect("there is a portion for each chunk");
        for (portion, ticket) in leaving {
            finish_gather(cx, portion, &columns, ticket, &mut out)?;
        }
        Ok(out)
    }

    /// One step over all chunks, of rows that are all there: `x` on the host to `y`.
    ///
    /// # Errors
    /// [`crate::Error::Budget`] for a device without enough memory.
    pub(super) fn sweep(
        &self,
        cx: &mut Ctx,
        step: &Step<'_>,
        bounds: &[usize],
        x: &Mat,
        y: &mut Mat,
    ) -> Result<()> {
        for (j, b) in bounds.windows(2).enumerate() {
            let chunk = (j, b[0] * step.group..b[1] * step.group);
            self.chunk(cx, step, chunk, (x, y), false)?;
        }
        if let Some(device) = &self.device {
            device.settle();
        }
        Ok(())
    }

    /// The rows `rows` of a step, those of chunk `j`, from `x` to `y`; messages are looked after if they
    /// are `moving`.
    fn chunk(
        &self,
        cx: &mut Ctx,
        step: &Step<'_>,
        (j, rows): (usize, Range<usize>),
        (x, y): (&Mat, &mut Mat),
        moving: bool,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let (a, values) = (step.a, step.values);
        let multiply = |cx: &Ctx, rows: Range<usize>, y: &mut Mat| match values {
            Some(values) => cx.backend.spmm_values(a, values, rows, x, y),
            None => cx.backend.spmm(a, rows, x, Write::Set, y),
        };
        match &self.device {
            Some(device) => step.cuts[j].multiply(cx, device, (a, values), x, y)?,
            None if moving => in_pieces(cx, a, rows.clone(), |cx, rows| multiply(cx, rows, y))?,
            None => multiply(cx, rows.clone(), y),
        }
        combine(cx, step, rows, x, y);
        Ok(())
    }
}

/// Portions of a split that are on their way, with what their messages are waited for by.
type Arriving<'a> = VecDeque<(&'a Portion, Ticket)>;

/// Waits for the next portion of a split, if there is one.
fn arrive(cx: &mut Ctx, arriving: &mut Arriving<'_>, slices: &mut Held<'_>) -> Result<()> {
    let Some((portion, ticket)) = arriving.pop_front() else {
        return Ok(());
    };
    let slices = match slices {
        Held::Shared(slices) => Rc::get_mut(slices),
        Held::Lent(_) => None,
    };
    let slices = slices.expect("made for the split and not shared yet");
    finish_split(cx, portion, ticket, slices)
}

/// The sums `A X` by chunks of sources, each as soon as its message is there.
fn by_sources(
    cx: &mut Ctx,
    way: &Way,
    arriving: &mut Arriving<'_>,
    source: &mut Held<'_>,
    y: &mut Mat,
) -> Result<()> {
    for (j, a) in way.columns.iter().enumerate() {
        arrive(cx, arriving, source)?;
        let write = if j == 0 { Write::Set } else { Write::Add };
        in_pieces(cx, a, 0..y.nrows(), |cx, rows| {
            cx.backend.spmm(a, rows, source, write, y);
        })?;
    }
    Ok(())
}

/// From the sums `A X` in the rows `rows` of `y` to `own · X + others · A X`.
fn combine(cx: &Ctx, step: &Step<'_>, rows: Range<usize>, x: &Mat, y: &mut Mat) {
    let (own, others) = (step.own, step.others);
    if (own, others) == (0.0, 1.0) {
        return;
    }
    if rows == (0..y.nrows()) {
        cx.backend.axpby(own, x, others, y);
        return;
    }
    let part = |from: &Mat| cx.backend.rows(from, rows.clone());
    let (mine, mut sums) = (part(x), part(y));
    cx.backend.axpby(own, &mine, others, &mut sums);
    cx.backend.copy_rows(&sums, 0, rows.len(), y, rows.start);
}
