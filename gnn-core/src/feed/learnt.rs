//! Learnt rows as the training thread has them: pulled for a batch, their gradients pushed after it.

use super::reach::Reach;
use super::rows::RowData;
use super::table::{Pushed, Table};
use super::wire::What;
use crate::checkpoint::State;
use crate::comm::{Label, Post};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::record::Direction;
use kernels::{CsrBuf, Mat};
use std::sync::Arc;

/// The learnt columns of a strategy's input.
pub(crate) struct Learnt {
    /// Reaches rows like those of the table.
    reach: Reach,
    table: Arc<Table>,
    /// Features of this rank's vertices, unless the learnt columns are alone.
    features: Option<RowData>,
    batches: u64,
    /// Numbers of the rows that the present batch reads.
    read: Vec<u32>,
}

impl Learnt {
    /// Those of `table`, beside `features` of this rank's vertices; `reach` is the training thread's
    /// own, and an epoch has `batches` batches.
    pub(crate) fn new(reach: Reach, table: Arc<Table>, features: RowData, batches: u64) -> Learnt {
        Learnt {
            features: (!table.learning().alone).then_some(features),
            reach,
            table,
            batches,
            read: Vec::new(),
        }
    }

    /// The input of a batch that reads the rows of `numbers`: `features` of them, and what has been learnt.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn pull(
        &mut self,
        cx: &mut Ctx,
        step: u64,
        (numbers, features): (Vec<u32>, Option<RowData>),
    ) -> Result<Mat> {
        // What was waited for between epochs is in none of them.
        self.reach.take_waited();
        self.reach.counted = cx.epoch;
        let step = cx.epoch * self.batches + step;
        let learnt = self.reach.pull(&numbers, step, &self.table)?;
        let label = Label {
            layer: 0,
            direction: Direction::Pull,
        };
        cx.waited(label, self.reach.take_waited());
        self.read = numbers;
        Ok(beside(features.as_ref(), &learnt))
    }

    /// Takes the gradient of that input to the owners of its rows.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn push(&mut self, cx: &mut Ctx, step: u64, gradient: &Mat) -> Result<()> {
        let width = self.table.learning().width;
        let first = gradient.ncols() - width;
        let step = cx.epoch * self.batches + step;
        let (me, numbers) = (self.reach.shard.rank, Arc::clone(&self.reach.shard.numbers));
        let mut parts: Vec<(Vec<u32>, Vec<f32>)> = vec![Default::default(); cx.size()];
        for (&v, g) in self.read.iter().zip(gradient.rows()) {
            let owner = numbers.owner(v);
            let (rows, grads) = &mut parts[owner];
            rows.push(v - numbers.first[owner]);
            grads.extend(g.iter().skip(first));
        }
        for (owner, (rows, grads)) in parts.into_iter().enumerate() {
            // A synchronous owner counts pushes, also empty ones.
            if owner != me && (!rows.is_empty() || self.table.learning().synchronous) {
                let what = (What::Push, (cx.epoch, step));
                let data = (&rows[..], bytemuck::cast_slice(&grads));
                self.reach.tell(what, owner, data)?;
            } else if owner == me {
                let grads = Mat::from_shape_vec((rows.len(), width), grads);
                let pushed = Pushed {
                    rank: me,
                    step,
                    rows,
                    grads: grads.expect("a gradient a row"),
                };
                for answer in self.table.push(pushed, &self.reach.par) {
                    self.reach.desk().answer(answer)?;
                }
            }
        }
        Ok(())
    }

    /// Waits until all ranks' pushes so far have been applied. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn settle(&mut self, cx: &mut Ctx) -> Result<()> {
        if cx.size() == 1 {
            return Ok(());
        }
        self.reach.counted = Post::SETUP;
        let me = self.reach.shard.rank;
        // Letters of two ranks keep their order: who answers has applied what was sent before.
        let others = (0..cx.size()).filter(|&r| r != me);
        let of = (What::Settle, (Post::SETUP, 0));
        let mut open = Vec::with_capacity(cx.size());
        for owner in others {
            open.push(self.reach.ask(of, owner, (&[], &[]))?);
        }
        self.reach.finish(|reach| {
            open.retain(|&ticket| reach.desk().take(ticket).is_none());
            Ok(open.is_empty().then_some(()))
        })?;
        cx.comm.agree(&[0.0])?;
        Ok(())
    }

    /// The input of all of this rank's vertices. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn whole(&mut self, cx: &mut Ctx) -> Result<Mat> {
        self.settle(cx)?;
        let learnt = RowData::Dense(Arc::new(self.table.all()));
        Ok(beside(self.features.as_ref(), &learnt))
    }

    /// Adds what this rank's vertices have learnt to `state`. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn save(&mut self, cx: &mut Ctx, state: &mut State) -> Result<()> {
        self.settle(cx)?;
        self.table.save(state);
        Ok(())
    }

    /// Takes it back.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when something is missing.
    pub(super) fn restore(&mut self, state: &mut State) -> Result<()> {
        self.table.restore(state)
    }
}

/// Features and learnt columns of the same rows, side by side.
fn beside(features: Option<&RowData>, learnt: &RowData) -> Mat {
    let RowData::Dense(learnt) = learnt else {
        unreachable!("learnt rows are dense")
    };
    let width = match features {
        None => 0,
        Some(RowData::Dense(x)) => x.ncols(),
        Some(RowData::Sparse(x)) => x.n_cols,
    };
    let mut out = Mat::zeros((learnt.nrows(), width + learnt.ncols()));
    for (k, mut to) in out.rows_mut().into_iter().enumerate() {
        let to = to.as_slice_mut().expect("rows of a row-major matrix");
        match features {
            None => {}
            Some(RowData::Dense(x)) => x.row(k).iter().zip(&mut *to).for_each(|(x, to)| *to = *x),
            Some(RowData::Sparse(x)) => scatter(x, k, to),
        }
        let row = learnt.row(k);
        to[width..].copy_from_slice(row.as_slice().expect("rows of a row-major matrix"));
    }
    out
}

/// A sparse row's elements, added where they belong.
fn scatter(x: &CsrBuf, row: usize, to: &mut [f32]) {
    for e in x.view().span(row) {
        let value = x.weights.as_ref().map_or(1.0, |w| w[e]);
        to[x.indices[e] as usize] += value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_come_before_what_is_learnt_sparse_or_not() {
        let learnt = RowData::Dense(Arc::new(Mat::from_elem((2, 1), 7.0)));
        let dense = Mat::from_shape_vec((2, 3), vec![0., 5., 0., 0., 0., 0.5]).expect("six");
        let sparse = CsrBuf {
            indptr: vec![0, 1, 2],
            indices: vec![1, 2],
            weights: Some(vec![5.0, 0.5]),
            n_cols: 3,
        };
        let a = beside(Some(&RowData::Dense(Arc::new(dense))), &learnt);
        let b = beside(Some(&RowData::Sparse(Arc::new(sparse))), &learnt);
        assert_eq!(a, b);
        assert_eq!(a.row(0).to_vec(), [0.0, 5.0, 0.0, 7.0]);
        assert_eq!(beside(None, &learnt).row(1).to_vec(), [7.0]);
    }
}
