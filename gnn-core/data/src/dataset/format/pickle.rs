//! Python pickles as data: an allow-list of operations, nothing is ever executed.
//!
//! A pickle is a program for a stack machine. The operations that build plain values are carried
//! out; a name of a Python function is only remembered, and what calling it would give is known to
//! [`super::objects`] for a fixed list of names. Everything else is refused. Values live in an arena
//! and refer to each other by number, so that values that contain themselves do no harm. Every
//! operation makes at most one value, so memory is bounded by the length of the file.
//!
//! Protocols 2 to 4: <https://github.com/python/cpython/blob/3.12/Lib/pickletools.py>.

use std::collections::HashMap;
use std::ops::Range;

use super::objects::{Object, call, extend};
use crate::Result;
use crate::dataset::{Limit, bad};

/// The number of a value in the arena.
pub(super) type Id = u32;

/// A value of a pickle.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction, which nothing asks for.
    Float,
    /// A string, or the bytes of one: where it is in the file.
    Text(Range<usize>),
    /// Bytes that were written as text, decoded.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Id>),
    /// A tuple.
    Tuple(Vec<Id>),
    /// A dictionary, as pairs.
    Dict(Vec<(Id, Id)>),
    /// A function or class on the list, by module and name.
    Global(&'static str),
    /// What calling one of those gives.
    Object(Object),
}

/// Bytes that an operation may take: a value, with its place in a list and in the memo.
const VALUE: u64 = size_of::<Value>() as u64 + 48;

/// A pickle that was read.
pub(super) struct Pickle<'a> {
    /// The file, for messages.
    pub(super) file: &'a str,
    /// The array or member within the file, for messages.
    pub(super) place: &'a str,
    /// The bytes of the pickle.
    pub(super) text: &'a [u8],
    /// Where the pickle ended.
    pub(super) end: usize,
    arena: Vec<Value>,
    root: Id,
}

/// Reads one pickle from the start of `text`.
///
/// # Errors
/// [`crate::Error::Data`] naming the byte and the operation or name that is not allowed.
pub(super) fn read<'a>(
    file: &'a str,
    place: &'a str,
    text: &'a [u8],
    limit: &Limit,
) -> Result<Pickle<'a>> {
    let pickle = Pickle {
        file,
        place,
        text,
        end: 0,
        arena: Vec::new(),
        root: 0,
    };
    let mut machine = Machine {
        pickle,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        at: 0,
        limit,
    };
    machine.run()?;
    Ok(machine.pickle)
}

impl Pickle<'_> {
    /// The value that the pickle is about.
    pub(super) fn root(&self) -> Id {
        self.root
    }

    /// A value.
    pub(super) fn get(&self, id: Id) -> &Value {
        &self.arena[id as usize]
    }

    /// All values.
    pub(super) fn values(&self) -> impl Iterator<Item = &Value> {
        self.arena.iter()
    }

    /// A whole number or a boolean.
    pub(super) fn int(&self, id: Id) -> Option<i64> {
        match self.get(id) {
            Value::Int(x) => Some(*x),
            Value::Bool(b) => Some(i64::from(*b)),
            _ => None,
        }
    }

    /// The bytes of a string.
    pub(super) fn bytes(&self, id: Id) -> Option<&[u8]> {
        match self.get(id) {
            Value::Text(range) => Some(&self.text[range.clone()]),
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A string.
    pub(super) fn text(&self, id: Id) -> Option<&str> {
        std::str::from_utf8(self.bytes(id)?).ok()
    }

    /// The members of a list or tuple.
    pub(super) fn list(&self, id: Id) -> Option<&[Id]> {
        match self.get(id) {
            Value::List(items) | Value::Tuple(items) => Some(items),
            _ => None,
        }
    }

    /// The value of a dictionary under a name; the last one, as in Python.
    pub(super) fn item(&self, id: Id, name: &str) -> Option<Id> {
        let Value::Dict(pairs) = self.get(id) else {
            return None;
        };
        let found = pairs
            .iter()
            .rev()
            .find(|(k, _)| self.text(*k) == Some(name));
        found.map(|&(_, v)| v)
    }

    /// An error about this pickle.
    pub(super) fn bad(&self, place: impl AsRef<str>, reason: impl Into<String>) -> crate::Error {
        let place = match (self.place, place.as_ref()) {
            ("", place) => place.to_owned(),
            (of, "") => of.to_owned(),
            (of, place) => format!("{of}: {place}"),
        };
        bad(
            self.file,
            place,
            reason,
            "download the file again; only numbers, lists and arrays are read from pickles",
        )
    }

    /// Keeps a new value.
    pub(super) fn keep(&mut self, value: Value) -> Id {
        self.arena.push(value);
        (self.arena.len() - 1) as Id
    }

    /// Replaces a value.
    pub(super) fn put(&mut self, id: Id, value: Value) {
        self.arena[id as usize] = value;
    }
}

/// The stack machine while it runs.
struct Machine<'a, 'l> {
    pickle: Pickle<'a>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    at: usize,
    limit: &'l Limit,
}

impl Machine<'_, '_> {
    fn run(&mut self) -> Result<()> {
        for step in 0u64.. {
            // Counted in thousands, so that counting costs nothing.
            if step.is_multiple_of(1024) {
                self.limit.take(1024 * VALUE, self.pickle.file, "pickle")?;
            }
            let start = self.at;
            let op = self.take(1)?[0];
            if op == b'.' {
                self.pickle.root = self.pop()?;
                self.pickle.end = self.at;
                return Ok(());
            }
            self.step(op, start)?;
        }
        unreachable!("the bytes of a file end before numbers of 64 bits do")
    }

    /// Carries out one operation.
    fn step(&mut self, op: u8, start: usize) -> Result<()> {
        let value = match op {
            // PROTO, FRAME
            0x80 => match self.take(1)?[0] {
                2..=4 => return Ok(()),
                other => return Err(self.bad(format!("is of protocol {other}, not 2 to 4"))),
            },
            0x95 => return self.take(8).map(|_| ()),
            // Plain values.
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'J' => Value::Int(i64::from(self.number(4)? as i32)),
            b'K' => Value::Int(self.number(1)? as i64),
            b'M' => Value::Int(self.number(2)? as i64),
            0x8a => self.long()?,
            b'G' => self.take(8).map(|_| Value::Float)?,
            // Strings and bytes with a length of 1, 4 or 8 bytes.
            b'U' | b'C' | 0x8c => self.string(1)?,
            b'T' | b'B' | b'X' => self.string(4)?,
            0x8d | 0x8e => self.string(8)?,
            // Containers.
            b')' => Value::Tuple(Vec::new()),
            b']' => Value::List(Vec::new()),
            b'}' => Value::Dict(Vec::new()),
            0x85..=0x87 => {
                let from = self.stack.len().checked_sub(usize::from(op - 0x84));
                let from = from.filter(|&f| f >= self.floor());
                let from = from.ok_or_else(|| self.bad("takes more values than there are"))?;
                Value::Tuple(self.stack.split_off(from))
            }
            b't' => Value::Tuple(self.marked()?),
            b'l' => Value::List(self.marked()?),
            b'(' => {
                self.marks.push(self.stack.len());
                return Ok(());
            }
            b'0' => return self.pop().map(|_| ()),
            b'a' => {
                let item = self.pop()?;
                return self.append(vec![item]);
            }
            b'e' => {
                let items = self.marked()?;
                return self.append(items);
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                return self.set(&[key, value]);
            }
            b'u' => {
                let items = self.marked()?;
                return self.set(&items);
            }
            // The memo.
            b'q' => return self.number(1).and_then(|k| self.memoise(k as u32)),
            b'r' => return self.number(4).and_then(|k| self.memoise(k as u32)),
            0x94 => return self.memoise(self.memo.len() as u32),
            b'h' | b'j' => {
                let k = self.number(if op == b'h' { 1 } else { 4 })? as u32;
                let id = self.memo.get(&k).copied();
                let id = id.ok_or_else(|| self.bad(format!("recalls {k}, which is not kept")))?;
                self.stack.push(id);
                return Ok(());
            }
            // Names, and what calling them gives.
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.global(&module, &name)?
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let word = |id| self.pickle.text(id).map(str::to_owned);
                match (word(module), word(name)) {
                    (Some(module), Some(name)) => self.global(&module, &name)?,
                    _ => return Err(self.bad("names something by what is no string")),
                }
            }
            b'R' | 0x81 => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                call(&mut self.pickle, function, arguments, self.limit)?
            }
            b'Q' => {
                let id = self.pop()?;
                super::objects::stored(&self.pickle, id)?
            }
            b'b' => {
                let state = self.pop()?;
                let object = *self.stack.last().ok_or_else(|| self.bad("has no object"))?;
                return extend(&mut self.pickle, object, state, self.limit);
            }
            other => {
                self.at = start;
                let reason = format!("has the operation {other:#04x}, which is not on the list");
                return Err(self.bad(reason));
            }
        };
        let id = self.pickle.keep(value);
        self.stack.push(id);
        Ok(())
    }

    /// The next `n` bytes.
    fn take(&mut self, n: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(n);
        let Some(end) = end.filter(|&e| e <= self.pickle.text.len()) else {
            return Err(self.bad("ends in the middle of an operation"));
        };
        let bytes = &self.pickle.text[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    /// A number of `width` bytes without sign.
    fn number(&mut self, width: usize) -> Result<u64> {
        let bytes = self.take(width)?;
        Ok(bytes.iter().rev().fold(0, |x, &b| x << 8 | u64::from(b)))
    }

    /// A whole number of any length; longer ones than 64 bits are kept as `None`.
    fn long(&mut self) -> Result<Value> {
        let width = self.number(1)? as usize;
        let bytes = self.take(width)?;
        if width > 8 {
            return Ok(Value::None);
        }
        let word = bytes.iter().rev().fold(0u64, |x, &b| x << 8 | u64::from(b));
        let unused = 64 - 8 * width as u32;
        Ok(Value::Int(match width {
            0 => 0,
            _ => ((word << unused) as i64) >> unused,
        }))
    }

    fn string(&mut self, width: usize) -> Result<Value> {
        let length = usize::try_from(self.number(width)?).unwrap_or(usize::MAX);
        let start = self.at;
        self.take(length)?;
        Ok(Value::Text(start..start + length))
    }

    /// The rest of a line.
    fn line(&mut self) -> Result<String> {
        let rest = &self.pickle.text[self.at..];
        let length = rest.iter().take(200).position(|&b| b == b'\n');
        let length = length.ok_or_else(|| self.bad("has a name without an end"))?;
        let line = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.at += length + 1;
        Ok(line)
    }

    fn global(&self, module: &str, name: &str) -> Result<Value> {
        super::objects::global(module, name)
            .map(Value::Global)
            .ok_or_else(|| {
                let what = format!("{module}.{name}");
                self.bad(format!("names {what}, which is not on the list"))
            })
    }

    /// Below this the stack belongs to an outer mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Id> {
        if self.stack.len() <= self.floor() {
            return Err(self.bad("takes a value that is not there"));
        }
        Ok(self.stack.pop().expect("more than the floor"))
    }

    /// All values above the last mark.
    fn marked(&mut self) -> Result<Vec<Id>> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark.min(self.stack.len()))),
            None => Err(self.bad("takes values without a mark")),
        }
    }

    fn append(&mut self, items: Vec<Id>) -> Result<()> {
        let list = self.stack.last().copied();
        match list.map(|id| &mut self.pickle.arena[id as usize]) {
            Some(Value::List(to)) => to.extend(items),
            _ => return Err(self.bad("appends to what is no list")),
        }
        Ok(())
    }

    fn set(&mut self, items: &[Id]) -> Result<()> {
        let dict = self.stack.last().copied();
        match dict.map(|id| &mut self.pickle.arena[id as usize]) {
            Some(Value::Dict(to)) if items.len().is_multiple_of(2) => {
                to.extend(items.chunks_exact(2).map(|p| (p[0], p[1])));
            }
            _ => return Err(self.bad("sets items of what is no dictionary")),
        }
        Ok(())
    }

    fn memoise(&mut self, k: u32) -> Result<()> {
        match self.stack.last() {
            Some(&id) => {
                self.memo.insert(k, id);
                Ok(())
            }
            None => Err(self.bad("keeps a value that is not there")),
        }
    }

    /// An error at this byte.
    fn bad(&self, reason: impl Into<String>) -> crate::Error {
        self.pickle.bad(format!("byte {}", self.at), reason)
    }
}
