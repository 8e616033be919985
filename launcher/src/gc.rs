//! Which runs go when the store has to become smaller: `halobook gc`.

use crate::error::{Error, Result};
use crate::manifest::{Manifest, Status};
use crate::time::Utc;
use crate::{keep, store};
use std::path::Path;

/// What is to be left. Without any of the three, nothing goes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish {
    /// Bytes of all runs at most.
    pub size: Option<u64>,
    /// So many of the newest runs stay, whatever their size and age.
    pub keep: Option<usize>,
    /// Runs that are older than so many days go.
    pub days: Option<f64>,
}

/// A run of the store.
#[derive(Debug, Clone)]
struct Kept {
    run_id: String,
    bytes: u64,
    started_ms: i64,
    /// Neither pinned nor running.
    may_go: bool,
}

/// What a collection comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Runs that go, oldest first.
    pub gone: Vec<String>,
    /// Bytes of those.
    pub freed: u64,
    /// Runs that stay, and their bytes.
    pub left: (usize, u64),
    /// Of those, pinned or running ones.
    pub held: usize,
}

/// Deletes runs until the wish holds, oldest first, never a pinned or a running one; with `dry`, only says which.
///
/// # Errors
/// When the store cannot be listed, or a run not be deleted.
pub fn collect(wish: Wish, dry: bool) -> Result<Collected> {
    let runs: Vec<Kept> = store::list()?.iter().map(kept).collect();
    let collected = chosen(&runs, wish, Utc::now().ms);
    if !dry {
        for run in &collected.gone {
            keep::remove(&store::runs_dir().join(run))?;
        }
    }
    Ok(collected)
}

fn kept(run: &Manifest) -> Kept {
    let dir = store::runs_dir().join(&run.run_id);
    Kept {
        run_id: run.run_id.clone(),
        bytes: bytes(&dir),
        started_ms: Utc::parse(&run.started).map_or(i64::MAX, |started| started.ms),
        may_go: run.status != Status::Running && !keep::is_pinned(&dir),
    }
}

/// Bytes of all files below a folder; links are not followed.
fn bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Which of the runs, oldest first, go.
fn chosen(runs: &[Kept], wish: Wish, now_ms: i64) -> Collected {
    const DAY_MS: f64 = 86_400_000.0;
    let mut left = runs.iter().map(|run| run.bytes).sum::<u64>();
    let mut collected = Collected::default();
    for (at, run) in runs.iter().enumerate() {
        let newer = runs.len() - 1 - at;
        let among_kept = wish.keep.is_some_and(|keep| newer < keep);
        let too_large = wish.size.is_some_and(|size| left > size);
        let age = (now_ms - run.started_ms) as f64 / DAY_MS;
        let too_old = wish.days.is_some_and(|days| age > days);
        // A number to keep says by itself that the others go.
        let only_number = wish.size.is_none() && wish.days.is_none() && wish.keep.is_some();
        if run.may_go && !among_kept && (too_large || too_old || only_number) {
            left -= run.bytes;
            collected.freed += run.bytes;
            collected.gone.push(run.run_id.clone());
        } else {
            collected.held += usize::from(!run.may_go);
        }
    }
    collected.left = (runs.len() - collected.gone.len(), left);
    collected
}

/// [`Error::Refused`] for a wish that says nothing.
///
/// # Errors
/// See there.
pub fn says_something(wish: &Wish) -> Result<()> {
    if wish.size.is_some() || wish.keep.is_some() || wish.days.is_some() {
        return Ok(());
    }
    Err(Error::refused(
        "gc: it is not said what is to be left",
        "write --size 10GB, --keep 100 or --days 30, with --dry-run to see first which runs go",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs() -> Vec<Kept> {
        let run = |k: u32| Kept {
            run_id: k.to_string(),
            bytes: 10,
            started_ms: i64::from(k) * 86_400_000,
            may_go: k != 1,
        };
        (0..5).map(run).collect()
    }

    fn gone(wish: Wish) -> Vec<String> {
        chosen(&runs(), wish, 5 * 86_400_000).gone
    }

    #[test]
    fn the_oldest_go_and_pinned_ones_stay() {
        let size = |size| Wish {
            size: Some(size),
            ..Wish::default()
        };
        assert_eq!(gone(size(50)), [""; 0]);
        assert_eq!(gone(size(35)), ["0", "2"]);
        assert_eq!(gone(size(0)), ["0", "2", "3", "4"]);
        let keep = Wish {
            keep: Some(2),
            ..Wish::default()
        };
        assert_eq!(gone(keep), ["0", "2"]);
        let days = Wish {
            days: Some(2.5),
            ..Wish::default()
        };
        assert_eq!(gone(days), ["0", "2"]);
        let both = Wish {
            keep: Some(3),
            ..size(0)
        };
        assert_eq!(gone(both), ["0"]);
        assert_eq!(gone(Wish::default()), [""; 0]);
        let collected = chosen(&runs(), keep, 5 * 86_400_000);
        assert_eq!(
            (collected.freed, collected.left, collected.held),
            (20, (3, 30), 1)
        );
    }
}
