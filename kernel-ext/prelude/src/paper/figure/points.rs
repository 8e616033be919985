//! Lines and dots.

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement};
use plotters::style::Color;

use super::bars::{LEFT, LINE, LINES, cross, label, mark_room, whisker};
use super::gather::Data;
use super::{Figure, HEIGHT, Kind, WIDTH};
use crate::plot::PlotError;
use crate::plot::axes::{Named, axes, spot};
use crate::plot::ink::Ink;
use crate::plot::paper::{U, text_width};
use crate::plot::sheet::{Area, SIDE, Type, part, stroke, word};
use crate::plot::units::tick;

/// Radius of a dot, px.
const DOT: i32 = 4;
/// So many places of an x axis are named each, ...
const EACH: usize = 8;
/// ... where they are whole numbers, and no closer to each other than this part of the axis.
const APART: f64 = 0.04;

/// A lane of dots for each series: which x it has, and no more.
pub(super) fn lanes(area: &Area<'_>, figure: &Figure<'_>, data: &Data) -> Result<(), PlotError> {
    let height = lanes_height(data);
    let area = part(area, (SIDE, 0), (WIDTH - 2 * SIDE, height));
    let (left, right) = room(data.xs.iter().flatten().copied());
    let n = data.series.len() as f64;
    let widest = data.series.iter().map(|s| text_width(&s.name, 12.0));
    let names = widest.fold(40.0, f64::max).ceil() as i32 + 18;
    let mut chart = ChartBuilder::on(&area)
        .margin_right(12 * U)
        .x_label_area_size(40 * U)
        .y_label_area_size(names * U)
        .build_cartesian_2d(left..right, n..0.0)
        .map_err(PlotError::draw)?;
    let x = Named {
        name: figure.x_name(),
        ticks: 12,
        lines: true,
        whole: false,
    };
    axes(&mut chart, x, Named::default())?;
    for (k, series) in data.series.iter().enumerate() {
        let y = k as f64 + 0.5;
        let places = series.values.iter().zip(data.xs.iter().flatten());
        let places = places.filter(|(values, _)| !values.is_empty());
        let dots: Vec<_> = places
            .map(|(_, x)| Circle::new((*x, y), DOT * U, Ink::line(k).filled()))
            .collect();
        chart.draw_series(dots).map_err(PlotError::draw)?;
        let (_, at) = spot(&chart, &area, left, y);
        word(&area, &series.name, (names - 10, at), Type::new(12).right())?;
    }
    Ok(())
}

/// Height of so many lanes, px.
pub(super) fn lanes_height(data: &Data) -> i32 {
    24 * data.series.len() as i32 + 50
}

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
        .margin_right((12 + mark_room(figure)) * U)
        .x_label_area_size(
            (30 + if data.xs.is_some() {
                LINE
            } else {
                LINE * LINES as i32
            }) * U,
        )
        .y_label_area_size(LEFT * U)
        .build_cartesian_2d(left..right, bottom..top)
        .map_err(PlotError::draw)?;
    // Few places are named each; others get round numbers.
    let each = data.xs.is_none() || figure.kind == Kind::Lines && are_few(&xs, right - left);
    let x = Named {
        name: figure.x_name(),
        ticks: if each { 0 } else { 10 },
        lines: false,
        whole: false,
    };
    let y = Named {
        name: &figure.unit,
        ticks: 6,
        lines: true,
        whole: false,
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
                    whisker(&mut chart, ink, *x, [least, most])?;
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
    if each {
        let wide = spot(&chart, &area, right, bottom).0 - spot(&chart, &area, left, bottom).0;
        let slot = f64::from(wide) / xs.len() as f64 - 4.0;
        for (x, group) in xs.iter().zip(&data.groups) {
            let (at, base) = spot(&chart, &area, *x, bottom);
            let name = match data.xs {
                Some(_) => tick(*x, 1.0),
                None => group.clone(),
            };
            for (k, line) in label(&name, slot).iter().enumerate() {
                let at = (at, base + 13 + LINE * k as i32);
                word(&area, line, at, Type::new(11).centered())?;
            }
        }
    }
    cross(&mut chart, &area, figure, right)
}

/// Whether places on an axis of length `wide` can each have their name.
fn are_few(xs: &[f64], wide: f64) -> bool {
    let mut sorted = xs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let apart = |pair: &[f64]| pair[1] - pair[0] >= APART * wide;
    xs.len() <= EACH && xs.iter().all(|x| x.fract() == 0.0) && sorted.windows(2).all(apart)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_where_their_names_do_not_meet() {
        assert!(are_few(&[2.0, 4.0, 8.0, 16.0, 32.0], 34.0));
        assert!(are_few(&[32.0, 2.0], 34.0), "in any order");
        assert!(!are_few(&[1.0, 2.0, 512.0], 560.0), "too close");
        assert!(!are_few(&[4.18, 22.1], 20.0), "no whole numbers");
        let many: Vec<f64> = (0..9).map(f64::from).collect();
        assert!(!are_few(&many, 9.0), "too many");
    }
}
