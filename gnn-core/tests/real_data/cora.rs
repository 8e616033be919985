//! Accuracy on Cora with the standard split, against the published 81.5 % (Kipf & Welling, 2017).
//!
//! Catches an error that forward and backward share, which gradient checks cannot see. Protocol of
//! the paper: 16 hidden units, 200 epochs of Adam at 0.01, dropout 0.5, L2 5e-4, row-normalised
//! features; differs in reporting the test accuracy at the best validation accuracy instead of
//! stopping early by validation loss.

use crate::runs::{at_best, mean, number, real, train};

fn runs(data: &str, strategy: &str, ranks: &str, seeds: u64) -> Vec<Vec<serde_json::Value>> {
    let run = |seed: u64| {
        let seed = seed.to_string();
        train(&[
            ("data", data),
            ("strategy", strategy),
            ("ranks", ranks),
            ("feature_norm", "row"),
            ("seed", &seed),
        ])
    };
    (0..seeds).map(run).collect()
}

/// The largest relative difference of two trainings' losses.
///
/// Rounding alone leaves about 1e-7 after 200 epochs, unless a hidden unit comes within an ulp of
/// zero: then its sign, and with it the derivative of ReLU, can be another on the two sides, and
/// the trainings part. Seed 4 meets such a unit, -1 ulp alone and +4 among ranks (held on one side
/// by hand, its losses differed by 1.3e-7 like the others'): the median of the seeds is held to
/// rounding, and so are the first fifty epochs of each.
fn worst(a: &[serde_json::Value], b: &[serde_json::Value]) -> f64 {
    assert_eq!((a.len(), b.len()), (200, 200));
    let loss = |row| number(row, "train_loss").expect("a number");
    let apart = |(a, b)| (loss(a) - loss(b)).abs() / loss(a).abs();
    let apart: Vec<f64> = a.iter().zip(b).map(apart).collect();
    let largest = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
    assert!(largest(&apart[..50]) <= 1e-6, "losses differ: {apart:?}");
    largest(&apart)
}

#[test]
fn single_and_halo_reach_the_published_accuracy_with_equal_losses() {
    let Some(data) = real("cora") else { return };
    let accuracies = |runs: &[Vec<serde_json::Value>]| -> Vec<f64> {
        let best = |rows: &Vec<_>| at_best(rows, "val_acc", "test_acc");
        runs.iter().map(best).collect()
    };
    let (single, halo) = (runs(&data, "single", "1", 10), runs(&data, "halo", "3", 5));
    let mut apart: Vec<f64> = single.iter().zip(&halo).map(|(a, b)| worst(a, b)).collect();
    println!("Cora, GCN, halo: losses differ by at most {apart:?}");
    apart.sort_by(f64::total_cmp);
    assert!(apart[apart.len() / 2] <= 1e-6, "losses differ: {apart:?}");
    assert!(apart.iter().all(|&e| e <= 1e-2), "losses differ: {apart:?}");
    let single = mean("Cora, GCN, single", &accuracies(&single));
    assert!(
        (single - 81.5).abs() <= 0.7,
        "expected 81.5 ± 0.7, got {single:.2}"
    );
    let halo = mean("Cora, GCN, halo on 3 ranks", &accuracies(&halo));
    assert!(
        (halo - 81.5).abs() <= 1.0,
        "expected 81.5 ± 1, got {halo:.2}"
    );
}
