//! `stale`: when were rows sent, how old were those used instead, and how far off?

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement};
use plotters::style::Color;
use std::collections::BTreeMap;

use super::axes::{Named, axes, spot};
use super::ink::Ink;
use super::setting::stamp;
use super::sheet::{Area, Head, Key, SIDE, Type, part, sheet, stroke, word};
use super::text::table;
use super::{Case, Plot, PlotError, blank, paper::U, read, twin, units};

const WIDTH: i32 = 880;
const LANE: i32 = 16;
const AGES: i32 = 250;
/// Lanes that are still told apart.
const LANES: usize = 24;

/// One rank's rows in one layer and epoch, for all of its readers.
#[derive(Clone, Copy)]
struct Event {
    epoch: u32,
    rank: u32,
    layer: u32,
    sent: bool,
    age: f64,
    drift: f64,
    bytes_sent: f64,
    bytes_saved: f64,
}

/// What is in the frame.
struct Found {
    /// Under the bound.
    events: Vec<Event>,
    /// Bytes of features that were sent, and not sent again.
    features: [f64; 2],
    /// Bytes that told who sends.
    agreed: f64,
}

impl Found {
    /// Whether rows are old because nobody has made them yet, and not because they did not travel.
    fn historical(&self) -> bool {
        let bytes = |e: &Event| e.bytes_sent + e.bytes_saved;
        self.events.iter().all(|e| bytes(e) == 0.0)
    }
}

/// Epochs in which each rank sent its rows, above; the age of the rows used instead against their
/// distance from the present ones, below, where it was measured. `case` carries a `stale` frame, or a `hec` frame:
/// then both are drawn by epoch.
///
/// Savings are those of the bound: features, which never change and are sent once, stand apart.
///
/// # Errors
/// A frame without `epoch`, `rank`, `layer`, `age_mean_epochs`, `bytes_sent` or `bytes_saved`.
pub fn stale(case: &Case) -> Result<Plot, PlotError> {
    if case.frame.column("age_mean_steps").is_ok() {
        return super::hec::ages(case);
    }
    let title = format!("Age of reused rows, {}", case.setting.data_label());
    let found = found(case)?;
    if found.events.is_empty() {
        let why = match case.setting.ranks {
            1 => "One rank reads no other's rows.",
            _ => "No rows were reused: the strategy has no bound, or no epoch is finished.",
        };
        return blank(&title, why, &[&case.setting]);
    }
    let lanes = lanes(&found.events);
    let points = points(&found);
    let measured = points.iter().any(|p| p.drift.is_finite());
    let note = verdict(&found, &case.setting.bound);
    let foot = stamp(&[&case.setting]);
    let head = Head {
        title: title.clone(),
        subtitle: note.clone(),
        desc: "Epochs in which each rank sent its rows; age of the rows used instead".into(),
        legend: legend(&points, measured, &case.setting.bound, found.historical()),
        foot: foot.clone(),
    };
    let high = 56 + LANE * lanes.len() as i32;
    let svg = sheet(&head, (WIDTH, high + AGES), |area| {
        let room = WIDTH - 2 * SIDE;
        draw_lanes(&part(area, (SIDE, 0), (room, high)), &found.events, &lanes)?;
        let below = part(area, (SIDE, high), (room, AGES));
        draw_ages(&below, &points, measured, &case.setting.bound)
    })?;
    let text = twin(&title, &[note], &numbers(&found), &foot);
    Ok(Plot { svg, text })
}

fn found(case: &Case) -> Result<Found, PlotError> {
    let frame = &case.frame;
    let need = |column: &str| read::need(frame, "stale", column);
    let (epoch, rank, layer) = (need("epoch")?, need("rank")?, need("layer")?);
    let (age, sent, saved) = (
        need("age_mean_epochs")?,
        need("bytes_sent")?,
        need("bytes_saved")?,
    );
    let drift = read::maybe(frame, "drift_rel");
    let agreed = read::maybe(frame, "bytes_agreed").unwrap_or_default();
    let state = read::words(frame, "state").unwrap_or_default();
    let mut events: BTreeMap<(u32, u32, u32), Event> = BTreeMap::new();
    let mut features = [0.0; 2];
    for i in 0..frame.height() {
        if state.get(i).is_some_and(|s| s == "input") {
            features[0] += sent[i];
            features[1] += saved[i];
            continue;
        }
        let key = (epoch[i] as u32, rank[i] as u32, layer[i] as u32);
        let event = events.entry(key).or_insert(Event {
            epoch: key.0,
            rank: key.1,
            layer: key.2,
            sent: state.get(i).is_some_and(|s| s == "active"),
            age: age[i],
            drift: drift.as_ref().map_or(f64::NAN, |d| d[i]),
            bytes_sent: 0.0,
            bytes_saved: 0.0,
        });
        event.bytes_sent += sent[i];
        event.bytes_saved += saved[i];
    }
    Ok(Found {
        events: events.into_values().collect(),
        features,
        agreed: agreed.iter().sum(),
    })
}

/// Layer and rank of each lane; of the last layer only where all would be too many.
fn lanes(events: &[Event]) -> Vec<(u32, u32)> {
    let mut lanes: Vec<(u32, u32)> = events.iter().map(|e| (e.layer, e.rank)).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let last = lanes.last().map_or(0, |l| l.0);
    if lanes.len() > LANES {
        lanes.retain(|l| l.0 == last);
    }
    lanes.truncate(LANES);
    lanes
}

/// All rows of one layer that were reused at one age.
struct Point {
    layer: u32,
    age: f64,
    drift: f64,
    saved: f64,
}

fn points(found: &Found) -> Vec<Point> {
    let mut groups: BTreeMap<(u32, u64), Vec<&Event>> = BTreeMap::new();
    let old = |e: &&Event| !e.sent || (found.historical() && e.drift.is_finite());
    for event in found.events.iter().filter(old) {
        let key = (event.layer, (event.age * 8.0).round() as u64);
        groups.entry(key).or_default().push(event);
    }
    let point = |group: &Vec<&Event>| {
        let known = group.iter().map(|e| e.drift).filter(|d| d.is_finite());
        let n = known.clone().count() as f64;
        Point {
            layer: group[0].layer,
            age: group[0].age,
            drift: known.sum::<f64>() / n,
            saved: group.iter().map(|e| e.bytes_saved).sum(),
        }
    };
    groups.values().map(point).collect()
}

fn verdict(found: &Found, bound: &str) -> String {
    if found.historical() {
        let oldest = found.events.iter().map(|e| e.age).fold(0.0, f64::max);
        let layers = lanes(&found.events).len();
        return format!(
            "rows of chunks that come later are historical in {layers} layers of ranks, up to {oldest:.0} epochs old"
        );
    }
    let sum = |of: fn(&Event) -> f64| found.events.iter().map(of).sum::<f64>();
    let (sent, saved) = (sum(|e| e.bytes_sent), sum(|e| e.bytes_saved));
    let mut parts = Vec::new();
    if !bound.is_empty() {
        parts.push(format!("bound {bound}"));
    }
    let share = units::percent(saved / (sent + saved));
    parts.push(format!(
        "{} not sent, {share} of the rows under the bound",
        units::bytes(saved)
    ));
    if found.features[1] > 0.0 {
        let once = units::bytes(found.features[1]);
        parts.push(format!("features sent once: {once} more, not counted"));
    }
    if found.agreed > 0.0 {
        parts.push(format!("agreement {}", units::bytes(found.agreed)));
    }
    parts.join(" · ")
}

fn legend(points: &[Point], measured: bool, bound: &str, historical: bool) -> Vec<(Key, String)> {
    let sent = match historical {
        true => "a version was made",
        false => "rows were sent",
    };
    let mut legend = vec![(Key::Dot(Ink::COMPUTE), sent.to_owned())];
    let mut layers: Vec<u32> = points.iter().map(|p| p.layer).collect();
    layers.dedup();
    let area = if measured && !historical {
        " (area: bytes not sent)"
    } else {
        ""
    };
    for (k, layer) in layers.iter().enumerate() {
        legend.push((
            Key::Ring(Ink::line(k)),
            format!("reused, layer {layer}{area}"),
        ));
    }
    if limit(bound).is_some() {
        legend.push((Key::Dashed(Ink::STOP), "the bound".to_owned()));
    }
    legend
}

/// The bound's number, and whether it is one of ages.
fn limit(bound: &str) -> Option<(f64, bool)> {
    let (kind, value) = bound.split_once('=')?;
    let value: f64 = value.trim().parse().ok()?;
    Some((value, kind.starts_with("epoch")))
}

fn draw_lanes(area: &Area<'_>, events: &[Event], lanes: &[(u32, u32)]) -> Result<(), PlotError> {
    let last = events.iter().map(|e| e.epoch).max().unwrap_or(0);
    let n = lanes.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin_top(4 * U)
        .margin_right(10 * U)
        .x_label_area_size(38 * U)
        .y_label_area_size(110 * U)
        .build_cartesian_2d(-0.5..f64::from(last) + 0.5, 0.0..n)
        .map_err(PlotError::draw)?;
    let x = Named {
        name: "epoch",
        ticks: 10,
        lines: true,
        whole: true,
    };
    axes(&mut chart, x, Named::default())?;
    let size = if last > 150 { 2 * U } else { 3 * U };
    for (k, lane) in lanes.iter().enumerate() {
        let y = n - k as f64 - 0.5;
        let mine = events
            .iter()
            .filter(|e| e.sent && (e.layer, e.rank) == *lane);
        let dots = mine.map(|e| Circle::new((f64::from(e.epoch), y), size, Ink::COMPUTE.filled()));
        chart.draw_series(dots).map_err(PlotError::draw)?;
        let (_, py) = spot(&chart, area, 0.0, y);
        let name = format!("layer {} · rank {}", lane.0, lane.1);
        word(area, &name, (104, py), Type::new(11).faint().right())?;
    }
    Ok(())
}

fn draw_ages(
    area: &Area<'_>,
    points: &[Point],
    measured: bool,
    bound: &str,
) -> Result<(), PlotError> {
    const MIB: f64 = 1024.0 * 1024.0;
    let limit = limit(bound);
    let height = |p: &Point| if measured { p.drift } else { p.saved / MIB };
    let top = |values: &mut dyn Iterator<Item = f64>, least: f64| {
        values.filter(|v| v.is_finite()).fold(least, f64::max) * 1.15
    };
    let age_limit = limit.filter(|l| l.1).map(|l| l.0);
    let drift_limit = limit.filter(|l| !l.1 && measured).map(|l| l.0);
    let oldest = top(&mut points.iter().map(|p| p.age).chain(age_limit), 1.0);
    let highest = top(&mut points.iter().map(height).chain(drift_limit), 1e-9);
    let mut chart = ChartBuilder::on(area)
        .margin_top(8 * U)
        .margin_right(10 * U)
        .x_label_area_size(38 * U)
        .y_label_area_size(110 * U)
        .build_cartesian_2d(0.0..oldest + 0.5, 0.0..highest)
        .map_err(PlotError::draw)?;
    let x = Named {
        name: "age of the rows used (epochs)",
        ticks: 10,
        lines: false,
        whole: false,
    };
    let y = Named {
        name: if measured {
            "drift (relative L2 norm, mean)"
        } else {
            "not sent (MiB)"
        },
        ticks: 5,
        lines: true,
        whole: false,
    };
    axes(&mut chart, x, y)?;
    let most = points.iter().map(|p| p.saved).fold(1.0, f64::max);
    let mut layers: Vec<u32> = points.iter().map(|p| p.layer).collect();
    layers.dedup();
    for point in points.iter().filter(|p| height(p).is_finite()) {
        let ink = Ink::line(layers.iter().position(|l| *l == point.layer).unwrap_or(0));
        let radius = if measured {
            (3.0 + 9.0 * (point.saved / most).sqrt()) * f64::from(U)
        } else {
            4.0 * f64::from(U)
        };
        let ring = Circle::new((point.age, height(point)), radius as i32, stroke(ink, 20));
        chart.draw_series([ring]).map_err(PlotError::draw)?;
    }
    let rules = [
        age_limit.map(|age| vec![(age, 0.0), (age, highest)]),
        drift_limit.map(|drift| vec![(0.0, drift), (oldest + 0.5, drift)]),
    ];
    for rule in rules.into_iter().flatten() {
        chart
            .draw_series([PathElement::new(rule, stroke(Ink::STOP, 16))])
            .map_err(PlotError::draw)?;
    }
    Ok(())
}

fn numbers(found: &Found) -> String {
    // Historical rows are read in every epoch, that which makes a version included.
    let all = found.historical();
    let mut groups: BTreeMap<(u32, u32), Vec<&Event>> = BTreeMap::new();
    for event in &found.events {
        groups
            .entry((event.layer, event.rank))
            .or_default()
            .push(event);
    }
    let head = [
        "layer, rank",
        if all { "made" } else { "sent" },
        "reused",
        "mean age",
        "oldest",
        "bytes sent",
        "not sent",
        "mean drift",
    ];
    let rows = groups.iter().map(|((layer, rank), group)| {
        let sum = |of: fn(&Event) -> f64| group.iter().map(|e| of(e)).sum::<f64>();
        let reused: Vec<&&Event> = group.iter().filter(|e| all || !e.sent).collect();
        let mean = |of: fn(&Event) -> f64| {
            let known: Vec<f64> = reused
                .iter()
                .map(|e| of(e))
                .filter(|v| v.is_finite())
                .collect();
            match known.len() {
                0 => "-".to_owned(),
                n => format!("{:.3}", known.iter().sum::<f64>() / n as f64),
            }
        };
        vec![
            format!("{layer}, {rank}"),
            group.iter().filter(|e| e.sent).count().to_string(),
            reused.len().to_string(),
            mean(|e| e.age),
            format!("{:.0}", group.iter().map(|e| e.age).fold(0.0, f64::max)),
            units::bytes(sum(|e| e.bytes_sent)),
            units::bytes(sum(|e| e.bytes_saved)),
            mean(|e| e.drift),
        ]
    });
    table(&head, &rows.collect::<Vec<_>>())
}
