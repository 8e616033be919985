//! Where time and bytes are counted. Wraps nothing itself: the communicator and the metered
//! backend report to it, so no strategy times itself.

use super::clock::{now_ns, sleep_until};
use super::frame::Noted;
use super::phase::{Direction, Label, Op, Pass, Phase, SpanPhase, Stream};
use super::recorder::PredictedLane;
use super::route::{Copied, Copies, Route};
use super::state::StatePage;
use super::times::Times;
use super::trace::{Span, Trace};
use kernels::cuda::Device;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Traffic key: layer, direction, operation, peer.
pub type Lane = (u16, Direction, Op, u32);

/// Traffic of one lane in one epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Traffic {
    /// Payload bytes sent.
    pub bytes: u64,
    /// Messages sent.
    pub messages: u64,
}

/// Blocked nanoseconds of one operation kind: moving, waiting.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Blocked {
    /// Blocked while data moved.
    pub moving: u64,
    /// Blocked before the peer had sent.
    pub waiting: u64,
}

/// What one rank did in one epoch, apart from time and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Edges multiplied.
    pub edges: u64,
    /// The same, each times the columns of the rows that were added up.
    pub edge_elements: u64,
    /// Collective operations on rows and their gradients.
    pub rounds: u64,
    /// Rows of others that were read forward, and came for it.
    pub halo_fresh: u64,
    /// The same, that were kept from before.
    pub halo_reused: u64,
}

/// The counters of one rank.
#[derive(Default)]
pub struct Meter {
    page: Option<StatePage>,
    phase: Cell<Option<Phase>>,
    pass: Cell<Option<Pass>>,
    layer: Cell<u16>,
    chunk: Cell<Option<u32>>,
    trace: Option<Trace>,
    /// How many times as long kernels take on a rank that is slowed down.
    slow: Option<f64>,
    times: Cell<Times>,
    work: Cell<Work>,
    traffic: RefCell<BTreeMap<Lane, Traffic>>,
    waits: RefCell<BTreeMap<(u16, Direction, Op), Blocked>>,
    held: Cell<u64>,
    most_held: Cell<u64>,
    largest: Cell<u64>,
    most_on_device: Cell<Option<u64>>,
    /// The rank's device, where it has one of its own.
    device: RefCell<Option<Arc<Device>>>,
    route: Cell<Option<Route>>,
    copies: Cell<Copies>,
    /// Rows kept over epochs, in bytes on the host and on a device of its own.
    cached: Cell<[u64; 2]>,
    predicted: RefCell<BTreeMap<PredictedLane, u64>>,
    noted: RefCell<Vec<Noted>>,
}

impl Meter {
    /// A meter that shows its phase on a status page.
    pub fn new(page: Option<StatePage>) -> Meter {
        Meter {
            page,
            ..Meter::default()
        }
    }

    /// The same meter, which keeps spans.
    pub fn tracing(self) -> Meter {
        Meter {
            trace: Some(Trace::default()),
            ..self
        }
    }

    /// The same meter, of a rank whose kernels take `factor` times as long.
    pub fn slowed(self, factor: f64) -> Meter {
        Meter {
            slow: Some(factor),
            ..self
        }
    }

    /// Whether kernels in this phase are slowed down.
    pub fn is_slow(&self, phase: Phase) -> bool {
        self.slow.is_some() && phase != Phase::Copy
    }

    /// When a kernel that began at `start` has ended: now, or on a rank that is slowed down after so
    /// many times as long, which this waits for.
    pub fn until(&self, phase: Phase, start: u64) -> u64 {
        let done = now_ns();
        let Some(factor) = self.slow.filter(|_| self.is_slow(phase)) else {
            return done;
        };
        let end = start + (factor * (done - start) as f64).ceil() as u64;
        sleep_until(end);
        let now = now_ns();
        self.times(|t| t.injected += now - done);
        now
    }

    /// The spans, where they are kept.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// Does something with the status page, if there is one.
    pub fn page(&self, f: impl FnOnce(&StatePage)) {
        if let Some(page) = &self.page {
            f(page);
        }
    }

    /// Enters a phase; returns the one before.
    pub fn enter(&self, phase: Phase) -> Phase {
        self.page(|page| page.phase(phase));
        self.phase.replace(Some(phase)).unwrap_or(Phase::Other)
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase.get().unwrap_or(Phase::Other)
    }

    /// Enters a pass; compute time from now on belongs to it.
    pub fn set_pass(&self, pass: Pass) {
        self.pass.set(Some(pass));
    }

    /// The current pass.
    pub fn pass(&self) -> Pass {
        self.pass.get().unwrap_or(Pass::Setup)
    }

    /// Enters a layer.
    pub fn set_layer(&self, layer: usize) {
        self.page(|page| page.layer(layer as u64));
        self.layer.set(layer as u16);
    }

    /// The current layer.
    pub fn layer(&self) -> usize {
        usize::from(self.layer.get())
    }

    /// Says which chunk of vertices is being computed, if it is one.
    pub fn set_chunk(&self, chunk: Option<usize>) {
        self.chunk.set(chunk.map(|k| k as u32));
    }

    /// The times of the epoch until now.
    pub fn so_far(&self) -> Times {
        self.times.get()
    }

    /// The traffic of the epoch until now.
    pub fn sent_so_far(&self) -> BTreeMap<Lane, Traffic> {
        self.traffic.borrow().clone()
    }

    fn counts(&self) -> bool {
        !matches!(self.pass(), Pass::Eval | Pass::Setup)
    }

    fn times(&self, change: impl FnOnce(&mut Times)) {
        if self.counts() {
            let mut times = self.times.get();
            change(&mut times);
            self.times.set(times);
        }
    }

    /// Kernel time in a phase, from when to when.
    pub fn computed(&self, stream: Stream, phase: Phase, at: Range<u64>) {
        let (pass, ns) = (self.pass(), at.end - at.start);
        self.keep(|| Span {
            stream,
            phase: SpanPhase::of(phase),
            pass: pass.label(),
            layer: self.layer.get(),
            chunk: self.chunk.get(),
            op: None,
            peer: None,
            bytes: None,
            at,
        });
        self.times(|t| {
            match phase {
                Phase::Copy => t.copy += ns,
                _ => t.add_compute(pass, ns),
            }
            if stream == Stream::Device {
                t.device += ns;
            }
        });
        if let (Phase::Copy, Some(route)) = (phase, self.route()) {
            self.copies(route, |copied| copied.ns += ns);
        }
    }

    /// Keeps a span of an epoch, where spans are kept.
    fn keep(&self, span: impl FnOnce() -> Span) {
        if let Some(trace) = self.trace.as_ref().filter(|_| self.counts()) {
            trace.keep(span());
        }
    }

    /// Keeps a span of the communicator, where spans are kept: `bytes` from or to `peer`.
    pub fn comm_span(
        &self,
        (label, op): (Label, Op),
        phase: SpanPhase,
        (peer, bytes): (Option<usize>, Option<u64>),
        at: Range<u64>,
    ) {
        let own = matches!(phase, SpanPhase::Transfer | SpanPhase::Wait);
        self.keep(|| Span {
            stream: if own { Stream::Host } else { Stream::Net },
            phase,
            pass: label.direction.label(),
            layer: label.layer,
            chunk: own.then(|| self.chunk.get()).flatten(),
            op: Some(op),
            peer: peer.map(|p| p as u32),
            bytes,
            at,
        });
    }

    fn work(&self, change: impl FnOnce(&mut Work)) {
        if self.counts() {
            let mut work = self.work.get();
            change(&mut work);
            self.work.set(work);
        }
    }

    /// Edges multiplied, along each of which a row of `width` columns is added.
    pub fn edges(&self, edges: u64, width: usize) {
        self.work(|w| {
            w.edges += edges;
            w.edge_elements += edges * width as u64;
        });
    }

    /// A collective operation was posted: counted as a round when it carries rows or their
    /// gradients, and not weights'.
    pub fn collective(&self, direction: Direction) {
        if matches!(direction, Direction::Forward | Direction::Backward) {
            self.work(|w| w.rounds += 1);
        }
    }

    /// Rows of others were read forward: so many that came for it, and so many kept from before.
    pub fn halo(&self, fresh: u64, reused: u64) {
        self.work(|w| {
            w.halo_fresh += fresh;
            w.halo_reused += reused;
        });
    }

    /// A message handed to a peer.
    pub fn sent(&self, layer: u16, direction: Direction, op: Op, peer: usize, bytes: u64) {
        let mut traffic = self.traffic.borrow_mut();
        let lane = traffic
            .entry((layer, direction, op, peer as u32))
            .or_default();
        lane.bytes += bytes;
        lane.messages += 1;
    }

    /// Blocked in an operation from when to when, while data moved.
    pub fn moved(&self, label: Label, op: Op, at: Range<u64>) {
        self.blocked(label, op, at.end - at.start, 0);
        self.comm_span((label, op), SpanPhase::Transfer, (None, None), at);
    }

    /// Nanoseconds blocked in an operation. Whoever calls this keeps the spans of it.
    pub fn blocked(&self, label: Label, op: Op, moving: u64, waiting: u64) {
        self.times(|t| {
            t.xfer += moving;
            t.wait += waiting;
        });
        let mut waits = self.waits.borrow_mut();
        let lane = waits.entry((label.layer, label.direction, op)).or_default();
        lane.moving += moving;
        lane.waiting += waiting;
    }

    /// When data moved while the rank was not in the communicator, each moment once. A lower bound
    /// where a transport does not know when movement began: then it counts from when it was seen.
    pub fn hidden(&self, (label, op): (Label, Op), moved: &[Range<u64>]) {
        self.times(|t| t.hidden += moved.iter().map(|r| r.end - r.start).sum::<u64>());
        for at in moved {
            self.comm_span((label, op), SpanPhase::Hidden, (None, None), at.clone());
        }
    }

    /// Bytes that are about to be sent, by a strategy whose bytes differ from epoch to epoch.
    pub fn predict(&self, lane: PredictedLane, bytes: u64) {
        if self.counts() {
            *self.predicted.borrow_mut().entry(lane).or_default() += bytes;
        }
    }

    /// A row of a frame that the strategy adds. Evaluation is not recorded.
    pub fn note(&self, row: Noted) {
        if self.counts() {
            self.noted.borrow_mut().push(row);
        }
    }

    /// Letters that background threads sent.
    pub fn letters(&self, lane: (u16, Direction, u32), more: Traffic) {
        let (layer, direction, to) = lane;
        let mut traffic = self.traffic.borrow_mut();
        let lane = traffic.entry((layer, direction, Op::P2p, to)).or_default();
        lane.bytes += more.bytes;
        lane.messages += more.messages;
    }

    /// Rows of so many bytes are kept now, on the host and on a device of its own.
    pub fn caches(&self, bytes: [u64; 2]) {
        self.cached.set(bytes);
    }

    /// Bytes of the rows kept, on the host and on a device of its own.
    pub fn cached(&self) -> [u64; 2] {
        self.cached.get()
    }

    /// Matrices of so many bytes were made.
    pub fn made(&self, bytes: u64) {
        self.held.set(self.held.get() + bytes);
        self.most_held
            .set(self.most_held.get().max(self.held.get()));
        self.largest.set(self.largest.get().max(bytes));
    }

    /// Matrices of so many bytes are gone.
    pub fn freed(&self, bytes: u64) {
        self.held.set(self.held.get() - bytes);
    }

    /// The most bytes that the device's matrices had at one moment.
    pub fn most_held(&self) -> u64 {
        self.most_held.get()
    }

    /// Bytes of the largest matrix that there was.
    pub fn largest(&self) -> u64 {
        self.largest.get()
    }

    /// A device with a budget of memory holds so many bytes.
    pub fn on_device(&self, bytes: u64) {
        let most = self.most_on_device.get().unwrap_or(0).max(bytes);
        self.most_on_device.set(Some(most));
    }

    /// The most bytes that a device with a budget held at one moment; none without such a device.
    pub fn most_on_device(&self) -> Option<u64> {
        self.most_on_device.get()
    }

    /// The rank has a device of its own, whose memory is told.
    pub fn has_device(&self, device: &Arc<Device>) {
        *self.device.borrow_mut() = Some(Arc::clone(device));
    }

    /// Bytes of that device's memory in use now, and those that are kept for whoever needs them next.
    pub(super) fn device_memory(&self) -> Option<[u64; 2]> {
        let device = self.device.borrow();
        let device = device.as_ref()?;
        Some([device.used_bytes(), device.idle_bytes()].map(|bytes| bytes as u64))
    }

    fn copies(&self, route: Route, change: impl FnOnce(&mut Copied)) {
        if self.counts() {
            let mut copies = self.copies.get();
            change(&mut copies.0[route as usize]);
            self.copies.set(copies);
        }
    }

    /// The route that is being copied along.
    pub fn route(&self) -> Option<Route> {
        self.route.get()
    }

    /// Copies from now on go along a route, or none; returns the one before.
    pub fn set_route(&self, route: Option<Route>) -> Option<Route> {
        self.route.replace(route)
    }

    /// Copies `bytes` along a route: the time of copying in `f` is that route's.
    pub fn copying<T>(&self, route: Route, bytes: u64, f: impl FnOnce() -> T) -> T {
        let before = self.set_route(Some(route));
        self.copies(route, |copied| copied.bytes += bytes);
        let result = f();
        self.set_route(before);
        result
    }

    /// [`Meter::copying`] by hand: the time is that of `f`.
    pub fn copying_by_hand<T>(&self, route: Route, bytes: u64, f: impl FnOnce() -> T) -> T {
        self.copying(route, bytes, || {
            let start = now_ns();
            let result = f();
            self.computed(Stream::Host, Phase::Copy, start..now_ns());
            result
        })
    }

    /// What was copied along every route since it was last taken.
    pub fn copies_so_far(&self) -> Copies {
        self.copies.get()
    }

    /// Takes what was copied along every route since the last call.
    pub fn take_copies(&self) -> Copies {
        self.copies.take()
    }

    /// Takes the epoch's times and work, and starts anew.
    pub fn take_times(&self) -> (Times, Work) {
        (self.times.take(), self.work.take())
    }

    /// Takes the traffic since the last call.
    pub fn take_traffic(&self) -> BTreeMap<Lane, Traffic> {
        self.traffic.take()
    }

    /// Takes the bytes predicted since the last call.
    pub fn take_predicted(&self) -> BTreeMap<PredictedLane, u64> {
        self.predicted.take()
    }

    /// Takes the rows of the strategy's own frames since the last call, in the order noted.
    pub fn take_noted(&self) -> Vec<Noted> {
        self.noted.take()
    }

    /// Takes the blocked times since the last call.
    pub fn take_blocked(&self) -> BTreeMap<(u16, Direction, Op), Blocked> {
        self.waits.take()
    }
}
