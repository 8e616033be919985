//! Peak FLOP/s of `f32` products: fused multiply-adds on registers by SIMD level, and tiles.
//!
//! Unsafe: functions compiled for a SIMD level are called after asking the processor for it. The
//! sums are written with intrinsics, since a compiler that does not keep them in registers would
//! make the peak look low and every kernel look good.
#![allow(unsafe_code)]

use super::clock::Clock;
use crate::Par;
use crate::engine::Engine;
use crate::simd::Level;
use std::hint::black_box;

/// Rounds of one call. A sample takes some milliseconds on the fastest cores too: in a tenth of that, a thread
/// that has to be woken first comes too late, and all of the work is one thread's.
const ROUNDS: usize = 2_000_000;

/// Independent sums: more than latency times units on any core, fewer than half the registers.
const SUMS: usize = 12;

/// Of what one thread reaches, the least that each of several does when they run beside each other.
const BESIDE: f64 = 0.8;

/// Measurements of several threads at most.
const TRIES: usize = 8;

/// GFLOP/s of fused multiply-adds (of a multiplication and an addition where there are none), or of
/// products on tiles, on all threads of `par`, from the best sample: the limit is what can be reached. Where
/// another process holds a core meanwhile, several threads take turns on the rest, and they are measured again.
///
/// # Panics
/// When this processor lacks the engine.
pub fn peak(par: &Par, clock: Clock, engine: Engine) -> f64 {
    assert!(
        Engine::available().contains(&engine),
        "peak: expected an engine of this processor, got {engine:?}"
    );
    let threads = par.threads();
    let beside = match threads {
        1 => 0.0,
        _ => BESIDE * threads as f64 * measured(&Par::here(1), clock, engine),
    };
    until(beside, || measured(par, clock, engine))
}

/// The best of some measurements, which end when one reaches `enough`.
fn until(enough: f64, mut measure: impl FnMut() -> f64) -> f64 {
    let mut best = 0.0f64;
    for _ in 0..TRIES {
        best = best.max(measure());
        if best >= enough {
            break;
        }
    }
    best
}

/// One measurement.
fn measured(par: &Par, clock: Clock, engine: Engine) -> f64 {
    #[cfg(target_arch = "x86_64")]
    if engine.tiles {
        return tiles(par, clock);
    }
    let level = engine.level;
    let jobs: Vec<usize> = (0..par.threads()).collect();
    let spread = clock.time(|| {
        par.run(jobs.clone(), |_| {
            black_box(match level {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the assertion above establishes that the processor has the level.
                Level::Avx512 => unsafe { avx512(black_box(0.5)) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Level::Avx2 => unsafe { avx2(black_box(0.5)) },
                _ => plain(black_box(0.5)),
            });
        });
    });
    let flops = 2 * SUMS * lanes(level) * ROUNDS * par.threads();
    flops as f64 / spread.best / 1e6
}

/// Steps of a product whose operands stay in the first-level cache, all parts of each `f32` and
/// their loads included.
#[cfg(target_arch = "x86_64")]
fn tiles(par: &Par, clock: Clock) -> f64 {
    use crate::amx::{BLOCK, INNER, STEP, Tiles};
    const STEPS: usize = ROUNDS / 50;
    let jobs: Vec<usize> = (0..par.threads()).collect();
    let operands = vec![0u32; 2 * STEP];
    let spread = clock.time(|| {
        par.run(jobs.clone(), |_| {
            let mut tiles = Tiles::begin();
            tiles.zero();
            for _ in 0..STEPS {
                // SAFETY: two operands of a step each.
                unsafe { tiles.wide(operands.as_ptr(), operands[STEP..].as_ptr()) };
            }
        });
    });
    let flops = 2 * BLOCK * BLOCK * INNER * STEPS * par.threads();
    flops as f64 / spread.best / 1e6
}

fn lanes(level: Level) -> usize {
    match level {
        Level::Avx512 => 16,
        Level::Avx2 => 8,
        _ => 4,
    }
}

/// `SUMS` chains of vectors; the sums converge to `x / (1 - x)`, so nothing overflows or becomes
/// subnormal. Returns the sum of the first lanes.
macro_rules! chains {
    ($name:ident, $features:literal, $set:ident, $first:ident, |$s:ident, $x:ident| $step:expr) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        fn $name(x: f32) -> f32 {
            use std::arch::x86_64::*;
            let ($x, mut sums) = ($set(x), [$set(0.0); SUMS]);
            for _ in 0..ROUNDS {
                for sum in &mut sums {
                    let $s = *sum;
                    *sum = $step;
                }
            }
            sums.iter().map(|&s| $first(s)).sum()
        }
    };
}

chains!(
    avx512,
    "avx512f",
    _mm512_set1_ps,
    _mm512_cvtss_f32,
    |s, x| _mm512_fmadd_ps(s, x, x)
);
chains!(
    avx2,
    "avx2,fma",
    _mm256_set1_ps,
    _mm256_cvtss_f32,
    |s, x| _mm256_fmadd_ps(s, x, x)
);
chains!(sse2, "sse2", _mm_set1_ps, _mm_cvtss_f32, |s, x| _mm_add_ps(
    _mm_mul_ps(s, x),
    x
));

/// What the compiler may assume on every machine of this architecture.
fn plain(x: f32) -> f32 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 has SSE2.
        unsafe { sse2(x) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let mut sums = [[0f32; 4]; SUMS];
        for _ in 0..ROUNDS {
            for s in sums.iter_mut().flatten() {
                *s = if cfg!(target_arch = "aarch64") {
                    s.mul_add(x, x)
                } else {
                    *s * x + x
                };
            }
        }
        sums.iter().map(|s| s[0]).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_disturbed_is_measured_again_and_the_best_counts() {
        let of = |enough, all: &[f64]| {
            let mut left = all.iter().copied();
            (until(enough, || left.next().unwrap_or(1.0)), left.len())
        };
        assert_eq!(of(150.0, &[97.0, 90.0, 181.0, 185.0]), (181.0, 1));
        assert_eq!(of(150.0, &[97.0, 90.0]), (97.0, 0));
        assert_eq!(of(0.0, &[90.0, 97.0]), (90.0, 1));
    }

    #[test]
    fn every_engine_has_a_peak_and_the_sums_are_right() {
        let clock = Clock {
            warmup: 0,
            samples: 1,
            seconds: 0.1,
        };
        for engine in Engine::available() {
            assert!(peak(&Par::new(2), clock, engine) > 0.1);
        }
        // A geometric series of one half: 1 in every sum.
        assert_eq!(plain(0.5), SUMS as f32);
    }
}
