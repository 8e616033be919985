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
    /// Edges drawn, without those that were dropped.
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
        /// Edges drawn, without those that were dropped.
        edges: u64,
        /// Vertices computed at least once in the epoch.
        distinct_rows: u64,
        /// How often one of them was computed: `rows / distinct_rows`.
        redundancy: f64,
    }
}

frame! {
    /// The batches that one rank began in one epoch, for this one or later ones, where a score says when
    /// (ByteGNN's Algorithm 1).
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    LaunchRow in "schedule" by launch {
        /// The batch's number in the run, from 0 on; a run that goes on from a checkpoint counts anew.
        launch: u64,
        /// Time since the run's first launch.
        at_ms: f64,
        /// Why it was begun: score, cold (no batch has been trained on yet) or idle (no more are on their way and
        /// in the queue than there are threads that make them).
        reason: String,
        /// The launch score; none before there are times to make it of.
        score: Option<f64>,
        /// The score that is enough.
        threshold: f64,
        /// Finished batches that training could take one after the other.
        queue: u64,
        /// Batches on their way, without this one.
        flying: u64,
        /// Bytes of batches that are finished, and of those on their way if each is as large as the largest
        /// one so far.
        in_flight_bytes: u64,
        /// Processor time of the rank over its share of the cores, of late.
        utilisation_pct: f64,
        /// Time since the launch before.
        gap_ms: f64,
        /// Mean time from the beginning of a batch to its end, of the last eight.
        sample_ms: Option<f64>,
        /// Mean time that training takes for one, of the last eight.
        train_ms: Option<f64>,
        /// How often the score was computed since the launch before.
        polls: u64,
    }
}
