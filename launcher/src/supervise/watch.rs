//! What the ranks say about themselves: status pages, error files, life and death.

use crate::rank_error::{self, RankError};
use crate::sys;
use gnn_core::record::state::{self, State};
use gnn_core::record::{Phase, now_ns};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The ranks of a run, seen from outside.
pub(crate) struct Watch {
    run_dir: PathBuf,
    /// Last page of each rank.
    pub states: Vec<Option<State>>,
    /// Ranks whose process vanished before they were done, first one first.
    pub gone: Vec<u32>,
    /// Whether process ids mean something here.
    local: bool,
    /// The process that started the ranks, when it is none of them.
    starter: Option<u32>,
    progress: Instant,
    newest_beat: u64,
    set_up_cpu: (Instant, u64),
}

impl Watch {
    /// Watches `ranks` ranks; `local` when they run on this machine, `starter` the process that
    /// started them when it is none of them.
    pub fn new(run_dir: &Path, ranks: usize, local: bool, starter: Option<u32>) -> Watch {
        let now = Instant::now();
        Watch {
            run_dir: run_dir.to_owned(),
            states: vec![None; ranks],
            gone: Vec::new(),
            local,
            starter,
            progress: now,
            newest_beat: 0,
            set_up_cpu: (now, 0),
        }
    }

    /// Reads every page; returns ranks that have come up since the last call, with their process.
    pub fn poll(&mut self) -> Vec<(u32, u32)> {
        let mut up = Vec::new();
        for rank in 0..self.states.len() {
            let Some(state) = state::read(&self.run_dir.join(format!("state/rank-{rank}"))) else {
                continue;
            };
            if self.states[rank].is_none() {
                up.push((rank as u32, state.pid));
            }
            if state.heartbeat_ns > self.newest_beat {
                self.newest_beat = state.heartbeat_ns;
                self.progress = Instant::now();
            }
            let vanished = self.local
                && state.phase != Phase::Done
                && !self.gone.contains(&(rank as u32))
                && !sys::is_alive(state.pid);
            // It may have finished between the read of its page and the look at its process.
            let page = || state::read(&self.run_dir.join(format!("state/rank-{rank}")));
            if vanished && page().is_none_or(|s| s.phase != Phase::Done) {
                self.gone.push(rank as u32);
            }
            self.states[rank] = Some(state);
        }
        up
    }

    /// What failing ranks wrote: first cause first, lost peers last.
    pub fn errors(&self) -> Vec<RankError> {
        rank_error::read_all(&self.run_dir, self.states.len() as u32)
    }

    /// Whether something has gone wrong that the starter may not have noticed yet.
    pub fn has_failure(&self) -> bool {
        let dir = self.run_dir.join("errors");
        !self.gone.is_empty()
            || std::fs::read_dir(dir).is_ok_and(|mut files| {
                files.any(|f| f.is_ok_and(|f| f.path().extension().is_some_and(|e| e == "json")))
            })
    }

    /// How long no rank has shown progress. While ranks read and cut their data they have no
    /// epochs to show; there, using a processor is progress.
    pub fn idle(&mut self) -> Duration {
        let sets_up = |s: &State| s.phase == Phase::Setup && s.op.is_none();
        let setting_up = self.states.iter().any(|s| s.as_ref().is_none_or(sets_up));
        if setting_up && self.set_up_cpu.0.elapsed() > Duration::from_millis(200) {
            // A rank that waits uses its processor too, but gets nowhere by it.
            let pids = |busy: bool| -> Vec<u32> {
                let known = self.states.iter().flatten();
                known
                    .filter(|s| sets_up(s) == busy)
                    .map(|s| s.pid)
                    .collect()
            };
            let (busy, waiting) = (pids(true), pids(false));
            let counts = |pid: &u32| {
                Some(*pid) != self.starter && (busy.contains(pid) || !waiting.contains(pid))
            };
            let processes = sys::started_with(&self.run_dir).into_iter().filter(counts);
            let ticks = processes.filter_map(sys::cpu_ticks).sum();
            if ticks > self.set_up_cpu.1 || !self.local {
                self.progress = Instant::now();
            }
            self.set_up_cpu = (Instant::now(), ticks);
        }
        self.progress.elapsed()
    }

    /// Seconds since a rank began what it does now.
    pub fn since(state: &State) -> f64 {
        now_ns().saturating_sub(state.since_ns) as f64 / 1e9
    }
}
