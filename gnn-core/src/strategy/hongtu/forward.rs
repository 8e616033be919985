//! Forward: each layer over all batches before the next one begins.

use super::batches::Moves;
use super::dedup::Dedup;
use super::host::OnHost;
use super::remember::Remember;
use super::seams::{FromPlaces, OverColumns, Source};
use super::topology::{self, Way};
use super::trainer::{HongTu, Passed, Reads, drop_ids, flow_of, kept_of};
use crate::backend::{Corner, Kept, Mat};
use crate::comm::Message;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Beside, Flow, Input};
use crate::record::{Direction, Pass, Route};
use std::rc::Rc;

/// Who takes what the last layer makes of a batch.
type Output<'a> = &'a mut dyn FnMut(&mut HongTu, &mut Ctx, usize, &Mat) -> Result<()>;

impl HongTu {
    /// All layers.
    pub(super) fn forward(&mut self, cx: &mut Ctx, train: bool, output: Output<'_>) -> Result<()> {
        cx.pass(if train { Pass::Forward } else { Pass::Eval });
        let direction = match train {
            true => Direction::Forward,
            false => Direction::Eval,
        };
        let layers = self.model.layers();
        for layer in 0..layers {
            cx.layer(layer);
            if self.reads[layer] == Reads::Product {
                self.multiply(cx, layer, train)?;
            }
            let mut buffer = self.buffer(cx, layer);
            for j in 0..self.batches.all.len() {
                cx.chunk(Some(j));
                if let Some(buffer) = &mut buffer {
                    self.fill(cx, (layer, direction), j, true, buffer)?;
                }
                self.ahead(cx, (layer, j + 1), train);
                let source = buffer.as_ref().map_or(Source::Nothing, Source::Buffer);
                let (flow, passed) = self.over(cx, (layer, j), source, train)?;
                self.passed[layer][j] = passed.filter(|_| self.remembers[layer] == Remember::All);
                let first = self.batch(j).own.start;
                let x = flow.x.dense().expect("a layer's output is dense");
                match layer + 1 == layers {
                    true => output(self, cx, j, x),
                    false => self
                        .tier
                        .store(cx, x, &mut self.host.inputs[layer + 1], first),
                }?;
                self.keep_residual(cx, layer, first, &flow)?;
                self.check(cx)?;
            }
            cx.chunk(None);
            self.host.products = None;
        }
        Ok(())
    }

    /// Room for the rows that a layer reads; none for a layer that reads no others, or sparse ones, which
    /// have no places.
    pub(super) fn buffer(&self, cx: &Ctx, layer: usize) -> Option<Mat> {
        self.has_buffer(layer).then(|| {
            cx.backend
                .fresh(self.batches.places, self.read_width(layer))
        })
    }

    /// Whether there is such room.
    pub(super) fn has_buffer(&self, layer: usize) -> bool {
        self.reads[layer] != Reads::Own && !self.reads_sparse(layer)
    }

    /// Whether a layer reads sparse rows of others.
    pub(super) fn reads_sparse(&self, layer: usize) -> bool {
        layer == 0 && self.columns.iter().any(|c| c.features.is_some())
    }

    /// Fills the buffer for a batch: on the way `up`, or down again.
    pub(super) fn fill(
        &self,
        cx: &mut Ctx,
        (layer, direction): (usize, Direction),
        j: usize,
        up: bool,
        buffer: &mut Mat,
    ) -> Result<()> {
        let batch = self.batch(j);
        let moves = if up { &batch.up } else { &batch.down };
        let train = direction != Direction::Eval;
        self.load(cx, (layer, train), &moves.load, (buffer, &moves.load_at))?;
        if cx.size() == 1 {
            return Ok(());
        }
        let d = self.read_width(layer);
        let send = moves.send.iter();
        let send = send.map(|rows| self.sent(cx, (layer, train), rows, buffer));
        let send = send.collect::<Result<Vec<Message>>>()?;
        let lens: Vec<usize> = moves.fetch_at.iter().map(|at| at.len() * d).collect();
        let parts = HongTu::exchange(cx, (layer, direction), send, &lens)?;
        for (part, at) in parts.into_iter().zip(&moves.fetch_at) {
            if at.is_empty() {
                continue;
            }
            let rows = cx.received(at.len(), d, part)?;
            cx.backend.copy_block(
                &rows,
                Corner::at(0),
                (at.len(), d),
                buffer,
                Corner::of(at, 0),
            );
        }
        if up {
            cx.halo(direction, fetched(moves), 0);
        }
        Ok(())
    }

    /// Rows of this host to places on the device, features with elements dropped.
    fn load(
        &self,
        cx: &Ctx,
        (layer, train): (usize, bool),
        rows: &Kept<u32>,
        (buffer, at): (&mut Mat, &Kept<u32>),
    ) -> Result<()> {
        let (x, drops) = self.read_rows(layer, train);
        if !drops {
            return self.tier.load(cx, (x, rows), buffer, at);
        }
        let dropped = self.dropped(cx, self.tier.load_list(cx, x, rows)?, rows);
        cx.backend.copy_block(
            &dropped,
            Corner::at(0),
            dropped.dim(),
            buffer,
            Corner::of(at, 0),
        );
        Ok(())
    }

    /// What a layer reads of others: rows on the host, and whether elements of them are to be dropped.
    pub(super) fn read_rows(&self, layer: usize, train: bool) -> (&OnHost, bool) {
        match &self.host.products {
            Some(products) => (products, false),
            None => {
                let drops = train && layer == 0 && self.model.drops_features();
                (&self.host.inputs[layer], drops)
            }
        }
    }

    /// Features of some of this rank's rows, with elements dropped.
    fn dropped(&self, cx: &Ctx, x: Mat, rows: &Kept<u32>) -> Mat {
        let ids = rows.iter().map(|&row| self.ids[row as usize]);
        let ids: Kept<u32> = ids.collect::<Vec<_>>().into();
        let dropped = self.model.drop_features(cx, Input::Dense(Rc::new(x)), &ids);
        dropped.into_mat()
    }

    /// The rows that another device wants.
    fn sent(
        &self,
        cx: &Ctx,
        (layer, train): (usize, bool),
        rows: &Kept<u32>,
        buffer: &Mat,
    ) -> Result<Message> {
        if rows.is_empty() {
            return Ok(Message::default());
        }
        if self.dedup == Dedup::None {
            // Out of this host's memory for that device, which cannot look into it.
            let (x, drops) = self.read_rows(layer, train);
            let block = self.tier.load_list(cx, x, rows)?;
            return Ok(cx.message(match drops {
                true => self.dropped(cx, block, rows),
                false => block,
            }));
        }
        let mut block = cx.backend.fresh(rows.len(), buffer.ncols());
        cx.backend.gather_rows(buffer, rows, &mut block);
        Ok(cx.message(block))
    }

    /// What a layer reads of a batch, beside what it aggregates.
    fn flow(
        &self,
        cx: &Ctx,
        (layer, j): (usize, usize),
        source: &Source<'_>,
        train: bool,
    ) -> Result<Flow> {
        let dense = |x: Mat| Input::Dense(Rc::new(x));
        let x = match (self.reads[layer], source) {
            (Reads::Columns, Source::Buffer(buffer)) => {
                let places = &self.batch(j).columns.places;
                let (n, d) = (places.len(), buffer.ncols());
                let mut rows = cx.backend.fresh(n, d);
                cx.meter().copying(Route::OnDevice, 4 * (n * d) as u64, || {
                    cx.backend.gather_rows(buffer, places, &mut rows);
                });
                // Features were dropped when they were loaded.
                dense(rows)
            }
            (Reads::Columns, _) => {
                let columns = &self.columns[j];
                let features = columns.features.clone();
                let features = features.expect("sparse rows have no buffer");
                self.drop_in(cx, layer, train, features, &columns.ids)
            }
            _ if !self.reads_own(layer, train) => dense(cx.backend.fresh(0, self.widths[layer])),
            _ => self.own_rows(cx, (layer, j), train)?,
        };
        Ok(flow_of(x, self.residual(cx, layer, j)?))
    }

    /// Whether a layer reads a batch's own rows of its input as such.
    pub(super) fn reads_own(&self, layer: usize, train: bool) -> bool {
        match self.reads[layer] {
            Reads::Own => true,
            Reads::Places => self.model.kind().reads_own_rows(),
            Reads::Product => self.keeps_rows(layer, train),
            Reads::Columns => false,
        }
    }

    /// Whether a layer that multiplies first reads its own rows beside the product, or keeps them.
    fn keeps_rows(&self, layer: usize, train: bool) -> bool {
        let keeps = train && self.remembers[layer] == Remember::All;
        // Sparse ones are there, and say by themselves that they are multiplied first.
        keeps || self.own_is_sparse(layer) || self.model.kind().reads_own_rows()
    }

    /// Whether the rows of its own that a layer reads are sparse features, which stay on the device.
    pub(super) fn own_is_sparse(&self, layer: usize) -> bool {
        layer == 0 && !self.sparse.is_empty()
    }

    /// A batch's own rows of a layer's input, on the device.
    pub(super) fn own_rows(
        &self,
        cx: &Ctx,
        (layer, j): (usize, usize),
        train: bool,
    ) -> Result<Input> {
        let x = match self.own_is_sparse(layer) {
            true => self.sparse[j].clone(),
            false => {
                let (rows, own) = (&self.host.inputs[layer], self.batch(j).own.clone());
                Input::Dense(Rc::new(self.tier.load_range(cx, rows, own)?))
            }
        };
        Ok(self.drop_in(cx, layer, train, x, &self.ids_of[j]))
    }

    /// Features with elements dropped, where this is training; other inputs as they are.
    fn drop_in(&self, cx: &Ctx, layer: usize, train: bool, x: Input, ids: &Kept<u32>) -> Input {
        match train && layer == 0 {
            true => self.model.drop_features(cx, x, ids),
            false => x,
        }
    }

    /// A layer on a batch.
    pub(super) fn over(
        &mut self,
        cx: &mut Ctx,
        (layer, j): (usize, usize),
        source: Source<'_>,
        train: bool,
    ) -> Result<(Flow, Option<Passed>)> {
        let flow = self.flow(cx, (layer, j), &source, train)?;
        let keeps = train && self.remembers[layer].has_aggregate();
        let columns = self.columns.get(j);
        let columns = columns.filter(|_| self.reads[layer] == Reads::Columns);
        let ids = drop_ids(&self.model, layer, columns, &self.ids_of[j]);
        let (model, layers) = (&self.model, layer..layer + 1);
        let keep = self.host.aggregates[layer].as_mut();
        let (flow, tape) = match columns {
            Some(columns) => {
                let mut seam = OverColumns {
                    block: &topology::block_on_device(cx, self.pinned, &columns.block),
                    ids: &columns.ids,
                };
                model.forward_layers(cx, &mut seam, layers, flow, ids, train)?
            }
            None => {
                let batch = &self.batches.all[j];
                // Nothing is read where the aggregate is known.
                let kept = match source {
                    Source::Buffer(_) => kept_of(self.pinned, self.lists.as_ref()),
                    _ => topology::Kept::Device,
                };
                let edges = topology::on_device(cx, (kept, &self.room), (batch, j, Way::In))?;
                let mut seam = FromPlaces {
                    batch,
                    edges: &edges,
                    from: source,
                    keep: keep.filter(|_| keeps).map(|to| (&self.tier, to)),
                };
                model.forward_layers(cx, &mut seam, layers, flow, ids, train)?
            }
        };
        let passed = train.then(|| Passed {
            y: flow.x.clone(),
            tape,
        });
        Ok((flow, passed))
    }

    /// Keeps the residual that a layer has begun, for rows from `first` on.
    fn keep_residual(&mut self, cx: &Ctx, layer: usize, first: usize, flow: &Flow) -> Result<()> {
        let begins = matches!(self.model.layer(layer).beside(), Beside::BeginsResidual(_));
        match flow.h0.as_ref().filter(|_| begins) {
            Some(h0) => {
                let to = self.host.residual(0, h0.ncols());
                self.tier.store(cx, h0, to, first)
            }
            None => Ok(()),
        }
    }
}

fn fetched(moves: &Moves) -> usize {
    moves.fetch_at.iter().map(|at| at.len()).sum()
}
