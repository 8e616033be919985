//! Block rows: every rank's rows go to everybody, one rank after the other.
//!
//! # Paper
//! Tripathy, Yelick & Buluç, "Reducing Communication in Graph Neural Network Training" (CAGNET),
//! SC 2020, the 1D algorithm, <https://arxiv.org/abs/2005.03300>.
//! # Idea
//! Rank `i` owns some rows of Â and of H. For each rank `j` in turn, `j` broadcasts `H_j` and every
//! rank adds `Â_ij · H_j` to its rows; backward does the same with Âᵀ. No list says who reads what:
//! a row travels also to ranks that have no use for it. The next block travels while the last one
//! is multiplied.
//! # Bytes
//! Each way and layer `4 · width · Σ_j (N − 1) · |V_j|`; the narrower side of the dense layer
//! travels. For links, the head's as well (`head/shares.rs`).
//! # Exact when
//! Always.

use super::full_graph::block_rows::{self, BlockRows};
use super::{Built, Entry, Exact, Knob, Setup};
use crate::backend::Mat;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Aggregate, At, ModelKind};
use crate::spec::Value;

impl Aggregate for BlockRows {
    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        self.exact(cx, at, x)
    }
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    block_rows::build(setup, cx, |_, parts| (parts.blocks, parts.aggregations))
}

/// Of every strategy of block rows.
pub(super) const OVERLAP: Knob = Knob {
    name: "overlap",
    default: "true",
    doc: "the next rank's rows travel while one's are multiplied, instead of after",
    check: |v| matches!(v, Value::Bool(_)),
};

const KNOBS: &[Knob] = &[OVERLAP];

/// Models whose aggregation has fixed weights.
pub(super) const FIXED_WEIGHTS: &[ModelKind] = &[
    ModelKind::Gcn,
    ModelKind::Sage,
    ModelKind::Gin,
    ModelKind::Gcnii,
    ModelKind::Resgcn,
];

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "broadcast",
    paper: "https://arxiv.org/abs/2005.03300",
    summary: "CAGNET 1D: block rows; every rank's rows go to everybody in turn",
    models: FIXED_WEIGHTS,
    knobs: KNOBS,
    exact: Exact::Always,
    resumes: true,
    build,
    ..Entry::BASE
};
