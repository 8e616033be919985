//! Plots of ranks: the load of each, and bytes between them. As in `plots.rs`, what only an eye sees is not caught.

mod common;

use common::marks::{COMPUTE, boxes, checked};
use common::{case, comm, ranks, setting};
use halobook::plot::{balance, matrix, matrix_by_layer};
use halobook::prelude::*;

#[test]
fn balance_names_the_slowest_rank() {
    let plot = checked(balance(&case(setting("halo", 4), ranks(10, 4))).expect("complete"));
    // Compute is 4, 5, 6, 7 ms without the warm-up epoch: 7 / 5.5.
    assert!(
        plot.svg
            .contains("max/mean compute 1.27 · most is rank 3 with 7.00 ms")
    );
    assert_eq!(boxes(&plot.svg, COMPUTE), 4);
    assert_eq!(plot.svg.matches("<circle").count(), 4 * 3 + 3);
    let one = checked(balance(&case(setting("single", 1), ranks(10, 1))).expect("complete"));
    assert!(one.svg.contains("nothing to balance"));
}

/// Ranks that wait for one another take as long: their bars end at one height.
#[test]
fn balance_draws_all_of_the_wall_time() {
    let each = |of: [f64; 3]| of.repeat(4);
    let frame = df!(
        "epoch" => [0_u32, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
        "rank" => [0_u32, 1, 2].repeat(4),
        "wall_ms" => each([10.0, 10.0, 10.0]),
        "compute_ms" => each([2.0, 5.0, 3.0]), "copy_ms" => each([0.5, 0.5, 0.5]),
        "xfer_exposed_ms" => each([4.0, 1.0, 2.0]), "wait_ms" => each([3.0, 3.0, 4.0]),
        "other_ms" => each([0.5, 0.5, 0.5]),
    );
    let frame = frame.expect("columns have equal lengths");
    let plot = checked(balance(&case(setting("halo", 3), frame)).expect("complete"));
    let first = plot
        .text
        .lines()
        .find(|l| l.starts_with("rank "))
        .expect("names of columns");
    for part in [
        "compute ms",
        "copy ms",
        "exposed transfer ms",
        "wait ms",
        "other ms",
        "wall ms",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
    let row = plot
        .text
        .lines()
        .find(|l| l.starts_with("0 "))
        .expect("rank 0");
    let cells: Vec<f64> = row
        .split_whitespace()
        .filter_map(|c| c.parse().ok())
        .collect();
    assert_eq!(cells[..7], [0.0, 2.0, 0.5, 4.0, 3.0, 0.5, 10.0], "{row}");
    assert!(
        plot.svg
            .contains("<title>rank 0: exposed transfer 4.00 ms</title>")
    );
}

#[test]
fn matrix_counts_what_was_sent() {
    let all = case(setting("halo", 3), comm(2, 3));
    let plot = checked(matrix(&all).expect("complete"));
    assert!(plot.svg.contains("evaluation&#39;s") && plot.svg.contains("largest pair 0 → 1"));
    assert_eq!(plot.text.matches("\nrank ").count(), 3);
    let heats: usize = (32..=40).map(|k| boxes(&plot.svg, k)).sum();
    assert_eq!(heats, 6 + 9, "six pairs and the scale");
    let faceted = checked(matrix_by_layer(&all).expect("complete"));
    assert!(faceted.svg.contains("layer 0: ") && faceted.svg.contains("layer 1: "));
    let quiet = df!("src" => [0_u32], "dst" => [1_u32], "bytes" => [0_u64]).expect("equal");
    let plot = checked(matrix(&case(setting("halo", 2), quiet)).expect("complete"));
    assert!(plot.svg.contains("no bytes moved"));
}
