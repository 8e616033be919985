//! NumPy's array format, read within limits.
//!
//! Format 1 to 3 of <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>:
//! plain numbers in either order. Pickled objects are refused, never executed. Numbers are decoded
//! while they are read, so that an array is held once.

use std::io::Read;

use crate::Result;
use crate::dataset::{Limit, bad};

/// Bytes of a header at most.
const MAX_HEADER: usize = 64 << 10;

/// Bytes that are decoded at once; divisible by every width.
const CHUNK: usize = 64 << 10;

/// An array of numbers.
#[derive(Debug)]
pub(super) struct Array {
    file: String,
    place: String,
    /// Size of each dimension.
    pub(super) shape: Vec<usize>,
    data: Data,
}

/// Elements in C order.
#[derive(Debug)]
enum Data {
    Floats(Vec<f32>),
    /// With a sign, or at most 32 bits without one.
    Ints(Vec<i64>),
    /// 64 bits without a sign.
    Words(Vec<u64>),
    /// One byte, 0 to 255; the flag says that it has a sign.
    Bytes(Vec<u8>, bool),
}

/// How an element is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Element {
    kind: u8,
    width: usize,
    big: bool,
}

impl Element {
    /// From NumPy's name of a type, `<f4` for instance.
    pub(super) fn named(descr: &str) -> Option<Element> {
        let rest = descr.strip_prefix(['<', '>', '|', '='])?;
        match rest {
            "f2" | "f4" | "f8" | "i1" | "i2" | "i4" | "i8" | "u1" | "u2" | "u4" | "u8" | "b1" => {
                Some(Element {
                    kind: rest.as_bytes()[0],
                    width: usize::from(rest.as_bytes()[1] - b'0'),
                    big: descr.starts_with('>'),
                })
            }
            _ => None,
        }
    }

    /// Bytes of an element once it is read, and handed out as a number.
    fn held(self) -> u64 {
        if self.kind == b'f' { 4 } else { 8 }
    }

    /// The bits in the low end of a word.
    fn word(self, bytes: &[u8]) -> u64 {
        let add = |w: u64, &b: &u8| w << 8 | u64::from(b);
        if self.big {
            bytes.iter().fold(0, add)
        } else {
            bytes.iter().rev().fold(0, add)
        }
    }
}

/// An array's header, for messages too.
pub(super) struct Header<'a> {
    /// The file.
    pub(super) file: &'a str,
    /// The array's name.
    pub(super) place: &'a str,
    /// NumPy's name of the element type.
    pub(super) descr: &'a str,
    /// Size of each dimension.
    pub(super) shape: Vec<usize>,
    /// Whether the first index runs fastest.
    pub(super) fortran: bool,
}

/// What an array's header says, for those who read its elements themselves.
#[derive(Debug)]
pub(crate) struct Head {
    /// Size of each dimension.
    pub(crate) shape: Vec<usize>,
    element: Element,
}

impl Head {
    /// Reads the header and nothing behind it; `file` and `place` are for messages.
    ///
    /// # Errors
    /// [`crate::Error::Data`] for anything that is not an array of numbers in C order.
    pub(crate) fn read(from: impl Read, file: &str, place: &str) -> Result<Head> {
        let (descr, shape, fortran) = head(from, file, place)?;
        let fail = |reason: &str, help: &str| Err(bad(file, place, reason, help));
        if fortran && shape.len() > 1 {
            return fail("is in Fortran order", "save numpy.ascontiguousarray(array)");
        }
        match Element::named(&descr) {
            Some(element) => Ok(Head { shape, element }),
            None => fail("holds other elements than numbers", AGAIN),
        }
    }

    /// Whether the elements are whole numbers.
    pub(crate) fn is_whole(&self) -> bool {
        self.element.kind != b'f'
    }

    /// Bytes of an element.
    pub(crate) fn width(&self) -> usize {
        self.element.width
    }

    /// Refuses a file that has `there` bytes behind its header, and whose shape has more or fewer.
    ///
    /// # Errors
    /// [`crate::Error::Data`].
    pub(crate) fn expect_bytes(&self, there: u64, file: &str, help: &str) -> Result<()> {
        let times = |bytes: u64, &side: &usize| bytes.checked_mul(side as u64);
        let claimed = self.shape.iter().try_fold(self.width() as u64, times);
        if claimed == Some(there) {
            return Ok(());
        }
        let shape = &self.shape;
        let reason = format!("is truncated or longer than its shape {shape:?}: {there} bytes");
        Err(bad(file, "array", reason, help))
    }

    /// Elements as `f32`.
    pub(crate) fn floats(&self, bytes: &[u8]) -> Vec<f32> {
        let mut data = Data::of(self.element);
        data.extend(bytes, self.element, bytes.len() / self.width());
        data.into_floats()
    }

    /// A whole element as an id; none when it is negative.
    pub(crate) fn id(&self, bytes: &[u8]) -> Option<u64> {
        let word = self.element.word(bytes);
        let negative = word >> (8 * self.element.width - 1) == 1;
        (self.element.kind != b'i' || !negative).then_some(word)
    }
}

const AGAIN: &str = "write the array again with numpy.save or numpy.savez";

/// Reads one array; `file` and `place` are for messages. The memory used grows with what is
/// really there, never with what the header claims.
///
/// # Errors
/// [`crate::Error::Data`] for anything that is not an array of numbers within the limits.
pub(super) fn read(mut from: impl Read, file: &str, place: &str, limit: &Limit) -> Result<Array> {
    let (descr, shape, fortran) = head(&mut from, file, place)?;
    let header = Header {
        file,
        place,
        descr: &descr,
        shape,
        fortran,
    };
    decode(&header, from, limit)
}

/// NumPy's name of the element type, the shape, and whether the first index runs fastest.
fn head(mut from: impl Read, file: &str, place: &str) -> Result<(String, Vec<usize>, bool)> {
    let fail = |reason: String| bad(file, place, reason, AGAIN);
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
        let shown: String = header.trim().chars().take(200).collect();
        fail(format!("has a header that is not understood: {}", shown))
    };
    let descr = field(&header, "descr").ok_or_else(wrong)?;
    let shape = shape(&field(&header, "shape").ok_or_else(wrong)?).ok_or_else(wrong)?;
    let fortran = field(&header, "fortran_order").ok_or_else(wrong)? == "True";
    let descr = descr.trim_matches(['\'', '"']).to_owned();
    Ok((descr, shape, fortran))
}

/// The elements of an array, as the bytes after its header hold them.
///
/// # Errors
/// As [`read`].
pub(super) fn decode(header: &Header, mut from: impl Read, limit: &Limit) -> Result<Array> {
    let Header { file, place, .. } = *header;
    let fail = |reason: String| bad(file, place, reason, AGAIN);
    let element = Element::named(header.descr).ok_or_else(|| {
        fail(format!(
            "holds elements of type {}; expected integers, floats or booleans",
            header.descr
        ))
    })?;
    let shape = &header.shape;
    let product = |each: u64| {
        let times = |b: u64, &s: &usize| b.checked_mul(s as u64);
        shape.iter().try_fold(each, times)
    };
    // Dimensions multiplied one by one also when one of them is 0, so that no part overflows.
    let whole = shape.iter().filter(|&&s| s > 0);
    let sane = whole
        .clone()
        .try_fold(8u64, |b, &s| b.checked_mul(s as u64));
    let held = product(element.held())
        .filter(|&b| sane.is_some_and(|s| s <= i64::MAX as u64) && b <= limit.bytes());
    let (Some(held), Some(bytes)) = (held, product(element.width as u64)) else {
        return Err(fail(format!(
            "claims the shape {shape:?}, more than reading may take"
        )));
    };
    limit.take(held, file, place)?;
    let mut data = Data::of(element);
    let mut buffer = vec![0u8; CHUNK.min(bytes as usize)];
    let mut got = 0u64;
    while got < bytes {
        let want = ((bytes - got) as usize).min(CHUNK);
        let here = fill(&mut from, &mut buffer[..want])
            .map_err(|e| fail(format!("cannot be read: {e}")))?;
        got += here as u64;
        if here < want {
            return Err(fail(format!(
                "is truncated: {got} of {bytes} bytes for the shape {shape:?}"
            )));
        }
        let left = ((bytes - got) as usize + here) / element.width;
        data.extend(&buffer[..here], element, left);
    }
    let more = from
        .read(&mut [0u8])
        .map_err(|e| fail(format!("cannot be read: {e}")))?;
    if more > 0 {
        return Err(fail(format!(
            "goes on after the {bytes} bytes of its shape {shape:?}"
        )));
    }
    if header.fortran && shape.len() > 1 {
        let [rows, cols] = shape[..] else {
            return Err(bad(
                file,
                place,
                "is in Fortran order with more than 2 dimensions",
                "save numpy.ascontiguousarray(array)",
            ));
        };
        limit.take(held, file, place)?;
        data = data.transposed(rows, cols);
        limit.give(held);
    }
    Ok(Array {
        file: file.into(),
        place: place.into(),
        shape: shape.clone(),
        data,
    })
}

/// Fills the buffer, or as much of it as there is.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match from.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

/// Room for more elements: grows by doubling, but not beyond the `left` that are still to come.
fn room<T>(to: &mut Vec<T>, more: usize, left: usize) {
    if to.capacity() - to.len() < more {
        to.reserve_exact(to.len().max(more).min(left.max(more)));
    }
}

impl Data {
    /// None yet, of a kind that holds such elements.
    fn of(element: Element) -> Data {
        match (element.kind, element.width) {
            (b'f', _) => Data::Floats(Vec::new()),
            (kind, 1) => Data::Bytes(Vec::new(), kind == b'i'),
            (b'u', 8) => Data::Words(Vec::new()),
            _ => Data::Ints(Vec::new()),
        }
    }

    /// As `f32`, without a copy where they are floats.
    fn into_floats(self) -> Vec<f32> {
        match self {
            Data::Floats(x) => x,
            Data::Ints(x) => x.into_iter().map(|x| x as f32).collect(),
            Data::Words(x) => x.into_iter().map(|x| x as f32).collect(),
            Data::Bytes(x, true) => x.into_iter().map(|x| f32::from(x as i8)).collect(),
            Data::Bytes(x, false) => x.into_iter().map(f32::from).collect(),
        }
    }

    /// Decodes more elements, of which `left` are to come with these.
    fn extend(&mut self, bytes: &[u8], element: Element, left: usize) {
        let width = element.width;
        let words = bytes.chunks_exact(width).map(|b| element.word(b));
        let more = bytes.len() / width;
        match self {
            Data::Floats(to) => {
                room(to, more, left);
                match (width, element.big) {
                    (4, false) => {
                        let chunks = bytes.as_chunks::<4>().0;
                        to.extend(chunks.iter().map(|b| f32::from_le_bytes(*b)));
                    }
                    (2, _) => to.extend(words.map(|w| half(w as u16))),
                    (4, _) => to.extend(words.map(|w| f32::from_bits(w as u32))),
                    _ => to.extend(words.map(|w| f64::from_bits(w) as f32)),
                }
            }
            Data::Ints(to) => {
                room(to, more, left);
                // Shifted up and down again, the highest bit of the element becomes the sign.
                let unused = if element.kind == b'i' {
                    64 - 8 * width as u32
                } else {
                    0
                };
                to.extend(words.map(|w| ((w << unused) as i64) >> unused));
            }
            Data::Words(to) => {
                room(to, more, left);
                to.extend(words);
            }
            Data::Bytes(to, _) => {
                room(to, more, left);
                to.extend_from_slice(bytes);
            }
        }
    }

    /// The elements of an array stored by columns, by rows.
    fn transposed(self, rows: usize, cols: usize) -> Data {
        fn by_rows<T: Copy>(x: &[T], rows: usize, cols: usize) -> Vec<T> {
            let row = |r: usize| (0..cols).map(move |c| x[c * rows + r]);
            let mut out = Vec::with_capacity(x.len());
            (0..rows).for_each(|r| out.extend(row(r)));
            out
        }
        match self {
            Data::Floats(x) => Data::Floats(by_rows(&x, rows, cols)),
            Data::Ints(x) => Data::Ints(by_rows(&x, rows, cols)),
            Data::Words(x) => Data::Words(by_rows(&x, rows, cols)),
            Data::Bytes(x, sign) => Data::Bytes(by_rows(&x, rows, cols), sign),
        }
    }
}

/// A number of 16 bits (IEEE 754 binary16).
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    match (exponent, fraction) {
        (0, _) => sign * fraction * 2f32.powi(-24),
        (31, 0.0) => sign * f32::INFINITY,
        (31, _) => f32::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    }
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

    /// Whether the elements are floats.
    pub(super) fn is_float(&self) -> bool {
        matches!(self.data, Data::Floats(_))
    }

    /// The elements as `f32`, without a copy where they are floats.
    pub(super) fn into_floats(self) -> Vec<f32> {
        self.data.into_floats()
    }

    /// The elements as whole numbers.
    ///
    /// # Errors
    /// [`crate::Error::Data`] for floats and for numbers above `i64`.
    pub(super) fn into_ints(self) -> Result<Vec<i64>> {
        let help = "save the array as int64 or int32";
        match self.data {
            Data::Floats(_) => Err(bad(
                &self.file,
                &self.place,
                "holds floats; expected integers",
                help,
            )),
            Data::Ints(x) => Ok(x),
            Data::Words(x) => {
                if let Some(k) = x.iter().position(|&w| w > i64::MAX as u64) {
                    let place = format!("{}[{k}]", self.place);
                    return Err(bad(&self.file, place, "is too large", help));
                }
                Ok(x.into_iter().map(|w| w as i64).collect())
            }
            Data::Bytes(x, true) => Ok(x.into_iter().map(|x| i64::from(x as i8)).collect()),
            Data::Bytes(x, false) => Ok(x.into_iter().map(i64::from).collect()),
        }
    }

    /// The elements as booleans: anything but 0 is true.
    ///
    /// # Errors
    /// [`crate::Error::Data`] for floats.
    pub(super) fn into_bools(self) -> Result<Vec<bool>> {
        match self.data {
            Data::Bytes(x, _) => Ok(x.into_iter().map(|x| x != 0).collect()),
            _ => Ok(self.into_ints()?.into_iter().map(|x| x != 0).collect()),
        }
    }
}
