//! Lines and dots.

use plotters::element::{Circle, PathElement};
use plotters::style::Color;

use super::gather::Data;
use super::layout::{Panel, Scales, room};
use super::{Chart, Mark};
use crate::plot::axes::spot;
use crate::plot::ink::Ink;
use crate::plot::paper::U;
use crate::plot::sheet::{hover, stroke};
use crate::plot::{PlotError, digits};

/// So many dots have a place that a pointer reads.
const MOST_TIPS: usize = 500;

pub(super) fn scales(data: &Data, chart: &Chart) -> Scales {
    let ends: Vec<f64> = match chart.mark {
        Mark::Scatter => data.flat().collect(),
        _ => data
            .all()
            .filter_map(|place| place.spread(&chart.spread))
            .flatten()
            .collect(),
    };
    let (x, whole, places) = match &data.xs {
        Some(xs) => {
            let around = room(xs.iter().copied());
            (around, xs.iter().all(|x| x.fract() == 0.0), Vec::new())
        }
        None => (0.0..data.places.len() as f64, false, data.places.clone()),
    };
    Scales {
        x,
        y: room(ends.iter().copied()),
        whole: [whole, false],
        places,
    }
}

/// Where the `k`-th place is at the axis.
fn at(data: &Data, k: usize) -> f64 {
    data.xs.as_ref().map_or(k as f64 + 0.5, |xs| xs[k])
}

pub(super) fn lines(panel: Panel<'_, '_, '_>) -> Result<(), PlotError> {
    let Panel {
        chart,
        area,
        data,
        number,
        spread,
    } = panel;
    for (s, series) in data.values[number].iter().enumerate() {
        let ink = Ink::line(s);
        let places = series.iter().enumerate();
        let mut ends: Vec<(f64, [f64; 3])> = places
            .filter_map(|(k, place)| Some((at(data, k), place.spread(spread)?)))
            .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let line: Vec<(f64, f64)> = ends.iter().map(|(x, ends)| (*x, ends[1])).collect();
        for (x, [low, _, high]) in ends.iter().filter(|(_, ends)| ends[2] > ends[0]) {
            let whisker = PathElement::new(vec![(*x, *low), (*x, *high)], stroke(ink, 14));
            chart.draw_series([whisker]).map_err(PlotError::draw)?;
        }
        chart
            .draw_series([PathElement::new(line.clone(), stroke(ink, 18))])
            .map_err(PlotError::draw)?;
        if line.len() <= 60 {
            let dots = line.iter().map(|at| Circle::new(*at, 4 * U, ink.filled()));
            chart.draw_series(dots).map_err(PlotError::draw)?;
        }
        for (x, y) in line.iter().take(MOST_TIPS) {
            let (px, py) = spot(chart, area, *x, *y);
            let said = format!("{} {}: {}", data.series[s], digits(*x), digits(*y));
            hover(area, (px - 5, py - 5), (10, 10), said.trim_start())?;
        }
    }
    Ok(())
}

pub(super) fn scatter(panel: Panel<'_, '_, '_>) -> Result<(), PlotError> {
    let Panel {
        chart,
        area,
        data,
        number,
        ..
    } = panel;
    let many = data.flat().count() > MOST_TIPS;
    for (s, series) in data.values[number].iter().enumerate() {
        let ink = Ink::line(s);
        for (k, place) in series.iter().enumerate() {
            let x = at(data, k);
            let size = if many { 2 * U } else { 4 * U };
            let dots = place
                .values
                .iter()
                .map(|y| Circle::new((x, *y), size, ink.mix(0.75).filled()));
            chart.draw_series(dots).map_err(PlotError::draw)?;
            for y in place.values.iter().filter(|_| !many) {
                let (px, py) = spot(chart, area, x, *y);
                let said = format!("{} {}: {}", data.series[s], data.places[k], digits(*y));
                hover(area, (px - 5, py - 5), (10, 10), said.trim_start())?;
            }
        }
    }
    Ok(())
}
