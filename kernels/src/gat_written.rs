//! Coefficients that are in memory already, by an exponential for each edge (`gat_scores`), as terms of a sum.
//!
//! Unsafe: loads through pointers, behind checks in `gat_sum`.
#![allow(unsafe_code)]

use crate::gat_layout::of_heads;
use crate::gat_pieces::Coefficients;
use crate::gat_sum::{Term, Terms};
use crate::vector::Vector;

/// Coefficients that have been written: `[edges, heads]`.
#[derive(Clone, Copy)]
pub(crate) struct Written<'a> {
    pub(crate) row: &'a [f32],
    /// Zero where the score is not positive; none where nobody asks.
    pub(crate) positive: &'a [f32],
    pub(crate) heads: usize,
}

impl<V: Vector> Terms<V> for Written<'_> {
    type Own = ();
    const TOTALS: bool = false;

    fn check(&self, heads: usize, _rows: usize, edges: usize) {
        assert!(self.heads == heads && self.row.len() >= edges * heads);
        assert!(self.positive.is_empty() || self.positive.len() >= edges * heads);
    }

    #[inline(always)]
    unsafe fn own<const HEADS: u8>(&self, _head: usize, _mask: V::Mask) {}

    #[inline(always)]
    unsafe fn term<const HEADS: u8>(
        &self,
        _own: &(),
        i: usize,
        _row: usize,
        head: usize,
        mask: V::Mask,
    ) -> Term<V> {
        let at = i * self.heads + head;
        // SAFETY: edge `i` has as many numbers as heads (`check`).
        unsafe {
            let zero = V::splat(0.0);
            let load = |of: &[f32]| match of.is_empty() {
                true => zero,
                false => of_heads::<V, HEADS>(of.as_ptr().add(at), mask),
            };
            Term {
                row: load(self.row),
                positive: load(self.positive),
                total: zero,
                total_positive: zero,
            }
        }
    }

    #[inline(always)]
    fn ask(&self, _row: usize) {}

    fn written(&self) -> Option<Coefficients<'_>> {
        Some(Coefficients {
            row: self.row,
            positive: self.positive,
            stride: self.heads,
        })
    }
}
