//! `plan`: was the plan right?

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement};
use plotters::style::Color;
use std::collections::BTreeMap;

use super::axes::{Named, axes, spot};
use super::ink::Ink;
use super::setting::{labels, stamp};
use super::sheet::{Area, Head, Key, SIDE, Type, fit, part, sheet, stroke, word};
use super::text::table;
use super::{Case, Plot, PlotError, Setting, blank, paper::U, read, twin, units};

const WIDTH: i32 = 880;
const HEIGHT: i32 = 380;

/// What is predicted.
struct Quantity {
    name: &'static str,
    /// Columns of what was predicted and of what was measured.
    columns: (&'static str, &'static str),
    axis: (&'static str, &'static str),
    /// Of the columns' unit in the axes'.
    unit: f64,
    say: fn(f64) -> String,
}

const QUANTITIES: [Quantity; 2] = [
    Quantity {
        name: "memory",
        columns: ("predicted_mem_bytes", "mem_peak_bytes"),
        axis: ("predicted peak (MiB)", "measured peak (MiB)"),
        unit: 1024.0 * 1024.0,
        say: units::bytes,
    },
    Quantity {
        name: "time",
        columns: ("predicted_wall_ms", "wall_ms"),
        axis: ("predicted epoch (ms)", "measured epoch (ms, median)"),
        unit: 1.0,
        say: units::ms,
    },
];

/// One rank of one run; of a process with several ranks, all of them.
struct Point {
    run: usize,
    who: String,
    predicted: f64,
    measured: f64,
}

impl Point {
    /// By what part of what was predicted the measured one is off.
    fn error(&self) -> f64 {
        self.measured / self.predicted - 1.0
    }
}

/// Predicted against measured, a panel for memory and one for time, the identity a line, the worst
/// error labelled; `cases` carry `ranks` frames. Memory is that of a rank's process: ranks that are
/// threads of one process are one point. Times are medians over the epochs that are not warm-up.
///
/// # Errors
/// A frame without `rank`, or without a column of what was measured.
pub fn plan(cases: &[Case]) -> Result<Plot, PlotError> {
    let settings: Vec<&Setting> = cases.iter().map(|c| &c.setting).collect();
    let data = match settings.as_slice() {
        [one] => one.data_label(),
        many => units::plural(many.len(), "run"),
    };
    let title = format!("Plan against measurement, {data}");
    let mut panels = Vec::new();
    for quantity in &QUANTITIES {
        let points = points(cases, quantity)?;
        if !points.is_empty() {
            panels.push((quantity, points));
        }
    }
    if panels.is_empty() {
        let why = "Nothing was planned of this run; runs with a limit are, and small ones.";
        return blank(&title, why, &settings);
    }
    let names = labels(&settings);
    let notes: Vec<String> = panels.iter().map(|(q, p)| verdict(q, p, &names)).collect();
    let foot = stamp(&settings);
    let head = Head {
        title: title.clone(),
        subtitle: notes.join(" · "),
        desc: "Predicted against measured memory and time of each rank, with the identity line"
            .into(),
        legend: legend(&names),
        foot: foot.clone(),
    };
    let room = (WIDTH - 2 * SIDE) / panels.len() as i32;
    let svg = sheet(&head, (WIDTH, HEIGHT), |area| {
        for (k, (quantity, points)) in panels.iter().enumerate() {
            let at = (SIDE + k as i32 * room, 0);
            draw(&part(area, at, (room, HEIGHT)), quantity, points)?;
        }
        Ok(())
    })?;
    let text = twin(&title, &notes, &numbers(&panels, &names), &foot);
    Ok(Plot { svg, text })
}

/// All points of a quantity; none where nothing was predicted.
fn points(cases: &[Case], quantity: &Quantity) -> Result<Vec<Point>, PlotError> {
    let mut points = Vec::new();
    for (run, case) in cases.iter().enumerate() {
        let Some(predicted) = read::maybe(&case.frame, quantity.columns.0) else {
            continue;
        };
        let need = |column: &str| read::need(&case.frame, "ranks", column);
        let (rank, measured) = (need("rank")?, need(quantity.columns.1)?);
        let warm = read::warmup(&case.frame);
        let skip = warm.iter().any(|w| !w);
        let mut ranks: BTreeMap<u32, (f64, Vec<f64>)> = BTreeMap::new();
        for i in (0..rank.len()).filter(|&i| predicted[i] > 0.0 && measured[i].is_finite()) {
            let all = &mut ranks.entry(rank[i] as u32).or_default();
            all.0 = predicted[i];
            if !(skip && warm[i]) || quantity.name == "memory" {
                all.1.push(measured[i]);
            }
        }
        let memory = quantity.name == "memory";
        let whole = |measured: &[f64]| match memory {
            true => measured.iter().copied().fold(f64::NAN, f64::max),
            false => units::median(measured.iter().copied()),
        };
        let of = |(rank, (predicted, measured)): (&u32, &(f64, Vec<f64>))| Point {
            run,
            who: format!("rank {rank}"),
            predicted: *predicted,
            measured: whole(measured),
        };
        let mut mine: Vec<Point> = ranks.iter().map(of).collect();
        if memory && mine.len() > 1 && case.setting.launch == "threads" {
            mine = vec![Point {
                run,
                who: "all ranks".into(),
                predicted: mine.iter().map(|p| p.predicted).sum(),
                measured: mine.iter().map(|p| p.measured).fold(f64::NAN, f64::max),
            }];
        }
        points.extend(mine.into_iter().filter(|p| p.measured.is_finite()));
    }
    Ok(points)
}

fn worst(points: &[Point]) -> Option<&Point> {
    let by_error = |a: &&Point, b: &&Point| a.error().abs().total_cmp(&b.error().abs());
    points.iter().max_by(by_error)
}

/// `+31 %`.
fn signed(error: f64) -> String {
    let sign = if error < 0.0 { "−" } else { "+" };
    format!("{sign}{}", units::percent(error.abs()))
}

fn named(point: &Point, names: &[String]) -> String {
    match names {
        [_] => point.who.clone(),
        _ => format!("{}, {}", names[point.run], point.who),
    }
}

fn verdict(quantity: &Quantity, points: &[Point], names: &[String]) -> String {
    let Some(point) = worst(points) else {
        return String::new();
    };
    let (name, error) = (quantity.name, signed(point.error()));
    format!("{name}: worst {error} ({})", named(point, names))
}

fn legend(names: &[String]) -> Vec<(Key, String)> {
    let mut legend: Vec<(Key, String)> = names
        .iter()
        .take(Ink::LINES)
        .enumerate()
        .map(|(k, name)| (key(k), fit(name, 12.0, 260.0)))
        .collect();
    legend.push((Key::Line(Ink::FAINT), "as planned".to_owned()));
    legend
}

/// Rings and dots by turns, so that neighbours differ in grey.
fn key(run: usize) -> Key {
    match run % 2 {
        0 => Key::Dot(Ink::line(run)),
        _ => Key::Ring(Ink::line(run)),
    }
}

fn draw(area: &Area<'_>, quantity: &Quantity, points: &[Point]) -> Result<(), PlotError> {
    let scaled = |p: &Point| (p.predicted / quantity.unit, p.measured / quantity.unit);
    let most = points.iter().map(scaled);
    let most = most.fold(0.0, |most: f64, (x, y)| most.max(x).max(y)) * 1.15;
    let most = if most > 0.0 { most } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .margin_top(8 * U)
        .margin_right(14 * U)
        .x_label_area_size(42 * U)
        .y_label_area_size(58 * U)
        .build_cartesian_2d(0.0..most, 0.0..most)
        .map_err(PlotError::draw)?;
    let named = |name| Named {
        name,
        ticks: 5,
        lines: true,
        whole: false,
    };
    axes(&mut chart, named(quantity.axis.0), named(quantity.axis.1))?;
    let identity = vec![(0.0, 0.0), (most, most)];
    chart
        .draw_series([PathElement::new(identity, stroke(Ink::FAINT, 14))])
        .map_err(PlotError::draw)?;
    for point in points {
        let at = scaled(point);
        let dot = match key(point.run) {
            Key::Ring(ink) => Circle::new(at, 4 * U, stroke(ink, 20)),
            _ => Circle::new(at, 4 * U, Ink::line(point.run).filled()),
        };
        chart.draw_series([dot]).map_err(PlotError::draw)?;
    }
    let Some(point) = worst(points) else {
        return Ok(());
    };
    let (x, y) = scaled(point);
    let (px, py) = spot(&chart, area, x, y);
    let said = format!("{} {}", point.who, signed(point.error()));
    // Beside the point, on the side where there is room.
    let face = Type::new(11);
    match x > most / 2.0 {
        true => word(area, &said, (px - 8, py - 10), face.right()),
        false => word(area, &said, (px + 8, py - 10), face),
    }
}

fn numbers(panels: &[(&Quantity, Vec<Point>)], names: &[String]) -> String {
    const ROWS: usize = 24;
    let all = panels
        .iter()
        .flat_map(|(q, points)| points.iter().map(move |p| (q, p)));
    let rows: Vec<Vec<String>> = all
        .take(ROWS)
        .map(|(quantity, point)| {
            vec![
                named(point, names),
                quantity.name.to_owned(),
                (quantity.say)(point.predicted),
                (quantity.say)(point.measured),
                signed(point.error()),
            ]
        })
        .collect();
    table(&["rank", "of", "predicted", "measured", "error"], &rows)
}
