//! `curve`: loss and accuracy while a run trains.

use std::ops::Range;

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement, Polygon};
use plotters::series::LineSeries;
use plotters::style::Color;

use super::ink::Ink;
use super::setting::{labels, stamp};
use super::sheet::{Area, Head, Key, SIDE, Type, part, sheet, stroke, word};
use super::text::{spark, table};
use super::{Case, Plot, PlotError, Setting, blank, paper::U, read, twin, units};

/// What a curve runs along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Epochs.
    Epoch,
    /// Seconds of training; evaluation is not part of an epoch's time.
    Seconds,
}

/// One run's numbers, in the order of its epochs.
struct Track {
    epoch: Vec<f64>,
    x: Vec<f64>,
    loss: Vec<f64>,
    val: Vec<f64>,
    test: Vec<f64>,
}

impl Track {
    fn read(case: &Case, axis: Axis) -> Result<Track, PlotError> {
        let frame = &case.frame;
        let epoch = read::need(frame, "epochs", "epoch")?;
        let unknown = || vec![f64::NAN; epoch.len()];
        let x = match axis {
            Axis::Epoch => epoch.clone(),
            Axis::Seconds => {
                let mut sum = 0.0;
                let walls = read::need(frame, "epochs", "wall_ms")?.into_iter();
                walls
                    .map(|ms| {
                        sum += if ms.is_finite() { ms / 1000.0 } else { 0.0 };
                        sum
                    })
                    .collect()
            }
        };
        Ok(Track {
            loss: read::need(frame, "epochs", "train_loss")?,
            val: read::maybe(frame, "val_acc").unwrap_or_else(unknown),
            test: read::maybe(frame, "test_acc").unwrap_or_else(unknown),
            epoch,
            x,
        })
    }

    fn points<'a>(&'a self, y: &'a [f64]) -> impl Iterator<Item = (f64, f64)> + 'a {
        let pairs = self.x.iter().copied().zip(y.iter().copied());
        pairs.filter(|(x, y)| x.is_finite() && y.is_finite())
    }

    /// Index of the first epoch with the best validation accuracy.
    fn best(&self) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (i, v) in self.val.iter().enumerate() {
            if v.is_finite() && best.is_none_or(|b| *v > self.val[b]) {
                best = Some(i);
            }
        }
        best
    }

    fn best_words(&self) -> Option<String> {
        let b = self.best()?;
        let test = match self.test[b] {
            t if t.is_finite() => format!(", test {}", units::score(t)),
            _ => String::new(),
        };
        let val = units::score(self.val[b]);
        Some(format!(
            "best val {val} at epoch {:.0}{test}",
            self.epoch[b]
        ))
    }
}

/// Runs that repeat one setting with other seeds.
struct Group {
    label: String,
    members: Vec<usize>,
}

/// Loss and accuracy of one or several runs; `cases` carry `epochs` frames.
///
/// One run shows validation and test accuracy; several runs show validation accuracy only (test
/// accuracy where there is no validation). Runs that differ in nothing but the seed become one
/// median line inside a band from the smallest to the largest value.
///
/// # Errors
/// A frame without `epoch` or `train_loss` (or `wall_ms` for [`Axis::Seconds`]).
pub fn curve(cases: &[Case], axis: Axis) -> Result<Plot, PlotError> {
    let settings: Vec<&Setting> = cases.iter().map(|c| &c.setting).collect();
    let title = match cases {
        [one] => format!("Learning curve on {}", one.setting.data_label()),
        [first, rest @ ..] if rest.iter().all(|c| c.setting.data == first.setting.data) => {
            format!("Learning curves on {}", first.setting.data_label())
        }
        _ => "Learning curves".to_owned(),
    };
    if cases.iter().all(|c| c.frame.height() == 0) {
        return blank(&title, "No epoch has been recorded yet.", &settings);
    }
    let tracks: Vec<Track> = cases
        .iter()
        .map(|c| Track::read(c, axis))
        .collect::<Result<_, _>>()?;
    let groups = grouped(&settings);
    let notes = notes(&groups, &tracks, &settings);
    let foot = stamp(&settings);
    let head = Head {
        title: title.clone(),
        subtitle: notes.first().cloned().unwrap_or_default(),
        desc: notes.join(". "),
        legend: legend(&groups, &tracks),
        foot: foot.clone(),
    };
    let svg = sheet(&head, (880, 300), |area| {
        for (side, what) in [What::Loss, What::Accuracy].into_iter().enumerate() {
            let panel = part(area, (SIDE + side as i32 * 424, 0), (412, 300));
            draw_panel(&panel, what, axis, &groups, &tracks, &settings)?;
        }
        Ok(())
    })?;
    let text = twin(&title, &notes, &numbers(&groups, &tracks, &settings), &foot);
    Ok(Plot { svg, text })
}

fn grouped(settings: &[&Setting]) -> Vec<Group> {
    let mut keys: Vec<String> = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    for (i, setting) in settings.iter().enumerate() {
        let key = setting.group();
        // Only another seed makes a repeat; the same seed twice is shown as two lines.
        let at = keys.iter().position(|k| *k == key).filter(|g| {
            let seeds = groups[*g].members.iter().map(|m| settings[*m].seed);
            setting.seed.is_some() && !seeds.into_iter().any(|s| s == setting.seed)
        });
        match at {
            Some(g) => groups[g].members.push(i),
            None => {
                keys.push(key);
                groups.push(Group {
                    label: String::new(),
                    members: vec![i],
                });
            }
        }
    }
    let firsts: Vec<&Setting> = groups.iter().map(|g| settings[g.members[0]]).collect();
    for (group, label) in groups.iter_mut().zip(labels(&firsts)) {
        group.label = match group.members.len() {
            1 => label,
            n => format!("{label} ({n} seeds)"),
        };
    }
    groups
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Loss,
    Accuracy,
}

/// The lines of one group in one panel: values and line style, the most important first.
fn lines<'a>(what: What, track: &'a Track, alone: bool, k: usize) -> Vec<(&'a [f64], Ink)> {
    let val_known = track.val.iter().any(|v| v.is_finite());
    match what {
        What::Loss => vec![(&track.loss[..], Ink::line(k))],
        What::Accuracy if alone => vec![
            (&track.val[..], Ink::line(0)),
            (&track.test[..], Ink::line(1)),
        ],
        What::Accuracy if val_known => vec![(&track.val[..], Ink::line(k))],
        What::Accuracy => vec![(&track.test[..], Ink::line(k))],
    }
}

fn draw_panel(
    panel: &Area<'_>,
    what: What,
    axis: Axis,
    groups: &[Group],
    tracks: &[Track],
    settings: &[&Setting],
) -> Result<(), PlotError> {
    let alone = tracks.len() == 1;
    let drawn = || {
        groups.iter().enumerate().flat_map(|(k, g)| {
            let members = g.members.iter();
            members.flat_map(move |m| {
                let track = &tracks[*m];
                let own = lines(what, track, alone, k).into_iter();
                own.map(move |(y, ink)| (track, y, ink, g.members.len()))
            })
        })
    };
    let all: Vec<(f64, f64)> = drawn().flat_map(|(t, y, ..)| t.points(y)).collect();
    let (name, note) = match what {
        What::Loss => ("training loss (cross-entropy)", "no finite loss"),
        What::Accuracy if alone => ("accuracy (share correct)", "no accuracy was evaluated"),
        What::Accuracy => (
            "validation accuracy (share correct)",
            "no accuracy was evaluated",
        ),
    };
    if all.is_empty() {
        return word(panel, note, (206, 140), Type::new(13).faint().centered());
    }
    let xs = span(tracks.iter().flat_map(|t| t.x.iter().copied()), false);
    let ys = span(all.iter().map(|(_, y)| *y), what == What::Loss);
    let mut chart = ChartBuilder::on(panel)
        .margin_top(10 * U)
        .margin_right(14 * U)
        .x_label_area_size(38 * U)
        .y_label_area_size(54 * U)
        .build_cartesian_2d(xs.clone(), ys.clone())
        .map_err(PlotError::draw)?;
    let x_name = match axis {
        Axis::Epoch => "epoch",
        Axis::Seconds => "training time (s), evaluation excluded",
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(stroke(Ink::GRID, 8))
        .light_line_style(plotters::style::TRANSPARENT)
        .axis_style(stroke(Ink::FAINT, 10))
        .set_all_tick_mark_size(4 * U)
        .label_style(Type::new(11).faint().style())
        .axis_desc_style(Type::new(12).style())
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&|v| units::tick(*v))
        .y_label_formatter(&|v| units::tick(*v))
        .x_desc(x_name)
        .y_desc(name)
        .draw()
        .map_err(PlotError::draw)?;
    for (k, group) in groups
        .iter()
        .enumerate()
        .filter(|(_, g)| g.members.len() > 1)
    {
        let series: Vec<(&Track, &[f64])> = group
            .members
            .iter()
            .flat_map(|m| {
                let own = lines(what, &tracks[*m], alone, k).into_iter();
                own.map(|(y, _)| (&tracks[*m], y))
            })
            .collect();
        let band = band(&series);
        let outline: Vec<(f64, f64)> = band
            .iter()
            .map(|b| (b.0, b.1))
            .chain(band.iter().rev().map(|b| (b.0, b.3)))
            .collect();
        chart
            .draw_series([Polygon::new(outline, Ink::line(k).mix(0.22))])
            .map_err(PlotError::draw)?;
        let median = band.iter().map(|b| (b.0, b.2));
        chart
            .draw_series(LineSeries::new(median, stroke(Ink::line(k), 20)))
            .map_err(PlotError::draw)?;
    }
    // Runs that agree lie on one another: the first wide, the later ones dashed and thinner on it.
    let wide = [42, 26, 20];
    for (track, y, ink, members) in drawn() {
        let k = (0..Ink::LINES).find(|k| Ink::line(*k) == ink).unwrap_or(0);
        let width = if alone { 20 } else { wide[k.min(2)] };
        let points: Vec<(f64, f64)> = track.points(y).collect();
        if members > 1 {
            continue;
        }
        if let [only] = points[..] {
            chart
                .draw_series([Circle::new(only, 3 * U, ink.filled())])
                .map_err(PlotError::draw)?;
        }
        chart
            .draw_series(LineSeries::new(points, stroke(ink, width)))
            .map_err(PlotError::draw)?;
    }
    for (m, (track, setting)) in tracks.iter().zip(settings).enumerate() {
        if let (What::Accuracy, Some(b)) = (what, track.best()) {
            let at = (track.x[b], track.val[b]);
            chart
                .draw_series([Circle::new(at, 6 * U, stroke(Ink::TEXT, 16))])
                .map_err(PlotError::draw)?;
        }
        let end = track.x.iter().rev().find(|x| x.is_finite());
        if let (Some(label), Some(x)) = (setting.stop_label(), end) {
            let rule = vec![(*x, ys.start), (*x, ys.end)];
            chart
                .draw_series([PathElement::new(rule, stroke(Ink::STOP, 14))])
                .map_err(PlotError::draw)?;
            let (px, py) = chart.backend_coord(&(*x, ys.end));
            let (ox, oy) = panel.get_base_pixel();
            // Where a learning run leaves room: high beside a falling loss, low under accuracy.
            let drop = if what == What::Loss { 14 } else { 236 };
            let at = ((px - ox) / U - 5, (py - oy) / U + drop);
            let left = at.0 > 190;
            let label = match groups.iter().find(|g| g.members.contains(&m)) {
                Some(group) if !alone => format!("{} {label}", group.label),
                _ => label,
            };
            let face = Type::new(11).ink(Ink::STOP);
            let (at, face) = if left {
                (at, face.right())
            } else {
                ((at.0 + 10, at.1), face)
            };
            word(panel, &label, at, face)?;
        }
    }
    Ok(())
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

fn legend(groups: &[Group], tracks: &[Track]) -> Vec<(Key, String)> {
    let mut legend: Vec<(Key, String)> = if tracks.len() == 1 {
        let accuracies = [("validation", &tracks[0].val), ("test", &tracks[0].test)];
        let known = accuracies.iter().enumerate();
        known
            .filter(|(_, (_, y))| y.iter().any(|v| v.is_finite()))
            .map(|(k, (name, _))| (Key::Line(Ink::line(k)), format!("{name} accuracy")))
            .collect()
    } else {
        let each = groups.iter().enumerate();
        each.map(|(k, g)| (Key::Line(Ink::line(k)), g.label.clone()))
            .collect()
    };
    if tracks.iter().any(|t| t.best().is_some()) {
        legend.push((Key::Ring(Ink::TEXT), "best validation epoch".into()));
    }
    legend
}

/// Facts in words, the first for the subtitle.
fn notes(groups: &[Group], tracks: &[Track], settings: &[&Setting]) -> Vec<String> {
    let mut notes = Vec::new();
    if let [track] = tracks {
        let epochs = units::plural(track.epoch.len(), "epoch");
        let best = track.best_words().map(|w| format!(" · {w}"));
        notes.push(epochs + &best.unwrap_or_default());
    } else {
        let runs = units::plural(tracks.len(), "run");
        let lines = units::plural(groups.len(), "line");
        let bands = if groups.len() < tracks.len() {
            ", bands from the smallest to the largest value over seeds"
        } else {
            ""
        };
        notes.push(format!("{runs}, {lines}{bands}"));
    }
    for (track, setting) in tracks.iter().zip(settings) {
        if let Some(label) = setting.stop_label() {
            let last = track.epoch.last().copied().unwrap_or(f64::NAN);
            notes.push(format!(
                "run {}: {label}, last finished epoch {last:.0}",
                setting.run_id
            ));
        }
    }
    notes
}

fn numbers(groups: &[Group], tracks: &[Track], settings: &[&Setting]) -> String {
    let mut rows = Vec::new();
    for group in groups {
        for m in &group.members {
            let track = &tracks[*m];
            let finite = || track.loss.iter().copied().filter(|v| v.is_finite());
            let best = track.best();
            let at = |v: &[f64]| best.map_or("-".to_owned(), |b| units::score(v[b]));
            let label = match (group.members.len(), settings[*m].seed) {
                (1, _) => group.label.clone(),
                (_, seed) => format!("{} seed {}", group.label, seed.unwrap_or_default()),
            };
            rows.push(vec![
                label,
                track.epoch.len().to_string(),
                units::score(finite().next().unwrap_or(f64::NAN)),
                units::score(finite().last().unwrap_or(f64::NAN)),
                spark(&track.loss, 16),
                at(&track.val),
                at(&track.test),
                best.map_or("-".into(), |b| format!("{:.0}", track.epoch[b])),
                spark(&track.val, 16),
            ]);
        }
    }
    let head = [
        "run",
        "epochs",
        "first loss",
        "last loss",
        "loss",
        "best val",
        "test there",
        "at epoch",
        "val",
    ];
    table(&head, &rows)
}
