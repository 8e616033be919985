//! Columns of a table on disk, a run of rows at a time.

use crate::error::{Error, Result};
use polars::prelude::{
    Column, DataFrame, IpcReader, ParquetReader, PolarsResult, SerReader, Series,
};
use polars_arrow::io::ipc::read::{FileReader, get_row_count, read_file_metadata};
use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::{Path, PathBuf};

/// What a table is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Apache Parquet.
    Parquet,
    /// An Arrow IPC file, also called Feather version 2. Streams, which have no footer, are not read.
    Arrow,
}

impl Kind {
    /// The kind of a file with the ending `ending`, in small letters.
    pub fn of(ending: &str) -> Option<Kind> {
        match ending {
            "parquet" => Some(Kind::Parquet),
            "arrow" | "feather" | "ipc" => Some(Kind::Arrow),
            _ => None,
        }
    }

    /// The kind of the file `path`, by its ending.
    pub fn of_file(path: &Path) -> Option<Kind> {
        let ending = path.extension()?.to_str()?;
        Kind::of(&ending.to_lowercase())
    }

    /// The names of the columns of `path`.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Frame`] for a file that cannot be read.
    pub fn columns(self, path: &Path) -> Result<Vec<String>> {
        let file = File::open(path).map_err(Error::io(path))?;
        let schema = match self {
            Kind::Parquet => ParquetReader::new(file).schema(),
            Kind::Arrow => IpcReader::new(file).schema(),
        };
        let schema = schema.map_err(Error::frame(&path.display().to_string()))?;
        Ok(schema.iter_names().map(|n| n.to_string()).collect())
    }

    /// The whole table in `path`.
    ///
    /// # Errors
    /// As [`Kind::columns`].
    pub fn read(self, path: &Path) -> Result<DataFrame> {
        let file = File::open(path).map_err(Error::io(path))?;
        let frame = match self {
            Kind::Parquet => ParquetReader::new(file).finish(),
            Kind::Arrow => IpcReader::new(file).finish(),
        };
        frame.map_err(Error::frame(&path.display().to_string()))
    }
}

/// Some columns of a table.
pub struct Rows {
    path: PathBuf,
    columns: Vec<String>,
    count: usize,
    place: Place,
}

enum Place {
    /// The next row of a Parquet file.
    Row(usize),
    /// The record batches that follow, and what is left of the last one.
    Batches(Box<Batches>),
}

struct Batches {
    file: FileReader<BufReader<File>>,
    rest: DataFrame,
}

impl Rows {
    /// The columns `columns` of `path`, in that order, from the first row on.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Frame`] for a file that cannot be read.
    pub fn open(path: &Path, kind: Kind, columns: impl Into<Vec<String>>) -> Result<Rows> {
        let mut file = File::open(path).map_err(Error::io(path))?;
        let frame = || Error::frame(&path.display().to_string());
        let (count, place) = match kind {
            Kind::Parquet => {
                let count = ParquetReader::new(file).num_rows().map_err(frame())?;
                (count, Place::Row(0))
            }
            Kind::Arrow => {
                let count = get_row_count(&mut file).map_err(frame())?;
                let metadata = read_file_metadata(&mut file).map_err(frame())?;
                file.rewind().map_err(Error::io(path))?;
                let batches = Batches {
                    file: FileReader::new(BufReader::new(file), metadata, None, None),
                    rest: DataFrame::empty(),
                };
                let count = usize::try_from(count).unwrap_or(0);
                (count, Place::Batches(Box::new(batches)))
            }
        };
        Ok(Rows {
            path: path.to_owned(),
            columns: columns.into(),
            count,
            place,
        })
    }

    /// Rows of the table.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The next `most` rows, or fewer; none at the end.
    ///
    /// # Errors
    /// Whatever the file's reader meets.
    pub fn next(&mut self, most: usize) -> PolarsResult<DataFrame> {
        match &mut self.place {
            Place::Row(row) => {
                let rows = most.min(self.count - *row);
                let file = File::open(&self.path)?;
                let frame = ParquetReader::new(file)
                    .with_columns(Some(self.columns.clone()))
                    .with_slice(Some((*row, rows)))
                    .finish()?;
                *row += rows;
                frame.select(&self.columns)
            }
            Place::Batches(batches) => batches.next(&self.columns, most),
        }
    }

    /// Begins again at the first row.
    pub fn rewind(&mut self) {
        match &mut self.place {
            Place::Row(row) => *row = 0,
            Place::Batches(batches) => {
                batches.file.set_current_block(0);
                batches.rest = DataFrame::empty();
            }
        }
    }
}

impl Batches {
    fn next(&mut self, columns: &[String], most: usize) -> PolarsResult<DataFrame> {
        while self.rest.height() == 0 {
            let names: Vec<_> = self.file.schema().iter_names().cloned().collect();
            let Some(batch) = self.file.next() else {
                break;
            };
            let batch = batch?;
            let height = batch.len();
            let named = names.into_iter().zip(batch.into_arrays());
            let made: PolarsResult<Vec<Column>> = named
                .map(|(name, array)| Ok(Series::try_from((name, array))?.into()))
                .collect();
            self.rest = DataFrame::new(height, made?)?.select(columns)?;
        }
        let next = self.rest.head(Some(most));
        self.rest = self.rest.slice(next.height() as i64, usize::MAX);
        Ok(next)
    }
}
