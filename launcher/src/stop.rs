//! Ending a run: by request, or by force.

use crate::error::{Error, Result};
use crate::manifest::{Manifest, Status};
use crate::sys;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// What the stop file says when the run is to end without finishing its epoch.
const NOW: &str = "now";

/// Whether a run has been asked to stop.
pub(crate) fn is_asked(run_dir: &Path) -> bool {
    run_dir.join("stop").exists()
}

/// Whether it has been asked to stop at once.
pub(crate) fn is_asked_now(run_dir: &Path) -> bool {
    std::fs::read_to_string(run_dir.join("stop")).is_ok_and(|text| text.trim() == NOW)
}

/// Leaves the request in the run folder.
pub(crate) fn ask(run_dir: &Path, now: bool) -> Result<()> {
    let path = run_dir.join("stop");
    let text = if now { NOW } else { "" };
    std::fs::write(&path, text).map_err(Error::io(&path))
}

/// Asks a run to stop at the end of its epoch, or at once. Returns whether it was still running.
/// Processes of a run whose supervisor is gone are ended here.
///
/// # Errors
/// When the run folder cannot be read or written.
pub fn stop(run_dir: &Path, now: bool) -> Result<bool> {
    let manifest = Manifest::read(run_dir)?;
    if manifest.status == Status::Running {
        ask(run_dir, now)?;
        return Ok(true);
    }
    let left = sys::started_with(run_dir);
    left.iter().for_each(|&pid| sys::signal(pid, libc::SIGKILL));
    Ok(!left.is_empty())
}

/// Ends everything that was started for a run and waits until it is gone: the ranks first, then
/// the starter, which is given a moment to clean up after itself.
pub(crate) fn end_processes(run_dir: &Path, child: &mut Child) {
    const CLEAN_UP: Duration = Duration::from_millis(900);
    const GONE: Duration = Duration::from_secs(2);
    let group = child.id();
    let running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
    let others = |group: u32| -> Vec<u32> {
        sys::started_with(run_dir)
            .into_iter()
            .filter(|&pid| pid != group)
            .collect()
    };
    if running(child) {
        others(group)
            .iter()
            .for_each(|&pid| sys::signal(pid, libc::SIGKILL));
        sys::signal(group, libc::SIGTERM);
        let since = Instant::now();
        while running(child) && since.elapsed() < CLEAN_UP {
            std::thread::sleep(Duration::from_millis(5));
        }
        if running(child) {
            // The group is ours as long as its leader has not been waited for.
            sys::signal_group(group, libc::SIGKILL);
        }
    }
    // Nothing can be done about an error here: the child is gone either way.
    let _ = child.wait();
    let since = Instant::now();
    loop {
        let left = others(group);
        if left.is_empty() || since.elapsed() > GONE {
            return;
        }
        left.iter().for_each(|&pid| sys::signal(pid, libc::SIGKILL));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_group_is_ended_with_what_it_started_and_nobody_else() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let name = dir.path().to_str().expect("a plain path");
        // A starter that starts a rank in a group of its own and ignores the request to end.
        let script = "trap '' TERM; setsid sh -c 'sleep 60' rank \"$1\" & wait; sleep 60";
        let mut child = Command::new("sh")
            .args(["-c", script, "starter", name])
            .process_group(0)
            .spawn()
            .expect("a shell");
        let mut bystander = Command::new("sleep").arg("60").spawn().expect("sleep");
        let began = Instant::now();
        while sys::started_with(dir.path()).len() < 2 && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
        end_processes(dir.path(), &mut child);
        assert!(sys::started_with(dir.path()).is_empty());
        assert!(sys::is_alive(bystander.id()));
        bystander.kill().expect("ours");
        bystander.wait().expect("ours");
    }

    #[test]
    fn a_request_is_a_file() {
        let dir = tempfile::tempdir().expect("temporary folder");
        assert!(!is_asked(dir.path()));
        ask(dir.path(), false).expect("writes");
        assert!(is_asked(dir.path()) && !is_asked_now(dir.path()));
        ask(dir.path(), true).expect("writes");
        assert!(is_asked_now(dir.path()));
    }
}
