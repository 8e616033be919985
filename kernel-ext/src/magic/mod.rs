//! Magics: from a cell's text to what is to be done, and nothing else.
//!
//! Everything here is a pure function of text. It is called on every keystroke for completion
//! and may neither read nor write anything.

pub mod action;
mod body;
mod chart;
mod compiled;
pub mod complete;
pub mod flags;
pub mod help;
mod list;
mod own_flags;
pub mod run_flags;
pub mod table;

pub use action::{
    Action, CheckRequest, Line, ParamsRequest, SqlRequest, SweepRequest, TrainRequest, expand,
};
pub use body::typed;
pub use compiled::{Group, RanksRequest, StrategyRequest, check_name};

use crate::text::Completeness;

/// Judges a cell that may hold magics: those lines are always complete, the rest is Rust.
pub fn completeness(code: &str) -> Completeness {
    match expand(code) {
        Action::Rust(code) => crate::text::completeness(&code),
        Action::Lines { rust, .. } => crate::text::completeness(&rust),
        Action::Help(_)
        | Action::Train(_)
        | Action::Sweep(_)
        | Action::Sql(_)
        | Action::Check(_)
        | Action::Params(_)
        | Action::Ranks(_)
        | Action::Strategy(_) => Completeness::Complete,
        Action::Refused(_) => Completeness::Invalid,
    }
}

/// The cell with its magic lines blanked, so that offsets stay what they were.
pub fn rust_only(code: &str) -> String {
    let mut head = true;
    code.split_inclusive('\n')
        .map(|line| {
            if head && table::looks_like_magic(line) {
                let blank = line.trim_end_matches('\n').len();
                let newline = &line[blank..];
                format!("{}{newline}", " ".repeat(blank))
            } else {
                let trimmed = line.trim();
                head &= trimmed.is_empty() || trimmed.starts_with("//");
                line.to_owned()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
