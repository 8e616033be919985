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

#[test]
fn single_and_halo_reach_the_published_accuracy_with_equal_losses() {
    let Some(data) = real("cora") else { return };
    let accuracies = |runs: &[Vec<serde_json::Value>]| -> Vec<f64> {
        let best = |rows: &Vec<_>| at_best(rows, "val_acc", "test_acc");
        runs.iter().map(best).collect()
    };
    let (single, halo) = (runs(&data, "single", "1", 10), runs(&data, "halo", "3", 5));
    for (seed, (a, b)) in single.iter().zip(&halo).enumerate() {
        let loss = |row| number(row, "train_loss").expect("a number");
        assert_eq!((a.len(), b.len()), (200, 200));
        for (epoch, (a, b)) in a.iter().zip(b).enumerate() {
            let error = (loss(a) - loss(b)).abs() / loss(a).abs();
            assert!(
                error <= 1e-5,
                "seed {seed} epoch {epoch}: single {}, halo {}",
                loss(a),
                loss(b)
            );
        }
    }
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
