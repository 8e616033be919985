//! Frames as data: what their columns are, declared where their rows are made.
//!
//! A strategy names the frames it adds in its [`Entry`](crate::strategy::Entry) and writes their rows
//! with [`Ctx::row`](crate::ctx::Ctx::row). Whoever reads a run needs neither: a [`Schema`] of each lies
//! in the run folder ([`write()`]), beside the rows.

mod column;
mod schema;

pub(crate) use column::words;
pub use column::{Cell, Column, ColumnDef};
pub use schema::{FILE, Field, Schema, read, write};
pub use serde_json::Value;

use crate::error::{Error, Result};

/// Names of frames that every run has, or that rows of other kinds go by: no strategy can have them.
pub const TAKEN: &[&str] = &[
    "runs",
    "epochs",
    "ranks",
    "comm",
    "metrics",
    "ended",
    "spans",
    "traced",
    "partition",
    "plan",
];

/// Columns that are added to every frame, and the tag of a row.
const ADDED: &[&str] = &[
    "run_id",
    "epoch",
    "rank",
    "synthetic",
    "link",
    "slow",
    "frame",
];

/// A frame: its name, its columns, and the order of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameDef {
    /// Name, also of the table in SQL.
    pub name: &'static str,
    /// What a row is, in a line of words.
    pub doc: &'static str,
    /// Columns in order.
    pub columns: &'static [ColumnDef],
    /// Columns by which rows are sorted; rows alike in all of them stay in the order written.
    pub sort: &'static [&'static str],
}

impl FrameDef {
    /// The same, owned.
    pub fn schema(&self) -> Schema {
        let field = |column: &ColumnDef| Field {
            name: column.name.into(),
            kind: column.kind,
            unit: column.unit.into(),
            doc: column.doc.into(),
        };
        Schema {
            name: self.name.into(),
            doc: self.doc.into(),
            columns: self.columns.iter().map(field).collect(),
            sort: self.sort.iter().map(|&key| key.into()).collect(),
        }
    }

    /// Refuses what cannot be a strategy's frame.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with what to write instead.
    pub fn check(&self) -> Result<()> {
        let bad = |reason: String, help: &str| {
            Err(Error::Unsupported {
                what: format!("frame {:?} of a strategy", self.name),
                reason,
                help: help.into(),
            })
        };
        if !is_plain(self.name) {
            let help = "use lower-case letters, digits and _, for example \"drift\"";
            return bad("its name is none of a table".into(), help);
        }
        if TAKEN.contains(&self.name) {
            return bad(
                "every run has a frame of that name".into(),
                "call it otherwise",
            );
        }
        let own = self.columns.iter().skip(2).map(|column| column.name);
        for (k, name) in own.clone().enumerate() {
            if !is_plain(name) || ADDED.contains(&name) {
                let help = "epoch and rank are added to every row; call other columns otherwise";
                return bad(format!("it cannot have a column {name:?}"), help);
            }
            if own.clone().take(k).any(|other| other == name) {
                return bad(format!("it has two columns {name:?}"), "call one otherwise");
            }
        }
        let known = |key: &&str| self.columns.iter().any(|column| column.name == *key);
        match self.sort.iter().find(|key| !known(key)) {
            Some(key) => bad(
                format!("it is sorted by {key:?}, which it does not have"),
                "name columns behind `by`",
            ),
            None => Ok(()),
        }
    }
}

/// Whether a name can be one of a table or a column, and of a file.
pub fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(plain)
}

/// The column `epoch`, first in every frame of a strategy.
pub const EPOCH: ColumnDef = ColumnDef::new::<u32>("epoch", "Epoch, from 0.");
/// The column `rank`, the second.
pub const RANK: ColumnDef = ColumnDef::new::<u32>("rank", "Rank that wrote the row, from 0.");

/// A row of a frame that a strategy adds, without its epoch and rank: a struct declared with
/// [`frame!`](crate::frame).
pub trait FrameRow {
    /// The frame.
    const FRAME: FrameDef;
    /// What is in the columns behind `epoch` and `rank`, in order.
    fn cells(&self) -> Vec<Value>;
}

/// Declares the struct of a row and the frame that such rows make.
///
/// Columns are the fields, with `epoch` and `rank` before them, which [`Ctx::row`](crate::ctx::Ctx::row)
/// fills in. What is written above a field says what the column is, in every listing. Rows are sorted by
/// epoch and rank, then by the fields behind `by`.
///
/// ```
/// gnn_core::frame! {
///     /// How far a layer's rows have moved since they travelled.
///     Drift in "drift" by layer {
///         /// Layer, from 0.
///         layer: u16,
///         /// Length of the move over that of the rows.
///         relative: f64,
///     }
/// }
/// use gnn_core::record::frame::FrameRow;
/// let names: Vec<&str> = Drift::FRAME.columns.iter().map(|c| c.name).collect();
/// assert_eq!(names, ["epoch", "rank", "layer", "relative"]);
/// ```
#[macro_export]
macro_rules! frame {
    (@words doc = $words:literal) => { $words };
    (@words $($other:tt)*) => { "" };
    ($(#[$($meta:tt)*])* $name:ident in $frame:literal $(by $($key:ident),+)? {
        $($(#[$($about:tt)*])* $field:ident: $ty:ty),* $(,)?
    }) => {
        $(#[$($meta)*])*
        pub struct $name { $($(#[$($about)*])* pub $field: $ty,)* }

        impl $crate::record::frame::FrameRow for $name {
            const FRAME: $crate::record::frame::FrameDef = $crate::record::frame::FrameDef {
                name: $frame,
                doc: concat!("" $(, $crate::frame!(@words $($meta)*))*).trim_ascii(),
                columns: &[
                    $crate::record::frame::EPOCH,
                    $crate::record::frame::RANK,
                    $($crate::record::frame::ColumnDef::new::<$ty>(
                        stringify!($field),
                        concat!("" $(, $crate::frame!(@words $($about)*))*),
                    )),*
                ],
                sort: &["epoch", "rank" $($(, stringify!($key))+)?],
            };

            fn cells(&self) -> Vec<$crate::record::frame::Value> {
                vec![$($crate::record::frame::Cell::value(&self.$field)),*]
            }
        }
    };
}

/// A row of a strategy's frame that is not written yet.
pub struct Noted {
    /// The frame.
    pub frame: FrameDef,
    epoch: u32,
    rank: u32,
    /// Its cells are made of it outside the epoch's time.
    cells: Box<dyn FnOnce() -> Vec<Value>>,
}

impl Noted {
    /// A row of this rank in this epoch.
    pub fn new<R: FrameRow + 'static>(epoch: u32, rank: u32, row: R) -> Noted {
        Noted {
            frame: R::FRAME,
            epoch,
            rank,
            cells: Box::new(move || row.cells()),
        }
    }

    /// As it is written: an object of its columns, and the frame's name under `frame`.
    pub fn into_json(self) -> Value {
        let head = [Value::from(self.epoch), Value::from(self.rank)];
        let cells = head.into_iter().chain((self.cells)());
        let names = self
            .frame
            .columns
            .iter()
            .map(|column| column.name.to_owned());
        let mut object: serde_json::Map<String, Value> = names.zip(cells).collect();
        object.insert("frame".into(), self.frame.name.into());
        object.into()
    }
}

#[cfg(test)]
mod tests;
