//! A vector in plain code, which the compiler vectorises: for processors that have no other one here.
//!
//! Unsafe: loads and stores through pointers, as [`crate::vector`] says.
#![allow(unsafe_code)]
// A lane is one index into several arrays.
#![allow(clippy::needless_range_loop)]

use crate::vector::Vector;

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
