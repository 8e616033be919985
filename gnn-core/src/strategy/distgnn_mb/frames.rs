//! What is recorded: a cache's epoch, layer by layer.

use super::caches::{Caches, Counts, LayerCache};
use crate::ctx::Ctx;
use crate::frame;
use serde::Deserialize;

frame! {
    /// One layer's historical cache on one rank in one epoch: what its batches read of other ranks' vertices, and
    /// what it told those.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    HecRow in "hec" by layer {
        /// Layer, from 0: what it reads, so that the first one's are features.
        layer: u16,
        /// Vertices of other ranks that batches looked for, each once a batch.
        lookups: u64,
        /// Those that were found.
        hits: u64,
        /// Their share; none where nothing was looked for.
        hit_pct: Option<f64>,
        /// Edges drawn.
        edges: u64,
        /// Those that were dropped with their source.
        edges_dropped: u64,
        /// Steps since the rows that were found were stored, a mean over them; `d` more since they were made.
        age_mean_steps: Option<f64>,
        /// The same of the oldest.
        age_max_steps: Option<u64>,
        /// Rows of this rank's that were pushed to peers.
        rows_pushed: u64,
        /// Rows that peers read and that were left out, since there were more than `nc`.
        rows_left_out: u64,
        /// Rows that came from peers and are newer ones of the same vertex.
        rows_renewed: u64,
        /// Rows that came and went into a line that had none.
        rows_added: u64,
        /// Rows that came and took the place of the oldest.
        rows_evicted: u64,
        /// Rows that came and found no line.
        rows_refused: u64,
        /// Rows that were too old and are gone.
        rows_expired: u64,
        /// Lines in use when the epoch ended.
        lines: u64,
        /// Letters with rows.
        letters: u64,
        /// What they say, in bytes.
        bytes: u64,
        /// Time to choose and pack rows.
        pre_ms: f64,
        /// Time blocked until rows came.
        comm_ms: f64,
        /// Time to store them, and to put rows of the cache beside those of a batch.
        post_ms: f64,
        /// L2 norm of the difference between the rows in the cache when the epoch ended and exact ones, by the
        /// weights that it ended with and whole neighbourhoods, over the L2 norm of those; where it is measured.
        error_rel: Option<f64>,
    }
}

/// A layer's row.
fn row(layer: usize, of: &LayerCache, error: Option<f64>) -> HecRow {
    let Counts {
        lookups,
        hits,
        edges,
        dropped,
        age_sum,
        age_max,
        stored,
        expired,
        pushed,
        left_out,
        letters,
        words,
        pre_ns,
        comm_ns,
        post_ns,
    } = of.counts;
    let ms = |ns: u64| ns as f64 / 1e6;
    HecRow {
        layer: layer as u16,
        lookups,
        hits,
        hit_pct: (lookups > 0).then(|| 100.0 * hits as f64 / lookups as f64),
        edges,
        edges_dropped: dropped,
        age_mean_steps: (hits > 0).then(|| age_sum as f64 / hits as f64),
        age_max_steps: (hits > 0).then_some(age_max),
        rows_pushed: pushed,
        rows_left_out: left_out,
        rows_renewed: stored.renewed,
        rows_added: stored.added,
        rows_evicted: stored.evicted,
        rows_refused: stored.refused,
        rows_expired: expired,
        lines: of.hec.len() as u64,
        letters,
        bytes: 4 * words,
        pre_ms: ms(pre_ns),
        comm_ms: ms(comm_ns),
        post_ms: ms(post_ns),
        error_rel: error,
    }
}

/// Writes the epoch's rows; the next epoch counts anew.
pub(super) fn write(cx: &Ctx, caches: &mut Caches, errors: &mut Vec<Option<f64>>) {
    errors.resize(caches.layers.len(), None);
    for ((layer, of), error) in caches.layers.iter_mut().enumerate().zip(errors.drain(..)) {
        cx.row(row(layer, of, error));
        of.counts = Counts::default();
    }
}
