//! Accuracy on Cora with the standard split, against the published 81.5 % (Kipf & Welling, 2017).
//!
//! Catches an error that forward and backward share, which gradient checks cannot see. Runs only
//! where the real data is found (`HALOBOOK_DATA`, or `shared/data` beside the checkout), and says
//! so where it is not.

use gnn_core::partition;
use gnn_core::plan::Plan;
use gnn_core::spec::{RunSpec, Value};
use gnn_core::strategy::STRATEGIES;
use gnn_core::{World, work};
use std::path::{Path, PathBuf};

const SEEDS: i64 = 10;

fn cora() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let root = std::env::var_os("HALOBOOK_DATA").map_or(beside, PathBuf::from);
    let folder = root.join("cora");
    folder.join("graph.npz").exists().then_some(folder)
}

struct Epoch {
    loss: f64,
    val: f64,
    test: f64,
}

fn train(data: &Path, strategy: &str, ranks: usize, seed: i64) -> Vec<Epoch> {
    let spec = RunSpec::from_pairs([
        ("data", Value::Str(data.display().to_string())),
        ("strategy", Value::Str(strategy.into())),
        ("ranks", Value::Int(ranks as i64)),
        ("hidden", Value::Int(16)),
        ("epochs", Value::Int(200)),
        ("feature_norm", Value::Str("row".into())),
        ("seed", Value::Int(seed)),
    ])
    .expect("valid pairs");
    let folder = tempfile::tempdir().expect("temporary folder");
    if ranks > 1 {
        let graph = gnn_core::dataset::load(&spec.data, 0)
            .expect("Cora loads")
            .graph;
        let metis = partition::find("metis").expect("registered").partitioner;
        let owner = metis.assign(&graph, ranks, 0).expect("assigns");
        let bytes: Vec<u8> = owner.iter().flat_map(|o| o.to_le_bytes()).collect();
        std::fs::write(folder.path().join("part.bin"), bytes).expect("writes");
    }
    let plan = Plan {
        spec,
        threads: 1,
        in_process: true,
        oversubscribed: ranks > 1,
        partition_ms: 0.0,
    };
    work(&plan, folder.path(), World::Threads(ranks), STRATEGIES).expect("trains");
    let rows = std::fs::read_to_string(folder.path().join("rows/rank-0.jsonl")).expect("rows");
    rows.lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a row"))
        .filter(|row| row["frame"] == "metrics")
        .map(|row| {
            let number = |key: &str| row[key].as_f64().expect("a number");
            Epoch {
                loss: number("train_loss"),
                val: number("val_acc"),
                test: number("test_acc"),
            }
        })
        .collect()
}

/// Test accuracy in percent at the epoch of best validation accuracy.
fn accuracy(epochs: &[Epoch]) -> f64 {
    let mut best = &epochs[0];
    for epoch in epochs {
        if epoch.val > best.val {
            best = epoch;
        }
    }
    100.0 * best.test
}

#[test]
fn single_and_halo_reach_the_published_accuracy_with_equal_losses() {
    let Some(data) = cora() else {
        println!(
            "SKIP cora: no real data here (set HALOBOOK_DATA to a folder with cora/graph.npz)"
        );
        assert!(
            std::env::var_os("HALOBOOK_DATA").is_none(),
            "HALOBOOK_DATA has no cora/graph.npz"
        );
        return;
    };
    let (mut single_sum, mut halo_sum) = (0.0, 0.0);
    for seed in 0..SEEDS {
        let mut worst = 0.0f64;
        let (single, halo) = (
            train(&data, "single", 1, seed),
            train(&data, "halo", 3, seed),
        );
        for (epoch, (a, b)) in single.iter().zip(&halo).enumerate() {
            let error = (a.loss - b.loss).abs() / a.loss.abs();
            worst = error.max(worst);
            assert!(
                error <= 1e-5,
                "seed {seed} epoch {epoch}: single {}, halo {}",
                a.loss,
                b.loss
            );
        }
        println!("seed {seed}: largest relative difference of a loss {worst:.1e}");
        assert_eq!((single.len(), halo.len()), (200, 200));
        single_sum += accuracy(&single);
        halo_sum += accuracy(&halo);
    }
    for (name, sum) in [("single", single_sum), ("halo on 3 ranks", halo_sum)] {
        let mean = sum / SEEDS as f64;
        println!("{name}: test accuracy {mean:.2} %, mean of {SEEDS} seeds");
        assert!(
            (mean - 81.5).abs() <= 1.0,
            "{name}: expected 81.5 ± 1, got {mean:.2}"
        );
    }
}
