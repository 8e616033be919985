//! Bars, from zero.

use plotters::chart::ChartBuilder;
use plotters::element::{PathElement, Rectangle};
use plotters::style::Color;

use super::gather::Data;
use super::{Figure, HEIGHT, WIDTH};
use crate::plot::axes::{Chart, Named, axes, spot};
use crate::plot::ink::Ink;
use crate::plot::paper::{U, text_width};
use crate::plot::sheet::{Area, SIDE, Type, fit, part, stroke, word};
use crate::plot::{PlotError, digits};

/// Room below the axis for a line of the groups' labels, and the most lines.
pub(super) const LINE: i32 = 14;
pub(super) const LINES: usize = 3;
/// Room left of the drawing for the numbers of the axis and its name.
pub(super) const LEFT: i32 = 62;
/// Room right of it.
const RIGHT: i32 = 8;
/// Size of the numbers over bars.
const SMALL: i32 = 10;

/// What the `k`-th of so many series is filled with: neighbours differ in grey.
pub(super) fn fill(k: usize, of: usize) -> Ink {
    match of {
        1 => Ink::COMPUTE,
        2 => [Ink::COMPUTE, Ink::TRANSFER][k % 2],
        3 | 4 => [Ink::COMPUTE, Ink::COPY, Ink::TRANSFER, Ink::WAIT][k % 4],
        _ => [
            Ink::COMPUTE,
            Ink::COPY,
            Ink::TRANSFER,
            Ink::WAIT,
            Ink::HALO,
            Ink::TRAIN,
        ][k % 6],
    }
}

pub(super) fn draw(
    area: &Area<'_>,
    figure: &Figure<'_>,
    data: &Data,
    stacked: bool,
) -> Result<(), PlotError> {
    let area = part(area, (SIDE, 0), (WIDTH - 2 * SIDE, HEIGHT));
    let n = data.groups.len();
    let sums = (0..n).map(|g| match stacked {
        true => data.series.iter().map(|s| known(s.spread(g)[0])).sum(),
        false => data
            .series
            .iter()
            .map(|s| known(s.spread(g)[2]))
            .fold(0.0, f64::max),
    });
    let marks = figure.marks.iter().map(|(_, value)| *value);
    let top = sums.chain(marks).fold(0.0, f64::max);
    let top = if top > 0.0 { top * 1.12 } else { 1.0 };
    let margin = RIGHT + mark_room(figure);
    let slot = (WIDTH - 2 * SIDE - LEFT - margin) / n.max(1) as i32;
    let words = data
        .groups
        .iter()
        .map(|group| label(group, f64::from(slot - 4)));
    let words: Vec<Vec<String>> = words.collect();
    let deepest = words.iter().map(Vec::len).max().unwrap_or(0) as i32;
    let mut chart = ChartBuilder::on(&area)
        .margin_top(8 * U)
        .margin_right(margin * U)
        .x_label_area_size((12 + LINE * deepest) * U)
        .y_label_area_size(LEFT * U)
        .build_cartesian_2d(0.0..n as f64, 0.0..top)
        .map_err(PlotError::draw)?;
    let y = Named {
        name: &figure.unit,
        ticks: 6,
        lines: true,
        whole: false,
    };
    axes(&mut chart, Named::default(), y)?;
    let (left, base) = spot(&chart, &area, 0.0, 0.0);
    for g in 0..n {
        let bars = if stacked { 1 } else { data.series.len() };
        // A quarter of a group is room to the next one.
        let wide = 0.76 / bars as f64;
        let mut below = 0.0;
        for (k, series) in data.series.iter().enumerate() {
            let [middle, least, most] = series.spread(g);
            if !middle.is_finite() {
                continue;
            }
            let place = if stacked { 0 } else { k };
            let x = g as f64 + 0.12 + wide * place as f64;
            let ink = fill(k, data.series.len());
            let (from, to) = if stacked {
                (below, below + middle)
            } else {
                (0.0, middle)
            };
            let rect = [(x + 0.02 * wide, from), (x + 0.98 * wide, to)];
            let fill = Rectangle::new(rect, ink.filled());
            let rim = Rectangle::new(rect, stroke(Ink::TEXT, 6));
            chart.draw_series([fill, rim]).map_err(PlotError::draw)?;
            if most > least && !stacked {
                whisker(&mut chart, Ink::TEXT, x + wide / 2.0, [least, most])?;
            }
            below = to;
            let last = k + 1 == data.series.len();
            let text = digits(if stacked { below } else { middle });
            let room = if stacked {
                slot
            } else {
                (f64::from(slot) * wide) as i32 + 3
            };
            if (!stacked || last) && text_width(&text, f64::from(SMALL)) <= f64::from(room) {
                let at = spot(
                    &chart,
                    &area,
                    x + wide / 2.0,
                    if stacked { to } else { most.max(middle) },
                );
                word(&area, &text, (at.0, at.1 - 8), Type::new(SMALL).centered())?;
            }
        }
        let middle = left + slot * g as i32 + slot / 2;
        for (k, line) in label(&data.groups[g], f64::from(slot - 4))
            .iter()
            .enumerate()
        {
            let at = (middle, base + 13 + LINE * k as i32);
            word(&area, line, at, Type::new(11).centered())?;
        }
    }
    cross(&mut chart, &area, figure, n as f64)
}

/// From the smallest to the largest of repeats.
pub(super) fn whisker(
    chart: &mut Chart<'_, '_>,
    ink: Ink,
    x: f64,
    ends: [f64; 2],
) -> Result<(), PlotError> {
    let line = PathElement::new(ends.map(|y| (x, y)), stroke(ink, 14));
    let drawn = chart.draw_series([line]);
    drawn.map(|_| ()).map_err(PlotError::draw)
}

/// Room for the names of the figure's marks, px.
pub(super) fn mark_room(figure: &Figure<'_>) -> i32 {
    let widest = figure
        .marks
        .iter()
        .map(|(words, _)| text_width(words, 11.0));
    widest.fold(0.0, f64::max).ceil() as i32
}

/// The figure's marks: lines across, named right of them.
pub(super) fn cross(
    chart: &mut Chart<'_, '_>,
    area: &Area<'_>,
    figure: &Figure<'_>,
    right: f64,
) -> Result<(), PlotError> {
    let start = chart.plotting_area().get_x_range().start;
    for (words, value) in &figure.marks {
        let line = PathElement::new(
            vec![(start, *value), (right, *value)],
            stroke(Ink::STOP, 14),
        );
        chart.draw_series([line]).map_err(PlotError::draw)?;
        let (x, y) = spot(chart, area, right, *value);
        let face = Type::new(11).ink(Ink::STOP);
        word(area, words, (x + 4, y), face)?;
    }
    Ok(())
}

/// A label in at most [`LINES`] lines.
pub(super) fn label(text: &str, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let joined = lines.last().map(|line| format!("{line} {word}"));
        match joined {
            Some(joined) if text_width(&joined, 11.0) <= room => {
                lines.pop();
                lines.push(joined);
            }
            _ => lines.push(fit(word, 11.0, room)),
        }
    }
    if lines.len() > LINES {
        lines.truncate(LINES);
        lines[LINES - 1].push('…');
    }
    lines
}

fn known(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}
