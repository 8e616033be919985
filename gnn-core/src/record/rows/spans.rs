//! Rows of runs that keep spans.

use crate::record::{Op, SpanPhase, Stream};

row_struct! {
    /// Something that a rank did, in a run that keeps spans.
    SpanRow in "spans" {
        /// Epoch, from 0; what is done between two of them (evaluation) leaves no spans.
        epoch: u32,
        /// Rank.
        rank: u32,
        /// Who did it.
        stream: Stream,
        /// What it was.
        phase: SpanPhase,
        /// The pass of the model; of a message, what it carried.
        pass: String,
        /// Layer, from 0; none where it belongs to no single one.
        layer: Option<u16>,
        /// Chunk of vertices, under a strategy that computes some after the others.
        chunk: Option<u32>,
        /// Operation of the communicator.
        op: Option<Op>,
        /// Beginning, in microseconds of the run's clock: rank 0's, from when training began (of a
        /// resumed run, from when it went on).
        start_us: i64,
        /// Duration in microseconds.
        dur_us: i64,
        /// Payload bytes of a message.
        bytes: Option<u64>,
        /// The other rank: waited for, sent to, received from.
        peer: Option<u32>,
        /// By how much `start_us` may be off against rank 0's.
        skew_us: f64,
    }
}

row_struct! {
    /// How many spans of a rank's epoch there are, in a run that keeps them.
    TracedRow in "traced" {
        /// Epoch, from 0.
        epoch: u32,
        /// Rank.
        rank: u32,
        /// Spans in the frame `spans`.
        spans: u64,
        /// Spans that there was no room for: sums over the frame miss them.
        dropped: u64,
        /// What was added to the rank's clock, in microseconds.
        offset_us: f64,
        /// By how much that may be wrong.
        skew_us: f64,
    }
}
