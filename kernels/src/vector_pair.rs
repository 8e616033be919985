//! The vector of every x86-64 processor: eight lanes in two vectors of SSE2, bit by bit what plain code gives.
//!
//! Masks, of which it has no instruction, are calls, so that they are compiled once.
//!
//! Unsafe: loads and stores through pointers, as [`crate::vector`] says.
#![allow(unsafe_code)]

use crate::vector::Vector;
use std::arch::x86_64::*;

/// Calls intrinsics that read nothing but their arguments.
macro_rules! sse2 {
    ($call:expr) => {
        // SAFETY: SSE2 is part of every x86-64.
        unsafe { $call }
    };
}

/// Lanes 0 to 3 and 4 to 7.
#[derive(Clone, Copy)]
pub(crate) struct Pair(__m128, __m128);

impl Pair {
    #[inline(always)]
    fn of(v: [f32; 8]) -> Self {
        // SAFETY: an array of eight numbers.
        unsafe { Self::load(v.as_ptr()) }
    }

    #[inline(always)]
    fn array(self) -> [f32; 8] {
        let mut v = [0.0; 8];
        // SAFETY: an array of eight numbers.
        unsafe { self.store(v.as_mut_ptr()) }
        v
    }

    #[inline(always)]
    fn both(self, b: Self, f: impl Fn(__m128, __m128) -> __m128) -> Self {
        Pair(f(self.0, b.0), f(self.1, b.1))
    }
}

/// `n` numbers at `p`, then zeros.
///
/// # Safety
/// `p` can be read for `n <= 8` numbers.
#[inline(never)]
unsafe fn first<T: Copy>(p: *const T, n: usize, zero: T) -> [T; 8] {
    let mut v = [zero; 8];
    for (k, v) in v.iter_mut().enumerate().take(n) {
        // SAFETY: `k < n`; the rest is the caller's.
        *v = unsafe { *p.add(k) };
    }
    v
}

/// Stores the first `n` numbers of `v` at `p`.
///
/// # Safety
/// `p` can be written for `n` numbers.
#[inline(never)]
unsafe fn store_first(v: &[f32; 8], p: *mut f32, n: usize) {
    for (k, &v) in v.iter().enumerate().take(n) {
        // SAFETY: `k < n`; the rest is the caller's.
        unsafe { *p.add(k) = v }
    }
}

impl Vector for Pair {
    const LANES: usize = 8;
    const TILE: usize = 8;
    type Mask = usize;
    type Lanes = [u8; 8];

    #[inline(always)]
    unsafe fn mask(n: usize) -> usize {
        n
    }
    #[inline(always)]
    unsafe fn lanes(of: [u32; 16]) -> [u8; 8] {
        std::array::from_fn(|lane| of[lane] as u8 & 7)
    }
    #[inline(always)]
    fn pick(self, from: [u8; 8]) -> Self {
        let v = self.array();
        Self::of(from.map(|lane| v[usize::from(lane & 7)]))
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Pair(sse2!(_mm_set1_ps(x)), sse2!(_mm_set1_ps(x)))
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller's pointer is valid for eight numbers.
        unsafe { Pair(_mm_loadu_ps(p), _mm_loadu_ps(p.add(4))) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> Self {
        // SAFETY: the caller's pointer is valid for `n` numbers.
        unsafe {
            match n {
                8 => Self::load(p),
                _ => Self::of(first(p, n, 0.0)),
            }
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const half::bf16) -> Self {
        // SAFETY: the caller's pointer is valid for eight numbers of 16 bits.
        let v = unsafe { _mm_loadu_si128(p.cast()) };
        let zero = sse2!(_mm_setzero_si128());
        Pair(
            sse2!(_mm_castsi128_ps(_mm_unpacklo_epi16(zero, v))),
            sse2!(_mm_castsi128_ps(_mm_unpackhi_epi16(zero, v))),
        )
    }
    #[inline(always)]
    unsafe fn load_first_bf16(p: *const half::bf16, n: usize) -> Self {
        // SAFETY: the caller's pointer is valid for `n` numbers, the array for eight.
        unsafe { Self::load_bf16(first(p, n, half::bf16::ZERO).as_ptr()) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: as for `load`.
        unsafe {
            _mm_storeu_ps(p, self.0);
            _mm_storeu_ps(p.add(4), self.1);
        }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, n: usize) {
        // SAFETY: the caller's pointer is valid for `n` numbers.
        unsafe {
            match n {
                8 => self.store(p),
                _ => store_first(&self.array(), p, n),
            }
        }
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        self.mul(b).add(c)
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.both(b, |a, b| sse2!(_mm_mul_ps(a, b)))
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.both(b, |a, b| sse2!(_mm_add_ps(a, b)))
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        self.both(b, |a, b| sse2!(_mm_sub_ps(a, b)))
    }
    #[inline(always)]
    fn over(self, b: Self) -> Self {
        self.both(b, |a, b| sse2!(_mm_div_ps(a, b)))
    }
    #[inline(always)]
    fn larger(self, b: Self) -> Self {
        // Of two that do not compare, the second.
        self.both(b, |a, b| sse2!(_mm_max_ps(b, a)))
    }
    #[inline(always)]
    fn choose(self, positive: Self, other: Self) -> Self {
        let of = |v, positive, other| {
            let is = sse2!(_mm_cmpgt_ps(v, _mm_setzero_ps()));
            sse2!(_mm_or_ps(
                _mm_and_ps(is, positive),
                _mm_andnot_ps(is, other)
            ))
        };
        Pair(
            of(self.0, positive.0, other.0),
            of(self.1, positive.1, other.1),
        )
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        let v = sse2!(_mm_add_ps(self.0, self.1));
        let v = sse2!(_mm_add_ps(v, _mm_movehl_ps(v, v)));
        sse2!(_mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps::<0b01>(v, v))))
    }
}
