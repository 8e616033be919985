//! Why a run failed: the first rank to fail, in words.

use super::reserve::{FULL, FULL_DISK};
use super::watch::Watch;
use crate::manifest::RunError;
use crate::mpi::{Verdict, read_verdict};
use crate::rank_error::{self, Kind};
use crate::{host, tail};
use gnn_core::record::state::State;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

/// How much of a log is shown.
const LOG_LINES: usize = 20;
/// How much of it is searched for a known cause: libraries may print a stack behind it.
const SEARCHED_LINES: usize = 400;

/// A signal in words.
pub(crate) fn signal_words(signal: i32, out_of_memory: bool) -> String {
    let (what, name) = match signal {
        libc::SIGKILL if out_of_memory => ("killed by the kernel: out of memory", "SIGKILL"),
        libc::SIGKILL => ("killed", "SIGKILL"),
        libc::SIGSEGV => ("segmentation fault", "SIGSEGV"),
        libc::SIGABRT => ("aborted", "SIGABRT"),
        libc::SIGBUS => ("bus error", "SIGBUS"),
        libc::SIGFPE => ("arithmetic error", "SIGFPE"),
        libc::SIGILL => ("illegal instruction", "SIGILL"),
        libc::SIGTERM => ("asked to end", "SIGTERM"),
        libc::SIGINT => ("interrupted", "SIGINT"),
        libc::SIGHUP => ("hung up", "SIGHUP"),
        libc::SIGXCPU => ("over its processor time limit", "SIGXCPU"),
        libc::SIGXFSZ => ("over its file size limit", "SIGXFSZ"),
        libc::SIGPIPE => ("wrote to a closed pipe", "SIGPIPE"),
        other => return format!("ended by signal {other}"),
    };
    format!("{what} ({name})")
}

/// All there is to know when a run has failed.
pub(crate) struct Evidence<'a> {
    pub run_dir: &'a Path,
    pub watch: &'a Watch,
    /// How the started process ended, if it has.
    pub child: Option<ExitStatus>,
    /// Whether ranks are threads of that process.
    pub in_process: bool,
    /// Whether the kernel killed something for want of memory meanwhile.
    pub out_of_memory: bool,
}

/// Who failed and how, before it is put into words.
#[derive(Default)]
struct Cause {
    rank: Option<u32>,
    signal: Option<i32>,
    status: Option<i32>,
}

impl Evidence<'_> {
    /// The first failure, from the most to the least certain source.
    pub fn explain(&self) -> RunError {
        let errors = self.watch.errors();
        let cause = self.cause();
        let own = errors.iter().find(|e| e.kind != Kind::Peer);
        // A signal comes before what lost peers say; what a rank says of itself before a signal.
        let said = own.or(if cause.signal.is_some() {
            None
        } else {
            errors.first()
        });
        let ranks = self.watch.states.len() as u32;
        let rank = said.map(|e| e.rank).or(cause.rank);
        let mut error = RunError {
            name: "HaloRankFailed".into(),
            rank,
            host: host::name(),
            others: (0..ranks).filter(|r| Some(*r) != rank).collect(),
            ..RunError::default()
        };
        if let Some(state) = rank.and_then(|r| self.watch.states.get(r as usize)?.as_ref()) {
            error.phase = Some(state.phase.label().into());
            error.epoch = Some(state.epoch);
        }
        if rank.is_none() {
            // Nobody knows whose end it was; how far ranks had come is known.
            let epochs = self.watch.states.iter().flatten().map(|state| state.epoch);
            error.epoch = epochs.max();
        }
        let log = self.log(rank);
        error.log_tail = log[log.len().saturating_sub(LOG_LINES)..].to_vec();
        match said {
            Some(said) => {
                error.host = said.host.clone();
                error.phase = Some(said.phase.clone());
                error.epoch = Some(said.epoch);
                let verb = if said.kind == Kind::Panic {
                    "panicked"
                } else {
                    "failed"
                };
                error.message = format!("{} {verb}{}: {}", who(rank), place(&error), said.message);
            }
            None => {
                error.signal = cause.signal.map(|s| signal_words(s, self.out_of_memory));
                let what = self.what_happened(&cause, &log);
                let subject = if self.in_process && ranks > 1 {
                    format!("the process of all {ranks} ranks")
                } else {
                    who(rank)
                };
                error.message = format!("{subject} {what}{}", place(&error));
            }
        }
        let lines = error.log_tail.iter().chain([&error.message]);
        if lines.into_iter().any(|line| line.contains(FULL)) {
            error.name = FULL_DISK.into();
        }
        error
    }

    fn cause(&self) -> Cause {
        let launch = std::fs::read(self.run_dir.join("logs/launch.log")).unwrap_or_default();
        let verdict = read_verdict(&String::from_utf8_lossy(&launch)).unwrap_or_default();
        let Verdict {
            rank,
            pid,
            signal,
            status,
        } = verdict;
        let of_pid = |pid: u32| {
            let at = |s: &Option<State>| s.as_ref().is_some_and(|s| s.pid == pid);
            self.watch.states.iter().position(at).map(|r| r as u32)
        };
        let named = rank.or_else(|| pid.and_then(of_pid));
        let first_gone = self.watch.gone.first().copied();
        if self.in_process {
            return Cause {
                rank: Some(self.busy_rank()),
                signal: self.child.and_then(|s| s.signal()),
                status: self.child.and_then(|s| s.code()),
            };
        }
        // The starter saw the signal; who vanished first was seen by us too.
        Cause {
            rank: if signal.is_some() {
                named.or(first_gone)
            } else {
                first_gone.or(named)
            },
            signal,
            status: status.or_else(|| self.child.and_then(|s| s.code())),
        }
    }

    /// Of threads in one process: the one that was not waiting for another when it ended.
    fn busy_rank(&self) -> u32 {
        let busy = |s: &Option<State>| s.as_ref().is_some_and(rank_error::is_busy);
        self.watch.states.iter().position(busy).unwrap_or(0) as u32
    }

    fn what_happened(&self, cause: &Cause, log: &[String]) -> String {
        let allocation = log.iter().find(|l| l.contains("memory allocation of"));
        match (cause.signal, allocation) {
            (_, Some(line)) => format!("ran out of memory ({})", line.trim()),
            (Some(signal), _) => {
                let words = signal_words(signal, self.out_of_memory);
                let by_itself = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
                if by_itself.contains(&signal) {
                    format!("died: {words}")
                } else {
                    format!("was {words}")
                }
            }
            (None, _) => match cause.status {
                Some(0) => "ended before the run was done".into(),
                Some(status) => format!("ended with exit status {status}"),
                None => "vanished without a word".into(),
            },
        }
    }

    /// The end of a rank's log; of the starter's output when no rank came up.
    fn log(&self, rank: Option<u32>) -> Vec<String> {
        let came_up = self.watch.states.iter().any(Option::is_some);
        let file = match rank {
            Some(_) if self.in_process => "rank-0.log".to_owned(),
            Some(rank) => format!("rank-{rank}.log"),
            None if came_up => return Vec::new(),
            None => "launch.log".to_owned(),
        };
        tail::last_lines(&self.run_dir.join("logs").join(file), SEARCHED_LINES)
    }
}

fn who(rank: Option<u32>) -> String {
    rank.map_or_else(|| "a rank".into(), |r| format!("rank {r}"))
}

fn place(error: &RunError) -> String {
    match (&error.phase, error.epoch) {
        (Some(phase), _) if phase == "setup" => " while it set up".into(),
        (Some(phase), Some(epoch)) => format!(" in {phase} of epoch {epoch}"),
        (_, Some(epoch)) => format!(" in epoch {epoch}"),
        _ => " before it came up".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnn_core::record::{Op, Phase, state::StatePage};

    fn folder() -> (tempfile::TempDir, Watch) {
        let dir = tempfile::tempdir().expect("temporary folder");
        for part in ["state", "errors", "logs"] {
            std::fs::create_dir(dir.path().join(part)).expect("folder");
        }
        for rank in 0..3 {
            let path = dir.path().join(format!("state/rank-{rank}"));
            let page = StatePage::create(&path).expect("page");
            page.epoch(17);
            page.phase(Phase::Comm);
            if rank != 1 {
                page.waiting(Op::P2p, 1, 8);
            }
        }
        let mut watch = Watch::new(dir.path(), 3, true, None);
        watch.poll();
        (dir, watch)
    }

    fn explain(dir: &Path, watch: &Watch, in_process: bool, child: Option<i32>) -> RunError {
        let child = child.map(ExitStatus::from_raw);
        Evidence {
            run_dir: dir,
            watch,
            child,
            in_process,
            out_of_memory: false,
        }
        .explain()
    }

    #[test]
    fn the_starters_verdict_names_rank_and_signal() {
        let (dir, watch) = folder();
        let text =
            "mpirun noticed that process rank 1 with PID 0 on node x exited on signal 9 (Killed).";
        std::fs::write(dir.path().join("logs/launch.log"), text).expect("log");
        std::fs::write(dir.path().join("logs/rank-1.log"), "last words\n").expect("log");
        let error = explain(dir.path(), &watch, false, Some(137 << 8));
        assert_eq!((error.rank, error.epoch), (Some(1), Some(17)));
        assert_eq!(error.signal.as_deref(), Some("killed (SIGKILL)"));
        assert_eq!(
            error.message,
            "rank 1 was killed (SIGKILL) in comm of epoch 17"
        );
        assert_eq!(error.log_tail, ["last words"]);
        assert_eq!(error.others, [0, 2]);
    }

    #[test]
    fn what_a_rank_says_itself_comes_first_and_lost_peers_last() {
        let (dir, watch) = folder();
        for (rank, kind, t) in [(0, "peer", 1.0), (2, "panic", 5.0)] {
            let text = format!(
                r#"{{"rank":{rank},"host":"h","phase":"loss","epoch":3,"kind":"{kind}","message":"boom","t_ms":{t}}}"#
            );
            std::fs::write(dir.path().join(format!("errors/rank-{rank}.json")), text)
                .expect("file");
        }
        assert!(watch.has_failure());
        let error = explain(dir.path(), &watch, false, Some(1 << 8));
        assert_eq!(error.rank, Some(2));
        assert_eq!(error.message, "rank 2 panicked in loss of epoch 3: boom");
    }

    #[test]
    fn threads_share_the_fate_of_their_process() {
        let (dir, watch) = folder();
        let error = explain(dir.path(), &watch, true, Some(libc::SIGSEGV));
        assert_eq!(error.rank, Some(1), "the one that was not waiting");
        let expected =
            "the process of all 3 ranks died: segmentation fault (SIGSEGV) in comm of epoch 17";
        assert_eq!(error.message, expected);
    }

    #[test]
    fn running_out_of_memory_is_said() {
        let (dir, watch) = folder();
        std::fs::write(
            dir.path().join("logs/rank-0.log"),
            "memory allocation of 99 bytes failed\n",
        )
        .expect("log");
        let error = explain(dir.path(), &watch, true, Some(libc::SIGABRT));
        assert!(
            error
                .message
                .contains("ran out of memory (memory allocation of 99"),
            "{}",
            error.message
        );
        assert_eq!(
            signal_words(9, true),
            "killed by the kernel: out of memory (SIGKILL)"
        );
        assert_eq!(signal_words(64, false), "ended by signal 64");
    }
}
