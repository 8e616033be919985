//! A vertex table: one row a vertex with its label, its part of the split and its features.

use super::{Kind, wrong};
use crate::error::{Error, Result};
use gnn_core::convert::Vertices;
use polars::prelude::{Column, CsvReader, DataFrame, DataType, SerReader};
use std::fs::File;
use std::path::Path;

/// Columns that are no features.
const OTHERS: [&str; 6] = ["id", "label", "split", "train", "val", "test"];

/// Classes at most.
const MAX_CLASSES: i64 = 1 << 16;

/// Reads the Parquet, Arrow or CSV file `path` whole. Its columns:
///
/// | column | content |
/// |---|---|
/// | `id` | id of the vertex; without it the row's number from 0 |
/// | `label` | class from 0; -1 or missing is unlabelled |
/// | `split` | `train`, `val`, `test` or nothing; or columns `train`, `val`, `test` of booleans; without either 60/20/20 % of the labelled ones at random |
/// | others | features, in the order of the columns |
///
/// # Errors
/// [`Error::Io`], [`Error::Frame`] for a file that cannot be read, [`Error::Core`] naming the column
/// and row of a value that cannot be used.
pub fn read(path: &Path) -> Result<Vertices> {
    let frame = match Kind::of_file(path) {
        Some(kind) => kind.read(path)?,
        None => {
            let file = File::open(path).map_err(Error::io(path))?;
            let frame = CsvReader::new(file).finish();
            frame.map_err(Error::frame(&path.display().to_string()))?
        }
    };
    Ok(from_frame(path, &frame)?)
}

fn from_frame(path: &Path, frame: &DataFrame) -> gnn_core::Result<Vertices> {
    let rows = frame.height();
    let ids = match frame.column("id") {
        Err(_) => None,
        Ok(column) => {
            let ids = integers(path, column)?;
            let id = |(row, id): (usize, Option<i64>)| {
                id.and_then(|id| u64::try_from(id).ok()).ok_or_else(|| {
                    let reason = format!("row {row}: {id:?} is no vertex id");
                    wrong(path, "id", reason, "number the vertices from 0")
                })
            };
            Some(
                ids.into_iter()
                    .enumerate()
                    .map(id)
                    .collect::<gnn_core::Result<Vec<u64>>>()?,
            )
        }
    };
    let mut labels = vec![-1; rows];
    if let Ok(column) = frame.column("label") {
        for (row, class) in integers(path, column)?.into_iter().enumerate() {
            let class = class.unwrap_or(-1);
            if !(-1..MAX_CLASSES).contains(&class) {
                let reason = format!("row {row}: class {class} is outside 0..{MAX_CLASSES}");
                let help = "number the classes from 0; -1 means unlabelled";
                return Err(wrong(path, "label", reason, help));
            }
            labels[row] = class as i32;
        }
    }
    let split = split(path, frame, &labels)?;
    let columns: Vec<&Column> = frame
        .columns()
        .iter()
        .filter(|c| !OTHERS.contains(&c.name().as_str()))
        .collect();
    let mut features = vec![0f32; rows * columns.len()];
    for (c, column) in columns.iter().enumerate() {
        let name = column.name().as_str();
        if !column.dtype().is_primitive_numeric() {
            let reason = format!("holds {}; expected numbers", column.dtype());
            return Err(wrong(
                path,
                name,
                reason,
                "leave columns without numbers out",
            ));
        }
        let fail =
            |e: polars::error::PolarsError| wrong(path, name, e.to_string(), "write numbers");
        let numbers = column.cast(&DataType::Float32).map_err(fail)?;
        for (row, x) in numbers.f32().map_err(fail)?.iter().enumerate() {
            let Some(x) = x.filter(|x| x.is_finite()) else {
                let reason = format!("row {row}: {x:?} is not a finite number");
                return Err(wrong(
                    path,
                    name,
                    reason,
                    "replace missing values by 0 or a mean",
                ));
            };
            features[row * columns.len() + c] = x;
        }
    }
    let width = columns.len();
    Vertices::new(ids, labels, split, features, width)
        .map_err(|reason| wrong(path, "id", reason, "write one row a vertex"))
}

/// The values of a column of whole numbers.
fn integers(path: &Path, column: &Column) -> gnn_core::Result<Vec<Option<i64>>> {
    let name = column.name().as_str();
    let fail = |reason: String| wrong(path, name, reason, "write whole numbers");
    if !column.dtype().is_integer() {
        return Err(fail(format!("holds {}; expected integers", column.dtype())));
    }
    let column = column
        .cast(&DataType::Int64)
        .map_err(|e| fail(e.to_string()))?;
    let list = column.i64().map_err(|e| fail(e.to_string()))?;
    Ok(list.iter().collect())
}

/// 1 training, 2 validation, 3 test, 0 none, a row each.
fn split(path: &Path, frame: &DataFrame, labels: &[i32]) -> gnn_core::Result<Vec<u8>> {
    let parts = ["train", "val", "test"];
    let mut split = vec![0; labels.len()];
    let mut given = false;
    if let Ok(column) = frame.column("split") {
        given = true;
        let help = "write train, val, test or nothing";
        let fail = |reason: String| wrong(path, "split", reason, help);
        for (row, word) in column
            .str()
            .map_err(|e| fail(e.to_string()))?
            .iter()
            .enumerate()
        {
            let word = word.unwrap_or("");
            split[row] = match (word, parts.iter().position(|p| *p == word)) {
                ("", _) => 0,
                ("valid" | "validation", _) => 2,
                (_, Some(part)) => part as u8 + 1,
                _ => return Err(fail(format!("row {row}: '{word}' is no part"))),
            };
        }
    }
    for (part, name) in parts.iter().enumerate() {
        let Ok(column) = frame.column(name) else {
            continue;
        };
        given = true;
        let fail =
            |reason: String| wrong(path, name, reason, "write true or false, one part a row");
        for (row, is) in column
            .bool()
            .map_err(|e| fail(e.to_string()))?
            .iter()
            .enumerate()
        {
            if is == Some(true) && std::mem::replace(&mut split[row], part as u8 + 1) != 0 {
                return Err(fail(format!("row {row} is in another part too")));
            }
        }
    }
    if !given {
        for (part, mask) in gnn_core::dataset::random_split(labels).iter().enumerate() {
            let chosen = split.iter_mut().zip(mask).filter(|(_, m)| **m);
            chosen.for_each(|(s, _)| *s = part as u8 + 1);
        }
    }
    match (0..split.len()).find(|&row| split[row] > 0 && labels[row] < 0) {
        None => Ok(split),
        Some(row) => {
            let reason = format!("row {row} is in a part, but has no label");
            Err(wrong(
                path,
                "split",
                reason,
                "leave unlabelled vertices out",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> gnn_core::Result<Vertices> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("vertices.csv");
        std::fs::write(&path, text).expect("writable");
        let frame = CsvReader::new(File::open(&path).expect("just written")).finish();
        from_frame(&path, &frame.expect("a table"))
    }

    #[test]
    fn columns_become_labels_split_and_features() {
        let got = of("id,label,x,split,y\n7,1,0.5,train,3\n2,0,1.5,test,4\n9,-1,2.5,,5\n");
        let got = got.expect("valid");
        assert_eq!((got.classes(), got.width(), got.end()), (2, 2, 10));
        assert_eq!(
            (got.label(7), got.part(7), got.features(7)),
            (1, 1, Some(&[0.5, 3.0][..]))
        );
        assert_eq!((got.label(2), got.part(2)), (0, 3));
        assert_eq!((got.label(9), got.part(9), got.label(3)), (-1, 0, -1));
        assert_eq!(got.features(3), None);
        let got =
            of("label,train,val,test\n0,true,false,false\n1,false,true,false\n").expect("valid");
        assert_eq!(
            (got.part(0), got.part(1), got.width(), got.end()),
            (1, 2, 0, 2)
        );
        let many: String = (0..100).map(|k| format!("{}\n", k % 3)).collect();
        let got = of(&format!("label\n{many}")).expect("valid");
        let train = (0..100).filter(|&v| got.part(v) == 1).count();
        assert!((40..80).contains(&train), "{train}");
    }

    #[test]
    fn wrong_values_are_named() {
        for (text, part) in [
            ("id,label\n-1,0\n", "id: row 0"),
            ("id,label\n3,0\n3,1\n", "vertex 3 has a second row"),
            ("label\n70000\n", "label: row 0: class 70000"),
            ("label\n0.5\n", "expected integers"),
            ("label,x\n0,\n1,2\n", "x: row 0"),
            ("label,x\n0,a\n", "expected numbers"),
            ("label,split\n0,some\n", "'some' is no part"),
            ("label,split\n-1,train\n", "has no label"),
        ] {
            let e = of(text).expect_err(text);
            assert!(
                e.to_string().contains(part) && !e.help().is_empty(),
                "{text}: {e}"
            );
        }
    }
}
