//! `stack`: where the wall time of each epoch went.
//!
//! The parts sum to the wall time by definition; communication hidden behind compute is not a
//! part, and is outlined above the bar. Epochs marked as warm-up are pale and left out of medians.

use plotters::chart::ChartBuilder;
use plotters::element::{PathElement, Rectangle};
use plotters::style::Color;
use polars::prelude::DataFrame;

use super::ink::Ink;
use super::setting::stamp;
use super::sheet::{Area, Head, Key, SIDE, Type, part, sheet, stroke, word};
use super::text::table;
use super::{Case, Plot, PlotError, Setting, blank, paper::U, read, stack_runs, twin, units};

/// The parts of an epoch's wall time, from the bottom of a bar up.
pub(super) const PARTS: [(&str, &str, Ink); 5] = [
    ("compute", "compute_ms", Ink::COMPUTE),
    ("copy", "copy_ms", Ink::COPY),
    ("exposed transfer", "xfer_exposed_ms", Ink::TRANSFER),
    ("wait", "wait_ms", Ink::WAIT),
    ("other", "other_ms", Ink::OTHER),
];

/// Bars before neighbouring epochs share one.
const MAX_BARS: usize = 200;

/// One bar.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    /// First and last epoch.
    pub epochs: (f64, f64),
    /// Milliseconds of each of [`PARTS`].
    pub parts: [f64; 5],
    /// Hidden communication, ms.
    pub hidden: f64,
    /// Recorded wall time, ms.
    pub wall: f64,
    pub warm: bool,
}

impl Bar {
    fn sum(&self) -> f64 {
        self.parts.iter().sum()
    }

    pub(super) fn top(&self) -> f64 {
        self.sum() + self.hidden
    }
}

/// Which parts the frame has, and one bar an epoch.
pub(super) fn bars(frame: &DataFrame) -> Result<([bool; 5], Vec<Bar>), PlotError> {
    let epoch = read::need(frame, "epochs", "epoch")?;
    let wall = read::need(frame, "epochs", "wall_ms")?;
    let parts: Vec<Option<Vec<f64>>> = PARTS.iter().map(|p| read::maybe(frame, p.1)).collect();
    let hidden = read::maybe(frame, "comm_hidden_ms");
    let warm = read::warmup(frame);
    let known = |values: &Option<Vec<f64>>, i: usize| {
        let v = values.as_ref().map_or(0.0, |v| v[i]);
        if v.is_finite() { v.max(0.0) } else { 0.0 }
    };
    let bars = (0..epoch.len()).map(|i| Bar {
        epochs: (epoch[i], epoch[i]),
        parts: std::array::from_fn(|p| known(&parts[p], i)),
        hidden: known(&hidden, i),
        wall: wall[i],
        warm: warm[i],
    });
    let has = std::array::from_fn(|p| parts[p].is_some());
    Ok((has, bars.collect()))
}

/// Means of `k` neighbouring epochs; warm-up epochs are not mixed with others.
fn binned(bars: &[Bar], k: usize) -> Vec<Bar> {
    if k <= 1 {
        return bars.to_vec();
    }
    bars.chunk_by(|a, b| a.warm == b.warm)
        .flat_map(|same| same.chunks(k))
        .map(|chunk| {
            let n = chunk.len() as f64;
            let mean = |f: &dyn Fn(&Bar) -> f64| chunk.iter().map(f).sum::<f64>() / n;
            Bar {
                epochs: (chunk[0].epochs.0, chunk[chunk.len() - 1].epochs.1),
                parts: std::array::from_fn(|p| mean(&|b| b.parts[p])),
                hidden: mean(&|b| b.hidden),
                wall: mean(&|b| b.wall),
                warm: chunk[0].warm,
            }
        })
        .collect()
}

/// Medians over the epochs that are not warm-up (over all when every epoch is one).
pub(super) fn typical(bars: &[Bar]) -> Bar {
    let cold: Vec<&Bar> = bars.iter().filter(|b| !b.warm).collect();
    let used = if cold.is_empty() {
        bars.iter().collect()
    } else {
        cold
    };
    let median = |f: &dyn Fn(&Bar) -> f64| units::median(used.iter().map(|b| f(b)));
    Bar {
        epochs: (f64::NAN, f64::NAN),
        parts: std::array::from_fn(|p| median(&|b| b.parts[p])),
        hidden: median(&|b| b.hidden),
        wall: median(&|b| b.wall),
        warm: false,
    }
}

/// Stacked bars of compute, copy, exposed transfer, wait and other; `cases` carry `epochs` frames.
///
/// One run gives a bar per epoch, several runs one bar per run made of medians. The breakdown of
/// an epoch is that of its slowest rank, as the frame records it.
///
/// # Errors
/// A frame without `epoch` or `wall_ms`.
pub fn stack(cases: &[Case]) -> Result<Plot, PlotError> {
    let settings: Vec<&Setting> = cases.iter().map(|c| &c.setting).collect();
    if cases.iter().all(|c| c.frame.height() == 0) {
        let title = "Where the time of an epoch went";
        return blank(title, "No epoch has been recorded yet.", &settings);
    }
    match cases {
        [one] => single(one),
        _ => stack_runs::stack_runs(cases),
    }
}

fn single(case: &Case) -> Result<Plot, PlotError> {
    let (has, epochs) = bars(&case.frame)?;
    let shown = binned(&epochs, epochs.len().div_ceil(MAX_BARS));
    let usual = typical(&epochs);
    let title = format!(
        "Where the time of each epoch went, {}",
        case.setting.data_label()
    );
    let warm = epochs.iter().filter(|b| b.warm).count();
    let mut notes = vec![subtitle(&usual, warm, epochs.len())];
    if shown.len() < epochs.len() {
        let k = epochs.len().div_ceil(MAX_BARS);
        notes.push(format!("each bar is the mean of {k} epochs"));
    }
    if let Some(gap) = residual(&epochs) {
        notes.push(gap);
    }
    if let Some(stop) = case.setting.stop_label() {
        notes.push(format!(
            "{stop} after {}",
            units::plural(epochs.len(), "epoch")
        ));
    }
    let foot = stamp(&[&case.setting]);
    let head = Head {
        title: title.clone(),
        subtitle: notes.join(" · "),
        desc: format!("Medians: {}", words(&has, &usual)),
        legend: legend(&has, epochs.iter().any(|b| b.hidden > 0.0), Some(&usual)),
        foot: foot.clone(),
    };
    let svg = sheet(&head, (880, 310), |area| {
        let plot = part(area, (SIDE, 0), (880 - 2 * SIDE, 310));
        draw(&plot, &shown, &has)
    })?;
    let text = twin(&title, &notes, &numbers(&has, &usual), &foot);
    Ok(Plot { svg, text })
}

fn subtitle(usual: &Bar, warm: usize, epochs: usize) -> String {
    let skipped = match warm {
        0 => String::new(),
        n if n == epochs => ", all of them warm-up".into(),
        n => format!(", {n} warm-up (pale) left out of medians"),
    };
    format!(
        "median epoch {} on its slowest rank · {}{skipped}",
        units::ms(usual.wall),
        units::plural(epochs, "epoch")
    )
}

/// A remark when parts and wall time disagree by more than 1 % somewhere.
fn residual(bars: &[Bar]) -> Option<String> {
    let worst = bars
        .iter()
        .filter(|b| b.wall > 0.0)
        .map(|b| (b.wall - b.sum()).abs() / b.wall)
        .fold(0.0, f64::max);
    (worst > 0.01).then(|| format!("parts miss wall time by up to {}", units::percent(worst)))
}

/// The legend, with medians when `usual` is given.
pub(super) fn legend(has: &[bool; 5], hidden: bool, usual: Option<&Bar>) -> Vec<(Key, String)> {
    let value = |v: f64| match usual {
        Some(_) => format!(" {}", units::ms(v)),
        None => String::new(),
    };
    let parts = (0..5).filter(|p| has[*p]).map(|p| {
        let ms = usual.map_or(f64::NAN, |u| u.parts[p]);
        (Key::Box(PARTS[p].2), format!("{}{}", PARTS[p].0, value(ms)))
    });
    let mut legend: Vec<_> = parts.collect();
    if hidden {
        let ms = value(usual.map_or(f64::NAN, |u| u.hidden));
        legend.push((
            Key::Dashed(Ink::HIDDEN),
            format!("hidden comm{ms} (not in wall)"),
        ));
    }
    legend
}

fn words(has: &[bool; 5], usual: &Bar) -> String {
    let parts: Vec<String> = (0..5)
        .filter(|p| has[*p])
        .map(|p| format!("{} {}", PARTS[p].0, units::ms(usual.parts[p])))
        .collect();
    parts.join(", ")
}

fn numbers(has: &[bool; 5], usual: &Bar) -> String {
    let total = usual.sum();
    let row = |name: &str, ms: f64, share: String| vec![name.to_owned(), format!("{ms:.3}"), share];
    let mut rows: Vec<Vec<String>> = (0..5)
        .filter(|p| has[*p])
        .map(|p| {
            let ms = usual.parts[p];
            row(PARTS[p].0, ms, units::percent(ms / total))
        })
        .collect();
    rows.push(row("wall", usual.wall, String::new()));
    rows.push(row("hidden comm", usual.hidden, "not in wall".into()));
    table(&["part of an epoch", "median ms", "share"], &rows)
}

/// Height of the axis: everything fits, unless a few bars are far above the rest.
fn ceiling(bars: &[Bar]) -> f64 {
    let usual = units::median(bars.iter().filter(|b| !b.warm).map(Bar::top));
    let usual = if usual > 0.0 {
        usual
    } else {
        units::median(bars.iter().map(Bar::top))
    };
    // A warm-up bar may not flatten the others; an outlier may, up to a point.
    let fits = |bar: &&Bar| {
        let times = if bar.warm { 1.6 } else { 4.0 };
        usual <= 0.0 || bar.top() <= times * usual
    };
    let top = bars.iter().filter(fits).map(Bar::top).fold(0.0, f64::max);
    if top > 0.0 { top * 1.12 } else { 1.0 }
}

fn draw(area: &Area<'_>, bars: &[Bar], has: &[bool; 5]) -> Result<(), PlotError> {
    let top = ceiling(bars);
    let n = bars.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin_top(16 * U)
        .margin_right(10 * U)
        .x_label_area_size(38 * U)
        .y_label_area_size(58 * U)
        .build_cartesian_2d(0.0..n, 0.0..top)
        .map_err(PlotError::draw)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(stroke(Ink::GRID, 8))
        .light_line_style(plotters::style::TRANSPARENT)
        .axis_style(stroke(Ink::FAINT, 10))
        .set_all_tick_mark_size(4 * U)
        .label_style(Type::new(11).faint().style())
        .axis_desc_style(Type::new(12).style())
        .x_labels(0)
        .y_labels(6)
        .y_label_formatter(&|v| units::tick(*v))
        .y_desc("epoch wall time (ms)")
        .draw()
        .map_err(PlotError::draw)?;
    let gap = if bars.len() > 100 { 0.04 } else { 0.1 };
    let width = area.dim_in_pixel().0 as f64 / n;
    let rim = if width > f64::from(8 * U) { 5 } else { 2 };
    for (i, bar) in bars.iter().enumerate() {
        let (x0, x1) = (i as f64 + gap, i as f64 + 1.0 - gap);
        let mut base = 0.0;
        for p in (0..5).filter(|p| has[*p] && bar.parts[*p] > 0.0) {
            let end = base + bar.parts[p];
            let rect = [(x0, base.min(top)), (x1, end.min(top))];
            let pale = if bar.warm { 0.35 } else { 1.0 };
            let fill = Rectangle::new(rect, PARTS[p].2.mix(pale).filled());
            let rim = Rectangle::new(rect, stroke(Ink::TEXT, rim));
            chart.draw_series([fill]).map_err(PlotError::draw)?;
            if width > f64::from(5 * U) {
                chart.draw_series([rim]).map_err(PlotError::draw)?;
            }
            base = end;
        }
        if bar.hidden > 0.0 && base < top && width > f64::from(8 * U) {
            let rect = [(x0, base), (x1, (base + bar.hidden).min(top))];
            let outline = Rectangle::new(rect, stroke(Ink::HIDDEN, 8));
            chart.draw_series([outline]).map_err(PlotError::draw)?;
        }
    }
    if width <= f64::from(8 * U) && bars.iter().any(|b| b.hidden > 0.0) {
        // Bars too narrow for an outline each share one contour.
        let steps = bars.iter().enumerate().flat_map(|(i, bar)| {
            let y = bar.top().min(top);
            [(i as f64, y), (i as f64 + 1.0, y)]
        });
        let contour = PathElement::new(steps.collect::<Vec<_>>(), stroke(Ink::HIDDEN, 9));
        chart.draw_series([contour]).map_err(PlotError::draw)?;
    }
    let spot = |x: f64, y: f64| {
        let ((px, py), (ox, oy)) = (chart.backend_coord(&(x, y)), area.get_base_pixel());
        ((px - ox) / U, (py - oy) / U)
    };
    let mut told = f64::NEG_INFINITY;
    for (i, bar) in bars.iter().enumerate().filter(|(_, b)| b.top() > top) {
        let x = i as f64 + 0.5;
        let (px, py) = spot(x, top);
        let room = (x - told) * width > f64::from(70 * U);
        let text = match room {
            true => format!("▲ {}", units::ms(bar.sum())),
            false => "▲".to_owned(),
        };
        told = if room { x } else { told };
        word(area, &text, ((px - 5).max(60), py - 8), Type::new(11))?;
    }
    for i in ticks(bars) {
        let (px, py) = spot(i as f64 + 0.5, 0.0);
        let (first, last) = bars[i].epochs;
        let text = match first == last || bars.len() > 12 {
            true => format!("{first:.0}"),
            false => format!("{first:.0}–{last:.0}"),
        };
        word(area, &text, (px, py + 11), Type::new(11).faint().centered())?;
    }
    let (px, py) = spot(n / 2.0, 0.0);
    word(area, "epoch", (px, py + 29), Type::new(12).centered())
}

/// Bars to be numbered: where a multiple of a round step begins, about a dozen at most.
fn ticks(bars: &[Bar]) -> Vec<usize> {
    let round = (0..)
        .flat_map(|k| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(k)))
        .find(|step| bars.last().map_or(0.0, |b| b.epochs.1) / step <= 12.0)
        .unwrap_or(1.0);
    let holds = |bar: &Bar| (bar.epochs.0 / round).ceil() * round <= bar.epochs.1;
    (0..bars.len()).filter(|i| holds(&bars[*i])).collect()
}
