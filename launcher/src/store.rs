//! Where runs lie, and how one is found again.

use crate::error::{Error, Result};
pub use crate::manifest::{Final, Manifest, RunError, Status, Wait};
use crate::time::Utc;
use gnn_core::store::Verdicts;
use std::fs::DirBuilder;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Folder of everything that Halobook keeps: `$HALOBOOK_HOME`, else the platform's user data
/// folder.
pub fn home() -> PathBuf {
    let folder = |name: &str| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    if let Some(home) = folder("HALOBOOK_HOME") {
        return home;
    }
    if let Some(data) = folder("XDG_DATA_HOME") {
        return data.join("halobook");
    }
    let user = folder("HOME").unwrap_or_else(|| PathBuf::from("."));
    if cfg!(target_os = "macos") {
        user.join("Library/Application Support/halobook")
    } else {
        user.join(".local/share/halobook")
    }
}

/// Where it is kept which stored graphs were found sound.
pub fn verdicts() -> Verdicts {
    Verdicts::within(home().join("sound"))
}

/// Folder of all runs.
pub fn runs_dir() -> PathBuf {
    home().join("runs")
}

/// Makes a folder of the store and those above it that are not there: for nobody but their owner, or with
/// HALOBOOK_SHARE=1 for whom the umask lets in.
///
/// # Errors
/// When it cannot be made.
pub fn make(folder: &Path) -> Result<()> {
    let shared = std::env::var_os("HALOBOOK_SHARE").is_some_and(|share| share == "1");
    let mode = if shared { 0o777 } else { 0o700 };
    let made = DirBuilder::new().recursive(true).mode(mode).create(folder);
    made.map_err(Error::io(folder))
}

/// A fresh run id, `YYYYMMDD-HHMMSS-xxxx`.
pub fn new_id() -> String {
    let random = RandomState::new().build_hasher().finish() as u16;
    format!("{}-{random:04x}", Utc::now().compact())
}

/// Makes the folder of a new run with everything that ranks expect in it.
///
/// # Errors
/// [`Error::Refused`] when `id` is no folder name or is taken; [`Error::Io`] when the store cannot
/// be written.
pub fn create(id: &str) -> Result<PathBuf> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.is_empty() || id.starts_with('.') || id == "latest" || !id.chars().all(plain) {
        return Err(Error::refused(
            format!("run-id: {id:?} cannot name a run folder"),
            "use letters, digits, - and _, or leave --run-id out",
        ));
    }
    let runs = runs_dir();
    make(&runs)?;
    let dir = runs.join(id);
    std::fs::create_dir(&dir).map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Error::refused(
            format!("run-id: a run {id} exists already"),
            "choose another id, or leave --run-id out",
        ),
        _ => Error::io(&dir)(e),
    })?;
    for part in ["rows", "state", "errors", "logs", "frames"] {
        let path = dir.join(part);
        std::fs::create_dir(&path).map_err(Error::io(&path))?;
    }
    Ok(dir)
}

/// Writes a file so that readers see the old or the new content, never a part.
///
/// # Errors
/// When the folder cannot be written.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&temporary)?;
        file.write_all(bytes)?;
        drop(file);
        std::fs::rename(&temporary, path)
    };
    write().map_err(|e| {
        // The error to report is the write's; a leftover is removed if it can be.
        let _ = std::fs::remove_file(&temporary);
        Error::io(path)(e)
    })
}

/// Manifests of all runs, oldest first. Folders without a readable manifest are left out.
///
/// # Errors
/// When the store exists and cannot be listed.
pub fn list() -> Result<Vec<Manifest>> {
    let runs = runs_dir();
    let entries = match std::fs::read_dir(&runs) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(&runs)(e)),
    };
    let mut manifests: Vec<Manifest> = entries
        .filter_map(|entry| Manifest::read(&entry.ok()?.path()).ok())
        .collect();
    // Ids chosen by a caller need not sort by time, so the start decides.
    manifests.sort_by(|a, b| (&a.started, &a.run_id).cmp(&(&b.started, &b.run_id)));
    Ok(manifests)
}

/// Folder of a run by its id, the beginning of its id, its name (the newest run of that name), or
/// `latest`.
///
/// # Errors
/// [`Error::Refused`] when there is none, or more than one begins like that.
pub fn run_dir(name: &str) -> Result<PathBuf> {
    let runs = runs_dir();
    let plain = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    if plain && runs.join(name).join("manifest.json").exists() {
        return Ok(runs.join(name));
    }
    let manifests = list()?;
    let ids: Vec<&String> = manifests.iter().map(|m| &m.run_id).collect();
    let help = "`halobook runs` lists the runs there are";
    if name == "latest" {
        let newest = ids.last().ok_or_else(|| {
            Error::refused(
                "there is no run yet",
                "start one: halobook train --data karate",
            )
        })?;
        return Ok(runs.join(newest));
    }
    let hits: Vec<_> = ids
        .iter()
        .filter(|id| plain && id.starts_with(name))
        .collect();
    match hits.as_slice() {
        [one] => return Ok(runs.join(one)),
        [] => {}
        many => {
            let shown: Vec<&str> = many.iter().take(4).map(|id| id.as_str()).collect();
            let what = format!(
                "{} runs begin with {name:?}: {}",
                many.len(),
                shown.join(", ")
            );
            return Err(Error::refused(what, "write more of the id"));
        }
    }
    let named = manifests
        .iter()
        .rev()
        .find(|m| !m.name.is_empty() && m.name == name);
    if let Some(manifest) = named {
        return Ok(runs.join(&manifest.run_id));
    }
    let near = gnn_core::error::nearest(name, ids.iter().map(|id| id.as_str()));
    let what = match near {
        Some(id) => format!("there is no run {name:?}; the nearest is {id}"),
        None => format!("there is no run {name:?}"),
    };
    Err(Error::refused(what, help))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::sample;

    #[test]
    fn ids_have_their_form() {
        let id = new_id();
        let parts: Vec<&str> = id.split('-').collect();
        assert_eq!(
            parts.iter().map(|p| p.len()).collect::<Vec<_>>(),
            [8, 6, 4],
            "{id}"
        );
    }

    // One test for everything that depends on HALOBOOK_HOME: the variable is the process's.
    #[test]
    #[allow(unsafe_code)]
    fn runs_are_found_by_id_prefix_name_and_latest() {
        let dir = tempfile::tempdir().expect("temporary folder");
        // SAFETY: only Rust code reads the environment here, and the standard library serialises it.
        unsafe { std::env::set_var("HALOBOOK_HOME", dir.path()) };
        assert!(
            run_dir("latest")
                .unwrap_err()
                .to_string()
                .contains("no run yet")
        );
        for (id, second) in [
            ("20260101-000000-aaaa", 1),
            ("20260101-000000-abbb", 2),
            ("zz", 0),
        ] {
            let folder = create(id).expect("creates");
            let mut manifest = sample(id);
            manifest.started = format!("2026-01-01T00:00:0{second}.000Z");
            manifest.name = if id == "zz" {
                "mine".into()
            } else {
                String::new()
            };
            manifest.write(&folder).expect("writes");
        }
        let found = |name: &str| {
            run_dir(name).map(|p| {
                p.file_name()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned()
            })
        };
        assert_eq!(
            found("20260101-000000-aa").expect("prefix"),
            "20260101-000000-aaaa"
        );
        assert_eq!(found("latest").expect("latest"), "20260101-000000-abbb");
        assert_eq!(found("mine").expect("name"), "zz");
        assert!(
            found("2026")
                .unwrap_err()
                .to_string()
                .contains("2 runs begin")
        );
        let near = found("20260101-000000-aaab").unwrap_err().to_string();
        assert!(near.contains("nearest is 20260101-000000-aaaa"), "{near}");
        assert!(found("../runs").is_err() && found("").is_err());
        assert!(
            create("zz")
                .unwrap_err()
                .to_string()
                .contains("exists already")
        );
        assert!(create("a/b").is_err() && create("latest").is_err());
        assert_eq!(list().expect("lists").len(), 3);
        let frame = crate::frames::runs().expect("a frame of all runs");
        assert_eq!(frame.height(), 3);
    }
}
