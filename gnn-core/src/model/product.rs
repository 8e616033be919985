//! A layer that multiplies first, in steps: for a strategy that has all products before it aggregates any.
//!
//! Such a layer is `Y = σ(Â X W + …)` of which nothing else reads other rows. Forward, its product `X W`
//! comes first, then the layer is gone through with an aggregate that does not read what it is given
//! ([`Aggregate::reads_rows`](super::Aggregate::reads_rows)). Backward, the gradient of `Â X W` is that of the
//! output before what follows the layer; its product with `Âᵀ` comes first, then the rest of the layer.

use super::layer::Saved;
use super::stack::Tape;
use super::{Input, Model};
use crate::backend::{Kept, Mat};
use crate::ctx::Ctx;
use std::rc::Rc;

impl Model {
    /// Columns of a layer's product, for a layer that multiplies such an input first and reads other rows
    /// nowhere else.
    pub fn product_width(&self, layer: usize, sparse_input: bool) -> Option<usize> {
        let tensor = self.stages[layer].layer.product_tensor(sparse_input)?;
        Some(self.weights[layer][tensor].ncols())
    }

    /// The product of some rows `x: [n, d_in]`, `[n, product_width]`.
    ///
    /// # Panics
    /// For a layer that has none.
    pub fn product(&self, cx: &Ctx, layer: usize, x: &Input) -> Mat {
        let tensor = self.stages[layer].layer.product_tensor(x.is_sparse());
        let tensor = tensor.expect("a layer that multiplies first");
        let kept = cx.watch.weights();
        let weights = kept.as_ref().map_or(&self.weights, |kept| kept);
        x.times(cx, &weights[layer][tensor])
    }

    /// From the gradient of what a layer passed on, `y` behind its activation and dropout, to that of its
    /// output before them.
    pub fn before_passing(
        &self,
        cx: &Ctx,
        layer: usize,
        ids: &Kept<u32>,
        y: Option<&Input>,
        g: &mut Mat,
    ) {
        if layer + 1 < self.layers()
            && let Some(then) = self.input_then(cx, layer + 1, ids, y)
        {
            cx.backend.then(then, g);
        }
    }

    /// Whether the backward of a layer reads nothing of its forward but its aggregate and own rows.
    pub fn reads_aggregate(&self, layer: usize) -> bool {
        self.stages[layer].layer.only_weights_read().is_some()
    }

    /// What the backward of such a layer reads, and of one that multiplies first: its input, and its aggregate
    /// where it has one.
    pub fn tape_of(x: Input, aggregate: Option<Mat>) -> Tape {
        let saved = Saved {
            aggregated: aggregate.map(Rc::new),
            ..Saved::input(x)
        };
        Tape { saved: vec![saved] }
    }
}
