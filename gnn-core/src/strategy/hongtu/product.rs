//! Layers that multiply first, where their product is narrower: it travels in the place of their input.
//!
//! Forward, the products of all batches come to the host, and are then loaded, fetched and aggregated as
//! inputs are elsewhere. Backward, gradients of the products are gathered in the buffer, batch by batch from
//! the last to the first, and come to the host; what is left of the layer reads its own rows only. Nothing is
//! computed twice but what follows the layer, and no aggregate is kept: backward does not read it.
//!
//! The paper's layers aggregate first (`narrower = false`).

use super::batches::Batch;
use super::disk::Key;
use super::seams::{Known, clear};
use super::topology::{self, Way};
use super::trainer::{HongTu, Passed, grad_of, kept_of};
use crate::backend::{Mat, Write};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Input, Model};
use std::rc::Rc;

impl HongTu {
    /// Products of all batches, on the host.
    pub(super) fn multiply(&mut self, cx: &Ctx, layer: usize, train: bool) -> Result<()> {
        let mut products = self.host.zeros(Key::Product(layer), self.read_width(layer));
        for j in 0..self.batches.all.len() {
            cx.chunk(Some(j));
            self.ahead_own(cx, (layer, j + 1));
            let x = self.own_rows(cx, (layer, j), train)?;
            let product = self.model.product(cx, layer, &x);
            drop(x);
            let first = self.batch(j).own.start;
            self.tier.store(cx, &product, &mut products, first)?;
            self.check(cx)?;
        }
        cx.chunk(None);
        self.host.products = Some(products);
        Ok(())
    }

    /// A layer's backward: gradients of the products of all batches, then what is left of the layer.
    pub(super) fn back_by_product(&mut self, cx: &mut Ctx, layer: usize) -> Result<()> {
        let width = self.read_width(layer);
        self.host.products = Some(self.host.zeros(Key::Product(layer), width));
        let mut buffer = cx.backend.zeros(self.batches.places, width);
        for j in (0..self.batches.all.len()).rev() {
            cx.chunk(Some(j));
            if let Some(next) = j.checked_sub(1) {
                self.ahead_passed(cx, (layer, next));
            }
            self.gather(cx, (layer, j), &mut buffer)?;
            self.spill(cx, layer, j, &mut buffer)?;
            self.check(cx)?;
        }
        drop(buffer);
        if self.wanted(layer) {
            self.begin_gradients(cx, layer, true);
        }
        for j in (0..self.batches.all.len()).rev() {
            cx.chunk(Some(j));
            if let Some(next) = j.checked_sub(1) {
                self.ahead_rest(cx, (layer, next));
            }
            self.rest(cx, (layer, j))?;
            self.check(cx)?;
        }
        cx.chunk(None);
        self.host.products = None;
        Ok(())
    }

    /// What a layer has passed on of a batch; without rows for the last one, whose output nothing follows.
    pub(super) fn passed_on(&self, cx: &Ctx, (layer, j): (usize, usize)) -> Result<Input> {
        if let Some(kept) = &self.passed[layer][j] {
            return Ok(kept.y.clone());
        }
        let y = match self.host.inputs.get(layer + 1) {
            Some(rows) => self.tier.load_range(cx, rows, self.batch(j).own.clone())?,
            None => cx.backend.fresh(0, self.widths[layer + 1]),
        };
        Ok(Input::Dense(Rc::new(y)))
    }

    /// Gradients of a batch's aggregates, into those of the rows in the buffer.
    fn gather(&self, cx: &Ctx, (layer, j): (usize, usize), buffer: &mut Mat) -> Result<()> {
        let batch = self.batch(j);
        let mut g = self.gradient_of_output(cx, (layer, j))?;
        let y = self.passed_on(cx, (layer, j))?;
        self.model
            .before_passing(cx, layer, &self.ids_of[j], Some(&y), &mut g);
        drop(y);
        let kept = kept_of(self.pinned, self.lists.as_ref());
        let edges_t = topology::on_device(cx, (kept, &self.room), (batch, j, Way::Out))?;
        clear(cx, buffer, &batch.clear);
        cx.backend
            .spmm(&edges_t, 0..edges_t.rows(), &g, Write::Add, buffer);
        Ok(())
    }

    fn gradient_of_output(&self, cx: &Ctx, (layer, j): (usize, usize)) -> Result<Mat> {
        let g = self.host.gradients[layer + 1].as_ref();
        let g = g.expect("the layer behind it went back");
        self.tier.load_range(cx, g, self.batch(j).own.clone())
    }

    /// A layer's backward on a batch, with the gradient of its product known.
    fn rest(&mut self, cx: &mut Ctx, (layer, j): (usize, usize)) -> Result<()> {
        let g = self.gradient_of_output(cx, (layer, j))?;
        let Passed { y, tape } = match self.passed[layer][j].take() {
            Some(kept) => kept,
            None => Passed {
                y: self.passed_on(cx, (layer, j))?,
                tape: Model::tape_of(self.own_rows(cx, (layer, j), true)?, None),
            },
        };
        let Batch { own, .. } = self.batch(j);
        let own = own.clone();
        let products = self.host.products.as_ref().expect("gathered before");
        let mut seam = Known::new(self.tier.load_range(cx, products, own.clone())?);
        let HongTu {
            model,
            reduction,
            ids_of,
            ..
        } = self;
        let mut ready = |cx: &mut Ctx, layer, grads| reduction.chunk(cx, (layer, j == 0), grads);
        let (ids, grad) = (&ids_of[j], grad_of(g, None));
        let back = model.backward_alone(cx, &mut seam, layer, (tape, y), ids, grad, &mut ready)?;
        match back {
            Some(gx) => self
                .tier
                .store(cx, &gx.g, self.host.gradients(layer), own.start),
            None => Ok(()),
        }
    }
}
