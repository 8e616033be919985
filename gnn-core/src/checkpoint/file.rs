//! One file of a checkpoint: a state with a header before and a checksum behind it.

use super::State;
use crate::error::{Error, Result};
use crate::store::checksum::{self, Chain};
use std::fs::File;
use std::io::Write;
use std::path::Path;

const MAGIC: [u8; 8] = *b"HALOCKPT";
const VERSION: u32 = 1;

/// What a file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Whose state it is; [`SHARED`] for everybody's.
    pub(super) rank: u32,
    /// Epochs that are finished.
    pub(super) epochs: u64,
    /// Of the run.
    pub(super) digest: u64,
}

/// The rank of what all ranks know.
pub(super) const SHARED: u32 = u32::MAX;

/// Adds up what goes through it.
struct Summed {
    file: File,
    block: Vec<u8>,
    sum: Chain,
}

impl Summed {
    fn put(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let room = checksum::BLOCK - self.block.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == checksum::BLOCK {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if !self.block.is_empty() {
            self.sum.add(checksum::block(&self.block));
            self.file.write_all(&self.block)?;
            self.block.clear();
        }
        Ok(())
    }

    fn name(&mut self, name: &str) -> std::io::Result<()> {
        self.put(&(name.len() as u64).to_le_bytes())?;
        self.put(name.as_bytes())
    }
}

/// Writes a state under a temporary name, and renames it when it is on the disk.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn write(path: &Path, header: Header, state: &State) -> Result<()> {
    let temporary = path.with_extension("tmp");
    let write = || -> std::io::Result<()> {
        let mut out = Summed {
            file: File::create(&temporary)?,
            block: Vec::with_capacity(checksum::BLOCK),
            sum: Chain::default(),
        };
        out.put(&MAGIC)?;
        out.put(&VERSION.to_le_bytes())?;
        out.put(&header.rank.to_le_bytes())?;
        out.put(&header.epochs.to_le_bytes())?;
        out.put(&header.digest.to_le_bytes())?;
        out.put(&(state.numbers.len() as u64).to_le_bytes())?;
        for (name, number) in &state.numbers {
            out.name(name)?;
            out.put(&number.to_le_bytes())?;
        }
        out.put(&(state.tensors.len() as u64).to_le_bytes())?;
        for (name, x) in &state.tensors {
            out.name(name)?;
            out.put(&(x.nrows() as u64).to_le_bytes())?;
            out.put(&(x.ncols() as u64).to_le_bytes())?;
            let x = x.as_standard_layout();
            let x = x.as_slice().expect("in standard layout");
            out.put(bytemuck::cast_slice(x))?;
        }
        out.flush()?;
        let Summed { mut file, sum, .. } = out;
        file.write_all(&sum.value().to_le_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        sync_folder(path)
    };
    write().map_err(|e| Error::io(path, e))
}

/// Makes sure that the name of `path` is on the disk.
pub(super) fn sync_folder(path: &Path) -> std::io::Result<()> {
    path.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Reads a state back.
///
/// # Errors
/// [`Error::Io`], or [`Error::Data`] when it is not whole or not of this version.
pub(super) fn read(path: &Path) -> Result<(Header, State)> {
    let bytes = std::fs::read(path).map_err(|e| Error::io(path, e))?;
    parse(path, &bytes)
}

/// The state in the bytes of the file `path`.
fn parse(path: &Path, bytes: &[u8]) -> Result<(Header, State)> {
    let bad = |reason: &str| Error::Data {
        file: path.display().to_string(),
        place: "checkpoint".into(),
        reason: reason.into(),
        help: "use an earlier checkpoint, or start the run anew".into(),
    };
    let Some((bytes, sum)) = bytes.split_last_chunk::<8>() else {
        return Err(bad("too short"));
    };
    if !bytes.starts_with(&MAGIC) {
        return Err(bad("not a checkpoint"));
    }
    if checksum::of(bytes) != u64::from_le_bytes(*sum) {
        return Err(bad("the checksum does not fit: it is damaged"));
    }
    let mut rest = Rest(&bytes[MAGIC.len()..]);
    match rest.word::<4>().map(u32::from_le_bytes) {
        Some(VERSION) => rest.parse().ok_or_else(|| bad("it ends too early")),
        Some(other) => Err(bad(&format!("version {other}, not {VERSION}"))),
        None => Err(bad("too short")),
    }
}

/// Bytes that have not been read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let (now, later) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = later;
        Some(now)
    }

    fn word<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N as u64)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        self.word().map(u64::from_le_bytes)
    }

    fn name(&mut self) -> Option<String> {
        let len = self.number()?;
        String::from_utf8(self.bytes(len)?.to_vec()).ok()
    }

    fn parse(&mut self) -> Option<(Header, State)> {
        let header = Header {
            rank: u32::from_le_bytes(self.word()?),
            epochs: self.number()?,
            digest: self.number()?,
        };
        let mut state = State::default();
        for _ in 0..self.number()? {
            let name = self.name()?;
            state.numbers.insert(name, self.number()?);
        }
        for _ in 0..self.number()? {
            let name = self.name()?;
            let (rows, cols) = (self.number()?, self.number()?);
            let bytes = self.bytes(rows.checked_mul(cols)?.checked_mul(4)?)?;
            let value = |b: &[u8]| f32::from_le_bytes(b.try_into().expect("chunks of four"));
            let data = bytes.chunks_exact(4).map(value).collect();
            let shape = (usize::try_from(rows).ok()?, usize::try_from(cols).ok()?);
            let x = kernels::Mat::from_shape_vec(shape, data).ok()?;
            state.tensors.insert(name, x);
        }
        self.0.is_empty().then_some((header, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::at_random::{Dice, inputs};

    /// Bytes of any kind are a state or an error, also where the checksum fits them.
    #[test]
    fn no_bytes_are_too_strange_to_be_read() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("shared");
        let mut state = State::default();
        state.put_number("optimiser/steps", 7);
        state.put_number("own/1", 1);
        for (name, shape) in [("w/0", (3, 5)), ("w/1", (0, 4)), ("m", (1, 1))] {
            state.put_host(name, kernels::Mat::from_elem(shape, 0.5));
        }
        let header = Header {
            rank: SHARED,
            epochs: 4,
            digest: 9,
        };
        write(&path, header, &state).expect("written");
        let whole = std::fs::read(&path).expect("there");
        assert_eq!(parse(&path, &whole).expect("whole").0, header);
        for seed in 0..inputs(20_000, 10_000_000) {
            let mut dice = Dice::new(seed);
            let mut bytes = whole.clone();
            dice.change(&mut bytes);
            if dice.below(4) > 0 && bytes.len() > 8 {
                let end = bytes.len() - 8;
                let sum = checksum::of(&bytes[..end]);
                bytes[end..].copy_from_slice(&sum.to_le_bytes());
            } else if bytes != whole {
                assert!(parse(&path, &bytes).is_err(), "seed {seed}");
            }
            if let Ok((_, read)) = parse(&path, &bytes) {
                let held: usize = read.tensors.values().map(|x| 4 * x.len()).sum();
                assert!(held <= bytes.len(), "seed {seed}");
            }
        }
    }
}
