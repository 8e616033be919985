//! Look-alikes can be learned from: a GCN does clearly better than the largest class. What it reaches
//! is no claim about the data that they look like.

use gnn_core::plan::Plan;
use gnn_core::spec::{RunSpec, Value};
use gnn_core::strategy::STRATEGIES;
use gnn_core::{World, dataset, work};

#[test]
fn a_gcn_learns_a_small_reddit_better_than_its_largest_class() {
    // Smaller ones are nearly complete graphs, in which every vertex has the same neighbours.
    let data = "like:reddit,scale=0.03";
    let like = dataset::load(data, 0).expect("built in");
    let tested: Vec<i32> = (0..like.n())
        .filter(|&v| like.test[v])
        .map(|v| like.labels[v])
        .collect();
    let largest = (0..like.n_classes as i32)
        .map(|c| tested.iter().filter(|&&l| l == c).count())
        .max();
    let majority = largest.unwrap_or(0) as f64 / tested.len() as f64;
    let pairs = [
        ("data", data),
        ("epochs", "40"),
        ("hidden", "32"),
        ("dropout", "0"),
        ("lr", "0.02"),
    ];
    let pairs = pairs.map(|(k, v)| (k, Value::from_word(v)));
    let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
    let folder = tempfile::tempdir().expect("temporary folder");
    let plan = Plan {
        spec,
        start: 0,
        threads: 2,
        in_process: true,
        oversubscribed: false,
        partition_ms: 0.0,
        partition_peak_bytes: 0,
        partition_method: String::new(),
    };
    work(&plan, folder.path(), World::Threads(1), STRATEGIES).expect("trains");
    let rows = std::fs::read_to_string(folder.path().join("rows/rank-0.jsonl")).expect("rows");
    let last = rows
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a row"))
        .filter_map(|row| row["test_acc"].as_f64())
        .next_back()
        .expect("evaluated");
    println!("{data}: test accuracy {last:.3}, largest class {majority:.3}");
    assert!(last > 2.0 * majority, "{last} against {majority}");
}
