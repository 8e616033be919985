//! Draws come as often as they should, and sums are estimated without bias. Cannot catch: correlations
//! between rows.

use crate::rng::{self, Purpose};
use crate::sample::draw::Draw;

const TIMES: u64 = 20_000;

/// χ² of counts that should all be alike, by degrees of freedom.
fn chi_squared(counts: &[u64]) -> f64 {
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let terms = counts.iter().map(|&c| (c as f64 - mean).powi(2) / mean);
    terms.sum::<f64>() / (counts.len() - 1) as f64
}

/// Every set of three of seven edges comes as often; every edge of long rows does, too.
#[test]
fn uniform_draws_are_uniform() {
    let mut draw = Draw::default();
    let mut sets = std::collections::BTreeMap::new();
    for (d, k, count) in [(7, 3, 35), (7, 5, 21)] {
        sets.clear();
        for key in 0..TIMES {
            draw.distinct(rng::key(key, 0, Purpose::Sample, 0), d, k);
            *sets.entry(draw.picked.clone()).or_insert(0u64) += 1;
        }
        let counts: Vec<u64> = sets.values().copied().collect();
        assert_eq!(counts.len(), count);
        // 0.1 % of true samples have more than 1.9 with 34 degrees of freedom, 2.3 with 20.
        assert!(chi_squared(&counts) < 1.9, "{}", chi_squared(&counts));
    }
    for (d, k, replace) in [
        (100, 9, false),
        (100, 9, true),
        (100, 70, false),
        (5000, 300, false),
        (70_000, 2000, false),
    ] {
        let mut counts = vec![0u64; 50];
        for key in 0..200 * TIMES / k as u64 / 10 {
            let row = rng::key(key, 1, Purpose::Sample, 0);
            match replace {
                true => draw.repeated(row, d, k),
                false => draw.distinct(row, d, k),
            }
            assert_eq!(draw.picked.len(), k);
            assert!((draw.factor - d as f32 / k as f32).abs() < 1e-5);
            draw.picked
                .iter()
                .for_each(|&p| counts[p as usize * 50 / d] += 1);
        }
        // 0.1 % have more than 1.75 with 49 degrees of freedom.
        assert!(
            chi_squared(&counts) < 1.75,
            "{d} {k}: {}",
            chi_squared(&counts)
        );
    }
}

/// Rows of every length that marks are kept differently for.
#[test]
fn distinct_draws_are_distinct() {
    let mut draw = Draw::default();
    for d in [1, 2, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 70_000] {
        for k in [1, 2, 31, 32, 33, d / 2, d / 2 + 1, d - 1, d, d + 1] {
            draw.distinct(rng::key(d as u64, k as u64, Purpose::Sample, 0), d, k);
            assert_eq!(draw.picked.len(), k.min(d), "{k} of {d}");
            assert!(draw.picked.windows(2).all(|w| w[0] < w[1]), "{k} of {d}");
            assert!(draw.picked.last().is_none_or(|&p| (p as usize) < d));
        }
    }
}

/// The first of biased draws comes in proportion, and sums are estimated without bias.
#[test]
fn biased_draws_are_in_proportion_and_sums_without_bias() {
    let bias = [1.0f32, 0.0, 2.0, 4.0, 0.5, 8.0, 3.0, 1.5];
    let x = [3.0f64, 100.0, -1.0, 2.0, 5.0, 1.0, 0.5, -4.0];
    // What a bias of 0 hides cannot be estimated.
    let sum: f64 = x
        .iter()
        .zip(bias)
        .filter(|(_, b)| *b > 0.0)
        .map(|(x, _)| x)
        .sum();
    let mut draw = Draw::default();
    for replace in [false, true] {
        let mut pick = |key: u64, k: usize| {
            let row = rng::key(key, 2, Purpose::Sample, 0);
            match replace {
                true => draw.repeated_by(row, &bias, k),
                false => draw.distinct_by(row, &bias, k),
            }
            draw.picked
                .iter()
                .copied()
                .zip(draw.factors.iter().copied())
                .collect::<Vec<_>>()
        };
        let mut counts = [0u64; 8];
        (0..TIMES).for_each(|key| counts[pick(key, 1)[0].0 as usize] += 1);
        assert_eq!(counts[1], 0);
        let total: f32 = bias.iter().sum();
        let terms = counts
            .iter()
            .zip(bias)
            .filter(|(_, b)| *b > 0.0)
            .map(|(&c, b)| {
                let expected = TIMES as f64 * f64::from(b / total);
                (c as f64 - expected).powi(2) / expected
            });
        // 0.1 % have more than 22.5 with 6 degrees of freedom.
        assert!(terms.sum::<f64>() < 22.5, "{counts:?}");
        for k in [2, 3, 5] {
            let estimate = |key| -> f64 {
                let picks = pick(key, k);
                picks
                    .iter()
                    .map(|&(i, f)| x[i as usize] * f64::from(f))
                    .sum()
            };
            let estimates: Vec<f64> = (0..TIMES).map(estimate).collect();
            let mean = estimates.iter().sum::<f64>() / TIMES as f64;
            let spread = estimates.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / TIMES as f64;
            let error = (spread / TIMES as f64).sqrt();
            assert!(
                (mean - sum).abs() < 4.0 * error,
                "{k}: {mean} of {sum}, error {error}"
            );
        }
    }
}
