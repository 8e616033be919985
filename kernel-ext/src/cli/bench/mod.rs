//! `halobook bench notebook` and `bench polars`: what needs a kernel, or the whole of Polars.

mod notebook;
mod polars;

use std::process::ExitCode;

use anyhow::Result;

/// Runs the benchmark that the first word names, that of the notebook if it names none.
///
/// # Errors
/// A wrong flag, or what a benchmark needs and does not find.
pub fn bench(words: &[String]) -> Result<ExitCode> {
    match words.split_first() {
        Some((first, rest)) if first == "polars" => polars::polars(rest),
        _ => notebook::notebook(words),
    }
}
