//! Charts of lines under each other, over one axis.

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement};
use plotters::style::Color;

use super::PlotError;
use super::axes::{Named, axes, top};
use super::ink::Ink;
use super::paper::U;
use super::sheet::{Area, SIDE, part, stroke};

/// How wide such a figure is, px.
pub(super) const WIDTH: i32 = 880;
/// How high one chart is.
const PANEL: i32 = 150;
/// The axis under the last one.
const AXIS: i32 = 34;

/// A chart.
pub(super) struct Panel {
    /// What its own axis says.
    pub name: &'static str,
    /// Lines with their inks.
    pub lines: Vec<(Ink, Vec<(f64, f64)>)>,
    /// The most that is drawn, where that is known.
    pub most: Option<f64>,
    /// Whether only points are drawn: one is not on the way to the next.
    pub dots: bool,
    /// Where a dashed rule goes across.
    pub rule: Option<f64>,
}

/// Width and height of so many.
pub(super) fn size(panels: usize) -> (i32, i32) {
    (WIDTH, panels as i32 * PANEL + AXIS)
}

/// Draws them from 0 to `end` of the axis `x` that they share.
pub(super) fn draw(
    area: &Area<'_>,
    (x, end): (&str, f64),
    panels: &[Panel],
) -> Result<(), PlotError> {
    for (k, panel) in panels.iter().enumerate() {
        let last = k + 1 == panels.len();
        let high = PANEL + if last { AXIS } else { 0 };
        let at = part(area, (SIDE, k as i32 * PANEL), (WIDTH - 2 * SIDE, high));
        one(&at, if last { x } else { "" }, end, panel)?;
    }
    Ok(())
}

fn one(area: &Area<'_>, x: &str, end: f64, panel: &Panel) -> Result<(), PlotError> {
    let values = panel.lines.iter().flat_map(|line| &line.1).map(|p| p.1);
    let most = panel.most.unwrap_or_else(|| top(values));
    let mut chart = ChartBuilder::on(area)
        .margin_top(8 * U)
        .margin_right(12 * U)
        .x_label_area_size(if x.is_empty() { 18 } else { 38 } * U)
        .y_label_area_size(64 * U)
        .build_cartesian_2d(0.0..end, 0.0..1.05 * most)
        .map_err(PlotError::draw)?;
    let axis = |name, ticks| Named {
        name,
        ticks,
        lines: true,
        whole: false,
    };
    axes(&mut chart, axis(x, 8), axis(panel.name, 4))?;
    if let Some(at) = panel.rule {
        let rule = PathElement::new(vec![(0.0, at), (end, at)], stroke(Ink::STOP, 12));
        chart.draw_series([rule]).map_err(PlotError::draw)?;
    }
    for (ink, points) in &panel.lines {
        if panel.dots || points.len() < 2 {
            let dots = points
                .iter()
                .map(|&at| Circle::new(at, 2 * U, ink.filled()));
            chart.draw_series(dots).map_err(PlotError::draw)?;
        } else {
            let path = PathElement::new(points.clone(), stroke(*ink, 13));
            chart.draw_series([path]).map_err(PlotError::draw)?;
        }
    }
    Ok(())
}
