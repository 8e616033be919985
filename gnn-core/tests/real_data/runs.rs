//! What the tests on real data share: where it is, a training, and means over seeds.

use gnn_core::partition;
use gnn_core::plan::Plan;
use gnn_core::spec::{RunSpec, Value};
use gnn_core::strategy::{STRATEGIES, find};
use gnn_core::{World, work};
use std::path::{Path, PathBuf};

/// The folder of a real data set, from `HALOBOOK_DATA` or `shared/data` beside the checkout. Says
/// aloud when it is skipped.
pub fn real(name: &str) -> Option<String> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let root = std::env::var_os("HALOBOOK_DATA").map_or(beside, PathBuf::from);
    let folder = root.join(name);
    if folder.join("graph.npz").exists() {
        return Some(folder.display().to_string());
    }
    println!(
        "SKIP {name}: no real data here (set HALOBOOK_DATA to a folder with {name}/graph.npz)"
    );
    assert!(
        std::env::var_os("HALOBOOK_DATA").is_none(),
        "HALOBOOK_DATA has no {name}/graph.npz"
    );
    None
}

/// Whether the slow tests are asked for.
pub fn soaks() -> bool {
    std::env::var_os("HALOBOOK_SOAK").is_some_and(|v| v == "1")
}

/// Whether the slow tests are asked for; says aloud when they are skipped.
pub fn soak(what: &str) -> bool {
    let asked = soaks();
    if !asked {
        println!("SKIP {what}: takes minutes (set HALOBOOK_SOAK=1)");
    }
    asked
}

/// Trains and returns the rows of the `metrics` frame, one an epoch.
pub fn train(pairs: &[(&str, &str)]) -> Vec<serde_json::Value> {
    let mut rows = train_rows(pairs);
    rows.retain(|row| row["frame"] == "metrics");
    rows
}

/// Trains and returns every row of every rank.
pub fn train_rows(pairs: &[(&str, &str)]) -> Vec<serde_json::Value> {
    let pairs = pairs.iter().map(|&(k, v)| (k, Value::from_word(v)));
    let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
    let ranks = spec.ranks;
    let folder = tempfile::tempdir().expect("temporary folder");
    let entry = find(&spec.strategy).expect("registered");
    if let Some(parts) = entry.cut_into(&spec) {
        let data =
            gnn_core::dataset::load_for(spec.data_spec(), &gnn_core::store::Verdicts::none())
                .expect("loads");
        let method = partition::Method::parse(&spec.partition).expect("registered");
        let request = partition::Request::of(method, &data, parts.count, 0).nested(parts.nested);
        let cut = request.cut(None).expect("cuts");
        let levels = [("part.bin", Some(cut.owner)), ("nested.bin", cut.nested)];
        for (name, level) in levels {
            let bytes = level.map(|of| of.iter().flat_map(|part| part.to_le_bytes()).collect());
            let write = |bytes: Vec<u8>| std::fs::write(folder.path().join(name), bytes);
            bytes.map(write).transpose().expect("writes");
        }
    }
    let plan = Plan {
        oversubscribed: ranks > 1,
        ..Plan::in_threads(spec)
    };
    work(&plan, folder.path(), World::Threads(ranks), STRATEGIES).expect("trains");
    let of_rank = |rank: usize| {
        let path = folder.path().join(format!("rows/rank-{rank}.jsonl"));
        std::fs::read_to_string(path).expect("rows")
    };
    let text: String = (0..ranks).map(of_rank).collect();
    let row = |line| serde_json::from_str(line).expect("a row");
    text.lines().map(row).collect()
}

/// A number of a row; none where the epoch was not evaluated.
pub fn number(row: &serde_json::Value, key: &str) -> Option<f64> {
    row[key].as_f64()
}

/// `test` in percent at the first epoch of the best `val`: the smallest for a loss, else the
/// largest; without one, after the last epoch.
pub fn at_best(rows: &[serde_json::Value], val: &str, test: &str) -> f64 {
    let sign = if val.ends_with("loss") { -1.0 } else { 1.0 };
    let mut best = (f64::NEG_INFINITY, 0.0);
    for row in rows {
        if let Some(t) = number(row, test) {
            let v = number(row, val).map_or(f64::NEG_INFINITY, |v| sign * v);
            if v > best.0 || best.0 == f64::NEG_INFINITY {
                best = (v, t);
            }
        }
    }
    100.0 * best.1
}

/// Mean and sample standard deviation, printed under a name.
pub fn mean(name: &str, values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let spread = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    println!("{name}: {mean:.2} ± {:.2} over {values:.1?}", spread.sqrt());
    mean
}
