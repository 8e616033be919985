//! One short vector of `f32`: what the gather kernels are written in, once for all SIMD levels.
//!
//! A kernel is a generic `#[inline(always)]` function over [`Vector`], and [`at_level`] compiles
//! it for each level inside a function with that level's processor features. On aarch64 the plain
//! implementation is vectorised by the compiler (NEON is part of every aarch64); on x86-64 the same is
//! written in pairs of SSE2's vectors, which the compiler has less to do with (`notebooks/measured/kernels.md`).
//!
//! Arithmetic on a vector is safe: holding one proves that somebody made it, which only unsafe
//! constructors do. Multiplication and addition are fused where the level has that.
//!
//! Unsafe: intrinsics; loads and stores through pointers whose bounds the calling kernel checks.
#![allow(unsafe_code)]

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
    /// Whether wide rows of attention are summed piece by piece (`gat_pieces`).
    const BY_PIECES: bool = false;
    /// Whether narrow heads of attention are laid out by column (`gat_records`).
    const BY_COLUMN: bool = false;
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
    /// Half as many numbers as there are lanes from `p`, in either half of them.
    #[inline(always)]
    unsafe fn load_twice(p: *const f32) -> Self {
        let half = Self::LANES / 2;
        let mut both = [0.0; 16];
        // SAFETY: the pointer is valid for half of the lanes, of which there are at most 16.
        unsafe {
            for (lane, x) in both.iter_mut().enumerate().take(Self::LANES) {
                *x = *p.add(lane % half);
            }
            Self::load(both.as_ptr())
        }
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

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use crate::vector_pair::Pair as Least;
/// What every processor of this architecture has. (Miri has few intrinsics.)
#[cfg(any(not(target_arch = "x86_64"), miri))]
pub(crate) use crate::vector_plain::Plain as Least;

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
        // Once, however often the call is inlined.
        #[inline(never)]
        #[allow(clippy::too_many_arguments)]
        fn least($($arg: $ty),*) {
            $f::<$crate::vector::Least>($($arg),*)
        }
        #[allow(unsafe_code)]
        let () = match $level {
            // SAFETY: callers pass a level that `Level::detect` or `Level::available` returned.
            #[cfg(target_arch = "x86_64")]
            $crate::simd::Level::Avx512 => unsafe { avx512($($arg),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            $crate::simd::Level::Avx2 => unsafe { avx2($($arg),*) },
            _ => least($($arg),*),
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
                if 2 * n == V::LANES {
                    V::load_twice(x.as_ptr()).store(out.as_mut_ptr());
                    *ok &= out[..n] == x[..n] && out[n..2 * n] == x[..n];
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
        let mut right = true;
        exercise::<crate::vector_plain::Plain>(&x, &mut right);
        assert!(right, "plain code");
    }

    /// What a processor without AVX2 has gives the bits of plain code.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[test]
    fn pairs_are_plain_code() {
        use crate::vector_pair::Pair;
        use crate::vector_plain::Plain;

        fn bits<V: Vector>(x: &[f32]) -> Vec<u32> {
            let mut out = Vec::new();
            // SAFETY: offsets up to 8 of 64 numbers, arrays of eight.
            unsafe {
                for at in 0..=8 {
                    let p = x.as_ptr().add(at);
                    let (a, b, c) = (
                        V::load(p),
                        V::load(p.add(20)),
                        V::load_first(p.add(40), V::mask(5)),
                    );
                    let made = [
                        a.mul_add(b, c),
                        a.over(b),
                        b.sub(a).choose(c, a),
                        a.larger(b),
                        c.larger(a),
                    ];
                    for v in made {
                        let mut to = [0.0; 8];
                        v.store(to.as_mut_ptr());
                        out.extend(to.map(f32::to_bits));
                        out.push(v.sum().to_bits());
                    }
                }
            }
            out
        }
        let x: Vec<f32> = (0..64u32)
            .map(|k| match k {
                7 => f32::NAN,
                9 => -0.0,
                k => (k * 37 % 11) as f32 / 3.0 - 1.5,
            })
            .collect();
        assert_eq!(bits::<Pair>(&x), bits::<Plain>(&x));
    }
}
