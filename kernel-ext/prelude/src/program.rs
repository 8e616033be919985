//! The `halobook` program, as cells start it.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use launcher::{Error, Result, request, sys};

use crate::interrupt;

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

/// What a program that has ended said.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `halobook` with `--json` and keys and values, and waits for it.
pub(crate) fn halobook(args: &[&str], pairs: Vec<request::Pair>) -> Result<Ended> {
    interrupt::check();
    let mut command = Command::new(program());
    command.args(args).arg("--json");
    for (key, value) in pairs {
        command.arg("--set").arg(format!("{key}={value}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    // When the cell's process is killed, the run finishes its epoch and leaves.
    sys::end_with_parent(&mut command, TERMINATE);
    let child = command.stderr(Stdio::piped()).spawn().map_err(|e| {
        Error::refused(
            format!("`halobook` cannot be started: {e}"),
            "put it on the search path, or name it in HALOBOOK_BIN",
        )
    })?;
    ended(child)
}

/// The error that a program wrote, with what to do about it.
pub(crate) fn refusal(command: &str, status: ExitStatus, said: &str, help: &str) -> Error {
    let line = |start: &str| said.lines().find_map(|line| line.strip_prefix(start));
    let otherwise = || format!("halobook {command} ended with {status}");
    Error::refused(
        line("error: ").map_or_else(otherwise, str::to_owned),
        line("help: ").map_or_else(|| help.to_owned(), str::to_owned),
    )
}

/// Waits for a program and reads what it says; an interrupt of the cell is handed on to it once.
fn ended(mut child: Child) -> Result<Ended> {
    let pid = child.id();
    let stdout = child.stdout.take().map(read);
    let stderr = child.stderr.take().map(read);
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
    let said = |reader: Option<JoinHandle<String>>| {
        reader
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default()
    };
    Ok(Ended {
        status,
        stdout: said(stdout),
        stderr: said(stderr),
    })
}

/// Reads a pipe to its end, beside whatever else is done.
fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut said = Vec::new();
        // What cannot be read was not said.
        let _ = pipe.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    })
}
