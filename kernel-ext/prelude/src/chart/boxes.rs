//! Quartiles of values (Tukey's box plot).

use plotters::element::{Circle, PathElement, Rectangle};
use plotters::style::Color;

use super::gather::Data;
use super::layout::{Panel, Scales, fill, room};
use crate::plot::axes::tip;
use crate::plot::ink::Ink;
use crate::plot::paper::U;
use crate::plot::sheet::stroke;
use crate::plot::{PlotError, digits};

/// Five numbers and what lies beyond.
struct Five {
    quartiles: [f64; 3],
    whiskers: [f64; 2],
    beyond: Vec<f64>,
}

impl Five {
    /// Of values, at least one.
    fn of(values: &[f64]) -> Five {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let quartiles = [0.25, 0.5, 0.75].map(|part| quantile(&sorted, part));
        let reach = 1.5 * (quartiles[2] - quartiles[0]);
        let near = |v: &f64| *v >= quartiles[0] - reach && *v <= quartiles[2] + reach;
        let within: Vec<f64> = sorted.iter().copied().filter(near).collect();
        Five {
            quartiles,
            whiskers: [
                within.first().map_or(quartiles[0], |v| v.min(quartiles[0])),
                within.last().map_or(quartiles[2], |v| v.max(quartiles[2])),
            ],
            beyond: sorted.into_iter().filter(|v| !near(v)).collect(),
        }
    }
}

/// A quantile of sorted values, between two of them in proportion.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = part * (sorted.len() - 1) as f64;
    let (low, rest) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + rest * (sorted[high] - sorted[low])
}

pub(super) fn scales(data: &Data) -> Scales {
    Scales {
        x: 0.0..data.places.len() as f64,
        y: room(data.flat()),
        whole: [false, false],
        places: data.places.clone(),
    }
}

pub(super) fn draw(panel: Panel<'_, '_, '_>) -> Result<(), PlotError> {
    let Panel {
        chart,
        area,
        data,
        number,
        ..
    } = panel;
    let wide = 0.76 / data.series.len() as f64;
    for (s, series) in data.values[number].iter().enumerate() {
        for (k, place) in series
            .iter()
            .enumerate()
            .filter(|(_, place)| !place.values.is_empty())
        {
            let five = Five::of(&place.values);
            let [low, middle, high] = five.quartiles;
            let x = k as f64 + 0.12 + wide * s as f64;
            let (left, right, mid) = (x + 0.1 * wide, x + 0.9 * wide, x + wide / 2.0);
            let thin = stroke(Ink::TEXT, 10);
            let stems = [(five.whiskers[0], low), (high, five.whiskers[1])];
            let stems =
                stems.map(|(from, to)| PathElement::new(vec![(mid, from), (mid, to)], thin));
            chart.draw_series(stems).map_err(PlotError::draw)?;
            let rect = [(left, low), (right, high)];
            let body = Rectangle::new(rect, fill(s).filled());
            let rim = Rectangle::new(rect, stroke(Ink::TEXT, 8));
            chart.draw_series([body, rim]).map_err(PlotError::draw)?;
            let rule = vec![(left, middle), (right, middle)];
            chart
                .draw_series([PathElement::new(rule, stroke(Ink::CARD, 24))])
                .map_err(PlotError::draw)?;
            let dots = five
                .beyond
                .iter()
                .map(|y| Circle::new((mid, *y), 3 * U, stroke(Ink::TEXT, 10)));
            chart.draw_series(dots).map_err(PlotError::draw)?;
            let said = format!(
                "{} {}: median {}, quartiles {} and {}, of {}",
                data.series[s],
                data.places[k],
                digits(middle),
                digits(low),
                digits(high),
                place.values.len()
            );
            let whole = [(left, five.whiskers[0]), (right, five.whiskers[1])];
            tip(chart, area, whole, said.trim_start())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_polars() {
        let five = Five::of(&[1.0, 2.0, 3.0, 4.0, 100.0]);
        assert_eq!(five.quartiles, [2.0, 3.0, 4.0]);
        assert_eq!((five.whiskers, five.beyond), ([1.0, 4.0], vec![100.0]));
        assert_eq!(Five::of(&[7.0]).quartiles, [7.0; 3]);
    }
}
