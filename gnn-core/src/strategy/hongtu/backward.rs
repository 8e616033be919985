//! Backward: each layer over all batches, from the last one to the first.
//!
//! In that order what a batch leaves in the buffer is added to by the batch before it; a row's gradient goes
//! to its host, or to the device that owns it, when the next batch to go back does not read it.

use super::batches::Batch;
use super::dedup::Dedup;
use super::remember::Remember;
use super::seams::{OverColumns, Source, ToPlaces, clear};
use super::topology::{self, Way};
use super::trainer::{HongTu, Passed, Reads, drop_ids, grad_of, kept_of};
use crate::backend::{Kept, Mat};
use crate::comm::Message;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Grad, Input, Model};
use crate::record::{Direction, Pass};
use std::rc::Rc;

impl HongTu {
    /// All layers, from the gradients of the output that lie on the host.
    pub(super) fn backward(&mut self, cx: &mut Ctx) -> Result<()> {
        for layer in (0..self.model.layers()).rev() {
            cx.pass(Pass::Backward);
            cx.layer(layer);
            if self.reads[layer] == Reads::Product {
                self.back_by_product(cx, layer)?;
                self.host.end_gradients(layer + 1);
                continue;
            }
            let again = self.loads_again(layer);
            let mut rows = if again { self.buffer(cx, layer) } else { None };
            let mut gradients = None;
            if self.wanted(layer) {
                self.begin_gradients(cx, layer, false);
                let room = self.reads[layer] != Reads::Own;
                gradients = room.then(|| cx.backend.zeros(self.batches.places, self.widths[layer]));
            }
            for j in (0..self.batches.all.len()).rev() {
                cx.chunk(Some(j));
                let kept = self.passed[layer][j].take();
                if let (None, Some(rows)) = (&kept, &mut rows) {
                    cx.pass(Pass::Forward);
                    self.fill(cx, (layer, Direction::Forward), j, false, rows)?;
                }
                if let Some(next) = j.checked_sub(1) {
                    self.ahead_back(cx, (layer, next));
                }
                let passed = match kept {
                    Some(kept) => kept,
                    None => self.once_more(cx, (layer, j), rows.as_ref())?,
                };
                self.back(cx, (layer, j), passed, gradients.as_mut())?;
                if let Some(gradients) = &mut gradients {
                    self.spill(cx, layer, j, gradients)?;
                }
                self.check(cx)?;
            }
            cx.chunk(None);
            self.host.end_gradients(layer + 1);
        }
        self.host.residual[1] = None;
        Ok(())
    }

    /// Computes a layer on a batch again, from what is kept of it.
    fn once_more(
        &mut self,
        cx: &mut Ctx,
        (layer, j): (usize, usize),
        rows: Option<&Mat>,
    ) -> Result<Passed> {
        cx.pass(Pass::Forward);
        if self.remembers[layer] == Remember::Output {
            return self.as_kept(cx, (layer, j));
        }
        let known = self.host.aggregates[layer].as_ref();
        let source = match (rows, known) {
            (Some(rows), _) => Source::Buffer(rows),
            (None, Some(all)) => {
                Source::Known(self.tier.load_range(cx, all, self.batch(j).own.clone())?)
            }
            _ => Source::Nothing,
        };
        let (_, passed) = self.over(cx, (layer, j), source, true)?;
        Ok(passed.expect("training keeps it"))
    }

    /// What lies on the host of a layer that was kept there.
    fn as_kept(&self, cx: &Ctx, (layer, j): (usize, usize)) -> Result<Passed> {
        let own = self.batch(j).own.clone();
        let aggregate = self.host.aggregates[layer].as_ref();
        let aggregate = aggregate.expect("forward keeps it");
        let aggregate = self.tier.load_range(cx, aggregate, own)?;
        let x = match self.model.kind().reads_own_rows() {
            true => self.own_rows(cx, (layer, j), true)?,
            false => Input::Dense(Rc::new(cx.backend.fresh(0, self.widths[layer]))),
        };
        Ok(Passed {
            y: self.passed_on(cx, (layer, j))?,
            tape: Model::tape_of(x, Some(aggregate)),
        })
    }

    /// A layer back on a batch: gradients of its own rows to the host, those of others to the buffer.
    fn back(
        &mut self,
        cx: &mut Ctx,
        (layer, j): (usize, usize),
        Passed { y, tape }: Passed,
        mut gradients: Option<&mut Mat>,
    ) -> Result<()> {
        let own = self.batches.all[j].own.clone();
        let g = self.host.gradients[layer + 1].as_ref();
        let g = g.expect("the layer behind it went back");
        let g = self.tier.load_range(cx, g, own.clone())?;
        let h0 = self.host.residual[1].as_ref();
        let h0 = h0.map(|h0| self.tier.load_range(cx, h0, own.clone()));
        let h0 = h0.transpose()?;
        let HongTu {
            model,
            reduction,
            batches,
            columns,
            ids_of,
            reads,
            pinned,
            lists,
            room,
            ..
        } = self;
        let columns = columns.get(j).filter(|_| reads[layer] == Reads::Columns);
        let ids = drop_ids(model, layer, columns, &ids_of[j]);
        let batch = &batches.all[j];
        let mut ready = |cx: &mut Ctx, layer, grads| reduction.chunk(cx, (layer, j == 0), grads);
        let grad = grad_of(g, h0);
        let back = match columns {
            Some(columns) => {
                let mut seam = OverColumns {
                    block: &topology::block_on_device(cx, *pinned, &columns.block),
                    ids: &columns.ids,
                };
                model.backward_alone(cx, &mut seam, layer, (tape, y), ids, grad, &mut ready)?
            }
            None => {
                let kept = match gradients.is_some() {
                    true => kept_of(*pinned, lists.as_ref()),
                    false => topology::Kept::Device,
                };
                let edges_t = topology::on_device(cx, (kept, room), (batch, j, Way::Out))?;
                let mut seam = ToPlaces {
                    batch,
                    edges_t: &edges_t,
                    buffer: gradients.as_deref_mut(),
                    own: model.kind().reads_own_rows(),
                };
                model.backward_alone(cx, &mut seam, layer, (tape, y), ids, grad, &mut ready)?
            }
        };
        let Some(Grad { g, h0, .. }) = back else {
            return Ok(());
        };
        if let Some(buffer) = gradients.filter(|_| columns.is_some()) {
            clear(cx, buffer, &batch.clear);
            cx.backend
                .scatter_add_rows(&g, &batch.columns.places, buffer);
        } else if g.nrows() > 0 {
            let rows = (own.start as u32..own.end as u32)
                .collect::<Vec<_>>()
                .into();
            self.tier.add(cx, g, self.host.gradients(layer), &rows)?;
        }
        if let Some(h0) = h0 {
            let to = self.host.residual(1, h0.ncols());
            self.tier.store(cx, &h0, to, own.start)?;
        }
        Ok(())
    }

    /// Gradients that leave the buffer behind a batch: those of others' rows to the devices that own them,
    /// then those of this rank's to its host.
    pub(super) fn spill(
        &mut self,
        cx: &mut Ctx,
        layer: usize,
        j: usize,
        buffer: &mut Mat,
    ) -> Result<()> {
        let HongTu {
            batches,
            host,
            tier,
            dedup,
            reads,
            ..
        } = self;
        let Batch { up, .. } = &batches.all[j];
        let d = buffer.ncols();
        let to = match reads[layer] {
            Reads::Product => host.products.as_mut().expect("begun before batches"),
            _ => host.gradients(layer),
        };
        let taken = |cx: &Ctx, buffer: &Mat, at: &Kept<u32>| {
            let mut rows = cx.backend.fresh(at.len(), d);
            cx.backend.gather_rows(buffer, at, &mut rows);
            rows
        };
        if cx.size() > 1 {
            let send = up.fetch_at.iter().map(|at| match at.is_empty() {
                true => Message::default(),
                false => cx.message(taken(cx, buffer, at)),
            });
            let send: Vec<Message> = send.collect();
            let lens: Vec<usize> = up.send.iter().map(|rows| rows.len() * d).collect();
            let parts = HongTu::exchange(cx, (layer, Direction::Backward), send, &lens)?;
            for (part, rows) in parts.into_iter().zip(&up.send) {
                if rows.is_empty() {
                    continue;
                }
                let g = cx.received(rows.len(), d, part)?;
                match dedup {
                    Dedup::None => tier.add(cx, g, to, rows)?,
                    _ => cx.backend.scatter_add_rows(&g, rows, buffer),
                }
            }
        }
        if up.load.is_empty() {
            return Ok(());
        }
        tier.add_picked(cx, (buffer, &up.load_at), to, &up.load)
    }
}
