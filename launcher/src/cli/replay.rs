//! `halobook replay`: a run once more.

use super::background::Work;
use super::outcome::{Said, tell};
use super::train::Trainer;
use super::words::Words;
use super::{Program, background};
use crate::replay::resolve_replay;
use crate::{Result, store};

/// `halobook replay RUN`.
pub fn replay(words: &[String], program: &Program) -> Result<i32> {
    let (words, detached) = background::detached(words);
    let asked = Words::sort(&words, &["json", "quiet", "bg"], &["run-id"])?;
    let [run] = asked.names(["RUN"])?;
    let run_id = asked.value("run-id").map(str::to_owned);
    if asked.has("bg") {
        let id = run_id.unwrap_or_else(store::new_id);
        return background::start(&Work::run("replay", &id), &words, asked.has("json"));
    }
    let (resolved, of) = resolve_replay(program.strategies, run)?;
    let (run_dir, manifest) = Trainer {
        resolved,
        run_id,
        replays: Some(of),
        quiet: asked.has("quiet"),
        detached,
        announced: None,
    }
    .carry_out()?;
    let said = Said::of(asked.has("json"), asked.has("quiet"));
    tell(&run_dir, &manifest, said)
}
