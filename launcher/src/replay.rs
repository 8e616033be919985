//! A run repeated as it was, and whether its bits came back: `%replay` and `halobook replay`.

use crate::diff::{self, Losses};
use crate::error::{Error, Result};
use crate::manifest::{Manifest, Status};
use crate::resolve::{Resolved, resolve};
use crate::{partition, resume, store};
use gnn_core::strategy::Entry;
use std::fmt;
use std::path::Path;

/// The request of the run `name`, resolved to be done again: every key, the cut and the threads of
/// each rank are that run's. The second part is that run's id.
///
/// # Errors
/// [`Error::Refused`] when that run is still at work or its data set has changed; else as
/// [`resolve`].
pub fn resolve_replay(strategies: &'static [Entry], name: &str) -> Result<(Resolved, String)> {
    let run_dir = store::run_dir(name)?;
    let manifest = Manifest::read(&run_dir)?;
    let run_id = manifest.run_id.clone();
    if manifest.status == Status::Running {
        return Err(Error::refused(
            format!("replay: run {run_id} is still at work"),
            format!("wait for it: halobook wait {run_id}, or %wait {run_id}"),
        ));
    }
    let plan = resume::plan(&run_dir)?;
    let mut resolved = resolve(strategies, plan.spec)?;
    resume::bring_parts(&run_dir, &mut resolved)?;
    if let Some(owner) = &resolved.owner {
        if owner.len() != resolved.data.nodes {
            return Err(Error::refused(
                format!(
                    "replay: {} has {} vertices, and had {} in run {run_id}",
                    manifest.data,
                    resolved.data.nodes,
                    owner.len()
                ),
                "the data set has changed; train with it anew",
            ));
        }
        resolved.report = Some(partition::read_report(&run_dir.join("partition.json"))?);
    }
    resolved.plan.threads = plan.threads;
    resolved.data_name = manifest.data;
    if resolved.starter.label() != manifest.launch {
        resolved.notes.push(format!(
            "ranks are started by {}; those of run {run_id} were by {}",
            resolved.starter.label(),
            manifest.launch
        ));
    }
    Ok((resolved, run_id))
}

/// What came of repeating a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The run that was repeated.
    pub of: String,
    /// The run that repeated it.
    pub by: String,
    /// What was promised: `bitwise`, `same_ranks` or `statistical`.
    pub promised: String,
    /// How the losses compare; none where one of them has no epoch.
    pub losses: Option<Losses>,
    /// What is another machine, program or number of threads.
    pub changed: Vec<String>,
}

/// Compares the losses of a run with those of the one that repeated it.
///
/// # Errors
/// When a run folder cannot be read.
pub fn verdict(of: &Path, by: &Path) -> Result<Verdict> {
    let (old, new) = (Manifest::read(of)?, Manifest::read(by)?);
    let word = |word: Option<String>| word.unwrap_or_else(|| "none".into());
    let changed = diff::machine([&old, &new]).into_iter();
    let changed = changed.map(|(what, [a, b])| format!("{what} {} → {}", word(a), word(b)));
    Ok(Verdict {
        changed: changed.collect(),
        losses: diff::losses(of, by)?,
        of: old.run_id,
        by: new.run_id,
        promised: old.determinism,
    })
}

impl Verdict {
    /// Whether the promise was kept, or could not be judged.
    pub fn is_kept(&self) -> bool {
        self.promised == "statistical" || self.losses.is_none_or(Losses::agree)
    }

    /// What is wrong and what to do, where a promise of the same bits was not kept.
    pub fn complaint(&self) -> Option<(String, String)> {
        let losses = self.losses.filter(|_| !self.is_kept())?;
        let what = format!(
            "the losses of run {} have {}, and {} was promised",
            self.by,
            losses,
            promise(&self.promised)
        );
        let help = match self.changed.is_empty() {
            true => format!(
                "nothing of machine and program has changed: please report it with both runs \
                 ({} and {})",
                self.of, self.by
            ),
            false => format!(
                "{}; the promise is for the same machine and program",
                self.changed.join(", ")
            ),
        };
        Some((what, help))
    }
}

/// One line.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "repeats run {}: ", self.of)?;
        match self.losses {
            Some(losses) => write!(f, "losses have {losses}")?,
            None => write!(f, "no epoch to compare")?,
        }
        write!(f, "; promised: {}", promise(&self.promised))?;
        if !self.changed.is_empty() {
            write!(f, "; changed: {}", self.changed.join(", "))?;
        }
        Ok(())
    }
}

fn promise(class: &str) -> &str {
    match class {
        "bitwise" => "the same bits (bitwise, for any number of ranks)",
        "same_ranks" => "the same bits (same_ranks, for the same number of ranks)",
        _ => "the same distribution, not the same bits (statistical)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(promised: &str, same: usize, changed: &[&str]) -> Verdict {
        Verdict {
            of: "a".into(),
            by: "b".into(),
            promised: promised.into(),
            losses: Some(Losses { same, shared: 4 }),
            changed: changed.iter().map(|&c| c.to_owned()).collect(),
        }
    }

    #[test]
    fn only_a_promise_of_bits_can_be_broken() {
        for (promised, same, kept) in [
            ("bitwise", 4, true),
            ("bitwise", 3, false),
            ("same_ranks", 0, false),
            ("statistical", 0, true),
        ] {
            let verdict = verdict(promised, same, &[]);
            assert_eq!(verdict.is_kept(), kept, "{promised} {same}");
            assert_eq!(verdict.complaint().is_none(), kept, "{promised} {same}");
        }
        let mut none = verdict("bitwise", 0, &[]);
        none.losses = None;
        assert!(none.is_kept() && none.to_string().contains("no epoch"));
    }

    #[test]
    fn what_has_changed_is_said() {
        let verdict = verdict("bitwise", 3, &["version 1 → 2"]);
        let (what, help) = verdict.complaint().expect("three of four");
        assert!(what.contains("the same bits in 3 of 4 epochs"), "{what}");
        assert!(help.contains("version 1 → 2"), "{help}");
        assert!(verdict.to_string().contains("bitwise"), "{verdict}");
    }
}
