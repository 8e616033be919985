//! An `f32` as the sum of three bf16 numbers, laid out for AMX tiles.
//!
//! `x = x₀ + x₁ + x₂` exactly: `x₀` is `x` rounded to bf16, `x₁` the rest rounded, `x₂` what is then
//! left, which has at most eight bits. One operand of a step is `[part][tile][16 rows][16 words]`;
//! word `p` of a row holds the inner indices `p` and `16 + p`, so that pairing needs no shuffles.
//!
//! Unsafe: SIMD intrinsics and pointers; each function states what it needs.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512, __m512i, __mmask16, _mm512_add_epi32, _mm512_and_si512, _mm512_castps_si512,
    _mm512_castsi512_ps, _mm512_load_si512, _mm512_mask_blend_epi16, _mm512_maskz_loadu_ps,
    _mm512_set1_epi32, _mm512_setzero_si512, _mm512_shuffle_i32x4, _mm512_srli_epi32,
    _mm512_store_si512, _mm512_sub_ps, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use crate::amx::TILE;

/// Words between the parts of a tile.
const PART: usize = 2 * TILE;

/// The first `n` lanes.
pub(crate) fn lanes(n: usize) -> __mmask16 {
    if n >= 16 { !0 } else { (1 << n) - 1 }
}

/// Words of two bf16 numbers each: the upper halves of `low`, then of `high`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pair(low: __m512i, high: __m512i) -> __m512i {
    _mm512_mask_blend_epi16(0xaaaa_aaaa, _mm512_srli_epi32::<16>(low), high)
}

/// A number whose upper half is `x` rounded to bf16, and the rest.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn round(x: __m512) -> (__m512i, __m512) {
    let rounded = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
    let part = _mm512_and_si512(rounded, _mm512_set1_epi32(0xffff_0000_u32 as i32));
    (rounded, _mm512_sub_ps(x, _mm512_castsi512_ps(part)))
}

/// The three parts of two vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn parts(low: __m512, high: __m512) -> [__m512i; 3] {
    let ((low0, low), (high0, high)) = (round(low), round(high));
    let ((low1, low), (high1, high)) = (round(low), round(high));
    [
        pair(low0, high0),
        pair(low1, high1),
        pair(_mm512_castps_si512(low), _mm512_castps_si512(high)),
    ]
}

/// Splits up to 32 neighbouring floats, the inner indices of one row of the left operand, and
/// zeros behind them, into row 0 of the tile at `to`.
///
/// # Safety
/// The processor has AVX-512; `to` is aligned to 64 bytes and reaches the three parts.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn row(from: &[f32], to: *mut u32) {
    let (low, high) = (lanes(from.len()), lanes(from.len().saturating_sub(16)));
    // SAFETY: masked loads read the floats of the slice only; the caller's tile.
    unsafe {
        let low = _mm512_maskz_loadu_ps(low, from.as_ptr());
        let high = _mm512_maskz_loadu_ps(high, from.as_ptr().wrapping_add(16));
        for (k, words) in parts(low, high).into_iter().enumerate() {
            _mm512_store_si512(to.add(k * PART).cast(), words);
        }
    }
}

/// Splits up to 32 rows, `stride` apart, of up to 16 floats each, and zeros behind them, into the
/// tile at `to`: the right operand, row `p` of the tile from the rows `p` and `16 + p`.
///
/// # Safety
/// The processor has AVX-512; `from` reaches `rows` rows of `cols` floats; `to` is aligned to 64
/// bytes and reaches the three parts.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn block(
    from: *const f32,
    stride: usize,
    [rows, cols]: [usize; 2],
    to: *mut u32,
) {
    // SAFETY: rows that are missing are read with an empty mask; the caller's block and tile.
    unsafe {
        let load = |r: usize| {
            let mask = if r < rows { lanes(cols) } else { 0 };
            _mm512_maskz_loadu_ps(mask, from.wrapping_add(r * stride))
        };
        for p in 0..16 {
            for (k, words) in parts(load(p), load(16 + p)).into_iter().enumerate() {
                _mm512_store_si512(to.add(k * PART + p * 16).cast(), words);
            }
        }
    }
}

/// Transposes the three parts of the tile at `at`: a right operand becomes a left one.
///
/// # Safety
/// The processor has AVX-512; `at` is aligned to 64 bytes and reaches the three parts.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn transpose(at: *mut u32) {
    for k in 0..3 {
        // SAFETY: the caller's tile.
        unsafe { transpose_part(at.add(k * PART)) };
    }
}

/// Transposes 16 by 16 words.
///
/// # Safety
/// As [`transpose`], for one part.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn transpose_part(at: *mut u32) {
    let mut x = [_mm512_setzero_si512(); 16];
    for (r, x) in x.iter_mut().enumerate() {
        // SAFETY: row `r` of the caller's tile.
        *x = unsafe { _mm512_load_si512(at.add(16 * r).cast()) };
    }
    let mut y = x;
    for i in (0..16).step_by(2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    for i in (0..16).step_by(4) {
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    for i in 0..4 {
        for half in [0, 8] {
            y[half + i] = _mm512_shuffle_i32x4::<0x88>(x[half + i], x[half + i + 4]);
            y[half + i + 4] = _mm512_shuffle_i32x4::<0xdd>(x[half + i], x[half + i + 4]);
        }
    }
    for i in 0..8 {
        x[i] = _mm512_shuffle_i32x4::<0x88>(y[i], y[i + 8]);
        x[i + 8] = _mm512_shuffle_i32x4::<0xdd>(y[i], y[i + 8]);
    }
    for (r, x) in x.iter().enumerate() {
        // SAFETY: as above.
        unsafe { _mm512_store_si512(at.add(16 * r).cast(), *x) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Level;

    #[repr(align(64))]
    struct Tile([u32; 3 * PART]);

    /// The number that the parts of a half word sum to.
    fn sum(tile: &Tile, word: usize, high: bool) -> f64 {
        (0..3)
            .map(|k| {
                let word = tile.0[k * PART + word];
                let bits = if high { word & 0xffff_0000 } else { word << 16 };
                f64::from(f32::from_bits(bits))
            })
            .sum()
    }

    fn number(k: usize) -> f32 {
        let h = crate::hash::element(7, k as u32);
        (h as f32 / 3e9 - 0.7) * [1.0, 1e-20, 3e30, 1e-3][k % 4]
    }

    #[test]
    fn three_parts_sum_to_the_number() {
        if Level::detect() != Level::Avx512 {
            eprintln!("skipped: no AVX-512");
            return;
        }
        let x: Vec<f32> = (0..32 * 16).map(number).collect();
        for n in [0, 1, 15, 16, 17, 31, 32] {
            let mut tile = Tile([1; 3 * PART]);
            // SAFETY: the processor has AVX-512; the tile is aligned and whole.
            unsafe { row(&x[..n], tile.0.as_mut_ptr()) };
            for (k, &x) in x.iter().enumerate().take(32) {
                let want = if k < n { f64::from(x) } else { 0.0 };
                assert_eq!(sum(&tile, k % 16, k >= 16), want, "{k} of {n}");
            }
        }
        for size in [[32, 16], [32, 3], [20, 16], [7, 1]] {
            let mut tile = Tile([1; 3 * PART]);
            let at = tile.0.as_mut_ptr();
            // SAFETY: as above; the block lies within 32 rows of 16.
            unsafe { block(x.as_ptr(), 16, size, at) };
            let value = |r: usize, c: usize| {
                let inside = r < size[0] && c < size[1];
                if inside {
                    f64::from(x[16 * r + c])
                } else {
                    0.0
                }
            };
            for (r, c) in (0..32).flat_map(|r| (0..16).map(move |c| (r, c))) {
                let got = sum(&tile, r % 16 * 16 + c, r >= 16);
                assert_eq!(got, value(r, c), "{r}, {c}");
            }
            // SAFETY: as above.
            unsafe { transpose(at) };
            for (r, c) in (0..32).flat_map(|r| (0..16).map(move |c| (r, c))) {
                let got = sum(&tile, c * 16 + r % 16, r >= 16);
                assert_eq!(got, value(r, c), "transposed: {r}, {c}");
            }
        }
    }
}
