//! Weight gradients that are put off until the gradient of the input has gone on.
//!
//! Others wait for the gradient of a layer's input, and nobody but the optimiser for those of its weights.
//! So a rank whose input's gradient goes to another rank makes that first, in all of its layers, and the
//! weights' while the other works.

use super::layer::Weights;
use super::stack::Ready;
use crate::backend::{Backend, Mat, Operand};
use crate::ctx::Ctx;
use crate::error::Result;
use std::rc::Rc;

/// Gradients of one layer's dense tensors: `scale · xᵀ · g` for each `x`.
pub(super) struct Product {
    pub(super) layer: usize,
    /// Tensors of the layer, one for each `x`.
    pub(super) tensors: Vec<usize>,
    /// The bias, whose gradient is the sums of the columns of `g`.
    pub(super) bias: Option<usize>,
    /// `[n_local, _]`.
    pub(super) xs: Vec<Rc<Mat>>,
    /// `[n_local, k]`.
    pub(super) g: Rc<Mat>,
    /// Not 1 for one tensor without a bias only.
    pub(super) scale: f32,
}

impl Product {
    /// The gradients, the bias's last.
    pub(super) fn weights(&self, backend: &dyn Backend) -> Vec<Mat> {
        let (g, cols) = (self.g.as_ref(), self.g.ncols());
        let made = |x: &Rc<Mat>| backend.fresh(x.ncols(), cols);
        let mut gws: Vec<Mat> = self.xs.iter().map(made).collect();
        let mut gb = self.bias.map(|_| backend.fresh(1, cols));
        match &self.xs[..] {
            [x] => backend.weight_gradient(x, g, &mut gws[0], gb.as_mut()),
            xs => {
                let xs: Vec<&Mat> = xs.iter().map(Rc::as_ref).collect();
                backend.weight_gradients(&xs, Operand::Held(g), &mut gws, gb.as_mut());
            }
        }
        if self.scale != 1.0 {
            let unscaled = backend.copy(&gws[0]);
            backend.axpby(0.0, &unscaled, self.scale, &mut gws[0]);
        }
        gws.extend(gb);
        gws
    }
}

/// The weight gradients of some layers, of which the products are still to be made.
#[must_use = "weights need their gradients"]
pub struct Owed {
    /// Last layer first; tensors whose gradients are owed have none yet.
    pub(super) layers: Vec<(usize, Weights)>,
    /// Last layer first.
    pub(super) products: Vec<Product>,
}

impl Owed {
    /// Makes them; `ready` gets each layer's.
    ///
    /// # Errors
    /// Whatever `ready` meets.
    pub fn pay(self, cx: &mut Ctx, ready: Ready<'_>) -> Result<()> {
        let mut products = self.products.into_iter().peekable();
        for (layer, mut weights) in self.layers {
            cx.layer(layer);
            while let Some(product) = products.next_if(|product| product.layer == layer) {
                let tensors = product.tensors.iter().copied().chain(product.bias);
                let made = product.weights(cx.backend.as_ref());
                tensors.zip(made).for_each(|(t, g)| weights[t] = g);
            }
            ready(cx, layer, weights)?;
        }
        Ok(())
    }
}
