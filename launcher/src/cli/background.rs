//! `--bg`: a run, or a sweep, whose supervisor is a process by itself.
//!
//! This program is started again, without `--bg`, in a session of its own. Until its run has
//! started it belongs to whoever asked for it: refusals come back over its standard error, and it
//! ends with its parent. From then on its output goes to the run's `logs/supervisor.log` and it
//! ends when the run does. That its end of the pipe closes is the sign that one or the other
//! has happened.

use crate::sweep::sweeps_dir;
use crate::{Error, Result, store, sys};
use serde_json::json;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The flag under which this program is started again; nobody else gives it.
const DETACHED: &str = "--detached";

/// What is started in the background.
pub struct Work<'a> {
    /// The command.
    pub command: &'a str,
    /// What its object on standard output calls the id; the flag that names it is the same with dashes.
    pub id_key: &'a str,
    /// The id.
    pub id: &'a str,
    /// A file that is there once it is under way.
    pub sign: PathBuf,
}

impl Work<'_> {
    /// A run by `train` or `replay`.
    pub fn run<'a>(command: &'a str, id: &'a str) -> Work<'a> {
        Work {
            command,
            id_key: "run_id",
            id,
            sign: store::runs_dir().join(id).join("manifest.json"),
        }
    }

    /// A sweep.
    pub fn sweep(id: &str) -> Work<'_> {
        Work {
            command: "sweep",
            id_key: "sweep_id",
            id,
            sign: sweeps_dir().join(id).join("supervisor.log"),
        }
    }
}

/// The words without that flag, and whether it was among them.
pub fn detached(words: &[String]) -> (Vec<String>, bool) {
    let others = words.iter().filter(|word| *word != DETACHED);
    let others: Vec<String> = others.cloned().collect();
    let detached = others.len() < words.len();
    (others, detached)
}

/// Starts `halobook COMMAND WORDS` in the background and returns when it is under way, with status 0
/// and its id on standard output, or was refused, with its words and its status.
///
/// # Errors
/// When this program cannot be started again.
pub fn start(work: &Work<'_>, words: &[String], json: bool) -> Result<i32> {
    let id = work.id;
    let program = std::env::current_exe().map_err(Error::io(Path::new("halobook")))?;
    let mut again = Command::new(&program);
    again
        .arg(work.command)
        .args(words.iter().filter(|word| *word != "--bg"))
        .args([&format!("--{}", work.id_key.replace('_', "-")), id])
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
    if work.sign.exists() {
        match json {
            true => println!("{}", json!({work.id_key: id, "status": "running"})),
            false => println!("{id}"),
        }
        return Ok(0);
    }
    let status = child.wait().map_err(Error::io(&program))?;
    let _ = std::io::stderr().write_all(&said);
    Ok(status.code().unwrap_or(1))
}

/// What was asked for is under way: this process is on its own from now on, and what it says goes to
/// `log`.
///
/// # Errors
/// When the log cannot be written.
pub fn let_go(log: &Path) -> Result<()> {
    // Before the sign, so that the parent's end is not ours.
    sys::outlive_parent();
    sys::redirect_output(log).map_err(Error::io(log))
}
