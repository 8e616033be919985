//! `speedup`: what more ranks bring.

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement};
use plotters::style::Color;
use std::collections::BTreeMap;

use super::axes::{Named, axes, spot};
use super::group::groups;
use super::ink::Ink;
use super::setting::stamp;
use super::sheet::{Area, Head, Key, SIDE, fit, hover, part, sheet, stroke};
use super::text::table;
use super::{Case, Plot, PlotError, Setting, blank, paper::U, read, twin, units};

const WIDTH: i32 = 880;
const HEIGHT: i32 = 340;

/// Epochs of one setting on one number of ranks.
#[derive(Default)]
struct Times {
    /// A median for each repeat.
    ms: Vec<f64>,
    oversubscribed: bool,
    /// Threads of all ranks.
    cores: u32,
}

impl Times {
    fn median(&self) -> f64 {
        units::median(self.ms.iter().copied())
    }
}

/// One number of ranks of one setting.
struct Point {
    ranks: u32,
    /// How many times the threads of what it is held against it has.
    ideal: f64,
    /// Median over repeats, and the least and the most of them.
    speedup: [f64; 3],
    ms: f64,
    repeats: usize,
    oversubscribed: bool,
}

/// A setting over numbers of ranks.
struct Series {
    label: String,
    points: Vec<Point>,
}

/// Speed-up and efficiency by number of ranks, with the ideal line; repeats as bars from least to most,
/// oversubscribed points hollow. `cases` carry `epochs` frames; an epoch's time is the median behind warm-up.
/// Everything is held against the fastest run on one rank, or, where there is none, against each setting's
/// fewest ranks as if these were ideal.
///
/// # Errors
/// A frame without `wall_ms`.
pub fn speedup(cases: &[Case]) -> Result<Plot, PlotError> {
    let settings: Vec<&Setting> = cases.iter().map(|c| &c.setting).collect();
    let title = "Speed-up and efficiency by number of ranks".to_owned();
    let mut times = Vec::new();
    let any_ranks = |setting: &mut Setting| {
        setting.ranks = 0;
        setting.threads = 0;
        setting.oversubscribed = false;
        // One rank is one process, however several are started.
        setting.launch.clear();
    };
    for group in groups(cases, any_ranks) {
        let mut by_ranks: BTreeMap<u32, Times> = BTreeMap::new();
        for case in &group.cases {
            let of = by_ranks.entry(case.setting.ranks).or_default();
            of.ms.extend(epoch_ms(case)?);
            of.oversubscribed |= case.setting.oversubscribed;
            of.cores = of.cores.max(case.setting.cores());
        }
        by_ranks.retain(|_, times| !times.ms.is_empty());
        times.push((group.label, by_ranks));
    }
    let alone = times.iter().filter_map(|(_, by_ranks)| by_ranks.get(&1));
    let alone = alone.map(|times| (times.median(), times.cores));
    let alone = alone.min_by(|a, b| a.0.total_cmp(&b.0));
    let series: Vec<Series> = times
        .into_iter()
        .filter_map(|(label, by_ranks)| Series::of(label, &by_ranks, alone))
        .collect();
    if series.is_empty() {
        let why = "No run has finished an epoch behind its warm-up.";
        return blank(&title, why, &settings);
    }
    let base = match alone {
        Some((ms, cores)) => format!(
            "over the fastest epoch on one rank, {} on {}",
            units::ms(ms),
            units::plural(cores as usize, "thread")
        ),
        None => "no run on one rank: over each setting's fewest ranks, as if these were ideal"
            .to_owned(),
    };
    let mut notes = vec![base];
    let points = || series.iter().flat_map(|s| &s.points);
    if points().any(|p| p.ideal != f64::from(p.ranks)) {
        notes.push(
            "ranks have unlike numbers of threads: ideal is what all threads make".to_owned(),
        );
    }
    let crowded = points().any(|p| p.oversubscribed);
    if crowded {
        notes.push("hollow points share cores: read shapes, not speed-ups".to_owned());
    }
    let foot = stamp(&settings);
    let mut legend: Vec<(Key, String)> = series
        .iter()
        .take(Ink::LINES)
        .enumerate()
        .map(|(k, s)| (Key::Line(Ink::line(k)), fit(&s.label, 12.0, 240.0)))
        .collect();
    legend.push((Key::Line(Ink::FAINT), "ideal".to_owned()));
    let head = Head {
        title: title.clone(),
        subtitle: notes.join(" · "),
        desc: "Speed-up and efficiency of every setting by number of ranks, with the ideal".into(),
        legend,
        foot: foot.clone(),
    };
    let room = (WIDTH - 2 * SIDE) / 2;
    let svg = sheet(&head, (WIDTH, HEIGHT), |area| {
        for (k, efficiency) in [false, true].into_iter().enumerate() {
            let at = (SIDE + k as i32 * room, 0);
            panel(&part(area, at, (room, HEIGHT)), &series, efficiency)?;
        }
        Ok(())
    })?;
    let text = twin(&title, &notes, &numbers(&series), &foot);
    Ok(Plot { svg, text })
}

/// The median time of an epoch behind warm-up, if there is one.
fn epoch_ms(case: &Case) -> Result<Option<f64>, PlotError> {
    let wall = read::need(&case.frame, "epochs", "wall_ms")?;
    let warm = read::warmup(&case.frame);
    let settled = wall.iter().zip(&warm).filter(|(_, warm)| !**warm);
    let settled: Vec<f64> = settled.map(|(ms, _)| *ms).collect();
    Ok((!settled.is_empty()).then(|| units::median(settled)))
}

impl Series {
    fn of(
        label: String,
        by_ranks: &BTreeMap<u32, Times>,
        alone: Option<(f64, u32)>,
    ) -> Option<Series> {
        let (fewest, first) = by_ranks.first_key_value()?;
        let fewest = f64::from(*fewest);
        let (base, cores) = match alone {
            Some((ms, cores)) => (ms, f64::from(cores)),
            None => (fewest * first.median(), f64::from(first.cores) / fewest),
        };
        let points = by_ranks.iter().map(|(&ranks, times)| {
            let least = times.ms.iter().copied().fold(f64::INFINITY, f64::min);
            let most = times.ms.iter().copied().fold(0.0, f64::max);
            Point {
                ranks,
                ideal: f64::from(times.cores) / cores,
                speedup: [times.median(), most, least].map(|ms| base / ms),
                ms: times.median(),
                repeats: times.ms.len(),
                oversubscribed: times.oversubscribed,
            }
        });
        Some(Series {
            label,
            points: points.collect(),
        })
    }
}

impl Point {
    /// Speed-up or efficiency: median, least, most.
    fn values(&self, efficiency: bool) -> [f64; 3] {
        let by = if efficiency { self.ideal } else { 1.0 };
        self.speedup.map(|s| s / by)
    }
}

fn panel(area: &Area<'_>, series: &[Series], efficiency: bool) -> Result<(), PlotError> {
    let points = || series.iter().flat_map(|s| &s.points);
    let ranks = points().map(|p| f64::from(p.ranks)).fold(1.0, f64::max);
    let highest = points()
        .map(|p| p.values(efficiency)[2])
        .fold(0.0, f64::max);
    let mut even: Vec<(f64, f64)> = points().map(|p| (f64::from(p.ranks), p.ideal)).collect();
    even.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    even.dedup_by_key(|p| p.0);
    let ideal = if efficiency {
        1.0
    } else {
        even.iter().map(|p| p.1).fold(1.0, f64::max)
    };
    let top = highest.max(ideal) * 1.1;
    let mut chart = ChartBuilder::on(area)
        .margin_top(8 * U)
        .margin_right(14 * U)
        .x_label_area_size(42 * U)
        .y_label_area_size(54 * U)
        .build_cartesian_2d(0.0..ranks * 1.08, 0.0..top)
        .map_err(PlotError::draw)?;
    let name = if efficiency { "efficiency" } else { "speed-up" };
    let ticks = (ranks as usize + 1).min(9);
    axes(
        &mut chart,
        Named {
            name: "ranks",
            ticks,
            lines: false,
            whole: true,
        },
        Named {
            name,
            ticks: 5,
            lines: true,
            whole: false,
        },
    )?;
    let line = match efficiency {
        true => vec![(0.0, 1.0), (ranks * 1.08, 1.0)],
        false => even,
    };
    chart
        .draw_series([PathElement::new(line, stroke(Ink::FAINT, 10))])
        .map_err(PlotError::draw)?;
    for (k, series) in series.iter().enumerate() {
        let ink = Ink::line(k);
        let at = |p: &Point| (f64::from(p.ranks), p.values(efficiency)[0]);
        let line: Vec<(f64, f64)> = series.points.iter().map(at).collect();
        chart
            .draw_series([PathElement::new(line, stroke(ink, 18))])
            .map_err(PlotError::draw)?;
        for point in &series.points {
            let [_, least, most] = point.values(efficiency);
            let x = f64::from(point.ranks);
            let bar = PathElement::new(vec![(x, least), (x, most)], stroke(ink, 14));
            chart.draw_series([bar]).map_err(PlotError::draw)?;
            let dots = match point.oversubscribed {
                // Hollow: the card's colour within.
                true => vec![
                    Circle::new(at(point), 4 * U, Ink::CARD.filled()),
                    Circle::new(at(point), 4 * U, stroke(ink, 16)),
                ],
                false => vec![Circle::new(at(point), 4 * U, ink.filled())],
            };
            chart.draw_series(dots).map_err(PlotError::draw)?;
            let [value, ..] = point.values(efficiency);
            let ranks = units::plural(point.ranks as usize, "rank");
            let said = format!(
                "{}, {ranks}: {value:.2}, epoch {}",
                series.label,
                units::ms(point.ms)
            );
            let (px, py) = spot(&chart, area, x, value);
            hover(area, (px - 6, py - 6), (12, 12), &said)?;
        }
    }
    Ok(())
}

fn numbers(series: &[Series]) -> String {
    let rows: Vec<Vec<String>> = series
        .iter()
        .flat_map(|s| s.points.iter().map(move |p| (s, p)))
        .map(|(series, point)| {
            let mark = if point.oversubscribed {
                " (shared cores)"
            } else {
                ""
            };
            vec![
                series.label.clone(),
                format!("{}{mark}", point.ranks),
                units::ms(point.ms),
                format!("{:.2}", point.speedup[0]),
                units::percent(point.values(true)[0]),
                point.repeats.to_string(),
            ]
        })
        .collect();
    table(
        &[
            "setting",
            "ranks",
            "epoch",
            "speed-up",
            "efficiency",
            "runs",
        ],
        &rows,
    )
}
