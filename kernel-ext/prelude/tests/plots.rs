//! Plots as documents: well-formed, complete, honest about what they lack. Catches wrong marks,
//! wrong words and broken markup; cannot catch what only an eye sees (overlaps, ugliness).

mod common;

use common::marks::{COMPUTE, WAIT, boxes, checked};
use common::{case, comm, epochs, ranks, setting};
use halobook::plot::{Axis, Band, Case, Kind, balance, curve, matrix, stack};
use halobook::prelude::*;

fn every_kind(setting: &halobook::plot::Setting, epochs: u32) -> Vec<(Kind, Case)> {
    let frame = |kind: Kind| match kind.frame() {
        "epochs" => common::epochs(epochs, setting.ranks),
        "ranks" => ranks(epochs, setting.ranks),
        "stale" => common::stale(epochs, setting.ranks),
        "transfers" => common::transfers(epochs, setting.ranks),
        "schedule" => common::schedule(epochs, setting.ranks),
        "hec" => common::hec(epochs, setting.ranks),
        "spans" => common::spans(epochs, setting.ranks),
        _ => comm(epochs, setting.ranks),
    };
    let kinds = plot::KINDS.iter().map(|(_, kind, _)| *kind);
    kinds
        .map(|k| (k, case(setting.clone(), frame(k))))
        .collect()
}

#[test]
fn every_kind_draws_every_size() {
    for (p, n) in [(1, 0), (1, 1), (2, 1), (4, 200), (4, 1500), (40, 3)] {
        for (kind, case) in every_kind(&setting("halo", p), n) {
            let plot = kind.draw(std::slice::from_ref(&case));
            let plot = checked(plot.unwrap_or_else(|e| panic!("{kind:?} p={p} n={n}: {e}")));
            assert!(plot.svg.contains("(synthetic)"), "{kind:?}");
            assert!(plot.text.contains(&case.setting.run_id), "{kind:?}");
        }
    }
}

#[test]
fn hostile_names_stay_text() {
    let mut hostile = setting("<img src=x onerror=alert(1)>", 2);
    hostile.data = "a\"b'c<script>&\u{1}".into();
    hostile.run_id = "]]></svg>".into();
    hostile.name = "<svg onload=x>".into();
    hostile.status = "interrupted".into();
    for (kind, case) in every_kind(&hostile, 3) {
        checked(kind.draw(&[case]).expect("frames are complete"));
    }
    let both = [
        case(hostile.clone(), epochs(3, 2)),
        case(setting("halo", 2), epochs(3, 2)),
    ];
    checked(stack(&both).expect("frames are complete"));
    checked(curve(&both, Axis::Epoch, Band::default()).expect("frames are complete"));
}

#[test]
fn stack_has_a_bar_an_epoch_and_outlines_hidden_traffic() {
    let plot = checked(stack(&[case(setting("halo", 2), epochs(30, 2))]).expect("complete"));
    assert_eq!(boxes(&plot.svg, COMPUTE), 30);
    // The warm-up bar is cut below its wait.
    assert_eq!(boxes(&plot.svg, WAIT), 29);
    // One dashed outline an epoch and the legend's, less the clipped warm-up bar's.
    assert_eq!(plot.svg.matches("class=\"hb-s4\"").count(), 30);
    let pale = plot.svg.matches("opacity=\"0.35\"").count();
    assert!((1..=5).contains(&pale), "one bar is pale, not {pale} parts");
    assert!(
        plot.svg.contains("▲ "),
        "the warm-up bar is cut and says its size"
    );
    assert!(plot.svg.contains("1 warm-up (pale) left out of the median"));
    assert!(plot.svg.contains("epoch wall time (ms)"));
    let single = checked(stack(&[case(setting("single", 1), epochs(30, 1))]).expect("complete"));
    assert_eq!(boxes(&single.svg, WAIT), 0);
}

#[test]
fn parts_of_a_typical_epoch_add_up() {
    // Wall times 1, 3, 100 and a warm-up; parts are half each, so every summary is too.
    let walls = [50.0, 1.0, 3.0, 100.0];
    let half = walls.map(|w| w / 2.0);
    let frame = df!("epoch" => [0_u32, 1, 2, 3], "is_warmup" => [true, false, false, false],
        "wall_ms" => walls, "compute_ms" => half, "wait_ms" => half);
    let frame = frame.expect("columns have equal lengths");
    let plot = checked(stack(&[case(setting("halo", 2), frame)]).expect("complete"));
    assert!(plot.svg.contains("median epoch 3.00 ms"), "{}", plot.text);
    assert_eq!(plot.text.matches("50 %").count(), 2, "{}", plot.text);
}

#[test]
fn absent_parts_are_not_invented_and_gaps_are_told() {
    let frame = epochs(5, 2).drop("copy_ms").expect("the column is there");
    let plot = checked(stack(&[case(setting("halo", 2), frame)]).expect("complete"));
    assert!(!plot.text.contains("copy"));
    assert!(plot.svg.contains("parts miss wall time by up to"));
    let error = stack(&[case(
        setting("halo", 2),
        epochs(5, 2).drop("wall_ms").expect("there"),
    )]);
    let error = error.expect_err("wall time is needed").to_string();
    assert!(
        error.contains("\"wall_ms\"") && error.contains("help:"),
        "{error}"
    );
}

#[test]
fn long_runs_share_bars_and_say_so() {
    let plot = checked(stack(&[case(setting("halo", 2), epochs(1000, 2))]).expect("complete"));
    assert!(boxes(&plot.svg, COMPUTE) <= 202);
    assert!(plot.svg.contains("each bar is the mean of 5 epochs"));
}

#[test]
fn stacked_runs_get_one_bar_each() {
    let runs = [
        case(setting("single", 1), epochs(20, 1)),
        case(setting("halo", 2), epochs(20, 2)),
        case(setting("halo", 4), DataFrame::empty()),
    ];
    let error = stack(&runs)
        .expect_err("a frame without columns")
        .to_string();
    assert!(error.contains("epoch"), "{error}");
    let plot = checked(stack(&runs[..2]).expect("complete"));
    assert_eq!(boxes(&plot.svg, COMPUTE), 2);
    assert!(plot.text.contains("single · 1 rank") && plot.text.contains("halo · 2 ranks"));
}

#[test]
fn curve_marks_the_best_epoch_and_an_early_end() {
    let mut early = setting("halo", 2);
    early.status = "interrupted".into();
    let frame = epochs(57, 2);
    let plot = checked(
        curve(&[case(early.clone(), frame)], Axis::Epoch, Band::default()).expect("complete"),
    );
    assert!(plot.svg.contains(">interrupted<"));
    assert!(plot.text.contains("interrupted, last finished epoch 56"));
    assert!(plot.text.contains("best val"));
    let calm = checked(
        curve(
            &[case(setting("halo", 2), epochs(57, 2))],
            Axis::Seconds,
            Band::default(),
        )
        .expect("ok"),
    );
    assert!(calm.svg.contains("training time (s)") && !calm.svg.contains("interrupted"));
}

#[test]
fn curve_shows_the_score_of_the_task() {
    let links = df!("epoch" => [0_u32, 1, 2], "train_loss" => [1.0, 0.7, 0.5],
        "val_acc" => [None::<f64>, None, None], "val_auc" => [Some(0.6), None, Some(0.9)],
        "test_auc" => [Some(0.5), None, Some(0.8)]);
    let frame = links.expect("columns have equal lengths");
    let plot = checked(
        curve(
            &[case(setting("halo", 2), frame)],
            Axis::Epoch,
            Band::default(),
        )
        .expect("complete"),
    );
    assert!(plot.svg.contains("area under the ROC curve"));
    assert!(plot.svg.contains("validation AUC") && plot.svg.contains("test AUC"));
    assert!(plot.text.contains("best val 0.9"), "{}", plot.text);
}

#[test]
fn curve_survives_missing_numbers() {
    let unknown = df!("epoch" => [0_u32, 1, 2], "train_loss" => [1.0, f64::NAN, 0.5],
        "val_acc" => [None::<f64>, None, None]);
    let frame = unknown.expect("columns have equal lengths");
    let plot = checked(
        curve(
            &[case(setting("halo", 2), frame)],
            Axis::Epoch,
            Band::default(),
        )
        .expect("complete"),
    );
    assert!(plot.svg.contains("no accuracy was evaluated"));
    let nothing = df!("epoch" => [0_u32], "train_loss" => [f64::NAN]).expect("equal lengths");
    let plot = checked(
        curve(
            &[case(setting("halo", 2), nothing)],
            Axis::Epoch,
            Band::default(),
        )
        .expect("ok"),
    );
    assert!(plot.svg.contains("no finite loss"));
}

#[test]
fn seeds_become_a_band_other_settings_stay_lines() {
    let seeds: Vec<Case> = (0..3)
        .map(|s| {
            let mut setting = setting("halo", 2);
            setting.seed = Some(s);
            setting.run_id = format!("run-{s}");
            case(setting, epochs(20, 2))
        })
        .chain([case(setting("single", 1), epochs(20, 1))])
        .collect();
    let plot = checked(curve(&seeds, Axis::Epoch, Band::default()).expect("complete"));
    assert_eq!(
        plot.svg.matches("<polygon").count(),
        2,
        "a band in each panel"
    );
    assert!(plot.svg.contains("halo · 2 ranks (3 seeds)"));
    assert!(plot.svg.contains("single · 1 rank"));
}

#[test]
fn an_unknown_kind_names_the_nearest() {
    let error = Kind::parse("stak").expect_err("no such kind").to_string();
    assert!(error.contains("did you mean \"stack\"") && error.contains("help: kinds are curve"));
    assert_eq!(
        Kind::parse("curve_seconds").expect("known"),
        Kind::CurveSeconds
    );
    let two = vec![case(setting("halo", 2), ranks(1, 2)); 2];
    let error = Kind::Balance.draw(&two).expect_err("one run").to_string();
    assert!(error.contains("got 2"), "{error}");
}

/// Writes the plots to the folder in `HALOBOOK_PLOT_SAMPLES`, for eyes; skipped otherwise.
#[test]
fn samples_for_eyes() {
    let Some(dir) = std::env::var_os("HALOBOOK_PLOT_SAMPLES") else {
        println!("skip: HALOBOOK_PLOT_SAMPLES is not set");
        return;
    };
    let dir = std::path::PathBuf::from(dir);
    let save = |name: &str, plot: Plot| {
        plot.save(dir.join(format!("{name}.svg")))
            .expect("the folder is writable");
        println!("{name}\n{}\n", plot.text);
    };
    for (kind, case) in every_kind(&setting("halo", 4), 200) {
        save(&format!("{kind:?}"), kind.draw(&[case]).expect("complete"));
    }
    let few = [("single", 1), ("halo", 2), ("halo", 4)];
    let runs: Vec<Case> = few
        .iter()
        .map(|(s, p)| case(setting(s, *p), epochs(40 * p + 20, *p)))
        .collect();
    let mut stopped = runs.clone();
    stopped[1].setting.status = "interrupted".into();
    save(
        "curve-runs",
        curve(&stopped, Axis::Epoch, Band::default()).expect("complete"),
    );
    save(
        "curve-stopped",
        curve(&stopped[1..2], Axis::Epoch, Band::default()).expect("complete"),
    );
    for (name, report) in [
        ("partition-ring", ring(24, 4, true)),
        ("partition-8", ring(4000, 8, false)),
    ] {
        save(
            name,
            halobook::plot::cut(&report, "20260101-120000-cut").expect("draws"),
        );
    }
    // A cut of the reader's own: the folder that `halobook partition` names.
    if let Some(own) = std::env::var_os("HALOBOOK_PLOT_PARTITION") {
        save(
            "partition-own",
            halobook::plot_partition(own, "partition").expect("a cut's folder"),
        );
    }
    save("stack-runs", stack(&runs).expect("complete"));
    save(
        "stack-30",
        stack(&[case(setting("halo", 4), epochs(30, 4))]).expect("complete"),
    );
    save(
        "balance-40",
        balance(&case(setting("halo", 40), ranks(3, 40))).expect("complete"),
    );
    save(
        "matrix-16",
        matrix(&case(setting("halo", 16), comm(3, 16))).expect("complete"),
    );
    save(
        "matrix-2",
        matrix(&case(setting("halo", 2), comm(3, 2))).expect("complete"),
    );
    save(
        "blank",
        stack(&[case(setting("halo", 2), DataFrame::empty())]).expect("complete"),
    );
}

/// A ring of `n` vertices in `parts` runs, as a report.
fn ring(n: u32, parts: u32, picture: bool) -> launcher::partition::Report {
    use launcher::partition::{Picture, Report};
    let owner = |v: u32| v * parts / n;
    let mut matrix = vec![vec![0; parts as usize]; parts as usize];
    for v in 0..n {
        for s in [(v + 1) % n, (v + n - 1) % n] {
            matrix[owner(v) as usize][owner(s) as usize] += 1;
        }
    }
    Report {
        data: "rmat:scale=4".into(),
        synthetic: true,
        method: "chunk".into(),
        parts,
        seed: 3,
        nodes: u64::from(n),
        edges: 2 * u64::from(n),
        cut_share: f64::from(parts) / f64::from(n),
        alpha: 0.25,
        node_balance: 1.0,
        edge_balance: 1.0,
        train_balance: 1.5,
        hash_cut_share: Some(0.75),
        hash_alpha: None,
        ms: 1.0,
        peak_bytes: 1,
        predicted_bytes: 1,
        predicted_ms: 1.0,
        types: Vec::new(),
        cached: false,
        nested: None,
        matrix,
        picture: picture.then(|| Picture {
            owner: (0..n).map(owner).collect(),
            train: (0..n).map(|v| v == 0).collect(),
            boundary: (0..n)
                .map(|v| owner(v) != owner((v + 1) % n) || owner(v) != owner((v + n - 1) % n))
                .collect(),
            edges: (0..n)
                .map(|v| (v.min((v + 1) % n), v.max((v + 1) % n)))
                .collect(),
        }),
    }
}

#[test]
fn a_small_cut_is_drawn_by_owner_with_its_halo() {
    let plot = checked(halobook::plot::cut(&ring(24, 4, true), "id").expect("draws"));
    let rings = |class: u8| {
        let is = |l: &&str| l.starts_with("<circle") && l.contains(&format!("hb-s{class}\""));
        plot.svg.lines().filter(is).count()
    };
    // Two ends a part, and one in the legend.
    assert_eq!(rings(14), 2 * 4 + 1);
    assert_eq!(rings(0), 1 + 1, "the training vertex and its legend");
    for says in [
        "synthetic",
        "hash 75 %",
        "part 3",
        "chunk into 4 parts",
        "1.50 training",
    ] {
        assert!(plot.svg.contains(says), "{says}");
    }
    for says in ["part 3", "from 0", "cut"] {
        assert!(plot.text.contains(says), "{}", plot.text);
    }
}

#[test]
fn a_large_cut_is_a_matrix_and_many_parts_share_cells() {
    let plot = checked(halobook::plot::cut(&ring(4000, 8, false), "id").expect("draws"));
    let heats: usize = (32..=40).map(|class| boxes(&plot.svg, class)).sum();
    // A cell either way for each pair of neighbours round the ring, and the scale's nine.
    assert_eq!(heats, 16 + 9);
    let plot = checked(halobook::plot::cut(&ring(4000, 300, false), "id").expect("draws"));
    assert!(plot.svg.contains("a cell is 5 × 5 parts") && plot.text.contains("more parts"));
    let none = case(setting("single", 1), ranks(1, 1));
    let plot = checked(Kind::Partition.draw(&[none]).expect("says so"));
    assert!(plot.svg.contains("nothing was cut"));
}

/// Five epochs of two ranks, rank 1 with a disk.
#[test]
fn transfers_say_what_loading_once_saves_and_what_copying_takes() {
    let hongtu = setting("hongtu", 2);
    let plot = plot::transfers(&case(hongtu, common::transfers(5, 2))).expect("draws");
    let plot = checked(plot);
    for part in [
        "4 chunks a rank",
        "rows saved: 25 % by batches, 50 % by keeping",
        "2.00 KiB to devices, 1.00 KiB back",
        "disk: 100 B read, 50 B written",
    ] {
        assert!(plot.text.contains(part), "{part}: {}", plot.text);
    }
    for part in ["by each chunk", "and kept", "waiting for the disk"] {
        assert!(plot.svg.contains(part), "{part}");
    }
    let row = plot.text.lines().find(|l| l.trim_start().starts_with("1 "));
    let cells: Vec<&str> = row.expect("a row a rank").split_whitespace().collect();
    assert_eq!(
        &cells[..6],
        ["1", "3.000", "2.000", "5.000", "1.000", "4.000"]
    );
}

/// Nine launches of two ranks each: two at the start, one because few were left.
#[test]
fn schedules_say_why_batches_were_begun() {
    let bytegnn = setting("bytegnn", 2);
    let plot = plot::schedule(&case(bytegnn, common::schedule(9, 2))).expect("draws");
    let plot = checked(plot);
    for part in [
        "18 launches by 2 ranks: 12 by the score, 2 at the start, 4 because few were left",
        "cores in use 50 %",
        "at most 2.00 KiB held",
    ] {
        assert!(plot.text.contains(part), "{part}: {}", plot.text);
    }
    for part in ["batches held", "score / threshold", "rank 1"] {
        assert!(plot.svg.contains(part), "{part}");
    }
    let row = plot.text.lines().find(|l| l.trim_start().starts_with("1 "));
    let cells: Vec<&str> = row.expect("a row a rank").split_whitespace().collect();
    assert_eq!(cells, ["1", "9", "6", "1", "2", "2.0", "50", "10.00"]);
}

/// Five epochs of two ranks with two layers, of which the second finds less and is further off.
#[test]
fn historical_caches_say_what_they_find_and_how_old_it_is() {
    let case = case(setting("distgnn-mb", 2), common::hec(5, 2));
    let plot = checked(plot::hec(&case).expect("draws"));
    for part in [
        "found 75/50 % by layer",
        "20 % of the edges dropped",
        "4.00 KiB pushed in the last epoch",
    ] {
        assert!(plot.text.contains(part), "{part}: {}", plot.text);
    }
    for part in [
        "found (%)",
        "edges dropped (%)",
        "ms a rank",
        "layer 1",
        "waiting",
    ] {
        assert!(plot.svg.contains(part), "{part}");
    }
    let row = plot.text.lines().find(|l| l.trim_start().starts_with("1 "));
    let cells: Vec<&str> = row.expect("a row a layer").split_whitespace().collect();
    assert_eq!(cells[..7], ["1", "1", "000", "50.0", "4", "000", "20.0"]);
    // Its rows are old ones, too.
    let ages = checked(Kind::Stale.draw(&[case]).expect("draws"));
    for part in ["rows found are 1.00 steps old, at most 2", "off by 15 %"] {
        assert!(ages.text.contains(part), "{part}: {}", ages.text);
    }
    assert!(ages.svg.contains("relative error"));
    let frames = |name: &str| Kind::Stale.frame_of(&["epochs".to_owned(), name.to_owned()]);
    assert_eq!([frames("hec"), frames("stale")], ["hec", "stale"]);
}

/// Nine epochs of two ranks, 4000 and 4001 bytes each: the features 8 times not sent, the rows of
/// the second layer sent in three epochs.
#[test]
fn staleness_is_drawn_with_its_bound_and_features_stand_apart() {
    let mut sancus = setting("sancus", 2);
    sancus.bound = "epoch-fixed=2".into();
    let plot = plot::stale(&case(sancus, common::stale(9, 2))).expect("draws");
    for part in [
        "bound epoch-fixed=2",
        "43.0 KiB not sent",
        "features sent once: 62.5 KiB more, not counted",
    ] {
        assert!(plot.text.contains(part), "{part}: {}", plot.text);
    }
    let row = plot
        .text
        .lines()
        .find(|l| l.starts_with("1, 0"))
        .expect("a row a rank");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(&cells[..6], ["1,", "0", "3", "6", "1.500", "2"], "{row}");
    for part in [
        "layer 1 · rank 1",
        "age of the rows used",
        "the bound",
        "drift",
    ] {
        assert!(plot.svg.contains(part), "{part}");
    }
    let none = plot::stale(&case(setting("halo", 2), common::stale(0, 2))).expect("blank");
    assert!(none.text.contains("No rows were reused"), "{}", none.text);
}
