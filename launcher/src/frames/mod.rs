//! Rows become Polars frames: built from what ranks appended, written as Parquet at a run's end.
//!
//! Columns and types are those of the row structs ([`gnn_core::record::rows`]) and, of frames that a
//! strategy adds, those that its entry declares and the run folder keeps ([`gnn_core::record::frame`]),
//! with `run_id` first and `synthetic`, `link` and `slow` last. A frame of a run that is still going, or
//! whose supervisor died, is built from the rows there are; only epochs that every rank finished are in it.
//!
//! # Not done
//! Enumerations (`status`, `direction`, `op` …) are text columns; times of the day are UTC without
//! a zone in their type.

mod build;
mod diverged;
mod embeddings;
mod epochs;
mod file;
mod gathered;
mod identity;
mod json;
mod listing;
mod own;
pub(crate) mod rows;
mod stored;
mod summary;
mod table;
mod target;
mod text;

pub use file::{Form, write};
pub use gathered::{Gathered, gathered};
pub use identity::{OTHER_SHARE, check as check_identity};
pub use json::json_lines;
pub use listing::{listed, schemas};
pub use own::{of_run, of_strategies};
pub(crate) use rows::metrics as metrics_row;
pub use target::OF_BEST;
pub use text::text;

use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::store;
use gnn_core::DIVERGED;
use gnn_core::partition::Report;
use gnn_core::record::frame::Schema;
use gnn_core::record::rows::{PartRow, PlanRow};
use own::Own;
use polars::prelude::{Column, DataFrame, NamedFrom, Series};
use rows::Rows;
use std::path::{Path, PathBuf};

/// Frames of every run, before those that strategies add and after them.
const OF_EVERY_RUN: [&[&str]; 2] = [
    &["runs", "epochs", "ranks", "comm"],
    &["spans", "traced", "partition"],
];

/// Names of all frames that there are: of every run, and of the strategies that are known here.
pub fn names() -> Vec<String> {
    with_own(of_strategies())
}

/// Names of the frames of a run: of every run, and those that its strategy adds.
///
/// # Errors
/// When the run folder's list of them cannot be read.
pub fn names_of(run_dir: &Path) -> Result<Vec<String>> {
    let mut names = with_own(of_run(run_dir)?);
    if path(run_dir, embeddings::NAME).exists() {
        names.push(embeddings::NAME.to_owned());
    }
    Ok(names)
}

fn with_own(own: Vec<Schema>) -> Vec<String> {
    let [before, after] = OF_EVERY_RUN.map(|names| names.iter().map(|&name| name.to_owned()));
    before
        .chain(own.into_iter().map(|schema| schema.name))
        .chain(after)
        .collect()
}

/// Whether every run has a frame of that name.
pub(crate) fn of_every_run(name: &str) -> bool {
    OF_EVERY_RUN.iter().any(|names| names.contains(&name))
}

/// Whether a frame of that name can be read of a run.
pub(crate) fn has(run_dir: &Path, name: &str) -> bool {
    of_every_run(name)
        || (name == embeddings::NAME && path(run_dir, name).exists())
        || matches!(own::find(run_dir, name), Ok(Some(_)))
}

/// Where a frame lies once it is written.
pub fn path(run_dir: &Path, frame: &str) -> PathBuf {
    run_dir.join("frames").join(format!("{frame}.parquet"))
}

/// Removes what is written of a run's frames and can be made again from its rows.
pub fn remove(run_dir: &Path) {
    let entries = std::fs::read_dir(run_dir.join("frames"));
    for entry in entries.into_iter().flatten().flatten() {
        // Embeddings are in no row.
        if entry.path().file_stem() != Some(embeddings::NAME.as_ref()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A frame of a run: from its Parquet file if there is one, else built from the rows so far. A frame that
/// another strategy adds has no rows.
///
/// # Errors
/// [`Error::Refused`] for a name that is no frame, [`Error::Identity`] when a row does not add up,
/// else what reading or building reports.
pub fn load(run_dir: &Path, frame: &str) -> Result<DataFrame> {
    if frame == embeddings::NAME {
        let kept = path(run_dir, frame);
        return match kept.exists() {
            true => read_named(&kept, frame),
            false => Err(Error::refused(
                "this run has kept no embeddings",
                "train with keep_embeddings = true, and let the run end",
            )),
        };
    }
    let own = match of_every_run(frame) {
        true => None,
        false => Some(own::find(run_dir, frame)?.ok_or_else(|| unknown(frame))?),
    };
    let written = path(run_dir, frame);
    match written.exists() {
        true if stored::is_hashed(&written) || !rows::are_kept(run_dir) => {
            stored::read(&written, frame)
        }
        // Nobody can say whether a file of an older version is whole, and a reader of damaged Parquet may ask for
        // all memory there is: the rows are there, too.
        true => build(run_dir, frame, own).or_else(|_| stored::read(&written, frame)),
        false => build(run_dir, frame, own),
    }
}

fn unknown(frame: &str) -> Error {
    let names = names();
    let near = gnn_core::error::nearest(frame, names.iter().map(String::as_str))
        .map_or(String::new(), |near| format!("; did you mean '{near}'?"));
    Error::refused(
        format!("unknown frame '{frame}'{near}"),
        format!("known: {}", names.join(", ")),
    )
}

/// `own` is the frame of a strategy, and whether it is this run's.
fn build(run_dir: &Path, frame: &str, own: Option<(Schema, bool)>) -> Result<DataFrame> {
    let manifest = Manifest::read(run_dir)?;
    if frame == "runs" {
        return summary::runs(&[manifest]).map_err(Error::frame(frame));
    }
    let rows = match own {
        Some((schema, false)) => Rows {
            own: vec![Own::new(schema)],
            ..Rows::default()
        },
        own => {
            let own = own.map(|(schema, _)| schema).into_iter().collect();
            Rows::read_with(run_dir, manifest.ranks, own)?
        }
    };
    identity::check(&rows.ranks)?;
    frame_of(&rows, &manifest, frame)
}

/// A frame of one run; its last columns say whether the data was generated, which link was modelled
/// and which rank was slowed down.
fn frame_of(rows: &Rows, run: &Manifest, frame: &str) -> Result<DataFrame> {
    let run_id = &run.run_id;
    let made = match frame {
        "epochs" => epochs::epochs(rows, run_id),
        "ranks" => build::ranks(rows, run_id),
        "comm" => build::comm(rows, run_id),
        "spans" => build::spans(rows, run_id),
        "traced" => build::traced(rows, run_id),
        "partition" => build::partition(rows, run_id),
        _ => {
            let own = rows.own.iter().find(|own| own.name() == frame);
            let own = own.ok_or_else(|| unknown(frame))?;
            own.frame(run_id, &rows.epochs)
        }
    }
    .map_err(Error::frame(frame))?;
    let made = marked(made, run.synthetic, frame)?;
    let made = with_word(made, ("link", run.link()), frame)?;
    with_word(made, ("slow", run.slow()), frame)
}

/// A frame with one more column that says the same in every row, null where there is nothing to say.
fn with_word(
    mut made: DataFrame,
    (name, word): (&str, Option<&str>),
    frame: &str,
) -> Result<DataFrame> {
    let column = Series::new(name.into(), vec![word; made.height()]);
    let with_word = made.with_column(column.into()).map(|made| made.clone());
    with_word.map_err(Error::frame(frame))
}

/// A frame with the column `synthetic`.
fn marked(mut made: DataFrame, synthetic: bool, frame: &str) -> Result<DataFrame> {
    let mark = Series::new("synthetic".into(), vec![synthetic; made.height()]);
    let with_mark = made.with_column(mark.into()).map(|made| made.clone());
    with_mark.map_err(Error::frame(frame))
}

/// One row a run, all runs of the store, oldest first.
///
/// # Errors
/// When the store cannot be listed.
pub fn runs() -> Result<DataFrame> {
    summary::runs(&store::list()?).map_err(Error::frame("runs"))
}

/// The `partition` frame of a cut without a run: one row a part, and after its columns one a type of
/// the data, `nodes:NAME` and `edges:NAME`.
///
/// # Errors
/// What building reports.
pub fn partition_frame(rows: &[PartRow], report: &Report) -> Result<DataFrame> {
    let mut made = build::partition_alone(rows).map_err(Error::frame("partition"))?;
    for facts in &report.types {
        let name = format!("{}:{}", facts.of.label(), facts.name);
        let column = Column::new(name.into(), facts.parts.as_slice());
        made.with_column(column)
            .map_err(Error::frame("partition"))?;
    }
    marked(made, report.synthetic, "partition")
}

/// Writes it as Parquet.
///
/// # Errors
/// When it cannot be built or written.
pub fn write_partition(path: &Path, rows: &[PartRow], report: &Report) -> Result<()> {
    write_named(path, "partition", &mut partition_frame(rows, report)?)
}

/// Reads it back.
///
/// # Errors
/// When it cannot be read.
pub fn read_partition(path: &Path) -> Result<DataFrame> {
    read_named(path, "partition")
}

/// The `plan` frame of its rows.
///
/// # Errors
/// What building reports.
pub fn plan_frame(rows: &[PlanRow]) -> Result<DataFrame> {
    build::plan(rows).map_err(Error::frame("plan"))
}

/// Writes it as Parquet.
///
/// # Errors
/// When it cannot be built or written.
pub fn write_plan(path: &Path, rows: &[PlanRow]) -> Result<()> {
    write_named(path, "plan", &mut plan_frame(rows)?)
}

/// Reads the frame `frame` from a file of its own.
///
/// # Errors
/// When it cannot be read.
pub fn read_named(path: &Path, frame: &str) -> Result<DataFrame> {
    stored::read(path, frame)
}

/// Builds and writes every frame of a run, and enters into `manifest` what only the rows know:
/// total bytes, peak memory, epochs finished, and a note when much time is unaccounted for. The
/// manifest itself is not written.
///
/// # Errors
/// [`Error::Identity`] when a row does not add up; else what building or writing reports.
pub fn write_all(run_dir: &Path, manifest: &mut Manifest) -> Result<()> {
    let rows = Rows::read_with(run_dir, manifest.ranks, of_run(run_dir)?)?;
    identity::check(&rows.ranks)?;
    if let Some(note) = identity::note(&rows.ranks) {
        manifest.note(note);
    }
    if let Some(note) = rows.dropped_note() {
        manifest.note(note);
    }
    manifest.epochs_done = rows.epochs.len() as u32;
    let ended = rows
        .ended
        .as_ref()
        .filter(|ended| rows.epochs.last() == Some(&ended.epoch));
    manifest.stopped_early = ended.is_some_and(|ended| ended.by != DIVERGED);
    if let Some(ended) = ended.filter(|ended| ended.by == DIVERGED) {
        manifest.error = Some(diverged::error(ended));
    }
    manifest.bytes_total = rows.ranks.iter().map(|r| r.bytes_tx).sum();
    manifest.mem_peak_bytes = rows
        .ranks
        .iter()
        .map(|r| r.mem_peak_bytes)
        .max()
        .unwrap_or(0);
    let asked = manifest.number("target").unwrap_or(0.0);
    manifest.result = summary::result(&rows, asked);
    let names = names_of(run_dir)?;
    if embeddings::are_written(run_dir, manifest.ranks) {
        let mut made = embeddings::frame(run_dir, manifest.ranks)?;
        write_named(
            &path(run_dir, embeddings::NAME),
            embeddings::NAME,
            &mut made,
        )?;
        embeddings::clear(run_dir, manifest.ranks);
    }
    let made_of_rows = |frame: &&String| *frame != "runs" && *frame != embeddings::NAME;
    for frame in names.iter().filter(made_of_rows) {
        let mut made = frame_of(&rows, manifest, frame)?;
        write_named(&path(run_dir, frame), frame, &mut made)?;
    }
    write_run(run_dir, manifest)
}

/// Writes the frame `runs` of one run.
///
/// # Errors
/// When it cannot be written.
pub fn write_run(run_dir: &Path, manifest: &Manifest) -> Result<()> {
    let mut made = summary::runs(std::slice::from_ref(manifest)).map_err(Error::frame("runs"))?;
    write_named(&path(run_dir, "runs"), "runs", &mut made)
}

/// Writes the frame `frame` as Parquet, so that readers see the old or the new one.
///
/// # Errors
/// When it cannot be written.
pub fn write_named(path: &Path, frame: &str, made: &mut DataFrame) -> Result<()> {
    stored::write(path, frame, made)
}

#[cfg(test)]
mod tests;
