//! Step two: what the Rust toolchain lacks.
//!
//! A notebook infers the types of variables, and for that it reads the sources of the standard
//! library, which a minimal toolchain leaves out.

use crate::exec;
use crate::flow::{Step, Stop};
use std::path::PathBuf;
use std::process::Command;

/// Its name in the set-up table.
pub const PART: &str = "Rust sources";

const BY_HAND: &str = "rustup component add rust-src   (conda: the package rust-src), then run the same command again";

/// Finds the standard library's sources, or has rustup fetch them.
///
/// # Errors
/// Exit status 2 when they are missing and cannot be fetched from here.
pub fn provide(step: &mut Step) -> Result<(), Stop> {
    if sources().is_some_and(|folder| folder.is_dir()) {
        step.unchanged();
        return Ok(());
    }
    let refuse = |why: &str| {
        let wrong = format!("{why}, and the standard library's sources (rust-src) are missing");
        Err(Stop::by_hand(wrong, BY_HAND.into()))
    };
    if std::env::var_os("HALOBOOK_NO_INSTALL").is_some() {
        return refuse("HALOBOOK_NO_INSTALL is set");
    }
    if exec::output("rustup", &["--version"]).is_none() {
        return refuse("this toolchain is not rustup's");
    }
    step.note("fetching rust-src");
    let mut rustup = Command::new("rustup");
    rustup.args(["component", "add", "rust-src"]);
    let (log, ended) = step.try_run(&mut rustup)?;
    if let exec::Ended::Failed(status) = ended {
        step.note(exec::tail(&log, 15));
        return refuse(&format!("rustup {status} (no network?)"));
    }
    match sources() {
        Some(folder) if folder.is_dir() => Ok(()),
        _ => refuse("rustup added it to another toolchain than cargo's"),
    }
}

/// Where the toolchain that cargo uses keeps the sources.
fn sources() -> Option<PathBuf> {
    let sysroot = exec::output("rustc", &["--print", "sysroot"])?;
    Some(PathBuf::from(sysroot.trim()).join("lib/rustlib/src/rust/library"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_sources_folder_is_inside_the_toolchain() {
        let folder = super::sources().expect("this test was built by a rustc");
        assert!(folder.ends_with("lib/rustlib/src/rust/library"));
        assert!(folder.is_absolute());
    }
}
