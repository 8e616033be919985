//! The `halobook` program as a process of its own, and what it says when it refuses.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Session;
use crate::cell::shim;
use crate::front::{CellOutput, Failure, Shown};

/// Seconds after which it is said that it works.
const MOMENT: u64 = 2;

/// How often its end and an interrupt are looked for.
const LOOK: Duration = Duration::from_millis(10);

/// `halobook` with its output piped, in a process group of its own, so that no signal meant for
/// the kernel reaches it.
pub fn halobook() -> Command {
    let mut command = Command::new(path());
    shim::restore_environment(&mut command);
    command
        .env_remove("EVCXR_TMPDIR")
        .env_remove("EVCXR_CONFIG_DIR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    command
}

/// Starts it.
///
/// # Errors
/// When it is not where it should be.
pub fn start(command: &mut Command) -> Result<Child, Failure> {
    command.spawn().map_err(|error| {
        Failure::new(
            "HaloConfigError",
            format!("`halobook` cannot be started: {error}"),
            [
                "help: it should lie beside the kernel; HALOBOOK_BIN names another place"
                    .to_owned(),
            ],
        )
    })
}

/// Threads that read its standard output and its standard error to their ends.
pub fn readers(child: &mut Child) -> Vec<JoinHandle<String>> {
    let out = child
        .stdout
        .take()
        .map(|p| Box::new(p) as Box<dyn Read + Send>);
    let err = child
        .stderr
        .take()
        .map(|p| Box::new(p) as Box<dyn Read + Send>);
    let pipes = [out, err].into_iter().flatten();
    pipes
        .map(|mut pipe| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was read before an error is all there is to show.
                let _ = pipe.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        })
        .collect()
}

/// What an error line of a run that would not fit begins with.
const REFUSED: &str = "HaloPlanRefused: ";

/// How a program that was run to its end did.
pub struct Ran {
    /// Its exit status.
    pub status: ExitStatus,
    /// What it wrote on standard output.
    pub stdout: String,
    /// What it wrote on standard error.
    pub stderr: String,
    /// Whether an interrupt ended it.
    pub interrupted: bool,
}

/// Runs it to its end; an interrupt ends it.
///
/// # Errors
/// When it cannot be started.
pub fn run(command: &mut Command, session: &Session<'_>) -> Result<Ran, Failure> {
    let mut child = start(command)?;
    let readers = readers(&mut child);
    let mut interrupts = session.interrupt.watch();
    let mut interrupted = false;
    let mut pace = Pace::new(command, session);
    let status = loop {
        pace.look();
        if !interrupted && interrupts.look().is_some() {
            interrupted = true;
            launcher::sys::signal_group(child.id(), libc::SIGKILL);
        }
        match child.try_wait() {
            Ok(None) => std::thread::sleep(LOOK),
            Ok(Some(status)) => break status,
            // It is no longer ours to wait for, which cannot be: nobody else waits for it.
            Err(e) => return Err(Failure::config(format!("`halobook`: {e}"), [])),
        }
    };
    pace.end();
    let mut texts = readers.into_iter().map(|r| r.join().unwrap_or_default());
    let mut text = || texts.next().unwrap_or_default();
    Ok(Ran {
        status,
        stdout: text(),
        stderr: text(),
        interrupted,
    })
}

/// Says every second how long it has worked, where that is more than a moment.
struct Pace<'s> {
    output: &'s CellOutput,
    what: String,
    id: String,
    started: Instant,
    /// Seconds that were said last.
    said: u64,
}

impl<'s> Pace<'s> {
    fn new(command: &Command, session: &'s Session<'_>) -> Pace<'s> {
        let words = command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned());
        let words: Vec<String> = words.filter(|word| word != "--json").collect();
        Pace {
            output: session.output,
            what: words.join(" "),
            id: launcher::store::new_id(),
            started: Instant::now(),
            said: 0,
        }
    }

    fn look(&mut self) {
        let now = self.started.elapsed().as_secs();
        if now < MOMENT || now == self.said {
            return;
        }
        let shown = Shown::text(format!(
            "halobook {}: working for {now} s; an interrupt ends it",
            self.what
        ));
        match self.said {
            0 => self.output.display(&shown, &self.id),
            _ => self.output.update(&shown, &self.id),
        }
        self.said = now;
    }

    fn end(&self) {
        if self.said > 0 {
            let took = self.started.elapsed().as_secs_f64();
            let shown = Shown::text(format!("halobook {}: {took:.1} s", self.what));
            self.output.update(&shown, &self.id);
        }
    }
}

/// A refusal out of what it wrote on standard error; `otherwise` when there is no error line.
pub fn refusal(stderr: &str, otherwise: impl FnOnce() -> String) -> Failure {
    let mut what = None;
    let mut rest = Vec::new();
    let lines = stderr.lines().map(str::trim_end);
    for line in lines.filter(|line| !line.is_empty()) {
        match line.strip_prefix("error: ") {
            Some(text) if what.is_none() => what = Some(text.to_owned()),
            _ => rest.push(line.to_owned()),
        }
    }
    let what = what.unwrap_or_else(otherwise);
    match what.strip_prefix(REFUSED) {
        Some(what) => Failure::new("HaloPlanRefused", what, rest),
        None => Failure::config(what, rest),
    }
}

/// Where it is: named by HALOBOOK_BIN, beside the kernel, or on the search path.
pub fn path() -> PathBuf {
    if let Some(program) = std::env::var_os("HALOBOOK_BIN") {
        return program.into();
    }
    std::env::current_exe()
        .ok()
        .and_then(|exe| exe.canonicalize().ok())
        .map(|exe| exe.with_file_name("halobook"))
        .filter(|program| program.exists())
        .unwrap_or_else(|| "halobook".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_was_refused_has_a_name_of_its_own() {
        let stderr = "error: HaloPlanRefused: rank 1 would need 3 of 2\nhelp: use more ranks\n";
        let failure = refusal(stderr, String::new);
        assert_eq!(failure.ename, "HaloPlanRefused");
        assert_eq!(failure.evalue, "rank 1 would need 3 of 2");
        assert_eq!(failure.traceback[1], "help: use more ranks");
        let other = refusal("error: no such data\n", String::new);
        assert_eq!(other.ename, "HaloConfigError");
    }
}
