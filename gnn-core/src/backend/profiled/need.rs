//! What an operation needs at least: bytes of its arguments and results, each counted once, and operations.

use super::{Gathered, Listed};
use crate::backend::{Mat, Product, Sparse, Term, Then, Write};
use std::ops::Range;

/// Bytes and operations.
pub(super) type Need = (f64, f64);

pub(super) fn bytes(x: &Mat) -> f64 {
    x.len() as f64 * x.element() as f64
}

/// Edges of some rows.
pub(super) fn edges(a: &Sparse, rows: &Range<usize>) -> f64 {
    let indptr = a.view().indptr;
    (indptr[rows.end] - indptr[rows.start]) as f64
}

/// Bytes of the lists of so many edges in some rows: a column, a value where there is one, and where rows start.
pub(super) fn lists(a: &Sparse, rows: &Range<usize>) -> f64 {
    let each = if a.view().weights.is_some() { 8.0 } else { 4.0 };
    each * edges(a, rows) + 8.0 * rows.len() as f64
}

/// The same for an aggregate, which needs no value an edge where a row or column has one for all.
pub(super) fn aggregated(a: &Sparse, rows: &Range<usize>) -> f64 {
    match a.factor() {
        Some(_) => 4.0 * edges(a, rows) + 12.0 * rows.len() as f64,
        None => lists(a, rows),
    }
}

/// Bytes of the rows of `x` that so many edges can read, each once.
pub(super) fn read(x: &Mat, edges: f64) -> f64 {
    bytes(x) * (edges / x.nrows().max(1) as f64).min(1.0)
}

/// Rows of so many columns along edges.
pub(super) fn along_edges(edges: f64, columns: usize) -> Gathered {
    Gathered {
        rows: edges,
        columns,
        list: Listed::Edges,
    }
}

/// Rows of `x`, one for each of so many elements of sparse features.
pub(super) fn by_feature(elements: f64, x: &Mat) -> Gathered {
    Gathered {
        rows: elements,
        columns: x.ncols(),
        list: Listed::Features,
    }
}

/// Bytes of some rows of `x`.
pub(super) fn of_rows(x: &Mat, rows: &Range<usize>) -> f64 {
    bytes(x) * rows.len() as f64 / x.nrows().max(1) as f64
}

/// A result, which is read first where something is added to it.
pub(super) fn written(out: f64, write: Write) -> f64 {
    match write {
        Write::Set => out,
        Write::Add => 2.0 * out,
    }
}

pub(super) fn after(then: &Then<'_>, out: &Mat) -> f64 {
    if then.gate.is_some() { bytes(out) } else { 0.0 }
}

/// Of products into a matrix of this shape.
pub(super) fn products(terms: &[Term<'_>], (rows, cols): (usize, usize)) -> Need {
    terms.iter().fold((0.0, 0.0), |(moved, flops), term| {
        let inner = match term.product {
            Product::LeftT => term.a.nrows(),
            _ => term.a.ncols(),
        };
        let own = 2.0 * rows as f64 * cols as f64 * inner as f64;
        (moved + bytes(term.a) + bytes(term.b), flops + own)
    })
}
