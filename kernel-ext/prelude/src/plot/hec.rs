//! `hec`: what do historical caches find, what is lost without them, and what do they cost? And, as `stale` of such
//! a run: how old is what is found, and how far off?

use std::collections::{BTreeMap, BTreeSet};

use super::ink::Ink;
use super::panels::{self, Panel};
use super::setting::stamp;
use super::sheet::{Head, Key, sheet};
use super::text::table;
use super::{Case, Plot, PlotError, blank, read, twin, units};

/// One layer in one epoch, all ranks together.
#[derive(Debug, Clone, Copy, Default)]
struct Layer {
    ranks: f64,
    lookups: f64,
    hits: f64,
    edges: f64,
    dropped: f64,
    /// Of all that was found, in steps.
    ages: f64,
    oldest: f64,
    pushed: f64,
    left_out: f64,
    bytes: f64,
    /// Choosing and packing, waiting, storing and reading.
    ms: [f64; 3],
    /// A sum over the ranks that have measured it.
    errors: f64,
    measured: f64,
}

impl Layer {
    fn found(&self) -> f64 {
        100.0 * self.hits / self.lookups
    }

    fn lost(&self) -> f64 {
        100.0 * self.dropped / self.edges
    }

    fn age(&self) -> f64 {
        self.ages / self.hits
    }

    fn error(&self) -> f64 {
        self.errors / self.measured
    }

    fn add(&mut self, more: &Layer) {
        let sum = |a: &mut f64, b: f64| *a += b;
        sum(&mut self.ranks, more.ranks);
        sum(&mut self.lookups, more.lookups);
        sum(&mut self.hits, more.hits);
        sum(&mut self.edges, more.edges);
        sum(&mut self.dropped, more.dropped);
        sum(&mut self.ages, more.ages);
        sum(&mut self.pushed, more.pushed);
        sum(&mut self.left_out, more.left_out);
        sum(&mut self.bytes, more.bytes);
        sum(&mut self.errors, more.errors);
        sum(&mut self.measured, more.measured);
        self.oldest = self.oldest.max(more.oldest);
        for (a, b) in self.ms.iter_mut().zip(more.ms) {
            *a += b;
        }
    }
}

/// By epoch and layer.
type Found = BTreeMap<(u32, u32), Layer>;

/// What a line of a panel is called, its ink, and a number of each epoch.
type Line = (String, Ink, Vec<(f64, f64)>);

fn found(case: &Case) -> Result<Found, PlotError> {
    let frame = &case.frame;
    if frame.height() == 0 {
        return Ok(Found::new());
    }
    let need = |column: &str| read::need(frame, "hec", column);
    let (epoch, layer) = (need("epoch")?, need("layer")?);
    let (lookups, hits) = (need("lookups")?, need("hits")?);
    let (edges, dropped) = (need("edges")?, need("edges_dropped")?);
    let (mean, oldest) = (need("age_mean_steps")?, need("age_max_steps")?);
    let (pushed, left_out) = (need("rows_pushed")?, need("rows_left_out")?);
    let (bytes, error) = (need("bytes")?, need("error_rel")?);
    let (pre, comm, post) = (need("pre_ms")?, need("comm_ms")?, need("post_ms")?);
    let known = |x: f64| if x.is_finite() { x } else { 0.0 };
    let mut all = Found::new();
    for i in 0..frame.height() {
        let row = Layer {
            ranks: 1.0,
            lookups: lookups[i],
            hits: hits[i],
            edges: edges[i],
            dropped: dropped[i],
            ages: known(mean[i] * hits[i]),
            oldest: known(oldest[i]),
            pushed: pushed[i],
            left_out: left_out[i],
            bytes: bytes[i],
            ms: [pre[i], comm[i], post[i]],
            errors: known(error[i]),
            measured: f64::from(u8::from(error[i].is_finite())),
        };
        let key = (epoch[i] as u32, layer[i] as u32);
        all.entry(key).or_default().add(&row);
    }
    Ok(all)
}

fn layers(found: &Found) -> Vec<u32> {
    let layers: BTreeSet<u32> = found.keys().map(|key| key.1).collect();
    layers.into_iter().collect()
}

/// A line a layer.
fn by_layer(found: &Found, of: fn(&Layer) -> f64) -> Vec<Line> {
    let line = |(k, layer): (usize, u32)| {
        let mine = found.iter().filter(|(key, _)| key.1 == layer);
        let points = mine.map(|(key, row)| (f64::from(key.0), of(row)));
        let points = points.filter(|p| p.1.is_finite()).collect();
        (format!("layer {layer}"), Ink::line(k), points)
    };
    layers(found).into_iter().enumerate().map(line).collect()
}

/// A line for each part of a rank's remote aggregation, over all layers.
fn times(found: &Found) -> Vec<Line> {
    let parts = [
        ("choosing and packing", Ink::COPY),
        ("waiting", Ink::WAIT),
        ("storing and reading", Ink::TRANSFER),
    ];
    let part = |(k, (name, ink)): (usize, (&str, Ink))| {
        let mut by_epoch: BTreeMap<u32, f64> = BTreeMap::new();
        for (key, row) in found {
            *by_epoch.entry(key.0).or_default() += row.ms[k] / row.ranks;
        }
        let points = by_epoch
            .into_iter()
            .map(|(epoch, ms)| (f64::from(epoch), ms));
        (name.to_owned(), ink, points.collect())
    };
    parts.into_iter().enumerate().map(part).collect()
}

/// Share of remote vertices found and of edges dropped by layer, and a rank's time for remote rows, epoch by epoch.
/// `case` carries a `hec` frame.
///
/// # Errors
/// A frame without the columns of caches.
pub fn hec(case: &Case) -> Result<Plot, PlotError> {
    let title = format!("Historical caches, {}", case.setting.data_label());
    let found = found(case)?;
    if found.is_empty() {
        return blank(&title, nothing(case), &[&case.setting]);
    }
    let times = times(&found);
    let note = verdict(&found);
    let panels = [
        ("found (%)", by_layer(&found, Layer::found), Some(100.0)),
        ("edges dropped (%)", by_layer(&found, Layer::lost), None),
        ("ms a rank", times.clone(), None),
    ];
    let legend = keys(&panels[0].1).into_iter().chain(keys(&times));
    let desc = "Share of remote vertices found, of edges dropped, and time for remote rows";
    figure(
        case,
        (&title, &note, desc),
        legend.collect(),
        &panels,
        &numbers(&found),
    )
}

/// Age of the rows found and their distance from exact ones, where it was measured, by layer, epoch by epoch.
///
/// # Errors
/// As [`hec`].
pub(super) fn ages(case: &Case) -> Result<Plot, PlotError> {
    let title = format!("Age of historical rows, {}", case.setting.data_label());
    let found = found(case)?;
    if found.is_empty() {
        return blank(&title, nothing(case), &[&case.setting]);
    }
    let ages = by_layer(&found, Layer::age);
    let errors = by_layer(&found, Layer::error);
    let measured = errors.iter().any(|line| !line.2.is_empty());
    let mut all = Layer::default();
    found.values().for_each(|row| all.add(row));
    let mut note = format!(
        "rows found are {:.2} steps old, at most {:.0}, and were made d steps before they were stored",
        all.age(),
        all.oldest
    );
    note += &match measured {
        true => format!(
            " · off by {}",
            units::percent(last(&found, |_| true).error())
        ),
        false => " · drift = true measures how far off they are".to_owned(),
    };
    let legend = keys(&ages);
    let mut panels = vec![("age (steps)", ages, None)];
    if measured {
        panels.push(("relative error", errors, None));
    }
    let desc = "Age of the rows found, and their distance from exact ones";
    figure(
        case,
        (&title, &note, desc),
        legend,
        &panels,
        &numbers(&found),
    )
}

fn nothing(case: &Case) -> &'static str {
    match case.setting.ranks {
        1 => "One rank reads no other's rows.",
        _ => "No epoch is finished yet.",
    }
}

fn keys(lines: &[Line]) -> Vec<(Key, String)> {
    let key = |line: &Line| (Key::Line(line.1), line.0.clone());
    lines.iter().map(key).collect()
}

/// The layers of the last epoch together, or of those of one layer.
fn last(found: &Found, which: impl Fn(u32) -> bool) -> Layer {
    let epoch = found.keys().map(|key| key.0).max().unwrap_or(0);
    let mut all = Layer::default();
    let mine = found
        .iter()
        .filter(|(key, _)| key.0 == epoch && which(key.1));
    mine.for_each(|(_, row)| all.add(row));
    all
}

fn figure(
    case: &Case,
    (title, note, desc): (&str, &str, &str),
    legend: Vec<(Key, String)>,
    panels: &[(&'static str, Vec<Line>, Option<f64>)],
    numbers: &str,
) -> Result<Plot, PlotError> {
    let foot = stamp(&[&case.setting]);
    let head = Head {
        title: title.to_owned(),
        subtitle: note.to_owned(),
        desc: desc.to_owned(),
        legend,
        foot: foot.clone(),
    };
    let end = panels
        .iter()
        .flat_map(|panel| &panel.1)
        .flat_map(|line| &line.2);
    let end = end.map(|point| point.0).fold(1.0, f64::max);
    let panel = |(name, lines, most): &(&'static str, Vec<Line>, Option<f64>)| Panel {
        name,
        lines: lines.iter().map(|line| (line.1, line.2.clone())).collect(),
        most: *most,
        dots: false,
        rule: None,
    };
    let panels: Vec<Panel> = panels.iter().map(panel).collect();
    let svg = sheet(&head, panels::size(panels.len()), |area| {
        panels::draw(area, ("epoch", end), &panels)
    })?;
    let text = twin(title, &[note.to_owned()], numbers, &foot);
    Ok(Plot { svg, text })
}

/// What the last epoch came to.
fn verdict(found: &Found) -> String {
    let shares = layers(found).into_iter().map(|layer| {
        let share = last(found, |l| l == layer).found();
        match share.is_finite() {
            true => format!("{share:.0}"),
            false => "-".into(),
        }
    });
    let shares: Vec<String> = shares.collect();
    let all = last(found, |_| true);
    format!(
        "found {} % by layer, {} of the edges dropped, {} pushed in the last epoch",
        shares.join("/"),
        units::percent(all.lost() / 100.0),
        units::bytes(all.bytes),
    )
}

/// By layer, over all epochs.
fn numbers(found: &Found) -> String {
    let head = [
        "layer",
        "looked for",
        "found %",
        "edges",
        "dropped %",
        "age",
        "oldest",
        "pushed",
        "left out",
        "bytes",
        "error",
    ];
    let row = |layer: u32| {
        let mut all = Layer::default();
        let mine = found.iter().filter(|(key, _)| key.1 == layer);
        mine.for_each(|(_, row)| all.add(row));
        let number = |x: f64, digits: usize| match x.is_finite() {
            true => format!("{x:.digits$}"),
            false => "-".into(),
        };
        vec![
            layer.to_string(),
            units::count(all.lookups),
            number(all.found(), 1),
            units::count(all.edges),
            number(all.lost(), 1),
            number(all.age(), 2),
            number(all.oldest, 0),
            units::count(all.pushed),
            units::count(all.left_out),
            units::bytes(all.bytes),
            number(last(found, |l| l == layer).error(), 4),
        ]
    };
    table(
        &head,
        &layers(found).into_iter().map(row).collect::<Vec<_>>(),
    )
}
