//! Following a file that somebody else appends to.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Reads the lines of a growing file, complete lines only. The file need not exist yet.
pub struct Tail {
    path: PathBuf,
    file: Option<File>,
    /// What was read of a line whose end has not been written.
    partial: Vec<u8>,
}

impl Tail {
    /// Follows `path` from its beginning.
    pub fn open(path: impl AsRef<Path>) -> Tail {
        Tail {
            path: path.as_ref().to_owned(),
            file: None,
            partial: Vec::new(),
        }
    }

    /// The lines completed since the last call. A last line without a line end is kept until its
    /// end arrives, so a torn line is never seen.
    ///
    /// # Errors
    /// When the file exists and cannot be read. A file that does not exist yet has no lines.
    pub fn next_lines(&mut self) -> io::Result<Vec<String>> {
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(e) => return Err(e),
            }
        }
        let Some(file) = &mut self.file else {
            return Ok(Vec::new());
        };
        let grown = file.read_to_end(&mut self.partial)?;
        if grown == 0 {
            return Ok(Vec::new());
        }
        let Some(end) = self.partial.iter().rposition(|&b| b == b'\n') else {
            return Ok(Vec::new());
        };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        let text = String::from_utf8_lossy(&whole);
        Ok(text.lines().map(str::to_owned).collect())
    }
}

/// The last `count` lines of a file, a torn last line included; empty when there is no file.
/// Reads at most the file's last 64 KiB.
pub fn last_lines(path: &Path, count: usize) -> Vec<String> {
    const WINDOW: u64 = 64 * 1024;
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..]
        .iter()
        .map(|l| (*l).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_complete_lines_come_out_and_none_twice() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("events.jsonl");
        let mut tail = Tail::open(&path);
        assert!(tail.next_lines().expect("no file yet").is_empty());
        let mut file = File::create(&path).expect("create");
        file.write_all(b"one\ntw").expect("write");
        assert_eq!(tail.next_lines().expect("read"), ["one"]);
        assert!(tail.next_lines().expect("read").is_empty());
        file.write_all(b"o\nthree\n").expect("write");
        assert_eq!(tail.next_lines().expect("read"), ["two", "three"]);
        assert!(tail.next_lines().expect("read").is_empty());
    }

    #[test]
    fn last_lines_include_a_torn_one() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("log");
        std::fs::write(&path, "a\nb\nc").expect("write");
        assert_eq!(last_lines(&path, 2), ["b", "c"]);
        assert_eq!(last_lines(&path, 9), ["a", "b", "c"]);
        assert!(last_lines(&dir.path().join("none"), 3).is_empty());
    }
}
