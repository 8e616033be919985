//! Runs from Rust: for cells that train a setting after the other.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use launcher::{Error, Result, request, store, sys};

use crate::interrupt;
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
/// An interrupt ends the run after its epoch, and then the cell.
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
    try_train_pairs(request::parse_body(body)?)
}

/// Like [`try_train`], of keys and values.
pub(crate) fn try_train_pairs(pairs: Vec<request::Pair>) -> Result<Run> {
    interrupt::check();
    let id = store::new_id();
    let mut command = Command::new(program());
    command.args(["train", "--json", "--run-id", &id]);
    for (key, value) in pairs {
        command.arg("--set").arg(format!("{key}={value}"));
    }
    let refused = |what: String, todo: String| Error::refused(what, todo);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    // When the cell's process is killed, the run finishes its epoch and leaves.
    sys::end_with_parent(&mut command, TERMINATE);
    let child = command.stderr(Stdio::piped()).spawn().map_err(|e| {
        refused(
            format!("`halobook` cannot be started: {e}"),
            "put it on the search path, or name it in HALOBOOK_BIN".into(),
        )
    })?;
    let (status, said) = ended(child)?;
    if interrupt::asked() {
        interrupt::end(&format!(
            "run {id} was stopped; it keeps its finished epochs"
        ));
    }
    if status.success() {
        return Run::try_open(&id);
    }
    let line = |start: &str| said.lines().find_map(|line| line.strip_prefix(start));
    let otherwise = || format!("halobook train ended with {status}");
    Err(refused(
        line("error: ").map_or_else(otherwise, str::to_owned),
        line("help: ").map_or_else(|| format!("halobook log {id}"), str::to_owned),
    ))
}

/// Waits for a run and reads what it says; an interrupt of the cell is handed on to it once.
fn ended(mut child: Child) -> Result<(ExitStatus, String)> {
    let pid = child.id();
    let pipe = child.stderr.take();
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        // What cannot be read was not said.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut said));
        String::from_utf8_lossy(&said).into_owned()
    });
    let mut asked = false;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(Error::io(&program()))? {
            break status;
        }
        if !asked && interrupt::asked() {
            // It has not been waited for, so the number is still its own.
            sys::signal(pid, INTERRUPT);
            asked = true;
        }
        std::thread::sleep(STEP);
    };
    Ok((status, said.join().unwrap_or_default()))
}

/// How often an unfinished run is looked at.
const STEP: Duration = Duration::from_millis(5);

/// `SIGINT`: please stop after the epoch.
const INTERRUPT: i32 = 2;
/// `SIGTERM`: the same.
const TERMINATE: i32 = 15;

/// `halobook` as the kernel names it, else whatever is on the search path.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("HALOBOOK_BIN").map_or_else(|| "halobook".into(), PathBuf::from)
}
