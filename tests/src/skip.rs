//! Missing hardware or data prints a skip; `HALOBOOK_REQUIRE=mpi,data` makes it a failure.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Prints a skip past libtest's capture, or fails when `HALOBOOK_REQUIRE` lists `what`.
///
/// # Panics
/// When `what` is required.
pub fn skip(what: &str, reason: &str) {
    let required = std::env::var("HALOBOOK_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|word| word.trim() == what),
        "HALOBOOK_REQUIRE has `{what}`, and {reason}"
    );
    let test = std::thread::current()
        .name()
        .unwrap_or("a test")
        .to_string();
    // Not `eprintln!`: that would be captured, and shown only when the test fails.
    let _ = writeln!(std::io::stderr(), "skip: {test}: {reason}");
}

/// Whether an MPI launcher is here; a skip has been printed when not.
pub fn mpi() -> bool {
    let found = ["mpirun", "mpiexec"].iter().any(|name| {
        Command::new(name)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    });
    if !found {
        skip("mpi", "there is no mpirun on this machine");
    }
    found
}

/// A real data set beside the clone (`../shared/data/NAME`), or a skip: users do not have it.
pub fn data(name: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("../../shared/data").join(name);
    if folder.join("graph.npz").is_file() {
        return Some(folder);
    }
    skip("data", &format!("there is no ../shared/data/{name}"));
    None
}

/// Whether the long versions were asked for (`cargo verify --soak`).
pub fn soak() -> bool {
    std::env::var("HALOBOOK_SOAK").is_ok_and(|value| value == "1")
}
