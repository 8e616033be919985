//! `stack` for one run: a bar an epoch.

use plotters::chart::ChartBuilder;
use plotters::element::{PathElement, Rectangle};
use plotters::style::Color;

use super::axes::{Named, axes, spot};
use super::ink::Ink;
use super::sheet::{Area, Type, stroke, word};
use super::stack::{Bar, PARTS};
use super::{PlotError, paper::U, units};

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

/// How many of `bars` end above the axis.
pub(super) fn cut(bars: &[Bar]) -> usize {
    let top = ceiling(bars);
    bars.iter().filter(|b| b.top() > top).count()
}

/// Draws `bars` side by side on `area`.
pub(super) fn draw(area: &Area<'_>, bars: &[Bar], has: &[bool; 5]) -> Result<(), PlotError> {
    let top = ceiling(bars);
    let n = bars.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin_top(16 * U)
        .margin_right(10 * U)
        .x_label_area_size(38 * U)
        .y_label_area_size(58 * U)
        .build_cartesian_2d(0.0..n, 0.0..top)
        .map_err(PlotError::draw)?;
    let y = Named {
        name: "epoch wall time (ms)",
        ticks: 6,
        lines: true,
        whole: false,
    };
    axes(&mut chart, Named::default(), y)?;
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
    let spot = |x: f64, y: f64| spot(&chart, area, x, y);
    let mut told = f64::NEG_INFINITY;
    for (i, bar) in bars.iter().enumerate().filter(|(_, b)| b.top() > top) {
        let x = i as f64 + 0.5;
        let (px, py) = spot(x, top);
        let room = (x - told) * width > f64::from(70 * U);
        if !room {
            continue;
        }
        told = x;
        let text = format!("▲ {}", units::ms(bar.sum()));
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
