//! Edge tables in Parquet and Arrow IPC files, as a source of edges for a conversion.
//!
//! # Not done
//! Row groups and record batches are decoded whole, so memory beyond a conversion's limit grows with
//! the largest one. What a file's pages claim is believed by Polars' reader, so a file from elsewhere is read by
//! another process first ([`super::sound`]).

use super::rows::{Kind, Rows};
use crate::error::{Error, Result};
use gnn_core::Error as CoreError;
use gnn_core::convert::EdgeSource;
use polars::error::PolarsError;
use polars::prelude::{Column, DataFrame, DataType};
use std::path::{Path, PathBuf};

/// Names that columns of sources and destinations have.
const NAMES: [[&str; 2]; 7] = [
    ["src", "dst"],
    ["source", "target"],
    ["source", "destination"],
    ["edge_src", "edge_dst"],
    ["from", "to"],
    ["head", "tail"],
    ["u", "v"],
];

/// The edges in two columns of a table.
pub struct TableEdges {
    path: PathBuf,
    rows: Rows,
    /// Rows that are read at a time.
    block: usize,
    row: usize,
}

impl TableEdges {
    /// Opens `path`; source and destination are the columns named so, or the only two. Rows of about
    /// `block` bytes are read at a time.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Frame`] for a file that cannot be read, [`Error::Refused`] when no
    /// two columns are the edges.
    pub fn open(path: &Path, kind: Kind, block: usize) -> Result<TableEdges> {
        let names = kind.columns(path)?;
        let has = |pair: &&[&str; 2]| pair.iter().all(|c| names.iter().any(|n| n == c));
        let columns = match (NAMES.iter().find(has), names.as_slice()) {
            (Some(pair), _) => pair.map(str::to_owned),
            (None, [a, b]) => [a.clone(), b.clone()],
            _ => {
                return Err(Error::refused(
                    format!(
                        "{}: which columns are the edges? It has {}",
                        path.display(),
                        names.join(", ")
                    ),
                    "name them src and dst",
                ));
            }
        };
        Ok(TableEdges {
            path: path.to_owned(),
            rows: Rows::open(path, kind, columns)?,
            block: (block / 16).max(1),
            row: 0,
        })
    }

    fn wrong(&self, place: &str, reason: String) -> CoreError {
        let help = "write vertex ids as whole numbers from 0, without missing ones";
        super::wrong(&self.path, place, reason, help)
    }

    /// Puts the ids of `column` into the ends `k` of `edges`.
    fn ids(&self, column: &Column, k: usize, edges: &mut [[u64; 2]]) -> gnn_core::Result<()> {
        let name = column.name().as_str();
        let numbers = match column.dtype() {
            t if t.is_integer() => column.cast(&DataType::Int64),
            t => Err(PolarsError::SchemaMismatch(
                format!("holds {t}; expected integers").into(),
            )),
        };
        let numbers = numbers.map_err(|e| self.wrong(name, e.to_string()))?;
        let ids = numbers.i64().map_err(|e| self.wrong(name, e.to_string()))?;
        for ((id, edge), row) in ids.iter().zip(edges).zip(self.row..) {
            edge[k] = id.and_then(|id| u64::try_from(id).ok()).ok_or_else(|| {
                let what = id.map_or("is missing".into(), |id| format!("{id} is no vertex id"));
                self.wrong(name, format!("row {row}: {what}"))
            })?;
        }
        Ok(())
    }
}

impl EdgeSource for TableEdges {
    fn next(&mut self, edges: &mut Vec<[u64; 2]>) -> gnn_core::Result<bool> {
        edges.clear();
        let read = self.rows.next(self.block);
        let frame: DataFrame = read.map_err(|e| self.wrong("rows", e.to_string()))?;
        edges.resize(frame.height(), [0; 2]);
        for (k, column) in frame.columns().iter().enumerate() {
            self.ids(column, k, edges)?;
        }
        self.row += edges.len();
        Ok(!edges.is_empty() && self.row < self.rows.count())
    }

    fn rewind(&mut self) -> gnn_core::Result<()> {
        self.row = 0;
        self.rows.rewind();
        Ok(())
    }

    fn progress(&self) -> (u64, u64) {
        (self.row as u64, self.rows.count() as u64)
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::{
        DataFrame, IpcCompression, IpcWriter, NamedFrom, ParquetWriter, SerWriter, Series,
    };
    use std::fs::File;

    const KINDS: [Kind; 2] = [Kind::Parquet, Kind::Arrow];

    /// A table in each kind of file; Arrow's compressed, in batches of 9 rows.
    fn written(columns: Vec<Series>, kind: Kind) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("edges");
        let height = columns[0].len();
        let columns = columns.into_iter().map(Column::from).collect();
        let mut frame = DataFrame::new(height, columns).expect("equal lengths");
        let file = File::create(&path).expect("writable");
        match kind {
            Kind::Parquet => ParquetWriter::new(file).finish(&mut frame).map(|_| ()),
            Kind::Arrow => {
                let mut chunked = frame.head(Some(9));
                for first in (9..height).step_by(9) {
                    chunked
                        .vstack_mut(&frame.slice(first as i64, 9))
                        .expect("same columns");
                }
                let compression = Some(IpcCompression::ZSTD(Default::default()));
                let mut to = IpcWriter::new(file).with_compression(compression);
                to.finish(&mut chunked)
            }
        }
        .expect("space");
        (dir, path)
    }

    /// All edges, read twice.
    fn all(path: &Path, kind: Kind) -> gnn_core::Result<Vec<[u64; 2]>> {
        let mut source = TableEdges::open(path, kind, 16 * 7).expect("two columns");
        let mut pass = || -> gnn_core::Result<Vec<[u64; 2]>> {
            source.rewind()?;
            let (mut all, mut block) = (Vec::new(), Vec::new());
            while source.next(&mut block)? {
                assert!(block.len() <= 7);
                all.extend_from_slice(&block);
            }
            all.extend_from_slice(&block);
            assert_eq!(source.progress(), (all.len() as u64, all.len() as u64));
            Ok(all)
        };
        let first = pass()?;
        assert_eq!(pass()?, first);
        Ok(first)
    }

    #[test]
    fn columns_are_found_by_name_and_read_in_blocks() {
        let ids = |name: &str, by: i64| {
            let list: Vec<i64> = (0..20).map(|k| k * by).collect();
            Series::new(name.into(), list)
        };
        let expected: Vec<[u64; 2]> = (0..20).map(|k| [k * 3, k]).collect();
        for kind in KINDS {
            let named = vec![ids("weight", 9), ids("dst", 1), ids("src", 3)];
            let (_a, path) = written(named, kind);
            assert_eq!(all(&path, kind).expect("edges"), expected);
            let small: Vec<u32> = (0..20).collect();
            let two = vec![ids("a", 3), Series::new("b".into(), small)];
            let (_b, path) = written(two, kind);
            assert_eq!(all(&path, kind).expect("edges"), expected);
            let none = |name: &str| Series::new(name.into(), Vec::<i64>::new());
            let (_c, path) = written(vec![none("a"), none("b")], kind);
            assert_eq!(all(&path, kind).expect("no edges"), [[0; 2]; 0]);
        }
    }

    #[test]
    fn what_is_no_edge_is_refused_with_its_row() {
        let good = || Series::new("src".into(), vec![0i64, 1, 2]);
        for kind in KINDS {
            let error = |other: Series| {
                let (_dir, path) = written(vec![good(), other], kind);
                all(&path, kind).expect_err("refused").to_string()
            };
            let e = error(Series::new("dst".into(), vec![Some(1i64), None, Some(2)]));
            assert!(e.contains("row 1: is missing"), "{e}");
            let e = error(Series::new("dst".into(), vec![1i64, 2, -3]));
            assert!(e.contains("row 2: -3"), "{e}");
            let e = error(Series::new("dst".into(), vec![1.0f64, 2.0, 3.0]));
            assert!(e.contains("expected integers"), "{e}");
            let three = ["x", "y", "z"].map(|n| Series::new(n.into(), vec![1i64]));
            let (_dir, path) = written(three.into(), kind);
            let e = TableEdges::open(&path, kind, 100).err();
            assert!(e.is_some_and(|e| e.to_string().contains("x, y, z")));
            for broken in ["PAR1 nothing PAR1", "ARROW1 nothing ARROW1", ""] {
                std::fs::write(&path, broken).expect("writable");
                assert!(TableEdges::open(&path, kind, 100).is_err());
            }
        }
    }
}
