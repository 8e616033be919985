//! Spans: what a rank did when, kept only where a run asks for it (`trace`).
//!
//! A rank's own thread does one thing at a time, and each moment that the breakdown of an epoch counts
//! is one span of the stream `host` (or `device`): so spans of one stream's leaf phases do not overlap,
//! and their sums are the breakdown's columns.
//!
//! | phase | stream | column of `ranks` |
//! |---|---|---|
//! | `aggregate`, `update`, `loss`, `optim`, `sample` | host, device | `compute_ms` |
//! | `copy` | host, device | `copy_ms` |
//! | `transfer` | host | `xfer_exposed_ms` |
//! | `wait` | host | `wait_ms` |
//! | `hidden` | net | `comm_hidden_ms` |
//! | `send`, `receive` | net | none: single messages, which overlap with anything |
//! | `sample`, `copy` | sampler | none: operations of threads that make mini-batches, `pass` says which |
//!
//! A device of its own computes on while its rank waits: what both together exceed the epoch by is in the
//! spans, and not in the columns ([`super::Times::within`]).
//!
//! At most [`MOST`] spans of an epoch are kept in memory, and at most [`MOST_OF_RUN`] of a run are
//! written; what is beyond is counted as dropped, and said in the frame `traced`.
//!
//! Spans of the stream `sampler` are in the rows of the epoch in which they were done, whichever epoch the
//! batch is for.
//!
//! # Not done
//! Threads that answer other ranks leave no spans, and neither do those that make whole batches one by one.

use super::phase::{Op, Phase, SpanPhase, Stream};
use super::rows::{SpanRow, TracedRow};
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// The most spans of one epoch that a rank keeps: 4.5 MiB.
pub const MOST: usize = 1 << 16;
/// The most spans that a rank writes in a run.
pub const MOST_OF_RUN: u64 = 1 << 18;

/// A rank's clock against that of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skew {
    /// To be added to this rank's clock to get rank 0's.
    pub offset_ns: i64,
    /// By how much that may be wrong.
    pub uncertainty_ns: u64,
    /// When the run's clock shows zero, on rank 0's.
    pub origin_ns: u64,
}

impl Skew {
    /// A moment of this rank's clock as microseconds of the run's, rounded down.
    pub fn run_us(&self, at_ns: u64) -> i64 {
        (at_ns as i64 + self.offset_ns - self.origin_ns as i64).div_euclid(1000)
    }
}

/// Something that a rank did.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Where.
    pub stream: Stream,
    /// What.
    pub phase: SpanPhase,
    /// The pass of the model, or what a message carried.
    pub pass: &'static str,
    /// Layer.
    pub layer: u16,
    /// Chunk of vertices.
    pub chunk: Option<u32>,
    /// Operation of the communicator, of a span that is about one.
    pub op: Option<Op>,
    /// Peer that is waited for, sends or receives.
    pub peer: Option<u32>,
    /// Payload of a message.
    pub bytes: Option<u64>,
    /// From when to when on this rank's clock ([`now_ns`](super::now_ns)).
    pub at: Range<u64>,
}

/// The spans of one rank since they were last taken.
#[derive(Debug, Default)]
pub struct Trace {
    spans: RefCell<Vec<Span>>,
    dropped: Cell<u64>,
    written: Cell<u64>,
    skew: Cell<Skew>,
}

impl Trace {
    /// Says where this rank's clock is.
    pub fn align(&self, skew: Skew) {
        self.skew.set(skew);
    }

    /// Keeps a span, or counts it as dropped.
    pub fn keep(&self, span: Span) {
        let mut spans = self.spans.borrow_mut();
        if spans.len() < MOST {
            spans.push(span);
        } else {
            self.dropped.set(self.dropped.get() + 1);
        }
    }

    /// Forgets what has been kept.
    pub fn clear(&self) {
        self.spans.borrow_mut().clear();
        self.dropped.set(0);
    }

    /// Takes the rows of an epoch, in the order of their beginnings, and how many there are.
    pub fn take(&self, epoch: u32, rank: u32) -> (Vec<SpanRow>, TracedRow) {
        let mut spans = self.spans.take();
        spans.sort_by_key(|span| (span.at.start, span.at.end));
        let room = MOST_OF_RUN.saturating_sub(self.written.get());
        let kept = (spans.len() as u64).min(room);
        let dropped = self.dropped.take() + spans.len() as u64 - kept;
        self.written.set(self.written.get() + kept);
        let skew = self.skew.get();
        let rows = spans.into_iter().take(kept as usize);
        let rows = rows.map(|span| {
            let start_us = skew.run_us(span.at.start);
            SpanRow {
                epoch,
                rank,
                stream: span.stream,
                phase: span.phase,
                pass: span.pass.into(),
                layer: (!matches!(span.phase, SpanPhase::Hidden | SpanPhase::Optim))
                    .then_some(span.layer),
                chunk: span.chunk,
                op: span.op,
                start_us,
                // Both ends are rounded alike, so that neighbours neither overlap nor drift.
                dur_us: skew.run_us(span.at.end) - start_us,
                bytes: span.bytes,
                peer: span.peer,
                skew_us: skew.uncertainty_ns as f64 / 1e3,
            }
        });
        let traced = TracedRow {
            epoch,
            rank,
            spans: kept,
            dropped,
            offset_us: skew.offset_ns as f64 / 1e3,
            skew_us: skew.uncertainty_ns as f64 / 1e3,
        };
        (rows.collect(), traced)
    }
}

impl SpanPhase {
    /// What the time of a phase is called.
    pub(crate) fn of(phase: Phase) -> SpanPhase {
        match phase {
            Phase::Aggregate => SpanPhase::Aggregate,
            Phase::Copy => SpanPhase::Copy,
            Phase::Comm => SpanPhase::Transfer,
            Phase::Loss => SpanPhase::Loss,
            Phase::Optim => SpanPhase::Optim,
            Phase::Sample => SpanPhase::Sample,
            _ => SpanPhase::Update,
        }
    }
}

/// A time in which a rank is blocked in one way, for one peer.
pub struct Stretch {
    of: Option<(bool, usize)>,
    from: u64,
}

impl Stretch {
    /// Begins at `from`, with nothing known.
    pub fn new(from: u64) -> Stretch {
        Stretch { of: None, from }
    }

    /// From `since` on it is like `of`: whether data moves, and whose. Returns the stretch before, when
    /// it was another one.
    pub fn turn(&mut self, since: u64, of: (bool, usize)) -> Option<(bool, usize, Range<u64>)> {
        let last = self.of.replace(of);
        let ended = last.filter(|last| *last != of)?;
        let from = std::mem::replace(&mut self.from, since);
        Some((ended.0, ended.1, from..since))
    }

    /// Ends.
    pub fn end(self, at: u64) -> Option<(bool, usize, Range<u64>)> {
        self.of.map(|(moving, peer)| (moving, peer, self.from..at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(at: Range<u64>) -> Span {
        Span {
            stream: Stream::Host,
            phase: SpanPhase::Update,
            pass: "forward",
            layer: 0,
            chunk: None,
            op: None,
            peer: None,
            bytes: None,
            at,
        }
    }

    #[test]
    fn spans_beyond_the_bound_are_counted_and_not_kept() {
        let trace = Trace::default();
        for k in 0..MOST as u64 + 5 {
            trace.keep(span(k * 10..k * 10 + 10));
        }
        let (rows, traced) = trace.take(3, 1);
        assert_eq!((rows.len(), traced.spans), (MOST, MOST as u64));
        assert_eq!((traced.dropped, traced.epoch, traced.rank), (5, 3, 1));
        let (rows, traced) = trace.take(4, 1);
        assert_eq!((rows.len(), traced.dropped), (0, 0), "counted once");
    }

    #[test]
    fn a_run_writes_so_many_spans_and_no_more() {
        let trace = Trace::default();
        trace.written.set(MOST_OF_RUN - 2);
        (0..5).for_each(|k| trace.keep(span(k..k + 1)));
        let (rows, traced) = trace.take(0, 0);
        assert_eq!((rows.len(), traced.spans, traced.dropped), (2, 2, 3));
    }

    #[test]
    fn neighbours_touch_after_rounding_and_the_clock_is_the_runs() {
        let trace = Trace::default();
        trace.align(Skew {
            offset_ns: -2_000,
            uncertainty_ns: 500,
            origin_ns: 10_000,
        });
        trace.keep(span(14_400..15_700));
        trace.keep(span(12_600..14_400));
        let (rows, _) = trace.take(0, 0);
        assert_eq!((rows[0].start_us, rows[0].dur_us), (0, 2));
        assert_eq!((rows[1].start_us, rows[1].dur_us), (2, 1));
        assert_eq!(rows[0].skew_us, 0.5);
    }

    #[test]
    fn a_stretch_ends_where_another_begins() {
        let mut stretch = Stretch::new(5);
        assert_eq!(stretch.turn(5, (false, 1)), None);
        assert_eq!(stretch.turn(8, (false, 1)), None);
        assert_eq!(stretch.turn(9, (true, 1)), Some((false, 1, 5..9)));
        assert_eq!(stretch.end(12), Some((true, 1, 9..12)));
    }
}
