//! What passes between two layers that different ranks hold, as messages.
//!
//! Forward, a row has the input of the later layer (behind activation and dropout) and, for models that
//! have one, the initial residual, as long as a later layer reads it. Backward, it has the gradients of
//! both: of the earlier layer's output before its activation, and of the residual as far as later layers
//! read it. So both ways are equally wide.

use super::kind::Stage;
use super::layer::{Beside, Flow, Grad};
use crate::backend::Mat;
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

    /// What passes forward: `[n, width]`, the input's rows before the residual's.
    ///
    /// # Errors
    /// [`Error::Shape`] when the flow is of other columns.
    pub fn pack(self, cx: &Ctx, flow: &Flow) -> Result<Vec<f32>> {
        let x = flow.x.dense().ok_or_else(|| wrong(self, "sparse rows"))?;
        self.message(cx, x, flow.h0.as_deref())
    }

    /// What has come forward for `n` rows.
    ///
    /// # Errors
    /// [`Error::Shape`] when the message has another length.
    pub fn unpack(self, cx: &Ctx, n: usize, message: Vec<f32>) -> Result<Flow> {
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
    pub fn pack_gradient(self, cx: &Ctx, grad: &Grad) -> Result<Vec<f32>> {
        self.message(cx, &grad.g, grad.h0.as_ref())
    }

    /// What has come backward for `n` rows.
    ///
    /// # Errors
    /// [`Error::Shape`] when the message has another length.
    pub fn unpack_gradient(self, cx: &Ctx, n: usize, message: Vec<f32>) -> Result<Grad> {
        let (g, h0) = self.matrices(cx, n, message)?;
        Ok(Grad {
            h0,
            ..Grad::from(g)
        })
    }

    fn message(self, cx: &Ctx, x: &Mat, h0: Option<&Mat>) -> Result<Vec<f32>> {
        let h0 = h0.filter(|_| self.h0.is_some());
        if x.ncols() != self.x || h0.map(Mat::ncols) != self.h0 {
            let beside = h0.map_or(0, Mat::ncols);
            return Err(wrong(self, &format!("{} and {beside} columns", x.ncols())));
        }
        let Some(h0) = h0 else {
            return Ok(floats(cx, below_each_other(cx, &[(x, 0)], x.nrows())));
        };
        if self.h0 == Some(self.x) {
            return Ok(floats(
                cx,
                below_each_other(cx, &[(x, 0), (h0, 0)], x.nrows()),
            ));
        }
        let mut message = cx.backend.download(x).into_raw_vec_and_offset().0;
        message.extend(cx.backend.download(h0));
        Ok(message)
    }

    fn matrices(self, cx: &Ctx, n: usize, mut message: Vec<f32>) -> Result<(Mat, Option<Mat>)> {
        if message.len() != n * self.width() {
            return Err(wrong(
                self,
                &format!("{} numbers for {n} rows", message.len()),
            ));
        }
        match self.h0 {
            None => Ok((cx.received(n, self.x, message)?, None)),
            Some(width) if width == self.x => {
                let both = cx.received(2 * n, width, message)?;
                let half = |first: usize| below_each_other(cx, &[(&both, first)], n);
                Ok((half(0), Some(half(n))))
            }
            Some(width) => {
                let rest = message.split_off(n * self.x);
                let x = cx.received(n, self.x, message)?;
                Ok((x, Some(cx.received(n, width, rest)?)))
            }
        }
    }
}

/// `n` rows of each matrix from a row on, below each other, in a buffer that is used again.
fn below_each_other(cx: &Ctx, parts: &[(&Mat, usize)], n: usize) -> Mat {
    let mut all = cx.backend.fresh(parts.len() * n, parts[0].0.ncols());
    for (k, &(part, first)) in parts.iter().enumerate() {
        cx.backend.copy_rows(part, first, n, &mut all, k * n);
    }
    all
}

fn floats(cx: &Ctx, x: Mat) -> Vec<f32> {
    cx.backend.take(x).into_raw_vec_and_offset().0
}

fn wrong(wanted: Crossing, got: &str) -> Error {
    Error::Shape {
        op: "crossing".into(),
        expected: format!(
            "rows of {} and {} columns",
            wanted.x,
            wanted.h0.unwrap_or(0)
        ),
        got: got.into(),
    }
}
