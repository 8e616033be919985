//! Look-alikes can be learned from: a short training of a model that suits each does clearly better
//! than the largest class. What it reaches is no claim about the data that they look like;
//! `gnn-core/src/dataset/builtin/like.rs` has the table. Amazon and MAG240M only take their steps here: at
//! a size for tests they have too few labels, or labels that are too rare.

use gnn_core::dataset::{self, Dataset};
use gnn_core::plan::Plan;
use gnn_core::spec::{RunSpec, Value};
use gnn_core::strategy::STRATEGIES;
use gnn_core::{World, work};

/// A look-alike with its scale, a model, epochs, hidden width, and what is reached at least: a share
/// of the test vertices, and how many times that of their largest class.
struct Case {
    data: &'static str,
    model: &'static str,
    epochs: &'static str,
    least: f64,
    times: f64,
}

const fn case(
    data: &'static str,
    model: &'static str,
    epochs: &'static str,
    least: f64,
    times: f64,
) -> Case {
    Case {
        data,
        model,
        epochs,
        least,
        times,
    }
}

/// The rows of a short training.
fn trained(case: &Case) -> Vec<serde_json::Value> {
    let pairs = [
        ("data", case.data),
        ("model", case.model),
        ("epochs", case.epochs),
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
        verdicts: gnn_core::store::Verdicts::none(),
    };
    work(&plan, folder.path(), World::Threads(1), STRATEGIES).expect("trains");
    let rows = std::fs::read_to_string(folder.path().join("rows/rank-0.jsonl")).expect("rows");
    let row = |line| serde_json::from_str(line).expect("a row");
    rows.lines().map(row).collect()
}

/// The last value of a column that has any.
fn last(rows: &[serde_json::Value], column: &str) -> f64 {
    let mut values = rows.iter().filter_map(|row| row[column].as_f64());
    values.next_back().unwrap_or_else(|| panic!("no {column}"))
}

/// Share of the test vertices in their largest class.
fn largest(data: &Dataset) -> f64 {
    let tested = (0..data.n()).filter(|&v| data.test[v]);
    let tested: Vec<i32> = tested.map(|v| data.labels[v]).collect();
    let count = |c: i32| tested.iter().filter(|&&l| l == c).count();
    let most = (0..data.n_classes as i32).map(count).max();
    most.unwrap_or(0) as f64 / tested.len() as f64
}

fn assert_learned(cases: &[Case]) {
    for case in cases {
        let like = dataset::load(case.data, 0).expect("built in");
        assert!(like.synthetic, "{}", case.data);
        let majority = largest(&like);
        let (n, edges) = (like.n(), like.graph.n_edges());
        drop(like);
        let got = last(&trained(case), "test_acc");
        println!(
            "{} ({n} vertices, {edges} edges), {}, {} epochs: {got:.3}, largest class {majority:.3}",
            case.data, case.model, case.epochs
        );
        let least = case.least.max(case.times * majority);
        assert!(got > least, "{}: {got} against {least}", case.data);
    }
}

#[test]
fn small_look_alikes_are_learned() {
    assert_learned(&[
        // Fewer of Reddit are nearly a complete graph, in which all have the same neighbours.
        case("like:reddit,scale=0.03", "gcn", "40", 0.5, 2.0),
        case("like:ogbn-products,scale=0.002", "gcn", "20", 0.5, 2.0),
        case("like:friendster,scale=0.0001", "gcn", "20", 0.5, 2.0),
        case("like:it-2004,scale=0.0001", "gcn", "20", 0.5, 2.0),
        case("like:ogbn-papers100M,scale=0.0002", "gcn", "20", 0.1, 2.0),
        case("like:flickr,scale=0.1", "gcn", "20", 0.3, 1.5),
        case("like:physics,scale=0.1", "gcn", "10", 0.9, 2.0),
        // Neighbours are of other classes: a vertex's own words have to count.
        case("like:squirrel", "sage", "15", 0.6, 2.0),
        case("like:ogbn-mag,scale=0.005", "rgcn", "15", 0.05, 2.0),
    ]);
}

/// One of 110 papers of MAG240M is trained on, of 153 classes: a small one has fewer than two labels a
/// class. A vertex of Amazon has one or two of 107 labels, which take hundreds of epochs to appear.
#[test]
fn losses_fall_on_look_alikes_that_need_size() {
    for case in [
        case("like:amazon,scale=0.003", "sage", "20", 0.0, 0.0),
        case("like:mag-lsc,scale=0.00005", "rgcn", "6", 0.0, 0.0),
    ] {
        let rows = trained(&case);
        let loss = |row: &serde_json::Value| row["train_loss"].as_f64();
        let first = rows.iter().find_map(loss).expect("trained");
        let end = last(&rows, "train_loss");
        println!("{}, {}: loss {first:.3} to {end:.3}", case.data, case.model);
        assert!(end < 0.5 * first, "{}: {first} to {end}", case.data);
    }
}
