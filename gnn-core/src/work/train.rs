//! The loop over epochs on one rank.

use super::origin;
use super::told::{All, Told};
use super::{Folder, Outcome};
use crate::checkpoint::{Checkpoints, Snapshot, digest};
use crate::ctx::Ctx;
use crate::device;
use crate::embeddings::{self, Embeddings};
use crate::error::Result;
use crate::evaluation::{Evaluation, evaluate};
use crate::patience::Patience;
use crate::record::rows::{EndedRow, MetricsRow};
use crate::record::{Closed, Pass, Phase, RankFacts, Recorder, give_back, now_ns};
use crate::strategy::{Built, Entry, Rows, Setup, Strategy, find_in};
use std::sync::Arc;

/// The run key that ends a run whose loss is no finite number.
pub const DIVERGED: &str = "stop_on_nan";

/// Builds the strategy of the request and trains it to the end.
///
/// # Errors
/// Whatever the rank meets.
pub(super) fn train(
    cx: &mut Ctx,
    recorder: &mut Recorder,
    setup: Setup,
    folder: &Folder,
    entries: &'static [Entry],
) -> Result<Outcome> {
    cx.enter(Phase::Setup);
    cx.pass(Pass::Setup);
    let mut training = Training::build(cx, recorder, setup, folder, entries)?;
    // What loading and cutting needed lies in pieces between what stays.
    give_back();
    cx.comm.agree(&[0.0])?;
    cx.align_trace()?;
    let outcome = training.run(cx)?;
    if cx.plan.spec.keep_embeddings {
        training.keep(cx)?;
    }
    cx.comm.drain()?;
    cx.enter(Phase::Done);
    Ok(outcome)
}

/// A rank's training.
struct Training<'a> {
    recorder: &'a mut Recorder,
    folder: &'a Folder,
    checkpoints: Checkpoints,
    strategy: Box<dyn Strategy>,
    rows: Rows,
    patience: Patience,
}

impl<'a> Training<'a> {
    /// Builds it, and takes back what a checkpoint has of it where the run goes on. Collective.
    fn build(
        cx: &mut Ctx,
        recorder: &'a mut Recorder,
        setup: Setup,
        folder: &'a Folder,
        entries: &'static [Entry],
    ) -> Result<Training<'a>> {
        let plan = Arc::clone(&cx.plan);
        let spec = &plan.spec;
        let checkpoints = Checkpoints::of(&folder.0, digest(spec, &setup.data));
        let Built {
            mut strategy,
            rows,
            facts,
            predicted,
            part,
        } = (find_in(entries, &spec.strategy)?.build)(setup, cx)?;
        recorder.set_facts(RankFacts {
            device: cx.backend.device().to_owned(),
            shares_process: plan.in_process && cx.size() > 1,
            ..facts
        });
        recorder.predict(predicted);
        if let Some(part) = &part {
            recorder.write(part)?;
        }
        recorder.flush()?;
        let mut patience = Patience::new(spec.patience);
        if plan.start > 0 {
            let mut snapshot = checkpoints.read(cx.rank(), plan.start as u64)?;
            patience.restore(&snapshot.shared)?;
            strategy.restore(cx, &mut snapshot)?;
        }
        Ok(Training {
            recorder,
            folder,
            checkpoints,
            strategy,
            rows,
            patience,
        })
    }

    /// Epoch after epoch, until the last, a stop request, the end of patience, or a loss that is no number.
    fn run(&mut self, cx: &mut Ctx) -> Result<Outcome> {
        let plan = Arc::clone(&cx.plan);
        let spec = &plan.spec;
        let mut outcome = Outcome {
            epochs_done: plan.start,
            interrupted: false,
            stopped_early: false,
        };
        for epoch in plan.start..spec.epochs {
            let all = self.epoch(cx, epoch)?;
            let done = epoch + 1;
            outcome.epochs_done = done;
            if let Some(score) = all.score().filter(|_| done.is_multiple_of(spec.eval_every)) {
                self.patience.take(score);
            }
            let diverged = spec.stop_on_nan && !all.is_finite();
            let over = self.patience.is_over() && done < spec.epochs;
            outcome.stopped_early = over || diverged;
            outcome.interrupted = all.stop() && done < spec.epochs && !outcome.stopped_early;
            if outcome.stopped_early {
                let row = if diverged {
                    origin::find(cx, self.strategy.as_mut())?
                } else {
                    EndedRow {
                        epoch: epoch as u32,
                        by: "patience".into(),
                        layer: None,
                        gradient: None,
                        norm: None,
                        norm_layer: None,
                    }
                };
                if cx.rank() == 0 {
                    self.recorder.write(&row)?;
                    self.recorder.flush()?;
                }
            }
            let ends = outcome.stopped_early || outcome.interrupted || done == spec.epochs;
            let every = spec.checkpoint_every;
            // Nobody goes on from what is no number.
            if every > 0 && !diverged && (ends || done.is_multiple_of(every)) {
                self.save(cx, done)?;
            }
            if ends {
                break;
            }
        }
        Ok(outcome)
    }

    /// One epoch, and what all ranks know after it.
    fn epoch(&mut self, cx: &mut Ctx, epoch: usize) -> Result<All> {
        cx.epoch = epoch as u64;
        cx.enter(Phase::Other);
        // What comes before the first layer: dropout of the features.
        cx.pass(Pass::Forward);
        // What the last evaluation copied is nobody's.
        cx.meter().take_copies();
        let begun = self.recorder.begin(epoch as u32);
        let loss = self.strategy.epoch(cx)?;
        cx.backend.settle();
        cx.comm.settle_devices()?;
        device::note(cx, cx.meter().take_copies());
        let closed = self.recorder.end(begun);
        self.close(cx, loss, &closed)
    }

    /// Everything after an epoch's timed part: rows, evaluation, agreement on whether to stop.
    fn close(&mut self, cx: &mut Ctx, loss: f64, closed: &Closed) -> Result<All> {
        cx.enter(Phase::Eval);
        cx.pass(Pass::Eval);
        let plan = Arc::clone(&cx.plan);
        let spec = &plan.spec;
        let epoch = cx.epoch as usize;
        let start = now_ns();
        let mut counters = self.recorder.counters(epoch as u32);
        let evaluates = (epoch + 1).is_multiple_of(spec.eval_every) || epoch + 1 == spec.epochs;
        let found = if evaluates {
            evaluate(cx, self.strategy.as_mut(), &self.rows)?
        } else {
            Evaluation::default()
        };
        let stop = self.folder.stop().exists();
        let mine = Told {
            sent: counters.sent_to(cx.size()),
            ..Told::new(closed.start_ns(), stop, loss, &found)
        };
        let all = cx.comm.agree(&mine.encode())?;
        let all = All(all.iter().map(|words| Told::decode(words)).collect());
        counters.rx = all.sent_to(cx.rank());
        let late_ns = all.late_ns(closed.start_ns());
        self.recorder
            .close(epoch as u32, closed, late_ns, counters)?;
        if cx.rank() == 0 {
            let several = self.rows.multi_labels.is_some();
            self.recorder.write(&MetricsRow {
                epoch: epoch as u32,
                is_warmup: epoch < spec.warmup,
                eval_ms: (now_ns() - start) as f64 / 1e6,
                ..all.metrics(self.rows.train_total, several, &found)
            })?;
        }
        self.recorder.flush()?;
        Ok(all)
    }

    /// Writes down what the model makes of this rank's vertices. Collective.
    fn keep(&mut self, cx: &mut Ctx) -> Result<()> {
        cx.enter(Phase::Eval);
        cx.pass(Pass::Eval);
        let made = self.strategy.logits(cx)?;
        let path = embeddings::path(&self.folder.0, cx.rank());
        Embeddings::of(&self.rows, made).write(&path)
    }

    /// Writes down what later epochs need.
    fn save(&mut self, cx: &mut Ctx, done: usize) -> Result<()> {
        cx.enter(Phase::Checkpoint);
        let mut snapshot = Snapshot::default();
        self.patience.save(&mut snapshot.shared);
        self.strategy.save(cx, &mut snapshot)?;
        self.recorder.sync()?;
        self.checkpoints.write(cx, done as u64, snapshot)
    }
}
