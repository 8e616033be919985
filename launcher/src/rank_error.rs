//! What a failing rank writes about itself: `errors/rank-K.json`.

use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::time::Utc;
use crate::{host, store};
use gnn_core::record::state::{self, State};
use gnn_core::record::{Phase, state::read};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How a rank came to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A fault of the program.
    Panic,
    /// An error of its own.
    Error,
    /// It only lost another rank.
    Peer,
}

/// A rank's last words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankError {
    /// The rank.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Where it was.
    pub phase: String,
    /// Its epoch.
    pub epoch: u64,
    /// How it came to fail.
    pub kind: Kind,
    /// What happened, one line.
    pub message: String,
    /// When, since the run's start.
    pub t_ms: f64,
}

/// Writes a rank's last words, unless it has written some already. Where it was comes from its
/// status page.
///
/// # Errors
/// When the run folder cannot be written.
pub fn write(run_dir: &Path, rank: u32, kind: Kind, message: &str) -> Result<()> {
    let path = run_dir.join("errors").join(format!("rank-{rank}.json"));
    if path.exists() {
        return Ok(());
    }
    let state = read(&run_dir.join(format!("state/rank-{rank}")));
    let started = Manifest::read(run_dir)
        .ok()
        .and_then(|m| Utc::parse(&m.started));
    let words = RankError {
        rank,
        host: host::name(),
        phase: state
            .as_ref()
            .map_or(Phase::Setup, |s| s.phase)
            .label()
            .to_owned(),
        epoch: state.as_ref().map_or(0, |s| s.epoch),
        kind,
        message: message.lines().collect::<Vec<_>>().join(" "),
        t_ms: started.map_or(0.0, |start| (Utc::now().ms - start.ms) as f64),
    };
    let text = serde_json::to_vec(&words).map_err(|source| Error::Json {
        path: path.clone(),
        source,
    })?;
    store::write_atomic(&path, &text)
}

/// All last words of a run: first cause first, lost peers last.
pub fn read_all(run_dir: &Path, ranks: u32) -> Vec<RankError> {
    let mut errors: Vec<RankError> = (0..ranks)
        .filter_map(|rank| {
            let path = run_dir.join(format!("errors/rank-{rank}.json"));
            serde_json::from_slice(&std::fs::read(path).ok()?).ok()
        })
        .collect();
    errors.sort_by(|a, b| {
        (a.kind == Kind::Peer)
            .cmp(&(b.kind == Kind::Peer))
            .then(a.t_ms.total_cmp(&b.t_ms))
    });
    errors
}

/// Of several ranks in one process that failed together: the one that was not waiting for another.
pub fn busy_rank(run_dir: &Path, ranks: u32) -> u32 {
    let page = |rank: &u32| state::read(&run_dir.join(format!("state/rank-{rank}")));
    (0..ranks)
        .find(|rank| page(rank).is_some_and(|s| is_busy(&s)))
        .unwrap_or(0)
}

/// Whether a rank was at work, not waiting for another and not done.
pub(crate) fn is_busy(state: &State) -> bool {
    state.op.is_none() && state.phase != Phase::Done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::sample;
    use gnn_core::record::Op;
    use gnn_core::record::state::StatePage;

    #[test]
    fn last_words_say_where_the_rank_was_and_are_written_once() {
        let dir = tempfile::tempdir().expect("temporary folder");
        for part in ["errors", "state"] {
            std::fs::create_dir(dir.path().join(part)).expect("folder");
        }
        sample("20260102-030405-abcd")
            .write(dir.path())
            .expect("manifest");
        let page = |rank: u32| {
            StatePage::create(&dir.path().join(format!("state/rank-{rank}"))).expect("page")
        };
        let (zero, one) = (page(0), page(1));
        zero.waiting(Op::Allreduce, 1, 4);
        one.epoch(6);
        one.phase(Phase::Loss);
        assert_eq!(busy_rank(dir.path(), 2), 1);
        write(dir.path(), 0, Kind::Peer, "rank 1 is gone").expect("writes");
        write(dir.path(), 1, Kind::Panic, "two\nlines").expect("writes");
        write(dir.path(), 1, Kind::Error, "later").expect("keeps the first");
        let errors = read_all(dir.path(), 2);
        assert_eq!(errors.iter().map(|e| e.rank).collect::<Vec<_>>(), [1, 0]);
        let first = &errors[0];
        assert_eq!(
            (first.phase.as_str(), first.epoch, first.message.as_str()),
            ("loss", 6, "two lines")
        );
        assert!(first.t_ms > 0.0);
    }
}
