//! A plain folder of edges, features and labels; its layout is described at [`crate::dataset`].

use std::path::{Path, PathBuf};

use kernels::Mat;

use crate::Result;
use crate::dataset::meta::Meta;
use crate::dataset::table::{Places, Table};
use crate::dataset::{Dataset, Features, Limit, bad, check, split};
use crate::graph::{EdgeOptions, Graph};

/// Vertices at most.
const MAX_NODES: i64 = u32::MAX as i64;

/// Endings of text tables.
const TEXT: [&str; 9] = [
    "csv", "txt", "tsv", "csv.gz", "txt.gz", "tsv.gz", "csv.zst", "txt.zst", "tsv.zst",
];

/// Endings of tables that may also be arrays.
const ANY: [&str; 10] = [
    "csv", "txt", "npy", "tsv", "csv.gz", "txt.gz", "tsv.gz", "csv.zst", "txt.zst", "tsv.zst",
];

/// Loads the data set in the folder `path`.
pub(super) fn load(path: &Path, limit: &Limit) -> Result<Dataset> {
    let meta = Meta::beside(&path.join("meta.json"))?;
    let edges_at = required(path, "edges", &ANY)?;
    let labels_at = optional(path, "labels", &ANY);
    let features = optional(path, "features", &["npy", "csv", "csv.gz", "csv.zst"])
        .map(|p| Table::read(&p, limit))
        .transpose()?;
    if labels_at.is_none() && meta.num_nodes.is_none() && features.is_none() {
        required(path, "labels", &ANY)?;
    }
    let edges = Table::read(&edges_at, limit)?;
    edges.columns(2)?;
    let (ends, edges) = edges.into_ints()?;
    let labels = labels_at.map(|p| Labels::read(&p, limit)).transpose()?;
    let n = count(labels.as_ref(), features.as_ref(), &ends, &meta, &edges.0)?;
    limit.graph(n as u64, ends.len() as u64 / 2, &edges.0)?;
    let graph = {
        let split = |k: usize| ends[k.min(ends.len())..].iter().step_by(2).copied();
        let src = check::edges(&edges.0, "source", split(0), n)?;
        let dst = check::edges(&edges.0, "destination", split(1), n)?;
        drop(ends);
        let options = EdgeOptions {
            symmetrise: !meta.directed,
            ..EdgeOptions::SIMPLE
        };
        Graph::from_edges(n, &src, &dst, options)?
    };
    let name = path
        .canonicalize()
        .ok()
        .and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned()));
    let mut dataset =
        Dataset::unlabelled(name.unwrap_or_else(|| path.display().to_string()), graph);
    dataset.about.format = "plain folder";
    dataset.about.classes = meta.class_names.0;
    if let Some(table) = features {
        check::length(&table.file, "features", n, table.rows)?;
        let shape = (n, table.width);
        let x = Mat::from_shape_vec(shape, table.into_floats());
        dataset.features = Features::Dense(x.expect("a table holds rows times width values"));
    }
    if let Some(labels) = labels {
        let (label, file) = labels.by_vertex(n)?;
        let (label, n_classes) = check::labels(&file, &label, meta.num_classes)?;
        [dataset.train, dataset.val, dataset.test] = masks(path, &label, limit)?;
        (dataset.labels, dataset.n_classes) = (label, n_classes);
    }
    Ok(dataset)
}

/// The file `stem` with the first of `endings` that is there.
fn optional(folder: &Path, stem: &str, endings: &[&str]) -> Option<PathBuf> {
    endings
        .iter()
        .map(|e| folder.join(format!("{stem}.{e}")))
        .find(|p| p.is_file())
}

fn required(folder: &Path, stem: &str, endings: &[&str]) -> Result<PathBuf> {
    optional(folder, stem, endings).ok_or_else(|| {
        let first = endings.iter().take(3);
        let names: Vec<String> = first.map(|e| format!("{stem}.{e}")).collect();
        bad(
            &folder.display().to_string(),
            stem,
            format!("none of {} is there", names.join(", ")),
            "a data folder holds graph.npz, or edges.csv and labels.csv (features.npy and splits if you have them); .gz and .zst are read too",
        )
    })
}

/// Number of vertices: what the data says, else one a feature row or label, else the largest id.
fn count(
    labels: Option<&Labels>,
    features: Option<&Table>,
    ends: &[i64],
    meta: &Meta,
    edges: &str,
) -> Result<usize> {
    let largest = |ids: &mut dyn Iterator<Item = i64>| ids.max().map_or(0, |v| v.saturating_add(1));
    let n = match (meta.num_nodes, features, labels) {
        (Some(n), ..) => i64::try_from(n).unwrap_or(i64::MAX),
        (None, Some(table), _) => table.rows as i64,
        (None, None, Some(labels)) if labels.width == 1 => labels.values.len() as i64,
        (None, None, labels) => {
            let values = labels.map_or(&[][..], |l| &l.values);
            let labelled = largest(&mut values.iter().step_by(2).copied());
            largest(&mut ends.iter().copied()).max(labelled)
        }
    };
    if n > MAX_NODES {
        let reason = format!("a vertex id of {} is more than {MAX_NODES}", n - 1);
        let help = "number the vertices from 0 without gaps";
        return Err(bad(edges, "vertices", reason, help));
    }
    Ok(n as usize)
}

/// Labels as they were written: a class for each vertex in order, or vertices with their classes.
struct Labels {
    values: Vec<i64>,
    places: Places,
    width: usize,
    rows: usize,
}

impl Labels {
    fn read(path: &Path, limit: &Limit) -> Result<Labels> {
        let table = Table::read(path, limit)?;
        if table.width != 1 {
            table.columns(2)?;
        }
        let (width, rows) = (table.width, table.rows);
        let (values, places) = table.into_ints()?;
        Ok(Labels {
            values,
            places,
            width,
            rows,
        })
    }

    /// One label for each of `n` vertices, -1 where none is given; and the file.
    fn by_vertex(self, n: usize) -> Result<(Vec<i64>, String)> {
        let file = self.places.0.clone();
        if self.width == 1 {
            check::length(&file, "labels", n, self.values.len())?;
            return Ok((self.values, file));
        }
        let mut labels = vec![-1; n];
        let mut given = vec![false; n];
        for (k, pair) in self.values.chunks_exact(2).enumerate().take(self.rows) {
            let slot = usize::try_from(pair[0]).ok().filter(|&v| v < n);
            let wrong = |reason: String, help: &str| bad(&file, self.places.of(k), reason, help);
            let Some(v) = slot else {
                let reason = format!("vertex {} is outside 0..{n}", pair[0]);
                return Err(wrong(reason, "number the vertices from 0"));
            };
            if std::mem::replace(&mut given[v], true) {
                let reason = format!("vertex {v} has a second label");
                return Err(wrong(reason, "give every vertex one label"));
            }
            labels[v] = pair[1];
        }
        Ok((labels, file))
    }
}

/// Training, validation and test masks: from lists of ids, from `masks.npy`, or at random.
fn masks(folder: &Path, labels: &[i32], limit: &Limit) -> Result<[Vec<bool>; 3]> {
    let n = labels.len();
    if let Some(path) = optional(folder, "masks", &["npy"]) {
        let table = Table::read(&path, limit)?;
        if table.rows != 3 || table.width != n {
            let reason = format!(
                "expected the shape (3, {n}), got ({}, {})",
                table.rows, table.width
            );
            return Err(bad(
                &table.file,
                "masks",
                reason,
                "save training, validation and test masks as rows",
            ));
        }
        let flat: Vec<bool> = table.into_ints()?.0.into_iter().map(|x| x != 0).collect();
        return Ok([0, 1, 2].map(|k| flat[k * n..][..n].to_vec()));
    }
    if optional(folder, "train", &TEXT).is_none() {
        return Ok(split::random(labels));
    }
    let mut masks = [vec![false; n], vec![false; n], vec![false; n]];
    for (mask, stem) in masks.iter_mut().zip(["train", "val", "test"]) {
        let table = Table::read(&required(folder, stem, &TEXT)?, limit)?;
        table.columns(1)?;
        let (ids, places) = table.into_ints()?;
        for v in check::edges(&places.0, stem, ids, n)? {
            mask[v as usize] = true;
        }
    }
    Ok(masks)
}
