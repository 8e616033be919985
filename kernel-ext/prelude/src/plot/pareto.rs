//! `pareto`: time against bytes, both until a score is reached.

use launcher::frames::OF_BEST;
use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement};
use plotters::style::Color;

use super::axes::{Named, axes, spot};
use super::group::{Group, groups};
use super::ink::Ink;
use super::paper::{U, text_width};
use super::places::places;
use super::setting::stamp;
use super::sheet::{Area, Head, Key, SIDE, Type, fit, hover, part, sheet, stroke, word};
use super::text::table;
use super::{Case, Plot, PlotError, Setting, blank, read, twin, units};

const WIDTH: i32 = 760;
const HEIGHT: i32 = 380;
/// Validation scores of tasks, as the `epochs` frame has them.
const SCORES: [&str; 3] = ["val_acc", "val_auc", "val_f1"];
const MEBI: f64 = 1024.0 * 1024.0;

/// What a setting needed to reach the target.
struct Point {
    label: String,
    seconds: f64,
    bytes: f64,
    /// Whether another setting needed no more of either.
    dominated: bool,
}

/// Training seconds against bytes sent until the validation score has first reached the runs' `target`, or
/// where they do not name the same one 99 % of the best of all: a point for each setting, medians over its
/// repeats. Settings that another beats in both are faded; those that never get there are named. A name that has no free place near its dot is left
/// to the pointer and the table. `cases` carry
/// `epochs` frames.
///
/// # Errors
/// A frame without `wall_ms` or `bytes`.
pub fn pareto(cases: &[Case]) -> Result<Plot, PlotError> {
    let settings: Vec<&Setting> = cases.iter().map(|c| &c.setting).collect();
    let title = "Time against bytes until the target".to_owned();
    let scores = |case: &Case| {
        let columns = SCORES.iter();
        let mut columns = columns.filter_map(|name| read::maybe(&case.frame, name));
        columns.find(|scores| scores.iter().any(|score| !score.is_nan()))
    };
    let best = cases.iter().filter_map(scores).flatten();
    let best = best.filter(|score| !score.is_nan()).fold(0.0, f64::max);
    if best == 0.0 {
        let why = "No run has a validation score.";
        return blank(&title, why, &settings);
    }
    let asked = settings.iter().map(|setting| setting.target);
    let asked = asked.reduce(|a, b| a.filter(|_| a == b)).flatten();
    let target = asked.unwrap_or(OF_BEST * best);
    let (mut points, mut never) = (Vec::new(), Vec::new());
    for group in groups(cases, |_| {}) {
        match reached(&group, target, &scores)? {
            Some((seconds, bytes)) => points.push(Point {
                label: group.label,
                seconds,
                bytes,
                dominated: false,
            }),
            None => never.push(group.label),
        }
    }
    let needed: Vec<(f64, f64)> = points.iter().map(|p| (p.seconds, p.bytes)).collect();
    for point in &mut points {
        point.dominated = needed.iter().any(|&(seconds, bytes)| {
            let no_more = seconds <= point.seconds && bytes <= point.bytes;
            no_more && (seconds < point.seconds || bytes < point.bytes)
        });
    }
    let why = match asked {
        Some(_) => "as asked for".to_owned(),
        None => format!("{} of the best", units::percent(OF_BEST)),
    };
    let score = units::score(target);
    if points.is_empty() {
        let why = format!(
            "No setting reaches {score} ({why}) in most of its runs; train longer, or set target"
        );
        return blank(&title, &why, &settings);
    }
    let mut notes = vec![format!("until validation reaches {score} ({why})")];
    if !never.is_empty() {
        notes.push(format!("never: {}", never.join(", ")));
    }
    let foot = stamp(&settings);
    let head = Head {
        title: title.clone(),
        subtitle: notes.join(" · "),
        desc: "Training time and bytes that each setting needed to reach the target".into(),
        legend: vec![
            (Key::Dot(Ink::line(0)), "no other is better in both".into()),
            (Key::Ring(Ink::FAINT), "another is".into()),
        ],
        foot: foot.clone(),
    };
    let svg = sheet(&head, (WIDTH, HEIGHT), |area| {
        draw(&part(area, (SIDE, 0), (WIDTH - 2 * SIDE, HEIGHT)), &points)
    })?;
    let text = twin(&title, &notes, &numbers(&points), &foot);
    Ok(Plot { svg, text })
}

/// Median seconds and bytes of the group's runs until the target; none when most of them never reach it.
fn reached(
    group: &Group<'_>,
    target: f64,
    scores: &impl Fn(&Case) -> Option<Vec<f64>>,
) -> Result<Option<(f64, f64)>, PlotError> {
    let (mut seconds, mut bytes) = (Vec::new(), Vec::new());
    for case in &group.cases {
        let of = |column: &str| read::need(&case.frame, "epochs", column);
        let (wall, sent) = (of("wall_ms")?, of("bytes")?);
        let at = scores(case).and_then(|all| all.iter().position(|score| *score >= target));
        if let Some(epoch) = at {
            seconds.push(wall[..=epoch].iter().sum::<f64>() / 1e3);
            bytes.push(sent[..=epoch].iter().sum::<f64>());
        }
    }
    let most = 2 * seconds.len() > group.cases.len();
    Ok(most.then(|| (units::median(seconds), units::median(bytes))))
}

fn draw(area: &Area<'_>, points: &[Point]) -> Result<(), PlotError> {
    let most = |of: fn(&Point) -> f64| {
        let most = points.iter().map(of).fold(0.0, f64::max);
        if most > 0.0 { 1.15 * most } else { 1.0 }
    };
    let (right, top) = (most(|p| p.bytes / MEBI), most(|p| p.seconds));
    let mut chart = ChartBuilder::on(area)
        .margin_top(8 * U)
        .margin_right(14 * U)
        .x_label_area_size(42 * U)
        .y_label_area_size(58 * U)
        .build_cartesian_2d(0.0..right, 0.0..top)
        .map_err(PlotError::draw)?;
    let named = |name| Named {
        name,
        ticks: 5,
        lines: true,
        whole: false,
    };
    axes(
        &mut chart,
        named("sent until then (MiB)"),
        named("trained until then (s)"),
    )?;
    let at = |p: &Point| (p.bytes / MEBI, p.seconds);
    let mut front: Vec<(f64, f64)> = points.iter().filter(|p| !p.dominated).map(at).collect();
    front.sort_by(|a, b| a.0.total_cmp(&b.0));
    chart
        .draw_series([PathElement::new(front, stroke(Ink::line(0), 10))])
        .map_err(PlotError::draw)?;
    for point in points {
        let dot = match point.dominated {
            true => Circle::new(at(point), 4 * U, stroke(Ink::FAINT, 14)),
            false => Circle::new(at(point), 4 * U, Ink::line(0).filled()),
        };
        chart.draw_series([dot]).map_err(PlotError::draw)?;
    }
    let dots: Vec<(i32, i32)> = points
        .iter()
        .map(|point| {
            let (x, y) = at(point);
            spot(&chart, area, x, y)
        })
        .collect();
    let names: Vec<String> = points.iter().map(|p| fit(&p.label, 11.0, 260.0)).collect();
    let wide = names
        .iter()
        .map(|name| text_width(name, 11.0).ceil() as i32);
    let wide: Vec<i32> = wide.collect();
    let room = (WIDTH - 2 * SIDE - 14, HEIGHT - 42);
    let found = places(&dots, &wide, 14, room);
    for (((point, name), place), (px, py)) in points.iter().zip(&names).zip(found).zip(dots) {
        let face = Type::new(11);
        let face = if point.dominated { face.faint() } else { face };
        if let Some(at) = place {
            word(area, name, at, face)?;
        }
        let (seconds, bytes) = (units::ms(1e3 * point.seconds), units::bytes(point.bytes));
        let said = format!("{}: {seconds}, {bytes}", point.label);
        hover(area, (px - 6, py - 6), (12, 12), &said)?;
    }
    Ok(())
}

fn numbers(points: &[Point]) -> String {
    let mut order: Vec<&Point> = points.iter().collect();
    order.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let rows: Vec<Vec<String>> = order
        .into_iter()
        .map(|point| {
            vec![
                point.label.clone(),
                units::ms(1e3 * point.seconds),
                units::bytes(point.bytes),
                if point.dominated { "beaten" } else { "best" }.to_owned(),
            ]
        })
        .collect();
    table(&["setting", "time", "bytes", ""], &rows)
}
