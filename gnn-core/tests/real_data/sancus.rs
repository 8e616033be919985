//! What `sancus` saves of broadcast bytes and what that costs in accuracy, beside `skipg`.
//!
//! Savings are against the same strategy without staleness, so that features, which both send once,
//! are in neither. Gradients always travel: where a layer's rows and gradients are equally wide, a
//! bound on rows cannot save more than half.

use crate::runs::{at_best, mean, real, soak, train, train_rows};

const SEEDS: u64 = 5;

/// Test accuracy and bytes of all broadcasts, means over seeds.
fn accuracy_and_bytes(name: &str, pairs: &[(&str, &str)]) -> (f64, f64) {
    let (mut accuracies, mut bytes) = (Vec::new(), Vec::new());
    for seed in 0..SEEDS {
        let seed = seed.to_string();
        let rows = train_rows(&[pairs, &[("ranks", "4"), ("seed", &seed)]].concat());
        let of = |frame: &str| -> Vec<_> {
            rows.iter()
                .filter(|r| r["frame"] == frame)
                .cloned()
                .collect()
        };
        accuracies.push(at_best(&of("metrics"), "val_acc", "test_acc"));
        let broadcasts = of("comm").into_iter().filter(|r| r["op"] == "broadcast");
        bytes.push(broadcasts.filter_map(|r| r["bytes"].as_f64()).sum::<f64>());
    }
    let bytes = bytes.iter().sum::<f64>() / bytes.len() as f64;
    (mean(name, &accuracies), bytes)
}

/// Trains without staleness and with each bound; asserts what each saves and loses. `skipg` with the
/// same fixed bound saves as much; what it loses is printed and not asserted: with two layers it was no
/// more on any graph. What is learnt without staleness must be at least `learnt` percent, or nothing could
/// be lost.
fn save(data: &str, more: &[(&str, &str)], bounds: &[&str], learnt: f64) {
    let run = |strategy: &str, bound: &str| {
        let own = [("data", data), ("strategy", strategy), ("bound", bound)];
        let name = data.rsplit('/').next().unwrap_or(data);
        let name = format!("{name}, {strategy} {bound}");
        accuracy_and_bytes(&name, &[&own, more].concat())
    };
    let (exact, all) = run("sancus", "epoch-fixed=0");
    assert!(exact >= learnt, "{exact:.2} of {learnt}");
    let saves = |strategy: &str, bound: &str| {
        let (accuracy, bytes) = run(strategy, bound);
        let (saved, lost) = (100.0 * (1.0 - bytes / all), exact - accuracy);
        println!("  saves {saved:.1} % of broadcast bytes, loses {lost:.2} points");
        assert!(
            (35.0..=74.0).contains(&saved),
            "{strategy} {bound} saves {saved:.1} %, not 35 to 74"
        );
        lost
    };
    for bound in bounds {
        let lost = saves("sancus", bound);
        assert!(lost <= 1.0, "{bound} loses {lost:.2} of {exact:.2} points");
    }
    if bounds[0].starts_with("epoch-fixed") {
        saves("skipg", bounds[0]);
    }
}

#[test]
fn on_cora_a_third_of_the_bytes_is_saved_within_a_point() {
    if !soak("sancus on Cora") {
        return;
    }
    let Some(data) = real("cora") else { return };
    let protocol = [
        ("feature_norm", "row"),
        ("epochs", "200"),
        ("eval_every", "5"),
    ];
    save(
        &data,
        &protocol,
        &["epoch-fixed=3", "epoch-adaptive=3"],
        80.0,
    );
    // Masks of dropout differ from epoch to epoch, so a bound on variation is tried without.
    let plain = [&protocol[..], &[("dropout", "0")]].concat();
    save(&data, &plain, &["variation=0.15"], 80.0);
}

#[test]
fn on_physics_a_third_of_the_bytes_is_saved_within_a_point() {
    if !soak("sancus on Physics") {
        return;
    }
    let Some(data) = real("coauthor_physics") else {
        return;
    };
    let protocol = [("epochs", "60"), ("eval_every", "5")];
    save(
        &data,
        &protocol,
        &["epoch-fixed=3", "epoch-adaptive=3"],
        90.0,
    );
}

#[test]
fn on_a_look_alike_of_reddit_a_third_of_the_bytes_is_saved_within_a_point() {
    if !soak("sancus on a look-alike of Reddit") {
        return;
    }
    // Stale rows slow training down: after 100 epochs, accuracy is a fifth of what it becomes.
    let protocol = [
        ("epochs", "400"),
        ("eval_every", "10"),
        ("hidden", "32"),
        ("dropout", "0"),
        ("weight_decay", "0"),
    ];
    save(
        "like:reddit,scale=0.03",
        &protocol,
        &["epoch-fixed=3", "epoch-adaptive=3"],
        95.0,
    );
}

/// The paper's losing comparison loses where the model is deeper and steps are large: as many broadcasts are
/// skipped, of gradients instead of rows. Accuracy after the last epoch, so that no choice of an epoch helps.
#[test]
fn with_three_layers_and_large_steps_skipg_loses_more_on_cora() {
    if !soak("skipg with three layers on Cora") {
        return;
    }
    let Some(data) = real("cora") else { return };
    let after = |strategy: &str, bound: &str| {
        let accuracy = |seed: u64| {
            let seed = seed.to_string();
            let rows = train(&[
                ("data", &data),
                ("strategy", strategy),
                ("bound", bound),
                ("ranks", "4"),
                ("seed", &seed),
                ("layers", "3"),
                ("lr", "0.05"),
                ("feature_norm", "row"),
                ("epochs", "200"),
                ("eval_every", "200"),
            ]);
            at_best(&rows, "val_acc", "test_acc")
        };
        let all: Vec<f64> = (0..10).map(accuracy).collect();
        mean(&format!("{strategy} {bound}"), &all)
    };
    let exact = after("sancus", "epoch-fixed=0");
    let (mut stale_rows, mut stale_gradients) = (0.0, 0.0);
    for bound in ["epoch-fixed=9", "epoch-fixed=19"] {
        let [rows, gradients] = ["sancus", "skipg"].map(|s| exact - after(s, bound));
        println!("  {bound}: stale rows lose {rows:.2} points, stale gradients {gradients:.2}");
        stale_rows += rows / 2.0;
        stale_gradients += gradients / 2.0;
    }
    assert!(
        stale_gradients > stale_rows.max(0.0),
        "{stale_gradients:.2} of {stale_rows:.2}"
    );
}
