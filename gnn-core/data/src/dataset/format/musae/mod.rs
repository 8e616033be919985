//! MUSAE's files: `NAME_edges.csv`, `NAME_target.csv` ([`targets`]) and `NAME_features.json`
//! (the features of each vertex that are 1).
//!
//! As the published loaders do, edges are made symmetric, repeats and self loops are dropped. The files have
//! no split: 60/20/20 % at random.
//!
//! # Paper
//! Rozemberczki, Allen, Sarkar, "Multi-scale Attributed Node Embedding", 2021,
//! <https://arxiv.org/abs/1909.13021>.

mod targets;

use std::collections::BTreeMap;
use std::path::Path;

use kernels::CsrBuf;

use super::{Ask, Listing};
use crate::Result;
use crate::dataset::table::Table;
use crate::dataset::{Dataset, Features, Limit, bad, check, split};
use crate::graph::{EdgeOptions, Graph};
use targets::Targets;

/// Columns of features at most.
const MAX_COLUMNS: u32 = 1 << 24;

/// Loads the data set whose edges are the file `at`.
pub(super) fn load(ask: &Ask, at: &Path) -> Result<Dataset> {
    split::only_standard(ask.split, "a MUSAE folder")?;
    let listing = Listing::of(at.parent().unwrap_or(Path::new(".")))?;
    let name = at
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let stem = name.trim_end_matches("_edges.csv");
    let need = |ending: &str| {
        listing.path(&format!("{stem}{ending}")).ok_or_else(|| {
            let reason = format!("{stem}{ending} is missing");
            bad(
                &at.display().to_string(),
                stem,
                reason,
                "download all files of the data set",
            )
        })
    };
    let path = need("_target.csv")?;
    let Targets {
        classes: labels,
        names,
        fifths,
    } = targets::read(&path, ask.limit)?;
    let n = labels.len();
    let edges = Table::read(at, ask.limit)?;
    edges.columns(2)?;
    ask.limit.graph(n as u64, edges.rows as u64, &edges.file)?;
    let (ends, edges) = edges.into_ints()?;
    let end = |k: usize| ends[k.min(ends.len())..].iter().step_by(2).copied();
    let src = check::edges(&edges.0, "source", end(0), n)?;
    let dst = check::edges(&edges.0, "target", end(1), n)?;
    let mut dataset =
        Dataset::unlabelled(stem, Graph::from_edges(n, &src, &dst, EdgeOptions::SIMPLE)?);
    if let Some(path) = listing.path(&format!("{stem}_features.json")) {
        dataset.features = Features::Sparse(features(&path, n, ask.limit)?);
    }
    let (labels, n_classes) = check::labels(&path.display().to_string(), &labels, None)?;
    [dataset.train, dataset.val, dataset.test] = split::random(&labels);
    (dataset.labels, dataset.n_classes) = (labels, n_classes);
    dataset.about.format = "MUSAE";
    if fifths {
        let note = "the targets have many values and were cut into five classes of equal size";
        dataset.about.notes.push(note.into());
    }
    if !names.is_empty() {
        let named = names
            .iter()
            .enumerate()
            .map(|(k, name)| format!("{k} {name}"));
        let named: Vec<_> = named.collect();
        dataset
            .about
            .notes
            .push(format!("classes: {}", named.join(", ")));
    }
    Ok(dataset)
}

/// Features from an object of lists of columns, by vertex.
fn features(path: &Path, n: usize, limit: &Limit) -> Result<CsrBuf> {
    let file = path.display().to_string();
    let text = super::whole(path, limit)?;
    // A number takes two bytes of the file at least, and four in memory, in lists that may double.
    limit.take(8 * text.len() as u64 + 48 * n as u64, &file, "features")?;
    let help = "write an object of lists: {\"vertex\": [columns], …}";
    let lists: BTreeMap<u32, Vec<u32>> =
        serde_json::from_slice(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text))
            .map_err(|e| bad(&file, format!("line {}", e.line()), e.to_string(), help))?;
    let mut out = CsrBuf::empty(0);
    let mut lists = lists.into_iter().peekable();
    for v in 0..n as u32 {
        if let Some((_, mut columns)) = lists.next_if(|(u, _)| *u == v) {
            columns.sort_unstable();
            columns.dedup();
            out.n_cols = out
                .n_cols
                .max(columns.last().map_or(0, |&c| c as usize + 1));
            out.indices.extend(columns);
        }
        out.indptr.push(out.indices.len() as u64);
    }
    if let Some((v, _)) = lists.next() {
        let reason = format!("vertex {v} is outside 0..{n}");
        return Err(bad(
            &file,
            format!("vertex {v}"),
            reason,
            "number the vertices from 0",
        ));
    }
    if out.n_cols > MAX_COLUMNS as usize {
        let reason = format!("column {} is too large", out.n_cols - 1);
        return Err(bad(&file, "columns", reason, "number the features from 0"));
    }
    Ok(out)
}
