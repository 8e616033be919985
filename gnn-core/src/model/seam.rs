//! How a layer reaches other vertices.

use super::layer::{Flow, Grad, Round, Saved, Weights};
use crate::backend::{Kept, Mat, Sparse};
use crate::checkpoint::State;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::graph::Block;
use crate::record::Direction;
use kernels::par::split_edges;
use std::ops::Range;

/// Where in the model an aggregation happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// Layer, from 0.
    pub layer: usize,
    /// Backward means the transpose.
    pub direction: Direction,
}

/// The narrowest seam: Â·X, or Âᵀ·X when `at.direction` is backward, for this rank's rows.
///
/// On a sampled block, forward goes from the rows of its columns `[n_src, d]` to those of its rows
/// `[n_dst, d]`, which are the first columns; backward goes the other way.
pub trait Aggregate {
    /// `x: [n_local, d]` to `[n_local, d]`. Collective: every rank calls it in the same order, also
    /// one without rows.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat>;

    /// Whether it reads the rows that it is given; a layer need not make them otherwise.
    fn reads_rows(&self) -> bool {
        true
    }

    /// The rank's edges and the way to their sources, for layers whose edges have parameters. None
    /// where a strategy only aggregates with fixed weights; such a strategy's entry does not list
    /// models with edge parameters.
    fn edges(&mut self, _at: At) -> Option<Edges<'_>> {
        None
    }

    /// How this strategy runs all rounds of a decoupled model in one go; none where they run layer by
    /// layer like any other.
    fn rounds(&mut self) -> Option<&mut dyn Rounds> {
        None
    }

    /// Adds what later epochs need of earlier ones to this rank's own state; nothing where every epoch
    /// begins anew.
    fn save(&self, cx: &Ctx, own: &mut State) {
        let _ = (cx, own);
    }

    /// Takes back what [`Aggregate::save`] added.
    ///
    /// # Errors
    /// [`Error::Data`] when it is not there.
    fn restore(&mut self, cx: &Ctx, own: &mut State) -> Result<()> {
        let _ = (cx, own);
        Ok(())
    }
}

/// One round of propagation of a decoupled model.
pub struct RoundSite<'a> {
    /// Layer and direction.
    pub at: At,
    /// What it does.
    pub round: Round,
    /// Its tensors.
    pub w: &'a Weights,
    /// The key of this epoch's and layer's random numbers for attention coefficients; none where
    /// nothing is dropped.
    pub key: Option<u64>,
}

/// All rounds of propagation behind the dense layers of a decoupled model, run as one step: the seam
/// for a strategy that changes the layout of the rows before the first round and after the last.
///
/// A free function over [`Aggregate`] is not enough, since that gives every round the rows of this
/// rank and takes them back.
pub trait Rounds {
    /// From what the dense layers made of this rank's rows to the output of the last round,
    /// `[n_local, d_out]`; what backward needs goes into [`Saved`], when the direction is not
    /// evaluation. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets, or a device without enough memory.
    fn forward(
        &mut self,
        cx: &mut Ctx,
        rounds: &[RoundSite<'_>],
        flow: Flow,
    ) -> Result<(Mat, Saved)>;

    /// From the gradient of the output to that of the flow, and the gradients of every round's tensors,
    /// whose sums over ranks are those of the weights. Collective.
    ///
    /// # Errors
    /// As [`Rounds::forward`].
    fn backward(
        &mut self,
        cx: &mut Ctx,
        rounds: &[RoundSite<'_>],
        saved: Saved,
        g: Mat,
    ) -> Result<(Grad, Vec<Weights>)>;
}

/// A rank's in-edges, and the way to the rows at their other ends.
pub struct Edges<'a> {
    /// `[n_local, n_local + n_remote]`: sources are the rank's own rows, then the remote ones.
    pub block: &'a Block,
    /// How many of the first rows have no remote source.
    pub n_interior: usize,
    /// Global vertex id of every source.
    pub ids: &'a Kept<u32>,
    /// Fetches remote rows and returns their gradients; none where a layer's input has the rows of all
    /// sources, as in a mini-batch.
    pub neighbours: Option<&'a mut dyn Neighbours>,
}

impl Edges<'_> {
    /// Whether a layer's input has the rows of all sources.
    pub fn all_here(&self) -> bool {
        self.neighbours.is_none()
    }

    /// [`Neighbours::pull`], or just `meanwhile` where all rows are here.
    ///
    /// # Errors
    /// Whatever the communicator or `meanwhile` meets.
    pub fn pull(
        &mut self,
        cx: &mut Ctx,
        at: At,
        x: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &Mat) -> Result<()>,
    ) -> Result<()> {
        match &mut self.neighbours {
            Some(neighbours) => neighbours.pull(cx, at, x, meanwhile),
            None => meanwhile(cx, x),
        }
    }

    /// [`Neighbours::push`], or just `meanwhile` where all rows are here.
    ///
    /// # Errors
    /// Whatever the communicator or `meanwhile` meets.
    pub fn push(
        &mut self,
        cx: &mut Ctx,
        at: At,
        g: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &mut Mat) -> Result<()>,
    ) -> Result<()> {
        match &mut self.neighbours {
            Some(neighbours) => neighbours.push(cx, at, g, meanwhile),
            None => meanwhile(cx, g),
        }
    }
}

/// Fetches the remote rows that a block reads, and returns gradients to their owners.
///
/// # Laws
/// Summed over ranks, ⟨pull x, g⟩ = ⟨x, push g⟩ for every x and g: push is the exact adjoint.
pub trait Neighbours {
    /// Fills the remote rows of `x: [n_local + n_remote, d]`, whose local rows are there;
    /// `meanwhile` runs once while they travel and reads local rows only. Collective.
    ///
    /// # Errors
    /// Whatever the communicator or `meanwhile` meets.
    fn pull(
        &mut self,
        cx: &mut Ctx,
        at: At,
        x: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &Mat) -> Result<()>,
    ) -> Result<()>;

    /// Adds the remote rows of everybody's `g: [n_local + n_remote, d]` to their owners' local
    /// rows; `meanwhile` runs once while they travel and writes the local rows. Collective.
    ///
    /// # Errors
    /// Whatever the communicator or `meanwhile` meets.
    fn push(
        &mut self,
        cx: &mut Ctx,
        at: At,
        g: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &mut Mat) -> Result<()>,
    ) -> Result<()>;
}

/// Pieces of local work between which posted messages may progress.
const PIECES: usize = 8;

/// Work on the rows `rows` of `a`, in pieces between which posted messages may progress.
///
/// # Errors
/// Whatever the communicator meets.
pub(crate) fn in_pieces(
    cx: &mut Ctx,
    a: &Sparse,
    rows: Range<usize>,
    mut work: impl FnMut(&Ctx, Range<usize>),
) -> Result<()> {
    if cx.size() == 1 {
        work(cx, rows);
        return Ok(());
    }
    for bounds in split_edges(a.view().indptr, rows, PIECES).windows(2) {
        work(cx, bounds[0]..bounds[1]);
        cx.comm.poll()?;
    }
    Ok(())
}

/// The rank's own rows `x: [n_local, d]`, followed by room for the remote ones: `[n_src, d]`.
pub(crate) fn with_room(cx: &Ctx, x: &Mat, n_src: usize) -> Mat {
    let mut sources = cx.backend.fresh(n_src, x.ncols());
    cx.backend.copy_rows(x, 0, x.nrows(), &mut sources, 0);
    sources
}

/// The edges of a layer whose edges have parameters.
///
/// # Errors
/// [`Error::Unsupported`] where the strategy only aggregates with fixed weights.
pub(super) fn edges_of<'a>(agg: &'a mut dyn Aggregate, at: At) -> Result<Edges<'a>> {
    agg.edges(at).ok_or_else(|| Error::Unsupported {
        what: "a model whose edges have parameters".into(),
        reason: "this strategy aggregates with fixed weights only".into(),
        help: "choose a strategy that lists the model, for example halo".into(),
    })
}
