//! `halobook sweep`: many settings, one run each.

use super::background::Work;
use super::own::Own;
use super::{Program, background};
use crate::flags::{self, SWEEP};
use crate::sweep::{self, Condition, Ended, Event, Grid, Request, Row, Standing, Sweep};
use crate::tail::Tail;
use crate::{Error, Result, store, sys};
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

/// What `--help` adds.
pub fn help() -> String {
    let flags = flags::help(SWEEP);
    format!("{BEFORE}{flags}{AFTER}")
}

const BEFORE: &str = "
Keys are those of `halobook train`; a list sweeps its key, and several lists are crossed:

  halobook sweep --data karate --strategy [halo,sancus] --ranks [1,2,4] --repeat 5

A list's elements are separated by commas; texts that hold commas are quoted:
--set 'fanout=[\"10,25\", \"5,5\"]'. A file (--config) may hold lists, too.

Other flags:
";

const AFTER: &str = "
An interrupt finishes what runs and leaves the rest; a second one ends what runs. Finished rows
are kept: `halobook sweep … --resume` goes on. A setting that is refused or fails is a row.
";

/// Runs the command.
pub fn sweep(given: &[String], program: &Program) -> Result<i32> {
    let (words, detached) = background::detached(given);
    let (pairs, own) = Own::sort(&words, SWEEP, true)?;
    if own.has("bg") && !own.has("dry-run") {
        let id = own.value("sweep-id").unwrap_or_else(store::new_id);
        return background::start(&Work::sweep(&id), &words, own.has("json"));
    }
    let count = |name: &str| -> Result<usize> {
        let Some(text) = own.value(name) else {
            return Ok(1);
        };
        let number = text.parse().ok().filter(|n| (1..=1_000_000).contains(n));
        number.ok_or_else(|| {
            Error::refused(
                format!("{name}: expected a whole number from 1 on, got {text}"),
                format!("write --{name} 3, for example"),
            )
        })
    };
    let mut grid = Grid::of(pairs)?;
    grid.repeat(count("repeat")?)?;
    let request = Request {
        strategies: crate::strategies::known(program.strategies),
        grid,
        side_by_side: own.has("zip"),
        jobs: count("jobs")?,
        in_order: own.has("in-order"),
        resume: own.has("resume"),
        force: own.has("force"),
        stop_if: own
            .value("stop-if")
            .map(|text| Condition::read(&text))
            .transpose()?,
    };
    if own.has("dry-run") {
        let settings = request.settings()?;
        println!("{} settings, in this order:", settings.len());
        settings.iter().for_each(|words| println!("  {words}"));
        return Ok(0);
    }
    let id = own.value("sweep-id").unwrap_or_else(store::new_id);
    let halobook = std::env::current_exe().map_err(Error::io(Path::new("halobook")))?;
    sys::catch_interrupts();
    let mut progress = Progress {
        shown: !own.has("quiet") && !own.has("json"),
        settings: 0,
        done: 0,
    };
    let log = sweep::sweeps_dir().join(&id).join("supervisor.log");
    let mut let_go = Ok(());
    let mut told = |event: &Event| {
        progress.tell(event);
        // Its settings are known to be right.
        if detached && matches!(event, Event::Begin { .. }) {
            let_go = background::let_go(&log);
        }
    };
    let (how, rows) = Sweep::new(&id, halobook, request, &mut told)?.run()?;
    let_go?;
    if own.has("json") {
        // Without a row there is no frame.
        let path = sweep::dir(&id)?.join("frame.parquet");
        let frame = path.exists().then_some(path);
        println!(
            "{}",
            json!({"sweep_id": id, "ended": how, "rows": rows.len(), "frame": frame})
        );
    } else if !own.has("quiet") {
        println!("sweep {id}: {}", said(how));
        print!("{}", table(&rows));
    }
    Ok(status(how, &rows))
}

/// The exit status of a sweep.
fn status(how: Ended, rows: &[Row]) -> i32 {
    match how {
        Ended::Interrupted => 130,
        _ if rows.iter().all(|row| row.status == "ok") => 0,
        _ => 1,
    }
}

/// Says what a sweep came to that has ended; its exit status.
pub(super) fn tell(sweep: &Standing, json: bool) -> i32 {
    let Standing { id, rows, .. } = sweep;
    let Some(how) = sweep.ended else {
        eprintln!("error: sweep {id} ended without a word\nhelp: its folder has supervisor.log");
        return 1;
    };
    if json {
        println!(
            "{}",
            json!({"sweep_id": id, "ended": how, "rows": rows.len()})
        );
    } else {
        println!("sweep {id}: {}", said(how));
        print!("{}", table(rows));
    }
    status(how, rows)
}

/// Follows a sweep to its end with a line for each setting.
pub(super) fn follow(dir: &Path) -> Standing {
    let mut progress = Progress {
        shown: true,
        settings: 0,
        done: 0,
    };
    let mut tail = Tail::open(dir.join("events.jsonl"));
    loop {
        // Before its events, so that none is missed.
        let now = sweep::standing(dir);
        for line in tail.next_lines().unwrap_or_default() {
            if let Ok(event) = serde_json::from_str(&line) {
                progress.tell(&event);
            }
        }
        if !now.goes_on {
            return now;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn said(how: Ended) -> &'static str {
    match how {
        Ended::Whole => "every setting has a row",
        Ended::Met => "a row meets the condition",
        Ended::Interrupted => "interrupted; --resume goes on",
    }
}

/// A line for each row.
fn table(rows: &[Row]) -> String {
    let wide = rows.iter().map(|row| row.words().chars().count()).max();
    let wide = wide.unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let number =
            |x: Option<f64>, digits: usize| x.map_or("-".into(), |x| format!("{x:.digits$}"));
        let numbers = &row.numbers;
        text.push_str(&format!(
            "  {:<wide$}  {:<11} {:>10} ms/epoch   test {} {:>7}   {}\n",
            row.words(),
            row.status,
            number(numbers.epoch_ms, 2),
            row.metric.as_deref().unwrap_or("-"),
            number(numbers.test, 4),
            row.error
                .as_deref()
                .or(row.run_id.as_deref())
                .unwrap_or("-"),
        ));
    }
    text
}

/// A line on standard error for every setting.
struct Progress {
    shown: bool,
    settings: usize,
    done: usize,
}

impl Progress {
    fn tell(&mut self, event: &Event) {
        let line = match event {
            Event::Begin { settings } => {
                self.settings = *settings;
                return;
            }
            Event::Start { words, .. } if std::io::stderr().is_terminal() => {
                format!("   …     {words}")
            }
            Event::Row(row) => {
                self.done += 1;
                let words = row.words();
                let taken = if row.reused { ", taken over" } else { "" };
                let why = row
                    .error
                    .as_ref()
                    .map_or(String::new(), |e| format!(": {e}"));
                format!(
                    "{:>4}/{:<4} {words}: {}{taken}{why}",
                    self.done, self.settings, row.status
                )
            }
            _ => return,
        };
        if self.shown {
            // Progress that cannot be shown is no reason to fail.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
}
