//! Axes as every chart here has them, and the way from a chart's values back to its pixels.

use std::ops::Range;

use plotters::chart::ChartContext;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;

use super::ink::Ink;
use super::paper::{Paper, U};
use super::sheet::{Area, Type, hover, stroke};
use super::{PlotError, units};

/// A chart with two linear axes.
pub(crate) type Chart<'a, 'p> =
    ChartContext<'a, Paper<'p>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// What an axis says; no name and no numbers when empty.
#[derive(Clone, Copy, Default)]
pub(crate) struct Named<'n> {
    /// With its unit.
    pub name: &'n str,
    /// About how many numbers.
    pub ticks: usize,
    /// Whether lines cross the chart at the numbers.
    pub lines: bool,
    /// Whether it counts, so that there is nothing between whole numbers.
    pub whole: bool,
}

impl Named<'_> {
    /// How many numbers an axis of such a length has at most.
    fn most(&self, range: &Range<f64>) -> usize {
        let steps = (range.end - range.start).abs().floor() as usize + 1;
        if self.whole {
            self.ticks.min(steps)
        } else {
            self.ticks
        }
    }

    /// The number at `value` of an axis of such a length.
    fn number(&self, value: f64, range: &Range<f64>) -> String {
        if self.whole && value.fract().abs() > 1e-9 {
            return String::new();
        }
        units::tick(
            value,
            (range.end - range.start).abs() / self.ticks.max(1) as f64,
        )
    }
}

/// Draws both axes of `chart`.
pub(crate) fn axes(chart: &mut Chart<'_, '_>, x: Named<'_>, y: Named<'_>) -> Result<(), PlotError> {
    let (xs, ys) = (chart.x_range(), chart.y_range());
    let mut mesh = chart.configure_mesh();
    if !x.lines {
        mesh.disable_x_mesh();
    }
    if !y.lines {
        mesh.disable_y_mesh();
    }
    if !x.name.is_empty() {
        mesh.x_desc(x.name);
    }
    if !y.name.is_empty() {
        mesh.y_desc(y.name);
    }
    mesh.bold_line_style(stroke(Ink::GRID, 8))
        .light_line_style(plotters::style::TRANSPARENT)
        .axis_style(stroke(Ink::FAINT, 10))
        .set_all_tick_mark_size(4 * U)
        .label_style(Type::new(11).faint().style())
        .axis_desc_style(Type::new(12).style())
        .x_labels(x.most(&xs))
        .y_labels(y.most(&ys))
        .x_label_formatter(&|v| x.number(*v, &xs))
        .y_label_formatter(&|v| y.number(*v, &ys))
        .draw()
        .map_err(PlotError::draw)
}

/// Where `(x, y)` of `chart` lies in `area`, px.
pub(crate) fn spot(chart: &Chart<'_, '_>, area: &Area<'_>, x: f64, y: f64) -> (i32, i32) {
    let ((px, py), (ox, oy)) = (chart.backend_coord(&(x, y)), area.get_base_pixel());
    ((px - ox) / U, (py - oy) / U)
}

/// What a pointer over the `rect` of `chart` reads, opposite corners in the chart's values.
pub(crate) fn tip(
    chart: &Chart<'_, '_>,
    area: &Area<'_>,
    rect: [(f64, f64); 2],
    text: &str,
) -> Result<(), PlotError> {
    let [(x0, y0), (x1, y1)] = rect.map(|(x, y)| spot(chart, area, x, y));
    let size = ((x1 - x0).abs().max(1), (y1 - y0).abs().max(1));
    hover(area, (x0.min(x1), y0.min(y1)), size, text)
}

/// The end of an axis: a little above the largest value that is known, and never 0.
pub(crate) fn top(values: impl Iterator<Item = f64>) -> f64 {
    let max = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
    if max > 0.0 { max * 1.12 } else { 1.0 }
}
