//! `stack`: where the wall time of each epoch went.
//!
//! The parts sum to the wall time by definition; communication hidden behind compute is not a
//! part, and is outlined above the bar. Epochs marked as warm-up are pale and left out of summaries.

use polars::prelude::DataFrame;

use super::ink::Ink;
use super::setting::stamp;
use super::sheet::{Head, Key, SIDE, part, sheet};
use super::text::table;
use super::{Case, Plot, PlotError, Setting, blank, read, stack_epochs, stack_runs, twin, units};

/// The parts of an epoch's wall time, from the bottom of a bar up.
pub(super) const PARTS: [(&str, &str, Ink); 5] = [
    ("compute", "compute_ms", Ink::COMPUTE),
    ("copy", "copy_ms", Ink::COPY),
    ("exposed transfer", "xfer_exposed_ms", Ink::TRANSFER),
    ("wait", "wait_ms", Ink::WAIT),
    ("other", "other_ms", Ink::OTHER),
];

/// Name and colour on light paper of the parts of an epoch's wall time, from the bottom of a bar up: for
/// whoever draws them elsewhere.
pub fn parts() -> [(&'static str, &'static str); 5] {
    PARTS.map(|(name, _, ink)| (name, ink.tone().light))
}

/// Bars before neighbouring epochs share one.
const MAX_BARS: usize = 200;

/// One bar.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    /// First and last epoch.
    pub epochs: (f64, f64),
    /// Milliseconds of each of [`PARTS`].
    pub parts: [f64; 5],
    /// Hidden communication, ms.
    pub hidden: f64,
    /// Recorded wall time, ms.
    pub wall: f64,
    pub warm: bool,
}

impl Bar {
    pub(super) fn sum(&self) -> f64 {
        self.parts.iter().sum()
    }

    pub(super) fn top(&self) -> f64 {
        self.sum() + self.hidden
    }
}

/// Which parts `frame`, called `name`, has, and one bar a row.
pub(super) fn bars(frame: &DataFrame, name: &str) -> Result<([bool; 5], Vec<Bar>), PlotError> {
    let epoch = read::need(frame, name, "epoch")?;
    let wall = read::need(frame, name, "wall_ms")?;
    let parts: Vec<Option<Vec<f64>>> = PARTS.iter().map(|p| read::maybe(frame, p.1)).collect();
    let hidden = read::maybe(frame, "comm_hidden_ms");
    let warm = read::warmup(frame);
    let known = |values: &Option<Vec<f64>>, i: usize| {
        let v = values.as_ref().map_or(0.0, |v| v[i]);
        if v.is_finite() { v.max(0.0) } else { 0.0 }
    };
    let bars = (0..epoch.len()).map(|i| Bar {
        epochs: (epoch[i], epoch[i]),
        parts: std::array::from_fn(|p| known(&parts[p], i)),
        hidden: known(&hidden, i),
        wall: wall[i],
        warm: warm[i],
    });
    let has = std::array::from_fn(|p| parts[p].is_some());
    Ok((has, bars.collect()))
}

/// Means of `k` neighbouring epochs; warm-up epochs are not mixed with others.
pub(super) fn binned(bars: &[Bar], k: usize) -> Vec<Bar> {
    if k <= 1 {
        return bars.to_vec();
    }
    bars.chunk_by(|a, b| a.warm == b.warm)
        .flat_map(|same| same.chunks(k))
        .map(|chunk| {
            let n = chunk.len() as f64;
            let mean = |f: &dyn Fn(&Bar) -> f64| chunk.iter().map(f).sum::<f64>() / n;
            Bar {
                epochs: (chunk[0].epochs.0, chunk[chunk.len() - 1].epochs.1),
                parts: std::array::from_fn(|p| mean(&|b| b.parts[p])),
                hidden: mean(&|b| b.hidden),
                wall: mean(&|b| b.wall),
                warm: chunk[0].warm,
            }
        })
        .collect()
}

/// What an epoch usually takes: the mean over the middle half of epochs by wall time, warm-up
/// left out (unless every epoch is one). It is as robust as a median, and its parts still add up.
pub(super) fn typical(bars: &[Bar]) -> Bar {
    let mut used: Vec<&Bar> = bars.iter().filter(|b| !b.warm).collect();
    if used.is_empty() {
        used = bars.iter().collect();
    }
    used.sort_by(|a, b| a.wall.total_cmp(&b.wall));
    let cut = used.len() / 4;
    let middle: Vec<Bar> = used[cut..used.len() - cut]
        .iter()
        .map(|bar| Bar {
            warm: false,
            ..(*bar).clone()
        })
        .collect();
    match binned(&middle, middle.len()).pop() {
        Some(mean) => mean,
        None => Bar {
            epochs: (f64::NAN, f64::NAN),
            parts: [f64::NAN; 5],
            hidden: f64::NAN,
            wall: f64::NAN,
            warm: false,
        },
    }
}

/// Median wall time of the epochs that are not warm-up.
pub(super) fn median_wall(bars: &[Bar]) -> f64 {
    let cold = units::median(bars.iter().filter(|b| !b.warm).map(|b| b.wall));
    match cold.is_finite() {
        true => cold,
        false => units::median(bars.iter().map(|b| b.wall)),
    }
}

/// Stacked bars of compute, copy, exposed transfer, wait and other; `cases` carry `epochs` frames.
///
/// One run gives a bar per epoch, several runs one bar per run: the mean over the
/// middle half of its epochs by wall time. The breakdown of
/// an epoch is that of its slowest rank, as the frame records it.
///
/// # Errors
/// A frame without `epoch` or `wall_ms`.
pub fn stack(cases: &[Case]) -> Result<Plot, PlotError> {
    let settings: Vec<&Setting> = cases.iter().map(|c| &c.setting).collect();
    if cases.iter().all(|c| c.frame.height() == 0) {
        let title = "Where the time of an epoch went";
        return blank(title, "No epoch has been recorded yet.", &settings);
    }
    match cases {
        [one] => single(one),
        _ => stack_runs::stack_runs(cases),
    }
}

fn single(case: &Case) -> Result<Plot, PlotError> {
    let (has, epochs) = bars(&case.frame, "epochs")?;
    let shown = binned(&epochs, epochs.len().div_ceil(MAX_BARS));
    let usual = typical(&epochs);
    let title = format!(
        "Where the time of each epoch went, {}",
        case.setting.data_label()
    );
    let warm = epochs.iter().filter(|b| b.warm).count();
    let mut notes = vec![subtitle(median_wall(&epochs), warm, epochs.len())];
    if shown.len() < epochs.len() {
        let k = epochs.len().div_ceil(MAX_BARS);
        notes.push(format!("each bar is the mean of {k} epochs"));
    }
    let cut = stack_epochs::cut(&shown);
    if cut > 0 {
        notes.push(format!("{} cut at the top", units::plural(cut, "bar")));
    }
    if let Some(gap) = residual(&epochs) {
        notes.push(gap);
    }
    if let Some(stop) = case.setting.stop_label() {
        notes.push(format!(
            "{stop} after {}",
            units::plural(epochs.len(), "epoch")
        ));
    }
    let foot = stamp(&[&case.setting]);
    let head = Head {
        title: title.clone(),
        subtitle: notes.join(" · "),
        desc: format!("A typical epoch: {}", words(&has, &usual)),
        legend: legend(&has, epochs.iter().any(|b| b.hidden > 0.0), Some(&usual)),
        foot: foot.clone(),
    };
    let svg = sheet(&head, (880, 310), |area| {
        let plot = part(area, (SIDE, 0), (880 - 2 * SIDE, 310));
        stack_epochs::draw(&plot, &shown, &has)
    })?;
    notes.push("the typical epoch is the mean of the middle half by wall time".into());
    let text = twin(&title, &notes, &numbers(&has, &usual), &foot);
    Ok(Plot { svg, text })
}

fn subtitle(median: f64, warm: usize, epochs: usize) -> String {
    let skipped = match warm {
        0 => String::new(),
        n if n == epochs => ", all of them warm-up".into(),
        n => format!(", {n} warm-up (pale) left out of the median"),
    };
    format!(
        "median epoch {} on its slowest rank · {}{skipped}",
        units::ms(median),
        units::plural(epochs, "epoch")
    )
}

/// A remark when parts and wall time disagree by more than 1 % somewhere.
fn residual(bars: &[Bar]) -> Option<String> {
    let worst = bars
        .iter()
        .filter(|b| b.wall > 0.0)
        .map(|b| (b.wall - b.sum()).abs() / b.wall)
        .fold(0.0, f64::max);
    (worst > 0.01).then(|| format!("parts miss wall time by up to {}", units::percent(worst)))
}

/// The legend, with a typical epoch's parts when `usual` is given.
pub(super) fn legend(has: &[bool; 5], hidden: bool, usual: Option<&Bar>) -> Vec<(Key, String)> {
    let value = |v: f64| match usual {
        Some(_) => format!(" {}", units::ms(v)),
        None => String::new(),
    };
    let parts = (0..5).filter(|p| has[*p]).map(|p| {
        let ms = usual.map_or(f64::NAN, |u| u.parts[p]);
        (Key::Box(PARTS[p].2), format!("{}{}", PARTS[p].0, value(ms)))
    });
    let mut legend: Vec<_> = parts.collect();
    if hidden {
        let ms = value(usual.map_or(f64::NAN, |u| u.hidden));
        legend.push((
            Key::Dashed(Ink::HIDDEN),
            format!("hidden comm{ms} (not in wall)"),
        ));
    }
    legend
}

fn words(has: &[bool; 5], usual: &Bar) -> String {
    let parts: Vec<String> = (0..5)
        .filter(|p| has[*p])
        .map(|p| format!("{} {}", PARTS[p].0, units::ms(usual.parts[p])))
        .collect();
    parts.join(", ")
}

fn numbers(has: &[bool; 5], usual: &Bar) -> String {
    let total = usual.sum();
    let number = |ms: f64| match ms.is_finite() {
        true => format!("{ms:.3}"),
        false => "-".to_owned(),
    };
    let row = |name: &str, ms: f64, share: String| vec![name.to_owned(), number(ms), share];
    let mut rows: Vec<Vec<String>> = (0..5)
        .filter(|p| has[*p])
        .map(|p| {
            let ms = usual.parts[p];
            row(PARTS[p].0, ms, units::percent(ms / total))
        })
        .collect();
    rows.push(row("wall", usual.wall, String::new()));
    rows.push(row("hidden comm", usual.hidden, "not in wall".into()));
    table(&["part of a typical epoch", "ms", "share"], &rows)
}
