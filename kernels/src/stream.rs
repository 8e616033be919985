//! Copies of runs that are larger than caches, past these.
//!
//! A line that is stored through a cache is read before it is written. Stores past it are not: two lines move for
//! each that is copied, not three.
//!
//! # Measured
//! Copies to and from a device that is a part of the host's memory: `notebooks/measured/hongtu.md`.

#![allow(unsafe_code)] // stores past caches are intrinsics

use crate::par::Par;
use crate::simd::Level;

/// Elements from which on a run goes past caches; less is wanted there by whoever reads it next.
const LEAST: usize = 1 << 21;

/// Copies `from` to `to`, which are as long.
///
/// # Panics
/// When they are not.
pub fn copy_run(par: &Par, from: &[f32], to: &mut [f32]) {
    crate::expect_eq("copy_run", "to with elements", from.len(), to.len());
    let large = from.len() >= LEAST;
    par.rows_mut(to, 1, |first, to| {
        let from = &from[first..first + to.len()];
        match large {
            true => past_caches(Level::detect(), from, to),
            false => to.copy_from_slice(from),
        }
    });
}

/// Copies `from: [n]` to `to: [n]`; the processor supports `level`.
fn past_caches(level: Level, from: &[f32], to: &mut [f32]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if level >= Level::Avx2 {
        let before = to.as_ptr().align_offset(64).min(to.len());
        let (head, rest) = to.split_at_mut(before);
        head.copy_from_slice(&from[..before]);
        let (lines, tail) = rest.as_chunks_mut::<16>();
        let (read, last) = from[before..].as_chunks::<16>();
        tail.copy_from_slice(last);
        // SAFETY: the processor has AVX, by the level that was detected; `lines` begins where a line does.
        unsafe { stores(read, lines) };
        return;
    }
    let _ = level;
    to.copy_from_slice(from);
}

/// Stores lines past caches.
///
/// # Safety
/// The processor has AVX, and `to` is aligned to 64 bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx")]
unsafe fn stores(from: &[[f32; 16]], to: &mut [[f32; 16]]) {
    use std::arch::x86_64::{_mm_sfence, _mm256_loadu_ps, _mm256_stream_ps};
    for (to, from) in to.iter_mut().zip(from) {
        // SAFETY: both have 16 elements, and `to` is aligned to 64 bytes like the first, which lines follow.
        unsafe {
            let low = _mm256_loadu_ps(from.as_ptr());
            let high = _mm256_loadu_ps(from.as_ptr().add(8));
            _mm256_stream_ps(to.as_mut_ptr(), low);
            _mm256_stream_ps(to.as_mut_ptr().add(8), high);
        }
    }
    // Other threads read what was stored once they know that this one is done.
    _mm_sfence();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_element_is_copied_and_no_other(n in 0usize..200, skip in 0usize..20, behind in 0usize..20) {
            let from: Vec<f32> = (0..n).map(|k| k as f32).collect();
            for level in Level::available() {
                let mut to = vec![-1.0; skip + n + behind];
                past_caches(level, &from, &mut to[skip..skip + n]);
                prop_assert_eq!(&to[skip..skip + n], &from[..]);
                let others = to[..skip].iter().chain(&to[skip + n..]);
                prop_assert!(others.into_iter().all(|&x| x == -1.0));
            }
        }
    }

    #[test]
    fn runs_larger_than_caches_are_copied_by_any_number_of_threads() {
        let n = if cfg!(miri) { 100 } else { LEAST + 5 };
        let from: Vec<f32> = (0..n).map(|k| k as f32).collect();
        for threads in 1..4 {
            let mut to = vec![0.0; n];
            copy_run(&Par::new(threads), &from, &mut to);
            assert_eq!(to, from);
        }
    }
}
