//! A plain folder of edges, features and labels; its layout is described at [`crate::dataset`].

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use kernels::Mat;

use crate::dataset::meta::Meta;
use crate::dataset::npy::{self, Array};
use crate::dataset::{Dataset, Features, Task, bad, builtin, check};
use crate::graph::{EdgeOptions, Graph};
use crate::{Error, Result};

/// Bytes of one line at most; longer ones are not text tables.
const MAX_LINE: u64 = 64 << 20;

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

/// A table of numbers from a text or NumPy file.
struct Table {
    file: String,
    rows: usize,
    width: usize,
    values: Values,
}

enum Values {
    /// Fields with the line each row came from.
    Text {
        numbers: Vec<f64>,
        lines: Vec<u64>,
    },
    Npy(Array),
}

impl Table {
    fn read(path: &Path) -> Result<Table> {
        let file = path.display().to_string();
        let from = BufReader::new(File::open(path).map_err(|e| Error::io(path, e))?);
        if path.extension().is_some_and(|e| e == "npy") {
            let array = npy::read(from, &file, "array")?;
            let (rows, width) = match array.shape[..] {
                [rows] => (rows, 1),
                [rows, width] => (rows, width),
                _ => {
                    let reason = format!(
                        "expected 1 or 2 dimensions, got the shape {:?}",
                        array.shape
                    );
                    return Err(bad(
                        &file,
                        "array",
                        reason,
                        "reshape the array before saving it",
                    ));
                }
            };
            return Ok(Table {
                file,
                rows,
                width,
                values: Values::Npy(array),
            });
        }
        Table::text(path, file, from)
    }

    fn text(path: &Path, file: String, mut from: impl BufRead) -> Result<Table> {
        let (mut numbers, mut lines, mut width) = (Vec::new(), Vec::new(), 0);
        let (mut buffer, mut at) = (Vec::new(), 0u64);
        loop {
            buffer.clear();
            let got = std::io::Read::take(&mut from, MAX_LINE)
                .read_until(b'\n', &mut buffer)
                .map_err(|e| Error::io(path, e))?;
            if got == 0 {
                break;
            }
            at += 1;
            let place = format!("line {at}");
            if got as u64 == MAX_LINE {
                return Err(bad(
                    &file,
                    place,
                    "is too long for a table",
                    "write one record a line",
                ));
            }
            let line = std::str::from_utf8(&buffer).map_err(|_| {
                bad(
                    &file,
                    &place,
                    "is not UTF-8 text",
                    "save the table as UTF-8 text",
                )
            })?;
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let fields = line
                .split([',', ';', '\t', ' '])
                .map(str::trim)
                .filter(|f| !f.is_empty());
            let before = numbers.len();
            let mut wrong = None;
            for field in fields {
                match field.parse::<f64>() {
                    Ok(x) => numbers.push(x),
                    Err(_) => wrong = wrong.or(Some(field.to_owned())),
                }
            }
            if let Some(field) = wrong {
                // The first line may be a header.
                if lines.is_empty() && before == 0 && numbers.is_empty() {
                    continue;
                }
                let reason = format!(
                    "'{}' is not a number",
                    field.chars().take(40).collect::<String>()
                );
                return Err(bad(
                    &file,
                    place,
                    reason,
                    "write numbers only, after an optional header line",
                ));
            }
            let fields = numbers.len() - before;
            if width == 0 {
                width = fields;
            } else if width != fields {
                let reason = format!("expected {width} fields like the lines before, got {fields}");
                return Err(bad(
                    &file,
                    place,
                    reason,
                    "complete the line; is the file truncated?",
                ));
            }
            lines.push(at);
        }
        Ok(Table {
            file,
            rows: lines.len(),
            width,
            values: Values::Text { numbers, lines },
        })
    }

    /// Refuses another number of columns.
    fn columns(&self, expected: usize) -> Result<()> {
        if self.width == expected || self.rows == 0 {
            return Ok(());
        }
        let reason = format!("expected {expected} columns, got {}", self.width);
        Err(bad(
            &self.file,
            self.place(0),
            reason,
            format!("write {expected} numbers a line"),
        ))
    }

    /// Where row `k` is.
    fn place(&self, k: usize) -> String {
        match &self.values {
            Values::Text { lines, .. } => format!("line {}", lines.get(k).unwrap_or(&1)),
            Values::Npy(_) => format!("row {k}"),
        }
    }

    fn floats(&self) -> Result<Vec<f32>> {
        match &self.values {
            Values::Text { numbers, .. } => Ok(numbers.iter().map(|&x| x as f32).collect()),
            Values::Npy(array) => Ok(array.floats()),
        }
    }

    fn ints(&self) -> Result<Vec<i64>> {
        match &self.values {
            Values::Npy(array) => array.ints(),
            Values::Text { numbers, .. } => {
                // Above 2^53 a float no longer holds every whole number.
                let whole = |x: f64| x.fract() == 0.0 && x.abs() < 9e15;
                if let Some(k) = numbers.iter().position(|&x| !whole(x)) {
                    let reason = format!("{} is not a whole number", numbers[k]);
                    let help = "write ids and classes as whole numbers";
                    return Err(bad(
                        &self.file,
                        self.place(k / self.width.max(1)),
                        reason,
                        help,
                    ));
                }
                Ok(numbers.iter().map(|&x| x as i64).collect())
            }
        }
    }
}
