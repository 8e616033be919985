//! Attention before propagation: coefficients made once an epoch, for all rounds.
//!
//! Softmax over in-neighbours is not linear, so that it cannot run on slices of columns. Behind the
//! dense layers every rank has whole rows of its own vertices, which is what scores need:
//!
//! 1. Scores of all vertices as sources are gathered: one float a vertex.
//! 2. Every rank makes the coefficients of the in-edges of its own vertices (data-parallel).
//! 3. All coefficients are gathered: one float an edge. Rounds on slices are linear with them.
//!
//! Backward, the gradient of a coefficient is `⟨g_v, x_u⟩` over all columns and rounds. A rank knows
//! the part of its columns, for every edge; the parts are summed where the coefficient was made (a
//! reduce-scatter), and so are those of the sources' scores after them. Both are exact.

use super::chunks::Owners;
use crate::backend::{Coefficients, Corner, Kept, Mat, Picked, ScoreTerm, Sparse};
use crate::comm::Label;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::Weights;
use crate::record::{Direction, PredictedLane};
use kernels::{Csr, CsrBuf};
use std::rc::Rc;

/// Slope of LeakyReLU below zero.
const SLOPE: f32 = 0.2;
const SRC: usize = 0;
const DST: usize = 1;

/// What one rank knows of the edges and their owners.
pub(super) struct Attention {
    /// In-edges of this rank's vertices: `[n_local, n]`.
    own: Sparse,
    /// By rank, its vertices.
    rows: Vec<Kept<u32>>,
    /// By rank, where the in-edges of its vertices are among all.
    edges: Vec<Kept<u32>>,
}

/// What backward needs.
pub(super) struct Made {
    /// Scores of all vertices as sources: `[n, 1]`.
    el: Rc<Mat>,
    /// Scores of this rank's as destinations: `[n_local, 1]`.
    er: Rc<Mat>,
    /// Coefficients of the in-edges of this rank's vertices: `[1, edges]`.
    mine: Rc<Mat>,
    /// Coefficients of all edges: `[1, edges]`.
    pub(super) all: Rc<Mat>,
}

impl Made {
    /// For [`crate::model::Saved::more`].
    pub(super) fn into_list(self) -> [Rc<Mat>; 4] {
        [self.el, self.er, self.mine, self.all]
    }

    /// Takes them off the front of that list.
    pub(super) fn from_list(list: &mut impl Iterator<Item = Rc<Mat>>) -> Made {
        let mut next = || list.next().expect("into_list makes four");
        Made {
            el: next(),
            er: next(),
            mine: next(),
            all: next(),
        }
    }
}

impl Attention {
    /// Over the rows of `a: [n, n]`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for 2³² edges or more.
    pub(super) fn new(a: Csr<'_>, owners: Owners<'_>) -> Result<Attention> {
        if u32::try_from(a.n_edges()).is_err() {
            return Err(crate::Error::Shape {
                op: "attention".into(),
                expected: "fewer than 2³² edges".into(),
                got: a.n_edges().to_string(),
            });
        }
        let (mut rows, mut edges) = (
            vec![Vec::new(); owners.ranks],
            vec![Vec::new(); owners.ranks],
        );
        let mut own = CsrBuf::empty(a.n_cols);
        for (v, &rank) in owners.owner.iter().enumerate() {
            let (rank, span) = (rank as usize, a.span(v));
            rows[rank].push(v as u32);
            edges[rank].extend(span.start as u32..span.end as u32);
            if rank == owners.me {
                own.indices.extend_from_slice(&a.indices[span]);
                own.indptr.push(own.indices.len() as u64);
            }
        }
        Ok(Attention {
            own: Sparse::new(own),
            rows: rows.into_iter().map(Kept::from).collect(),
            edges: edges.into_iter().map(Kept::from).collect(),
        })
    }

    /// Everybody's part of a column of numbers, put where `places` say: `[all, 1]`.
    fn gather(cx: &mut Ctx, label: Label, mine: &Mat, places: &[Kept<u32>]) -> Result<Mat> {
        let lens: Vec<usize> = places.iter().map(|p| p.len()).collect();
        let message = cx.message(cx.backend.copy(mine));
        let parts = cx.comm.all_gather_v(label, message, &lens)?;
        let mut all = cx.backend.fresh(lens.iter().sum(), 1);
        for (rows, part) in places.iter().zip(parts) {
            let part = cx.received(rows.len(), 1, part)?;
            let to = Corner::of(rows, 0);
            cx.backend
                .copy_block(&part, Corner::at(0), (rows.len(), 1), &mut all, to);
        }
        Ok(all)
    }

    /// Its adjoint: the sum over ranks of the numbers at this rank's `places` in `all: [all, 1]`, in
    /// rank order.
    fn reduce(cx: &mut Ctx, label: Label, all: &Mat, places: &[Kept<u32>]) -> Result<Mat> {
        let me = cx.rank();
        let mut send = Vec::with_capacity(places.len());
        for rows in places {
            let mut packed = cx.backend.fresh(rows.len(), 1);
            let from = Corner::of(rows, 0);
            cx.backend
                .copy_block(all, from, (rows.len(), 1), &mut packed, Corner::at(0));
            send.push(cx.message(packed));
        }
        let lens = vec![places[me].len(); places.len()];
        let parts = cx.comm.all_to_all_v(label, send, &lens)?;
        let mut sum = cx.backend.zeros(places[me].len(), 1);
        for part in parts {
            let part = cx.received(places[me].len(), 1, part)?;
            cx.backend.axpby(1.0, &part, 1.0, &mut sum);
        }
        Ok(sum)
    }

    /// The coefficients of all edges, from `z: [n_local, width]` and the vectors of sources and
    /// destinations. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn forward(&self, cx: &mut Ctx, label: Label, z: &Mat, w: &Weights) -> Result<Made> {
        let n = z.nrows();
        let mut el = cx.backend.fresh(n, 1);
        let mut er = cx.backend.fresh(n, 1);
        let vectors = (&w[SRC], Some(&w[DST]));
        cx.backend
            .attention_scores(z, vectors, 0..n, &mut el, &mut er);
        if cx.size() > 1 {
            el = Attention::gather(cx, label, &el, &self.rows)?;
        }
        let mut mine = cx.backend.fresh(1, self.own.n_edges());
        cx.backend
            .coefficients(&self.own, SLOPE, &el, &er, &mut mine);
        let mine = Rc::new(mine);
        let all = if cx.size() == 1 {
            Rc::clone(&mine)
        } else {
            let all = Attention::gather(cx, label, &mine, &self.edges)?;
            let edges = all.len();
            Rc::new(all.reshape(1, edges))
        };
        Ok(Made {
            el: Rc::new(el),
            er: Rc::new(er),
            mine,
            all,
        })
    }

    /// The gradient of the vectors of sources and destinations, from `dalpha: [1, edges]`, this rank's
    /// columns' part of that of the coefficients of all edges; and what comes back through the scores
    /// is added to `dz: [n_local, width]`, the gradient of `z`. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn backward(
        &self,
        cx: &mut Ctx,
        label: Label,
        made: &Made,
        (z, w): (&Mat, &Weights),
        dalpha: Mat,
        dz: &mut Mat,
    ) -> Result<Weights> {
        let alone = cx.size() == 1;
        let dalpha = if alone {
            dalpha
        } else {
            let edges = dalpha.len();
            let sums = Attention::reduce(cx, label, &dalpha.reshape(edges, 1), &self.edges)?;
            let own = sums.len();
            sums.reshape(1, own)
        };
        let mut del = cx.backend.fresh(self.own.n_cols(), 1);
        let mut der = cx.backend.fresh(z.nrows(), 1);
        let (el, er, alpha) = (&made.el, &made.er, &made.mine);
        let made = Coefficients { el, er, alpha };
        let to = (&mut del, &mut der);
        cx.backend
            .coefficients_backward(&self.own, SLOPE, made, &dalpha, to);
        if !alone {
            del = Attention::reduce(cx, label, &del, &self.rows)?;
        }
        let mut d_src = cx.backend.fresh(1, z.ncols());
        let mut d_dst = cx.backend.fresh(1, z.ncols());
        let mut terms = [
            ScoreTerm {
                ds: &del,
                a: &w[SRC],
                da: &mut d_src,
            },
            ScoreTerm {
                ds: &der,
                a: &w[DST],
                da: &mut d_dst,
            },
        ];
        cx.backend.score_backward(z, &mut terms, dz);
        Ok(vec![d_src, d_dst])
    }

    /// Bytes that rank `me` sends each epoch for it, at layer `layer`.
    pub(super) fn predict(&self, me: usize, layer: u16) -> Vec<(PredictedLane, u64)> {
        let bytes = |r: usize| 4 * (self.rows[r].len() + self.edges[r].len()) as u64;
        let peers = (0..self.rows.len()).filter(|&r| r != me);
        let both = |dst: usize| {
            let lane = |direction| (layer, direction, dst as u32);
            [
                (lane(Direction::Forward), bytes(me)),
                (lane(Direction::Backward), bytes(dst)),
            ]
        };
        peers.flat_map(both).collect()
    }
}

/// The values of all edges after a round's dropout, and in the order of the transposed matrix.
pub(super) fn transposed(cx: &Ctx, values: &Mat, t_of: &Kept<u32>) -> Mat {
    let edges = values.len();
    let mut out = cx.backend.fresh(edges, 1);
    let column = cx.backend.copy(values).reshape(edges, 1);
    let to = Corner {
        rows: Picked::List(t_of),
        col: 0,
    };
    cx.backend
        .copy_block(&column, Corner::at(0), (edges, 1), &mut out, to);
    out.reshape(1, edges)
}
