//! A plain folder of edges, features and labels; its layout is described at [`crate::dataset`].

use std::path::{Path, PathBuf};

use kernels::Mat;

use crate::Result;
use crate::dataset::meta::Meta;
use crate::dataset::table::Table;
use crate::dataset::{Dataset, Features, Task, bad, builtin, check};
use crate::graph::{EdgeOptions, Graph};

/// Vertices at most.
const MAX_NODES: i64 = u32::MAX as i64;

/// Loads the data set in the folder `path`.
pub(super) fn load(path: &Path) -> Result<Dataset> {
    let meta = Meta::beside(&path.join("meta.json"))?;
    let edges_at = required(path, "edges", &["csv", "txt", "npy"])?;
    let labels_at = required(path, "labels", &["csv", "txt", "npy"])?;
    let edges = Table::read(&edges_at)?;
    edges.columns(2)?;
    let ends = edges.ints()?;
    let features = optional(path, "features", &["npy", "csv"])
        .map(|p| Table::read(&p))
        .transpose()?;
    let labels = Table::read(&labels_at)?;
    let n = count(&labels, features.as_ref(), &ends, &meta, &edges)?;
    let label = by_vertex(&labels, n)?;
    let (label, n_classes) = check::labels(&labels.file, &label, meta.num_classes)?;
    let graph = {
        let split = |k: usize| {
            ends.iter()
                .skip(k)
                .step_by(2)
                .copied()
                .collect::<Vec<i64>>()
        };
        let src = check::edges(&edges.file, "source", &split(0), n)?;
        let dst = check::edges(&edges.file, "destination", &split(1), n)?;
        let options = EdgeOptions {
            symmetrise: !meta.directed,
            ..EdgeOptions::SIMPLE
        };
        Graph::from_edges(n, &src, &dst, options)?
    };
    let features = match features {
        None => Features::identity(n),
        Some(table) => {
            check::length(&table.file, "features", n, table.rows)?;
            let x = Mat::from_shape_vec((n, table.width), table.floats()?);
            Features::Dense(x.expect("a table holds rows times width values"))
        }
    };
    let [train, val, test] = masks(path, &label)?;
    let name = path
        .canonicalize()
        .ok()
        .and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned()));
    Ok(Dataset {
        name: name.unwrap_or_else(|| path.display().to_string()),
        graph,
        features,
        labels: label,
        n_classes,
        train,
        val,
        test,
        synthetic: false,
        task: Task::NodeClassification,
        multi_labels: None,
        node_types: None,
        links: None,
    })
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
        let names: Vec<String> = endings.iter().map(|e| format!("{stem}.{e}")).collect();
        bad(
            &folder.display().to_string(),
            stem,
            format!("none of {} is there", names.join(", ")),
            "a data folder holds graph.npz, or edges.csv and labels.csv (features.npy and splits if you have them)",
        )
    })
}

/// Number of vertices: what the data says, else one a feature row or label, else the largest id.
fn count(
    labels: &Table,
    features: Option<&Table>,
    ends: &[i64],
    meta: &Meta,
    edges: &Table,
) -> Result<usize> {
    let largest = |ids: &mut dyn Iterator<Item = i64>| ids.max().map_or(0, |v| v + 1);
    let n = match (meta.num_nodes, features) {
        (Some(n), _) => n as i64,
        (None, Some(table)) => table.rows as i64,
        (None, None) if labels.width == 1 => labels.rows as i64,
        (None, None) => {
            let labelled = largest(&mut labels.ints()?.into_iter().step_by(2));
            largest(&mut ends.iter().copied()).max(labelled)
        }
    };
    if n > MAX_NODES {
        let reason = format!("a vertex id of {} is more than {MAX_NODES}", n - 1);
        return Err(bad(
            &edges.file,
            "vertices",
            reason,
            "number the vertices from 0 without gaps",
        ));
    }
    Ok(n as usize)
}

/// Labels in order of vertices from either form of the table; -1 where none is given.
fn by_vertex(table: &Table, n: usize) -> Result<Vec<i64>> {
    let values = table.ints()?;
    if table.width == 1 {
        check::length(&table.file, "labels", n, values.len())?;
        return Ok(values);
    }
    table.columns(2)?;
    let mut labels = vec![-1; n];
    let mut given = vec![false; n];
    for (k, pair) in values.chunks_exact(2).enumerate() {
        let slot = usize::try_from(pair[0]).ok().filter(|&v| v < n);
        let Some(v) = slot else {
            let reason = format!("vertex {} is outside 0..{n}", pair[0]);
            return Err(bad(
                &table.file,
                table.place(k),
                reason,
                "number the vertices from 0",
            ));
        };
        if std::mem::replace(&mut given[v], true) {
            let reason = format!("vertex {v} has a second label");
            return Err(bad(
                &table.file,
                table.place(k),
                reason,
                "give every vertex one label",
            ));
        }
        labels[v] = pair[1];
    }
    Ok(labels)
}

/// Training, validation and test masks: from lists of ids, from `masks.npy`, or at random.
fn masks(folder: &Path, labels: &[i32]) -> Result<[Vec<bool>; 3]> {
    let n = labels.len();
    if let Some(path) = optional(folder, "masks", &["npy"]) {
        let table = Table::read(&path)?;
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
        let flat: Vec<bool> = table.ints()?.into_iter().map(|x| x != 0).collect();
        return Ok([0, 1, 2].map(|k| flat[k * n..][..n].to_vec()));
    }
    if optional(folder, "train", &["csv", "txt"]).is_none() {
        // Files do not depend on the run's seed.
        let mut masks = builtin::split(n, 0, [0.6, 0.2, 0.2]);
        for mask in &mut masks {
            mask.iter_mut()
                .zip(labels)
                .for_each(|(m, &label)| *m &= label >= 0);
        }
        return Ok(masks);
    }
    let mut masks = [vec![false; n], vec![false; n], vec![false; n]];
    for (mask, stem) in masks.iter_mut().zip(["train", "val", "test"]) {
        let table = Table::read(&required(folder, stem, &["csv", "txt"])?)?;
        if table.rows > 0 {
            table.columns(1)?;
        }
        for v in check::edges(&table.file, stem, &table.ints()?, n)? {
            mask[v as usize] = true;
        }
    }
    Ok(masks)
}
