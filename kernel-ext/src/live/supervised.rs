//! A `halobook` process that carries out one run while its cell waits.
//!
//! It has nothing of the kernel but two pipes, and does not mind when nobody reads them: of a kernel
//! that is killed the run goes on to its end. A kernel that is shut down or restarted raises the
//! interrupt of whoever waits, so the run stops after its epoch; whoever wants another thing says
//! `--bg`.

use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use super::follow::Follower;
use super::interrupt::Meaning;
use super::streamed::Streamed;
use super::{Session, program};
use crate::front::Failure;

/// How often the process and the run folder are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long a supervisor may take to end its ranks before its whole group is ended.
const GRACE: Duration = Duration::from_millis(1500);

/// How it ended.
pub struct Ended {
    /// The process's exit status.
    pub status: ExitStatus,
    /// What it wrote on standard output.
    pub stdout: String,
    /// What it wrote on standard error.
    pub stderr: String,
    /// Whether an interrupt was passed on.
    pub stopped: bool,
    /// The run's card.
    pub follower: Follower,
}

/// Starts `command`, whose run is `id`, and shows the run's card until it has ended. Interrupts
/// are the run's: the first asks it to stop, the second ends it.
///
/// # Errors
/// When the program cannot be started.
pub fn watch(command: &mut Command, id: &str, session: &Session<'_>) -> Result<Ended, Failure> {
    let mut child = program::start(command)?;
    let readers = program::readers(&mut child);
    let follower = Follower::new(id, session.output);
    let mut live = Live {
        child,
        streamed: Streamed::new(follower.run_dir(), session.output),
        follower,
        stopped: false,
        kill_at: None,
    };
    let status = live.watch(session);
    live.streamed.close(live.follower.card.ranks());
    let mut texts = readers.into_iter().map(|r| r.join().unwrap_or_default());
    let mut text = || texts.next().unwrap_or_default();
    Ok(Ended {
        status,
        stdout: text(),
        stderr: text(),
        stopped: live.stopped,
        follower: live.follower,
    })
}

struct Live {
    child: Child,
    follower: Follower,
    streamed: Streamed,
    stopped: bool,
    /// When the whole group is to be ended.
    kill_at: Option<Instant>,
}

impl Live {
    fn watch(&mut self, session: &Session<'_>) -> ExitStatus {
        let mut interrupts = session.interrupt.watch();
        loop {
            if let Some(meaning) = interrupts.look() {
                self.stop(meaning);
            }
            if self.kill_at.is_some_and(|at| Instant::now() >= at) {
                launcher::sys::signal_group(self.child.id(), libc::SIGKILL);
                self.kill_at = None;
            }
            let ended = self.child.try_wait();
            self.follower.look();
            self.streamed.look();
            match ended {
                Ok(Some(status)) => return status,
                Ok(None) => self.follower.draw(),
                // It is no longer ours to wait for, which cannot be: nobody else waits for it.
                Err(_) => return ExitStatus::default(),
            }
            std::thread::sleep(LOOK);
        }
    }

    fn stop(&mut self, meaning: Meaning) {
        self.stopped = true;
        let run_dir = self.follower.run_dir();
        let started = run_dir.join("manifest.json").exists();
        if meaning == Meaning::Ask && started {
            // A run that ended meanwhile has nothing to stop.
            let _ = launcher::stop(run_dir, false);
            self.follower.set_status("stopping at the end of the epoch");
            return;
        }
        // Its supervisor ends the ranks and closes the run; the group goes if it does not.
        let asked = started && launcher::stop(run_dir, true).is_ok();
        let grace = if asked { GRACE } else { Duration::ZERO };
        self.kill_at = Some(Instant::now() + grace);
        self.follower.set_status("being ended");
    }
}
