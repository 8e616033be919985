//! Runs from Rust: for cells that train a setting after the other.

use launcher::{Result, request, store};

use crate::interrupt;
use crate::program::{Ended, halobook, refusal};
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
/// [`launcher::Error::Refused`] with what `halobook train` wrote.
pub fn try_train(body: &str) -> Result<Run> {
    try_train_pairs(request::parse_body(body)?)
}

/// Like [`try_train`], of keys and values.
pub(crate) fn try_train_pairs(pairs: Vec<request::Pair>) -> Result<Run> {
    let id = store::new_id();
    let Ended { status, stderr, .. } = halobook(&["train", "--run-id", &id], pairs)?;
    if interrupt::asked() {
        interrupt::end(&format!(
            "run {id} was stopped; it keeps its finished epochs"
        ));
    }
    if status.success() {
        return Run::try_open(&id);
    }
    Err(refusal(
        "train",
        status,
        &stderr,
        &format!("halobook log {id}"),
    ))
}

/// Plans what the ranks of a request would send, hold and take, and gives the plan's id; `how` are more words of the
/// command.
///
/// # Errors
/// [`launcher::Error::Refused`] with what `halobook plan` wrote.
pub(crate) fn try_plan_pairs(pairs: Vec<request::Pair>, how: &[&str]) -> Result<String> {
    let Ended {
        status,
        stdout,
        stderr,
    } = halobook(&[&["plan"], how].concat(), pairs)?;
    if interrupt::asked() {
        interrupt::end("the plan was stopped");
    }
    let last = stdout.lines().last().unwrap_or_default();
    let said: Option<serde_json::Value> = serde_json::from_str(last).ok();
    match said.as_ref().and_then(|said| said["plan_id"].as_str()) {
        Some(id) if status.success() => Ok(id.to_owned()),
        _ => Err(refusal("plan", status, &stderr, "halobook plan --help")),
    }
}
