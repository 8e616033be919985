//! `transfers`: how often do rows cross between host and device, and what does that take?

use plotters::chart::ChartBuilder;
use plotters::element::Rectangle;
use plotters::style::Color;

use super::axes::{Chart, Named, axes, spot, top};
use super::ink::Ink;
use super::setting::stamp;
use super::sheet::{Area, Head, Key, SIDE, Type, part, sheet, stroke, word};
use super::text::table;
use super::{Case, Plot, PlotError, blank, paper::U, read, twin, units};

const WIDTH: i32 = 880;
const HIGH: i32 = 310;
/// Width of the bars of rows.
const ROWS: i32 = 330;

/// Rows that all devices load in a layer.
const LADDER: [(&str, &str); 3] = [
    ("by each chunk", "rows_original"),
    ("once a batch", "rows_peer"),
    ("and kept", "rows_reused"),
];

/// Parts of an epoch's time.
const PARTS: [(&str, &str, Ink); 5] = [
    ("host to device", "h2d_ms", Ink::TRANSFER),
    ("device to host", "d2h_ms", Ink::HALO),
    ("added up on the host", "host_add_ms", Ink::COMPUTE),
    ("within the device", "on_device_ms", Ink::COPY),
    ("waiting for the disk", "disk_wait_ms", Ink::WAIT),
];

/// Bytes of an epoch.
const BYTES: [(&str, &str); 4] = [
    ("to device", "h2d_bytes"),
    ("to host", "d2h_bytes"),
    ("disk read", "disk_read_bytes"),
    ("disk written", "disk_written_bytes"),
];

/// One rank: medians over its epochs.
struct Moved {
    rank: u32,
    ms: [f64; 5],
    bytes: [f64; 4],
}

/// What is in the frame.
struct Found {
    chunks: f64,
    rows: [f64; 3],
    ranks: Vec<Moved>,
}

/// Rows that all devices load in a layer, by how far the same row is loaded once, on the left; median times of
/// copying, rank by rank, on the right. `case` carries a `transfers` frame.
///
/// # Errors
/// A frame without `rank`, `chunks`, or the columns of rows, times and bytes.
pub fn transfers(case: &Case) -> Result<Plot, PlotError> {
    let title = format!("Between host and device, {}", case.setting.data_label());
    if case.frame.height() == 0 {
        return blank(&title, "No epoch is finished yet.", &[&case.setting]);
    }
    let found = found(case)?;
    let (note, disk_note) = (verdict(&found), of_disk(&found));
    let foot = stamp(&[&case.setting]);
    let disk = found.ranks.iter().any(|rank| rank.ms[4] > 0.0);
    let shown = PARTS.iter().filter(|part| disk || part.1 != "disk_wait_ms");
    let head = Head {
        title: title.clone(),
        subtitle: note.clone(),
        desc: "Rows that devices load in a layer, and the time of copying of each rank".into(),
        legend: shown
            .map(|(name, _, ink)| (Key::Box(*ink), (*name).to_owned()))
            .collect(),
        foot: foot.clone(),
    };
    let svg = sheet(&head, (WIDTH, HIGH), |area| {
        draw_rows(&part(area, (SIDE, 0), (ROWS, HIGH)), &found.rows)?;
        let room = WIDTH - 2 * SIDE - ROWS;
        draw_times(&part(area, (SIDE + ROWS, 0), (room, HIGH)), &found.ranks)
    })?;
    let notes: Vec<String> = [note].into_iter().chain(disk_note).collect();
    let text = twin(&title, &notes, &numbers(&found), &foot);
    Ok(Plot { svg, text })
}

fn found(case: &Case) -> Result<Found, PlotError> {
    let frame = &case.frame;
    let need = |column: &str| read::need(frame, "transfers", column);
    let (rank, epoch) = (need("rank")?, need("epoch")?);
    let columns = |names: &[&str]| -> Result<Vec<Vec<f64>>, PlotError> {
        names.iter().map(|name| need(name)).collect()
    };
    let rows = columns(&LADDER.map(|(_, name)| name))?;
    let ms = columns(&PARTS.map(|(_, name, _)| name))?;
    let bytes = columns(&BYTES.map(|(_, name)| name))?;
    // The first epoch makes room for what the others find there.
    let later = epoch.iter().any(|&epoch| epoch > 0.0);
    let mut ids: Vec<u32> = rank.iter().map(|&rank| rank as u32).collect();
    ids.sort_unstable();
    ids.dedup();
    let ranks = ids.into_iter().map(|id| {
        let mine = |i: &usize| rank[*i] == f64::from(id) && !(later && epoch[*i] == 0.0);
        let of: Vec<usize> = (0..rank.len()).filter(mine).collect();
        let median = |values: &Vec<f64>| units::median(of.iter().map(|&i| values[i]));
        Moved {
            rank: id,
            ms: std::array::from_fn(|k| median(&ms[k])),
            bytes: std::array::from_fn(|k| median(&bytes[k])),
        }
    });
    let ranks = ranks.collect();
    let chunks = units::median(need("chunks")?);
    let rows = std::array::from_fn(|k| units::median(rows[k].iter().copied()));
    Ok(Found {
        chunks,
        rows,
        ranks,
    })
}

fn total(found: &Found, k: usize) -> f64 {
    let of = found.ranks.iter().map(|rank| rank.bytes[k]);
    of.filter(|bytes| bytes.is_finite()).sum()
}

fn verdict(found: &Found) -> String {
    let [original, peer, reused] = found.rows;
    let saved = |less: f64| units::percent((original - less) / original.max(1.0));
    let chunks = units::plural(found.chunks as usize, "chunk");
    format!(
        "{chunks} a rank · rows saved: {} by batches, {} by keeping · an epoch {} to devices, {} back",
        saved(peer),
        saved(reused),
        units::bytes(total(found, 0)),
        units::bytes(total(found, 1)),
    )
}

/// What was read and written, where there is a disk.
fn of_disk(found: &Found) -> Option<String> {
    let [read, written] = [2, 3].map(|k| total(found, k));
    let note = || {
        let [read, written] = [read, written].map(units::bytes);
        format!("disk: {read} read, {written} written an epoch")
    };
    (read + written > 0.0).then(note)
}

fn known(v: f64) -> f64 {
    if v.is_finite() { v.max(0.0) } else { 0.0 }
}

/// Room for `n` bars beside each other, as high as `high`, with an axis of this name.
fn bars<'a>(area: &Area<'a>, n: f64, high: f64, name: &str) -> Result<Chart<'a, 'a>, PlotError> {
    let mut chart = ChartBuilder::on(area)
        .margin_top(8 * U)
        .margin_right(12 * U)
        .x_label_area_size(38 * U)
        .y_label_area_size(66 * U)
        .build_cartesian_2d(0.0..n, 0.0..high)
        .map_err(PlotError::draw)?;
    let y = Named {
        name,
        ticks: 6,
        lines: true,
        whole: false,
    };
    axes(&mut chart, Named::default(), y)?;
    Ok(chart)
}

/// The bar `k`, or a part of it.
fn bar(chart: &mut Chart<'_, '_>, k: usize, from: f64, to: f64, ink: Ink) -> Result<(), PlotError> {
    if to <= from {
        return Ok(());
    }
    let rect = [(k as f64 + 0.2, from), (k as f64 + 0.8, to)];
    let fill = Rectangle::new(rect, ink.filled());
    let rim = Rectangle::new(rect, stroke(Ink::TEXT, 6));
    chart.draw_series([fill, rim]).map_err(PlotError::draw)?;
    Ok(())
}

fn draw_rows(area: &Area<'_>, rows: &[f64; 3]) -> Result<(), PlotError> {
    let high = top(rows.iter().copied());
    let mut chart = bars(area, 3.0, high, "rows that devices load in a layer")?;
    for (k, &n) in rows.iter().enumerate() {
        bar(&mut chart, k, 0.0, known(n), Ink::OWNED)?;
    }
    let face = Type::new(11).faint().centered();
    for (k, ((name, _), n)) in LADDER.iter().zip(rows).enumerate() {
        let (px, py) = spot(&chart, area, k as f64 + 0.5, 0.0);
        word(area, name, (px, py + 11), face)?;
        let (px, py) = spot(&chart, area, k as f64 + 0.5, known(*n));
        word(area, &units::count(*n), (px, py - 9), face)?;
    }
    Ok(())
}

fn draw_times(area: &Area<'_>, ranks: &[Moved]) -> Result<(), PlotError> {
    let n = ranks.len() as f64;
    let high = top(ranks.iter().map(|rank| rank.ms.map(known).iter().sum()));
    let mut chart = bars(area, n, high, "copying in an epoch (ms, median)")?;
    for (i, rank) in ranks.iter().enumerate() {
        let mut from = 0.0;
        for (ms, (_, _, ink)) in rank.ms.iter().zip(PARTS) {
            let to = from + known(*ms);
            bar(&mut chart, i, from, to, ink)?;
            from = to;
        }
    }
    let every = ranks.len().div_ceil(32);
    for (i, rank) in ranks.iter().enumerate().step_by(every) {
        let (px, py) = spot(&chart, area, i as f64 + 0.5, 0.0);
        let face = Type::new(11).faint().centered();
        word(area, &rank.rank.to_string(), (px, py + 11), face)?;
    }
    let (px, py) = spot(&chart, area, n / 2.0, 0.0);
    word(area, "rank", (px, py + 29), Type::new(12).centered())
}

fn numbers(found: &Found) -> String {
    let ladder = LADDER.iter().zip(found.rows);
    let rows: Vec<Vec<String>> = ladder
        .map(|((name, _), n)| vec![format!("rows {name}"), format!("{n:.0}")])
        .collect();
    let mut head = vec!["rank".to_owned()];
    head.extend(PARTS.iter().map(|(name, _, _)| format!("{name} ms")));
    head.extend(BYTES.iter().map(|(name, _)| (*name).to_owned()));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let ranks: Vec<Vec<String>> = found
        .ranks
        .iter()
        .map(|rank| {
            let mut row = vec![rank.rank.to_string()];
            row.extend(rank.ms.iter().map(|ms| format!("{ms:.3}")));
            row.extend(rank.bytes.iter().map(|bytes| units::bytes(*bytes)));
            row
        })
        .collect();
    let (rows, ranks) = (
        table(&["loaded", "in a layer"], &rows),
        table(&head, &ranks),
    );
    format!("{rows}\n{ranks}")
}
