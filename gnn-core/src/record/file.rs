//! The file that a rank's rows are appended to.

use super::frame::Value;
use crate::error::{Error, Result};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Rows as JSON lines, behind a buffer.
pub(super) struct RowsFile {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
}

impl RowsFile {
    /// The file at `path`, behind the rows that are there if it `goes_on`.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be made.
    pub(super) fn open(path: &Path, goes_on: bool) -> Result<RowsFile> {
        let opened = if goes_on {
            File::options().create(true).append(true).open(path)
        } else {
            File::create(path)
        };
        Ok(RowsFile {
            path: path.to_owned(),
            file: opened.map_err(|e| Error::io(path, e))?,
            buffer: Vec::new(),
        })
    }

    /// Appends a row to the buffer.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written as JSON.
    pub(super) fn append(&mut self, row: &Value) -> Result<()> {
        let written = serde_json::to_writer(&mut self.buffer, row);
        written.map_err(|e| Error::io(&self.path, e.into()))?;
        self.buffer.push(b'\n');
        Ok(())
    }

    /// Hands buffered rows to the operating system.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be written.
    pub(super) fn flush(&mut self) -> Result<()> {
        let written = self.file.write_all(&self.buffer);
        written.map_err(|e| Error::io(&self.path, e))?;
        self.buffer.clear();
        Ok(())
    }

    /// Waits until what was handed over is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written.
    pub(super) fn sync(&self) -> Result<()> {
        let written = self.file.sync_data();
        written.map_err(|e| Error::io(&self.path, e))
    }
}
