//! `stack` for several runs: one bar a setting, a typical epoch.

use plotters::chart::ChartBuilder;
use plotters::element::Rectangle;
use plotters::style::Color;

use super::axes::{Named, axes, spot, tip};
use super::group::groups;
use super::ink::Ink;
use super::paper::{U, text_width};
use super::setting::stamp;
use super::sheet::{Area, Head, SIDE, Type, fit, part, sheet, stroke, word};
use super::stack::{Bar, PARTS, bars, binned, legend, typical};
use super::text::table;
use super::{Case, Plot, PlotError, Setting, twin, units};

/// Height of a run's lane, px.
const LANE: i32 = 40;
/// Most room for labels left of the bars, px.
const NAMES: i32 = 360;

/// One setting: its name, a typical epoch, and how many runs and epochs that is of.
struct Lane {
    name: String,
    bar: Bar,
    runs: usize,
    epochs: usize,
}

/// One horizontal bar a setting, the quickest first: long names stay readable, and lengths compare along one
/// edge. Runs that repeat a setting are one bar, the mean of theirs.
pub(super) fn stack_runs(cases: &[Case]) -> Result<Plot, PlotError> {
    let settings: Vec<&Setting> = cases.iter().map(|c| &c.setting).collect();
    let mut has = [false; 5];
    let mut lanes = Vec::new();
    for group in groups(cases, |_| {}) {
        let (mut usual, mut count) = (Vec::new(), 0);
        for case in &group.cases {
            let (own, epochs) = bars(&case.frame, "epochs")?;
            has = std::array::from_fn(|p| has[p] || own[p]);
            usual.push(typical(&epochs));
            count += epochs.len();
        }
        // Runs that have finished no epoch have nothing to be averaged.
        usual.retain(|bar| bar.wall.is_finite());
        lanes.push(Lane {
            name: group.label,
            runs: group.cases.len(),
            epochs: count,
            bar: binned(&usual, usual.len())
                .pop()
                .unwrap_or_else(|| typical(&[])),
        });
    }
    lanes.sort_by(|a, b| a.bar.wall.total_cmp(&b.bar.wall));
    let repeated = lanes.iter().any(|lane| lane.runs > 1);
    let title = match repeated {
        true => "Where the time of an epoch went, setting by setting",
        false => "Where the time of an epoch went, run by run",
    };
    let of = if repeated { ", mean over repeats" } else { "" };
    let notes = vec![format!(
        "mean of the middle half of epochs by wall time, warm-up left out, slowest rank of each{of}"
    )];
    let foot = stamp(&settings);
    let walls: Vec<String> = lanes
        .iter()
        .map(|lane| format!("{}: {}", lane.name, units::ms(lane.bar.wall)))
        .collect();
    let head = Head {
        title: title.to_owned(),
        subtitle: notes[0].clone(),
        desc: format!("Typical epoch: {}", walls.join(", ")),
        legend: legend(&has, lanes.iter().any(|lane| lane.bar.hidden > 0.0), None),
        foot: foot.clone(),
    };
    let height = LANE * lanes.len() as i32 + 50;
    let svg = sheet(&head, (880, height), |area| {
        draw(
            &part(area, (SIDE, 0), (880 - 2 * SIDE, height)),
            &lanes,
            &has,
        )
    })?;
    let text = twin(title, &notes, &numbers(&lanes, &has), &foot);
    Ok(Plot { svg, text })
}

fn draw(area: &Area<'_>, lanes: &[Lane], has: &[bool; 5]) -> Result<(), PlotError> {
    let known = |v: f64| if v.is_finite() { v } else { 0.0 };
    let longest = lanes
        .iter()
        .map(|lane| known(lane.bar.top()))
        .fold(0.0, f64::max);
    let right = if longest > 0.0 { longest * 1.16 } else { 1.0 };
    let n = lanes.len() as f64;
    let widest = lanes.iter().map(|lane| text_width(&lane.name, 12.0));
    let names = (widest.fold(60.0, f64::max).ceil() as i32 + 18).min(NAMES);
    let mut chart = ChartBuilder::on(area)
        .margin_right(10 * U)
        .x_label_area_size(40 * U)
        .y_label_area_size(names * U)
        .build_cartesian_2d(0.0..right, n..0.0)
        .map_err(PlotError::draw)?;
    let x = Named {
        name: "wall time of a typical epoch (ms)",
        ticks: 7,
        lines: true,
        whole: false,
    };
    axes(&mut chart, x, Named::default())?;
    for (i, Lane { name, bar, .. }) in lanes.iter().enumerate() {
        let (y0, y1) = (i as f64 + 0.18, i as f64 + 0.82);
        let mut base = 0.0;
        for p in (0..5).filter(|p| has[*p] && known(bar.parts[*p]) > 0.0) {
            let rect = [(base, y0), (base + bar.parts[p], y1)];
            let fill = Rectangle::new(rect, PARTS[p].2.filled());
            let rim = Rectangle::new(rect, stroke(Ink::TEXT, 6));
            chart.draw_series([fill, rim]).map_err(PlotError::draw)?;
            let said = format!("{name}: {} {}", PARTS[p].0, units::ms(bar.parts[p]));
            tip(&chart, area, rect, &said)?;
            base += bar.parts[p];
        }
        if known(bar.hidden) > 0.0 {
            let rect = [(base, y0), (base + bar.hidden, y1)];
            let outline = Rectangle::new(rect, stroke(Ink::HIDDEN, 10));
            chart.draw_series([outline]).map_err(PlotError::draw)?;
        }
        let end = base + known(bar.hidden);
        let (x, y) = spot(&chart, area, end, (y0 + y1) / 2.0);
        word(area, &units::ms(bar.wall), (x + 7, y), Type::new(12).bold())?;
        let label = fit(name, 12.0, f64::from(names - 16));
        word(area, &label, (names - 10, y), Type::new(12).right())?;
    }
    Ok(())
}

fn numbers(lanes: &[Lane], has: &[bool; 5]) -> String {
    let kept: Vec<usize> = (0..5).filter(|p| has[*p]).collect();
    let mut head = vec!["ms of a typical epoch", "runs", "epochs"];
    head.extend(kept.iter().map(|p| PARTS[*p].0));
    head.extend(["wall", "hidden comm"]);
    let number = |v: f64| match v.is_finite() {
        true => format!("{v:.2}"),
        false => "-".to_owned(),
    };
    let row = |lane: &Lane| {
        let counts = [lane.runs.to_string(), lane.epochs.to_string()];
        let parts = kept.iter().map(|p| number(lane.bar.parts[*p]));
        let ends = [number(lane.bar.wall), number(lane.bar.hidden)];
        [lane.name.clone()]
            .into_iter()
            .chain(counts)
            .chain(parts)
            .chain(ends)
            .collect()
    };
    table(&head, &lanes.iter().map(row).collect::<Vec<_>>())
}
