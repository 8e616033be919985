//! Two runs side by side: which settings differ, and what that came to. `%diff` and `halobook diff`.

use crate::error::{Error, Result};
use crate::frames;
use crate::manifest::Manifest;
use crate::sweep::{Numbers, Row};
use gnn_core::record::frame::Column as Kind;
use gnn_core::spec::Value;
use polars::prelude::{AnyValue, Column, DataFrame, DataType};
use std::fmt;
use std::path::Path;

/// A row for each setting that differs, then one for each result, whether it differs or not:
///
/// | column | |
/// |---|---|
/// | `kind` | setting, machine, result or frame |
/// | `what` | a key of the request, what was measured, or a column of a frame that both strategies add |
/// | `left`, `right` | of the two runs, as text |
/// | `ratio` | right over left, where both are numbers other than 0 |
///
/// The result `losses` says for how many epochs the training losses have the same bits; of a frame's column
/// it is the mean over its rows.
///
/// # Errors
/// When a run folder cannot be read.
pub fn diff(left: &Path, right: &Path) -> Result<DataFrame> {
    let (a, b) = (Manifest::read(left)?, Manifest::read(right)?);
    let mut lines: Vec<Line> = Vec::new();
    let keys: std::collections::BTreeSet<&String> = a.spec.keys().chain(b.spec.keys()).collect();
    for key in keys {
        let word = |of: &Manifest| of.spec.get(key).map(Value::to_string);
        let number = |of: &Manifest| of.spec.get(key).and_then(Value::as_f64);
        if word(&a) != word(&b) {
            lines.push(Line::new(
                "setting",
                key,
                [word(&a), word(&b)],
                [number(&a), number(&b)],
            ));
        }
    }
    for (what, of) in machine([&a, &b]) {
        lines.push(Line::new("machine", what, of, [None; 2]));
    }
    let status = [&a, &b].map(|m| Some(m.status.label().to_owned()));
    lines.push(Line::new("result", "status", status, [None; 2]));
    let [mut came, mut other] = [Row::default(), Row::default()];
    came.take(left, &a);
    other.take(right, &b);
    for name in Numbers::NAMES {
        lines.push(Line::numbers(
            "result",
            name,
            [&came, &other].map(|row| row.numbers.get(name)),
        ));
    }
    if let Some(losses) = losses(left, right)? {
        let said = Some(losses.to_string());
        lines.push(Line::new("result", "losses", [said, None], [None; 2]));
    }
    lines.extend(own_frames([left, right])?);
    frame(&lines)
}

/// A line for each column of amounts of the frames that both strategies add, and have rows of.
fn own_frames(of: [&Path; 2]) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    let theirs = frames::of_run(of[1])?;
    let shared = frames::of_run(of[0])?.into_iter();
    for schema in shared.filter(|schema| theirs.contains(schema)) {
        let [left, right] = of.map(|run_dir| frames::load(run_dir, &schema.name));
        let both = [left?, right?];
        if both.iter().any(|frame| frame.height() == 0) {
            continue;
        }
        let amounts = schema.columns.iter().filter(|column| {
            let counted = matches!(column.kind, Kind::U64 | Kind::I64 | Kind::F64);
            counted || !column.unit.is_empty()
        });
        for column in amounts {
            let mean = |frame: &DataFrame| {
                frame
                    .column(&column.name)
                    .ok()?
                    .as_materialized_series()
                    .mean()
            };
            let what = format!("{}.{}", schema.name, column.name);
            lines.push(Line::numbers("frame", &what, both.each_ref().map(mean)));
        }
    }
    Ok(lines)
}

/// A row of the answer, before it is one.
struct Line {
    kind: &'static str,
    what: String,
    words: [Option<String>; 2],
    ratio: Option<f64>,
}

impl Line {
    fn new(
        kind: &'static str,
        what: &str,
        words: [Option<String>; 2],
        numbers: [Option<f64>; 2],
    ) -> Line {
        let ratio = match numbers {
            [Some(a), Some(b)] if a != 0.0 && b != 0.0 => Some(b / a),
            _ => None,
        };
        Line {
            kind,
            what: what.to_owned(),
            words,
            ratio,
        }
    }

    fn numbers(kind: &'static str, what: &str, of: [Option<f64>; 2]) -> Line {
        let word = |x: f64| match x.fract() == 0.0 {
            true => format!("{x:.0}"),
            false => format!("{x:.4}"),
        };
        Line::new(kind, what, of.map(|x| x.map(word)), of)
    }
}

/// A run's epochs; none where it has not finished any.
fn epochs(run_dir: &Path) -> Result<Option<DataFrame>> {
    match frames::load(run_dir, "epochs") {
        Ok(frame) if frame.height() > 0 => Ok(Some(frame)),
        Ok(_) => Ok(None),
        Err(_) if !frames::path(run_dir, "epochs").exists() => Ok(None),
        Err(error) => Err(error),
    }
}

/// For how many epochs two runs have the same training losses, bit by bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Losses {
    /// Epochs from the first one on.
    pub same: usize,
    /// Epochs that both have.
    pub shared: usize,
}

impl Losses {
    /// Whether no epoch differs.
    pub fn agree(self) -> bool {
        self.same == self.shared
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Losses { same, shared } = self;
        match self.agree() {
            true => write!(f, "the same bits in all {shared} epochs that both have"),
            false => write!(f, "the same bits in {same} of {shared} epochs"),
        }
    }
}

/// Compares the training losses of two runs; `None` where one of them has no epoch.
///
/// # Errors
/// When a frame cannot be read.
pub fn losses(left: &Path, right: &Path) -> Result<Option<Losses>> {
    let (Some(a), Some(b)) = (epochs(left)?, epochs(right)?) else {
        return Ok(None);
    };
    let losses = |of: &DataFrame| -> Result<Vec<Option<u64>>> {
        let column = of.column("train_loss").map_err(Error::frame("epochs"))?;
        let cell = |k: usize| column.get(k).ok().and_then(|x| bits(&x));
        Ok((0..of.height()).map(cell).collect())
    };
    let (a, b) = (losses(&a)?, losses(&b)?);
    Ok(Some(Losses {
        same: a.iter().zip(&b).take_while(|(a, b)| a == b).count(),
        shared: a.len().min(b.len()),
    }))
}

/// What differs of the machine and the program that two runs ran on, with both words.
pub(crate) fn machine(of: [&Manifest; 2]) -> Vec<(&'static str, [Option<String>; 2])> {
    type Of = fn(&Manifest) -> Option<String>;
    let all: [(&'static str, Of); 8] = [
        ("host_class", |m| Some(m.host_class.clone())),
        ("threads_per_rank", |m| Some(m.threads_per_rank.to_string())),
        ("mpi", |m| m.mpi.clone()),
        ("strategy_hash", |m| Some(m.strategy_hash.clone())),
        ("partition_hash", |m| m.partition_hash.clone()),
        ("driver", |m| m.driver.clone()),
        ("version", |m| Some(m.version.clone())),
        ("lock_hash", |m| Some(m.lock_hash.clone())),
    ];
    let both = all.into_iter().map(|(what, word)| (what, of.map(word)));
    both.filter(|(_, [a, b])| a != b).collect()
}

fn bits(cell: &AnyValue<'_>) -> Option<u64> {
    cell.try_extract::<f64>().ok().map(f64::to_bits)
}

fn frame(lines: &[Line]) -> Result<DataFrame> {
    let text = |name: &str, of: &dyn Fn(&Line) -> Option<String>| {
        Column::new(name.into(), lines.iter().map(of).collect::<Vec<_>>())
    };
    let ratio: Vec<Option<f64>> = lines.iter().map(|r| r.ratio).collect();
    let columns = vec![
        text("kind", &|r| Some(r.kind.to_owned())),
        text("what", &|r| Some(r.what.clone())),
        text("left", &|r| r.words[0].clone()),
        text("right", &|r| r.words[1].clone()),
        Column::new("ratio".into(), ratio)
            .cast(&DataType::Float64)
            .map_err(Error::frame("diff"))?,
    ];
    DataFrame::new(lines.len(), columns).map_err(Error::frame("diff"))
}
