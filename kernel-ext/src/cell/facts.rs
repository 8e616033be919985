//! What set-up found out once, so that no kernel start asks a tool again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::fit::Origin;
use super::shim::path_flag;

/// The file of a prepared folder that is written last.
const FILE: &str = "facts.json";

/// Everything the shim needs to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Facts {
    /// Changes whenever the prepared folder would come out differently.
    pub key: String,
    /// The toolchain's folder.
    pub sysroot: PathBuf,
    /// The host triple.
    pub host: String,
    /// `cargo --version`, as printed.
    pub cargo_version: String,
    /// rustc's version number.
    pub rust_version: String,
    /// The prelude as one dynamic library.
    pub dylib: PathBuf,
    /// What stands in for it while a cell is linked.
    pub stand_in: PathBuf,
    /// Where the crates below the prelude are described, without their code.
    pub described: PathBuf,
    /// Where the crates below the prelude lie compiled.
    pub deps: PathBuf,
    /// The prelude as a library to be linked into a program of its own.
    pub rlib: PathBuf,
    /// The MPI transport likewise, where it was built.
    pub mpi: Option<PathBuf>,
    /// The program that a rank of a pool is, where MPI was built.
    pub ranks: Option<PathBuf>,
    /// The standard library's outline, where its sources are installed.
    pub std: Option<PathBuf>,
    /// Where the linker finds libraries of other languages.
    pub native: Vec<String>,
    /// `rustc --print cfg -O`.
    pub cfg: String,
    /// `rustc --print target-spec-json`.
    pub target_spec: String,
    /// The code that keeps variables, where it was compiled.
    #[serde(default)]
    pub variables: Option<PathBuf>,
    /// Milliseconds that building the library took.
    pub dylib_ms: u64,
    /// What all this was made of; earlier versions do not say.
    #[serde(default)]
    pub origin: Option<Origin>,
}

impl Facts {
    /// Reads the facts of a prepared folder.
    ///
    /// # Errors
    /// When they are missing or not ours.
    pub fn load(prepared: &Path) -> Result<Facts> {
        let file = prepared.join(FILE);
        let text = fs::read_to_string(&file)
            .with_context(|| format!("nothing is prepared at {}", prepared.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", file.display()))
    }

    /// Writes the facts; their presence is what makes a prepared folder valid.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn store(&self, prepared: &Path) -> Result<()> {
        let draft = prepared.join("facts.json.new");
        fs::write(&draft, serde_json::to_string_pretty(self)?)?;
        fs::rename(&draft, prepared.join(FILE))?;
        Ok(())
    }

    /// The compiler itself, past any proxy.
    pub fn rustc(&self) -> PathBuf {
        self.sysroot.join("bin/rustc")
    }

    /// Has rustc compile a library that is loaded beside the prelude's and uses it.
    pub fn link_cell(&self, rustc: &mut Command) {
        let library = self.dylib.parent().unwrap_or(Path::new("."));
        rustc
            .arg(path_flag("--extern=halobook=", &self.stand_in))
            .arg(path_flag("-Ldependency=", &self.described))
            .arg(path_flag("-Clink-arg=-Wl,-rpath,", library))
            // It exports nothing, and is needed.
            .arg("-Clink-arg=-Wl,--no-as-needed")
            .arg(path_flag("-Clink-arg=", &self.stand_in));
    }

    /// The real cargo, past any proxy.
    pub fn cargo(&self) -> PathBuf {
        self.sysroot.join("bin/cargo")
    }
}
