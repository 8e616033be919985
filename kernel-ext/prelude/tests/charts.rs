//! Charts of a user's own frame: what is drawn, what stands in the text, what is refused. Cannot catch what only an
//! eye sees.

mod common;

use common::marks::checked;
use halobook::prelude::*;

fn times() -> DataFrame {
    df!(
        "ranks" => [1, 2, 4, 1, 2, 4, 1, 2, 4, 1, 2, 4],
        "epoch_ms" => [8.0, 5.0, 3.0, 8.4, 5.2, 3.2, 9.0, 4.0, 2.0, 9.2, 4.4, 2.2],
        "strategy" => ["halo", "halo", "halo", "halo", "halo", "halo", "bc", "bc", "bc", "bc", "bc", "bc"],
        "data" => ["karate", "karate", "karate", "sbm:n", "sbm:n", "sbm:n", "karate", "karate", "karate", "sbm:n", "sbm:n", "sbm:n"],
        "half" => [0.5; 12],
    )
    .expect("columns have equal lengths")
}

#[test]
fn every_mark_draws_with_series_and_panels() {
    let t = times();
    let charts = [
        plot(&t).line("ranks", "epoch_ms").by("strategy"),
        plot(&t)
            .line("ranks", "epoch_ms")
            .by("strategy")
            .facet("data"),
        plot(&t).scatter("ranks", "epoch_ms").by("strategy"),
        plot(&t).bar("ranks", "epoch_ms").by("strategy").err("std"),
        plot(&t).bar("data", "epoch_ms").err("half"),
        plot(&t)
            .hist("epoch_ms")
            .by("strategy")
            .facet("data")
            .bins(5),
        plot(&t).boxes("strategy", "epoch_ms").title("Boxes"),
        plot(&t).heat("ranks", "strategy", "epoch_ms"),
    ];
    for (k, chart) in charts.iter().enumerate() {
        let plot = checked(
            chart
                .try_plot()
                .unwrap_or_else(|error| panic!("{k}: {error}")),
        );
        assert!(
            plot.svg.contains("12 rows") && plot.svg.contains("sbm:n (synthetic)"),
            "{k}"
        );
        assert!(plot.svg.contains("<title>"), "a pointer reads something");
        if let Some(dir) = std::env::var_os("HALOBOOK_PLOT_SAMPLES") {
            plot.save(std::path::Path::new(&dir).join(format!("chart-{k}.svg")))
                .expect("the folder is there");
        }
    }
}

#[test]
fn repeats_are_drawn_as_they_are_asked_for() {
    let t = times();
    let row = |err: &str| {
        let chart = plot(&t).line("ranks", "epoch_ms").by("strategy").err(err);
        let text = chart.plot().text;
        text.lines()
            .find(|l| l.starts_with('1'))
            .map(str::to_owned)
            .expect("a row of one rank")
    };
    assert!(
        row("range").contains("8.20 [8 to 8.40]"),
        "{}",
        row("range")
    );
    assert!(row("std").contains("8.20 [7.92 to 8.48]"), "{}", row("std"));
    assert!(
        row("half").contains("8.20 [7.70 to 8.70]"),
        "{}",
        row("half")
    );
    assert!(!row("none").contains('['), "{}", row("none"));
    // The mean of two, and t(0.975, 1) = 12.7062 times its standard error.
    assert!(row("ci").contains("8.20 [5.66 to 10.7]"), "{}", row("ci"));
}

#[test]
fn counts_of_a_histogram_are_those_of_the_rows() {
    let text = plot(&times()).hist("epoch_ms").bins(4).plot().text;
    let counts = text
        .lines()
        .filter_map(|l| l.split_whitespace().nth(2)?.parse::<usize>().ok());
    assert_eq!(counts.sum::<usize>(), 12, "{text}");
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let t = times();
    let refused =
        |chart: halobook::chart::Chart| chart.try_plot().expect_err("refused").to_string();
    let unknown = refused(plot(&t).line("ranks", "epoch_s"));
    assert!(
        unknown.contains("no column \"epoch_s\"; did you mean \"epoch_ms\"?"),
        "{unknown}"
    );
    assert!(
        unknown.contains("its columns are ranks, epoch_ms"),
        "{unknown}"
    );
    let words = refused(plot(&t).line("ranks", "strategy"));
    assert!(words.contains("column \"strategy\" holds str"), "{words}");
    let many =
        df!("x" => (0..20).collect::<Vec<_>>(), "y" => vec![1.0; 20]).expect("equal lengths");
    let series = refused(plot(&many).line("x", "y").by("x"));
    assert!(series.contains("20 series are more than the 6"), "{series}");
    assert!(refused(plot(&many).line("x", "y").facet("x")).contains("20 panels"));
    assert!(
        refused(plot(&t).heat("ranks", "data", "half").by("strategy")).contains("neither series")
    );
    let empty = plot(&t.head(Some(0))).line("ranks", "epoch_ms").plot();
    assert!(empty.svg.contains("There is no number to draw."));
}

#[test]
fn plans_and_fallible_frames_are_drawn_as_well() {
    let lazy = times().lazy().filter(col("ranks").gt(1));
    checked(plot(&lazy).bar("ranks", "epoch_ms").plot());
    checked(plot(&lazy.collect()).bar("ranks", "epoch_ms").plot());
}
