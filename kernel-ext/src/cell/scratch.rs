//! A kernel's own folder: entered at start, gone at the end.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use super::facts::Facts;
use super::fit::{self, Ready};
use super::{CARGO_HOME_ENV, CURRENT, NOTE_ENV, PATH_ENV, PREPARED_ENV, SCRATCH_ENV};

/// A prepared folder that cannot be.
const NOTHING: &str = "/dev/null";
const PREFIX: &str = "halobook-kernel-";

/// The scratch folder of this kernel.
///
/// `bin` holds the links that make this binary evcxr's `cargo`; `crate` is where evcxr writes
/// the cell it compiles; `config` holds evcxr's settings; [`Flags`] lie at
/// the top.
#[derive(Debug, Clone)]
pub struct Scratch {
    /// The folder.
    pub dir: PathBuf,
    /// What set-up prepared; without it cells run on plain evcxr and know no prelude.
    pub facts: Option<Facts>,
    /// What the user should know of that, with the first cell.
    pub note: Option<String>,
}

impl Scratch {
    /// Makes the folder and starts this program again with an environment that points into it.
    /// In the second start it only picks the folder up.
    ///
    /// A second start instead of changing our own environment: no thread can see half of it.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn enter() -> Result<Scratch> {
        if let Some(dir) = std::env::var_os(SCRATCH_ENV) {
            return Ok(Scratch {
                dir: dir.into(),
                facts: prepared_version().and_then(|dir| Facts::load(&dir).ok()),
                note: std::env::var(NOTE_ENV).ok(),
            });
        }
        let Ready { version, note } = fit::ready(prepared_version);
        let facts = version.as_deref().and_then(|dir| Facts::load(dir).ok());
        sweep();
        let program = std::env::current_exe()?;
        let dir = std::env::temp_dir().join(format!(
            "{PREFIX}{}-{}",
            std::process::id(),
            &uuid::Uuid::new_v4().simple().to_string()[..8]
        ));
        for part in ["bin", "crate", "config"] {
            // What cells are is nobody else's.
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir.join(part))
                .with_context(|| format!("cannot make a scratch folder at {}", dir.display()))?;
        }
        let mut command = Command::new(&program);
        command
            .args(std::env::args_os().skip(1))
            .env(SCRATCH_ENV, &dir)
            .env("EVCXR_TMPDIR", dir.join("crate"))
            // Cells start runs too, and are programs of another folder.
            .env("HALOBOOK_BIN", crate::live::halobook_path());
        if let Some(note) = note {
            command.env(NOTE_ENV, note);
        }
        // Nothing else is looked for where that cannot be used.
        let prepared = version.unwrap_or_else(|| NOTHING.into());
        command.env(PREPARED_ENV, &prepared);
        if let Some(facts) = &facts {
            populate(&dir, &program, facts)?;
            if let Some(std) = &facts.std {
                command.env("RUST_SRC_PATH", std);
            }
            let path = std::env::var_os("PATH").unwrap_or_default();
            let mut front = OsString::from(dir.join("bin"));
            front.push(":");
            front.push(&path);
            command
                .env(PATH_ENV, &path)
                .env(
                    CARGO_HOME_ENV,
                    std::env::var_os("CARGO_HOME").unwrap_or_default(),
                )
                .env("PATH", front)
                // rust-analyzer looks for cargo below CARGO_HOME before it looks at PATH.
                .env("CARGO_HOME", &dir)
                .env_remove("CARGO")
                .env_remove("RUSTC")
                .env("EVCXR_CONFIG_DIR", dir.join("config"));
        }
        Err(anyhow!(command.exec()).context("cannot start the kernel in its scratch folder"))
    }

    /// Removes the folder; what cannot be removed is swept by a later kernel.
    pub fn remove(&self) {
        let _ = fs::remove_dir_all(&self.dir);
    }

    /// Removes the libraries of cells that have run. The process that loaded them keeps them in
    /// memory, and nothing loads one twice; a session would leave a file for each of its cells.
    pub fn drop_libraries(&self) {
        let Some(facts) = &self.facts else { return };
        let folder = self.dir.join("crate/target").join(&facts.host);
        let entries = fs::read_dir(folder.join("debug/deps"))
            .into_iter()
            .flatten();
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with("libcode_") {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// The source of the cell that was compiled last.
    pub fn ran(&self) -> String {
        let sources = ["crate/src/lib.rs", "crate/lean/src/lib.rs"].map(|file| self.dir.join(file));
        let written = |file: &PathBuf| fs::metadata(file).and_then(|meta| meta.modified()).ok();
        let last = sources.into_iter().max_by_key(written);
        last.and_then(|file| fs::read_to_string(file).ok())
            .unwrap_or_default()
    }

    /// The files by which this kernel and the tools that it is for evcxr speak with each other.
    pub fn flags(&self) -> Flags {
        Flags(self.dir.clone())
    }
}

/// The flags of the kernel that this process is a tool of.
pub fn flags() -> Option<Flags> {
    std::env::var_os(SCRATCH_ENV).map(|dir| Flags(dir.into()))
}

/// Files at the top of a scratch folder that say something by being there.
pub struct Flags(PathBuf);

impl Flags {
    /// Asks a running compilation to stop.
    pub fn cancel(&self) -> PathBuf {
        self.0.join("cancel")
    }

    /// Says that the current cell's code has been compiled.
    pub fn compiled(&self) -> PathBuf {
        self.0.join("compiled")
    }

    /// Says that somebody chose how values are shown.
    pub fn own_display(&self) -> PathBuf {
        self.0.join("own-display")
    }

    /// Holds words that were found to come from the prelude.
    pub fn needed(&self) -> PathBuf {
        self.0.join("needed")
    }
}

fn populate(dir: &Path, program: &Path, facts: &Facts) -> Result<()> {
    for tool in ["cargo", "rustup"] {
        symlink(program, dir.join("bin").join(tool))?;
    }
    symlink(facts.rustc(), dir.join("bin/rustc"))?;
    // Cells are small and run once: optimising them costs more than it gives. `:opt 2` is there
    // for those that loop.
    fs::write(
        dir.join("config/evcxr.toml"),
        "[evcxr]\nopt_level = \"0\"\n",
    )?;
    Ok(())
}

/// The prepared folder: named by the environment, or beside the release build we belong to.
pub fn find_prepared() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os(PREPARED_ENV) {
        return Some(dir.into());
    }
    let program = std::env::current_exe().ok()?.canonicalize().ok()?;
    let target = program.parent()?.parent()?;
    Some(target.join("prepared")).filter(|dir| dir.join(CURRENT).exists())
}

/// The version of the prepared folder that would be used now.
pub fn prepared_version() -> Option<PathBuf> {
    find_prepared().map(|dir| version(&dir))
}

/// The version of a prepared folder that a kernel starts with and stays with.
fn version(prepared: &Path) -> PathBuf {
    prepared
        .join(CURRENT)
        .canonicalize()
        .unwrap_or_else(|_| prepared.to_owned())
}

/// Removes the folders of kernels that were killed.
fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        let pid = rest.split('-').next().unwrap_or_default();
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
