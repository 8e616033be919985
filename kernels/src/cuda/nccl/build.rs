//! Which CUDA this process's NCCL was built with: no function says so, but its file holds the line that
//! it prints when it starts, as `NCCL version 2.23.4+cuda12.6`.

use crate::cuda::fit::Version;
use std::io::{Read, Result};
use std::path::PathBuf;

const MARK: &[u8] = b"+cuda";
const LINE: &[u8] = b"NCCL version ";

/// The version; none without NCCL, or where its file does not say.
pub fn built_with() -> Option<Version> {
    // Loads it.
    super::version().ok()?;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut files = maps.lines().filter_map(|line| line.split_once('/'));
    let named = files.find(|(_, path)| path.rsplit('/').next().is_some_and(is_nccl))?;
    let file = std::fs::File::open(PathBuf::from(format!("/{}", named.1)));
    search(file.ok()?).ok()?
}

fn is_nccl(name: &str) -> bool {
    name.starts_with("libnccl.so")
}

/// The version in a file, which may be some hundred megabytes.
fn search(mut file: impl Read) -> Result<Option<Version>> {
    // As much of the last piece as the line may have begun in.
    const KEPT: usize = 64;
    let mut piece = vec![0; KEPT + (1 << 20)];
    let mut held = 0;
    loop {
        let read = file.read(&mut piece[held..])?;
        if read == 0 {
            return Ok(None);
        }
        held += read;
        if let Some(found) = version_in(&piece[..held]) {
            return Ok(Some(found));
        }
        let keep = held.min(KEPT);
        piece.copy_within(held - keep..held, 0);
        held = keep;
    }
}

fn version_in(bytes: &[u8]) -> Option<Version> {
    let begins = |at: usize, word: &[u8]| bytes[at..].starts_with(word);
    let lines = (0..bytes.len()).filter(|&at| bytes[at] == LINE[0] && begins(at, LINE));
    let read = |line: usize| {
        let end = bytes.len().min(line + 48);
        let mark = (line..end).find(|&at| begins(at, MARK))?;
        let rest = &bytes[mark + MARK.len()..end];
        let until = rest
            .iter()
            .position(|b| !b.is_ascii_digit() && *b != b'.')?;
        let (major, minor) = std::str::from_utf8(&rest[..until]).ok()?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    lines.into_iter().find_map(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time, as a file may.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, to: &mut [u8]) -> Result<usize> {
            let n = self.0.len().min(self.1).min(to.len());
            to[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn the_line_is_found_wherever_pieces_end() {
        let mut file = b"junk +cuda1.1\0NCCL version of nobody\0".to_vec();
        file.resize(3000, b'N');
        file.extend(b"\0NCCL version 2.27.3+cuda12.9\0and so on");
        for step in [1, 7, 64, 1000, 1 << 22] {
            let found = search(Slowly(&file, step)).expect("read");
            assert_eq!(found, Some((12, 9)), "{step}");
        }
        file.truncate(3000);
        assert_eq!(search(Slowly(&file, 64)).expect("read"), None);
        assert!(is_nccl("libnccl.so.2.27.3") && !is_nccl("nccl-00.so"));
    }
}
