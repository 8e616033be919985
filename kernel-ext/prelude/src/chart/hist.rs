//! Histograms: intervals of equal width, common to all series and panels.

use plotters::element::Rectangle;
use plotters::style::Color;

use super::Chart;
use super::gather::{Data, Series};
use super::layout::{Scales, fill};
use crate::plot::axes::{self, tip};
use crate::plot::sheet::{Area, stroke};
use crate::plot::text::table;
use crate::plot::{PlotError, digits};

/// Intervals.
pub(super) struct Bins {
    from: f64,
    wide: f64,
    count: usize,
}

/// Round intervals over all values: as many as were asked for, about, else by the rule of Freedman and Diaconis.
pub(super) fn bins(chart: &Chart, data: &Data) -> Bins {
    let mut values: Vec<f64> = data.flat().collect();
    values.sort_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    if most <= least {
        let wide = least.abs().max(1.0) * 0.1;
        return Bins {
            from: least - wide / 2.0,
            wide,
            count: 1,
        };
    }
    let quarter = |part: usize| values[part * (values.len() - 1) / 4];
    let rule = 2.0 * (quarter(3) - quarter(1)) / (values.len() as f64).cbrt();
    let by_rule = if rule > 0.0 {
        ((most - least) / rule).ceil()
    } else {
        10.0
    };
    let asked = chart
        .bins
        .map_or(by_rule.clamp(5.0, 60.0), |bins| bins.min(400) as f64);
    let wide = round((most - least) / asked);
    let from = (least / wide).floor() * wide;
    Bins {
        from,
        wide,
        count: ((most - from) / wide).floor() as usize + 1,
    }
}

/// The round number that is nearest: 1, 2, 2.5 or 5 times a power of ten.
fn round(width: f64) -> f64 {
    let power = 10_f64.powf(width.log10().floor());
    let near = |a: &f64, b: &f64| (a - width).abs().total_cmp(&(b - width).abs());
    let round = [1.0, 2.0, 2.5, 5.0, 10.0].map(|digit| digit * power);
    round.into_iter().min_by(near).unwrap_or(width)
}

impl Bins {
    fn counts(&self, series: &Series) -> Vec<usize> {
        let mut counts = vec![0; self.count];
        for value in series.iter().flat_map(|place| &place.values) {
            let bin = ((value - self.from) / self.wide).floor().max(0.0) as usize;
            counts[bin.min(self.count - 1)] += 1;
        }
        counts
    }

    fn edge(&self, k: usize) -> f64 {
        self.from + self.wide * k as f64
    }
}

pub(super) fn scales(data: &Data, bins: &Bins) -> Scales {
    let counts = data
        .values
        .iter()
        .flatten()
        .flat_map(|series| bins.counts(series));
    let most = counts.max().unwrap_or(0).max(1) as f64;
    Scales {
        x: bins.from..bins.edge(bins.count),
        y: 0.0..most * 1.08,
        whole: [false, true],
        places: Vec::new(),
    }
}

pub(super) fn draw<'p>(
    chart: &mut axes::Chart<'_, 'p>,
    panel: usize,
    data: &Data,
    bins: &Bins,
    area: &Area<'p>,
) -> Result<(), PlotError> {
    let pale = if data.series.len() > 1 { 0.5 } else { 1.0 };
    for (s, series) in data.values[panel].iter().enumerate() {
        for (k, count) in bins
            .counts(series)
            .into_iter()
            .enumerate()
            .filter(|(_, n)| *n > 0)
        {
            let rect = [(bins.edge(k), 0.0), (bins.edge(k + 1), count as f64)];
            let bar = Rectangle::new(rect, fill(s).mix(pale).filled());
            let rim = Rectangle::new(rect, stroke(fill(s), 8));
            chart.draw_series([bar, rim]).map_err(PlotError::draw)?;
            let (from, to) = (digits(bins.edge(k)), digits(bins.edge(k + 1)));
            let said = format!("{} {from} to {to}: {count}", data.series[s]);
            tip(chart, area, rect, said.trim_start())?;
        }
    }
    Ok(())
}

pub(super) fn numbers(data: &Data, bins: &Bins) -> String {
    let mut out = Vec::new();
    for (p, panel) in data.values.iter().enumerate() {
        let mut head = vec!["from", "to"];
        head.extend(
            data.series
                .iter()
                .map(|name| if name.is_empty() { "rows" } else { name }),
        );
        let counts: Vec<Vec<usize>> = panel.iter().map(|series| bins.counts(series)).collect();
        let row = |k: usize| {
            let ends = [digits(bins.edge(k)), digits(bins.edge(k + 1))];
            ends.into_iter()
                .chain(counts.iter().map(|counts| counts[k].to_string()))
                .collect()
        };
        let rows: Vec<Vec<String>> = (0..bins.count).map(row).collect();
        let name = match data.panels[p].as_str() {
            "" => String::new(),
            name => format!("{name}\n"),
        };
        out.push(name + &table(&head, &rows));
    }
    out.join("\n")
}
