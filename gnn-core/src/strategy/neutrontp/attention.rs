//! Attention before propagation: coefficients made once an epoch, for all rounds.
//!
//! Softmax over in-neighbours is not linear, so that it cannot run on slices of columns. Behind the
//! dense layers every rank has whole rows of its own vertices, which is what scores need:
//!
//! 1. Scores of all vertices as sources are gathered: one float a vertex and head.
//! 2. Every rank makes the coefficients of the in-edges of its own vertices (data-parallel).
//! 3. All coefficients are gathered: one float an edge and head. Rounds on slices are linear with them:
//!    each head weighs all columns and heads are averaged ([`crate::model::coefficients`]), so that a
//!    slice may begin and end anywhere.
//!
//! Backward, the gradient of a coefficient is `⟨g_v, x_u⟩` over all columns and rounds. A rank knows
//! the part of its columns, for every edge; the parts are summed where the coefficient was made (a
//! reduce-scatter), and so are those of the sources' scores after them. Both are exact.
//! # Bytes
//! All ranks together, each way, `4 · heads · (N − 1) · (V + E)`.

use super::chunks::Owners;
use crate::backend::{Corner, Kept, Mat, Sparse, Term, Then, Write};
use crate::comm::Label;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Weights, coefficients};
use crate::record::{Direction, PredictedLane};
use kernels::{Csr, CsrBuf};
use std::rc::Rc;

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
    heads: usize,
}

/// What backward needs.
pub(super) struct Made {
    /// Scores of all vertices as sources: `[n, heads]`.
    el: Rc<Mat>,
    /// Scores of this rank's as destinations: `[n_local, heads]`.
    er: Rc<Mat>,
    /// Coefficients of the in-edges of this rank's vertices: `[own edges, heads]`.
    mine: Rc<Mat>,
    /// Coefficients of all edges: `[edges, heads]`.
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
    /// Over the rows of `a: [n, n]`, with so many heads.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for 2³² edges or more.
    pub(super) fn new(a: Csr<'_>, owners: Owners<'_>, heads: usize) -> Result<Attention> {
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
            heads,
        })
    }

    /// Everybody's part of a matrix of `heads` columns, its rows put where `places` say: `[all, heads]`.
    fn gather(cx: &mut Ctx, label: Label, mine: &Mat, places: &[Kept<u32>]) -> Result<Mat> {
        let heads = mine.ncols();
        let lens: Vec<usize> = places.iter().map(|p| p.len() * heads).collect();
        let message = cx.message(cx.backend.copy(mine));
        let parts = cx.comm.all_gather_v(label, message, &lens)?;
        let mut all = cx.backend.fresh(lens.iter().sum::<usize>() / heads, heads);
        for (rows, part) in places.iter().zip(parts) {
            let part = cx.received(rows.len(), heads, part)?;
            let (size, to) = ((rows.len(), heads), Corner::of(rows, 0));
            cx.backend
                .copy_block(&part, Corner::at(0), size, &mut all, to);
        }
        Ok(all)
    }

    /// Its adjoint: the sum over ranks of the rows at this rank's `places` in `all: [all, heads]`, in
    /// rank order.
    fn reduce(cx: &mut Ctx, label: Label, all: &Mat, places: &[Kept<u32>]) -> Result<Mat> {
        let (me, heads) = (cx.rank(), all.ncols());
        let mut send = Vec::with_capacity(places.len());
        for rows in places {
            let mut packed = cx.backend.fresh(rows.len(), heads);
            let (from, size) = (Corner::of(rows, 0), (rows.len(), heads));
            cx.backend
                .copy_block(all, from, size, &mut packed, Corner::at(0));
            send.push(cx.message(packed));
        }
        let own = places[me].len();
        let lens = vec![own * heads; places.len()];
        let parts = cx.comm.all_to_all_v(label, send, &lens)?;
        let mut sum = cx.backend.zeros(own, heads);
        for part in parts {
            let part = cx.received(own, heads, part)?;
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
        let mut el = coefficients::scores(cx, z, &w[SRC]);
        let er = coefficients::scores(cx, z, &w[DST]);
        if cx.size() > 1 {
            el = Attention::gather(cx, label, &el, &self.rows)?;
        }
        let mine = Rc::new(coefficients::make(cx, &self.own, &el, &er));
        let all = if cx.size() == 1 {
            Rc::clone(&mine)
        } else {
            Rc::new(Attention::gather(cx, label, &mine, &self.edges)?)
        };
        Ok(Made {
            el: Rc::new(el),
            er: Rc::new(er),
            mine,
            all,
        })
    }

    /// The gradient of the vectors of sources and destinations, from `dalpha: [edges, heads]`, this
    /// rank's columns' part of that of the coefficients of all edges; and what comes back through the
    /// scores is added to `dz: [n_local, width]`, the gradient of `z`. Collective.
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
            Attention::reduce(cx, label, &dalpha, &self.edges)?
        };
        let made = coefficients::Made {
            el: &made.el,
            er: &made.er,
            alpha: &made.mine,
        };
        let (mut del, der) = coefficients::backward(cx, &self.own, &made, &dalpha);
        if !alone {
            del = Attention::reduce(cx, label, &del, &self.rows)?;
        }
        let terms = [Term::plain(&del, &w[SRC]), Term::plain(&der, &w[DST])];
        cx.backend.linear(&terms, Write::Add, Then::default(), dz);
        let of_vectors = [&del, &der].map(|ds| {
            let mut da = cx.backend.fresh(self.heads, z.ncols());
            cx.backend.weight_gradient(ds, z, &mut da, None);
            da
        });
        Ok(of_vectors.into())
    }

    /// Bytes that rank `me` sends each epoch for it, at layer `layer`.
    pub(super) fn predict(&self, me: usize, layer: u16) -> Vec<(PredictedLane, u64)> {
        let numbers = |r: usize| self.heads * (self.rows[r].len() + self.edges[r].len());
        let bytes = |r: usize| 4 * numbers(r) as u64;
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
