//! Vectors of each SIMD level and the register tile of a dense product.
//!
//! A tile of `M` rows by `V` vectors of the output stays in registers while the inner dimension
//! runs: the left operand is read in place, element by element, the right one comes packed
//! ([`crate::gemm_block`]). An element of the output is one chain of multiply-adds in the order of
//! the inner dimension, whatever the tile it falls into, so cutting rows differently gives the
//! same bits.
//!
//! Unsafe: SIMD intrinsics and pointers; the callers' contracts are stated at each function.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256, __m256i, __m512, __mmask16, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_set1_ps, _mm256_setzero_ps,
    _mm256_storeu_ps, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};

use crate::gemm_ahead::{Ahead, EVERY};
use crate::vector::prefetch;

/// Floats of one SIMD register.
///
/// # Safety
/// Every function needs the processor features of its type; pointers must reach as many floats as
/// the vector has, or for masked ones as the mask has lanes.
pub(crate) trait Vector: Copy {
    /// Floats in one vector.
    const LANES: usize;
    /// Which of the first lanes take part.
    type Mask: Copy;
    /// All zeros.
    unsafe fn zero() -> Self;
    /// The first `n` lanes.
    unsafe fn mask(n: usize) -> Self::Mask;
    /// All lanes from memory.
    unsafe fn load(from: *const f32) -> Self;
    /// One number in all lanes.
    unsafe fn splat(x: f32) -> Self;
    /// `self · b + c`.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    /// Adds what is at `to` when asked, then stores the lanes of the mask there.
    unsafe fn put(self, to: *mut f32, mask: Self::Mask, add: bool);
    /// [`Vector::put`] of all lanes.
    unsafe fn put_all(self, to: *mut f32, add: bool);
}

#[cfg(target_arch = "x86_64")]
impl Vector for __m512 {
    const LANES: usize = 16;
    type Mask = __mmask16;
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX-512 (contract of the trait), here and below.
        unsafe { _mm512_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn mask(n: usize) -> __mmask16 {
        if n >= 16 { !0 } else { (1 << n) - 1 }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's pointer reaches 16 floats.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: as for `zero`.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: as for `zero`.
        unsafe { _mm512_fmadd_ps(self, b, c) }
    }
    #[inline(always)]
    unsafe fn put(self, to: *mut f32, mask: __mmask16, add: bool) {
        // SAFETY: only lanes of the mask are read and written, which the caller's pointer reaches.
        unsafe {
            let sum = if add {
                _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), self)
            } else {
                self
            };
            _mm512_mask_storeu_ps(to, mask, sum);
        }
    }
    #[inline(always)]
    unsafe fn put_all(self, to: *mut f32, add: bool) {
        // SAFETY: the caller's pointer reaches 16 floats.
        unsafe {
            let sum = if add {
                _mm512_add_ps(_mm512_loadu_ps(to), self)
            } else {
                self
            };
            _mm512_storeu_ps(to, sum);
        }
    }
}

/// Eight set words, then eight zeros: the mask of `n` lanes starts at `8 - n`.
#[cfg(target_arch = "x86_64")]
static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[cfg(target_arch = "x86_64")]
impl Vector for __m256 {
    const LANES: usize = 8;
    type Mask = __m256i;
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX2 and FMA (contract of the trait), here and below.
        unsafe { _mm256_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn mask(n: usize) -> __m256i {
        // SAFETY: eight words from an offset of at most 8 lie within the sixteen.
        unsafe { _mm256_loadu_si256(MASKS.as_ptr().add(8 - n.min(8)).cast()) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's pointer reaches 8 floats.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: as for `zero`.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: as for `zero`.
        unsafe { _mm256_fmadd_ps(self, b, c) }
    }
    #[inline(always)]
    unsafe fn put(self, to: *mut f32, mask: __m256i, add: bool) {
        // SAFETY: only lanes of the mask are read and written, which the caller's pointer reaches.
        unsafe {
            let sum = if add {
                _mm256_add_ps(_mm256_maskload_ps(to, mask), self)
            } else {
                self
            };
            _mm256_maskstore_ps(to, mask, sum);
        }
    }
    #[inline(always)]
    unsafe fn put_all(self, to: *mut f32, add: bool) {
        // SAFETY: the caller's pointer reaches 8 floats.
        unsafe {
            let sum = if add {
                _mm256_add_ps(_mm256_loadu_ps(to), self)
            } else {
                self
            };
            _mm256_storeu_ps(to, sum);
        }
    }
}

/// Four floats that the compiler keeps in one register of the base instruction set (SSE, NEON).
#[derive(Clone, Copy)]
pub(crate) struct Plain([f32; 4]);

impl Vector for Plain {
    const LANES: usize = 4;
    type Mask = usize;
    #[inline(always)]
    unsafe fn zero() -> Self {
        Plain([0.0; 4])
    }
    #[inline(always)]
    unsafe fn mask(n: usize) -> usize {
        n.min(4)
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's pointer reaches 4 floats; arrays of floats need no more alignment.
        Plain(unsafe { from.cast::<[f32; 4]>().read() })
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Plain([x; 4])
    }
    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        // NEON has the fused form; on x86-64 without AVX2 it would be a call of a function.
        let mut c = c;
        for ((c, a), b) in c.0.iter_mut().zip(self.0).zip(b.0) {
            *c = if cfg!(target_arch = "aarch64") {
                a.mul_add(b, *c)
            } else {
                a * b + *c
            };
        }
        c
    }
    #[inline(always)]
    unsafe fn put(self, to: *mut f32, mask: usize, add: bool) {
        for (l, x) in self.0.iter().enumerate().take(mask) {
            // SAFETY: lane `l` is below the mask, which the caller's pointer reaches.
            unsafe { *to.add(l) = if add { *to.add(l) + x } else { *x } }
        }
    }
    #[inline(always)]
    unsafe fn put_all(self, to: *mut f32, add: bool) {
        // SAFETY: the caller's pointer reaches 4 floats.
        unsafe { self.put(to, 4, add) }
    }
}

/// One product's operands for a tile.
#[derive(Clone, Copy)]
pub(crate) struct Operands {
    /// First element of the left operand's first row.
    pub a: *const f32,
    /// Distance between rows of the left operand or, when transposed, between its columns; the
    /// other distance is one. At most 12 rows.
    pub stride: usize,
    /// Whether the left operand is transposed.
    pub transposed: bool,
    /// Whether the left operand's next strip of rows lies behind this whole one.
    pub strips: bool,
    /// Packed columns of the right operand: `[inner, V · LANES]`.
    pub b: *const f32,
    /// Inner dimension.
    pub inner: usize,
}

impl Operands {
    /// Nothing: an inner dimension of zero.
    pub(crate) const NONE: Operands = Operands {
        a: std::ptr::null(),
        stride: 0,
        transposed: false,
        strips: false,
        b: std::ptr::null(),
        inner: 0,
    };
}

/// `out (+)= Σ a · b` for `M` rows and `V` vectors of columns, of which the first `cols` exist, all of them
/// where `WHOLE` says so: AMD's processors take some forty operations for a masked store of eight lanes. Two
/// ways in one function would take the sums out of their registers.
/// `out` has rows `stride` apart.
///
/// # Safety
/// The processor has the features of `S`. Each left operand reaches `M` rows of `inner` elements,
/// each right one `inner` times `V` vectors; `out` reaches `M` rows of the columns, and nothing
/// else accesses them meanwhile.
#[inline(always)]
pub(crate) unsafe fn tile<S: Vector, const M: usize, const V: usize, const WHOLE: bool>(
    operands: &[Operands],
    out: *mut f32,
    stride: usize,
    cols: usize,
    add: bool,
    ahead: &mut Ahead,
) {
    // SAFETY: rows `i < M`, vectors `v < V` and inner indices below `inner` are what the caller
    // vouches for.
    unsafe {
        if add && WHOLE {
            // What is added to is there when the sums are.
            for i in 0..M {
                for line in (0..V * S::LANES).step_by(16) {
                    prefetch(out.wrapping_add(i * stride + line));
                }
            }
        }
        let mut sums = [[S::zero(); V]; M];
        for o in operands {
            if o.transposed {
                run::<S, M, V, true>(o, &mut sums, ahead);
            } else {
                run::<S, M, V, false>(o, &mut sums, ahead);
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let to = out.wrapping_add(i * stride + v * S::LANES);
                if WHOLE {
                    sum.put_all(to, add);
                } else {
                    sum.put(to, S::mask(cols.saturating_sub(v * S::LANES)), add);
                }
            }
        }
    }
}

/// Adds one product to the sums of a tile.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn run<S: Vector, const M: usize, const V: usize, const T: bool>(
    o: &Operands,
    sums: &mut [[S; V]; M],
    ahead: &mut Ahead,
) {
    let row = if T { 1 } else { o.stride };
    // Every third row has a pointer of its own, its origin hidden from the compiler: the rows
    // between are within one address computation, where it would otherwise chain additions.
    let mut rows: [*const f32; 4] = std::array::from_fn(|i| o.a.wrapping_add(3 * i * row));
    if !T {
        rows = std::hint::black_box(rows);
    }
    let mut b = o.b;
    // SAFETY: `inner` steps, as promised to `tile`.
    unsafe {
        for _ in 0..o.inner / EVERY {
            ahead.step();
            for _ in 0..EVERY {
                step::<S, M, V, T>(&mut rows, &mut b, o.stride, sums);
            }
        }
        for _ in 0..o.inner % EVERY {
            step::<S, M, V, T>(&mut rows, &mut b, o.stride, sums);
        }
    }
}

/// One inner index: a column of the left operand times a row of the right one. Moves the pointers
/// to the next index, which may lie behind the operands.
///
/// # Safety
/// `rows` are rows 0, 3, 6 and 9 of the left operand as far as there are `M`, and the index lies
/// within the operands.
#[inline(always)]
unsafe fn step<S: Vector, const M: usize, const V: usize, const T: bool>(
    rows: &mut [*const f32; 4],
    b: &mut *const f32,
    stride: usize,
    sums: &mut [[S; V]; M],
) {
    let (row, next) = if T { (1, stride) } else { (stride, 1) };
    // SAFETY: all elements are of this index, which the caller vouches for.
    unsafe {
        let mut bs = [S::zero(); V];
        for (v, to) in bs.iter_mut().enumerate() {
            *to = S::load(b.wrapping_add(v * S::LANES));
        }
        for (i, sums) in sums.iter_mut().enumerate() {
            let x = S::splat(*rows[i / 3].wrapping_add(i % 3 * row));
            for (sum, b) in sums.iter_mut().zip(bs) {
                *sum = x.mul_add(b, *sum);
            }
        }
    }
    rows.iter_mut().for_each(|a| *a = a.wrapping_add(next));
    *b = b.wrapping_add(V * S::LANES);
}
