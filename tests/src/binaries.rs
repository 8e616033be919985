//! The binaries under test.

use std::path::PathBuf;

/// A release binary of this workspace, beside the test that asks.
///
/// Tests run from `<target>/release/deps`, binaries lie in `<target>/release`; `HALOBOOK_TEST_BIN`
/// names another folder.
///
/// # Panics
/// When it is not there: a missing binary must never look like a pass.
pub fn find(name: &str) -> PathBuf {
    let folder = std::env::var_os("HALOBOOK_TEST_BIN").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| {
        let test = std::env::current_exe().expect("a running test has a path");
        let mut above = test.ancestors().skip(1);
        let deps = above.next().expect("a test lies in a folder");
        match deps.ends_with("deps") {
            true => above
                .next()
                .expect("deps lies in a profile's folder")
                .into(),
            false => deps.into(),
        }
    });
    let path = folder.join(name);
    assert!(
        path.is_file(),
        "{} is not built: run `cargo verify`, or `cargo build --release --workspace` first",
        path.display()
    );
    path
}
