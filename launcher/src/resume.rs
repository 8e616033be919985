//! A run goes on from the last whole checkpoint of one that has ended, as a new run.
//!
//! The old run's folder stays as it is. The new one gets its request, its cut, the checkpoint, and the
//! rows of the epochs up to there, so that its frames show all epochs.

use crate::error::{Error, Result};
use crate::manifest::{Manifest, Resumed, Status};
use crate::request::Pair;
use crate::resolve::{Resolved, absolute, resolve};
use crate::store;
use gnn_core::PART_FILES;
use gnn_core::checkpoint::{self, Found, may_change};
use gnn_core::plan::Plan;
use gnn_core::spec::{KEYS, Role, RunSpec, find_key, normalise};
use gnn_core::strategy::Entry;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Where a run goes on from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Folder of the run that has ended.
    pub run_dir: PathBuf,
    /// Its name, and how many of its epochs are kept.
    pub resumed: Resumed,
    /// Its checkpoint.
    pub found: Found,
}

/// The request of the run `name` with what `pairs` change of it, resolved to go on where its last
/// whole checkpoint is. Pairs may only change what does not change an epoch ([`may_change`]).
///
/// # Errors
/// [`Error::Refused`] when that run is still at work, has no checkpoint or nothing left to do; else as
/// [`resolve`].
pub fn resolve_resumed(
    strategies: &'static [Entry],
    name: &str,
    pairs: Vec<Pair>,
) -> Result<Resolved> {
    let run_dir = store::run_dir(name)?;
    let manifest = Manifest::read(&run_dir)?;
    let run_id = manifest.run_id.clone();
    if manifest.status == Status::Running {
        return Err(Error::refused(
            format!("resume: run {run_id} is still at work"),
            format!("wait for it, or end it first: halobook stop {run_id}"),
        ));
    }
    let old = plan(&run_dir)?.spec;
    pairs.iter().try_for_each(|pair| check_pair(&old, pair))?;
    let spec = RunSpec::from_pairs_in(strategies, old.to_pairs().into_iter().chain(pairs))?;
    let found = checkpoint::find(&run_dir).ok_or_else(|| {
        Error::refused(
            format!("resume: run {run_id} has no whole checkpoint"),
            "train with --checkpoint-every N to have one every N epochs",
        )
    })?;
    check_left(&manifest, &old, &spec, &found)?;
    let mut resolved = resolve(strategies, spec)?;
    if resolved.digest != found.digest {
        return Err(Error::refused(
            format!("resume: the checkpoint of run {run_id} is of other data or another version"),
            "start the run anew, without --resume",
        ));
    }
    bring_parts(&run_dir, &mut resolved)?;
    let resumed = Resumed {
        run_id,
        epochs: found.epochs as u32,
    };
    resolved.data_name = manifest.data;
    resolved.plan.start = found.epochs as usize;
    resolved.notes.push(format!(
        "goes on from run {} after {} epochs, whose rows are that run's",
        resumed.run_id, resumed.epochs
    ));
    let over = found.passed_over.iter();
    let over = over.map(|why| format!("a later checkpoint is not used: {why}"));
    resolved.notes.extend(over);
    resolved.from = Some(Origin {
        run_dir,
        resumed,
        found,
    });
    Ok(resolved)
}

/// Refuses a pair that would make the run another one.
fn check_pair(old: &RunSpec, (name, value): &Pair) -> Result<()> {
    let name = normalise(name);
    if may_change(&name) {
        return Ok(());
    }
    let kept = match find_key(&name) {
        Some(key) => {
            let mut new = old.clone();
            (key.set)(&mut new, value)?;
            new.data = absolute(&new.data);
            ((key.get)(old) != (key.get)(&new)).then(|| (key.get)(old))
        }
        None => match old.knobs.iter().find(|(knob, _)| **knob == name) {
            Some((_, known)) if known == value => None,
            Some((_, known)) => Some(known.clone()),
            // Nobody's key: the request is refused with the nearest one.
            None => None,
        },
    };
    match kept {
        None => Ok(()),
        Some(kept) => Err(Error::refused(
            format!("{name}: a run that goes on keeps {name} = {kept}, got {value}"),
            format!("these may change: {}", free().join(", ")),
        )),
    }
}

/// Keys that may change.
fn free() -> Vec<&'static str> {
    let free = KEYS.iter().filter(|key| key.role == Role::Course);
    free.map(|key| key.name).collect()
}

/// Refuses when there is no epoch left.
fn check_left(manifest: &Manifest, old: &RunSpec, new: &RunSpec, found: &Found) -> Result<()> {
    let (run_id, patience) = (&manifest.run_id, new.patience);
    if found.epochs >= new.epochs as u64 {
        return Err(Error::refused(
            format!(
                "resume: run {run_id} has {} of {} epochs",
                found.epochs, new.epochs
            ),
            "give it more: --epochs N",
        ));
    }
    if manifest.stopped_early && patience > 0 && patience <= old.patience {
        return Err(Error::refused(
            format!(
                "resume: run {run_id} ended because of patience = {}",
                old.patience
            ),
            "give it more: --patience N, or 0 for no end",
        ));
    }
    Ok(())
}

/// What a run's ranks were told.
pub(crate) fn plan(run_dir: &Path) -> Result<Plan> {
    let path = run_dir.join("plan.json");
    let bytes = std::fs::read(&path).map_err(Error::io(&path))?;
    serde_json::from_slice(&bytes).map_err(|source| Error::Json { path, source })
}

/// Takes the parts of a run's vertices in the place of those that were found now: partitioners that look at
/// free memory may not give the same again.
pub(crate) fn bring_parts(run_dir: &Path, resolved: &mut Resolved) -> Result<()> {
    let levels = [&mut resolved.owner, &mut resolved.nested];
    for (name, level) in PART_FILES.iter().zip(levels) {
        if level.is_none() {
            continue;
        }
        let path = run_dir.join(name);
        let bytes = std::fs::read(&path).map_err(Error::io(&path))?;
        let word = |b: &[u8]| u32::from_le_bytes(b.try_into().expect("chunks of four bytes"));
        *level = Some(bytes.chunks_exact(4).map(word).collect());
    }
    Ok(())
}

/// What is read of a row.
#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow)]
    frame: std::borrow::Cow<'a, str>,
    epoch: Option<u32>,
}

/// Copies into the new run's folder what it begins with.
pub(crate) fn bring(from: &Origin, run_dir: &Path, ranks: usize) -> Result<()> {
    let name = from.found.folder.file_name().unwrap_or_default();
    let folder = run_dir.join("checkpoints").join(name);
    std::fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
    let entries = std::fs::read_dir(&from.found.folder).map_err(Error::io(&folder))?;
    for entry in entries {
        let path = entry.map_err(Error::io(&folder))?.path();
        let to = folder.join(path.file_name().unwrap_or_default());
        std::fs::copy(&path, &to).map_err(Error::io(&to))?;
    }
    let report = from.run_dir.join("partition.json");
    if report.exists() {
        let to = run_dir.join("partition.json");
        std::fs::copy(&report, &to).map_err(Error::io(&to))?;
    }
    (0..ranks).try_for_each(|rank| {
        let name = format!("rows/rank-{rank}.jsonl");
        let path = from.run_dir.join(&name);
        let text = std::fs::read(&path).map_err(Error::io(&path))?;
        let to = run_dir.join(&name);
        std::fs::write(&to, kept(&text, from.resumed.epochs)).map_err(Error::io(&to))
    })
}

/// Whole rows of the first `epochs` epochs; what is about the run itself is the new one's to say.
fn kept(text: &[u8], epochs: u32) -> Vec<u8> {
    let of_epoch = |line: &&[u8]| {
        let tag = serde_json::from_slice::<Tag>(line);
        let early = |tag: Tag| tag.frame != "ended" && tag.epoch.is_some_and(|e| e < epochs);
        line.ends_with(b"\n") && tag.is_ok_and(early)
    };
    let lines = text.split_inclusive(|&b| b == b'\n');
    lines.filter(of_epoch).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnn_core::spec::Value;

    #[test]
    fn whole_rows_of_early_epochs_are_kept() {
        let text = concat!(
            "{\"part\":0,\"frame\":\"partition\"}\n",
            "{\"epoch\":0,\"frame\":\"ranks\"}\n",
            "{\"epoch\":1,\"frame\":\"metrics\"}\n",
            "{\"epoch\":1,\"by\":\"patience\",\"frame\":\"ended\"}\n",
            "{\"epoch\":2,\"frame\":\"ranks\"}\n",
            "{\"epoch\":1,\"fra",
        );
        let kept = kept(text.as_bytes(), 2);
        let kept = String::from_utf8(kept).expect("text");
        assert_eq!(kept.lines().count(), 2, "{kept}");
        assert!(kept.ends_with("\"metrics\"}\n"), "{kept}");
    }

    #[test]
    fn only_what_changes_no_epoch_may_change() {
        let old = [("strategy", "sancus"), ("lr", "1"), ("ranks", "2")];
        let pairs = old.map(|(k, v)| (k.to_owned(), Value::from_word(v)));
        let old = RunSpec::from_pairs(pairs).expect("valid pairs");
        let check =
            |key: &str, value: &str| check_pair(&old, &(key.into(), Value::from_word(value)));
        for (key, value) in [
            ("epochs", "9"),
            ("checkpoint-every", "2"),
            ("lr", "1.0"),
            ("n", "2"),
            ("data", "karate"),
            ("bound", "epoch-fixed=1"),
        ] {
            assert!(check(key, value).is_ok(), "{key} = {value}");
        }
        for (key, value) in [
            ("lr", "0.5"),
            ("strategy", "halo"),
            ("bound", "variation=1"),
        ] {
            let error = check(key, value).expect_err("another run");
            assert!(error.to_string().starts_with(key), "{error}");
            assert!(error.help().contains("epochs"), "{}", error.help());
        }
        assert!(check("lr", "much").is_err());
    }
}
