//! Columns: their types, and which types of Rust they hold.

use crate::record::phase::{Direction, Op, SpanPhase, Stream};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The type of a column, for whoever builds a frame out of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Column {
    /// `bool`.
    Bool,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `i64`.
    I64,
    /// `f64`.
    F64,
    /// Text.
    Str,
}

impl Column {
    /// Its name in listings.
    pub fn label(self) -> &'static str {
        match self {
            Column::Bool => "bool",
            Column::U16 => "u16",
            Column::U32 => "u32",
            Column::U64 => "u64",
            Column::I64 => "i64",
            Column::F64 => "f64",
            Column::Str => "str",
        }
    }
}

/// A Rust type that can be a column.
pub trait Cell {
    /// Its column type.
    const COLUMN: Column;
    /// One of its values as it is written; a number that is not finite is null.
    fn value(&self) -> Value;
}

macro_rules! cells {
    ($($ty:ty => $column:ident),*) => {
        $(impl Cell for $ty {
            const COLUMN: Column = Column::$column;
            fn value(&self) -> Value {
                Value::from(*self)
            }
        })*
    };
}
cells!(bool => Bool, u16 => U16, u32 => U32, u64 => U64, usize => U64, i64 => I64);
cells!(f64 => F64, f32 => F64, &'static str => Str);

impl Cell for String {
    const COLUMN: Column = Column::Str;
    fn value(&self) -> Value {
        self.as_str().into()
    }
}

/// Makes enumerations with a word for each value columns of text.
macro_rules! words {
    ($($ty:ty),*) => {
        $(impl $crate::record::frame::Cell for $ty {
            const COLUMN: $crate::record::frame::Column = $crate::record::frame::Column::Str;
            fn value(&self) -> $crate::record::frame::Value {
                self.label().into()
            }
        })*
    };
}
pub(crate) use words;
words!(Direction, Op, Stream, SpanPhase);

impl<T: Cell> Cell for Option<T> {
    const COLUMN: Column = T::COLUMN;
    fn value(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::value)
    }
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnDef {
    /// Name, which ends or begins with the unit where there is one.
    pub name: &'static str,
    /// Type.
    pub kind: Column,
    /// Unit; empty for what is counted or is a word.
    pub unit: &'static str,
    /// What it is, in a line of words.
    pub doc: &'static str,
}

impl ColumnDef {
    /// A column of the type `T`, whose unit is that of its name.
    pub const fn new<T: Cell>(name: &'static str, doc: &'static str) -> ColumnDef {
        ColumnDef {
            name,
            kind: T::COLUMN,
            unit: unit(name),
            doc: doc.trim_ascii(),
        }
    }
}

/// The unit that is part of a column's name.
const fn unit(name: &str) -> &'static str {
    const TAILS: [(&str, &str); 6] = [
        ("_ms", "ms"),
        ("_us", "us"),
        ("_pct", "%"),
        ("_per_s", "1/s"),
        ("bytes", "bytes"),
        ("_epochs", "epochs"),
    ];
    let name = name.as_bytes();
    let mut k = 0;
    while k < TAILS.len() {
        let tail = TAILS[k].0.as_bytes();
        if name.len() >= tail.len() && is_at(name, tail, name.len() - tail.len()) {
            return TAILS[k].1;
        }
        k += 1;
    }
    let head = b"bytes_";
    if name.len() > head.len() && is_at(name, head, 0) {
        return "bytes";
    }
    ""
}

/// Whether `part` is in `name` from `start` on, where there is room for it.
const fn is_at(name: &[u8], part: &[u8], start: usize) -> bool {
    let mut k = 0;
    while k < part.len() {
        if name[start + k] != part[k] {
            return false;
        }
        k += 1;
    }
    true
}
