//! `%%sweep`: many runs in a process of their own, watched through the sweep's folder.

use std::process::{Child, Command};
use std::time::Duration;

use halobook::df_html;
use launcher::store;
use launcher::sweep::{self as sweeps, Ended};

use super::bound::Thing;
use super::sweep_card::SweepCard;
use super::{Session, program, train};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::SweepRequest;
use crate::text::escape;

/// How often the folder is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Trains every setting, shows how far it is, binds the frame and returns it; with `--bg` only until it
/// is under way.
pub fn sweep(request: &SweepRequest, session: &Session<'_>) -> Outcome {
    let id = store::new_id();
    let mut command = command(request, &id);
    if request.runs.background && !request.runs.dry_run {
        let going = thing(request, &id);
        let name = request.runs.output.as_deref();
        return leave(&mut command, &id, (name, going), session);
    }
    let child = program::start(&mut command)?;
    let mut live = Live::new(child, &id, session);
    live.watch();
    let stdout = live.texts();
    if request.runs.dry_run && live.ok {
        return Ok(Some(Shown::text(stdout.0.trim_end())));
    }
    if live.card.rows.is_empty() && !live.card.stopped {
        let otherwise = || "`halobook sweep` ended without a row".to_owned();
        return Err(program::refusal(&stdout.1, otherwise));
    }
    live.card.close();
    let bound = (request.runs.output.as_deref(), thing(request, &id));
    finished(&live.card, bound, session)
}

/// What a sweep is bound as.
fn thing(request: &SweepRequest, id: &str) -> Thing {
    match request.repeats {
        true => Thing::Runs(id.to_owned()),
        false => Thing::Sweep(id.to_owned()),
    }
}

/// Starts a sweep that nobody waits for, and leaves its card in the cell.
fn leave(
    command: &mut Command,
    id: &str,
    (name, thing): (Option<&str>, Thing),
    session: &Session<'_>,
) -> Outcome {
    command.arg("--bg");
    let ran = program::run(command, session)?;
    if !ran.status.success() {
        if ran.interrupted {
            let what = "interrupted before the sweep started";
            return Err(Failure::new("HaloInterrupted", what, []));
        }
        let otherwise = || format!("`halobook sweep` ended with {}", ran.status);
        return Err(program::refusal(&ran.stderr, otherwise));
    }
    let names = || name.into_iter().chain(["_sweep"]);
    let going = Thing::Going(Box::new(thing));
    names().for_each(|name| session.bound.insert(name, going.clone()));
    let mut card = SweepCard::new(id, session.output);
    card.look();
    card.show();
    card.leave();
    Ok(None)
}

/// What a sweep that has ended came to; it is bound as `rows`, to `name` if there is one.
pub(super) fn finished(
    card: &SweepCard,
    (name, rows): (Option<&str>, Thing),
    session: &Session<'_>,
) -> Outcome {
    let Ok(frame) = sweeps::load(&card.dir) else {
        let what = "interrupted before a setting had ended";
        return Err(Failure::new("HaloInterrupted", what, []));
    };
    // Where no run has ended well there are none to bind; the frame says what became of them.
    let rows = match card.rows.iter().any(|row| row.status == "ok") {
        true => rows,
        false => Thing::Sweep(card.id.clone()),
    };
    let names = || name.into_iter().chain(["_sweep"]);
    let code: String = names().map(|name| session.binding(name, &rows)).collect();
    (session.bind)(&code)?;
    names().for_each(|name| session.bound.insert(name, rows.clone()));
    if card.stopped || card.how.is_none_or(|how| how == Ended::Interrupted) {
        let bound = name.unwrap_or("_sweep");
        return Err(Failure::new(
            "HaloInterrupted",
            format!(
                "stopped after {} of {} settings",
                card.rows.len(),
                card.settings
            ),
            [
                format!("{bound} is bound with what has ended; every Rust variable is intact"),
                "help: run the cell with --resume to go on".to_owned(),
            ],
        ));
    }
    let line = card.line();
    Ok(Some(Shown::html(
        format!("{line}\n{frame}"),
        format!("<p>{}</p>{}", escape(&line), df_html(&frame)),
    )))
}

/// `halobook sweep` with the cell's keys.
fn command(request: &SweepRequest, id: &str) -> Command {
    let mut command = program::halobook();
    command.args(["sweep", "--sweep-id", id]);
    for (name, value) in &request.own {
        command.arg(format!("--{name}"));
        if !value.is_empty() {
            command.arg(value);
        }
    }
    train::keys(&request.runs, &mut command);
    command.arg(if request.runs.dry_run {
        "--dry-run"
    } else {
        "--json"
    });
    command
}

/// A sweep that its cell waits for.
struct Live<'a> {
    child: Child,
    card: SweepCard,
    session: &'a Session<'a>,
    /// Whether it ended as it should.
    ok: bool,
    readers: Vec<std::thread::JoinHandle<String>>,
}

impl<'a> Live<'a> {
    fn new(mut child: Child, id: &str, session: &'a Session<'a>) -> Live<'a> {
        let readers = program::readers(&mut child);
        Live {
            child,
            card: SweepCard::new(id, session.output),
            session,
            ok: false,
            readers,
        }
    }

    /// Follows it until it has ended.
    fn watch(&mut self) {
        let mut interrupts = self.session.interrupt.watch();
        loop {
            if interrupts.look().is_some() {
                // It tells the first from the second itself.
                self.card.stopping();
                launcher::sys::signal(self.child.id(), libc::SIGINT);
            }
            let ended = self.child.try_wait();
            self.card.look();
            match ended {
                Ok(None) => self.card.draw(),
                Ok(Some(status)) => {
                    self.ok = status.success();
                    return;
                }
                // It is no longer ours to wait for, which cannot be: nobody else waits for it.
                Err(_) => return,
            }
            std::thread::sleep(LOOK);
        }
    }

    /// What it wrote on standard output and standard error.
    fn texts(&mut self) -> (String, String) {
        let mut texts = self.readers.drain(..).map(|r| r.join().unwrap_or_default());
        (
            texts.next().unwrap_or_default(),
            texts.next().unwrap_or_default(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::magic::{Action, expand};

    #[test]
    fn lists_and_flags_reach_the_command_line() {
        let cell = "%%sweep -o frame --repeat 3 --resume -n [1,2]\n\
                    data = \"karate\"; strategy = [\"halo\", \"sancus\"]\nbound = [\"a=1\", \"b=2\"]";
        let Action::Sweep(request) = expand(cell) else {
            panic!("{:?}", expand(cell))
        };
        assert_eq!(request.runs.output.as_deref(), Some("frame"));
        let command = command(&request, "id");
        let args: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
        assert_eq!(
            args,
            [
                "sweep",
                "--sweep-id",
                "id",
                "--repeat",
                "3",
                "--resume",
                "--ranks",
                "[1,2]",
                "--data",
                "karate",
                "--strategy",
                "[\"halo\", \"sancus\"]",
                "--set",
                "bound=[\"a=1\", \"b=2\"]",
                "--json"
            ]
        );
    }

    #[test]
    fn a_list_is_for_sweeps_only() {
        let Action::Refused(refusal) = expand("%%gnn\nranks = [1, 2]") else {
            panic!("a list is no value")
        };
        assert!(refusal.help.contains("%%sweep"), "{refusal:?}");
    }
}
