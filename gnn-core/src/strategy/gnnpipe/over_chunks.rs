//! Aggregation for one chunk, of whose sources some are this epoch's and some historical; or for all
//! chunks at once, of whose sources none are.

use super::chunk::{Chunk, Chunks};
use super::history::History;
use super::today::{Reads, Today};
use crate::backend::{Kept, Mat, Sparse, Write};
use crate::checkpoint::State;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Aggregate, At, Neighbours, in_pieces};
use crate::record::Direction;
use std::rc::Rc;

/// The chunks of a rank, as layers aggregate over them.
pub(super) struct OverChunks {
    chunks: Chunks,
    history: History,
    today: Option<Today>,
    /// The chunk whose rows come; none for all of them, in their order.
    pub(super) at: Option<usize>,
    /// The features of all sources, where the first layer aggregates them: `[n_sources, d]`.
    pub(super) features: Option<Rc<Mat>>,
    /// Whether rows that all chunks aggregate at once are the first historical ones.
    pub(super) founds: bool,
}

impl OverChunks {
    /// Over chunks whose first historical rows are still to be made.
    pub(super) fn new(chunks: Chunks, history: History) -> OverChunks {
        OverChunks {
            chunks,
            history,
            today: None,
            at: None,
            features: None,
            founds: false,
        }
    }

    /// The chunks.
    pub(super) fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    /// Global vertex ids of the sources.
    pub(super) fn source_ids(&self) -> &Kept<u32> {
        &self.chunks.sources
    }

    /// What they read of each other.
    pub(super) fn history(&mut self) -> &mut History {
        &mut self.history
    }

    /// An epoch begins, in which chunks go forward in `order`.
    pub(super) fn begin(&mut self, order: &[usize]) {
        let reads = Reads {
            order: order.to_vec(),
            halves: self.history.halves(),
            all_gradients: self.history.has_gradients(),
        };
        if self.today.as_ref().is_none_or(|today| !today.is(&reads)) {
            self.today = Some(Today::new(&self.chunks, reads));
        }
    }

    /// How many of a chunk's in-edges read historical rows in this epoch, in every layer but the first.
    pub(super) fn stale(&self, chunk: usize) -> u64 {
        self.today.as_ref().map_or(0, |today| today.stale(chunk))
    }

    /// Historical rows that all chunks read in this epoch, each once for every chunk that does.
    pub(super) fn stale_rows(&self) -> u64 {
        self.today.as_ref().map_or(0, Today::stale_rows)
    }

    /// Forward of all chunks, each of which reads what all others have just made.
    fn forward_of_all(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let backend = &cx.backend;
        let mut sources = backend.fresh(self.chunks.sources.len(), x.ncols());
        let mut out = backend.fresh(x.nrows(), x.ncols());
        for chunk in &mut self.chunks.all {
            let rows = (x, chunk.own.start);
            share(cx, chunk, at, rows, (&mut sources, 0), |_, _| Ok(()))?;
        }
        for chunk in &self.chunks.all {
            let mut part = cx.backend.fresh(chunk.rows(), x.ncols());
            let rows = 0..chunk.rows();
            cx.backend
                .spmm(&chunk.edges, rows, &sources, Write::Set, &mut part);
            cx.backend
                .copy_rows(&part, 0, chunk.rows(), &mut out, chunk.own.start);
        }
        if self.founds && at.layer > 0 {
            self.history
                .first(cx, at.layer, sources, self.chunks.rows());
        }
        Ok(out)
    }

    /// Forward of a chunk.
    fn forward_of(&mut self, cx: &mut Ctx, k: usize, at: At, x: &Mat) -> Result<Mat> {
        let chunk = &mut self.chunks.all[k];
        let n = chunk.rows();
        let mut out = cx.backend.fresh(n, x.ncols());
        if let Some(features) = self.features.as_ref().filter(|_| at.layer == 0) {
            cx.backend
                .spmm(&chunk.edges, 0..n, features, Write::Set, &mut out);
            return Ok(out);
        }
        let today = self.today.as_ref().and_then(|today| today.forward(k));
        let interior = 0..chunk.n_interior;
        let (sources, first) = self.history.rows(at.layer);
        if cx.size() == 1 {
            let place = first + chunk.seen.start;
            cx.backend.copy_rows(x, 0, n, sources, place);
            let edges = today.unwrap_or(&chunk.edges);
            cx.backend.spmm(edges, 0..n, sources, Write::Set, &mut out);
            return Ok(out);
        }
        // Edges are lent out beside the chunk's way to others.
        let boundary = interior.end..n;
        let own = Rc::clone(&chunk.edges);
        let edges = today.unwrap_or(&own);
        share(
            cx,
            chunk,
            at,
            (x, 0),
            (&mut *sources, first),
            |cx, sources| {
                in_pieces(cx, edges, interior.clone(), |cx, rows| {
                    cx.backend.spmm(edges, rows, sources, Write::Set, &mut out)
                })
            },
        )?;
        cx.backend
            .spmm(edges, boundary, sources, Write::Set, &mut out);
        Ok(out)
    }

    /// Backward of a chunk's aggregate, `g: [n_k, d]`.
    fn backward_of(&mut self, cx: &mut Ctx, k: usize, at: At, g: &Mat) -> Result<Mat> {
        let chunk = &mut self.chunks.all[k];
        let all = self.history.gradients(at.layer);
        cx.backend
            .copy_rows(g, 0, chunk.rows(), all, chunk.own.start);
        let today = self.today.as_ref().and_then(|today| today.backward(k));
        back(cx, chunk, at, today, all)
    }

    /// Backward of all chunks' aggregates, `g: [n_own, d]`.
    fn backward_of_all(&mut self, cx: &mut Ctx, at: At, g: &Mat) -> Result<Mat> {
        let mut out = cx.backend.fresh(g.nrows(), g.ncols());
        for chunk in &mut self.chunks.all {
            let part = back(cx, chunk, at, None, g)?;
            cx.backend
                .copy_rows(&part, 0, chunk.rows(), &mut out, chunk.own.start);
        }
        Ok(out)
    }
}

/// Writes a chunk's rows, which are in `x` from row `first` on, to `sources` for all ranks of the stage
/// that read them, from row `start` on; `meanwhile` runs while those of the others travel.
fn share(
    cx: &mut Ctx,
    chunk: &mut Chunk,
    at: At,
    (x, first): (&Mat, usize),
    (sources, start): (&mut Mat, usize),
    mut meanwhile: impl FnMut(&mut Ctx, &Mat) -> Result<()>,
) -> Result<()> {
    let (n, start) = (chunk.rows(), start + chunk.seen.start);
    cx.backend.copy_rows(x, first, n, sources, start);
    if cx.size() == 1 {
        return meanwhile(cx, sources);
    }
    let mut seen = cx.backend.fresh(chunk.seen.len(), x.ncols());
    cx.backend.copy_rows(x, first, n, &mut seen, 0);
    let (read, local) = (chunk.seen.len() - n, &*sources);
    let halo = &mut chunk.halo;
    halo.pull(cx, at, &mut seen, &mut |cx, _| meanwhile(cx, local))?;
    cx.backend.copy_rows(&seen, n, read, sources, start + n);
    Ok(())
}

/// From the gradients of aggregates that are there, `g: [n_own, d]`, those of the chunk's rows, over
/// `edges` or all that it has; those of other ranks' rows go to them.
fn back(cx: &mut Ctx, chunk: &mut Chunk, at: At, edges: Option<&Sparse>, g: &Mat) -> Result<Mat> {
    let (n, seen) = (chunk.rows(), chunk.seen.len());
    let mut out = cx.backend.fresh(seen, g.ncols());
    let Chunk { edges_t, halo, .. } = chunk;
    let edges = edges.unwrap_or(edges_t);
    if cx.size() == 1 {
        cx.backend.spmm(edges, 0..n, g, Write::Set, &mut out);
        return Ok(out);
    }
    cx.backend.spmm(edges, n..seen, g, Write::Set, &mut out);
    halo.push(cx, at, &mut out, &mut |cx, out| {
        in_pieces(cx, edges, 0..n, |cx, rows| {
            cx.backend.spmm(edges, rows, g, Write::Set, out)
        })
    })?;
    Ok(out.truncate(n))
}

impl Aggregate for OverChunks {
    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        match (self.at, at.direction == Direction::Backward) {
            (Some(k), false) => self.forward_of(cx, k, at, x),
            (Some(k), true) => self.backward_of(cx, k, at, x),
            (None, false) => self.forward_of_all(cx, at, x),
            (None, true) => self.backward_of_all(cx, at, x),
        }
    }

    fn save(&self, cx: &Ctx, own: &mut State) {
        self.history.save(cx, own);
    }

    fn restore(&mut self, cx: &Ctx, own: &mut State) -> Result<()> {
        self.history.restore(cx, cx.plan.start as u64, own)
    }
}
