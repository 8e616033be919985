//! What the ranks of a run were expected to hold, beside what they hold.

use super::foresee::{Foreseen, SLACK};
use super::read_foreseen;
use gnn_core::record::state::{self, State};
use std::path::Path;

/// What is known of a run, before or while it trains.
#[derive(Debug, Default)]
pub struct Expected {
    foreseen: Vec<Foreseen>,
    pages: Vec<Option<State>>,
}

impl Expected {
    /// Of the run in `run_dir`, from what was foreseen and from its ranks' status pages.
    pub fn read(run_dir: &Path, ranks: u32) -> Expected {
        let page = |rank| state::read(&run_dir.join(format!("state/rank-{rank}")));
        Expected {
            foreseen: read_foreseen(run_dir),
            pages: (0..ranks).map(page).collect(),
        }
    }

    /// What was foreseen of a rank.
    pub fn foreseen(&self, rank: u32) -> Option<&Foreseen> {
        self.foreseen.iter().find(|seen| seen.rank == rank)
    }

    /// What the rank's process held before it trained; none where ranks share a process.
    fn program(&self, rank: u32) -> Option<u64> {
        let page = self.pages.get(rank as usize)?.as_ref()?;
        let same = |other: &&State| other.pid == page.pid;
        let alone = self.pages.iter().flatten().filter(same).count() == 1;
        (alone && page.program > 0).then_some(page.program)
    }

    /// Bytes of a rank's process at its fullest; `training` is the formula of what it does, for when
    /// nobody foresaw the run. A program that no plan has measured is what its process held before.
    pub fn memory(&self, rank: u32, training: Option<u64>) -> Option<u64> {
        let program = self.program(rank);
        let foreseen = self.foreseen(rank).and_then(|seen| {
            let whole = Foreseen {
                program: seen.program.or(program),
                ..seen.clone()
            };
            whole.memory()
        });
        foreseen.or_else(|| {
            let training = (SLACK * training? as f64) as u64;
            Some(training + program.unwrap_or(0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(pid: u32, program: u64) -> Option<State> {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("rank-0");
        drop(state::StatePage::create(&path).expect("page"));
        let page = state::read(&path).expect("a page");
        assert!(page.program > 1 << 20, "a process holds more than nothing");
        Some(State {
            pid,
            program,
            ..page
        })
    }

    #[test]
    fn memory_by_formula_has_the_program_where_a_rank_has_a_process() {
        let own = Expected {
            foreseen: Vec::new(),
            pages: vec![page(1, 30), page(2, 31), None],
        };
        assert_eq!(own.memory(1, Some(100)), Some(151));
        assert_eq!(own.memory(2, Some(100)), Some(120));
        assert_eq!(own.memory(1, None), None);
        let shared = Expected {
            foreseen: Vec::new(),
            pages: vec![page(1, 30), page(1, 30)],
        };
        assert_eq!(shared.memory(1, Some(100)), Some(120));
    }
}
