//! A pool of ranks that stays from cell to cell.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gnn_core::record::state::{self, State};
use gnn_core::record::{Op, now_ns};
use halobook::ranks::{Answer, Ended, Request};
use launcher::mpi::{Mpi, keep_within_host};
use launcher::{host, store, sys};

use super::grouped::named;
use super::interrupt::{Interrupt, Meaning};
use crate::cell::facts::Facts;
use crate::cell::shim;
use crate::front::Failure;

/// How often the pool's folder is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// When whoever watches is told for the first time, and how often from then on.
const LATER: Duration = Duration::from_secs(1);
const BETWEEN: Duration = Duration::from_millis(250);
/// How long ranks may take to start.
const START: Duration = Duration::from_secs(30);
/// How long ranks may go on that wait for one that has failed.
const CONSEQUENCE: Duration = Duration::from_millis(300);
/// How long ranks may take to give up when told.
const GRACE: Duration = Duration::from_secs(3);

/// Why the ranks were told to give up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// A rank had failed.
    Failed,
    /// Somebody asked.
    Interrupted,
    /// The time was up.
    TimedOut,
    /// All that were left waited: who for whom.
    Stalled(String),
}

/// What a cell came to.
#[derive(Debug, Default)]
pub struct Came {
    /// By rank; none from one that was ended.
    pub answers: Vec<Option<Answer>>,
    /// Why ranks were told to give up, if they were.
    pub why: Option<Why>,
    /// Why the pool is gone, if it is.
    pub lost: Option<String>,
}

/// How long a cell may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// In all.
    pub timeout: Option<Duration>,
    /// Without any rank getting on, while all wait.
    pub stall: Duration,
    /// Whether whoever watches is told all the time, and not four times a second.
    pub at_once: bool,
}

/// Ranks that wait for cells.
pub struct Pool {
    child: Child,
    dir: PathBuf,
    /// How many.
    pub ranks: usize,
    cells: u64,
}

impl Pool {
    /// Starts them.
    ///
    /// # Errors
    /// Without MPI, and with what its starter says when they do not come up; an interrupt.
    pub fn up(ranks: usize, facts: &Facts, interrupt: &Interrupt) -> Result<Pool, Failure> {
        let program = facts.ranks.as_ref().ok_or_else(|| {
            Failure::config(
                "ranks need MPI, and this Halobook was built without it",
                ["help: `halobook doctor` says what is missing".to_owned()],
            )
        })?;
        let mpi = Mpi::find().ok_or_else(|| {
            Failure::config(
                "ranks need MPI, and there is no mpirun",
                ["help: install Open MPI or MPICH; `halobook doctor` says more".to_owned()],
            )
        })?;
        let pools = store::home().join("pools");
        sweep(&pools);
        let dir = pools.join(store::new_id());
        let failed = |error: std::io::Error| {
            Failure::config(format!("the pool cannot be started: {error}"), [])
        };
        fs::create_dir_all(dir.join("state")).map_err(failed)?;
        let log = File::create(dir.join("pool.log")).map_err(failed)?;
        let cores = host::cores();
        let words = mpi.command(ranks, ranks > cores);
        let mut command = Command::new(&words[0]);
        shim::restore_environment(&mut command);
        command
            .args(&words[1..])
            .arg(program)
            .arg(&dir)
            .env("RAYON_NUM_THREADS", (cores / ranks).max(1).to_string())
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .process_group(0);
        keep_within_host(&mut command);
        sys::end_with_parent(&mut command, libc::SIGTERM);
        let child = command.spawn().map_err(failed)?;
        let mut pool = Pool {
            child,
            dir,
            ranks,
            cells: 0,
        };
        pool.wait_for_all(interrupt)?;
        Ok(pool)
    }

    fn wait_for_all(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        let (started, mut interrupts) = (Instant::now(), interrupt.watch());
        while self.states().iter().any(Option::is_none) {
            if interrupts.look().is_some() {
                return Err(Failure::new(
                    "HaloInterrupted",
                    "interrupted while the ranks were starting",
                    [],
                ));
            }
            let ended = !self.is_alive();
            if ended || started.elapsed() > START {
                let what = if ended {
                    "the ranks ended while they started"
                } else {
                    "the ranks did not start in time"
                };
                return Err(Failure::new("HaloRankFailed", what, self.log()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// What the ranks' pages say.
    pub fn states(&self) -> Vec<Option<State>> {
        let page = |rank| state::read(&self.dir.join(format!("state/rank-{rank}")));
        (0..self.ranks).map(page).collect()
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The end of what its starter wrote.
    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.join("pool.log")).unwrap_or_default();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let from = lines.len().saturating_sub(12);
        lines[from..]
            .iter()
            .map(|line| format!("  | {line}"))
            .collect()
    }

    /// The folder of the next cell.
    pub fn next_dir(&self) -> PathBuf {
        self.dir.join((self.cells + 1).to_string())
    }

    /// Runs a cell on the ranks, whose library lies in [`Pool::next_dir`]; `meanwhile` is called while it
    /// goes on, four times a second from the first second on, or at every look.
    ///
    /// # Errors
    /// When the pool's folder cannot be written.
    pub fn run(
        &mut self,
        request: &Request,
        limits: Limits,
        interrupt: &Interrupt,
        meanwhile: &mut dyn FnMut(&Pool),
    ) -> Result<Came, Failure> {
        let dir = self.next_dir();
        self.cells += 1;
        let bytes = serde_json::to_vec(request).unwrap_or_default();
        store::write_atomic(&dir.join("request.json"), &bytes)
            .map_err(|error| Failure::config(error.to_string(), []))?;
        let mut came = Came {
            answers: vec![None; self.ranks],
            ..Came::default()
        };
        let (started, mut interrupts) = (Instant::now(), interrupt.watch());
        let (mut told, mut failed) = (None::<Instant>, None::<Instant>);
        let mut next = started + LATER;
        loop {
            for (rank, answer) in came.answers.iter_mut().enumerate() {
                if answer.is_none()
                    && let Ok(bytes) = fs::read(dir.join(format!("rank-{rank}.json")))
                {
                    *answer = serde_json::from_slice(&bytes).ok();
                }
            }
            if came.answers.iter().all(Option::is_some) {
                return Ok(came);
            }
            if !self.is_alive() {
                came.lost = Some(self.died());
                return Ok(came);
            }
            if limits.at_once || Instant::now() >= next {
                next += BETWEEN;
                meanwhile(self);
            }
            let bad = |a: &Answer| matches!(a.ended, Ended::Error(_) | Ended::Panic(..));
            if failed.is_none() && came.answers.iter().flatten().any(bad) {
                failed = Some(Instant::now());
            }
            let why = match interrupts.look() {
                Some(Meaning::Kill) => {
                    self.end();
                    came.why = Some(Why::Interrupted);
                    came.lost = Some("its ranks were ended".into());
                    return Ok(came);
                }
                Some(Meaning::Ask) => Some(Why::Interrupted),
                None if told.is_some() => None,
                None if failed.is_some_and(|at| at.elapsed() > CONSEQUENCE) => Some(Why::Failed),
                None if limits.timeout.is_some_and(|most| started.elapsed() > most) => {
                    Some(Why::TimedOut)
                }
                None => self.stalled(&came, limits.stall).map(Why::Stalled),
            };
            if let Some(why) = why {
                let _ = fs::write(dir.join("cancel"), "");
                told.get_or_insert_with(Instant::now);
                came.why.get_or_insert(why);
            }
            let hopeless = came.why != Some(Why::Interrupted);
            if hopeless && told.is_some_and(|at| at.elapsed() > GRACE) {
                self.end();
                came.lost = Some("ranks that compute could not be told to stop".into());
                return Ok(came);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Who waits for whom, when every rank that has not ended has waited for so long.
    fn stalled(&self, came: &Came, limit: Duration) -> Option<String> {
        let states = self.states();
        let mut waits: Vec<(String, Vec<u32>)> = Vec::new();
        for (rank, answer) in came.answers.iter().enumerate() {
            if answer.is_some() {
                continue;
            }
            let state = states[rank].as_ref()?;
            let since = now_ns().saturating_sub(state.since_ns);
            let (op, peer) = (state.op?, state.peer);
            if u128::from(since) < limit.as_nanos() {
                return None;
            }
            let words = match (op, peer) {
                (Op::P2p, Some(peer)) => format!("recv from {peer}"),
                (op, _) => op.label().to_owned(),
            };
            match waits.iter_mut().find(|(of, _)| *of == words) {
                Some((_, ranks)) => ranks.push(rank as u32),
                None => waits.push((words, vec![rank as u32])),
            }
        }
        let words = waits.iter().map(|(op, ranks)| {
            let verb = if ranks.len() == 1 { "waits" } else { "wait" };
            format!("{} {verb} in {op}", named(ranks))
        });
        let words: Vec<String> = words.collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Why it has ended by itself.
    fn died(&self) -> String {
        let text = fs::read_to_string(self.dir.join("pool.log")).unwrap_or_default();
        let verdict = launcher::mpi::read_verdict(&text).unwrap_or_default();
        let rank = verdict
            .rank
            .map_or("a rank".to_owned(), |r| format!("rank {r}"));
        match (verdict.signal, verdict.status) {
            (Some(signal), _) => format!("{rank} ended by signal {signal}"),
            (None, Some(status)) => format!("{rank} ended with status {status}"),
            (None, None) => format!("{rank} ended"),
        }
    }

    /// What a rank has printed in the last cell so far, from a byte on: `out`, or `err` where standard
    /// error is kept apart.
    pub fn printed(&self, rank: usize, stream: &str, from: u64) -> Vec<u8> {
        let path = self
            .dir
            .join(format!("{}/rank-{rank}.{stream}", self.cells));
        let mut bytes = Vec::new();
        // What was read before an error is all there is to show.
        let _ = File::open(path).and_then(|mut file| {
            file.seek(SeekFrom::Start(from))?;
            file.read_to_end(&mut bytes)
        });
        bytes
    }

    /// Ends the processes.
    fn end(&mut self) {
        sys::signal_group(self.child.id(), libc::SIGKILL);
        let _ = self.child.wait();
    }
}

/// Removes the folders of pools whose kernel was killed: their ranks have ended with it.
fn sweep(pools: &Path) {
    for entry in fs::read_dir(pools).into_iter().flatten().flatten() {
        let dir = entry.path();
        let page = |rank: u32| state::read(&dir.join(format!("state/rank-{rank}")));
        let mut pids = (0..).map_while(page).map(|state| state.pid).peekable();
        // One without a page may just be starting.
        let started = pids.peek().is_some();
        if started && !pids.any(|pid| sys::was_started_with(pid, &dir)) {
            let _ = fs::remove_dir_all(&dir);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.end();
        // The starter cannot end ranks of its own when it is killed; theirs are known by their pages.
        for state in self.states().into_iter().flatten() {
            if sys::was_started_with(state.pid, &self.dir) {
                sys::signal(state.pid, libc::SIGKILL);
            }
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
