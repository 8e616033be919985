//! `%%gnn`: a run as a process of its own, watched through its folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use gnn_core::record::{now_ns, state};
use launcher::store::{self, Manifest, Status};
use launcher::tail::Tail;

use super::card::{Card, Lane};
use super::interrupt::Meaning;
use super::{Session, program, report};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::TrainRequest;
use crate::magic::table;

/// How often the run folder is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// A card is redrawn at most this often.
const REDRAW: Duration = Duration::from_millis(250);
/// A run shorter than this shows no card.
const CARD_AFTER: Duration = Duration::from_secs(1);
/// How long a supervisor may take to end its ranks before its whole group is ended.
const GRACE: Duration = Duration::from_millis(1500);

/// Trains, shows the card, binds the run, and returns its table.
pub fn train(request: &TrainRequest, session: &Session<'_>) -> Outcome {
    let id = store::new_id();
    let run_dir = store::runs_dir().join(&id);
    let mut command = command(request, &id);
    let child = program::start(&mut command)?;
    let mut live = Live::new(child, &id, run_dir.clone(), session);
    let status = live.watch();
    let (stdout, stderr) = live.texts();
    if request.dry_run && status.success() {
        return Ok(Some(Shown::text(stdout.trim_end())));
    }
    let Ok(manifest) = Manifest::read(&run_dir) else {
        return Err(nothing_started(&stderr, status, live.stopped));
    };
    live.close(&manifest);
    let name = request.output.as_deref().unwrap_or("_run");
    remember(session, request, &id);
    let bound = (session.bind)(&binding(request, &id));
    if manifest.status == Status::Ok {
        bound?;
        return Ok(Some(report::finished(&run_dir, &live.card, &manifest)));
    }
    Err(report::unfinished(&manifest, name))
}

/// The Rust that binds a run. Types are written out, so that nothing has to be inferred.
fn binding(request: &TrainRequest, id: &str) -> String {
    let mut code = String::new();
    for name in request.output.iter().map(String::as_str).chain(["_run"]) {
        code.push_str(&format!(
            "let {name}: halobook::Run = halobook::Run::open({id:?});\n"
        ));
    }
    code
}

fn remember(session: &Session<'_>, request: &TrainRequest, id: &str) {
    for name in request.output.iter().map(String::as_str).chain(["_run"]) {
        session.remember(name, id);
    }
}

/// `halobook train` with the cell's keys.
fn command(request: &TrainRequest, id: &str) -> Command {
    let mut command = program::halobook();
    command.args(["train", "--json", "--run-id", id]);
    keys(request, &mut command);
    if request.dry_run {
        command.arg("--dry-run");
    }
    if request.force {
        command.arg("--force");
    }
    command
}

/// The cell's keys as flags.
pub(super) fn keys(request: &TrainRequest, command: &mut Command) {
    if let Some(file) = &request.config {
        command.args(["--config", file]);
    }
    let gnn = table::find("gnn");
    for (key, value) in &request.pairs {
        if gnn.is_some_and(|magic| magic.flag(key).is_some() && key.len() > 1) {
            command.arg(format!("--{key}")).arg(value);
        } else {
            command.arg("--set").arg(format!("{key}={value}"));
        }
    }
}

/// A failure before there was a run.
fn nothing_started(stderr: &str, status: ExitStatus, stopped: bool) -> Failure {
    if stopped {
        return Failure::new("HaloInterrupted", "interrupted before the run started", []);
    }
    program::refusal(stderr, || format!("`halobook train` ended with {status}"))
}

/// A run under way.
struct Live<'a> {
    child: Child,
    card: Card,
    run_dir: PathBuf,
    session: &'a Session<'a>,
    started: Instant,
    display_id: String,
    shown: bool,
    drawn: Option<Instant>,
    /// Whether an interrupt was passed on.
    stopped: bool,
    /// When the whole group is to be ended.
    kill_at: Option<Instant>,
    readers: Vec<std::thread::JoinHandle<String>>,
    /// One line per tenth of the epochs instead of a card.
    plain: bool,
    tenths: u64,
}

impl<'a> Live<'a> {
    fn new(mut child: Child, id: &str, run_dir: PathBuf, session: &'a Session<'a>) -> Live<'a> {
        let readers = program::readers(&mut child);
        Live {
            child,
            card: Card::new(id),
            run_dir,
            session,
            started: Instant::now(),
            display_id: format!("halobook-run-{id}"),
            shown: false,
            drawn: None,
            stopped: false,
            kill_at: None,
            readers,
            plain: std::env::var_os("HALOBOOK_NONINTERACTIVE").is_some_and(|value| value == "1"),
            tenths: 0,
        }
    }

    /// Follows the run until its supervisor has ended.
    fn watch(&mut self) -> ExitStatus {
        let mut tail = Tail::open(self.run_dir.join("events.jsonl"));
        let mut interrupts = self.session.interrupt.watch();
        loop {
            if let Some(meaning) = interrupts.look() {
                self.stop(meaning);
            }
            if self.kill_at.is_some_and(|at| Instant::now() >= at) {
                launcher::sys::signal_group(self.child.id(), libc::SIGKILL);
                self.kill_at = None;
            }
            let ended = self.child.try_wait();
            for line in tail.next_lines().unwrap_or_default() {
                self.card.event(&line);
            }
            self.card.elapsed = self.started.elapsed();
            match ended {
                Ok(Some(status)) => return status,
                Ok(None) => self.draw(),
                // It is no longer ours to wait for, which cannot be: nobody else waits for it.
                Err(_) => return ExitStatus::default(),
            }
            std::thread::sleep(LOOK);
        }
    }

    fn stop(&mut self, meaning: Meaning) {
        self.stopped = true;
        let started = self.run_dir.join("manifest.json").exists();
        if meaning == Meaning::Ask && started {
            let _ = std::fs::write(self.run_dir.join("stop"), "");
            self.card.set_status("stopping at the end of the epoch");
            self.drawn = None;
            return;
        }
        // Its supervisor ends the ranks and closes the run; the group goes if it does not.
        let asked = started && launcher::stop(&self.run_dir, true).is_ok();
        let grace = if asked { GRACE } else { Duration::ZERO };
        self.kill_at = Some(Instant::now() + grace);
        self.card.set_status("being ended");
        self.drawn = None;
    }

    fn draw(&mut self) {
        if self.plain {
            let tenth = (10 * self.card.done())
                .checked_div(self.card.epochs())
                .unwrap_or(0);
            if tenth > self.tenths {
                self.tenths = tenth;
                self.session
                    .output
                    .stdout(&format!("{}\n", self.card.line()));
            }
            return;
        }
        if self.started.elapsed() < CARD_AFTER || self.drawn.is_some_and(|at| at.elapsed() < REDRAW)
        {
            return;
        }
        self.card.lanes = lanes(&self.run_dir);
        let shown = self.card.render();
        if self.shown {
            self.session.output.update(&shown, &self.display_id);
        } else {
            self.session.output.display(&shown, &self.display_id);
            self.shown = true;
        }
        self.drawn = Some(Instant::now());
    }

    /// The card's last state.
    fn close(&mut self, manifest: &Manifest) {
        self.card.set_status(manifest.status.label());
        if self.shown {
            self.session
                .output
                .update(&self.card.render(), &self.display_id);
        }
    }

    /// What the supervisor wrote on standard output and standard error.
    fn texts(&mut self) -> (String, String) {
        let mut texts = self
            .readers
            .drain(..)
            .map(|reader| reader.join().unwrap_or_default());
        (
            texts.next().unwrap_or_default(),
            texts.next().unwrap_or_default(),
        )
    }
}

/// What the ranks' status pages say.
fn lanes(run_dir: &Path) -> Vec<Lane> {
    (0..)
        .map_while(|rank| state::read(&run_dir.join(format!("state/rank-{rank}"))))
        .map(|state| Lane {
            phase: state.op.map_or_else(
                || state.phase.label().to_owned(),
                |op| format!("waits in {}", op.label()),
            ),
            epoch: state.epoch,
            peer: state.peer,
            silent_s: now_ns().saturating_sub(state.heartbeat_ns) as f64 / 1e9,
        })
        .collect()
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
    fn the_binding_needs_no_inference() {
        let request = TrainRequest {
            output: Some("r1".into()),
            ..TrainRequest::default()
        };
        assert_eq!(
            binding(&request, "x"),
            "let r1: halobook::Run = halobook::Run::open(\"x\");\n\
             let _run: halobook::Run = halobook::Run::open(\"x\");\n"
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
