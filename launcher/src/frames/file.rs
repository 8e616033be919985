//! A frame in a form that other programs read.

use crate::error::{Error, Result};
use polars::prelude::{CsvWriter, DataFrame, ParquetWriter, SerWriter};
use std::path::Path;

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Comma-separated values, a line of names first.
    Csv,
    /// Parquet.
    Parquet,
}

impl Form {
    /// The form that a file's name ends in.
    ///
    /// # Errors
    /// Another ending.
    pub fn of(path: &Path) -> Result<Form> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => Ok(Form::Csv),
            Some("parquet") => Ok(Form::Parquet),
            _ => Err(Error::refused(
                format!("{} is neither .csv nor .parquet", path.display()),
                "name it so, or say --csv or --parquet",
            )),
        }
    }
}

/// Writes `frame` to the file `to`, or prints it where there is none.
///
/// # Errors
/// What the file system says, and what has no such form.
pub fn write(mut frame: DataFrame, form: Form, to: Option<&Path>) -> Result<()> {
    match (form, to) {
        (Form::Parquet, Some(path)) => {
            let file = std::fs::File::create(path).map_err(Error::io(path))?;
            let written = ParquetWriter::new(file).finish(&mut frame);
            written.map(|_| ()).map_err(Error::frame("written"))
        }
        (Form::Parquet, None) => Err(Error::refused(
            "Parquet is no text to be printed",
            "name a file: -o FILE",
        )),
        (Form::Csv, to) => {
            let mut text = Vec::new();
            CsvWriter::new(&mut text)
                .finish(&mut frame)
                .map_err(Error::frame("written"))?;
            match to {
                Some(path) => std::fs::write(path, text).map_err(Error::io(path)),
                None => {
                    print!("{}", String::from_utf8_lossy(&text));
                    Ok(())
                }
            }
        }
    }
}
