//! Plots of many runs: speed-up by ranks, time against bytes. Catches a wrong base, repeats or rank counts
//! that are not grouped, a beaten setting that is not faded; that sheets are well-formed at every size is
//! tested with all kinds (`plots.rs`).

mod common;

use common::marks::checked;
use common::{case, epochs, setting};
use halobook::plot::{Axis, Band, Case, Setting, curve, pareto, speedup, stack};
use halobook::prelude::*;

/// Epochs that all take so long, send so much, and learn by so much each.
fn steady(ms: f64, bytes: u64, gain: f64) -> DataFrame {
    let n = 10;
    let score = |i: usize| (gain * (i + 1) as f64).min(0.8);
    df!(
        "epoch" => (0..n as u32).collect::<Vec<u32>>(),
        "is_warmup" => (0..n).map(|i| i == 0).collect::<Vec<bool>>(),
        "wall_ms" => vec![ms; n], "bytes" => vec![bytes; n],
        "val_acc" => (0..n).map(score).collect::<Vec<f64>>(),
    )
    .expect("columns have equal lengths")
}

fn named(strategy: &str, ranks: u32, seed: u64) -> Setting {
    Setting {
        seed: Some(seed),
        ..setting(strategy, ranks)
    }
}

#[test]
fn speedup_is_held_against_one_rank_and_groups_repeats() {
    let mut crowded = named("halo", 4, 0);
    crowded.oversubscribed = true;
    let cases = [
        case(named("single", 1, 0), steady(12.0, 0, 0.1)),
        case(named("halo", 2, 0), steady(6.0, 1, 0.1)),
        case(named("halo", 2, 1), steady(8.0, 1, 0.1)),
        case(named("halo", 2, 2), steady(8.0, 1, 0.1)),
        case(crowded, steady(4.0, 1, 0.1)),
    ];
    let plot = speedup(&cases).expect("complete");
    let row = |ranks: &str| {
        let rows = plot.text.lines().filter(|l| l.contains("halo"));
        rows.clone().find(|l| l.contains(ranks)).map(str::to_owned)
    };
    let two = row(" 2 ").expect("a row of two ranks");
    assert!(two.contains("1.50") && two.contains("75 %"), "{two}");
    let four = row("shared cores").expect("a row that says it");
    assert!(four.contains("3.00"), "{four}");
    assert!(plot.text.contains("over the fastest epoch on one rank"));
    assert!(plot.svg.contains("efficiency") && plot.svg.contains("hollow points"));
}

/// Two cores, shared out: one rank has two threads, two ranks have one each, and that is no speed-up by two.
#[test]
fn ranks_that_share_the_same_cores_are_not_held_against_their_number() {
    let of = |ranks, threads, ms| {
        let mut setting = named("halo", ranks, 0);
        setting.threads = threads;
        case(setting, steady(ms, 1, 0.1))
    };
    let plot = speedup(&[of(1, 2, 10.0), of(2, 1, 9.0)]).expect("complete");
    assert!(plot.text.contains("10.0 ms on 2 threads"), "{}", plot.text);
    assert!(
        plot.text.contains("unlike numbers of threads"),
        "{}",
        plot.text
    );
    let two = plot
        .text
        .lines()
        .find(|l| l.contains("9.00 ms"))
        .expect("a row");
    assert!(two.contains("1.11") && two.contains("111 %"), "{two}");
    let labels = stack(&[of(1, 2, 10.0), of(2, 1, 9.0)])
        .expect("complete")
        .text;
    assert!(labels.contains("2 ranks · 1 thread each"), "{labels}");
}

#[test]
fn without_one_rank_the_fewest_are_ideal() {
    let cases = [
        case(named("halo", 2, 0), steady(6.0, 1, 0.1)),
        case(named("halo", 4, 0), steady(6.0, 1, 0.1)),
    ];
    let plot = speedup(&cases).expect("complete");
    let last = plot.text.lines().rfind(|l| l.contains("50 %"));
    assert!(last.is_some_and(|l| l.contains("2.00")), "{}", plot.text);
}

#[test]
fn beaten_settings_are_faded_and_those_that_never_arrive_named() {
    let cases: Vec<Case> = [
        ("quick", steady(1.0, 100, 0.2)),
        ("frugal", steady(5.0, 10, 0.2)),
        ("beaten", steady(6.0, 200, 0.2)),
        ("never", steady(1.0, 1, 0.01)),
    ]
    .map(|(name, frame)| case(named(name, 2, 0), frame))
    .into();
    let plot = pareto(&cases).expect("complete");
    let row = |name: &str| {
        let mut rows = plot.text.lines().skip(3);
        rows.find(|l| l.contains(name))
            .unwrap_or_default()
            .to_owned()
    };
    assert!(row("quick").ends_with("best"), "{}", plot.text);
    assert!(row("frugal").ends_with("best"), "{}", plot.text);
    assert!(row("beaten").ends_with("beaten"), "{}", plot.text);
    assert!(plot.text.contains("never: never"), "{}", plot.text);
}

#[test]
fn a_target_that_all_runs_name_is_the_one() {
    let named = |strategy: &str, target| Setting {
        target,
        ..named(strategy, 2, 0)
    };
    let with = |a, b| {
        let cases = [
            case(named("slow", a), steady(2000.0, 10, 0.1)),
            case(named("quick", b), steady(1000.0, 10, 0.1)),
        ];
        pareto(&cases).expect("complete").text
    };
    let same = with(Some(0.3), Some(0.3));
    assert!(same.contains("reaches 0.3000 (as asked for)"), "{same}");
    let quick = same.lines().find(|line| line.starts_with("quick"));
    assert!(quick.is_some_and(|line| line.contains("3000 ms")), "{same}");
    for other in [with(Some(0.3), Some(0.4)), with(Some(0.3), None)] {
        assert!(other.contains("99 % of the best"), "{other}");
    }
}

#[test]
fn real_looking_runs_draw() {
    let cases: Vec<Case> = [1, 2, 4]
        .map(|ranks| case(setting("halo", ranks), epochs(40, ranks)))
        .into();
    let all = sweep();
    let curves = curve(&all, Axis::Epoch, Band::Std);
    for plot in [
        speedup(&cases),
        pareto(&cases),
        pareto(&all),
        stack(&all),
        curves,
    ] {
        let plot = plot.expect("complete");
        if let Some(dir) = std::env::var_os("HALOBOOK_PLOT_SAMPLES") {
            let name = plot
                .text
                .lines()
                .next()
                .unwrap_or_default()
                .replace(' ', "-");
            plot.save(std::path::Path::new(&dir).join(format!("{name}.svg")))
                .expect("the folder is there");
        }
        assert!(!plot.text.contains("0 ranks"), "{}", plot.text);
        assert!(plot.svg.ends_with("</svg>\n") && plot.text.contains("halo"));
    }
}

/// Three strategies on one to four ranks, three seeds each.
fn sweep() -> Vec<Case> {
    ["halo", "broadcast", "sancus"]
        .iter()
        .flat_map(|strategy| [1_u32, 2, 3, 4].map(|p| (*strategy, p)))
        .flat_map(|(strategy, p)| (0..3).map(move |seed| (strategy, p, seed)))
        .map(|(strategy, p, seed)| {
            let mut setting = setting(strategy, p);
            setting.seed = Some(seed);
            setting.run_id = format!("{strategy}-{p}-{seed}");
            case(setting, epochs(20, p))
        })
        .collect()
}

#[test]
fn many_lines_are_rows_of_panels_and_seeds_are_no_names() {
    let all = sweep();
    for band in [Band::Range, Band::Std] {
        let plot = checked(curve(&all, Axis::Epoch, band).expect("complete"));
        assert!(plot.svg.contains("36 runs, 12 lines: ") && plot.svg.contains("36 runs, "));
        assert!(
            plot.svg.contains(">halo · 2 ranks<") && !plot.svg.contains("seed 0"),
            "{}",
            plot.text
        );
        assert_eq!(
            plot.svg.matches("training loss").count(),
            3,
            "a row a strategy"
        );
        assert_eq!(plot.svg.matches("<polygon").count(), 24);
    }
}

#[test]
fn stack_merges_repeats_and_begins_with_the_quickest() {
    let seeds = |strategy: &str, p: u32| {
        let strategy = strategy.to_owned();
        (0..2).map(move |seed| {
            let mut setting = setting(&strategy, p);
            setting.seed = Some(seed);
            case(setting, epochs(20, p))
        })
    };
    let all: Vec<Case> = seeds("single", 1).chain(seeds("halo", 4)).collect();
    let plot = checked(stack(&all).expect("complete"));
    let named = |l: &&str| l.starts_with("halo") || l.starts_with("single");
    let rows: Vec<&str> = plot.text.lines().filter(named).collect();
    assert!(
        rows[0].starts_with("halo · 4 ranks") && rows[1].starts_with("single · 1 rank"),
        "{rows:?}"
    );
    assert!(
        plot.text.contains("mean over repeats") && !plot.text.contains("seed 0"),
        "{}",
        plot.text
    );
}
