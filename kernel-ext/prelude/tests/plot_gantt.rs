//! The plot `gantt`: lanes, the critical path, a part of an epoch. Catches wrong marks and wrong words; cannot
//! catch what only an eye sees.

mod common;

use common::marks::{COMPUTE, WAIT, boxes, checked};
use common::{case, setting};
use halobook::plot::{Kind, View, gantt};

#[test]
fn gantt_has_a_lane_a_rank_and_names_who_is_waited_for() {
    let traced = case(setting("halo", 3), common::spans(4, 3));
    let plot = checked(Kind::Gantt.draw(&[traced]).expect("complete"));
    // Aggregation and update are one piece of compute; the optimiser's is apart.
    assert_eq!((boxes(&plot.svg, COMPUTE), boxes(&plot.svg, WAIT)), (6, 2));
    assert!(plot.svg.contains(">rank 0<") && plot.svg.contains(">rank 2<"));
    let said = "critical path: rank 2 5.00 ms";
    assert!(
        plot.svg.contains(said) && plot.text.contains(said),
        "{}",
        plot.text
    );
    assert!(
        plot.text.contains("clocks agree within 3.0 µs"),
        "{}",
        plot.text
    );
    assert!(plot.text.contains("rank 2: 2.00 ms"), "{}", plot.text);
    let none = case(setting("halo", 3), common::spans(0, 3));
    let plot = checked(Kind::Gantt.draw(&[none]).expect("says so"));
    assert!(plot.text.contains("trace = true"), "{}", plot.text);
}

#[test]
fn a_part_of_a_gantt_has_times_of_its_own_and_the_whole_ones_critical_path() {
    let traced = case(setting("halo", 3), common::spans(4, 3));
    let whole = gantt(&traced, View::default()).expect("complete");
    let zoom = |from, to| View {
        epoch: Some(2),
        zoom: Some((from, to)),
    };
    let plot = checked(gantt(&traced, zoom(1.0, 2.5)).expect("complete"));
    assert!(
        plot.text.contains("epoch 2: 1.00 ms to 2.50 ms of its"),
        "{}",
        plot.text
    );
    assert!(
        plot.text.contains("critical path: rank 2 1.50 ms"),
        "{}",
        plot.text
    );
    assert!(
        plot.text.contains("the part shown of epoch 2"),
        "{}",
        plot.text
    );
    assert!(whole.svg.contains("rank 2 5.00 ms") && !plot.svg.contains("rank 2 5.00 ms"));
    let beyond = gantt(&traced, zoom(900.0, 901.0)).expect_err("there is nothing");
    assert!(
        beyond.to_string().contains("epoch 2 ends after"),
        "{beyond}"
    );
    for (text, range) in [
        ("2.5..4", Some((2.5, 4.0))),
        ("-1..4", Some((0.0, 4.0))),
        ("4..4", None),
        ("4", None),
        ("a..b", None),
    ] {
        assert_eq!(View::range(text), range, "{text}");
    }
}
