//! Training, validation and test masks of an archive, by the name of the split.

use crate::dataset::archive::Archive;
use crate::dataset::{bad, builtin};
use crate::{Error, Result};

/// The split that every data set has.
pub const STANDARD: &str = "standard";

/// The parts in order: training, validation, test.
const PARTS: [&str; 3] = ["train", "val", "test"];

/// The masks of the split of that name: `standard` reads `train_mask`, …; a name `s` reads
/// `train_mask_s`, …, where absent ones are the standard ones without the vertices that this split
/// trains on; a number `k` that is no such name reads row `k` of `train_masks`, ….
pub(super) fn masks(archive: &mut Archive, split: &str) -> Result<[Vec<bool>; 3]> {
    if split == STANDARD {
        let mut read = |part: &str| archive.vector(&format!("{part}_mask"))?.into_bools();
        return Ok([read("train")?, read("val")?, read("test")?]);
    }
    let named = archive.has(&format!("train_mask_{split}"));
    if let (false, Ok(k)) = (named, split.parse::<usize>()) {
        let mut read = |part: &str| row(archive, &format!("{part}_masks"), k);
        return Ok([read("train")?, read("val")?, read("test")?]);
    }
    if !named {
        let known = known(archive);
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(Error::unknown("split", split, &known));
    }
    let mut out = PARTS.map(|_| Vec::new());
    for (k, part) in PARTS.iter().enumerate() {
        let own = format!("{part}_mask_{split}");
        let (mask, train) = if archive.has(&own) {
            (archive.vector(&own)?.into_bools()?, None)
        } else {
            let mask = archive.vector(&format!("{part}_mask"))?.into_bools()?;
            (mask, Some(&out[0]))
        };
        let trained = |v: usize| train.is_some_and(|t: &Vec<bool>| t.get(v) == Some(&true));
        out[k] = (0..mask.len()).map(|v| mask[v] && !trained(v)).collect();
    }
    Ok(out)
}

/// Row `k` of the masks `name`: `[splits, n]`.
fn row(archive: &mut Archive, name: &str, k: usize) -> Result<Vec<bool>> {
    if !archive.has(name) {
        return Err(no_numbers(k, "the data set has no numbered splits"));
    }
    let masks = archive.array(name)?;
    masks.expect_dims(2)?;
    let (splits, n) = (masks.shape[0], masks.shape[1]);
    if k >= splits {
        return Err(no_numbers(k, &format!("the data set has {splits} splits")));
    }
    let flat = masks.into_bools()?;
    if flat.len() != splits * n {
        return Err(bad(
            &archive.file,
            name,
            "has no columns",
            "save one row of N values a split",
        ));
    }
    Ok(flat[k * n..][..n].to_vec())
}

fn no_numbers(k: usize, reason: &str) -> Error {
    Error::Spec {
        key: "split".into(),
        reason: format!("there is no split {k}: {reason}"),
        help: "number the splits from 0, or leave the key out for the standard one".into(),
    }
}

/// 60/20/20 % of the labelled vertices at random, for data that comes without a split. It belongs to
/// the data: it does not depend on the run's seed.
pub fn random(labels: &[i32]) -> [Vec<bool>; 3] {
    let mut masks = builtin::split(labels.len(), 0, [0.6, 0.2, 0.2]);
    for mask in &mut masks {
        let labelled = mask.iter_mut().zip(labels);
        labelled.for_each(|(m, &label)| *m &= label >= 0);
    }
    masks
}

/// Refuses another split than the standard one, for data that has no others.
pub(crate) fn only_standard(split: &str, what: &str) -> Result<()> {
    if split == STANDARD {
        return Ok(());
    }
    Err(Error::Spec {
        key: "split".into(),
        reason: format!("{what} has no split '{split}'"),
        help: "leave the key out; named splits come with graph.npz files".into(),
    })
}

/// Names that this archive understands.
fn known(archive: &Archive) -> Vec<String> {
    let mut names = vec![STANDARD.to_owned()];
    if archive.has("train_masks") {
        names.push("a number from 0".into());
    }
    let arrays = archive.names();
    let own = arrays.iter().filter_map(|n| n.strip_prefix("train_mask_"));
    names.extend(own.map(str::to_owned));
    names.sort_unstable();
    names
}
