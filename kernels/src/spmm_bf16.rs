//! Aggregation of rows stored as bfloat16, summed in `f32`: half the bytes of the gather, with
//! 8 bits of precision in what is gathered. R-MAT 16, one thread: 0.6 of the time at widths 32 and
//! 128, 0.7 at 256; rounding costs a tenth of one aggregation ([`crate::spmm`] has the table).

use std::ops::Range;

pub use half::bf16;

use crate::simd::{Level, multiversion};
use crate::{Csr, Mat, Par, expect_eq, spmm};

/// Rounds to the nearest bfloat16, ties to even. `x` and `out` have one length.
///
/// # Panics
/// When the lengths disagree.
pub fn to_bf16(par: &Par, x: &[f32], out: &mut [bf16]) {
    expect_eq("to_bf16", "out with numbers", x.len(), out.len());
    par.rows_mut(out, 1, |first, out| {
        round(&x[first..first + out.len()], out)
    });
}

/// Back to `f32`, exactly. `x` and `out` have one length.
///
/// # Panics
/// When the lengths disagree.
pub fn from_bf16(par: &Par, x: &[bf16], out: &mut [f32]) {
    expect_eq("from_bf16", "out with numbers", x.len(), out.len());
    par.rows_mut(out, 1, |first, out| {
        for (o, x) in out.iter_mut().zip(&x[first..]) {
            *o = f32::from_bits(u32::from(x.to_bits()) << 16);
        }
    });
}

/// Rounds every element to the nearest bfloat16, ties to even.
pub fn round_in_place(par: &Par, x: &mut Mat) {
    let x = crate::flat_mut("round", x);
    par.rows_mut(x, 1, |_, x| {
        let mut block = [bf16::ZERO; 256];
        for x in x.chunks_mut(block.len()) {
            round(x, &mut block[..x.len()]);
            for (x, b) in x.iter_mut().zip(&block) {
                *x = b.to_f32();
            }
        }
    });
}

multiversion! {
    fn round(x: &[f32], out: &mut [bf16]) {
        for (o, &x) in out.iter_mut().zip(x) {
            let bits = x.to_bits();
            let even = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
            // A NaN must not be rounded to infinity.
            let value = if x.is_nan() { (bits >> 16) | 0x40 } else { even };
            *o = bf16::from_bits(value as u16);
        }
    }
}

/// [`spmm::spmm_into`] on rows stored as bfloat16. `a: [m, n]`, `x: [n, d]` row-major,
/// `out: [m, d]`.
///
/// # Panics
/// When the shapes disagree, `rows` exceeds `m`, or an index of `a` is not below `n`.
pub fn spmm_bf16_into(
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    x: &[bf16],
    d: usize,
    out: &mut Mat,
) {
    at(par, a, rows, spmm::Onto::Set, x, d, out);
}

/// [`spmm_bf16_into`] onto what is in `out`, which comes first in the order of summation.
///
/// # Panics
/// Like [`spmm_bf16_into`].
pub fn spmm_bf16_add_into(
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    x: &[bf16],
    d: usize,
    out: &mut Mat,
) {
    at(par, a, rows, spmm::Onto::Add, x, d, out);
}

fn at(
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    onto: spmm::Onto<'_>,
    x: &[bf16],
    d: usize,
    out: &mut Mat,
) {
    expect_eq("spmm_bf16", "numbers in x", a.n_cols * d, x.len());
    spmm::at_level(Level::detect(), par, a, rows, onto, ((a.n_cols, d), x), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csr::tests::any_csr;
    use crate::spmm::tests::{assert_close, matrix};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bf16_gathers_equal_naive_on_rounded_rows(
            a in any_csr(), d in prop_oneof![1usize..40, 100usize..300],
        ) {
            let x = matrix(a.n_cols, d, 1);
            let mut stored = vec![bf16::ZERO; x.len()];
            to_bf16(&Par::new(2), x.as_slice().expect("made here"), &mut stored);
            let mut rounded = Mat::zeros(x.dim());
            from_bf16(&Par::new(2), &stored, rounded.as_slice_mut().expect("made here"));
            let mut want = Mat::zeros((a.rows(), d));
            spmm::naive(a.view(), 0..a.rows(), &rounded, &mut want);
            for level in Level::available() {
                let mut got = Mat::zeros((a.rows(), d));
                let x = ((a.n_cols, d), &stored[..]);
                spmm::at_level(level, &Par::new(2), a.view(), 0..a.rows(), spmm::Onto::Set, x, &mut got);
                assert_close(&got, &want);
            }
        }
    }

    #[test]
    fn rounding_is_that_of_half() {
        let special = [
            f32::NAN,
            -f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            0.0,
            -0.0,
            1e-40,
            f32::MAX,
        ];
        let spread = (0..60_000u32).map(|k| f32::from_bits(k.wrapping_mul(0x9e37_79b9)));
        let x: Vec<f32> = special.into_iter().chain(spread).collect();
        let mut got = vec![bf16::ZERO; x.len()];
        to_bf16(&Par::new(3), &x, &mut got);
        for (x, got) in x.iter().zip(got) {
            let want = bf16::from_f32(*x);
            assert!(
                got.to_bits() == want.to_bits() || x.is_nan() && got.is_nan(),
                "{x}"
            );
        }
    }
}
