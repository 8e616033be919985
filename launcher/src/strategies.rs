//! Strategies that were written in cells: each is a program of its own, the whole command line with one
//! strategy more, kept in the store under its name.
//!
//! ```text
//! strategies/NAME/about.json      what it is, and which program; written last
//!                /HASH/cell.rs    its source
//!                /HASH/program    compiled
//! ```
//!
//! `halobook train -s NAME` becomes that program; a sweep starts `halobook train` for each setting, so it
//! may mix them with built-in ones.

use crate::error::{Error, Result};
use crate::store;
use gnn_core::model::ModelKind;
use gnn_core::record::frame::Schema;
use gnn_core::strategy::{Entry, Knob, written};
use serde::{Deserialize, Serialize};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many sources of a name are kept.
const KEPT: usize = 3;

/// A setting of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Name.
    pub name: String,
    /// Default as it is written; empty where there is none.
    pub default: String,
    /// What it does.
    pub doc: String,
}

/// What is known of a strategy that was written in a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Name in cells.
    pub name: String,
    /// One line.
    pub summary: String,
    /// Of its source and of what it was compiled against.
    pub hash: String,
    /// Models that it runs.
    pub models: Vec<String>,
    /// Its settings.
    pub knobs: Vec<Setting>,
    /// The frames that it adds.
    #[serde(default)]
    pub frames: Vec<Schema>,
    /// The version of the project that compiled it.
    pub version: String,
    /// What comparing it with `single` came to, if that was done.
    pub verified: Option<crate::verify::Verdict>,
}

impl About {
    /// Its folder.
    pub fn dir(&self) -> PathBuf {
        dir(&self.name).join(&self.hash)
    }

    /// Its program.
    pub fn program(&self) -> PathBuf {
        self.dir().join("program")
    }

    /// Keeps it, and no more than the last few sources of its name.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn keep(&self) -> Result<()> {
        let path = dir(&self.name).join("about.json");
        let bytes = serde_json::to_vec_pretty(self).expect("plain data with text keys");
        store::write_atomic(&path, &bytes)?;
        let entries = std::fs::read_dir(dir(&self.name)).into_iter().flatten();
        let mut old: Vec<_> = entries
            .flatten()
            .filter(|e| e.path().is_dir() && e.file_name() != self.hash.as_str())
            .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
            .collect();
        old.sort();
        for (_, dir) in old.iter().rev().skip(KEPT - 1) {
            // A run may still start ranks from the newest of them; what cannot be removed stays.
            let _ = std::fs::remove_dir_all(dir);
        }
        Ok(())
    }
}

/// Where strategies of cells are kept.
fn all_dir() -> PathBuf {
    store::home().join("strategies")
}

/// Where the sources of one name are kept.
pub fn dir(name: &str) -> PathBuf {
    all_dir().join(name)
}

/// The strategy of that name, if there is one that this version can use.
pub fn find(name: &str) -> Option<About> {
    read(&dir(name)).filter(|about| about.name == name)
}

fn read(dir: &Path) -> Option<About> {
    let bytes = std::fs::read(dir.join("about.json")).ok()?;
    let about: About = serde_json::from_slice(&bytes).ok()?;
    let usable = about.version == env!("CARGO_PKG_VERSION") && about.program().is_file();
    usable.then_some(about)
}

/// All of them, by name.
pub fn all() -> Vec<About> {
    let entries = std::fs::read_dir(all_dir()).into_iter().flatten();
    let mut all: Vec<About> = entries.flatten().filter_map(|e| read(&e.path())).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The entries of a program and, after them, those of strategies written in cells, which that program
/// knows by name and settings alone: it can check a request, and another program runs it.
pub fn known(own: &'static [Entry]) -> &'static [Entry] {
    let others = all();
    if others.is_empty() {
        return own;
    }
    let new = |about: &About| !own.iter().any(|entry| entry.name == about.name);
    let others = others.into_iter().filter(new).map(described);
    // Once a process: what names entries lives as long as it does.
    own.iter().copied().chain(others).collect::<Vec<_>>().leak()
}

/// An entry that cannot be built here.
fn described(about: About) -> Entry {
    let knob = |setting: Setting| Knob {
        name: setting.name.leak(),
        default: setting.default.leak(),
        doc: setting.doc.leak(),
        check: |_| true,
    };
    let named = |model: &&ModelKind| about.models.iter().any(|name| name == model.name());
    let models: Vec<ModelKind> = ModelKind::ALL.iter().filter(named).copied().collect();
    let knobs = about.knobs.into_iter().map(knob).collect();
    let written = written::About {
        name: about.name.leak(),
        source: about.hash.leak(),
        summary: about.summary.leak(),
        knobs,
        frames: about.frames.into_iter().map(Schema::leak).collect(),
    };
    written.entry(models.leak(), |_, cx| {
        Err(gnn_core::Error::Unsupported {
            what: format!("strategy {} in this program", cx.plan.spec.strategy),
            reason: "it was written in a cell and is a program of its own".into(),
            help: "train with `halobook train`, which starts that program".into(),
        })
    })
}

/// The program that a request for the strategy `name` has to become, if `own` does not have it.
///
/// # Errors
/// [`Error::Refused`] when its program is gone.
pub fn program(own: &[Entry], name: &str) -> Result<Option<PathBuf>> {
    if own.iter().any(|entry| entry.name == name) {
        return Ok(None);
    }
    let about = find(name).ok_or_else(|| {
        Error::refused(
            format!("the program of strategy {name} is gone"),
            format!("run its cell (%%strategy {name}) again"),
        )
    })?;
    Ok(Some(about.program()))
}

/// Becomes a strategy's program; comes back when it cannot be started.
pub fn become_program(program: &Path, command: &str, words: &[String]) -> Error {
    let error = Command::new(program).arg(command).args(words).exec();
    Error::refused(
        format!("{} cannot be started: {error}", program.display()),
        "run the cell of that strategy again",
    )
}
