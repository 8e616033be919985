//! `%%gnn`: a run as a process of its own, watched through its folder.

use std::process::{Command, ExitStatus};

use gnn_core::spec::{KeyType, find_key};
use launcher::store::{self, Manifest, Status};

use super::bound::Thing;
use super::follow::Follower;
use super::{Session, program, report, supervised};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::TrainRequest;

/// Trains, shows the card, binds the run, and returns its table; with `--bg` only until the run
/// has started.
pub fn train(request: &TrainRequest, session: &Session<'_>) -> Outcome {
    let id = store::new_id();
    let mut command = command(request, &id);
    if request.background && !request.dry_run {
        return leave(&mut command, &id, request.output.as_deref(), session);
    }
    let mut ended = supervised::watch(&mut command, &id, session)?;
    if request.dry_run && ended.status.success() {
        return Ok(Some(Shown::text(ended.stdout.trim_end())));
    }
    let run_dir = ended.follower.run_dir().to_owned();
    let Ok(manifest) = Manifest::read(&run_dir) else {
        return Err(nothing_started(&ended.stderr, ended.status, ended.stopped));
    };
    ended.follower.close(&manifest);
    let name = request.output.as_deref();
    let bound = bind(name, &id, session);
    if manifest.status == Status::Ok {
        bound?;
        return Ok(Some(report::finished(
            &run_dir,
            &ended.follower.card,
            &manifest,
        )));
    }
    Err(report::unfinished(&manifest, Some(name.unwrap_or("_run"))))
}

/// Starts a run that nobody waits for, binds it, and leaves its card in the cell.
pub(super) fn leave(
    command: &mut Command,
    id: &str,
    name: Option<&str>,
    session: &Session<'_>,
) -> Outcome {
    command.arg("--bg");
    let ended = program::run(command, session)?;
    if !store::runs_dir().join(id).join("manifest.json").exists() {
        return Err(nothing_started(
            &ended.stderr,
            ended.status,
            ended.interrupted,
        ));
    }
    let mut follower = Follower::new(id, session.output);
    follower.look();
    follower.show();
    follower.leave();
    (session.bind_later)(&binding(name, id, session));
    Ok(None)
}

/// Binds a run to its name, and to `_run`.
pub(super) fn bind(name: Option<&str>, id: &str, session: &Session<'_>) -> Outcome {
    (session.bind)(&binding(name, id, session))
}

/// The Rust that does so; from now on both names stand for the run in magics.
fn binding(name: Option<&str>, id: &str, session: &Session<'_>) -> String {
    let run = Thing::Run(id.to_owned());
    let names = || name.into_iter().chain(["_run"]);
    names().for_each(|name| session.bound.insert(name, run.clone()));
    names().map(|name| session.binding(name, &run)).collect()
}

/// `halobook train` with the cell's keys.
fn command(request: &TrainRequest, id: &str) -> Command {
    let mut command = program::halobook();
    let how = match request.dry_run {
        true => "--dry-run",
        false => "--json",
    };
    command.args(["train", how, "--run-id", id]);
    keys(request, &mut command);
    if request.force {
        command.arg("--force");
    }
    if request.verify {
        command.arg("--verify");
    }
    command
}

/// The cell's keys as flags.
pub(super) fn keys(request: &TrainRequest, command: &mut Command) {
    if let Some(file) = &request.config {
        command.args(["--config", file]);
    }
    for (key, value) in &request.pairs {
        let known = find_key(key).filter(|known| known.kind != KeyType::Switch);
        if known.is_some() && key.len() > 1 {
            command.arg(format!("--{key}")).arg(value);
        } else {
            command.arg("--set").arg(format!("{key}={value}"));
        }
    }
}

/// A failure before there was a run.
pub(super) fn nothing_started(stderr: &str, status: ExitStatus, stopped: bool) -> Failure {
    if stopped {
        return Failure::new("HaloInterrupted", "interrupted before the run started", []);
    }
    program::refusal(stderr, || format!("`halobook train` ended with {status}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_keys_are_flags_and_others_are_settings() {
        let request = TrainRequest {
            pairs: vec![
                ("ranks".into(), "2".into()),
                ("weight-decay".into(), "5e-4".into()),
                ("bound".into(), "0.1".into()),
            ],
            ..TrainRequest::default()
        };
        let command = command(&request, "id");
        let args: Vec<_> = command
            .get_args()
            .map(|arg| arg.to_string_lossy())
            .collect();
        assert_eq!(
            args,
            [
                "train",
                "--json",
                "--run-id",
                "id",
                "--ranks",
                "2",
                "--weight-decay",
                "5e-4",
                "--set",
                "bound=0.1"
            ]
        );
    }

    #[test]
    fn a_refusal_keeps_the_two_lines() {
        use std::os::unix::process::ExitStatusExt;
        let failure = nothing_started(
            "error: no data set `kara`\nhelp: did you mean karate?\n",
            ExitStatus::from_raw(2 << 8),
            false,
        );
        assert_eq!(failure.ename, "HaloConfigError");
        assert_eq!(failure.evalue, "no data set `kara`");
        assert_eq!(failure.traceback[1], "help: did you mean karate?");
    }
}
