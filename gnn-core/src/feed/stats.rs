//! What was done to make batches, and the frames that say so: `batches` and `hops`.

use crate::frame;
use serde::Deserialize;

/// One hop of some batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HopStats {
    /// Destinations.
    pub rows: u64,
    /// Sources, each once in a batch, destinations among them.
    pub columns: u64,
    /// Edges drawn.
    pub edges: u64,
}

/// Some batches of one rank.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Batches.
    pub batches: u64,
    /// Seeds.
    pub seeds: u64,
    /// Time in which a thread drew and numbered vertices.
    pub draw_ns: u64,
    /// Time in which a thread collected feature rows.
    pub collect_ns: u64,
    /// Time in which a thread waited for other ranks' answers.
    pub wait_ns: u64,
    /// Input rows that this rank owns.
    pub rows_local: u64,
    /// Input rows that it keeps copies of.
    pub rows_cached: u64,
    /// Input rows fetched from other ranks.
    pub rows_remote: u64,
    /// Destinations whose in-edges other ranks drew.
    pub drawn_remote: u64,
    /// By layer.
    pub hops: Vec<HopStats>,
}

impl Stats {
    /// Of no batch, with `layers` layers.
    pub fn new(layers: usize) -> Stats {
        Stats {
            hops: vec![HopStats::default(); layers],
            ..Stats::default()
        }
    }

    /// Adds those of other batches.
    pub fn add(&mut self, more: &Stats) {
        self.batches += more.batches;
        self.seeds += more.seeds;
        self.draw_ns += more.draw_ns;
        self.collect_ns += more.collect_ns;
        self.wait_ns += more.wait_ns;
        self.rows_local += more.rows_local;
        self.rows_cached += more.rows_cached;
        self.rows_remote += more.rows_remote;
        self.drawn_remote += more.drawn_remote;
        for (hop, more) in self.hops.iter_mut().zip(&more.hops) {
            hop.rows += more.rows;
            hop.columns += more.columns;
            hop.edges += more.edges;
        }
    }
}

frame! {
    /// The mini-batches of one rank in one epoch, under a strategy that samples.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    BatchRow in "batches" {
        /// Batches of all trainers of this rank, as many on every rank.
        batches: u64,
        /// Seeds of this rank.
        seeds: u64,
        /// Seeds over the time from the first batch asked for to the last step.
        seeds_per_s: f64,
        /// Time in which threads drew and numbered vertices, beside the training or in it.
        draw_ms: f64,
        /// Time in which they collected feature rows.
        collect_ms: f64,
        /// Time in which they waited for other ranks' answers.
        answer_ms: f64,
        /// Time in which training waited for a batch: `ranks.sample_ms`.
        stall_ms: f64,
        /// Share of the three times that training did not wait for.
        hidden_pct: f64,
        /// Input rows read that this rank owns, each once a batch.
        rows_local: u64,
        /// Input rows of others that it keeps copies of.
        rows_cached: u64,
        /// Input rows fetched from other ranks.
        rows_remote: u64,
        /// Destinations whose in-edges other ranks drew.
        drawn_remote: u64,
    }
}

frame! {
    /// One layer's blocks of one rank in one epoch, under a strategy that samples.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    HopRow in "hops" by layer {
        /// Layer, from 0.
        layer: u16,
        /// Destinations: vertices computed.
        rows: u64,
        /// Sources: vertices read, each once a batch, destinations among them.
        columns: u64,
        /// Edges drawn.
        edges: u64,
        /// Vertices computed at least once in the epoch.
        distinct_rows: u64,
        /// How often one of them was computed: `rows / distinct_rows`.
        redundancy: f64,
    }
}
