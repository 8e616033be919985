//! `--bg`: a run whose supervisor is a process by itself.
//!
//! This program is started again, without `--bg`, in a session of its own. Until its run has
//! started it belongs to whoever asked for it: refusals come back over its standard error, and it
//! ends with its parent. From then on its output goes to the run's `logs/supervisor.log` and it
//! ends when the run does. That its end of the pipe closes is the sign that one or the other
//! has happened.

use crate::{Error, Result, store, sys};
use serde_json::json;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// The flag under which this program is started again; nobody else gives it.
const DETACHED: &str = "--detached";

/// The words without that flag, and whether it was among them.
pub fn detached(words: &[String]) -> (Vec<String>, bool) {
    let others = words.iter().filter(|word| *word != DETACHED);
    let others: Vec<String> = others.cloned().collect();
    let detached = others.len() < words.len();
    (others, detached)
}

/// Starts `halobook COMMAND WORDS` in the background and returns when its run has started, with
/// status 0 and the run's id on standard output, or was refused, with its words and its status.
///
/// # Errors
/// When this program cannot be started again.
pub fn start(command: &str, words: &[String], id: &str, json: bool) -> Result<i32> {
    let program = std::env::current_exe().map_err(Error::io(Path::new("halobook")))?;
    let mut again = Command::new(&program);
    again
        .arg(command)
        .args(words.iter().filter(|word| *word != "--bg"))
        .args(["--run-id", id])
        .arg(DETACHED)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    sys::in_own_session(&mut again);
    sys::end_with_parent(&mut again, libc::SIGTERM);
    let mut child = again.spawn().map_err(Error::io(&program))?;
    let mut said = Vec::new();
    if let Some(mut pipe) = child.stderr.take() {
        // What was read before an error is all there is to pass on.
        let _ = pipe.read_to_end(&mut said);
    }
    if store::runs_dir().join(id).join("manifest.json").exists() {
        match json {
            true => println!("{}", json!({"run_id": id, "status": "running"})),
            false => println!("{id}"),
        }
        return Ok(0);
    }
    let status = child.wait().map_err(Error::io(&program))?;
    let _ = std::io::stderr().write_all(&said);
    Ok(status.code().unwrap_or(1))
}

/// The run in `run_dir` has started: this process is on its own from now on.
///
/// # Errors
/// When the run's log cannot be written.
pub fn let_go(run_dir: &Path) -> Result<()> {
    // Before the sign, so that the parent's end is not ours.
    sys::outlive_parent();
    let log = run_dir.join("logs/supervisor.log");
    sys::redirect_output(&log).map_err(Error::io(&log))
}
