//! What a release build left: the libraries that cells and ranks are linked with.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::fit::{self, Stamp};

/// What the release build left.
pub(super) struct Built {
    pub(super) deps: PathBuf,
    pub(super) rlib: PathBuf,
    /// The latest first.
    pub(super) mpi: Vec<PathBuf>,
    pub(super) stamps: Vec<Stamp>,
}

impl Built {
    /// Finds the prelude's latest library. Which of its crates' files belong to it is written
    /// inside it, so older files beside them do no harm.
    pub(super) fn find(target: &Path) -> Result<Built> {
        let deps = target.join("release/deps");
        let (rlib, stamp) = latest_first(&deps, "libhalobook-")
            .with_context(|| format!("there is no release build at {}", target.display()))?
            .into_iter()
            .next()
            .context("the prelude is not built; run `cargo build --release --workspace` first")?;
        let (mpi, mpi_stamps): (Vec<_>, Vec<_>) =
            latest_first(&deps, "libgnn_mpi-")?.into_iter().unzip();
        let mpi_stamp = mpi_stamps.first().copied();
        Ok(Built {
            deps,
            rlib,
            mpi,
            stamps: [stamp].into_iter().chain(mpi_stamp).collect(),
        })
    }
}

/// What the first of these makes, beside it; the error is the first's, where none can be made. A build of one
/// package may leave a later library that was made for other versions of its crates than the prelude's.
pub(super) fn first_that_links<T>(
    libraries: impl Iterator<Item = PathBuf>,
    mut link: impl FnMut(&Path) -> Result<T>,
) -> Result<Option<(PathBuf, T)>> {
    let mut first_error = None;
    for library in libraries {
        match link(&library) {
            Ok(made) => return Ok(Some((library, made))),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(None), Err)
}

/// The libraries whose names begin so, the latest first.
fn latest_first(deps: &Path, name: &str) -> Result<Vec<(PathBuf, Stamp)>> {
    let mut found: Vec<(u128, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(deps)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if file.starts_with(name)
            && file.ends_with(".rlib")
            && let Some((len, nanos)) = fit::stamp(&path)
        {
            found.push((nanos, len, path));
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    let libraries = found.into_iter();
    Ok(libraries
        .map(|(nanos, len, path)| (path, (len, nanos)))
        .collect())
}

/// Where build scripts found libraries of other languages, which a compiled crate does not say itself.
pub(super) fn native(target: &Path) -> Vec<String> {
    let scripts = fs::read_dir(target.join("release/build"))
        .into_iter()
        .flatten();
    let said = scripts
        .flatten()
        .filter_map(|script| fs::read_to_string(script.path().join("output")).ok());
    let mut found: Vec<String> = said
        .flat_map(|text| {
            let lines = text.lines().filter_map(|line| {
                let line = line.strip_prefix("cargo:")?;
                line.trim_start_matches(':')
                    .strip_prefix("rustc-link-search=")
                    .map(str::to_owned)
            });
            lines.collect::<Vec<_>>()
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_that_links_is_taken_and_the_latest_says_why_none_does() {
        let of = |names: &[&str]| {
            let libraries = names.iter().map(PathBuf::from).collect::<Vec<_>>();
            let link = |library: &Path| {
                let name = library.to_string_lossy().into_owned();
                anyhow::ensure!(name.starts_with("whole"), "{name} does not fit");
                Ok(name.len())
            };
            first_that_links(libraries.into_iter(), link)
        };
        let taken = of(&["part", "whole", "whole before"]).unwrap();
        assert_eq!(taken, Some((PathBuf::from("whole"), 5)));
        assert_eq!(of(&[]).unwrap(), None);
        let error = of(&["part", "part before"]).unwrap_err();
        assert_eq!(error.to_string(), "part does not fit");
    }

    #[test]
    fn libraries_come_with_the_latest_first() {
        let dir = tempfile::tempdir().unwrap();
        let at = std::time::SystemTime::now();
        for (name, age) in [
            ("libgnn_mpi-a.rlib", 20),
            ("libgnn_mpi-b.rlib", 10),
            ("libgnn_mpi-c.rmeta", 0),
        ] {
            let file = fs::File::create(dir.path().join(name)).unwrap();
            file.set_modified(at - std::time::Duration::from_secs(age))
                .unwrap();
        }
        let found = latest_first(dir.path(), "libgnn_mpi-").unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|(path, _)| path.file_name().unwrap())
            .collect();
        assert_eq!(names, ["libgnn_mpi-b.rlib", "libgnn_mpi-a.rlib"]);
    }
}
