//! Axes as every chart here has them, and the way from a chart's values back to its pixels.

use plotters::chart::ChartContext;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;

use super::ink::Ink;
use super::paper::{Paper, U};
use super::sheet::{Area, Type, stroke};
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
}

/// Draws both axes of `chart`.
pub(crate) fn axes(chart: &mut Chart<'_, '_>, x: Named<'_>, y: Named<'_>) -> Result<(), PlotError> {
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
        .x_labels(x.ticks)
        .y_labels(y.ticks)
        .x_label_formatter(&|v| units::tick(*v))
        .y_label_formatter(&|v| units::tick(*v))
        .draw()
        .map_err(PlotError::draw)
}

/// Where `(x, y)` of `chart` lies in `area`, px.
pub(crate) fn spot(chart: &Chart<'_, '_>, area: &Area<'_>, x: f64, y: f64) -> (i32, i32) {
    let ((px, py), (ox, oy)) = (chart.backend_coord(&(x, y)), area.get_base_pixel());
    ((px - ox) / U, (py - oy) / U)
}

/// The end of an axis: a little above the largest value that is known, and never 0.
pub(crate) fn top(values: impl Iterator<Item = f64>) -> f64 {
    let max = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
    if max > 0.0 { max * 1.12 } else { 1.0 }
}
