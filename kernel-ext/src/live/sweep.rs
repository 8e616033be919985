//! `%%sweep`: many runs in a process of their own, watched through the sweep's folder.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use halobook::df_html;
use launcher::store;
use launcher::sweep::{self as sweeps, Ended, Event};
use launcher::tail::Tail;

use super::bound::Thing;
use super::{Session, program, train};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::SweepRequest;
use crate::text::escape;

/// How often the folder is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// The card is redrawn at most this often.
const REDRAW: Duration = Duration::from_millis(250);
/// A sweep shorter than this shows no card.
const CARD_AFTER: Duration = Duration::from_secs(1);
/// Rows on the card, the last ones.
const ROWS: usize = 8;

/// Trains every setting, shows how far it is, binds the frame and returns it.
pub fn sweep(request: &SweepRequest, session: &Session<'_>) -> Outcome {
    let id = store::new_id();
    let child = program::start(&mut command(request, &id))?;
    let mut live = Live::new(child, &id, session);
    let said = live.watch();
    let stdout = live.texts();
    if request.runs.dry_run && live.ok {
        return Ok(Some(Shown::text(stdout.0.trim_end())));
    }
    let dir = sweeps::sweeps_dir().join(&id);
    let frame = sweeps::load(&dir);
    let Ok(frame) = frame else {
        if live.stopped {
            let what = "interrupted before a setting had ended";
            return Err(Failure::new("HaloInterrupted", what, []));
        }
        let otherwise = || "`halobook sweep` ended without a row".to_owned();
        return Err(program::refusal(&stdout.1, otherwise));
    };
    live.draw(true);
    let name = request.runs.output.as_deref();
    let rows = Thing::Sweep(id.clone());
    let names = || name.into_iter().chain(["_sweep"]);
    let code: String = names().map(|name| rows.binding(name)).collect();
    (session.bind)(&code)?;
    names().for_each(|name| session.bound.insert(name, rows.clone()));
    if said == Some(Ended::Interrupted) || live.stopped {
        let bound = name.unwrap_or("_sweep");
        return Err(Failure::new(
            "HaloInterrupted",
            format!(
                "stopped after {} of {} settings",
                live.rows.len(),
                live.settings
            ),
            [
                format!("{bound} is bound with their rows; every Rust variable is intact"),
                "help: run the cell with --resume to go on".to_owned(),
            ],
        ));
    }
    let line = live.line();
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

/// A sweep under way.
struct Live<'a> {
    child: Child,
    dir: PathBuf,
    session: &'a Session<'a>,
    started: Instant,
    /// How long it took, once it has ended.
    took: Option<Duration>,
    display_id: String,
    shown: bool,
    drawn: Option<Instant>,
    /// Whether an interrupt was passed on.
    stopped: bool,
    /// Whether it ended as it should.
    ok: bool,
    settings: usize,
    /// Words of what runs, by order.
    running: Vec<(u32, String)>,
    rows: Vec<sweeps::Row>,
    readers: Vec<std::thread::JoinHandle<String>>,
    /// A line a setting instead of a card.
    plain: bool,
}

impl<'a> Live<'a> {
    fn new(mut child: Child, id: &str, session: &'a Session<'a>) -> Live<'a> {
        let readers = program::readers(&mut child);
        Live {
            child,
            dir: sweeps::sweeps_dir().join(id),
            session,
            started: Instant::now(),
            took: None,
            display_id: format!("halobook-sweep-{id}"),
            shown: false,
            drawn: None,
            stopped: false,
            ok: false,
            settings: 0,
            running: Vec::new(),
            rows: Vec::new(),
            readers,
            plain: std::env::var_os("HALOBOOK_NONINTERACTIVE").is_some_and(|value| value == "1"),
        }
    }

    /// Follows it until it has ended; how it says that it did.
    fn watch(&mut self) -> Option<Ended> {
        let mut tail = Tail::open(self.dir.join("events.jsonl"));
        let mut interrupts = self.session.interrupt.watch();
        let mut how = None;
        loop {
            if interrupts.look().is_some() {
                // It tells the first from the second itself.
                self.stopped = true;
                self.drawn = None;
                launcher::sys::signal(self.child.id(), libc::SIGINT);
            }
            let ended = self.child.try_wait();
            for line in tail.next_lines().unwrap_or_default() {
                if let Ok(event) = serde_json::from_str(&line) {
                    how = self.event(event).or(how);
                }
            }
            match ended {
                Ok(None) => self.draw(false),
                Ok(Some(status)) => {
                    self.took = Some(self.started.elapsed());
                    self.ok = status.success();
                    return how;
                }
                // It is no longer ours to wait for, which cannot be: nobody else waits for it.
                Err(_) => return how,
            }
            std::thread::sleep(LOOK);
        }
    }

    fn event(&mut self, event: Event) -> Option<Ended> {
        match event {
            Event::Begin { settings } => self.settings = settings,
            Event::Start { order, words, .. } => self.running.push((order, words)),
            Event::Row(row) => {
                self.running.retain(|(order, _)| *order != row.order);
                self.rows.push(*row);
                if self.plain {
                    let line = self.rows.last().map(said).unwrap_or_default();
                    self.session.output.stdout(&format!("{line}\n"));
                }
            }
            Event::End { how } => return Some(how),
        }
        None
    }

    /// The sweep in a line.
    fn line(&self) -> String {
        let failed = self.rows.iter().filter(|row| row.status != "ok").count();
        let mut line = format!("{} of {} settings", self.rows.len(), self.settings);
        if failed > 0 {
            line.push_str(&format!(", {failed} without a result"));
        }
        let took = self.took.unwrap_or_else(|| self.started.elapsed());
        let seconds = took.as_secs_f64();
        line.push_str(&format!(" · {seconds:.1} s"));
        let taken = self.rows.iter().filter(|row| row.reused).count();
        if taken > 0 {
            line.push_str(&format!(" · {taken} taken over"));
        }
        line
    }

    fn draw(&mut self, last: bool) {
        let soon = self.started.elapsed() < CARD_AFTER
            || self.drawn.is_some_and(|at| at.elapsed() < REDRAW);
        if self.plain || (last && !self.shown) || (!last && soon) {
            return;
        }
        let card = self.card();
        if self.shown {
            self.session.output.update(&card, &self.display_id);
        } else {
            self.session.output.display(&card, &self.display_id);
            self.shown = true;
        }
        self.drawn = Some(Instant::now());
    }

    /// How far it is: what runs, and the last rows.
    fn card(&self) -> Shown {
        let mut head = format!("sweep · {}", self.line());
        if self.stopped && !self.running.is_empty() {
            head.push_str(" · finishing what runs");
        }
        let now: Vec<String> = self
            .running
            .iter()
            .map(|(_, words)| format!("… {words}"))
            .collect();
        let from = self.rows.len().saturating_sub(ROWS);
        let done: Vec<String> = self.rows[from..].iter().map(said).collect();
        let done_share = 100 * self.rows.len() / self.settings.max(1);
        let item = |line: &String| format!("<div>{}</div>", escape(line));
        let html = format!(
            "<div><b>{}</b></div>\
             <svg width=\"100%\" height=\"6\" role=\"img\" aria-label=\"{done_share} % done\">\
             <rect width=\"100%\" height=\"6\" fill=\"#8884\"/>\
             <rect width=\"{done_share}%\" height=\"6\" fill=\"#3b82f6\"/></svg>\
             <small>{}{}</small>",
            escape(&head),
            done.iter().map(item).collect::<String>(),
            now.iter().map(item).collect::<String>(),
        );
        let text = [vec![head], done, now].concat().join("\n");
        Shown::html(text, html)
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

/// A row in a line.
fn said(row: &sweeps::Row) -> String {
    let mut line = format!("{}: {}", row.words(), row.status);
    if let Some(ms) = row.numbers.epoch_ms {
        line.push_str(&format!(", {ms:.2} ms an epoch"));
    }
    if let (Some(metric), Some(test)) = (&row.metric, row.numbers.test) {
        line.push_str(&format!(", test {metric} {test:.3}"));
    }
    if let Some(error) = &row.error {
        line.push_str(&format!(": {error}"));
    }
    line
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
