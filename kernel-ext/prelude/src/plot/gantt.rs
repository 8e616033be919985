//! `gantt`: what each rank did when, in one epoch.
//!
//! A lane a rank, coloured as in `stack`; what is left white is the part of wall time that `stack` calls
//! other. Below it is what threads do that make mini-batches beside the training. Under a strategy that computes chunk after chunk, the chunks' numbers are in the lanes. The critical
//! path is outlined: it jumps to another rank where a rank had to wait for it.

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::style::Color;

use super::axes::{Chart, Named, axes, spot};
use super::gantt_chunks;
use super::gantt_lanes::{Epoch, KINDS, Lane, Piece, critical, drawn, path_words, read_epoch};
use super::gantt_zoom::clipped;
use super::ink::Ink;
use super::paper::U;
use super::setting::stamp;
use super::sheet::{Area, Head, Key, SIDE, Type, part, sheet, stroke, word};
use super::text::table;
use super::{Case, Plot, PlotError, blank, twin, units};

/// Messages that are drawn as lines; more would hide the lanes.
const ARROWS: usize = 48;
/// Room for the lanes' names, px.
const NAMES: i32 = 66;

/// What of a traced run is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct View {
    /// This epoch; without, the one of median length, the first left out.
    pub epoch: Option<u32>,
    /// This part of it, ms from its first span; without, all of it.
    pub zoom: Option<(f64, f64)>,
}

impl View {
    /// The part that `2.5..4` means; none where it is no such range.
    pub fn range(text: &str) -> Option<(f64, f64)> {
        let (from, to) = text.split_once("..")?;
        let number = |word: &str| word.trim().parse().ok().filter(|ms: &f64| ms.is_finite());
        let (from, to) = (number(from)?.max(0.0), number(to)?);
        (to > from).then_some((from, to))
    }
}

/// Spans of one epoch; `case` carries a `spans` frame. Messages are drawn where the part that is shown has
/// few enough.
///
/// # Errors
/// A frame without `epoch`, `rank`, `stream`, `phase`, `start_us` or `dur_us`; a part beyond the epoch.
pub fn gantt(case: &Case, view: View) -> Result<Plot, PlotError> {
    let data = case.setting.data_label();
    let title = format!("What each rank did when, {data}");
    let epoch = match case.frame.height() {
        0 => None,
        _ => read_epoch(&case.frame, view.epoch)?.filter(|e| !e.lanes.is_empty()),
    };
    let Some(epoch) = epoch else {
        let why = "No spans were kept: train with trace = true (--trace).";
        return blank(&title, why, &[&case.setting]);
    };
    let whole = epoch.length();
    let (epoch, path) = match view.zoom {
        None => {
            let path = critical(&epoch);
            (epoch, path)
        }
        Some((from, _)) if from >= whole => {
            return Err(PlotError::Run(format!(
                "epoch {} ends after {}\nhelp: zoom into what is before",
                epoch.number,
                units::ms(whole)
            )));
        }
        Some((from, to)) => {
            let path = critical(&epoch);
            (epoch.part(from, to), clipped(&path, from, to))
        }
    };
    let lanes: Vec<(Vec<Piece>, Vec<Piece>, bool)> =
        epoch.lanes.iter().map(|l| shown(l, &epoch)).collect();
    let notes = notes(&epoch, whole, &path, lanes.iter().any(|l| l.2));
    let foot = stamp(&[&case.setting]);
    let head = Head {
        title: title.clone(),
        subtitle: notes[0].clone(),
        desc: notes[1..].join(". "),
        legend: legend(&epoch),
        foot: foot.clone(),
    };
    let lane = (300 / epoch.lanes.len().max(1) as i32).clamp(14, 46);
    let height = 26 + lane * epoch.lanes.len() as i32 + 48;
    let svg = sheet(&head, (880, height), |area| {
        word(area, &notes[1], (SIDE, 6), Type::new(12).faint())?;
        let plot = part(area, (SIDE, 22), (880 - 2 * SIDE, height - 22));
        draw(&plot, &epoch, &lanes, &path)
    })?;
    let text = twin(&title, &notes, &numbers(&epoch), &foot);
    Ok(Plot { svg, text })
}

/// What is drawn on the rank's thread and on its device.
fn shown(lane: &Lane, epoch: &Epoch) -> (Vec<Piece>, Vec<Piece>, bool) {
    let (host, many) = drawn(&lane.host, epoch.length());
    let (device, more) = drawn(&lane.device, epoch.length());
    (host, device, many || more)
}

fn notes(epoch: &Epoch, whole: f64, path: &[(u32, f64, f64)], binned: bool) -> Vec<String> {
    let which = match epoch.of {
        1 => String::new(),
        n => format!(" (median length of {n} traced epochs, the first left out)"),
    };
    let whole = units::ms(whole);
    let shown = match epoch.zoomed {
        None => format!("{whole} from the first span to the last"),
        Some(from) => {
            let to = units::ms(from + epoch.length());
            format!("{} to {to} of its {whole}", units::ms(from))
        }
    };
    let mut notes = vec![
        format!("epoch {}: {shown}{which}", epoch.number),
        path_words(path),
    ];
    if epoch.lanes.len() > 1 {
        notes[1] += &match epoch.skew {
            0.0 => " · all ranks on one clock".to_owned(),
            skew => format!(" · clocks agree within {}", units::ms(skew)),
        };
    }
    if binned {
        notes.push("many spans: each column shows what took most of it".into());
    }
    notes
}

fn legend(epoch: &Epoch) -> Vec<(Key, String)> {
    let has = |kind: usize| {
        let mut all = epoch
            .lanes
            .iter()
            .flat_map(|l| l.host.iter().chain(&l.device).chain(&l.beside));
        all.any(|p| p.kind == kind)
    };
    let kinds = KINDS.iter().enumerate().filter(|(k, _)| has(*k));
    let mut legend: Vec<(Key, String)> = kinds
        .map(|(_, (name, ink))| (Key::Box(*ink), (*name).to_owned()))
        .collect();
    if gantt_chunks::drawn(epoch) {
        legend.extend(gantt_chunks::legend());
    }
    if epoch.lanes.iter().any(|l| !l.beside.is_empty()) {
        legend.push((
            Key::Box(Ink::CARD),
            "below: threads that make batches".into(),
        ));
    }
    if epoch.lanes.iter().any(|l| !l.hidden.is_empty()) {
        legend.push((Key::Dashed(Ink::HIDDEN), "hidden comm".into()));
    }
    if epoch.lanes.len() > 1 {
        legend.push((Key::Line(Ink::STOP), "critical path".into()));
    }
    if arrows(epoch) {
        legend.push((Key::Dot(Ink::TEXT), "message, at its receiver".into()));
    }
    legend
}

fn arrows(epoch: &Epoch) -> bool {
    (1..=ARROWS).contains(&epoch.messages.len())
}

fn draw(
    area: &Area<'_>,
    epoch: &Epoch,
    lanes: &[(Vec<Piece>, Vec<Piece>, bool)],
    path: &[(u32, f64, f64)],
) -> Result<(), PlotError> {
    let n = lanes.len() as f64;
    let length = epoch.length().max(1e-6);
    let mut chart = ChartBuilder::on(area)
        .margin_right(14 * U)
        .x_label_area_size(40 * U)
        .y_label_area_size(NAMES * U)
        .build_cartesian_2d(0.0..length, n..0.0)
        .map_err(PlotError::draw)?;
    let since = match epoch.zoomed {
        None => "time since the epoch's first span (ms)".to_owned(),
        Some(from) => format!("time since {} of the epoch (ms)", units::ms(from)),
    };
    let x = Named {
        name: &since,
        ticks: 8,
        lines: true,
        whole: false,
    };
    axes(&mut chart, x, Named::default())?;
    let chunks = gantt_chunks::drawn(epoch);
    for (i, ((host, device, _), lane)) in lanes.iter().zip(&epoch.lanes).enumerate() {
        let top = i as f64;
        let alone = device.is_empty() && lane.beside.is_empty();
        let split = match (alone, chunks) {
            (true, false) => 0.80,
            (true, true) => 0.52,
            (false, _) => 0.44,
        };
        pieces(&mut chart, host, (top + 0.16, top + split))?;
        pieces(&mut chart, device, (top + 0.48, top + 0.80))?;
        let (beside, _) = drawn(&lane.beside, epoch.length());
        pieces(&mut chart, &beside, (top + 0.52, top + 0.80))?;
        if chunks {
            gantt_chunks::draw(area, &mut chart, lane, top)?;
        }
        for &(from, to) in &lane.hidden {
            let rect = [(from, top + 0.84), (to, top + 0.96)];
            let outline = Rectangle::new(rect, stroke(Ink::HIDDEN, 10));
            chart.draw_series([outline]).map_err(PlotError::draw)?;
        }
        let every = lanes.len().div_ceil(24);
        if i % every == 0 {
            let (_, y) = spot(&chart, area, 0.0, top + 0.5);
            let name = format!("rank {}", lane.rank);
            word(area, &name, (NAMES - 10, y), Type::new(12).right())?;
        }
    }
    if lanes.len() > 1 {
        outline(&mut chart, epoch, path)?;
    }
    if arrows(epoch) {
        messages(&mut chart, epoch)?;
    }
    Ok(())
}

fn pieces(chart: &mut Chart<'_, '_>, all: &[Piece], (y0, y1): (f64, f64)) -> Result<(), PlotError> {
    for piece in all {
        let rect = [(piece.from, y0), (piece.to, y1)];
        let fill = Rectangle::new(rect, KINDS[piece.kind].1.filled());
        chart.draw_series([fill]).map_err(PlotError::draw)?;
        // Pale waits need an edge on pale paper; a rim on every sliver would blacken the lane.
        if all.len() < 200 {
            let rim = Rectangle::new(rect, stroke(Ink::TEXT, 4));
            chart.draw_series([rim]).map_err(PlotError::draw)?;
        }
    }
    Ok(())
}

/// Where a rank's lane is.
fn place(epoch: &Epoch, rank: u32) -> Option<f64> {
    let at = epoch.lanes.iter().position(|l| l.rank == rank)?;
    Some(at as f64)
}

/// Frames the parts of the critical path, and joins them.
fn outline(
    chart: &mut Chart<'_, '_>,
    epoch: &Epoch,
    path: &[(u32, f64, f64)],
) -> Result<(), PlotError> {
    let mut line = Vec::new();
    for &(rank, from, to) in path {
        if let Some(top) = place(epoch, rank) {
            line.extend([(from, top + 0.08), (to, top + 0.08)]);
        }
    }
    let path = PathElement::new(line, stroke(Ink::STOP, 22));
    chart.draw_series([path]).map_err(PlotError::draw)?;
    Ok(())
}

fn messages(chart: &mut Chart<'_, '_>, epoch: &Epoch) -> Result<(), PlotError> {
    for &((src, left), (dst, came)) in &epoch.messages {
        let (Some(from), Some(to)) = (place(epoch, src), place(epoch, dst)) else {
            continue;
        };
        // From the edge of one lane to the edge of the other.
        let (y0, y1) = match to > from {
            true => (from + 0.80, to + 0.16),
            false => (from + 0.16, to + 0.80),
        };
        let line = PathElement::new(vec![(left, y0), (came, y1)], stroke(Ink::TEXT, 7));
        chart.draw_series([line]).map_err(PlotError::draw)?;
        let end = Circle::new((came, y1), 2 * U + U / 2, Ink::TEXT.filled());
        chart.draw_series([end]).map_err(PlotError::draw)?;
    }
    Ok(())
}

fn numbers(epoch: &Epoch) -> String {
    let mut head = vec!["rank"];
    head.extend(KINDS.iter().map(|(name, _)| *name));
    head.extend(["other", "ends at", "hidden comm", "blocked most by"]);
    let beside = epoch.lanes.iter().any(|lane| !lane.beside.is_empty());
    if beside {
        head.push("beside");
    }
    // A sum of nothing is minus zero.
    let number = |v: f64| format!("{:.3}", v + 0.0);
    let rows: Vec<Vec<String>> = epoch
        .lanes
        .iter()
        .map(|lane| {
            let all = || lane.host.iter().chain(&lane.device);
            let sum = |kind: usize| -> f64 {
                let of = all().filter(|p| p.kind == kind);
                of.map(|p| p.to - p.from).sum()
            };
            let mut row = vec![lane.rank.to_string()];
            row.extend((0..KINDS.len()).map(|k| number(sum(k))));
            let host: f64 = lane.host.iter().map(|p| p.to - p.from).sum();
            row.push(match lane.device.is_empty() {
                true => number((lane.to - lane.from - host).max(0.0)),
                false => "-".into(),
            });
            row.push(number(lane.to));
            row.push(number(lane.hidden.iter().map(|(a, b)| b - a).sum()));
            row.push(blamed(lane));
            if beside {
                row.push(number(lane.beside.iter().map(|p| p.to - p.from).sum()));
            }
            row
        })
        .collect();
    let of = match epoch.zoomed {
        None => "",
        Some(_) => "the part shown of ",
    };
    format!("ms of {of}epoch {}\n{}", epoch.number, table(&head, &rows))
}

/// The rank that a lane is blocked by longest.
fn blamed(lane: &Lane) -> String {
    let mut peers: Vec<(u32, f64)> = Vec::new();
    let waits = lane.host.iter().filter(|p| p.is_blocked());
    for (peer, ms) in waits.filter_map(|p| Some((p.peer?, p.to - p.from))) {
        match peers.iter_mut().find(|(known, _)| *known == peer) {
            Some((_, sum)) => *sum += ms,
            None => peers.push((peer, ms)),
        }
    }
    let most = peers.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    most.map_or("-".into(), |(peer, ms)| {
        format!("rank {peer}: {}", units::ms(ms))
    })
}
