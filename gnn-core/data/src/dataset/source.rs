//! A text file, plain or compressed, read line by line within limits.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::dataset::{Limit, bad, regular};
use crate::{Error, Result};

/// Bytes of one line at most; longer ones are not text tables.
const MAX_LINE: u64 = 64 << 20;

/// Opens a file; gzip and Zstandard are known by their first bytes, not by the name.
///
/// # Errors
/// [`Error::Io`] when it cannot be opened.
pub(super) fn open(path: &Path, limit: &Limit) -> Result<Box<dyn BufRead>> {
    let io = |e| Error::io(path, e);
    let mut from = BufReader::with_capacity(1 << 16, regular::open(path)?);
    let start = from.fill_buf().map_err(io)?;
    if start.starts_with(&[0x1f, 0x8b]) {
        let unpacked = flate2::bufread::MultiGzDecoder::new(from);
        return Ok(Box::new(BufReader::with_capacity(1 << 16, unpacked)));
    }
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut unpacked = zstd::stream::read::Decoder::with_buffer(from).map_err(io)?;
        // A frame of a few bytes may ask for a window of gigabytes.
        let window = (limit.bytes() / 2).max(1 << 10).ilog2().clamp(10, 27);
        unpacked.window_log_max(window).map_err(io)?;
        return Ok(Box::new(BufReader::with_capacity(1 << 16, unpacked)));
    }
    Ok(Box::new(from))
}

/// The lines of a text file.
pub(super) struct Lines {
    /// The file, for messages.
    pub(super) file: String,
    from: Box<dyn BufRead>,
    buffer: Vec<u8>,
    at: u64,
    longest: u64,
}

impl Lines {
    /// Opens the file `path`, which may be compressed.
    ///
    /// # Errors
    /// As [`open`].
    pub(super) fn open(path: &Path, limit: &Limit) -> Result<Lines> {
        Ok(Lines {
            file: path.display().to_string(),
            from: open(path, limit)?,
            buffer: Vec::new(),
            at: 0,
            longest: MAX_LINE.min(limit.bytes() / 4),
        })
    }

    /// The next line without its end, or none after the last.
    ///
    /// # Errors
    /// [`Error::Data`] with the number of the line that is damaged, too long or not UTF-8.
    pub(super) fn next(&mut self) -> Result<Option<&str>> {
        self.buffer.clear();
        let got = self
            .from
            .by_ref()
            .take(self.longest)
            .read_until(b'\n', &mut self.buffer);
        self.at += 1;
        let got = got.map_err(|e| {
            let help = "copy or download the file again";
            self.bad(format!("cannot be read: {e}"), help)
        })?;
        if got == 0 {
            return Ok(None);
        }
        if got as u64 == self.longest {
            let reason = format!("is longer than {} bytes", self.longest);
            return Err(self.bad(reason, "write one record a line"));
        }
        if self.at == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
            self.buffer.drain(..3);
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(line) => Ok(Some(line.trim_end_matches(['\n', '\r']))),
            Err(_) => Err(bad(
                &self.file,
                format!("line {}", self.at),
                "is not UTF-8 text",
                "save the table as UTF-8 text",
            )),
        }
    }

    /// The next line that is neither blank nor begins with one of `comments`.
    ///
    /// # Errors
    /// As [`Lines::next`].
    pub(super) fn record(&mut self, comments: &[char]) -> Result<Option<&str>> {
        loop {
            match self.next()? {
                None => return Ok(None),
                Some(line) => {
                    let line = line.trim_start();
                    if !line.is_empty() && !line.starts_with(comments) {
                        break;
                    }
                }
            }
        }
        // Borrowed again: the borrow checker does not let a loop return what it lent.
        Ok(Some(self.line()))
    }

    /// The line read last, without blanks around it.
    pub(super) fn line(&self) -> &str {
        let line = std::str::from_utf8(&self.buffer);
        line.expect("checked when it was read").trim()
    }

    /// Number of the line read last, from 1.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// An error about the line read last.
    pub(super) fn bad(&self, reason: impl Into<String>, help: impl Into<String>) -> Error {
        bad(&self.file, format!("line {}", self.at), reason, help)
    }
}

/// A field for a message: its beginning, in quotes and on one line.
pub(super) fn shown(field: &str) -> String {
    let visible = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    format!(
        "'{}'",
        field.chars().take(40).map(visible).collect::<String>()
    )
}
