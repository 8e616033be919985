//! What operations are asked for, as the kernels of the host take it.

use super::Mat;
use super::ops::{Act, Attention, Dropout, Product, Term, Then, Typed};
use kernels::{Csr, gat, linear, rspmm};

/// `f32` elements that somebody holds, or that were made for one call.
pub(super) enum Wide<'a> {
    Held(&'a kernels::Mat),
    Made(Mat),
}

impl std::ops::Deref for Wide<'_> {
    type Target = kernels::Mat;

    fn deref(&self) -> &kernels::Mat {
        match self {
            Wide::Held(x) => x,
            Wide::Made(x) => x.host(),
        }
    }
}

pub(super) fn on_host<'a>(term: &Term<'a>, a: &'a Wide<'_>) -> linear::Term<'a> {
    linear::Term {
        a,
        b: term.b.host(),
        ta: term.product == Product::LeftT,
        tb: term.product == Product::RightT,
    }
}

pub(super) fn steps(then: Then<'_>) -> linear::Then<'_> {
    let act = |act| match act {
        Act::None => linear::Act::None,
        Act::Relu => linear::Act::Relu,
        Act::Elu => linear::Act::Elu,
    };
    linear::Then {
        bias: then.bias.map(Mat::as_slice),
        act: act(then.act),
        dropout: then.dropout.map(Dropout::on_host),
        gate: then.gate.map(|g| match g.act {
            Act::Elu => linear::Gate::Elu {
                y: g.y.host(),
                scale: g.scale,
            },
            _ => linear::Gate::Relu {
                y: g.y.host(),
                scale: g.scale,
            },
        }),
    }
}

/// `att` for destinations `0..n_dst`.
pub(super) fn attention(att: Attention<'_>, n_dst: usize) -> gat::Attention<'_> {
    gat::Attention {
        heads: att.heads,
        slope: att.slope,
        dropout: att.dropout.map(|d| gat::AttentionDropout {
            key: d.key,
            p: d.p,
            dst_ids: &d.ids[..n_dst],
            src_ids: d.ids,
        }),
    }
}

pub(super) fn relations<'a>(edges: &Typed<'a>) -> (Csr<'a>, rspmm::Relations<'a>) {
    let (types, coef) = (&edges.types[..], edges.coef.host());
    (edges.a.view(), rspmm::Relations { types, coef })
}
