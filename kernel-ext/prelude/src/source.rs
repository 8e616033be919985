//! Where frames and manifests come from: the launcher's store, and only here. Each question first looks
//! whether the cell was interrupted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gnn_core::spec::{Role, find_key};
use launcher::partition::Report;
pub use launcher::store::Manifest;
use launcher::{Error, frames, store};
use polars::prelude::DataFrame;

use crate::interrupt;
use crate::plot::Setting;

type Result<T> = launcher::Result<T>;

/// The manifest of the run in `dir`.
pub(crate) fn manifest(dir: &Path) -> Result<Manifest> {
    interrupt::check();
    Manifest::read(dir)
}

/// The frame `name` of the run in `dir`, of the rows so far while it goes on.
pub(crate) fn load(dir: &Path, name: &str) -> Result<DataFrame> {
    interrupt::check();
    frames::load(dir, name)
}

/// Names of the frames of the run in `dir`.
pub(crate) fn frames_of(dir: &Path) -> Result<Vec<String>> {
    interrupt::check();
    frames::names_of(dir)
}

/// Whether spans have a row of an epoch.
pub(crate) fn has_epoch(spans: &DataFrame, epoch: u32) -> Result<bool> {
    let column = spans.column("epoch").map_err(Error::frame("spans"))?;
    let epochs = column.u32().map_err(Error::frame("spans"))?;
    Ok(epochs.iter().flatten().any(|of| of == epoch))
}

/// The folder of the run called `id`.
pub(crate) fn run_dir(id: &str) -> Result<PathBuf> {
    interrupt::check();
    store::run_dir(id)
}

/// One row a run, all runs of the store.
pub(crate) fn runs() -> Result<DataFrame> {
    interrupt::check();
    frames::runs()
}

/// The report of a cut, where there is one.
pub(crate) fn cut(path: &Path) -> Result<Option<Report>> {
    interrupt::check();
    path.exists()
        .then(|| launcher::partition::read_report(path))
        .transpose()
}

/// The frame of a cut by its id.
pub(crate) fn cut_frame(id: &str) -> Result<DataFrame> {
    interrupt::check();
    frames::read_partition(&launcher::partition::dir(id)?.join("partition.parquet"))
}

/// The frame of a plan by its id.
pub(crate) fn plan(id: &str) -> Result<DataFrame> {
    interrupt::check();
    frames::read_named(&launcher::forecast::path(id)?, "plan")
}

/// The frame of a sweep.
pub(crate) fn sweep(id: &str) -> Result<DataFrame> {
    interrupt::check();
    launcher::sweep::load(&launcher::sweep::dir(id)?)
}

/// The runs of a sweep that have ended well, in the order in which they were run.
pub(crate) fn sweep_runs(id: &str) -> Result<Vec<String>> {
    let frame = sweep(id)?;
    let words = |name: &str| crate::plot::words(&frame, name).unwrap_or_default();
    let rows = words("run_id").into_iter().zip(words("status"));
    let ended = rows.filter(|(id, status)| !id.is_empty() && status == "ok");
    Ok(ended.map(|(id, _)| id).collect())
}

/// The answer of a query.
pub(crate) fn kept(id: &str) -> Result<DataFrame> {
    interrupt::check();
    launcher::sql::load(&launcher::sql::kept(id)?)
}

/// What is wrong, then what to do.
pub(crate) fn in_words(error: &Error) -> String {
    format!("{error}\nhelp: {}", error.help())
}

/// What a figure is stamped with.
pub(crate) fn setting(manifest: &Manifest) -> Setting {
    let Manifest {
        run_id,
        name,
        data,
        model,
        strategy,
        backend,
        launch,
        host_class,
        ..
    } = manifest.clone();
    let link = manifest.link().unwrap_or_default().to_owned();
    let slow = manifest.slow().unwrap_or_default().to_owned();
    let bound = manifest.text("bound").unwrap_or_default().to_owned();
    Setting {
        run_id,
        link,
        slow,
        bound,
        target: manifest.number("target").filter(|&score| score > 0.0),
        name,
        data,
        model,
        strategy,
        backend,
        launch,
        host_class,
        status: manifest.status.label().to_owned(),
        ranks: manifest.ranks,
        threads: manifest.threads_per_rank,
        seed: Some(manifest.seed),
        oversubscribed: manifest.oversubscribed,
        generated: manifest.synthetic,
        knobs: knobs(manifest),
    }
}

/// Keys that a [`Setting`] names itself, or that differ between runs of one setting.
const NAMED: [&str; 14] = [
    "backend", "bound", "data", "device", "launch", "link", "model", "name", "ranks", "seed",
    "slow", "strategy", "target", "threads",
];

/// What else decides what an epoch computes: keys of the strategy, and those that every run has.
fn knobs(manifest: &Manifest) -> BTreeMap<String, String> {
    let decides = |key: &str| find_key(key).is_none_or(|key| key.role == Role::Result);
    let own = manifest.spec.iter();
    let own = own.filter(|(key, _)| !NAMED.contains(&key.as_str()) && decides(key));
    own.map(|(key, value)| (key.clone(), value.to_string()))
        .collect()
}
