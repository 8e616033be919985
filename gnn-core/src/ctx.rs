//! Everything a strategy may touch. Nothing is global.

mod origin;

pub(crate) use origin::{Seen, Watch};

use crate::backend::{Backend, Cpu, Mat, Metered};
use crate::comm::{Communicator, MailLane, Message, Post, Transport};
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::record::frame::{FrameRow, Noted};
use crate::record::trace::Span;
use crate::record::{
    Direction, Label, Lane, Meter, Op, Pass, Phase, PredictedLane, SpanPhase, Stream, Traffic,
    now_ns,
};
use crate::spec::TransportKind;
use kernels::{Busy, Par};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// A rank's hands: the plan, the device, the other ranks.
pub struct Ctx {
    /// What is being run.
    pub plan: Arc<Plan>,
    /// The device.
    pub backend: Box<dyn Backend>,
    /// The other ranks.
    pub comm: Communicator,
    /// Epoch, from 0; part of every random key.
    pub epoch: u64,
    /// A folder on a disk for files that nobody wants later.
    pub scratch: PathBuf,
    /// Letters between background threads, for a strategy that has any.
    pub post: Option<Post>,
    /// What is kept for the day its loss is no number.
    pub(crate) watch: Watch,
    /// Who counts the time of jobs of threads that are not the backend's.
    pub(crate) busy: Option<Arc<Busy>>,
    meter: Rc<Meter>,
}

/// How far a rank is in its epoch: differences of two such moments are what was spent between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SoFar {
    /// Now, in nanoseconds of this rank's clock.
    pub at: u64,
    /// Nanoseconds in kernels.
    pub compute: u64,
    /// Nanoseconds blocked in the communicator.
    pub blocked: u64,
    /// Bytes sent.
    pub bytes: u64,
}

impl Ctx {
    /// The hands of the rank that `transport` is; `backend` tells the same `meter`.
    pub fn new(
        plan: Arc<Plan>,
        transport: Box<dyn Transport>,
        backend: Box<dyn Backend>,
        meter: Rc<Meter>,
    ) -> Ctx {
        let mut comm = Communicator::new(transport, Rc::clone(&meter), plan.oversubscribed);
        if plan.spec.sync {
            comm.finish_at_once();
        }
        Ctx {
            plan,
            backend,
            comm,
            epoch: 0,
            scratch: std::env::temp_dir(),
            post: None,
            watch: Watch::default(),
            busy: None,
            meter,
        }
    }

    /// Opens the way between the ranks' devices, where the plan asks for one, with sums in the order of the ranks or
    /// in any. Collective.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone, or NCCL refuses.
    pub fn connect(&mut self, ordered: bool) -> Result<()> {
        let asked = self.plan.spec.transport == TransportKind::Nccl && self.size() > 1;
        match self.backend.memory().filter(|_| asked).map(Arc::clone) {
            Some(device) => self.comm.between_devices(&device, ordered),
            None => Ok(()),
        }
    }

    /// So many threads, of which this one is the first.
    pub(crate) fn par(&self, threads: usize) -> Par {
        match &self.busy {
            Some(busy) => Par::here(threads).watched(Arc::clone(busy)),
            None => Par::here(threads),
        }
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.comm.rank()
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.comm.size()
    }

    /// Does something as a rank of `group`: what `f` says to other ranks it says to the group's, and rank
    /// and size are the group's.
    pub fn within<T>(&mut self, group: &mut Communicator, f: impl FnOnce(&mut Ctx) -> T) -> T {
        std::mem::swap(&mut self.comm, group);
        let done = f(self);
        std::mem::swap(&mut self.comm, group);
        done
    }

    /// Takes the device out of this rank's hands and leaves the host in its place, for a strategy whose
    /// rows live on the host. None where the device is the host.
    pub fn take_device(&mut self) -> Option<Box<dyn Backend>> {
        self.backend.memory()?;
        // Rows are on the host from now on, and so are messages.
        self.comm.leave_devices();
        let host = Metered::new(Cpu::new(self.plan.threads), Rc::clone(&self.meter));
        Some(std::mem::replace(&mut self.backend, Box::new(host)))
    }

    /// Where this rank's time and bytes are counted.
    pub(crate) fn meter(&self) -> &Rc<Meter> {
        &self.meter
    }

    /// Says which pass of the model begins; compute time from now on belongs to it.
    pub fn pass(&self, pass: Pass) {
        self.meter.set_pass(pass);
    }

    /// Draws what is to be trained on; its time is this rank's sampling time.
    pub fn sample<T>(&self, draw: impl FnOnce() -> T) -> T {
        let (phase, pass) = (self.enter(Phase::Sample), self.meter.pass());
        self.pass(Pass::Sample);
        let start = now_ns();
        let drawn = draw();
        let end = self.meter.until(Phase::Sample, start);
        self.meter.computed(Stream::Host, Phase::Sample, start..end);
        self.pass(pass);
        self.enter(phase);
        drawn
    }

    /// Packs or unpacks rows in this process's memory; its time counts as copying.
    pub fn copies<T>(&self, f: impl FnOnce() -> T) -> T {
        let phase = self.enter(Phase::Copy);
        let start = now_ns();
        let done = f();
        self.meter
            .computed(Stream::Host, Phase::Copy, start..now_ns());
        self.enter(phase);
        done
    }

    /// Says which layer is being computed, for the status page and for spans.
    pub fn layer(&self, layer: usize) {
        self.meter.set_layer(layer);
    }

    /// Says how many bytes are about to leave, for a strategy whose bytes differ from epoch to epoch.
    /// Evaluation is not counted.
    pub fn predict(&self, lane: PredictedLane, bytes: u64) {
        self.meter.predict(lane, bytes);
    }

    /// Says that rows of other ranks were read: so many that came for it, and so many kept from before.
    /// Gradients and evaluation are not counted.
    pub fn halo(&self, direction: Direction, fresh: usize, reused: usize) {
        if direction == Direction::Forward {
            self.meter.halo(fresh as u64, reused as u64);
        }
    }

    /// Adds a row of this epoch and rank to a frame that the strategy's entry declares. Evaluation is not
    /// recorded.
    pub fn row<R: FrameRow + 'static>(&self, row: R) {
        let (epoch, rank) = (self.epoch as u32, self.rank() as u32);
        self.meter.note(Noted::new(epoch, rank, row));
    }

    /// Counts letters that background threads sent.
    pub fn letters(&self, sent: BTreeMap<MailLane, Traffic>) {
        for (lane, traffic) in sent {
            self.meter.letters(lane, traffic);
        }
    }

    /// Keeps what threads beside this one have done, where spans are kept.
    pub fn beside(&self, spans: Vec<Span>) {
        if let Some(trace) = self.meter.trace() {
            spans.into_iter().for_each(|span| trace.keep(span));
        }
    }

    /// Counts time in which this thread waited for letters, until now.
    pub fn waited(&self, label: Label, ns: u64) {
        self.meter.blocked(label, Op::P2p, 0, ns);
        let (of, now) = ((label, Op::P2p), now_ns());
        self.meter
            .comm_span(of, SpanPhase::Wait, (None, None), now - ns..now);
    }

    /// Says how many bytes of rows are kept over epochs in matrices on this rank's device.
    pub fn caches(&self, bytes: u64) {
        let on_host = self.plan.spec.backend == "cpu";
        self.meter
            .caches(if on_host { [bytes, 0] } else { [0, bytes] });
    }

    /// The L2 norm of all elements of `x`.
    pub fn norm(&self, x: &Mat) -> f64 {
        let mut square = self.backend.fresh(1, 1);
        self.backend.dot(x, x, &mut square);
        f64::from(self.backend.take(square)[[0, 0]]).sqrt()
    }

    /// The elements of a matrix as a message: on the device, where messages stay there.
    pub fn message(&self, x: Mat) -> Message {
        match x.on_device_at() {
            true if self.comm.is_between_devices() => x.into_buf().into(),
            _ => self.backend.take(x).into_raw_vec_and_offset().0.into(),
        }
    }

    /// A message that is the matrix `[rows, cols]`, on this rank's device.
    ///
    /// # Errors
    /// [`Error::Shape`] when it has another length.
    pub fn received(&self, rows: usize, cols: usize, message: impl Into<Message>) -> Result<Mat> {
        let message = message.into();
        let got = message.len();
        let wrong = || Error::Shape {
            op: "message".into(),
            expected: format!("{rows} rows of {cols}"),
            got: format!("{got} numbers"),
        };
        match message {
            Message::Host(floats) => {
                let x = kernels::Mat::from_shape_vec((rows, cols), floats).map_err(|_| wrong())?;
                Ok(self.backend.upload(x))
            }
            Message::Device(floats) if got == rows * cols => {
                Ok(Mat::of_message(rows, cols, floats, &self.meter))
            }
            Message::Device(_) => Err(wrong()),
        }
    }

    /// Compares clocks, where spans are kept. Collective.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub(crate) fn align_trace(&mut self) -> Result<()> {
        if let Some(trace) = self.meter.trace() {
            trace.align(self.comm.align_clocks()?);
        }
        Ok(())
    }

    /// Says which chunk of vertices is being computed, for spans; none where all are, or none.
    pub fn chunk(&self, chunk: Option<usize>) {
        self.meter.set_chunk(chunk);
    }

    /// How far this rank is in its epoch.
    pub fn so_far(&self) -> SoFar {
        let times = self.meter.so_far();
        SoFar {
            at: now_ns(),
            compute: times.compute_total(),
            blocked: times.xfer + times.wait,
            bytes: self.meter.sent_so_far().values().map(|t| t.bytes).sum(),
        }
    }

    /// What this rank has sent in its epoch.
    pub fn sent(&self) -> BTreeMap<Lane, Traffic> {
        self.meter.sent_so_far()
    }

    /// Enters a phase; returns the one before.
    pub fn enter(&self, phase: Phase) -> Phase {
        self.meter.enter(phase)
    }
}
