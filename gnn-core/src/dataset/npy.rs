//! NumPy's array format, read within limits.
//!
//! Format 1 to 3 of <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>:
//! plain numbers in C order. Pickled objects are refused, never executed.

use std::io::Read;

use crate::Result;
use crate::dataset::bad;

/// Bytes of one array at most (16 GiB).
pub(super) const MAX_BYTES: u64 = 16 << 30;

/// Bytes of a header at most.
const MAX_HEADER: usize = 64 << 10;

/// An array as it was stored.
#[derive(Debug)]
pub(super) struct Array {
    file: String,
    place: String,
    /// Size of each dimension.
    pub(super) shape: Vec<usize>,
    kind: u8,
    width: usize,
    big: bool,
    data: Vec<u8>,
}

/// Reads one array; `file` and `place` are for messages. The memory used grows with what is
/// really there, never with what the header claims.
///
/// # Errors
/// [`crate::Error::Data`] for anything that is not an array of numbers within the limits.
pub(super) fn read(mut from: impl Read, file: &str, place: &str) -> Result<Array> {
    let help = "write the array again with numpy.save or numpy.savez";
    let fail = |reason: String| bad(file, place, reason, help);
    let truncated = |_| fail("ends in the middle of its header".into());
    let mut magic = [0u8; 8];
    from.read_exact(&mut magic).map_err(truncated)?;
    if &magic[..6] != b"\x93NUMPY" || !(1..=3).contains(&magic[6]) {
        return Err(fail("is not in NumPy's array format".into()));
    }
    let mut size = [0u8; 4];
    let width = if magic[6] == 1 { 2 } else { 4 };
    from.read_exact(&mut size[..width]).map_err(truncated)?;
    let size = u32::from_le_bytes(size) as usize;
    if size > MAX_HEADER {
        return Err(fail(format!(
            "has a header of {size} bytes, more than {MAX_HEADER}"
        )));
    }
    let mut header = vec![0u8; size];
    from.read_exact(&mut header).map_err(truncated)?;
    let header = String::from_utf8_lossy(&header).into_owned();
    let wrong = || {
        fail(format!(
            "has a header that is not understood: {}",
            header.trim()
        ))
    };
    let descr = field(&header, "descr").ok_or_else(wrong)?;
    let shape = shape(&field(&header, "shape").ok_or_else(wrong)?).ok_or_else(wrong)?;
    let descr = descr.trim_matches(['\'', '"']);
    let (kind, width) = element(descr).ok_or_else(|| {
        fail(format!(
            "holds elements of type {descr}; expected integers, floats or booleans"
        ))
    })?;
    if field(&header, "fortran_order").ok_or_else(wrong)? == "True" && shape.len() > 1 {
        return Err(bad(
            file,
            place,
            "is in Fortran order",
            "save numpy.ascontiguousarray(array)",
        ));
    }
    let bytes = shape
        .iter()
        .try_fold(width as u64, |b, &s| b.checked_mul(s as u64));
    let Some(bytes) = bytes.filter(|&b| b <= MAX_BYTES) else {
        return Err(fail(format!(
            "claims the shape {shape:?}, more than {} GiB",
            MAX_BYTES >> 30
        )));
    };
    let mut data = Vec::new();
    let got = from
        .by_ref()
        .take(bytes)
        .read_to_end(&mut data)
        .map_err(|e| fail(format!("cannot be read: {e}")))?;
    if (got as u64) < bytes {
        return Err(fail(format!(
            "is truncated: {got} of {bytes} bytes for the shape {shape:?}"
        )));
    }
    let more = from
        .read(&mut [0u8])
        .map_err(|e| fail(format!("cannot be read: {e}")))?;
    if more > 0 {
        return Err(fail(format!(
            "goes on after the {bytes} bytes of its shape {shape:?}"
        )));
    }
    let big = descr.starts_with('>');
    Ok(Array {
        file: file.into(),
        place: place.into(),
        shape,
        kind,
        width,
        big,
        data,
    })
}

/// The text of one value of the header's dictionary.
fn field(header: &str, name: &str) -> Option<String> {
    let at = header.find(&format!("'{name}'"))?;
    let rest = header[at..].split_once(':')?.1.trim_start();
    let end = if rest.starts_with('(') {
        rest.find(')')? + 1
    } else {
        rest.find([',', '}'])?
    };
    Some(rest[..end].trim().to_owned())
}

fn shape(text: &str) -> Option<Vec<usize>> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    inner
        .split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .map(|s| s.parse().ok())
        .collect()
}

/// Kind and bytes of one element.
fn element(descr: &str) -> Option<(u8, usize)> {
    let rest = descr.strip_prefix(['<', '>', '|', '='])?;
    match rest {
        "f4" | "f8" | "i1" | "i2" | "i4" | "i8" | "u1" | "u2" | "u4" | "u8" | "b1" => {
            Some((rest.as_bytes()[0], usize::from(rest.as_bytes()[1] - b'0')))
        }
        _ => None,
    }
}

impl Array {
    /// Refuses an array that has not `dims` dimensions.
    pub(super) fn expect_dims(&self, dims: usize) -> Result<()> {
        if self.shape.len() == dims {
            return Ok(());
        }
        let reason = format!("expected {dims} dimensions, got the shape {:?}", self.shape);
        Err(bad(
            &self.file,
            &self.place,
            reason,
            "reshape the array before saving it",
        ))
    }

    /// The elements as `f32`.
    pub(super) fn floats(&self) -> Vec<f32> {
        if (self.kind, self.width, self.big) == (b'f', 4, false) {
            return self
                .data
                .as_chunks::<4>()
                .0
                .iter()
                .map(|b| f32::from_le_bytes(*b))
                .collect();
        }
        let whole = self.kind != b'f';
        self.words()
            .map(|w| match self.width {
                _ if whole => self.signed(w) as f32,
                4 => f32::from_bits(w as u32),
                _ => f64::from_bits(w) as f32,
            })
            .collect()
    }

    /// The elements as whole numbers.
    ///
    /// # Errors
    /// [`crate::Error::Data`] for floats and for numbers above `i64`.
    pub(super) fn ints(&self) -> Result<Vec<i64>> {
        let help = "save the array as int64 or int32";
        if self.kind == b'f' {
            return Err(bad(
                &self.file,
                &self.place,
                "holds floats; expected integers",
                help,
            ));
        }
        if self.kind == b'u'
            && let Some(k) = self.words().position(|w| w > i64::MAX as u64)
        {
            return Err(bad(
                &self.file,
                format!("{}[{k}]", self.place),
                "is too large",
                help,
            ));
        }
        Ok(self.words().map(|w| self.signed(w)).collect())
    }

    /// The elements as booleans: anything but 0 is true.
    ///
    /// # Errors
    /// [`crate::Error::Data`] for floats.
    pub(super) fn bools(&self) -> Result<Vec<bool>> {
        Ok(self.ints()?.into_iter().map(|x| x != 0).collect())
    }

    /// The elements' bits, in the low end of a word.
    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.data.chunks_exact(self.width).map(|bytes| {
            let add = |w: u64, &b: &u8| w << 8 | u64::from(b);
            if self.big {
                bytes.iter().fold(0, add)
            } else {
                bytes.iter().rev().fold(0, add)
            }
        })
    }

    /// A word as a whole number with the element's sign.
    fn signed(&self, word: u64) -> i64 {
        if self.kind != b'i' {
            return word as i64;
        }
        let unused = 64 - 8 * self.width as u32;
        ((word << unused) as i64) >> unused
    }
}
