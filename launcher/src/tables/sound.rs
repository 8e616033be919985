//! Whether a table can be read, tried in a process of its own.
//!
//! Polars believes what the pages of a file claim: one changed byte makes it ask for 2⁶¹ bytes, which ends
//! the process, or panic. So another process reads a table to its end before this one does, edges within
//! bounded memory; how it ends says whether the file is sound.

use super::{Kind, TableEdges, vertices, wrong};
use crate::error::{Error, Result};
use crate::sys;
use gnn_core::convert::EdgeSource;
use std::path::Path;
use std::process::{Command, Stdio};

/// The command that reads a table and says nothing.
pub const COMMAND: &str = "read-table";

/// What is taken from a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Two columns of ids, in blocks of so many bytes, within so much memory.
    Edges {
        /// Bytes of a block.
        block: usize,
        /// Bytes of memory.
        mem: u64,
    },
    /// All columns at once.
    Vertices,
}

/// Bytes that a process needs to read anything, and for each of its threads.
const PROGRAM: u64 = 64 << 20;
const THREAD: u64 = 4 << 20;
/// Threads that read.
const THREADS: u64 = 4;

/// Reads `path` to its end in another process of this program. A table that is refused there is sound in
/// this sense: reading it here refuses it too.
///
/// # Errors
/// [`Error::Core`] naming the file when that process did not come to an end by itself; [`Error::Io`] when it
/// cannot be started.
pub fn sound(path: &Path, content: Content) -> Result<()> {
    let program = std::env::current_exe().map_err(Error::io(Path::new("halobook")))?;
    let mut command = Command::new(program);
    command.arg(COMMAND).arg(path);
    if let Content::Edges { block, mem } = content {
        command.args([block.to_string(), mem.to_string()]);
    }
    command
        .env("POLARS_MAX_THREADS", THREADS.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let done = command.output().map_err(Error::io(path))?;
    if let Some(0..=2) = done.status.code() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let reason = format!("its reader gave up: {}", last_words(&said));
    let help = "write the file anew; if it is whole, in smaller row groups, or give --mem more";
    Err(wrong(path, "rows", reason, help).into())
}

/// What a process said when it was ended: what it asked for, or where it panicked.
fn last_words(said: &str) -> &str {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = |line: &&str| line.starts_with("memory allocation of");
    let first = lines.clone().find(telling);
    // The line after the place of a panic is its message.
    let panicked = || {
        lines.find(|line| line.contains("panicked at"))?;
        lines.next()
    };
    first.or_else(panicked).unwrap_or("it said nothing")
}

/// Reads the table that the command's words name, to its end: the other side of [`sound`].
///
/// # Errors
/// [`Error::Refused`] for words that [`sound`] does not write; else whatever reading meets.
pub fn read(words: &[String]) -> Result<()> {
    let unknown = || {
        let help = "it is started by `halobook convert`";
        Error::refused(
            format!("{COMMAND}: unknown words {}", words.join(" ")),
            help,
        )
    };
    let number = |word: &String| word.parse::<u64>().map_err(|_| unknown());
    let (path, block, mem) = match words {
        [path] => return vertices(Path::new(path)).map(drop),
        [path, block, mem] => (Path::new(path), number(block)?, number(mem)?),
        _ => return Err(unknown()),
    };
    let kind = Kind::of_file(path);
    sys::hold_memory(mem.saturating_add(PROGRAM + THREADS * THREAD));
    let mut source = TableEdges::open(path, kind.ok_or_else(unknown)?, block as usize)?;
    let mut edges = Vec::new();
    while source.next(&mut edges)? {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::last_words;

    #[test]
    fn the_cause_is_what_is_told() {
        let asked =
            "thread 'a' panicked at b.rs:1:1:\nnote: x\nmemory allocation of 7 bytes failed\n";
        assert_eq!(last_words(asked), "memory allocation of 7 bytes failed");
        let broke = "warning\nthread 'a' panicked at b.rs:1:1:\nno such page\nnote: run with\n";
        assert_eq!(last_words(broke), "no such page");
        assert_eq!(last_words("\n"), "it said nothing");
    }
}
