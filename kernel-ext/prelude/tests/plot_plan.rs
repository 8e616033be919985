//! The plot of a plan against its run. Catches a wrong error, ranks of one process counted apart; that it
//! is well-formed at every size is tested with all kinds (`plots.rs`).

mod common;

use common::{case, ranks, setting};
use halobook::plot::plan;

#[test]
fn plan_names_the_worst_error_of_each_panel() {
    let plot = plan(&[case(setting("halo", 4), ranks(5, 4))]).expect("complete");
    // Rank 3 takes 72 MiB of 60; every rank 3 ms of 2, where that was predicted.
    assert!(
        plot.text.contains("memory: worst +20 % (rank 3)"),
        "{}",
        plot.text
    );
    assert!(plot.text.contains("time: worst +50 %"), "{}", plot.text);
    assert!(plot.svg.contains("rank 3 +20 %") && plot.svg.contains("as planned"));
    assert_eq!(plot.text.matches("  time").count(), 2, "{}", plot.text);
}

#[test]
fn plan_adds_up_ranks_of_one_process() {
    let mut shared = setting("halo", 4);
    shared.launch = "threads".into();
    let both = [
        case(shared, ranks(3, 4)),
        case(setting("broadcast", 2), ranks(3, 2)),
    ];
    let plot = plan(&both).expect("complete");
    // 4 × 60 MiB planned, 72 measured of the one process.
    let mut rows = plot.text.lines();
    let row = rows.find(|l| l.contains("240 MiB")).expect("one point");
    assert!(row.contains("all ranks") && row.contains("−70 %"), "{row}");
}

#[test]
fn a_run_without_a_plan_says_so() {
    let frame = ranks(3, 2).drop_many(["predicted_mem_bytes", "predicted_wall_ms"]);
    let plot = plan(&[case(setting("halo", 2), frame)]).expect("a blank sheet");
    assert!(plot.text.contains("Nothing was planned"), "{}", plot.text);
}
