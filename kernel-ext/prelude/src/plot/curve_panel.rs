//! The two panels of `curve`: loss and score, drawn alike.

use std::ops::Range;

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement, Polygon};
use plotters::series::LineSeries;
use plotters::style::Color;

use super::axes::{Chart, Named, axes, spot};
use super::curve::{Axis, Group, Track};
use super::ink::Ink;
use super::sheet::{Area, Type, stroke, word};
use super::{PlotError, Setting, paper::U, units};

/// What a panel shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Loss,
    Score,
}

/// All that both panels share.
pub(super) struct Panels<'a> {
    pub axis: Axis,
    pub groups: &'a [Group],
    pub tracks: &'a [Track],
    pub settings: &'a [&'a Setting],
}

/// One line of a panel.
struct Line<'a> {
    track: &'a Track,
    y: &'a [f64],
    /// Number of its line style.
    style: usize,
    /// Number of its group.
    group: usize,
}

impl<'a> Panels<'a> {
    fn alone(&self) -> bool {
        self.tracks.len() == 1
    }

    /// The name of the score's axis. Runs of several tasks may share it.
    fn score_axis(&self) -> String {
        let first = self.tracks.first().map(|t| t.score);
        let same = self.tracks.iter().all(|t| Some(t.score) == first);
        let name = match first {
            Some(score) if same => score.axis,
            _ => "score",
        };
        match self.alone() {
            true => name.to_owned(),
            false => format!("validation {name}"),
        }
    }

    /// The lines of a panel, group by group.
    fn lines(&self, what: What) -> Vec<Line<'a>> {
        let mut lines = Vec::new();
        for (group, members) in self.groups.iter().enumerate() {
            for track in members.members.iter().map(|m| &self.tracks[*m]) {
                let mut put = |y: &'a [f64], style| {
                    lines.push(Line {
                        track,
                        y,
                        style,
                        group,
                    });
                };
                match what {
                    What::Loss => put(&track.loss, group),
                    What::Score if self.alone() => {
                        put(&track.val, 0);
                        put(&track.test, 1);
                    }
                    What::Score if track.val.iter().any(|v| v.is_finite()) => {
                        put(&track.val, group);
                    }
                    What::Score => put(&track.test, group),
                }
            }
        }
        lines
    }

    /// Draws one panel on `panel`.
    pub(super) fn draw(&self, panel: &Area<'_>, what: What) -> Result<(), PlotError> {
        let lines = self.lines(what);
        let all = || lines.iter().flat_map(|l| l.track.points(l.y));
        let score = self.score_axis();
        let (name, note) = match what {
            What::Loss => ("training loss (cross-entropy)", "no finite loss"),
            What::Score => (&*score, "no accuracy was evaluated"),
        };
        if all().next().is_none() {
            return word(panel, note, (206, 140), Type::new(13).faint().centered());
        }
        let xs = span(self.tracks.iter().flat_map(|t| t.x.iter().copied()), false);
        let ys = span(all().map(|(_, y)| y), what == What::Loss);
        let mut chart = ChartBuilder::on(panel)
            .margin_top(10 * U)
            .margin_right(14 * U)
            .x_label_area_size(38 * U)
            .y_label_area_size(54 * U)
            .build_cartesian_2d(xs, ys.clone())
            .map_err(PlotError::draw)?;
        let x = Named {
            name: match self.axis {
                Axis::Epoch => "epoch",
                Axis::Seconds => "training time (s), evaluation excluded",
            },
            ticks: 6,
            lines: false,
        };
        let y = Named {
            name,
            ticks: 6,
            lines: true,
        };
        axes(&mut chart, x, y)?;
        self.bands(&mut chart, &lines)?;
        self.singles(&mut chart, &lines)?;
        self.marks(&mut chart, panel, what, ys)
    }

    /// Groups of several seeds: the median inside a band.
    fn bands(&self, chart: &mut Chart<'_, '_>, lines: &[Line<'_>]) -> Result<(), PlotError> {
        let several = |g: &(usize, &Group)| g.1.members.len() > 1;
        for (k, _) in self.groups.iter().enumerate().filter(several) {
            let own = lines.iter().filter(|l| l.group == k);
            let series: Vec<(&Track, &[f64])> = own.map(|l| (l.track, l.y)).collect();
            let band = band(&series);
            let low = band.iter().map(|b| (b.0, b.1));
            let high = band.iter().rev().map(|b| (b.0, b.3));
            let outline: Vec<(f64, f64)> = low.chain(high).collect();
            let area = Polygon::new(outline, Ink::line(k).mix(0.22));
            chart.draw_series([area]).map_err(PlotError::draw)?;
            let median = band.iter().map(|b| (b.0, b.2));
            chart
                .draw_series(LineSeries::new(median, stroke(Ink::line(k), 20)))
                .map_err(PlotError::draw)?;
        }
        Ok(())
    }

    /// Groups of one run. Runs that agree lie on one another, so the first is wide and the later
    /// ones are dashed and thinner on top.
    fn singles(&self, chart: &mut Chart<'_, '_>, lines: &[Line<'_>]) -> Result<(), PlotError> {
        let wide = [42, 26, 20];
        let one = |l: &&Line<'_>| self.groups[l.group].members.len() == 1;
        for line in lines.iter().filter(one) {
            let ink = Ink::line(line.style);
            let width = match self.alone() {
                true => 20,
                false => wide[line.style.min(2)],
            };
            let points: Vec<(f64, f64)> = line.track.points(line.y).collect();
            if let [only] = points[..] {
                let dot = Circle::new(only, 3 * U, ink.filled());
                chart.draw_series([dot]).map_err(PlotError::draw)?;
            }
            chart
                .draw_series(LineSeries::new(points, stroke(ink, width)))
                .map_err(PlotError::draw)?;
        }
        Ok(())
    }

    /// Best validation epochs and early ends.
    fn marks(
        &self,
        chart: &mut Chart<'_, '_>,
        panel: &Area<'_>,
        what: What,
        ys: Range<f64>,
    ) -> Result<(), PlotError> {
        for (m, (track, setting)) in self.tracks.iter().zip(self.settings).enumerate() {
            if let (What::Score, Some(b)) = (what, track.best()) {
                let at = (track.x[b], track.val[b]);
                let ring = Circle::new(at, 6 * U, stroke(Ink::TEXT, 16));
                chart.draw_series([ring]).map_err(PlotError::draw)?;
            }
            let end = track.x.iter().rev().find(|x| x.is_finite());
            let (Some(label), Some(x)) = (setting.stop_label(), end) else {
                continue;
            };
            let rule = PathElement::new(vec![(*x, ys.start), (*x, ys.end)], stroke(Ink::STOP, 14));
            chart.draw_series([rule]).map_err(PlotError::draw)?;
            let label = match self.groups.iter().find(|g| g.members.contains(&m)) {
                Some(group) if !self.alone() => format!("{} {label}", group.label),
                _ => label,
            };
            // Where a learning run leaves room: high beside a falling loss, low under accuracy.
            let drop = if what == What::Loss { 14 } else { 236 };
            let (px, py) = spot(chart, panel, *x, ys.end);
            let face = Type::new(11).ink(Ink::STOP);
            match px > 195 {
                true => word(panel, &label, (px - 5, py + drop), face.right())?,
                false => word(panel, &label, (px + 5, py + drop), face)?,
            }
        }
        Ok(())
    }
}

/// `(x, min, median, max)` at each epoch that some member has.
fn band(series: &[(&Track, &[f64])]) -> Vec<(f64, f64, f64, f64)> {
    let longest = series.iter().map(|(t, _)| t.epoch.len()).max().unwrap_or(0);
    (0..longest)
        .filter_map(|i| {
            let at: Vec<(f64, f64)> = series
                .iter()
                .filter_map(|(t, y)| Some((*t.x.get(i)?, *y.get(i)?)))
                .filter(|(x, y)| x.is_finite() && y.is_finite())
                .collect();
            let ys = || at.iter().map(|(_, y)| *y);
            let low = ys().fold(f64::INFINITY, f64::min);
            let high = ys().fold(f64::NEG_INFINITY, f64::max);
            let x = units::median(at.iter().map(|(x, _)| *x));
            (!at.is_empty()).then(|| (x, low, units::median(ys()), high))
        })
        .collect()
}

/// A range a little wider than the values, never empty; from zero when `zero`.
fn span(values: impl Iterator<Item = f64>, zero: bool) -> Range<f64> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for v in values.filter(|v| v.is_finite()) {
        (low, high) = (low.min(v), high.max(v));
    }
    if low > high {
        return 0.0..1.0;
    }
    if zero && low >= 0.0 {
        low = 0.0;
    }
    let room = match high - low {
        d if d > 0.0 => d * 0.06,
        _ => high.abs().max(1.0) * 0.5,
    };
    let floor = if zero && low == 0.0 { 0.0 } else { low - room };
    floor..high + room
}
