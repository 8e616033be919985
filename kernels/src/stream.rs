//! Copies of runs, and of scattered rows, to memory that is larger than caches, past these.
//!
//! A line that is stored through a cache is read before it is written. Stores past it are not: two lines move for
//! each that is copied, not three.
//!
//! # Measured
//! Copies to and from a device that is a part of the host's memory: `notebooks/measured/hongtu.md`.

#![allow(unsafe_code)] // stores past caches are intrinsics

use crate::par::{Par, split_rows};
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
            true => {
                past_caches(Level::detect(), from, to);
                stored();
            }
            false => to.copy_from_slice(from),
        }
    });
}

/// Elements below which one thread writes all rows.
const SMALL: usize = 1 << 14;

/// Rows that are asked for ahead of being copied.
const AHEAD: usize = 4;

/// Writes `to[line, :] = from[row, :]` for each `(line, row)` of `jobs`, one after the other where a line is
/// named again. `from: [m, width]`, `to: [n, width]`.
///
/// # Panics
/// For lines and rows that there are not.
pub fn put_rows(par: &Par, from: &[f32], width: usize, jobs: &[(u32, u32)], to: &mut [f32]) {
    if width == 0 {
        return;
    }
    let past = (to.len() >= LEAST).then(Level::detect);
    let to = Lines {
        first: to.as_mut_ptr(),
        width,
        count: to.len() / width,
    };
    let small = par.threads() == 1 || jobs.len() * width < SMALL;
    if small || !are_distinct(jobs, to.count) {
        // SAFETY: nobody else writes.
        return unsafe { to.put(past, from, jobs) };
    }
    let bounds = split_rows(jobs.len(), par.threads());
    let runs = bounds.windows(2).map(|b| &jobs[b[0]..b[1]]).collect();
    // SAFETY: no line is in two runs.
    par.run(runs, |jobs| unsafe { to.put(past, from, jobs) });
}

/// Lines that several threads write, each its own: `[count, width]` from `first` on.
struct Lines {
    first: *mut f32,
    width: usize,
    count: usize,
}

// SAFETY: who writes to which line is for callers of `put` to say.
unsafe impl Sync for Lines {}

impl Lines {
    /// [`put_rows`] of some jobs, past caches for a processor that supports the level.
    ///
    /// # Safety
    /// The lines are there, and until it returns nobody else reads or writes those that `jobs` names.
    unsafe fn put(&self, past: Option<Level>, from: &[f32], jobs: &[(u32, u32)]) {
        let Lines {
            first,
            width,
            count,
        } = *self;
        for (k, &(line, row)) in jobs.iter().enumerate() {
            let (line, row) = (line as usize, row as usize);
            assert!(
                line < count,
                "put_rows: expected lines below {count}, got {line}"
            );
            let from = &from[row * width..][..width];
            // SAFETY: there are `count` lines, of which this one is the caller's.
            let to = unsafe { std::slice::from_raw_parts_mut(first.add(line * width), width) };
            match past {
                Some(level) => past_caches(level, from, to),
                None => {
                    if let Some(&(next, _)) = jobs.get(k + AHEAD) {
                        crate::prefetch(first.wrapping_add(next as usize * width));
                    }
                    to.copy_from_slice(from);
                }
            }
        }
        if past.is_some() {
            stored();
        }
    }
}

/// Whether no line is named twice, of `n` lines.
fn are_distinct(jobs: &[(u32, u32)], n: usize) -> bool {
    let mut seen = vec![0u64; n.div_ceil(64)];
    jobs.iter().all(|&(line, _)| {
        let (word, bit) = (&mut seen[line as usize / 64], 1 << (line % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    })
}

/// Other threads read what was stored past caches once they know that this one is done.
fn stored() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Copies `from: [n]` to `to: [n]`; the processor supports `level`. [`stored`] is due after the last.
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
    use std::arch::x86_64::{_mm256_loadu_ps, _mm256_stream_ps};
    for (to, from) in to.iter_mut().zip(from) {
        // SAFETY: both have 16 elements, and `to` is aligned to 64 bytes like the first, which lines follow.
        unsafe {
            let low = _mm256_loadu_ps(from.as_ptr());
            let high = _mm256_loadu_ps(from.as_ptr().add(8));
            _mm256_stream_ps(to.as_mut_ptr(), low);
            _mm256_stream_ps(to.as_mut_ptr().add(8), high);
        }
    }
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

    proptest! {
        #[test]
        fn rows_are_put_as_if_one_after_the_other(
            width in 0usize..20, large: bool, threads in 1usize..4, again: bool,
            lines in prop::collection::vec(0u32..5000, 0..1500),
        ) {
            let mut lines = lines;
            if !again {
                lines.sort_unstable();
                lines.dedup();
                lines.reverse();
            }
            // As large as goes past caches, or not.
            let n = if large && !cfg!(miri) { 5000.max(LEAST.div_ceil(width.max(1))) } else { 5000 };
            let from: Vec<f32> = (0..lines.len() * width).map(|k| k as f32).collect();
            let jobs: Vec<(u32, u32)> = lines.into_iter().zip(0..).collect();
            let (mut to, mut plain) = (vec![-1.0; n * width], vec![-1.0; n * width]);
            put_rows(&Par::new(threads), &from, width, &jobs, &mut to);
            for &(line, row) in &jobs {
                plain[line as usize * width..][..width].copy_from_slice(&from[row as usize * width..][..width]);
            }
            prop_assert!(to == plain);
        }
    }

    #[test]
    #[should_panic(expected = "put_rows: expected lines below 3, got 3")]
    fn a_line_that_is_not_there_is_refused() {
        put_rows(&Par::new(1), &[1.0, 2.0], 2, &[(3, 0)], &mut [0.0; 6]);
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
