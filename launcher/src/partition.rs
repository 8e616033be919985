//! A cut by itself: what `halobook partition` and `%partition` do.
//!
//! Cuts are cached in `$HALOBOOK_HOME/partitions/*.cut` by the content of what was cut
//! ([`gnn_core::partition::Cache`]); training uses the same folder. Each request also leaves a folder
//! `$HALOBOOK_HOME/partitions/<id>` with the frame (`partition.parquet`, which a notebook binds) and
//! `report.json`, which the plot reads.

use crate::error::{Error, Result};
use crate::{frames, store};
use gnn_core::dataset::{self, Dataset, Limit};
use gnn_core::partition::{self, Cache, Limits, Masks, Method, Need, Parts, Request};
pub use gnn_core::partition::{Picture, Report};
use gnn_core::record::part_rows;
use gnn_core::record::rows::PartRow;
use std::path::{Path, PathBuf};

/// What is to be cut, and how.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Data set: a name, a built-in or a path.
    pub data: String,
    /// Which of its splits.
    pub split: String,
    /// Into what.
    pub parts: Parts,
    /// Partitioner with its knobs.
    pub method: Method,
    /// Seed.
    pub seed: u64,
    /// What the partitioner may use.
    pub limits: Limits,
    /// Whether cuts are taken from the cache and kept in it.
    pub cached: bool,
}

/// A cut by itself.
#[derive(Debug)]
pub struct Done {
    /// Name of its folder.
    pub id: String,
    /// Its folder.
    pub dir: PathBuf,
    /// One row a part.
    pub rows: Vec<PartRow>,
    /// The cut as a whole.
    pub report: Report,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Folder of all cuts.
pub fn folder() -> PathBuf {
    store::home().join("partitions")
}

/// The cache that runs and cuts share.
pub fn cache() -> Cache {
    Cache::new(folder())
}

/// What the cut would need on this machine, without making it. The data set is loaded.
///
/// # Errors
/// Whatever loading reports; [`Error::Core`] for a request that makes no sense.
pub fn foresee(wanted: &Wanted) -> Result<Need> {
    let data = load(wanted)?;
    check_parts(wanted, &data)?;
    Ok(request(wanted, &data).need()?)
}

/// Cuts, compares with the hash baseline, and leaves frame and report in a folder of its own.
///
/// # Errors
/// Whatever loading or cutting reports, a refusal where the machine or a limit is too small among
/// them; [`Error::Io`] when the store cannot be written.
pub fn partition(wanted: &Wanted) -> Result<Done> {
    let data = load(wanted)?;
    check_parts(wanted, &data)?;
    let cache = cache();
    let cut = request(wanted, &data).cut(wanted.cached.then_some(&cache))?;
    let hash = Method::parse("hash")?;
    let parts = wanted.parts.count;
    let hashed = Request::of(hash, &data, parts, wanted.seed).assign()?;
    let masks = Masks {
        train: &data.train,
        val: &data.val,
        test: &data.test,
    };
    let row_bytes = (data.features.bytes() / data.n().max(1)) as u64;
    let facts_of =
        |owner: &[u32]| partition::facts(data.graph.csr(), owner, parts, masks, row_bytes);
    let (facts, base) = (facts_of(&cut.owner), facts_of(&hashed));
    let report = Report::of(&wanted.data, &data, &cut, &facts, Some(&base), wanted.seed);
    let rows = part_rows(&facts, Some(&base), &cut.method, cut.ms, cut.peak_bytes);
    let mut notes = data.about.notes.clone();
    notes.extend(cut.missed);
    notes.extend(cut.cache_failed);
    if cut.method != wanted.method.label() {
        notes.push(format!("limits chose {}", cut.method));
    }
    let id = store::new_id();
    let dir = folder().join(&id);
    store::make(&dir)?;
    frames::write_partition(&dir.join("partition.parquet"), &rows, &report)?;
    write_report(&dir.join("report.json"), &report)?;
    Ok(Done {
        id,
        dir,
        rows,
        report,
        notes,
    })
}

/// Writes a report for the plot to read.
///
/// # Errors
/// When the file cannot be written.
pub fn write_report(path: &Path, report: &Report) -> Result<()> {
    let bytes = serde_json::to_vec(report).map_err(|source| Error::Json {
        path: path.to_owned(),
        source,
    })?;
    store::write_atomic(path, &bytes)
}

/// Reads a report that [`partition()`] or a run left.
///
/// # Errors
/// When there is none, or it is not one.
pub fn read_report(path: &Path) -> Result<Report> {
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    serde_json::from_slice(&bytes).map_err(|source| Error::Json {
        path: path.to_owned(),
        source,
    })
}

/// Folder of a cut by its id.
///
/// # Errors
/// [`Error::Refused`] when there is none.
pub fn dir(id: &str) -> Result<PathBuf> {
    let dir = folder().join(id);
    let plain = !id.is_empty() && !id.contains('/') && !id.starts_with('.');
    if plain && dir.join("report.json").exists() {
        return Ok(dir);
    }
    Err(Error::refused(
        format!("there is no partition {id:?}"),
        "make one: halobook partition --data karate -n 2",
    ))
}

/// Bytes as people write them: `2GB`, `512MiB`, `1.5g`, `4096`.
///
/// # Errors
/// [`Error::Refused`] for anything else.
pub fn size(flag: &str, text: &str) -> Result<u64> {
    gnn_core::spec::bytes(text).ok_or_else(|| {
        Error::refused(
            format!("{flag}: expected a size, got {text}"),
            format!("write --{flag} 2GB, 512MiB, or bytes"),
        )
    })
}

fn load(wanted: &Wanted) -> Result<Dataset> {
    let (limit, verdicts) = (Limit::machine(), store::verdicts());
    let Wanted {
        data, split, seed, ..
    } = wanted;
    dataset::load_within(data, split, *seed, &limit, &verdicts).map_err(crate::datasets::unreadable)
}

fn request<'a>(wanted: &Wanted, data: &'a Dataset) -> Request<'a> {
    let Parts { count, nested } = wanted.parts;
    Request::of(wanted.method.clone(), data, count, wanted.seed)
        .nested(nested)
        .within(wanted.limits)
}

fn check_parts(wanted: &Wanted, data: &Dataset) -> Result<()> {
    let total = wanted.parts.total();
    if total > data.n().max(1) {
        return Err(Error::refused(
            format!(
                "{total} parts for the {} vertices of {}",
                data.n(),
                data.name
            ),
            format!("use at most {} parts (-n)", data.n()),
        ));
    }
    Ok(())
}
