//! Frames of a cell under a name that magics know.

use std::fmt;

use launcher::Error;
use serde_json::json;

use super::source::Source;
use crate::display::{Bundle, tell};
use crate::in_words::or_end;
use crate::show::Show;
use polars::prelude::DataFrame;

/// Keeps rows under `name`, for `%%check` and `%%sql` of later cells, and gives them as a frame.
///
/// ```no_run
/// use halobook::prelude::*;
/// let runs = Setting::new("data = karate").runs(&[("halo", "strategy = halo")]);
/// bind("fig21", &runs.measure("row_mb", |r| r.row_bytes() / 1e6));
/// // %%check
/// // "halo sends less than a megabyte": fig21['halo'].row_mb < 1
/// ```
///
/// In another kernel nothing knows the name, and the rows are only kept.
///
/// # Panics
/// When the name is no identifier, or the store cannot be written.
#[track_caller]
pub fn bind(name: &str, rows: &dyn Source) -> Kept {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let plain = name.starts_with(first) && name.chars().all(|c| first(c) || c.is_ascii_digit());
    if !plain {
        or_end(Err::<(), Error>(Error::refused(
            format!("{name:?} cannot name a frame"),
            "use letters, digits and _, a letter first",
        )));
    }
    let mut frame = rows.rows();
    let id = or_end(launcher::sql::keep(&mut frame));
    tell(&json!({"bind": name, "frame": id}));
    Kept {
        name: name.to_owned(),
        frame,
    }
}

/// A frame that magics know by a name.
#[derive(Clone, Debug)]
pub struct Kept {
    name: String,
    frame: DataFrame,
}

impl Kept {
    /// The frame.
    pub fn frame(&self) -> &DataFrame {
        &self.frame
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:\n{}", self.name, self.frame)
    }
}

impl Source for Kept {
    fn rows(&self) -> DataFrame {
        self.frame.clone()
    }
}

impl Show for Kept {
    fn bundle(&self) -> Bundle {
        self.frame.bundle()
    }
}
