//! Copy, triad and update bandwidth by working set, after McCalpin's STREAM.
//!
//! Bytes are STREAM's: two for every byte copied or updated in place, three for triad; that an
//! ordinary store to an array that was not read also reads the line that it writes is not counted,
//! so update, which has read it anyway, is the fastest of the three. Each thread works on its own run of elements, and
//! passes repeat until they take long enough to time.

use super::clock::{Clock, Spread};
use crate::Par;
use crate::par::{cut_mut, split_rows};
use crate::simd::multiversion;

/// Bandwidth at one working set.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidth {
    /// Bytes of all arrays together.
    pub working_set: usize,
    /// GB/s of `a = b`, from the best time: what can be reached.
    pub copy: f64,
    /// GB/s of `a = b + 3 c`, likewise.
    pub triad: f64,
    /// GB/s of `a = 2 a - 1`, likewise.
    pub update: f64,
    /// Milliseconds of a copy.
    pub copy_ms: Spread,
    /// Milliseconds of a triad.
    pub triad_ms: Spread,
    /// Milliseconds of an update.
    pub update_ms: Spread,
}

impl Bandwidth {
    /// The highest of the three.
    pub fn best(&self) -> f64 {
        self.copy.max(self.triad).max(self.update)
    }
}

/// Working sets from 1 MiB, doubling, to the first one of at least `largest` bytes.
pub fn working_sets(largest: usize) -> Vec<usize> {
    let mut sets = vec![1 << 20];
    while sets[sets.len() - 1] < largest {
        sets.push(sets[sets.len() - 1] * 2);
    }
    sets
}

/// Measures copy, triad and update over arrays that together hold `working_set` bytes.
///
/// # Panics
/// When the arrays do not hold what was to be written: a bandwidth of nothing.
pub fn bandwidth(par: &Par, clock: Clock, working_set: usize) -> Bandwidth {
    let (copy_ms, copied) = copy(par, clock, working_set / 8);
    let (triad_ms, combined) = triad(par, clock, working_set / 12);
    let (update_ms, updated) = update(par, clock, working_set / 4);
    let rate = |bytes: usize, ms: &Spread| bytes as f64 / ms.best / 1e6;
    Bandwidth {
        working_set,
        copy: rate(copied, &copy_ms),
        triad: rate(combined, &triad_ms),
        update: rate(updated, &update_ms),
        copy_ms,
        triad_ms,
        update_ms,
    }
}

fn copy(par: &Par, clock: Clock, n: usize) -> (Spread, usize) {
    let bounds = split_rows(n, par.threads());
    let (mut a, b) = (vec![0f32; n], vec![1f32; n]);
    let ms = clock.time(|| {
        par.run(cut_mut(&mut a, 1, &bounds), |(first, a)| {
            copy_run(a, &b[first..first + a.len()]);
        });
    });
    assert!(a.iter().all(|&x| x == 1.0), "copy: a run was not written");
    (ms, 2 * 4 * n)
}

fn triad(par: &Par, clock: Clock, n: usize) -> (Spread, usize) {
    let bounds = split_rows(n, par.threads());
    let (mut a, b, c) = (vec![0f32; n], vec![1f32; n], vec![2f32; n]);
    let ms = clock.time(|| {
        par.run(cut_mut(&mut a, 1, &bounds), |(first, a)| {
            let run = first..first + a.len();
            triad_run(a, &b[run.clone()], &c[run]);
        });
    });
    assert!(a.iter().all(|&x| x == 7.0), "triad: a run was not written");
    (ms, 3 * 4 * n)
}

fn update(par: &Par, clock: Clock, n: usize) -> (Spread, usize) {
    let bounds = split_rows(n, par.threads());
    let mut a = vec![1f32; n];
    let ms = clock.time(|| par.run(cut_mut(&mut a, 1, &bounds), |(_, a)| update_run(a)));
    assert!(a.iter().all(|&x| x == 1.0), "update: a run was not kept");
    (ms, 2 * 4 * n)
}

multiversion! {
    /// Times one, which the compiler does not know: it would call the library's copy, which
    /// bypasses caches from some size on, unlike any kernel.
    fn copy_run(a: &mut [f32], b: &[f32]) {
        let one = std::hint::black_box(1.0);
        for (a, b) in a.iter_mut().zip(b) {
            *a = one * *b;
        }
    }
}

multiversion! {
    fn triad_run(a: &mut [f32], b: &[f32], c: &[f32]) {
        for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
            *a = *b + 3.0 * *c;
        }
    }
}

multiversion! {
    /// One stays one; the compiler does not know the numbers.
    fn update_run(a: &mut [f32]) {
        let (two, one) = (std::hint::black_box(2.0), std::hint::black_box(1.0));
        for a in a {
            *a = two * *a - one;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_sets_double_and_pass_the_largest() {
        assert_eq!(working_sets(0), [1 << 20]);
        assert_eq!(working_sets(3 << 20), [1 << 20, 2 << 20, 4 << 20]);
    }

    #[test]
    fn a_small_set_has_a_bandwidth_on_any_number_of_threads() {
        let clock = Clock {
            warmup: 1,
            samples: 3,
            seconds: 0.2,
        };
        for threads in [1, 2, 3] {
            let got = bandwidth(&Par::new(threads), clock, (1 << 18) + 20);
            assert!(got.copy > 0.0 && got.triad > 0.0 && got.update > 0.0);
            assert!(got.best() >= got.copy.max(got.triad));
            assert!(got.copy_ms.samples == 3 && got.triad_ms.samples == 3);
        }
    }
}
