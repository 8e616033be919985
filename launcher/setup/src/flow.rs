//! Steps with a name, a clock and a limit, and what stops them.

use crate::exec;
use crate::places::Places;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Why the whole command ends here: what is wrong, and what to do about it.
#[derive(Debug)]
pub struct Stop {
    /// Exit status: 1 a step failed, 2 something has to be done by hand first.
    pub code: u8,
    /// One line: what is wrong.
    pub wrong: String,
    /// What to do.
    pub help: String,
}

impl Stop {
    /// A step failed.
    pub fn failed(wrong: String, help: String) -> Self {
        Self {
            code: 1,
            wrong,
            help,
        }
    }

    /// Something has to be done by hand first.
    pub fn by_hand(wrong: String, help: String) -> Self {
        Self {
            code: 2,
            wrong,
            help,
        }
    }

    /// A file or process could not be handled.
    pub fn io(what: &str, error: &std::io::Error) -> Self {
        Self::failed(format!("{what}: {error}"), String::new())
    }

    /// Prints the two lines to standard error.
    pub fn print(&self) {
        let _ = std::io::stdout().flush();
        if !self.wrong.is_empty() {
            eprintln!("error: {}", self.wrong);
        }
        if !self.help.is_empty() {
            eprintln!("help: {}", self.help);
        }
    }
}

/// The steps so far, for the table at the end.
pub struct Flow {
    places: Places,
    started: Instant,
    rows: Vec<(&'static str, Duration, &'static str)>,
}

/// One running step: notes go under its headline, commands share its clock.
pub struct Step<'a> {
    places: &'a Places,
    name: &'static str,
    deadline: Instant,
    limit: Duration,
    commands: usize,
    skipped: bool,
}

impl Flow {
    /// Starts the clock.
    pub fn new(places: &Places) -> Self {
        Self {
            places: places.clone(),
            started: Instant::now(),
            rows: Vec::new(),
        }
    }

    /// Runs one step: prints `what` it does, runs `body`, prints how long it took.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn step<T>(
        &mut self,
        name: &'static str,
        what: &str,
        limit_minutes: u64,
        body: impl FnOnce(&mut Step) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let limit = Duration::from_secs(60 * limit_minutes);
        let number = self.rows.len() + 1;
        println!("[{number}] {name}: {what} (limit {limit_minutes} min)");
        let started = Instant::now();
        let mut step = Step {
            places: &self.places,
            name,
            deadline: started + limit,
            limit,
            commands: 0,
            skipped: false,
        };
        let outcome = body(&mut step);
        let took = started.elapsed();
        let word = match (&outcome, step.skipped) {
            (Err(_), _) => "failed",
            (Ok(_), true) => "unchanged",
            (Ok(_), false) => "done",
        };
        println!("    {word} after {}", clock(took));
        let _ = std::io::stdout().flush();
        self.rows.push((name, took, word));
        outcome
    }

    /// The table of minutes per step.
    pub fn table(&self) -> String {
        let mut text = format!("{:<14} {:>8}  outcome\n", "step", "minutes");
        for (name, took, word) in &self.rows {
            text += &format!("{name:<14} {:>8.2}  {word}\n", took.as_secs_f64() / 60.0);
        }
        let total = self.started.elapsed().as_secs_f64() / 60.0;
        text + &format!("{:<14} {total:>8.2}\n", "total")
    }
}

impl Step<'_> {
    /// One line under the headline.
    pub fn note(&self, text: impl AsRef<str>) {
        for line in text.as_ref().lines() {
            println!("    {line}");
        }
        let _ = std::io::stdout().flush();
    }

    /// Says that nothing had to be done.
    pub fn unchanged(&mut self) {
        self.skipped = true;
    }

    /// Runs `command` inside this step's limit, its output in the step's log; returns the log.
    ///
    /// # Errors
    /// When it cannot start, ends with another status than 0, or runs past the limit; the log's
    /// tail has been printed then.
    pub fn run(&mut self, command: &mut Command) -> Result<PathBuf, Stop> {
        let (log, ended) = self.try_run(command)?;
        self.judged(command, &log, ended)?;
        Ok(log)
    }

    /// Runs `command` inside this step's limit and beside others of it, its lines and its log under `name`.
    ///
    /// # Errors
    /// As [`Step::run`].
    pub fn beside(&self, name: &str, command: &mut Command) -> Result<(), Stop> {
        let log = self.places.logs().join(format!("{}-{name}.log", self.name));
        let started = Instant::now();
        let say = |line| self.note(format!("{name}: {line}"));
        let ended = exec::run(command, &log, self.deadline, say);
        let ended = self.ended(command, &log, ended)?;
        self.judged(command, &log, ended)?;
        self.note(format!("{name}: done after {}", clock(started.elapsed())));
        Ok(())
    }

    /// Like [`Step::run`], but another status than 0 is the caller's to judge.
    ///
    /// # Errors
    /// When the command cannot start or runs past the limit.
    pub fn try_run(&mut self, command: &mut Command) -> Result<(PathBuf, exec::Ended), Stop> {
        self.commands += 1;
        let suffix = match self.commands {
            1 => String::new(),
            n => format!("-{n}"),
        };
        let file = format!("{}{suffix}.log", self.name.replace(' ', "-"));
        let log = self.places.logs().join(file);
        let ended = exec::run(command, &log, self.deadline, |line| self.note(line));
        Ok((log.clone(), self.ended(command, &log, ended)?))
    }

    /// Another status than 0 as an error, the log's tail printed.
    fn judged(&self, command: &Command, log: &Path, ended: exec::Ended) -> Result<(), Stop> {
        let exec::Ended::Failed(status) = ended else {
            return Ok(());
        };
        self.note(exec::tail(log, 40));
        Err(Stop::failed(
            format!("{}: {} {status}", self.name, exec::words(command)),
            format!("the full output is in {}", self.places.show(log)),
        ))
    }

    /// What kept a command from ending as an error, the log's tail printed.
    fn ended(
        &self,
        command: &Command,
        log: &Path,
        ended: Result<exec::Ended, exec::Fault>,
    ) -> Result<exec::Ended, Stop> {
        match ended {
            Ok(ended) => Ok(ended),
            Err(exec::Fault::Start(error)) => Err(Stop::failed(
                format!(
                    "{}: {} did not start: {error}",
                    self.name,
                    exec::words(command)
                ),
                String::new(),
            )),
            Err(exec::Fault::Limit) => {
                self.note(exec::tail(log, 40));
                Err(Stop::failed(
                    format!(
                        "{}: {} was ended after {}, the limit of this step",
                        self.name,
                        exec::words(command),
                        clock(self.limit)
                    ),
                    format!("the full output is in {}", self.places.show(log)),
                ))
            }
        }
    }
}

/// A duration as people say it.
pub fn clock(took: Duration) -> String {
    let seconds = took.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{} min {:02} s", took.as_secs() / 60, took.as_secs() % 60)
    }
}
