//! Frames with the columns of a real run, made from formulas so that every check knows its answer.
#![allow(dead_code)] // each test binary uses its own part

pub mod marks;

use halobook::plot::{Case, Setting};
use halobook::prelude::*;

/// A setting on a generated graph.
pub fn setting(strategy: &str, ranks: u32) -> Setting {
    Setting {
        run_id: format!("20260101-120000-{strategy}{ranks}"),
        data: "sbm:nodes=2000,classes=4".into(),
        model: "gcn".into(),
        strategy: strategy.into(),
        backend: "cpu".into(),
        launch: if ranks > 1 { "mpi" } else { "threads" }.into(),
        status: "ok".into(),
        host_class: "2-core x86-64".into(),
        ranks,
        seed: Some(0),
        ..Setting::default()
    }
}

pub fn case(setting: Setting, frame: DataFrame) -> Case {
    Case {
        setting,
        frame,
        cut: None,
    }
}

/// A repeatable wobble in -1..1.
fn wobble(i: usize) -> f64 {
    ((i as f64 * 12.9898).sin() * 43758.547).fract()
}

/// An `epochs` frame: the first epoch is warm-up, every fifth has no accuracy.
pub fn epochs(n: u32, ranks: u32) -> DataFrame {
    let each = |f: &dyn Fn(usize) -> f64| (0..n as usize).map(f).collect::<Vec<f64>>();
    let p = f64::from(ranks);
    let slow = |i: usize| if i == 0 { 6.0 } else { 1.0 };
    let compute = each(&|i| slow(i) * (8.0 / p) * (1.0 + 0.05 * wobble(i)));
    let copy = each(&|i| slow(i) * 0.25);
    let exposed = each(&|i| {
        if ranks > 1 {
            0.9 + 0.2 * wobble(i + 7)
        } else {
            0.0
        }
    });
    let wait = each(&|i| {
        if ranks > 1 {
            0.7 + 0.3 * wobble(i + 3)
        } else {
            0.0
        }
    });
    let other = each(&|_| 0.15);
    let hidden = each(&|i| {
        if ranks > 1 {
            0.8 + 0.1 * wobble(i + 1)
        } else {
            0.0
        }
    });
    let wall = each(&|i| compute[i] + copy[i] + exposed[i] + wait[i] + other[i]);
    let loss = each(&|i| 0.25 + 1.2 * (-(i as f64) / 40.0).exp() + 0.01 * wobble(i));
    let acc = |i: usize| 0.84 - 0.6 * (-(i as f64) / 25.0).exp() + 0.01 * wobble(i + 5);
    let val: Vec<Option<f64>> = (0..n as usize)
        .map(|i| (i % 5 != 4).then(|| acc(i)))
        .collect();
    let test: Vec<Option<f64>> = val.iter().map(|v| v.map(|v| v - 0.015)).collect();
    df!(
        "run_id" => vec!["r"; n as usize],
        "epoch" => (0..n).collect::<Vec<u32>>(),
        "is_warmup" => (0..n).map(|i| i == 0).collect::<Vec<bool>>(),
        "wall_ms" => wall, "train_loss" => loss, "val_acc" => val, "test_acc" => test,
        "compute_ms" => compute, "copy_ms" => copy, "xfer_exposed_ms" => exposed,
        "wait_ms" => wait, "other_ms" => other, "comm_hidden_ms" => hidden,
        "bytes" => vec![u64::from(ranks - 1) << 20; n as usize],
    )
    .expect("columns have equal lengths")
}

/// A `ranks` frame; rank `i` computes `1 + i / 4` times the base.
pub fn ranks(n: u32, p: u32) -> DataFrame {
    let rows: Vec<(u32, u32)> = (0..n).flat_map(|e| (0..p).map(move |r| (e, r))).collect();
    let per = |f: &dyn Fn(u32) -> u64| rows.iter().map(|(_, r)| f(*r)).collect::<Vec<u64>>();
    let most = 4.0 * (1.0 + f64::from(p - 1) / 4.0);
    let compute: Vec<f64> = rows
        .iter()
        .map(|(e, r)| 4.0 * (1.0 + f64::from(*r) / 4.0) * if *e == 0 { 5.0 } else { 1.0 })
        .collect();
    let wait: Vec<f64> = compute.iter().map(|c| (most - c).max(0.0) + 0.2).collect();
    df!(
        "epoch" => rows.iter().map(|(e, _)| *e).collect::<Vec<u32>>(),
        "rank" => rows.iter().map(|(_, r)| *r).collect::<Vec<u32>>(),
        "is_warmup" => rows.iter().map(|(e, _)| *e == 0).collect::<Vec<bool>>(),
        "compute_ms" => compute, "wait_ms" => wait,
        "owned_nodes" => per(&|r| 500 + 20 * u64::from(r)),
        "halo_nodes" => per(&|r| 310_u64.saturating_sub(15 * u64::from(r))),
        "train_nodes" => per(&|r| 40 + u64::from(r)),
        "mem_peak_bytes" => per(&|r| (60 + 4 * u64::from(r)) << 20),
        "predicted_mem_bytes" => per(&|_| 60 << 20),
        "predicted_wall_ms" => rows.iter().map(|(_, r)| (r % 2 == 0).then_some(2.0)).collect::<Vec<Option<f64>>>(),
        "wall_ms" => rows.iter().map(|(e, _)| if *e == 0 { 50.0 } else { 3.0 }).collect::<Vec<f64>>(),
    )
    .expect("columns have equal lengths")
}

/// A `comm` frame of two layers and a gradient; the pair 0 → 1 sends most, `eval` rows apart.
pub fn comm(n: u32, p: u32) -> DataFrame {
    let mut rows: Vec<(u32, u32, &str, u32, u32, u64)> = Vec::new();
    for epoch in 0..n {
        for (layer, direction) in [(0, "forward"), (1, "forward"), (1, "backward"), (0, "eval")] {
            for src in 0..p {
                for dst in (0..p).filter(|d| *d != src) {
                    let distance = u64::from(src.abs_diff(dst));
                    let bytes =
                        40_000 / (distance * distance * distance) + u64::from(3 * (p - src));
                    rows.push((epoch, layer, direction, src, dst, bytes >> layer));
                }
            }
        }
    }
    df!(
        "epoch" => rows.iter().map(|r| r.0).collect::<Vec<u32>>(),
        "layer" => rows.iter().map(|r| r.1).collect::<Vec<u32>>(),
        "direction" => rows.iter().map(|r| r.2).collect::<Vec<&str>>(),
        "src" => rows.iter().map(|r| r.3).collect::<Vec<u32>>(),
        "dst" => rows.iter().map(|r| r.4).collect::<Vec<u32>>(),
        "bytes" => rows.iter().map(|r| r.5).collect::<Vec<u64>>(),
    )
    .expect("columns have equal lengths")
}

/// A `stale` frame: features that are sent once, and a second layer sent every third epoch, by odd
/// ranks one epoch later.
pub fn stale(n: u32, p: u32) -> DataFrame {
    let mut rows: Vec<(u32, u32, u32, u32, &str, u32)> = Vec::new();
    for epoch in 0..n {
        for rank in 0..p {
            let age = (epoch + 3 - rank % 2) % 3;
            let age = if epoch == 0 { 0 } else { age };
            let state = if age == 0 { "active" } else { "stale" };
            for peer in (0..p).filter(|q| *q != rank) {
                rows.push((epoch, rank, 0, peer, "input", epoch));
                rows.push((epoch, rank, 1, peer, state, age));
            }
        }
    }
    let sent = |r: &(u32, u32, u32, u32, &str, u32)| match r.5 {
        0 => 4000 + u64::from(r.1),
        _ => 0,
    };
    let saved = |r: &(u32, u32, u32, u32, &str, u32)| 4000 + u64::from(r.1) - sent(r);
    df!(
        "epoch" => rows.iter().map(|r| r.0).collect::<Vec<u32>>(),
        "rank" => rows.iter().map(|r| r.1).collect::<Vec<u32>>(),
        "layer" => rows.iter().map(|r| r.2).collect::<Vec<u32>>(),
        "peer" => rows.iter().map(|r| r.3).collect::<Vec<u32>>(),
        "state" => rows.iter().map(|r| r.4).collect::<Vec<&str>>(),
        "age_mean_epochs" => rows.iter().map(|r| f64::from(r.5)).collect::<Vec<f64>>(),
        "bytes_sent" => rows.iter().map(sent).collect::<Vec<u64>>(),
        "bytes_saved" => rows.iter().map(saved).collect::<Vec<u64>>(),
        "bytes_agreed" => vec![0_u64; rows.len()],
        "drift_rel" => rows.iter().map(|r| (r.2 == 1).then(|| 0.01 * f64::from(r.5))).collect::<Vec<Option<f64>>>(),
    )
    .expect("columns have equal lengths")
}

/// A `transfers` frame: the first epoch takes ten times as long, and the last rank of several has a disk.
pub fn transfers(n: u32, p: u32) -> DataFrame {
    let of = |f: &dyn Fn(u32, u32) -> f64| -> Vec<f64> {
        let all = (0..n).flat_map(|epoch| (0..p).map(move |rank| (epoch, rank)));
        all.map(|(epoch, rank)| f(epoch, rank)).collect()
    };
    let slow = |ms: f64| of(&|epoch, _| if epoch == 0 { 10.0 * ms } else { ms });
    let disk = |x: f64| of(&|_, rank| if rank + 1 == p && p > 1 { x } else { 0.0 });
    df!(
        "epoch" => of(&|epoch, _| f64::from(epoch)),
        "rank" => of(&|_, rank| f64::from(rank)),
        "chunks" => of(&|_, _| 4.0),
        "rows_original" => of(&|_, _| 400.0),
        "rows_peer" => of(&|_, _| 300.0),
        "rows_reused" => of(&|_, _| 200.0),
        "h2d_ms" => slow(3.0),
        "d2h_ms" => slow(2.0),
        "host_add_ms" => slow(5.0),
        "on_device_ms" => slow(1.0),
        "disk_wait_ms" => disk(4.0),
        "h2d_bytes" => of(&|_, _| 1024.0),
        "d2h_bytes" => of(&|_, _| 512.0),
        "disk_read_bytes" => disk(100.0),
        "disk_written_bytes" => disk(50.0),
    )
    .expect("columns have equal lengths")
}

/// A `schedule` frame: each rank begins its first two batches at once, others every 10 ms by their score, and
/// one because few were left.
pub fn schedule(n: u32, p: u32) -> DataFrame {
    let all = || (0..p).flat_map(|rank| (0..n).map(move |k| (rank, k)));
    let of = |f: &dyn Fn(u32) -> f64| -> Vec<f64> { all().map(|(_, k)| f(k)).collect() };
    let reason = |k: u32| match k {
        0 | 7 => "idle",
        1 => "cold",
        _ => "score",
    };
    let score = all().map(|(_, k)| (k > 1).then(|| 10.0 + f64::from(k)));
    df!(
        "epoch" => of(&|k| f64::from(k / 4)),
        "rank" => all().map(|(rank, _)| f64::from(rank)).collect::<Vec<_>>(),
        "launch" => of(&f64::from),
        "at_ms" => of(&|k| 10.0 * f64::from(k.saturating_sub(1))),
        "reason" => all().map(|(_, k)| reason(k)).collect::<Vec<_>>(),
        "score" => score.collect::<Vec<Option<f64>>>(),
        "threshold" => of(&|_| 10.0),
        "queue" => of(&|k| f64::from(k % 3)),
        "flying" => of(&|_| 1.0),
        "in_flight_bytes" => of(&|k| 1024.0 * f64::from(k % 3)),
        "utilisation_pct" => of(&|_| 50.0),
        "gap_ms" => of(&|k| if k > 1 { 10.0 } else { 0.0 }),
    )
    .expect("columns have equal lengths")
}

/// A `hec` frame of two layers: the second finds half of what it looks for, and is twice as far off.
pub fn hec(n: u32, p: u32) -> DataFrame {
    let all = || {
        let epochs = (0..n).flat_map(move |epoch| (0..p).map(move |rank| (epoch, rank)));
        epochs.flat_map(|(epoch, rank)| (0..2u32).map(move |layer| (epoch, rank, layer)))
    };
    let of = |f: &dyn Fn(u32) -> f64| -> Vec<f64> { all().map(|(.., layer)| f(layer)).collect() };
    df!(
        "epoch" => all().map(|row| row.0).collect::<Vec<u32>>(),
        "rank" => all().map(|row| row.1).collect::<Vec<u32>>(),
        "layer" => all().map(|row| row.2).collect::<Vec<u32>>(),
        "lookups" => of(&|_| 100.0),
        "hits" => of(&|layer| 75.0 - 25.0 * f64::from(layer)),
        "edges" => of(&|_| 400.0),
        "edges_dropped" => of(&|_| 80.0),
        "age_mean_steps" => all().map(|_| (p > 1).then_some(1.0)).collect::<Vec<Option<f64>>>(),
        "age_max_steps" => of(&|_| 2.0),
        "rows_pushed" => of(&|_| 10.0),
        "rows_left_out" => of(&|_| 1.0),
        "bytes" => of(&|_| 1024.0),
        "pre_ms" => of(&|_| 1.0),
        "comm_ms" => of(&|_| 2.0),
        "post_ms" => of(&|_| 3.0),
        "error_rel" => of(&|layer| 0.1 * f64::from(layer + 1)),
    )
    .expect("columns have equal lengths")
}

/// A `spans` frame: every rank computes, the last one for longest; the others wait for it, then all sum up.
pub fn spans(n: u32, p: u32) -> DataFrame {
    type Span = (u32, u32, &'static str, &'static str, i64, i64, Option<u32>);
    let mut rows: Vec<Span> = Vec::new();
    for epoch in 0..n {
        let zero = i64::from(epoch) * 20_000;
        let slowest = 1000 * (1 + i64::from(p));
        for rank in 0..p {
            let own = 1000 * (2 + i64::from(rank));
            let next = (rank + 1) % p;
            rows.push((epoch, rank, "host", "aggregate", zero, own / 2, None));
            rows.push((
                epoch,
                rank,
                "host",
                "update",
                zero + own / 2,
                own - own / 2,
                None,
            ));
            if p > 1 {
                let (sent, peer) = (zero + own, Some(p - 1));
                rows.push((epoch, rank, "net", "send", sent, 1, Some(next)));
                rows.push((
                    epoch,
                    next,
                    "net",
                    "receive",
                    zero + slowest,
                    10,
                    Some(rank),
                ));
                rows.push((epoch, rank, "host", "wait", sent, slowest - own, peer));
                rows.push((epoch, rank, "net", "hidden", zero + 100, 400, None));
            }
            rows.push((epoch, rank, "host", "copy", zero + slowest, 300, None));
            rows.push((
                epoch,
                rank,
                "host",
                "optim",
                zero + slowest + 400,
                600,
                None,
            ));
        }
    }
    df!(
        "epoch" => rows.iter().map(|r| r.0).collect::<Vec<u32>>(),
        "rank" => rows.iter().map(|r| r.1).collect::<Vec<u32>>(),
        "stream" => rows.iter().map(|r| r.2).collect::<Vec<&str>>(),
        "phase" => rows.iter().map(|r| r.3).collect::<Vec<&str>>(),
        "start_us" => rows.iter().map(|r| r.4).collect::<Vec<i64>>(),
        "dur_us" => rows.iter().map(|r| r.5).collect::<Vec<i64>>(),
        "peer" => rows.iter().map(|r| r.6).collect::<Vec<Option<u32>>>(),
        "skew_us" => vec![3.0; rows.len()],
    )
    .expect("columns have equal lengths")
}
