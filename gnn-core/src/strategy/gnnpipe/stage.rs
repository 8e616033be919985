//! One rank's training of its layers on its part of every chunk.

use super::frames::{self, Mark, Standing};
use super::passing::{Coming, below_each_other, label, send};
use super::piece::{Back, First, Piece, Place, Seam, Source};
use super::schedule::{order, turns};
use crate::backend::{Kept, Mat};
use crate::checkpoint::Snapshot;
use crate::comm::{Communicator, Message};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::head::Head;
use crate::model::{Flow, Grad, Model, Tape, Weights};
use crate::record::{Direction, Pass, PredictedLane};
use crate::strategy::{Rows, Strategy};
use std::ops::Range;
use std::rc::Rc;

/// A rank's training.
pub(super) struct Stage {
    pub(super) standing: Standing,
    /// The ranks of the stage.
    pub(super) group: Communicator,
    pub(super) seam: Seam,
    pub(super) pieces: Vec<Piece>,
    /// Of all chunks, chunk by chunk.
    pub(super) rows: Rows,
    /// Of each chunk, where the model ends.
    pub(super) of_chunks: Vec<Rows>,
    /// Global vertex ids of each chunk's rows.
    pub(super) ids: Vec<Kept<u32>>,
    pub(super) head: Head,
    /// Whether chunks go in another order every epoch.
    pub(super) shuffle: bool,
    /// Whether weight gradients are made when the input's have gone on.
    pub(super) split: bool,
    /// In the place of the gradients of layers that other stages have.
    pub(super) none: Mat,
}

/// What forward leaves of a chunk in a piece.
struct Passed {
    tape: Tape,
    /// Of its output, where the model ends.
    grad: Option<Grad>,
}

/// By piece and chunk.
type AllPassed = Vec<Vec<Option<Passed>>>;

impl Stage {
    /// What leaves this rank beside rows that aggregations read: what crosses to other stages, and the
    /// weight gradients.
    ///
    /// # Errors
    /// As [`Model::crossing`].
    pub(super) fn predict(&mut self, cx: &mut Ctx) -> Result<Vec<(PredictedLane, u64)>> {
        let mut lanes = Vec::new();
        for piece in &self.pieces {
            let model = &piece.model;
            let Range { start, end } = model.held();
            let begins = !matches!(piece.source, Source::Before);
            let ways = [
                (
                    self.standing.after,
                    end,
                    Direction::Forward,
                    end == model.layers(),
                ),
                (self.standing.before, start, Direction::Backward, begins),
            ];
            for (peer, layer, direction, none) in ways {
                if !none {
                    let bytes = 4 * self.rows.ids.len() * model.crossing(layer)?.width();
                    lanes.push(((layer as u16, direction, peer as u32), bytes as u64));
                }
            }
            let reduction = &piece.reduction;
            lanes.extend(cx.within(&mut self.group, |cx| reduction.predict(cx)));
        }
        Ok(lanes)
    }

    /// Whether the model ends in a piece.
    fn ends(&self, piece: usize) -> bool {
        let model = &self.pieces[piece].model;
        model.held().end == model.layers()
    }

    /// Rows of a chunk among this rank's.
    fn own(&self, chunk: usize) -> Range<usize> {
        let start = self.ids[..chunk].iter().map(|ids| ids.len()).sum();
        start..start + self.ids[chunk].len()
    }

    /// A piece, and where it runs on a chunk or on all rows.
    fn at(&mut self, piece: usize, chunk: Option<usize>) -> (&mut Piece, Place<'_>) {
        let ids = chunk.map_or(&self.rows.ids, |k| &self.ids[k]);
        let place = Place {
            group: &mut self.group,
            seam: &mut self.seam,
            ids,
            chunk,
        };
        (&mut self.pieces[piece], place)
    }

    /// A chunk, or all rows, through some layers of a piece.
    fn through(
        &mut self,
        cx: &mut Ctx,
        (piece, chunk): (usize, Option<usize>),
        layers: Range<usize>,
        flow: Flow,
        train: bool,
    ) -> Result<(Flow, Tape)> {
        let (piece, place) = self.at(piece, chunk);
        piece.through(cx, place, layers, flow, train)
    }

    /// What comes in these turns, of pieces that read what others send: forward rows, or gradients.
    fn coming(
        &self,
        cx: &mut Ctx,
        direction: Direction,
        turns: impl Iterator<Item = (usize, usize)>,
    ) -> Result<Coming> {
        let forward = direction == Direction::Forward;
        let mut messages = Vec::new();
        for (piece, chunk) in turns {
            let Piece { model, source, .. } = &self.pieces[piece];
            let Range { start, end } = model.held();
            let comes = match forward {
                true => matches!(source, Source::Before),
                false => !self.ends(piece),
            };
            if comes {
                let layer = if forward { start } else { end };
                let len = self.ids[chunk].len() * model.crossing(layer)?.width();
                messages.push((label(layer, direction), len));
            }
        }
        let peer = match forward {
            true => self.standing.before,
            false => self.standing.after,
        };
        Coming::new(cx, peer, messages)
    }

    /// Rows of a chunk before it goes through a piece.
    fn enter(
        &mut self,
        cx: &mut Ctx,
        (piece, chunk): (usize, usize),
        coming: &mut Coming,
        first: Option<&First>,
    ) -> Result<Flow> {
        let (ids, own) = (&self.ids[chunk], self.own(chunk));
        let Piece { model, source, .. } = &self.pieces[piece];
        Ok(match (source, first) {
            (Source::Before, _) => {
                let message = coming.next(cx)?;
                let crossing = model.crossing(model.held().start)?;
                crossing.unpack(cx, ids.len(), message)?
            }
            (Source::Rows(_), Some(first)) => cx.backend.rows(&first.output, own).into(),
            (Source::Chunks(inputs), _) => {
                let input = inputs[chunk].clone();
                model.drop_features(cx, input, ids).into()
            }
            (Source::Sources(_), _) => {
                let over = self.seam.several().expect("features of sources of chunks");
                Piece::of_features(cx, over, chunk)
            }
            _ => unreachable!("made when the epoch began"),
        })
    }

    /// The features of this epoch, with elements dropped, and the first layer on all rows where it goes
    /// before the chunks.
    fn begin(&mut self, cx: &mut Ctx, order: &[usize]) -> Result<Option<First>> {
        let Piece { source, model, .. } = &self.pieces[0];
        if let Some(over) = self.seam.several() {
            over.begin(order);
            if let Source::Sources(input) = source {
                let ids = over.source_ids().clone();
                let dropped = model.drop_features(cx, input.clone(), &ids);
                over.features = dropped.dense().cloned();
            }
        }
        if let Source::Rows(input) = source {
            let dropped = model.drop_features(cx, input.clone(), &self.rows.ids);
            let (flow, tape) = self.through(cx, (0, None), 0..1, dropped.into(), true)?;
            let output = Rc::clone(flow.x.dense().expect("a layer's output is dense"));
            let grad = cx.backend.fresh(output.nrows(), output.ncols());
            return Ok(Some(First { output, tape, grad }));
        }
        Ok(None)
    }

    /// All chunks forward, in `order`; what each leaves, and the sum of losses.
    fn forward(
        &mut self,
        cx: &mut Ctx,
        order: &[usize],
        turns: &[(usize, usize)],
        first: Option<&First>,
    ) -> Result<(AllPassed, f64)> {
        let chunks = turns.iter().map(|&(piece, place)| (piece, order[place]));
        let mut coming = self.coming(cx, Direction::Forward, chunks)?;
        let of_piece = |_: &Piece| order.iter().map(|_| None).collect();
        let mut passed: AllPassed = self.pieces.iter().map(of_piece).collect();
        let mut loss = 0.0;
        for &(piece, place) in turns {
            let chunk = order[place];
            cx.pass(Pass::Forward);
            let mark = Mark::new(cx, (piece, chunk, place), Direction::Forward);
            let flow = self.enter(cx, (piece, chunk), &mut coming, first)?;
            let mark = mark.came(cx);
            let layers = self.pieces[piece].layers();
            let (flow, tape) = self.through(cx, (piece, Some(chunk)), layers, flow, true)?;
            let grad = match self.ends(piece) {
                false => {
                    let model = &self.pieces[piece].model;
                    let end = model.held().end;
                    let message = model.crossing(end)?.pack(cx, &flow)?;
                    send(
                        cx,
                        label(end, Direction::Forward),
                        self.standing.after,
                        message,
                    )?;
                    None
                }
                true => {
                    let logits = flow.x.into_mat();
                    let mut g = cx.backend.fresh(logits.nrows(), logits.ncols());
                    let (rows, own) = (&self.of_chunks[chunk], Weights::new());
                    loss += self.head.loss(cx, rows, &own, &logits, &mut g)?.0;
                    Some(Grad::from(g))
                }
            };
            passed[piece][chunk] = Some(Passed { tape, grad });
            mark.done(cx, self);
        }
        Ok((passed, loss))
    }

    /// All chunks back, in the reverse of `turns`.
    fn backward(
        &mut self,
        cx: &mut Ctx,
        order: &[usize],
        turns: &[(usize, usize)],
        mut passed: AllPassed,
        mut first: Option<First>,
    ) -> Result<()> {
        cx.pass(Pass::Backward);
        let chunks = turns
            .iter()
            .rev()
            .map(|&(piece, place)| (piece, order[place]));
        let mut coming = self.coming(cx, Direction::Backward, chunks)?;
        for &(piece, place) in turns.iter().rev() {
            let chunk = order[place];
            cx.pass(Pass::Backward);
            let mark = Mark::new(cx, (piece, chunk, place), Direction::Backward);
            let Passed { tape, grad } = passed[piece][chunk].take().expect("each goes back once");
            let grad = match grad {
                Some(grad) => grad,
                None => {
                    let (n, message) = (self.ids[chunk].len(), coming.next(cx)?);
                    let model = &self.pieces[piece].model;
                    let crossing = model.crossing(model.held().end)?;
                    crossing.unpack_gradient(cx, n, message)?
                }
            };
            let mark = mark.came(cx);
            let (own, before, split) = (self.own(chunk), self.standing.before, self.split);
            let (held, place_of) = self.at(piece, Some(chunk));
            let starts = matches!(held.source, Source::Before);
            let layers = held.layers();
            let how = Back {
                last: place == 0,
                split,
            };
            let mut gone = |cx: &mut Ctx, model: &Model, back: Grad| {
                if starts {
                    let start = model.held().start;
                    let message = model.crossing(start)?.pack_gradient(cx, &back)?;
                    return send(cx, label(start, Direction::Backward), before, message);
                }
                if let Some(first) = &mut first {
                    let to = &mut first.grad;
                    cx.backend.copy_rows(&back.g, 0, own.len(), to, own.start);
                }
                Ok(())
            };
            held.back(cx, place_of, (layers, tape, grad), how, &mut gone)?;
            mark.done(cx, self);
        }
        if let Some(First { tape, grad, .. }) = first {
            let (held, place_of) = self.at(0, None);
            let how = Back {
                last: true,
                split: false,
            };
            let of = (0..1, tape, grad.into());
            held.back(cx, place_of, of, how, &mut |_, _, _| Ok(()))?;
        }
        Ok(())
    }

    /// The output of all rows without dropout, every neighbour's as it is now; what of it the stage behind
    /// reads has gone there.
    fn exact(&mut self, cx: &mut Ctx) -> Result<Flow> {
        cx.pass(Pass::Eval);
        let n = self.rows.ids.len();
        let mut output = None;
        for piece in 0..self.pieces.len() {
            let model = &self.pieces[piece].model;
            let held = model.held();
            let mut layers = held.clone();
            let flow = match &self.pieces[piece].source {
                Source::Before => {
                    let crossing = model.crossing(held.start)?;
                    let label = label(held.start, Direction::Eval);
                    let message = match n * crossing.width() {
                        0 => Message::default(),
                        len => cx.comm.recv(label, self.standing.before, len)?,
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
            let (flow, _) = self.through(cx, (piece, None), layers, flow, false)?;
            if !self.ends(piece) {
                let message = self.pieces[piece]
                    .model
                    .crossing(held.end)?
                    .pack(cx, &flow)?;
                let label = label(held.end, Direction::Eval);
                send(cx, label, self.standing.after, message)?;
            }
            output = Some(flow);
        }
        Ok(output.expect("a rank has layers"))
    }

    /// The output of the first layer without dropout, chunk by chunk, since its input lies so.
    fn first_by_chunk(&mut self, cx: &mut Ctx) -> Result<Flow> {
        if let (Source::Sources(input), Some(over)) = (&self.pieces[0].source, self.seam.several())
        {
            over.features = input.dense().cloned();
        }
        let mut flows = Vec::with_capacity(self.ids.len());
        for chunk in 0..self.ids.len() {
            let flow = match (&self.pieces[0].source, self.seam.several()) {
                (Source::Sources(_), Some(over)) => Piece::of_features(cx, over, chunk),
                (Source::Chunks(inputs), _) => inputs[chunk].clone().into(),
                _ => unreachable!("asked for input that lies by chunk"),
            };
            flows.push(self.through(cx, (0, Some(chunk)), 0..1, flow, false)?.0);
        }
        Ok(below_each_other(cx, &flows))
    }

    /// Makes the first historical rows: an exact pass at the first weights. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn found(&mut self, cx: &mut Ctx) -> Result<()> {
        let Some(over) = self.seam.several() else {
            return Ok(());
        };
        over.founds = true;
        self.exact(cx)?;
        if let Some(over) = self.seam.several() {
            over.founds = false;
            cx.caches(over.history().bytes());
        }
        cx.pass(Pass::Setup);
        Ok(())
    }
}

impl Strategy for Stage {
    fn epoch(&mut self, cx: &mut Ctx) -> Result<f64> {
        cx.pass(Pass::Forward);
        self.standing.begin(cx);
        for Piece { reduction, .. } in &mut self.pieces {
            cx.within(&mut self.group, |cx| reduction.begin(cx));
        }
        let seed = cx.plan.spec.seed;
        let order = order(seed, cx.epoch, self.ids.len(), self.shuffle);
        let turns = turns(order.len(), self.standing.stages, self.pieces.len());
        let first = self.begin(cx, &order)?;
        let (passed, loss) = self.forward(cx, &order, &turns, first.as_ref())?;
        self.backward(cx, &order, &turns, passed, first)?;
        cx.chunk(None);
        cx.pass(Pass::Optim);
        for piece in &mut self.pieces {
            let Piece {
                reduction,
                model,
                optimiser,
                ..
            } = piece;
            cx.within(&mut self.group, |cx| reduction.collect(cx))?;
            let gradients = reduction.gradients();
            optimiser.step(cx, &mut model.weights, gradients);
        }
        frames::close(cx, self);
        if let Some(over) = self.seam.several() {
            over.history().end(cx);
        }
        Ok(loss)
    }

    fn logits(&mut self, cx: &mut Ctx) -> Result<kernels::Mat> {
        let flow = self.exact(cx)?;
        let last = self.pieces.len() - 1;
        Ok(match self.ends(last) {
            true => cx.backend.take(flow.x.into_mat()),
            false => kernels::Mat::zeros((0, 0)),
        })
    }

    fn gradients(&self) -> Vec<&Mat> {
        let model = &self.pieces[0].model;
        let mut all = Vec::new();
        for layer in 0..model.layers() {
            let held = |piece: &&Piece| piece.model.held().contains(&layer);
            let own = self.pieces.iter().find(held);
            let own = own.map(|piece| &piece.reduction.gradients()[layer]);
            let tensors = model.layer(layer).tensors().len();
            all.extend((0..tensors).map(|t| own.and_then(|own| own.get(t)).unwrap_or(&self.none)));
        }
        all
    }

    fn save(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        let (backend, own) = (cx.backend.as_ref(), &mut snapshot.own);
        for piece in &mut self.pieces {
            piece.model.save(backend, own);
            piece.optimiser.save(backend, own);
        }
        self.seam.seam().save(cx, own);
        Ok(())
    }

    fn restore(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        let (backend, own) = (cx.backend.as_ref(), &mut snapshot.own);
        for piece in &mut self.pieces {
            piece.model.restore(backend, own)?;
            piece.optimiser.restore(backend, own)?;
        }
        self.seam.seam().restore(cx, own)
    }
}
