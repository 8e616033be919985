//! What a batch will load, asked for while the one before it is computed (`overlap`).
//!
//! Beyond the paper, whose copies and computations take turns. A layer reads rows of one layer and writes
//! those of another, so that nothing that is copied here changes meanwhile; the gradient of an initial
//! residual, which every layer adds to, is loaded when it is wanted.

use super::host::OnHost;
use super::remember::Remember;
use super::stage::Rows;
use super::trainer::HongTu;
use crate::ctx::Ctx;

impl HongTu {
    /// Whether there is such a batch, and copies are made ahead.
    fn is_ahead(&self, j: usize) -> bool {
        self.tier.overlaps() && j < self.batches.all.len()
    }

    /// A batch's own rows of something on the host.
    fn ahead_range(&self, cx: &Ctx, x: Option<&OnHost>, j: usize) {
        if let Some(x) = x {
            let own = self.batch(j).own.clone();
            self.tier.ahead(cx, x, Rows::Range(own));
        }
    }

    /// What a layer loads of a batch, forward.
    pub(super) fn ahead(&self, cx: &Ctx, (layer, j): (usize, usize), train: bool) {
        if !self.is_ahead(j) {
            return;
        }
        if self.has_buffer(layer) {
            let (x, _) = self.read_rows(layer, train);
            let load = self.batch(j).up.load.clone();
            self.tier.ahead(cx, x, Rows::List(load));
        }
        self.ahead_beside(cx, (layer, j), train);
    }

    /// What a layer loads of a batch beside the rows that it aggregates.
    fn ahead_beside(&self, cx: &Ctx, (layer, j): (usize, usize), train: bool) {
        if self.reads_own(layer, train) {
            self.ahead_own(cx, (layer, j));
        }
        self.ahead_range(cx, self.residual_of(layer), j);
    }

    /// A batch's own rows of a layer's input.
    pub(super) fn ahead_own(&self, cx: &Ctx, (layer, j): (usize, usize)) {
        if self.is_ahead(j) && !self.own_is_sparse(layer) {
            self.ahead_range(cx, Some(&self.host.inputs[layer]), j);
        }
    }

    /// What a layer loads of a batch, backward.
    pub(super) fn ahead_back(&self, cx: &Ctx, (layer, j): (usize, usize)) {
        if !self.is_ahead(j) {
            return;
        }
        self.ahead_range(cx, self.host.gradients[layer + 1].as_ref(), j);
        if self.passed[layer][j].is_some() {
            return;
        }
        match self.remembers[layer] {
            Remember::Output => {
                self.ahead_range(cx, self.host.aggregates[layer].as_ref(), j);
                if self.model.kind().reads_own_rows() {
                    self.ahead_own(cx, (layer, j));
                }
                self.ahead_range(cx, self.host.inputs.get(layer + 1), j);
            }
            _ => {
                if self.loads_again(layer) && self.has_buffer(layer) {
                    let (x, _) = self.read_rows(layer, true);
                    let load = self.batch(j).down.load.clone();
                    self.tier.ahead(cx, x, Rows::List(load));
                } else {
                    self.ahead_range(cx, self.host.aggregates[layer].as_ref(), j);
                }
                self.ahead_beside(cx, (layer, j), true);
            }
        }
    }

    /// What a layer that multiplies first loads of a batch before gradients of its aggregates are gathered.
    pub(super) fn ahead_passed(&self, cx: &Ctx, (layer, j): (usize, usize)) {
        if !self.is_ahead(j) {
            return;
        }
        self.ahead_range(cx, self.host.gradients[layer + 1].as_ref(), j);
        if self.passed[layer][j].is_none() {
            self.ahead_range(cx, self.host.inputs.get(layer + 1), j);
        }
    }

    /// What it loads of a batch when they are known.
    pub(super) fn ahead_rest(&self, cx: &Ctx, (layer, j): (usize, usize)) {
        self.ahead_passed(cx, (layer, j));
        if !self.is_ahead(j) {
            return;
        }
        if self.passed[layer][j].is_none() {
            self.ahead_own(cx, (layer, j));
        }
        self.ahead_range(cx, self.host.products.as_ref(), j);
    }
}
