//! One rank's training of its stage's layers on its part of every chunk.

use super::over_chunks::OverChunks;
use super::passing::{Coming, below_each_other, label, rows_of, send};
use crate::backend::{Kept, Mat};
use crate::checkpoint::Snapshot;
use crate::comm::Communicator;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::head::Head;
use crate::model::{Aggregate, Flow, Grad, Input, Model, Optimiser, Tape, Weights};
use crate::record::{Direction, Pass, PredictedLane};
use crate::rng::{self, Purpose};
use crate::strategy::full_graph::OverBlock;
use crate::strategy::halo::Halo;
use crate::strategy::reduce::Reduction;
use crate::strategy::{Rows, Strategy};
use std::ops::Range;
use std::rc::Rc;

/// How layers reach other vertices.
pub(super) enum Seam {
    /// One chunk: nothing is historical.
    One(OverBlock<Halo>),
    /// Several.
    Several(OverChunks),
}

impl Seam {
    fn seam(&mut self) -> &mut dyn Aggregate {
        match self {
            Seam::One(over) => over,
            Seam::Several(over) => over,
        }
    }

    /// From now on the rows of a chunk come, or of all.
    fn at(&mut self, chunk: Option<usize>) {
        if let Seam::Several(over) = self {
            over.at = chunk;
        }
    }

    fn features(&mut self, x: Option<Rc<Mat>>) {
        if let Seam::Several(over) = self {
            over.features = x;
        }
    }

    fn history(&mut self, then: impl FnOnce(&mut super::history::History)) {
        if let Seam::Several(over) = self {
            then(over.history());
        }
    }
}

/// What the first layer here reads.
pub(super) enum Source {
    /// What the stage before sends.
    Before(usize),
    /// Features, chunk by chunk: the first layer reads no neighbours, or there is one chunk.
    Chunks(Vec<Input>),
    /// Features of all sources: the first layer aggregates them.
    Sources(Input),
    /// Features of all rows: the first layer aggregates a product of them, so it runs on all rows before
    /// the first chunk, and back after the last.
    Rows(Input),
}

/// A rank's training.
pub(super) struct Stage {
    pub(super) group: Communicator,
    pub(super) source: Source,
    /// The rank with the same rows in the stage behind.
    pub(super) after: Option<usize>,
    pub(super) seam: Seam,
    pub(super) model: Model,
    /// Of all chunks, chunk by chunk.
    pub(super) rows: Rows,
    /// Of each chunk, in the last stage.
    pub(super) of_chunks: Vec<Rows>,
    /// Global vertex ids of each chunk's rows.
    pub(super) ids: Vec<Kept<u32>>,
    pub(super) head: Head,
    pub(super) reduction: Reduction,
    pub(super) optimiser: Optimiser,
    /// Whether chunks go in another order every epoch.
    pub(super) shuffle: bool,
    /// In the place of the gradients of layers that other stages have.
    pub(super) none: Mat,
}

/// The order in which chunks go forward in an epoch, the same on every rank.
pub(super) fn order(seed: u64, epoch: u64, chunks: usize, shuffle: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..chunks).collect();
    if shuffle {
        rng::shuffle(rng::key(seed, epoch, Purpose::Shuffle, 0), &mut order);
    }
    order
}

/// What forward leaves of a chunk.
struct Passed {
    tape: Tape,
    /// Of its output, in the last stage.
    grad: Option<Grad>,
}

/// The first layer on all rows, where it goes before the chunks.
struct First {
    output: Rc<Mat>,
    tape: Tape,
    /// Of its output, filled chunk by chunk.
    grad: Mat,
}

/// What the stage does with a chunk: its number and the layers it goes through.
#[derive(Clone)]
struct Through {
    chunk: usize,
    layers: Range<usize>,
}

impl Stage {
    /// What leaves this rank beside rows that aggregations read: what crosses to other stages, and the
    /// weight gradients.
    ///
    /// # Errors
    /// As [`Model::crossing`].
    pub(super) fn predict(&mut self, cx: &mut Ctx) -> Result<Vec<(PredictedLane, u64)>> {
        let Range { start, end } = self.model.held();
        let before = match self.source {
            Source::Before(peer) => Some(peer),
            _ => None,
        };
        let mut lanes = Vec::new();
        let ways = [
            (self.after, end, Direction::Forward),
            (before, start, Direction::Backward),
        ];
        for (peer, layer, direction) in ways {
            let Some(peer) = peer else { continue };
            let bytes = 4 * self.rows.ids.len() * self.model.crossing(layer)?.width();
            lanes.push(((layer as u16, direction, peer as u32), bytes as u64));
        }
        let reduction = &self.reduction;
        lanes.extend(cx.within(&mut self.group, |cx| reduction.predict(cx)));
        Ok(lanes)
    }

    /// Layers that chunks go through here.
    fn layers(&self) -> Range<usize> {
        let Range { start, end } = self.model.held();
        match self.source {
            Source::Rows(_) => start + 1..end,
            _ => start..end,
        }
    }

    /// Rows of a chunk before it goes through the layers here.
    fn enter(
        &mut self,
        cx: &mut Ctx,
        chunk: usize,
        coming: Option<&mut Coming>,
        first: Option<&First>,
    ) -> Result<Flow> {
        let (ids, rows) = (&self.ids[chunk], self.ids[chunk].len());
        Ok(match (&self.source, coming, first) {
            (Source::Before(_), Some(coming), _) => {
                let message = coming.next(cx)?;
                let crossing = self.model.crossing(self.model.held().start)?;
                crossing.unpack(cx, rows, message)?
            }
            (Source::Rows(_), _, Some(first)) => {
                let own = self.own(chunk);
                rows_of(cx, &first.output, own.start, own.len())
            }
            (Source::Chunks(inputs), ..) => {
                let input = inputs[chunk].clone();
                self.model.drop_features(cx, input, ids).into()
            }
            (Source::Sources(_), ..) => self.of_features(cx, chunk),
            _ => unreachable!("a stage knows what its first layer reads"),
        })
    }

    /// A chunk's rows of this pass's features.
    fn of_features(&self, cx: &Ctx, chunk: usize) -> Flow {
        let Seam::Several(over) = &self.seam else {
            unreachable!("features of sources are there for several chunks")
        };
        let x = over.features.as_ref().expect("set when the pass began");
        let chunk = &over.chunks().all[chunk];
        rows_of(cx, x, chunk.seen.start, chunk.rows())
    }

    /// Rows of a chunk among this rank's.
    fn own(&self, chunk: usize) -> Range<usize> {
        let start = self.ids[..chunk].iter().map(|ids| ids.len()).sum();
        start..start + self.ids[chunk].len()
    }

    /// A chunk, or all rows, through some layers.
    fn through(
        &mut self,
        cx: &mut Ctx,
        chunk: Option<usize>,
        layers: Range<usize>,
        flow: Flow,
        train: bool,
    ) -> Result<(Flow, Tape)> {
        self.seam.at(chunk);
        let ids = chunk.map_or(&self.rows.ids, |k| &self.ids[k]);
        let Stage {
            group, model, seam, ..
        } = self;
        cx.within(group, |cx| {
            model.forward_layers(cx, seam.seam(), layers, flow, ids, train)
        })
    }

    /// The features of this epoch, with elements dropped, and the first layer on all rows where it goes
    /// before the chunks.
    fn begin(&mut self, cx: &mut Ctx) -> Result<Option<First>> {
        self.seam.history(|history| history.begin(cx));
        match &self.source {
            Source::Sources(input) => {
                let Seam::Several(over) = &self.seam else {
                    unreachable!("features of sources are there for several chunks")
                };
                let ids = over.source_ids().clone();
                let dropped = self.model.drop_features(cx, input.clone(), &ids);
                self.seam.features(dropped.dense().cloned());
                Ok(None)
            }
            Source::Rows(input) => {
                let input = input.clone();
                let dropped = self.model.drop_features(cx, input, &self.rows.ids);
                let (flow, tape) = self.through(cx, None, 0..1, dropped.into(), true)?;
                let output = Rc::clone(flow.x.dense().expect("a layer's output is dense"));
                let grad = cx.backend.fresh(output.nrows(), output.ncols());
                Ok(Some(First { output, tape, grad }))
            }
            _ => Ok(None),
        }
    }

    /// All chunks forward, in `order`; what each leaves, by number, and the sum of losses.
    fn forward(
        &mut self,
        cx: &mut Ctx,
        order: &[usize],
        first: Option<&First>,
    ) -> Result<(Vec<Option<Passed>>, f64)> {
        let held = self.model.held();
        let mut coming = match self.source {
            Source::Before(peer) => {
                let width = self.model.crossing(held.start)?.width();
                let lens = order.iter().map(|&k| self.ids[k].len() * width);
                let label = label(held.start, Direction::Forward);
                Some(Coming::new(cx, label, peer, lens)?)
            }
            _ => None,
        };
        let mut passed: Vec<Option<Passed>> = order.iter().map(|_| None).collect();
        let mut loss = 0.0;
        for &chunk in order {
            cx.pass(Pass::Forward);
            let flow = self.enter(cx, chunk, coming.as_mut(), first)?;
            let (flow, tape) = self.through(cx, Some(chunk), self.layers(), flow, true)?;
            let grad = match self.after {
                Some(peer) => {
                    let message = self.model.crossing(held.end)?.pack(cx, &flow)?;
                    send(cx, label(held.end, Direction::Forward), peer, message)?;
                    None
                }
                None => {
                    let logits = flow.x.into_mat();
                    let mut g = cx.backend.fresh(logits.nrows(), logits.ncols());
                    let (rows, own) = (&self.of_chunks[chunk], Weights::new());
                    loss += self.head.loss(cx, rows, &own, &logits, &mut g)?.0;
                    Some(Grad::from(g))
                }
            };
            passed[chunk] = Some(Passed { tape, grad });
        }
        Ok((passed, loss))
    }

    /// All chunks back, in the reverse of `order`.
    fn backward(
        &mut self,
        cx: &mut Ctx,
        order: &[usize],
        mut passed: Vec<Option<Passed>>,
        mut first: Option<First>,
    ) -> Result<()> {
        let held = self.model.held();
        cx.pass(Pass::Backward);
        let mut coming = match self.after {
            Some(peer) => {
                let width = self.model.crossing(held.end)?.width();
                let lens = order.iter().rev().map(|&k| self.ids[k].len() * width);
                let label = label(held.end, Direction::Backward);
                Some(Coming::new(cx, label, peer, lens)?)
            }
            None => None,
        };
        for (left, &chunk) in order.iter().enumerate().rev() {
            cx.pass(Pass::Backward);
            let Passed { tape, grad } = passed[chunk].take().expect("each goes back once");
            let grad = match (grad, &mut coming) {
                (None, Some(coming)) => {
                    let (n, message) = (self.ids[chunk].len(), coming.next(cx)?);
                    let crossing = self.model.crossing(held.end)?;
                    crossing.unpack_gradient(cx, n, message)?
                }
                (grad, _) => grad.expect("the last stage makes it itself"),
            };
            let layers = self.layers();
            let through = Through { chunk, layers };
            let back = self.back(cx, Some(through), tape, grad, left == 0)?;
            match (&self.source, back, &mut first) {
                (&Source::Before(peer), Some(back), _) => {
                    let crossing = self.model.crossing(held.start)?;
                    let message = crossing.pack_gradient(cx, &back)?;
                    send(cx, label(held.start, Direction::Backward), peer, message)?;
                }
                (Source::Rows(_), Some(back), Some(first)) => {
                    let own = self.own(chunk);
                    let to = &mut first.grad;
                    cx.backend.copy_rows(&back.g, 0, own.len(), to, own.start);
                }
                _ => {}
            }
        }
        if let Some(First { tape, grad, .. }) = first {
            self.back(cx, None, tape, grad.into(), true)?;
        }
        Ok(())
    }

    /// A chunk back through some layers, or all rows through the first; the last to go back hands over the
    /// sums of the weights' gradients.
    fn back(
        &mut self,
        cx: &mut Ctx,
        through: Option<Through>,
        tape: Tape,
        grad: Grad,
        last: bool,
    ) -> Result<Option<Grad>> {
        let (chunk, layers) = match through {
            Some(Through { chunk, layers }) => (Some(chunk), layers),
            None => (None, 0..1),
        };
        self.seam.at(chunk);
        let ids = chunk.map_or(&self.rows.ids, |k| &self.ids[k]);
        let Stage {
            group,
            model,
            seam,
            reduction,
            ..
        } = self;
        cx.within(group, |cx| {
            let mut ready = |cx: &mut Ctx, layer, grads| match last {
                true => reduction.ready(cx, layer, grads),
                false => {
                    reduction.add(cx, layer, grads);
                    Ok(())
                }
            };
            model.backward_layers(cx, seam.seam(), layers, tape, ids, grad, &mut ready)
        })
    }

    /// The output of all rows without dropout, every neighbour's as it is now; what of it the stage behind
    /// reads has gone there.
    fn exact(&mut self, cx: &mut Ctx) -> Result<Flow> {
        cx.pass(Pass::Eval);
        let held = self.model.held();
        let n = self.rows.ids.len();
        let mut layers = held.clone();
        let flow = match &self.source {
            &Source::Before(peer) => {
                let crossing = self.model.crossing(held.start)?;
                let label = label(held.start, Direction::Eval);
                let message = match n * crossing.width() {
                    0 => Vec::new(),
                    len => cx.comm.recv(label, peer, len)?,
                };
                crossing.unpack(cx, n, message)?
            }
            Source::Rows(input) => input.clone().into(),
            Source::Chunks(inputs) if inputs.len() == 1 => inputs[0].clone().into(),
            _ => {
                layers.start = 1;
                self.first_by_chunk(cx)?
            }
        };
        let (flow, _) = self.through(cx, None, layers, flow, false)?;
        if let Some(peer) = self.after {
            let message = self.model.crossing(held.end)?.pack(cx, &flow)?;
            send(cx, label(held.end, Direction::Eval), peer, message)?;
        }
        Ok(flow)
    }

    /// The output of the first layer without dropout, chunk by chunk, since its input lies so.
    fn first_by_chunk(&mut self, cx: &mut Ctx) -> Result<Flow> {
        if let Source::Sources(input) = &self.source {
            let x = input.dense().cloned();
            self.seam.features(x);
        }
        let mut flows = Vec::with_capacity(self.ids.len());
        for chunk in 0..self.ids.len() {
            let flow = match &self.source {
                Source::Chunks(inputs) => inputs[chunk].clone().into(),
                _ => self.of_features(cx, chunk),
            };
            flows.push(self.through(cx, Some(chunk), 0..1, flow, false)?.0);
        }
        Ok(below_each_other(cx, &flows))
    }

    /// Makes the first historical rows: an exact pass at the first weights. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn found(&mut self, cx: &mut Ctx) -> Result<()> {
        let Seam::Several(over) = &mut self.seam else {
            return Ok(());
        };
        over.founds = true;
        self.exact(cx)?;
        if let Seam::Several(over) = &mut self.seam {
            over.founds = false;
        }
        cx.pass(Pass::Setup);
        Ok(())
    }
}

impl Strategy for Stage {
    fn epoch(&mut self, cx: &mut Ctx) -> Result<f64> {
        cx.pass(Pass::Forward);
        let reduction = &mut self.reduction;
        cx.within(&mut self.group, |cx| reduction.begin(cx));
        let seed = cx.plan.spec.seed;
        let order = order(seed, cx.epoch, self.ids.len(), self.shuffle);
        let first = self.begin(cx)?;
        let (passed, loss) = self.forward(cx, &order, first.as_ref())?;
        self.backward(cx, &order, passed, first)?;
        cx.pass(Pass::Optim);
        let reduction = &mut self.reduction;
        cx.within(&mut self.group, |cx| reduction.collect(cx))?;
        let weights = &mut self.model.weights;
        let gradients = self.reduction.gradients();
        self.optimiser.step(cx.backend.as_ref(), weights, gradients);
        self.seam.history(|history| history.end(cx));
        Ok(loss)
    }

    fn logits(&mut self, cx: &mut Ctx) -> Result<kernels::Mat> {
        let flow = self.exact(cx)?;
        Ok(match self.after {
            None => cx.backend.take(flow.x.into_mat()),
            Some(_) => kernels::Mat::zeros((0, 0)),
        })
    }

    fn gradients(&self) -> Vec<&Mat> {
        let mut all = Vec::new();
        for (layer, own) in self.reduction.gradients().iter().enumerate() {
            let tensors = self.model.layer(layer).tensors().len();
            all.extend((0..tensors).map(|t| own.get(t).unwrap_or(&self.none)));
        }
        all
    }

    fn save(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        let (backend, own) = (cx.backend.as_ref(), &mut snapshot.own);
        self.model.save(backend, own);
        self.optimiser.save(backend, own);
        self.seam.seam().save(cx, own);
        Ok(())
    }

    fn restore(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        let (backend, own) = (cx.backend.as_ref(), &mut snapshot.own);
        self.model.restore(backend, own)?;
        self.optimiser.restore(backend, own)?;
        self.seam.seam().restore(cx, own)
    }
}
