//! Libraries that a C++ compiler makes at run time, kept by the hash of all that they are made of.

use super::{Error, cache};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library of `program`, compiled with `flags` when it is not there; `name` begins the file's name. The
/// compiler is `c++`, or what `CXX` names.
///
/// # Errors
/// [`Error::Missing`] without a compiler, [`Error::Compile`] when it refuses the program.
pub(super) fn library(name: &str, program: &str, flags: &str) -> Result<PathBuf, Error> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let name = format!("{name}-{}.so", cache::key(&[&compiler, program, flags]));
    cache::file(&name, |to| compile(&compiler, (program, flags), to))
}

fn compile(compiler: &str, (program, flags): (&str, &str), to: &Path) -> Result<(), Error> {
    let source = to.with_extension("cpp");
    std::fs::write(&source, program)?;
    let mut call = Command::new(compiler);
    call.args(flags.split_whitespace())
        .arg("-o")
        .arg(to)
        .arg(&source);
    let ended = call.output();
    let _ = std::fs::remove_file(&source);
    let output = ended.map_err(|e| Error::Missing {
        what: "no C++ compiler",
        reason: format!("{compiler}: {e}; install one, or name it in CXX"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Compile {
        compiler: compiler.into(),
        log: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
