//! The two panels of `curve`: loss and score, drawn alike.

use std::ops::Range;

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement, Polygon};
use plotters::series::LineSeries;
use plotters::style::Color;

use crate::chart::mean_std;

use super::axes::{Chart, Named, axes, spot, tip};
use super::curve::{Axis, Band, Group, Track};
use super::ink::Ink;
use super::sheet::{Area, Type, stroke, word};
use super::{PlotError, Setting, paper::U, units};

/// Most places of a panel that a pointer reads something at.
const MOST_TIPS: usize = 120;

/// What a panel shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Loss,
    Score,
}

/// All that both panels share.
pub(super) struct Panels<'a> {
    pub axis: Axis,
    pub band: Band,
    /// Numbers of the groups that are drawn here; axes are of all.
    pub shown: &'a [usize],
    /// Height, px.
    pub high: i32,
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
    /// Its group.
    group: &'a Group,
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
            // A low panel has no room for what it is a share of.
            Some(score) if same && self.high < 300 => score.name,
            Some(score) if same => score.axis,
            _ => "score",
        };
        match self.alone() {
            true => name.to_owned(),
            false => format!("validation {name}"),
        }
    }

    fn loss_axis(&self) -> &'static str {
        match self.high < 300 {
            true => "training loss",
            false => "training loss (cross-entropy)",
        }
    }

    /// The lines of groups, one by one.
    fn lines(&self, what: What, groups: impl Iterator<Item = &'a Group>) -> Vec<Line<'a>> {
        let mut lines = Vec::new();
        for (style, group) in groups.enumerate() {
            for track in group.members.iter().map(|m| &self.tracks[*m]) {
                let mut put = |y: &'a [f64], style| {
                    lines.push(Line {
                        track,
                        y,
                        style,
                        group,
                    });
                };
                match what {
                    What::Loss => put(&track.loss, style),
                    What::Score if self.alone() => {
                        put(&track.val, 0);
                        put(&track.test, 1);
                    }
                    What::Score if track.val.iter().any(|v| v.is_finite()) => {
                        put(&track.val, style);
                    }
                    What::Score => put(&track.test, style),
                }
            }
        }
        lines
    }

    /// Draws one panel on `panel`.
    pub(super) fn draw(&self, panel: &Area<'_>, what: What) -> Result<(), PlotError> {
        let lines = self.lines(what, self.shown.iter().map(|g| &self.groups[*g]));
        let everyone = self.lines(what, self.groups.iter());
        let all = || everyone.iter().flat_map(|l| l.track.points(l.y));
        let score = self.score_axis();
        let (name, note) = match what {
            What::Loss => (self.loss_axis(), "no finite loss"),
            What::Score => (&*score, "no accuracy was evaluated"),
        };
        if all().next().is_none() {
            return word(
                panel,
                note,
                (206, self.high / 2 - 10),
                Type::new(13).faint().centered(),
            );
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
            whole: self.axis == Axis::Epoch,
        };
        let y = Named {
            name,
            ticks: 6,
            lines: true,
            whole: false,
        };
        axes(&mut chart, x, y)?;
        self.bands(&mut chart, &lines)?;
        self.singles(&mut chart, &lines)?;
        self.marks(&mut chart, panel, what, ys.clone())?;
        self.tips(&chart, panel, &lines, ys)
    }

    /// Groups of several seeds: a line inside a band.
    fn bands(&self, chart: &mut Chart<'_, '_>, lines: &[Line<'_>]) -> Result<(), PlotError> {
        let of_one = |a: &Line<'_>, b: &Line<'_>| std::ptr::eq(a.group, b.group);
        let several = lines
            .chunk_by(of_one)
            .filter(|own| own[0].group.members.len() > 1);
        for own in several {
            let k = own[0].style;
            let series: Vec<(&Track, &[f64])> = own.iter().map(|l| (l.track, l.y)).collect();
            let band = spread(&series, self.band);
            let low = band.iter().map(|b| (b.0, b.1));
            let high = band.iter().rev().map(|b| (b.0, b.3));
            let outline: Vec<(f64, f64)> = low.chain(high).collect();
            let area = Polygon::new(outline, Ink::line(k).mix(0.18));
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
        let one = |l: &&Line<'_>| l.group.members.len() == 1;
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

    /// What a pointer reads: every line's value at the place.
    fn tips(
        &self,
        chart: &Chart<'_, '_>,
        panel: &Area<'_>,
        lines: &[Line<'_>],
        ys: Range<f64>,
    ) -> Result<(), PlotError> {
        let Some(longest) = lines.iter().max_by_key(|l| l.track.x.len()) else {
            return Ok(());
        };
        let xs = &longest.track.x;
        let step = xs.len().div_ceil(MOST_TIPS);
        for i in (0..xs.len()).step_by(step).filter(|i| xs[*i].is_finite()) {
            let half = |j: usize| (xs[i] + xs[j.min(xs.len() - 1)]) / 2.0;
            let (from, to) = (half(i.saturating_sub(step)), half(i + step));
            if to <= from {
                continue;
            }
            let of_one = |a: &Line<'_>, b: &Line<'_>| {
                std::ptr::eq(a.group, b.group) && (!self.alone() || a.style == b.style)
            };
            let mut said = format!("epoch {:.0}", longest.track.epoch[i]);
            for own in lines.chunk_by(of_one) {
                let values = own.iter().filter_map(|l| l.y.get(i).copied());
                let value = units::score(units::median(values));
                let name = match (self.alone(), own[0].style) {
                    (false, _) => own[0].group.label.as_str(),
                    (true, 0) => "validation",
                    (true, _) => "test",
                };
                said += &match lines.len() {
                    1 => format!(": {value}"),
                    _ => format!("\n{name}: {value}"),
                };
            }
            tip(chart, panel, [(from, ys.start), (to, ys.end)], &said)?;
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
        let shown = || self.shown.iter().map(|g| &self.groups[*g]);
        for m in shown().flat_map(|group| group.members.iter().copied()) {
            let (track, setting) = (&self.tracks[m], &self.settings[m]);
            // A ring for every seed would hide the lines.
            let repeated = self.groups.len() < self.tracks.len();
            if let (What::Score, Some(b), false) = (what, track.best(), repeated) {
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
            let label = match shown().find(|g| g.members.contains(&m)) {
                Some(group) if !self.alone() => format!("{} {label}", group.label),
                _ => label,
            };
            // Where a learning run leaves room: high beside a falling loss, low under accuracy.
            let drop = if what == What::Loss {
                14
            } else {
                self.high - 64
            };
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

/// `(x, low, middle, high)` of `band` at each epoch that some member has.
fn spread(series: &[(&Track, &[f64])], band: Band) -> Vec<(f64, f64, f64, f64)> {
    let longest = series.iter().map(|(t, _)| t.epoch.len()).max().unwrap_or(0);
    (0..longest)
        .filter_map(|i| {
            let at: Vec<(f64, f64)> = series
                .iter()
                .filter_map(|(t, y)| Some((*t.x.get(i)?, *y.get(i)?)))
                .filter(|(x, y)| x.is_finite() && y.is_finite())
                .collect();
            let ys = || at.iter().map(|(_, y)| *y);
            let x = units::median(at.iter().map(|(x, _)| *x));
            let [low, middle, high] = match band {
                Band::Range => [
                    ys().fold(f64::INFINITY, f64::min),
                    units::median(ys()),
                    ys().fold(f64::NEG_INFINITY, f64::max),
                ],
                Band::Std => {
                    let (mean, std) = mean_std(&ys().collect::<Vec<_>>());
                    [mean - std, mean, mean + std]
                }
            };
            (!at.is_empty()).then_some((x, low, middle, high))
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
