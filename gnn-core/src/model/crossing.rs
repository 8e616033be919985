//! What passes between two layers that different ranks hold, as messages.
//!
//! Forward, a row has the input of the later layer (behind activation and dropout) and, for models that
//! have one, the initial residual, as long as a later layer reads it. Backward, it has the gradients of
//! both: of the earlier layer's output before its activation, and of the residual as far as later layers
//! read it. So both ways are equally wide.

use super::kind::Stage;
use super::layer::{Beside, Flow, Grad};
use crate::backend::{Corner, Mat};
use crate::comm::Message;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use std::rc::Rc;

/// Columns of what passes between two layers, for every row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossing {
    /// Of the later layer's input.
    pub x: usize,
    /// Of the initial residual, where a later layer reads it.
    pub h0: Option<usize>,
}

impl Crossing {
    /// Between the layers before and those after; none where coefficients of attention would pass.
    pub(super) fn between(before: &[Stage], after: &[Stage]) -> Option<Crossing> {
        let beside = |stages: &[Stage], at: usize| stages.get(at).map(|s| s.layer.beside());
        if beside(after, 0) == Some(Beside::ReadsCoefficients) {
            return None;
        }
        let begun = before.iter().rev().find_map(|s| match s.layer.beside() {
            Beside::BeginsResidual(width) => Some(width),
            _ => None,
        });
        let read = after
            .iter()
            .any(|s| s.layer.beside() == Beside::ReadsResidual);
        Some(Crossing {
            x: before.last()?.layer.d_out(),
            h0: begun.filter(|_| read),
        })
    }

    /// Columns of a row, all together.
    pub fn width(self) -> usize {
        self.x + self.h0.unwrap_or(0)
    }

    /// What passes forward, `[n, width]`: a row of the input, and the residual's beside it.
    ///
    /// # Errors
    /// [`Error::Shape`] when the flow is of other columns.
    pub fn pack(self, cx: &Ctx, flow: &Flow) -> Result<Message> {
        let x = flow.x.dense().ok_or_else(|| wrong(self, "sparse rows"))?;
        self.message(cx, x, flow.h0.as_deref())
    }

    /// What has come forward for `n` rows.
    ///
    /// # Errors
    /// [`Error::Shape`] when the message has another length.
    pub fn unpack(self, cx: &Ctx, n: usize, message: Message) -> Result<Flow> {
        let (x, h0) = self.matrices(cx, n, message)?;
        Ok(Flow {
            h0: h0.map(Rc::new),
            ..Flow::from(x)
        })
    }

    /// What passes backward, likewise.
    ///
    /// # Errors
    /// [`Error::Shape`] when the gradient is of other columns.
    pub fn pack_gradient(self, cx: &Ctx, grad: &Grad) -> Result<Message> {
        self.message(cx, &grad.g, grad.h0.as_ref())
    }

    /// What has come backward for `n` rows.
    ///
    /// # Errors
    /// [`Error::Shape`] when the message has another length.
    pub fn unpack_gradient(self, cx: &Ctx, n: usize, message: Message) -> Result<Grad> {
        let (g, h0) = self.matrices(cx, n, message)?;
        Ok(Grad {
            h0,
            ..Grad::from(g)
        })
    }

    fn message(self, cx: &Ctx, x: &Mat, h0: Option<&Mat>) -> Result<Message> {
        let h0 = h0.filter(|_| self.h0.is_some());
        if x.ncols() != self.x || h0.map(Mat::ncols) != self.h0 {
            let beside = h0.map_or(0, Mat::ncols);
            return Err(wrong(self, &format!("{} and {beside} columns", x.ncols())));
        }
        let mut rows = cx.backend.fresh(x.nrows(), self.width());
        let parts = [(Some(x), 0), (h0, self.x)];
        for (part, col) in parts
            .into_iter()
            .filter_map(|(part, col)| Some((part?, col)))
        {
            let (from, to) = (Corner::at(0), Corner::at(col));
            cx.backend.copy_block(part, from, part.dim(), &mut rows, to);
        }
        Ok(cx.message(rows))
    }

    fn matrices(self, cx: &Ctx, n: usize, message: Message) -> Result<(Mat, Option<Mat>)> {
        if message.len() != n * self.width() {
            let got = format!("{} numbers for {n} rows", message.len());
            return Err(wrong(self, &got));
        }
        let rows = cx.received(n, self.width(), message)?;
        let Some(width) = self.h0 else {
            return Ok((rows, None));
        };
        let part = |col: usize, columns: usize| {
            let mut part = cx.backend.fresh(n, columns);
            let (from, to) = (Corner::at(col), Corner::at(0));
            cx.backend
                .copy_block(&rows, from, (n, columns), &mut part, to);
            part
        };
        Ok((part(0, self.x), Some(part(self.x, width))))
    }
}

fn wrong(wanted: Crossing, got: &str) -> Error {
    let and = wanted.h0.unwrap_or(0);
    Error::Shape {
        op: "crossing".into(),
        expected: format!("rows of {} and {and} columns", wanted.x),
        got: got.into(),
    }
}
