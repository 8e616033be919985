//! Runs from Rust: for cells that train a setting after the other.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use launcher::{Error, Result, request, store};

use crate::run::Run;
use crate::source;

/// Trains what `body` says, in the words of a `%%gnn` cell, waits for it, and gives the run.
///
/// ```no_run
/// use halobook::prelude::*;
/// let runs: Vec<Run> = (1..=4)
///     .map(|n| train(&format!("data = karate; strategy = halo; ranks = {n}; epochs = 20")))
///     .collect();
/// ```
///
/// # Panics
/// When the request is refused or the run does not finish, with what it said.
#[track_caller]
pub fn train(body: &str) -> Run {
    match try_train(body) {
        Ok(run) => run,
        Err(error) => panic!("{}", source::in_words(&error)),
    }
}

/// Like [`train()`].
///
/// # Errors
/// [`Error::Refused`] with what `halobook train` wrote.
pub fn try_train(body: &str) -> Result<Run> {
    let id = store::new_id();
    let mut command = Command::new(program());
    command.args(["train", "--json", "--run-id", &id]);
    for (key, value) in request::parse_body(body)? {
        command.arg("--set").arg(format!("{key}={value}"));
    }
    let refused = |what: String, todo: String| Error::refused(what, todo);
    let ended = command.stdin(Stdio::null()).output().map_err(|e| {
        refused(
            format!("`halobook` cannot be started: {e}"),
            "put it on the search path, or name it in HALOBOOK_BIN".into(),
        )
    })?;
    if ended.status.success() {
        return Run::try_open(&id);
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let line = |start: &str| said.lines().find_map(|line| line.strip_prefix(start));
    let otherwise = || format!("halobook train ended with {}", ended.status);
    Err(refused(
        line("error: ").map_or_else(otherwise, str::to_owned),
        line("help: ").map_or_else(|| format!("halobook log {id}"), str::to_owned),
    ))
}

/// `halobook` as the kernel names it, else whatever is on the search path.
fn program() -> PathBuf {
    std::env::var_os("HALOBOOK_BIN").map_or_else(|| "halobook".into(), PathBuf::from)
}
