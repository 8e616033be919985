//! Attention over a rank's edges, forward and back, with remote rows fetched and returned.
//!
//! Local work runs while rows travel: forward, the rows without remote sources; backward, the
//! sources that this rank owns.

use super::seam::{Edges, edges_of, in_pieces, with_room};
use super::site::Site;
use crate::backend::{
    Attended, Attention, AttentionDropout, AttentionSums, Mat, Projected, ScoreTerm,
    SourceGradients, Summed,
};
use crate::ctx::Ctx;
use crate::error::Result;
use std::ops::Range;
use std::rc::Rc;

/// Slope of LeakyReLU below zero.
const SLOPE: f32 = 0.2;

/// Heads, and the dropout of their coefficients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub(super) heads: usize,
    /// Key and probability.
    pub(super) dropout: Option<(u64, f32)>,
}

impl Heads {
    fn over<'a>(self, edges: &Edges<'a>) -> Attention<'a> {
        Attention {
            heads: self.heads,
            slope: SLOPE,
            dropout: self.dropout.map(|(key, p)| AttentionDropout {
                key,
                p,
                ids: edges.ids,
            }),
        }
    }
}

/// What backward needs of one attention.
pub(super) struct Kept {
    /// Rows of all sources: `[n_src, heads · width]`.
    pub(super) z: Rc<Mat>,
    /// Scores of sources: `[n_src, heads]`.
    pub(super) el: Rc<Mat>,
    /// Scores of destinations: `[n_dst, heads]`.
    pub(super) er: Rc<Mat>,
    /// Logarithms of the denominators: `[n_dst, heads]`.
    pub(super) lse: Rc<Mat>,
    /// The sums: `[n_dst, heads · width]`.
    pub(super) out: Rc<Mat>,
    /// In training, those of edges with positive scores, and their share of the softmax.
    positive: Option<[Rc<Mat>; 2]>,
}

impl Kept {
    /// For [`super::Saved::more`].
    pub(super) fn into_list(self) -> Vec<Rc<Mat>> {
        let all = [self.z, self.el, self.er, self.lse, self.out];
        all.into_iter()
            .chain(self.positive.into_iter().flatten())
            .collect()
    }

    /// Out of [`super::Saved::more`].
    ///
    /// # Panics
    /// When it was not put there by [`Kept::into_list`] in training.
    pub(super) fn from_list(list: Vec<Rc<Mat>>) -> Kept {
        let list: Result<[Rc<Mat>; 7], _> = list.try_into();
        let [z, el, er, lse, out, positive, share] = list.expect("into_list makes seven");
        Kept {
            z,
            el,
            er,
            lse,
            out,
            positive: Some([positive, share]),
        }
    }
}

/// What forward writes row by row.
struct Sums {
    lse: Mat,
    out: Mat,
    positive: Option<(Mat, Mat)>,
}

impl Sums {
    /// Of `n` rows of `width` columns, all heads together; with those of positive scores where backward follows.
    fn fresh(cx: &Ctx, n: usize, width: usize, heads: usize, trains: bool) -> Sums {
        let fresh = |columns| cx.backend.fresh(n, columns);
        Sums {
            lse: fresh(heads),
            out: fresh(width),
            positive: trains.then(|| (fresh(width), fresh(heads))),
        }
    }

    fn to(&mut self) -> AttentionSums<'_> {
        AttentionSums {
            lse: &mut self.lse,
            out: &mut self.out,
            positive: self.positive.as_mut().map(|(out, share)| (out, share)),
        }
    }

    fn kept(self, z: Mat, el: Mat, er: Mat) -> Kept {
        let [z, el, er, lse, out] = [z, el, er, self.lse, self.out].map(Rc::new);
        let positive = self.positive.map(|(out, share)| [out, share].map(Rc::new));
        Kept {
            z,
            el,
            er,
            lse,
            out,
            positive,
        }
    }
}

/// Softmax-weighted sums of `z: [n_local, heads · width]` over the in-edges of a rank's rows, with the
/// attention vectors of sources and destinations, `[heads, width]` each.
pub(super) fn forward(
    site: &mut Site<'_>,
    heads: Heads,
    z: Mat,
    (src, dst): (&Mat, &Mat),
) -> Result<Kept> {
    let trains = site.trains();
    let (cx, at) = (&mut *site.cx, site.at);
    let mut edges = edges_of(&mut *site.agg, at)?;
    let (att, a) = (heads.over(&edges), edges.block.edges());
    let (n, n_src, width) = (edges.block.n_dst, edges.block.n_src, z.ncols());
    let mut el = cx.backend.fresh(n_src, heads.heads);
    let mut er = cx.backend.fresh(n, heads.heads);
    let mut sums = Sums::fresh(cx, n, width, heads.heads, trains);
    let score = |cx: &Ctx, z: &Mat, rows: Range<usize>, el: &mut Mat, er: &mut Mat| {
        let dst = (rows.start < n || rows.is_empty()).then_some(dst);
        cx.backend.attention_scores(z, (src, dst), rows, el, er);
    };
    if cx.size() == 1 || edges.all_here() {
        score(cx, &z, 0..n, &mut el, &mut er);
        if n < n_src {
            score(cx, &z, n..n_src, &mut el, &mut er);
        }
        let from = Projected {
            z: &z,
            el: &el,
            er: &er,
        };
        cx.backend.attention(a, 0..n, att, from, sums.to());
        return Ok(sums.kept(z, el, er));
    }
    let mut sources = with_room(cx, &z, n_src);
    drop(z);
    let (interior, boundary) = (0..edges.n_interior, edges.n_interior..n);
    edges.pull(cx, at, &mut sources, &mut |cx, z| {
        score(cx, z, 0..n, &mut el, &mut er);
        let from = Projected {
            z,
            el: &el,
            er: &er,
        };
        in_pieces(cx, a, interior.clone(), |cx, rows| {
            cx.backend.attention(a, rows, att, from, sums.to());
        })
    })?;
    if n < n_src {
        score(cx, &sources, n..n_src, &mut el, &mut er);
    }
    let from = Projected {
        z: &sources,
        el: &el,
        er: &er,
    };
    cx.backend.attention(a, boundary, att, from, sums.to());
    Ok(sums.kept(sources, el, er))
}

/// What backward gives.
pub(super) struct Gradients {
    /// Of the layer's input: `[n_local, heads · width]`.
    pub(super) dz: Mat,
    /// Of the attention vectors of sources and destinations.
    pub(super) vectors: (Mat, Mat),
}

/// The backward of [`forward`] from `g`, the gradient of its sums. What forward kept is freed as soon
/// as it is not needed, the sums before anything of their size is made.
pub(super) fn backward(
    site: &mut Site<'_>,
    heads: Heads,
    kept: Kept,
    (src, dst): (&Mat, &Mat),
    g: &Mat,
) -> Result<Gradients> {
    let (cx, at) = (&mut *site.cx, site.at);
    let mut edges = edges_of(&mut *site.agg, at)?;
    let (att, t) = (heads.over(&edges), edges.block.edges_t());
    let (n, n_src, width) = (edges.block.n_dst, edges.block.n_src, g.ncols());
    let h = heads.heads;
    let fresh = |cx: &Ctx, rows, cols| cx.backend.fresh(rows, cols);
    let (mut c, mut der) = (fresh(cx, n, h), fresh(cx, n, h));
    let Kept {
        z,
        el,
        er,
        lse,
        out,
        positive,
    } = kept;
    let [positive, share] = positive.expect("kept in training");
    let sums = Summed {
        out: &out,
        positive: &positive,
        share: &share,
    };
    cx.backend
        .attention_destinations(SLOPE, g, sums, &mut c, &mut der);
    drop((out, positive, share));
    let saved = Attended {
        from: Projected {
            z: &z,
            el: &el,
            er: &er,
        },
        lse: &lse,
        c: &c,
        g,
    };
    let mut dz = fresh(cx, n_src, width);
    let mut del = fresh(cx, n_src, h);
    let mut of_vectors = (fresh(cx, h, width / h), fresh(cx, h, width / h));
    let mut remote_src = None;
    if n < n_src {
        let to = SourceGradients {
            dz: &mut dz,
            del: &mut del,
        };
        cx.backend.attention_sources(t, n..n_src, att, saved, to);
        remote_src = Some(finish_remote(cx, &z, src, &del, n, &mut dz));
    }
    edges.push(cx, at, &mut dz, &mut |cx, dz| {
        in_pieces(cx, t, 0..n, |cx, rows| {
            let to = SourceGradients {
                dz: &mut *dz,
                del: &mut del,
            };
            cx.backend.attention_sources(t, rows, att, saved, to);
        })?;
        finish_own(cx, &z, (src, dst), (&del, &der), &mut of_vectors, dz);
        Ok(())
    })?;
    if let Some(remote) = remote_src {
        cx.backend.axpby(1.0, &remote, 1.0, &mut of_vectors.0);
    }
    Ok(Gradients {
        dz: if n == n_src || edges.all_here() {
            dz
        } else {
            dz.truncate(n)
        },
        vectors: of_vectors,
    })
}

/// Completes this rank's rows of `dz` with what their scores give, and writes the gradient of the
/// attention vectors as far as these rows go.
fn finish_own(
    cx: &Ctx,
    z: &Mat,
    (src, dst): (&Mat, &Mat),
    (del, der): (&Mat, &Mat),
    (d_src, d_dst): &mut (Mat, Mat),
    dz: &mut Mat,
) {
    let n = der.nrows();
    let local;
    let own = if n == del.nrows() {
        del
    } else {
        local = cx.backend.rows(del, 0..n);
        &local
    };
    let mut terms = [
        ScoreTerm {
            ds: own,
            a: src,
            da: d_src,
        },
        ScoreTerm {
            ds: der,
            a: dst,
            da: d_dst,
        },
    ];
    cx.backend.score_backward(z, &mut terms, dz);
}

/// Completes the remote rows of `dz` with what their scores give, and returns that part of the
/// gradient of the sources' attention vectors.
fn finish_remote(cx: &Ctx, z: &Mat, src: &Mat, del: &Mat, n: usize, dz: &mut Mat) -> Mat {
    let backend = &cx.backend;
    let remote = |x: &Mat| backend.rows(x, n..x.nrows());
    let (z, mut some, del) = (remote(z), remote(dz), remote(del));
    let mut da = backend.fresh(src.nrows(), src.ncols());
    let mut terms = [ScoreTerm {
        ds: &del,
        a: src,
        da: &mut da,
    }];
    backend.score_backward(&z, &mut terms, &mut some);
    backend.copy_rows(&some, 0, some.nrows(), dz, n);
    da
}
