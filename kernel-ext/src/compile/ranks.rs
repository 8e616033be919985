//! A cell for every rank becomes a library that ranks load.

use std::path::{Path, PathBuf};

use super::rustc;
use crate::cell::facts::Facts;
use crate::front::Failure;
use crate::live::interrupt::Interrupt;

/// Compiles the cell's Rust (whose first lines are blank up to and with the magic's) in `dir`.
///
/// # Errors
/// What is wrong with the cell; an interrupt.
pub fn library(
    code: &str,
    given: &str,
    dir: &Path,
    facts: &Facts,
    interrupt: &Interrupt,
) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| {
        Failure::config(format!("{} cannot be written: {error}", dir.display()), [])
    };
    std::fs::create_dir_all(dir).map_err(failed)?;
    std::fs::write(dir.join("cell.rs"), text(code, given)).map_err(failed)?;
    rustc::library(facts, dir, code.lines().count(), interrupt)?;
    Ok(dir.join("libcell.so"))
}

/// The whole source: a function around the cell, whose lines stay where they are. `given` declares what
/// comes from the notebook.
fn text(code: &str, given: &str) -> String {
    let entry = halobook::ranks::ENTRY;
    format!(
        "#![allow(unused)] use halobook::ranks::prelude::*; #[unsafe(no_mangle)] pub fn \
         {entry}(ctx: &mut Rank, comm: &mut Comm) -> halobook::ranks::Returned {{ \
         let (rank, size) = (ctx.rank(), ctx.size()); {given} let __value = {{ {code}\n}}; \
         Ok(IntoRows::into_rows(__value)) }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn the_cells_lines_stay() {
        let text = text("\nlet x = 1;\nrow! { x }", "");
        assert_eq!(text.lines().nth(1), Some("let x = 1;"));
        assert_eq!(text.lines().nth(2), Some("row! { x }"));
    }
}
