//! The vectors of x86-64: 8 lanes of AVX2 and 16 of AVX-512.
//!
//! Unsafe: intrinsics, as [`crate::vector`] says.
#![allow(unsafe_code)]

use crate::vector::{Vector, each_sum};
use std::arch::x86_64::*;

// SAFETY (every block of this module): the caller runs inside `at_level`, or holds a vector
// that was made there, so the processor has the features; pointers as the trait demands.

/// The methods that are one intrinsic each, by the names of those of a width; `bf16` widens loaded
/// 16-bit numbers to 32 bits, shifts them up and takes the bits as `f32`.
macro_rules! one_intrinsic_each {
    (
        $splat:ident, $load:ident, $store:ident, $mul_add:ident, $mul:ident, $add:ident, $sub:ident, $div:ident, $max:ident,
        bf16: $load_half:ident, $widen:ident, $shift:ident, $as_f32:ident
    ) => {
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: see the head of the module.
            unsafe { $splat(x) }
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self {
            // SAFETY: see the head of the module.
            unsafe { $load(p) }
        }
        #[inline(always)]
        unsafe fn load_bf16(p: *const half::bf16) -> Self {
            // SAFETY: see the head of the module.
            unsafe { $as_f32($shift::<16>($widen($load_half(p.cast())))) }
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut f32) {
            // SAFETY: see the head of the module.
            unsafe { $store(p, self) }
        }
        #[inline(always)]
        fn mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: see the head of the module.
            unsafe { $mul_add(self, b, c) }
        }
        #[inline(always)]
        fn mul(self, b: Self) -> Self {
            // SAFETY: see the head of the module.
            unsafe { $mul(self, b) }
        }
        #[inline(always)]
        fn add(self, b: Self) -> Self {
            // SAFETY: see the head of the module.
            unsafe { $add(self, b) }
        }
        #[inline(always)]
        fn sub(self, b: Self) -> Self {
            // SAFETY: see the head of the module.
            unsafe { $sub(self, b) }
        }
        #[inline(always)]
        fn over(self, b: Self) -> Self {
            // SAFETY: see the head of the module.
            unsafe { $div(self, b) }
        }
        #[inline(always)]
        fn larger(self, b: Self) -> Self {
            // SAFETY: see the head of the module; of two that do not compare, the second.
            unsafe { $max(b, self) }
        }
    };
}

/// Stores the first lanes, those of the mask: in halves, since AMD's processors take some forty operations for
/// a masked store of eight lanes.
///
/// # Safety
/// The processor has AVX2; `p` can be written for the lanes of the mask, which are the first ones.
#[inline(always)]
unsafe fn store_first(v: __m256, p: *mut f32, m: __m256i) {
    // SAFETY: passed on to the caller; each step writes as many lanes as the mask still has.
    unsafe {
        let n = (_mm256_movemask_ps(_mm256_castsi256_ps(m)) as u32).count_ones();
        if n == 8 {
            return _mm256_storeu_ps(p, v);
        }
        let (mut part, mut p) = (_mm256_castps256_ps128(v), p);
        if n & 4 != 0 {
            _mm_storeu_ps(p, part);
            (part, p) = (_mm256_extractf128_ps::<1>(v), p.add(4));
        }
        if n & 2 != 0 {
            _mm_storel_pd(p.cast(), _mm_castps_pd(part));
            (part, p) = (_mm_movehl_ps(part, part), p.add(2));
        }
        if n & 1 != 0 {
            _mm_store_ss(p, part);
        }
    }
}

/// The sum of each of eight vectors.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn eight_sums(v: [__m256; 8]) -> __m256 {
    // SAFETY: the features are the caller's.
    unsafe {
        let abcd = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
        let efgh = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
        let low = _mm256_permute2f128_ps::<0x20>(abcd, efgh);
        let high = _mm256_permute2f128_ps::<0x31>(abcd, efgh);
        _mm256_add_ps(low, high)
    }
}

impl Vector for __m256 {
    const LANES: usize = 8;
    const TILE: usize = 8;
    const BY_PIECES: bool = true;
    const BY_COLUMN: bool = true;
    type Mask = __m256i;
    type Lanes = __m256i;

    one_intrinsic_each!(
        _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps, _mm256_mul_ps, _mm256_add_ps,
        _mm256_sub_ps, _mm256_div_ps, _mm256_max_ps,
        bf16: _mm_loadu_si128, _mm256_cvtepu16_epi32, _mm256_slli_epi32, _mm256_castsi256_ps
    );

    #[inline(always)]
    unsafe fn mask(n: usize) -> __m256i {
        // SAFETY: see the head of the module.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lanes)
        }
    }
    #[inline(always)]
    unsafe fn lanes(of: [u32; 16]) -> __m256i {
        // SAFETY: see the head of the module; the array has more numbers.
        unsafe { _mm256_loadu_si256(of.as_ptr().cast()) }
    }
    #[inline(always)]
    fn pick(self, from: __m256i) -> Self {
        // SAFETY: see the head of the module.
        unsafe { _mm256_permutevar8x32_ps(self, from) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, m: __m256i) -> Self {
        // SAFETY: see the head of the module; masked lanes are not read.
        unsafe { _mm256_maskload_ps(p, m) }
    }
    #[inline(always)]
    unsafe fn load_half(p: *const f32, m: __m256i) -> Self {
        // SAFETY: see the head of the module; masked lanes are not read.
        unsafe { _mm256_zextps128_ps256(_mm_maskload_ps(p, _mm256_castsi256_si128(m))) }
    }
    #[inline(always)]
    unsafe fn load_twice(p: *const f32) -> Self {
        // SAFETY: see the head of the module; four numbers are read.
        unsafe { _mm256_broadcast_ps(&*p.cast()) }
    }
    #[inline(always)]
    unsafe fn load_first_bf16(p: *const half::bf16, m: __m256i) -> Self {
        // SAFETY: see the head of the module; AVX2 has no masked load of 16-bit numbers, so
        // exactly the lanes of the mask are copied first.
        unsafe {
            let n = (_mm256_movemask_ps(_mm256_castsi256_ps(m)) as u32).count_ones();
            let mut part = [half::bf16::ZERO; 8];
            std::ptr::copy_nonoverlapping(p, part.as_mut_ptr(), n as usize);
            Self::load_bf16(part.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, m: __m256i) {
        // SAFETY: see the head of the module; masked lanes are not written.
        unsafe { store_first(self, p, m) }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: see the head of the module.
        unsafe {
            let v = _mm_add_ps(
                _mm256_castps256_ps128(self),
                _mm256_extractf128_ps::<1>(self),
            );
            let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps::<1>(v, v)))
        }
    }
    #[inline(always)]
    fn sums<const G: usize>(v: [Self; G]) -> [f32; G] {
        if G != 8 {
            return each_sum(v);
        }
        let mut out = [0.0; G];
        // SAFETY: see the head of the module; `out` has eight numbers in this branch.
        unsafe {
            let sums = eight_sums([v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]]);
            _mm256_storeu_ps(out.as_mut_ptr(), sums);
        }
        out
    }
    #[inline(always)]
    fn choose(self, positive: Self, other: Self) -> Self {
        // SAFETY: see the head of the module.
        unsafe {
            let above = _mm256_cmp_ps::<_CMP_GT_OQ>(self, _mm256_setzero_ps());
            _mm256_blendv_ps(other, positive, above)
        }
    }
}

impl Vector for __m512 {
    const LANES: usize = 16;
    const TILE: usize = 16;
    type Mask = __mmask16;
    type Lanes = __m512i;

    one_intrinsic_each!(
        _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps, _mm512_mul_ps, _mm512_add_ps,
        _mm512_sub_ps, _mm512_div_ps, _mm512_max_ps,
        bf16: _mm256_loadu_si256, _mm512_cvtepu16_epi32, _mm512_slli_epi32, _mm512_castsi512_ps
    );

    #[inline(always)]
    unsafe fn mask(n: usize) -> __mmask16 {
        ((1u32 << n) - 1) as u16
    }
    #[inline(always)]
    unsafe fn lanes(of: [u32; 16]) -> __m512i {
        // SAFETY: see the head of the module; the array has as many numbers.
        unsafe { _mm512_loadu_si512(of.as_ptr().cast()) }
    }
    #[inline(always)]
    fn pick(self, from: __m512i) -> Self {
        // SAFETY: see the head of the module.
        unsafe { _mm512_permutexvar_ps(from, self) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, m: __mmask16) -> Self {
        // SAFETY: see the head of the module; masked lanes are not read.
        unsafe { _mm512_maskz_loadu_ps(m, p) }
    }
    #[inline(always)]
    unsafe fn load_half(p: *const f32, m: __mmask16) -> Self {
        // SAFETY: see the head of the module; masked lanes are not read.
        unsafe { _mm512_zextps256_ps512(_mm256_maskz_loadu_ps(m as __mmask8, p)) }
    }
    #[inline(always)]
    unsafe fn load_first_bf16(p: *const half::bf16, m: __mmask16) -> Self {
        // SAFETY: see the head of the module; masked lanes are not read.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, m: __mmask16) {
        // SAFETY: see the head of the module; masked lanes are not written.
        unsafe {
            match m {
                u16::MAX => _mm512_storeu_ps(p, self),
                0xff => _mm256_storeu_ps(p, _mm512_castps512_ps256(self)),
                _ => _mm512_mask_storeu_ps(p, m, self),
            }
        }
    }
    #[inline(always)]
    fn choose(self, positive: Self, other: Self) -> Self {
        // SAFETY: see the head of the module.
        unsafe {
            let above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self, _mm512_setzero_ps());
            _mm512_mask_blend_ps(above, other, positive)
        }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: see the head of the module.
        unsafe { _mm512_reduce_add_ps(self) }
    }
    #[inline(always)]
    fn sums<const G: usize>(v: [Self; G]) -> [f32; G] {
        if G != 8 {
            return each_sum(v);
        }
        let mut out = [0.0; G];
        // SAFETY: see the head of the module; `out` has eight numbers in this branch. Each
        // step adds two halves of two vectors and leaves both results in one: 8, 4, 2, 1.
        unsafe {
            let halves = |a, b| {
                _mm512_add_ps(
                    _mm512_shuffle_f32x4::<0x44>(a, b),
                    _mm512_shuffle_f32x4::<0xee>(a, b),
                )
            };
            let quarters = |a, b| {
                _mm512_add_ps(
                    _mm512_shuffle_f32x4::<0x88>(a, b),
                    _mm512_shuffle_f32x4::<0xdd>(a, b),
                )
            };
            let abcd = quarters(halves(v[0], v[1]), halves(v[2], v[3]));
            let efgh = quarters(halves(v[4], v[5]), halves(v[6], v[7]));
            let pairs = _mm512_add_ps(
                _mm512_shuffle_ps::<0x44>(abcd, efgh),
                _mm512_shuffle_ps::<0xee>(abcd, efgh),
            );
            let sums = _mm512_add_ps(pairs, _mm512_permute_ps::<0xb1>(pairs));
            let order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
            let sums = _mm512_permutexvar_ps(order, sums);
            _mm256_storeu_ps(out.as_mut_ptr(), _mm512_castps512_ps256(sums));
        }
        out
    }
}
