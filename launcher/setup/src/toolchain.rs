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
    let wanted = Wanted {
        missing: "the standard library's sources (rust-src) are missing",
        rustup: &["component", "add", "rust-src"],
        by_hand: BY_HAND,
    };
    wanted
        .provide(step, || sources().filter(|folder| folder.is_dir()))
        .map(|_| ())
}

/// A part of a toolchain that rustup can bring.
pub struct Wanted<'a> {
    /// That it is missing, in words.
    pub missing: &'a str,
    /// What rustup is asked for.
    pub rustup: &'a [&'a str],
    /// What to do without this program.
    pub by_hand: &'a str,
}

impl Wanted<'_> {
    /// What `find` finds, at once or after rustup has brought it.
    ///
    /// # Errors
    /// Exit status 2 when it is missing and cannot be fetched from here.
    pub fn provide<T>(&self, step: &mut Step, find: impl Fn() -> Option<T>) -> Result<T, Stop> {
        if let Some(found) = find() {
            step.unchanged();
            return Ok(found);
        }
        let refuse = |why: &str| {
            let wrong = format!("{why}, and {}", self.missing);
            Err(Stop::by_hand(wrong, self.by_hand.into()))
        };
        if std::env::var_os("HALOBOOK_NO_INSTALL").is_some() {
            return refuse("HALOBOOK_NO_INSTALL is set");
        }
        if exec::output("rustup", &["--version"]).is_none() {
            return refuse("this toolchain is not rustup's");
        }
        step.note(format!("rustup {}", self.rustup.join(" ")));
        let (log, ended) = step.try_run(Command::new("rustup").args(self.rustup))?;
        if let exec::Ended::Failed(status) = ended {
            step.note(exec::tail(&log, 15));
            return refuse(&format!("rustup {status} (no network?)"));
        }
        match find() {
            Some(found) => Ok(found),
            None => refuse("rustup added it to another toolchain than the one that is used"),
        }
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
