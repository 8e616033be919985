//! Bars, from zero.

use plotters::element::{PathElement, Rectangle};
use plotters::style::Color;

use super::Spread;
use super::gather::Data;
use super::layout::{Panel, Scales, fill};
use crate::plot::axes::tip;
use crate::plot::ink::Ink;
use crate::plot::sheet::stroke;
use crate::plot::{PlotError, digits};

pub(super) fn scales(data: &Data, spread: &Spread) -> Scales {
    let ends = data
        .all()
        .filter_map(|place| place.spread(spread))
        .flatten();
    let (low, high) = ends.fold((0.0_f64, 0.0_f64), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    let wide = if high > low { high - low } else { 1.0 };
    let below = if low < 0.0 { 0.08 * wide } else { 0.0 };
    Scales {
        x: 0.0..data.places.len() as f64,
        y: low - below..high + 0.1 * wide,
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
        spread,
    } = panel;
    let wide = 0.76 / data.series.len() as f64;
    for (s, series) in data.values[number].iter().enumerate() {
        for (k, place) in series.iter().enumerate() {
            let Some([low, middle, high]) = place.spread(spread) else {
                continue;
            };
            let x = k as f64 + 0.12 + wide * s as f64;
            let rect = [(x + 0.02 * wide, 0.0), (x + 0.98 * wide, middle)];
            let bar = Rectangle::new(rect, fill(s).filled());
            let rim = Rectangle::new(rect, stroke(Ink::TEXT, 6));
            chart.draw_series([bar, rim]).map_err(PlotError::draw)?;
            if high > low {
                let x = x + wide / 2.0;
                let whisker = PathElement::new(vec![(x, low), (x, high)], stroke(Ink::TEXT, 14));
                chart.draw_series([whisker]).map_err(PlotError::draw)?;
            }
            let said = format!("{} {}: {}", data.series[s], data.places[k], digits(middle));
            tip(chart, area, rect, said.trim_start())?;
        }
    }
    Ok(())
}
