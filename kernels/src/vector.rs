//! One short vector of `f32`: what the gather kernels are written in, once for all SIMD levels.
//!
//! A kernel is a generic `#[inline(always)]` function over [`Vector`], and [`at_level`] compiles
//! it for each level inside a function with that level's processor features. On aarch64 the plain
//! implementation is vectorised by the compiler (NEON is part of every aarch64).
//!
//! Arithmetic on a vector is safe: holding one proves that somebody made it, which only unsafe
//! constructors do. Multiplication and addition are fused where the level has that.
//!
//! Unsafe: intrinsics; loads and stores through pointers whose bounds the calling kernel checks.
#![allow(unsafe_code)]
// A lane is one index into several arrays.
#![allow(clippy::needless_range_loop)]

/// A vector of `LANES` numbers.
///
/// # Safety of all constructors, loads and stores
/// The caller runs inside [`at_level`], so the processor has the features of this type. Pointers
/// are valid for `LANES` elements, or for the `n` elements of the mask.
pub(crate) trait Vector: Copy {
    /// Numbers in one vector.
    const LANES: usize;
    /// Vectors of one accumulator tile: what fits into the registers beside a few temporaries.
    const TILE: usize;
    /// Selects the first lanes.
    type Mask: Copy;
    /// A number of a lane for every lane.
    type Lanes: Copy;

    /// The first `n` lanes, `1 <= n <= LANES`.
    unsafe fn mask(n: usize) -> Self::Mask;
    /// The first `LANES` numbers, each below `LANES`.
    unsafe fn lanes(of: [u32; 16]) -> Self::Lanes;
    /// `x` in every lane.
    unsafe fn splat(x: f32) -> Self;
    /// `LANES` numbers from `p`.
    unsafe fn load(p: *const f32) -> Self;
    /// The numbers of the mask from `p`, zeros in the other lanes.
    unsafe fn load_first(p: *const f32, m: Self::Mask) -> Self;
    /// [`Vector::load_first`] of a mask that is of the first half of the lanes; no more than half is read.
    #[inline(always)]
    unsafe fn load_half(p: *const f32, m: Self::Mask) -> Self {
        // SAFETY: passed on to the caller.
        unsafe { Self::load_first(p, m) }
    }
    /// [`Vector::load`] from 16-bit numbers (bfloat16).
    unsafe fn load_bf16(p: *const half::bf16) -> Self;
    /// [`Vector::load_first`] from 16-bit numbers.
    unsafe fn load_first_bf16(p: *const half::bf16, m: Self::Mask) -> Self;
    /// Stores `LANES` numbers.
    unsafe fn store(self, p: *mut f32);
    /// Stores the lanes of the mask.
    unsafe fn store_first(self, p: *mut f32, m: Self::Mask);
    /// `self * b + c`.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// `self * b`.
    fn mul(self, b: Self) -> Self;
    /// `self + b`.
    fn add(self, b: Self) -> Self;
    /// `self - b`.
    fn sub(self, b: Self) -> Self;
    /// `self / b`.
    fn over(self, b: Self) -> Self;
    /// `b` where it is larger, `self` elsewhere.
    fn larger(self, b: Self) -> Self;
    /// `positive` where `self` is, `other` elsewhere.
    fn choose(self, positive: Self, other: Self) -> Self;
    /// In each lane what is in the lane of that number.
    fn pick(self, from: Self::Lanes) -> Self;
    /// The sum of the lanes, pairwise.
    fn sum(self) -> f32;
    /// The sums of `G` vectors.
    #[inline(always)]
    fn sums<const G: usize>(v: [Self; G]) -> [f32; G] {
        each_sum(v)
    }
}

/// The sum of each vector on its own.
#[inline(always)]
pub(crate) fn each_sum<V: Vector, const G: usize>(v: [V; G]) -> [f32; G] {
    let mut out = [0.0; G];
    for (out, v) in out.iter_mut().zip(v) {
        *out = v.sum();
    }
    out
}

/// Asks for the line at `p` early. Any address is allowed.
#[inline(always)]
pub fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// Eight lanes in plain code.
#[derive(Clone, Copy)]
pub(crate) struct Plain([f32; 8]);

impl Vector for Plain {
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
        Plain(from.map(|lane| self.0[usize::from(lane & 7)]))
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Plain([x; 8])
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller's pointer is valid for eight numbers; arrays of f32 need no more
        // alignment than f32.
        Plain(unsafe { p.cast::<[f32; 8]>().read() })
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> Self {
        if n == 8 {
            // SAFETY: as for `load`.
            return unsafe { Self::load(p) };
        }
        let mut v = [0.0; 8];
        for (k, v) in v.iter_mut().enumerate().take(n) {
            // SAFETY: `k < n`, and the caller's pointer is valid for `n` numbers.
            *v = unsafe { *p.add(k) };
        }
        Plain(v)
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const half::bf16) -> Self {
        // SAFETY: as for `load`.
        let v = unsafe { p.cast::<[u16; 8]>().read() };
        Plain(v.map(|b| f32::from_bits(u32::from(b) << 16)))
    }
    #[inline(always)]
    unsafe fn load_first_bf16(p: *const half::bf16, n: usize) -> Self {
        let mut v = [0.0; 8];
        for (k, v) in v.iter_mut().enumerate().take(n) {
            // SAFETY: `k < n`, and the caller's pointer is valid for `n` numbers.
            *v = f32::from_bits(u32::from(unsafe { *p.add(k) }.to_bits()) << 16);
        }
        Plain(v)
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: as for `load`.
        unsafe { p.cast::<[f32; 8]>().write(self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, n: usize) {
        for (k, &v) in self.0.iter().enumerate().take(n) {
            // SAFETY: `k < n`, and the caller's pointer is valid for `n` numbers.
            unsafe { *p.add(k) = v }
        }
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        let mut v = c.0;
        for k in 0..8 {
            v[k] = if cfg!(target_arch = "aarch64") {
                self.0[k].mul_add(b.0[k], v[k])
            } else {
                self.0[k] * b.0[k] + v[k]
            };
        }
        Plain(v)
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        let mut v = self.0;
        for k in 0..8 {
            v[k] *= b.0[k];
        }
        Plain(v)
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        let mut v = self.0;
        for k in 0..8 {
            v[k] += b.0[k];
        }
        Plain(v)
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        Plain(std::array::from_fn(|k| self.0[k] - b.0[k]))
    }
    #[inline(always)]
    fn over(self, b: Self) -> Self {
        Plain(std::array::from_fn(|k| self.0[k] / b.0[k]))
    }
    #[inline(always)]
    fn larger(self, b: Self) -> Self {
        Plain(std::array::from_fn(|k| {
            if b.0[k] > self.0[k] {
                b.0[k]
            } else {
                self.0[k]
            }
        }))
    }
    #[inline(always)]
    fn choose(self, positive: Self, other: Self) -> Self {
        Plain(std::array::from_fn(|k| {
            if self.0[k] > 0.0 {
                positive.0[k]
            } else {
                other.0[k]
            }
        }))
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        let v = self.0;
        ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
    }
}

/// Calls `$f::<V>` with the variables of these names, for the vector of a level, compiled with the
/// level's features. The level must be one that `Level::detect` or `Level::available` returned.
macro_rules! at_level {
    ($level:expr, $f:ident($($arg:ident: $ty:ty),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
        #[allow(clippy::too_many_arguments)]
        fn avx512($($arg: $ty),*) {
            $f::<std::arch::x86_64::__m512>($($arg),*)
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        #[allow(clippy::too_many_arguments)]
        fn avx2($($arg: $ty),*) {
            $f::<std::arch::x86_64::__m256>($($arg),*)
        }
        #[allow(unsafe_code)]
        let () = match $level {
            // SAFETY: callers pass a level that `Level::detect` or `Level::available` returned.
            #[cfg(target_arch = "x86_64")]
            $crate::simd::Level::Avx512 => unsafe { avx512($($arg),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            $crate::simd::Level::Avx2 => unsafe { avx2($($arg),*) },
            _ => $f::<$crate::vector::Plain>($($arg),*),
        };
    }};
}
pub(crate) use at_level;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Level;

    #[inline(always)]
    fn exercise<V: Vector>(x: &[f32], ok: &mut bool) {
        let mut out = vec![7.0f32; 16];
        for n in 1..=V::LANES {
            // SAFETY: `x` and `out` have 64 and 16 numbers, more than any vector.
            unsafe {
                let m = V::mask(n);
                let v = V::load_first(x.as_ptr(), m);
                let want: f32 = x[..n].iter().sum();
                *ok &= (v.sum() - want).abs() < 1e-4;
                if 2 * n <= V::LANES {
                    *ok &= (V::load_half(x.as_ptr(), m).sum() - want).abs() < 1e-4;
                }
                let b: Vec<half::bf16> = x.iter().map(|&x| half::bf16::from_f32(x)).collect();
                V::load_first_bf16(b.as_ptr(), m).store_first(out.as_mut_ptr(), m);
                for k in 0..n {
                    *ok &= out[k] == b[k].to_f32();
                }
                *ok &= V::load_bf16(b.as_ptr()).sum() == V::load(x.as_ptr()).sum();
            }
        }
        // SAFETY: `x` has 64 numbers, and every number of a lane is below `LANES`.
        unsafe {
            let from = V::lanes(std::array::from_fn(|lane| (lane / 3) as u32));
            V::load(x.as_ptr()).pick(from).store(out.as_mut_ptr());
        }
        for lane in 0..V::LANES {
            *ok &= out[lane] == x[lane / 3];
        }
        // SAFETY: eight vectors of at most 16 numbers start at offsets up to 48.
        let v: [V; 8] = std::array::from_fn(|k| unsafe { V::load(x.as_ptr().add(6 * k)) });
        for (k, sum) in V::sums(v).into_iter().enumerate() {
            *ok &= (sum - x[6 * k..6 * k + V::LANES].iter().sum::<f32>()).abs() < 1e-3;
        }
        // SAFETY: 16 numbers from 0 and from 5 on.
        let (a, b, two) = unsafe {
            (
                V::load(x.as_ptr()),
                V::load(x.as_ptr().add(5)),
                V::splat(2.0),
            )
        };
        let (less, larger) = (a.sub(b), a.larger(b));
        let chosen = less.choose(two, less);
        for (v, want) in [
            (less, (|a, b| a - b) as fn(f32, f32) -> f32),
            (larger, f32::max),
            (chosen, |a, b| if a > b { 2.0 } else { a - b }),
            (a.over(b.add(two)), |a, b| a / (b + 2.0)),
        ] {
            // SAFETY: `out` has 16 numbers.
            unsafe { v.store(out.as_mut_ptr()) }
            for lane in 0..V::LANES {
                *ok &= out[lane] == want(x[lane], x[lane + 5]);
            }
        }
    }

    #[test]
    fn masks_sums_and_selection_are_right_at_every_level() {
        let x: Vec<f32> = (0..64).map(|k| ((k * 37) % 11) as f32 * 0.5).collect();
        for level in Level::available() {
            let mut right = true;
            let (x, ok) = (&x[..], &mut right);
            at_level!(level, exercise(x: &[f32], ok: &mut bool));
            assert!(right, "{level:?}");
        }
    }
}
