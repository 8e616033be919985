//! Edge lists as text, read in blocks that are parsed in parallel.
//!
//! One edge a line: two ids, then perhaps more columns, which are ignored. Fields are separated by
//! spaces, tabs, commas, semicolons or bars; lines that begin with `#` or `%` are comments; the
//! first line may be a header.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use rayon::prelude::*;

use super::EdgeSource;
use crate::store::bad;
use crate::{Error, Result};

/// Bytes of a line at most.
const MAX_LINE: usize = 64 << 10;

/// A text file with an edge a line, perhaps compressed.
pub struct TextEdges {
    path: PathBuf,
    block: usize,
    /// Bytes of the file, as they are on disk.
    size: u64,
    /// Of which so many were read.
    read: Arc<AtomicU64>,
    blocks: Receiver<std::io::Result<Vec<u8>>>,
    /// The beginning of a line whose end is in the next block.
    rest: Vec<u8>,
    lines: u64,
    first: bool,
}

impl TextEdges {
    /// Opens `path`; gzip and Zstandard are known by their first bytes. Blocks of `block` bytes are
    /// parsed at a time.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(path: &Path, block: usize) -> Result<TextEdges> {
        let io = |e| Error::io(path, e);
        let file = File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        let read = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            file,
            read: Arc::clone(&read),
        };
        let mut plain = BufReader::with_capacity(1 << 18, counted);
        let start = plain.fill_buf().map_err(io)?;
        let from: Box<dyn Read + Send> = if start.starts_with(&[0x1f, 0x8b]) {
            Box::new(flate2::bufread::MultiGzDecoder::new(plain))
        } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            let mut unpacked = zstd::stream::read::Decoder::with_buffer(plain).map_err(io)?;
            // A frame of a few bytes may ask for a window of gigabytes.
            let window = (16 * block).ilog2().clamp(22, 27);
            unpacked.window_log_max(window).map_err(io)?;
            Box::new(unpacked)
        } else {
            Box::new(plain)
        };
        Ok(TextEdges {
            path: path.to_owned(),
            block,
            size,
            read,
            blocks: blocks(from, block),
            rest: Vec::new(),
            lines: 0,
            first: true,
        })
    }

    fn wrong(&self, line: u64, reason: String) -> Error {
        let file = self.path.display().to_string();
        let help = "write two vertex ids a line: whole numbers from 0";
        bad(&file, &format!("line {line}"), reason, help)
    }
}

/// A file that counts the bytes read from it.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let got = self.file.read(to)?;
        self.read.fetch_add(got as u64, Ordering::Relaxed);
        Ok(got)
    }
}

/// Blocks of a stream, read ahead on a thread of its own; an empty one is the end.
fn blocks(mut from: Box<dyn Read + Send>, size: usize) -> Receiver<std::io::Result<Vec<u8>>> {
    let (send, receive) = sync_channel(1);
    std::thread::spawn(move || {
        loop {
            let mut block = vec![0; size];
            let mut filled = 0;
            let failed = loop {
                match from.read(&mut block[filled..]) {
                    Ok(0) => break None,
                    Ok(got) => filled += got,
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(e) => break Some(e),
                }
                if filled == size {
                    break None;
                }
            };
            block.truncate(filled);
            let end = filled == 0 || failed.is_some();
            let sent = send.send(failed.map_or(Ok(block), Err));
            if end || sent.is_err() {
                return;
            }
        }
    });
    receive
}

impl EdgeSource for TextEdges {
    fn next(&mut self, edges: &mut Vec<[u64; 2]>) -> Result<bool> {
        edges.clear();
        let got = match self.blocks.recv() {
            Ok(block) => block.map_err(|e| Error::io(&self.path, e))?,
            Err(_) => Vec::new(),
        };
        let end = got.is_empty();
        let mut text = std::mem::take(&mut self.rest);
        text.extend_from_slice(&got);
        drop(got);
        if !end {
            let whole = text
                .iter()
                .rposition(|&b| b == b'\n')
                .map_or(0, |at| at + 1);
            self.rest = text.split_off(whole);
            if self.rest.len() > MAX_LINE {
                let lines = text.iter().filter(|&&b| b == b'\n').count() as u64;
                return Err(self.wrong(self.lines + lines + 1, too_long()));
            }
        }
        let mut body = &text[..];
        // A header can only be the first line that is no comment.
        while self.first && !body.is_empty() {
            let line = body.split(|&b| b == b'\n').next().unwrap_or(body);
            let parsed = edge(line);
            if let Ok(Some(_)) = parsed {
                self.first = false;
                break;
            }
            if parsed.is_err() {
                self.first = false;
                if line
                    .first()
                    .is_some_and(|b| b.is_ascii_digit() || *b == b'-')
                {
                    break;
                }
            }
            self.lines += 1;
            body = body.get(line.len() + 1..).unwrap_or_default();
        }
        let pieces: Vec<_> = pieces(body).into_par_iter().map(parse).collect();
        for piece in pieces {
            match piece {
                Ok((list, lines)) => {
                    edges.extend_from_slice(&list);
                    self.lines += lines;
                }
                Err((line, reason)) => return Err(self.wrong(self.lines + line, reason)),
            }
        }
        Ok(!end)
    }

    fn rewind(&mut self) -> Result<()> {
        *self = TextEdges::open(&self.path, self.block)?;
        Ok(())
    }

    fn progress(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.size)
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn too_long() -> String {
    format!("is longer than {MAX_LINE} bytes")
}

/// Parts of a text that end with lines.
fn pieces(text: &[u8]) -> Vec<&[u8]> {
    let each = (text.len() / (4 * rayon::current_num_threads())).max(MAX_LINE);
    let mut rest = text;
    let mut out = Vec::new();
    while rest.len() > each {
        let end = rest[each..].iter().position(|&b| b == b'\n');
        let (piece, tail) = rest.split_at(end.map_or(rest.len(), |at| each + at + 1));
        out.push(piece);
        rest = tail;
    }
    out.push(rest);
    out
}

/// Edges of a piece and its number of lines, or the line that is wrong and why.
type Parsed = std::result::Result<(Vec<[u64; 2]>, u64), (u64, String)>;

fn parse(piece: &[u8]) -> Parsed {
    let mut edges = Vec::with_capacity(piece.len() / 12);
    let mut lines = 0;
    for line in piece.split_inclusive(|&b| b == b'\n') {
        lines += 1;
        let ends = edge(line).map_err(|reason| (lines, reason))?;
        edges.extend(ends);
    }
    Ok((edges, lines))
}

/// The edge of a line; none for a comment or an empty one.
fn edge(line: &[u8]) -> std::result::Result<Option<[u64; 2]>, String> {
    let between = |b: &u8| matches!(b, b' ' | b'\t' | b',' | b';' | b'|' | b'\r' | b'\n');
    let mut rest = line;
    let mut ends = [0; 2];
    for (k, end) in ends.iter_mut().enumerate() {
        let start = rest.iter().position(|b| !between(b)).unwrap_or(rest.len());
        rest = &rest[start..];
        let field = &rest[..rest.iter().position(between).unwrap_or(rest.len())];
        match field.first() {
            None if k == 0 => return Ok(None),
            None => return Err("has one field; expected two".into()),
            Some(b'#' | b'%') if k == 0 => return Ok(None),
            Some(_) => *end = number(field)?,
        }
        rest = &rest[field.len()..];
    }
    Ok(Some(ends))
}

fn number(field: &[u8]) -> std::result::Result<u64, String> {
    let mut value = 0u64;
    for &b in field {
        let digit = b.wrapping_sub(b'0');
        let next = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(digit.into()));
        match next {
            Some(next) if digit < 10 => value = next,
            _ => {
                let shown: String = String::from_utf8_lossy(field).chars().take(40).collect();
                return Err(format!("'{shown}' is no vertex id"));
            }
        }
    }
    Ok(value)
}
