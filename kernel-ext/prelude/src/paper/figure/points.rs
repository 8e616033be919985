//! Lines and dots.

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement};
use plotters::style::Color;

use super::bars::{cross, label, whisker};
use super::gather::Data;
use super::{Figure, HEIGHT, Kind, WIDTH};
use crate::plot::PlotError;
use crate::plot::axes::{Named, axes, spot};
use crate::plot::ink::Ink;
use crate::plot::paper::U;
use crate::plot::sheet::{Area, SIDE, Type, part, stroke, word};

/// Radius of a dot, px.
const DOT: i32 = 4;

pub(super) fn draw(area: &Area<'_>, figure: &Figure<'_>, data: &Data) -> Result<(), PlotError> {
    let area = part(area, (SIDE, 0), (WIDTH - 2 * SIDE, HEIGHT));
    let places = (0..data.groups.len()).map(|g| g as f64 + 0.5);
    let xs: Vec<f64> = data.xs.clone().unwrap_or_else(|| places.collect());
    let (left, right) = match data.xs {
        Some(_) => room(xs.iter().copied()),
        None => (0.0, xs.len() as f64),
    };
    let values = data
        .series
        .iter()
        .flat_map(|s| s.values.iter().flatten().copied());
    let (bottom, top) = room(values.chain(figure.marks.iter().map(|mark| mark.1)));
    // Zero is shown where it is near; a band of scores far from it is not squeezed.
    let bottom = if bottom > 0.0 && bottom < 0.6 * top {
        0.0
    } else {
        bottom
    };
    let mut chart = ChartBuilder::on(&area)
        .margin_top(10 * U)
        .margin_right(12 * U)
        .x_label_area_size(44 * U)
        .y_label_area_size(62 * U)
        .build_cartesian_2d(left..right, bottom..top)
        .map_err(PlotError::draw)?;
    let x = match data.xs {
        Some(_) => Named {
            name: &figure.x,
            ticks: xs.len().min(10),
            lines: false,
        },
        None => Named::default(),
    };
    let y = Named {
        name: &figure.unit,
        ticks: 6,
        lines: true,
    };
    axes(&mut chart, x, y)?;
    for (k, series) in data.series.iter().enumerate() {
        let ink = Ink::line(k);
        if figure.kind == Kind::Scatter {
            let all = series.values.iter().zip(&xs);
            let all = all.flat_map(|(values, x)| values.iter().map(|y| (*x, *y)));
            let dots: Vec<_> = all
                .map(|at| Circle::new(at, DOT * U, ink.filled()))
                .collect();
            chart.draw_series(dots).map_err(PlotError::draw)?;
            continue;
        }
        let mut line: Vec<(f64, f64)> = Vec::new();
        for (g, x) in xs.iter().enumerate() {
            let [middle, least, most] = series.spread(g);
            if middle.is_finite() {
                line.push((*x, middle));
                if most > least {
                    whisker(&mut chart, *x, least, most)?;
                }
            }
        }
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        let dots: Vec<_> = line
            .iter()
            .map(|at| Circle::new(*at, DOT * U, ink.filled()))
            .collect();
        chart
            .draw_series([PathElement::new(line, stroke(ink, 18))])
            .map_err(PlotError::draw)?;
        chart.draw_series(dots).map_err(PlotError::draw)?;
    }
    if data.xs.is_none() {
        let slot = spot(&chart, &area, 1.0, bottom).0 - spot(&chart, &area, 0.0, bottom).0;
        for (x, group) in xs.iter().zip(&data.groups) {
            let (at, base) = spot(&chart, &area, *x, bottom);
            for (k, line) in label(group, f64::from(slot - 4)).iter().enumerate() {
                word(
                    &area,
                    line,
                    (at, base + 13 + 14 * k as i32),
                    Type::new(11).centered(),
                )?;
            }
        }
    }
    cross(&mut chart, &area, figure, right)
}

/// From the smallest to the largest value, with a little room.
fn room(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    let wide = if most > least {
        most - least
    } else {
        most.abs().max(1.0)
    };
    (least - 0.05 * wide, most + 0.08 * wide)
}
