//! What every data set must fulfil before training: one line what is wrong (array, index, value),
//! one line what to do.

use rayon::prelude::*;

use crate::Result;
use crate::dataset::{Dataset, Features, Task, bad};
use crate::first::position;

/// Classes that a data set may have at most; a larger label is taken for a mistake.
pub(super) const MAX_CLASSES: i64 = 1 << 16;

/// Edge or vertex types that a data set may have at most; inverse relations may double them.
const MAX_TYPES: i64 = 1 << 15;

/// See [`Dataset::check`]; `file` is where the data came from.
pub(crate) fn dataset(d: &Dataset, file: &str) -> Result<()> {
    values(d, file)?;
    // Without classes there is nothing to train on, but links may be predicted, or the graph cut.
    if d.n_classes == 0 {
        return Ok(());
    }
    trains(d, file)
}

/// Refuses a training mask without any vertex.
pub(crate) fn trains(d: &Dataset, file: &str) -> Result<()> {
    if d.train.contains(&true) {
        return Ok(());
    }
    Err(bad(
        file,
        "train_mask",
        "selects no vertex",
        "choose some labelled vertices to train on",
    ))
}

/// See [`Dataset::check_values`].
pub(super) fn values(d: &Dataset, file: &str) -> Result<()> {
    let n = d.n();
    if n == 0 {
        return Err(bad(
            file,
            "graph",
            "has no vertices",
            "give a graph with at least one vertex",
        ));
    }
    if d.n_classes as u64 > MAX_CLASSES as u64 {
        return Err(bad(
            file,
            "num_classes",
            format!("{} classes are more than {MAX_CLASSES}", d.n_classes),
            "number the classes from 0 without gaps",
        ));
    }
    length(file, "features", n, d.features.n())?;
    length(file, "labels", n, d.labels.len())?;
    if d.features.dim() == 0 {
        return Err(bad(
            file,
            "features",
            "have no columns",
            "give every vertex at least one feature",
        ));
    }
    features(file, &d.features)?;
    let classes = d.n_classes as i32;
    if let Some(v) = position(&d.labels, |&c| (c < -1) | (c >= classes)) {
        return Err(label(file, v, i64::from(d.labels[v]), d.n_classes as i64));
    }
    if let Some(types) = &d.node_types {
        length(file, "node_type", n, types.len())?;
    }
    multi_label(file, d)?;
    masks(file, d)
}

/// Several labels a vertex are there exactly when they are to be learned.
fn multi_label(file: &str, d: &Dataset) -> Result<()> {
    let Some(multi) = &d.multi_labels else {
        if d.task != Task::MultiLabel {
            return Ok(());
        }
        return Err(bad(
            file,
            "label",
            "has one class a vertex, not one column a class",
            "save the labels as an array of vertices by classes",
        ));
    };
    let expected = d.n() * d.n_classes;
    if multi.len() != expected {
        let reason = format!("expected {expected} values, got {}", multi.len());
        return Err(bad(file, "label", reason, "save vertices by classes"));
    }
    match position(multi, |&x| x > 1) {
        None => Ok(()),
        Some(at) => {
            let (v, c) = (at / d.n_classes, at % d.n_classes);
            let reason = format!("{} is neither 0 nor 1", multi[at]);
            let help = "write 0 or 1 for each class";
            Err(bad(file, format!("label[{v}, {c}]"), reason, help))
        }
    }
}

/// Refuses two arrays of different length.
pub(super) fn length(file: &str, place: &str, expected: usize, got: usize) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(bad(
        file,
        place,
        format!("expected {expected} rows (one a vertex), got {got}"),
        format!("write one row of {place} for every vertex"),
    ))
}

/// Refuses edges that leave the graph; `place` names the array.
pub(super) fn edges(
    file: &str,
    place: &str,
    ends: impl IntoIterator<Item = i64>,
    n: usize,
) -> Result<Vec<u32>> {
    let end = |(e, v): (usize, i64)| match u32::try_from(v) {
        Ok(v) if (v as usize) < n => Ok(v),
        _ => Err(bad(
            file,
            format!("{place}[{e}]"),
            format!("vertex {v} is outside 0..{n}"),
            "number the vertices from 0, and give every vertex a label and features",
        )),
    };
    ends.into_iter().enumerate().map(end).collect()
}

/// Refuses labels that are no classes; -1 is unlabelled. Returns them with the number of classes,
/// which is `declared` where the data says it; otherwise classes must be numbered without gaps, so
/// that one wrong label does not silently add classes.
pub(super) fn labels(
    file: &str,
    labels: &[i64],
    declared: Option<usize>,
) -> Result<(Vec<i32>, usize)> {
    let limit = declared.map_or(MAX_CLASSES, |k| (k as i64).min(MAX_CLASSES));
    if let Some(v) = labels.iter().position(|c| !(-1..limit).contains(c)) {
        return Err(label(file, v, labels[v], limit));
    }
    let classes = labels.iter().max().map_or(0, |&c| c + 1) as usize;
    let mut used = vec![false; classes];
    labels
        .iter()
        .filter(|&&c| c >= 0)
        .for_each(|&c| used[c as usize] = true);
    if let (None, Some(gap)) = (declared, used.iter().position(|u| !u)) {
        let v = labels.iter().position(|&c| c > gap as i64).unwrap_or(0);
        let reason = format!("class {} although no vertex has class {gap}", labels[v]);
        let help = "number the classes from 0 without gaps, or say num_classes in meta.json";
        return Err(bad(file, format!("label[{v}]"), reason, help));
    }
    Ok((
        labels.iter().map(|&c| c as i32).collect(),
        declared.unwrap_or(classes),
    ))
}

/// Refuses types outside `0..declared`, or too many of them. Returns them with their number.
pub(super) fn types(
    file: &str,
    place: &str,
    types: &[i64],
    declared: Option<usize>,
) -> Result<(Vec<u16>, usize)> {
    let limit = declared.map_or(MAX_TYPES, |k| (k as i64).min(MAX_TYPES));
    if let Some(e) = types.iter().position(|t| !(0..limit).contains(t)) {
        let reason = format!("type {} is outside 0..{limit}", types[e]);
        let help = "number the types from 0; meta.json may say how many there are";
        return Err(bad(file, format!("{place}[{e}]"), reason, help));
    }
    let used = types.iter().max().map_or(0, |&t| t + 1) as usize;
    let types = types.iter().map(|&t| t as u16).collect();
    Ok((types, declared.unwrap_or(used)))
}

/// Refuses values other than 0 and 1, or -1 throughout a row for a vertex without labels. `flat`
/// is `[n, classes]`. Returns 0 for each labelled vertex and -1 for the others, and the labels.
pub(super) fn multi_labels(
    file: &str,
    flat: &[i64],
    classes: usize,
) -> Result<(Vec<i32>, Vec<u8>)> {
    if classes == 0 || classes as i64 > MAX_CLASSES {
        return Err(bad(
            file,
            "label",
            format!("has {classes} columns"),
            format!("save one column a class, from 1 to {MAX_CLASSES}"),
        ));
    }
    let mut labels = Vec::with_capacity(flat.len() / classes);
    for (v, row) in flat.chunks_exact(classes).enumerate() {
        let unlabelled = row[0] == -1;
        let right = |x: &i64| {
            if unlabelled {
                *x == -1
            } else {
                matches!(x, 0 | 1)
            }
        };
        if let Some(c) = row.iter().position(|x| !right(x)) {
            return Err(bad(
                file,
                format!("label[{v}, {c}]"),
                format!("{} is neither 0 nor 1", row[c]),
                "write 0 or 1 for each class; a row of -1 means unlabelled",
            ));
        }
        labels.push(-i32::from(unlabelled));
    }
    let multi = flat.iter().map(|&x| u8::from(x == 1)).collect();
    Ok((labels, multi))
}

fn label(file: &str, v: usize, got: i64, classes: i64) -> crate::Error {
    bad(
        file,
        format!("label[{v}]"),
        format!("class {got} is outside 0..{classes}"),
        "number the classes from 0; -1 means unlabelled",
    )
}

fn features(file: &str, features: &Features) -> Result<()> {
    let wrong = |v: usize, c: usize, x: f32| {
        Err(bad(
            file,
            format!("feat[{v}, {c}]"),
            format!("{x} is not a finite number"),
            "replace missing values before training, for instance by 0 or the column's mean",
        ))
    };
    let dense = |values: &[f32], d: usize| match position(values, |x| !x.is_finite()) {
        Some(at) => wrong(at / d, at % d, values[at]),
        None => Ok(()),
    };
    match features {
        Features::Dense(x) => match x.as_slice() {
            Some(values) => dense(values, x.ncols()),
            None => dense(&x.iter().copied().collect::<Vec<f32>>(), x.ncols()),
        },
        Features::Mapped { values, dim } => dense(values, *dim),
        Features::Identity(_) => Ok(()),
        Features::Sparse(x) => {
            x.view().check().map_err(|e| {
                bad(
                    file,
                    "feat",
                    e.to_string(),
                    "write the sparse features again as compressed rows",
                )
            })?;
            let weights = x.weights.as_deref().unwrap_or(&[]);
            match position(weights, |x| !x.is_finite()) {
                Some(e) => {
                    let v = x.indptr.partition_point(|&start| start <= e as u64) - 1;
                    wrong(v, x.indices[e] as usize, weights[e])
                }
                None => Ok(()),
            }
        }
    }
}

fn masks(file: &str, d: &Dataset) -> Result<()> {
    let all = [
        ("train_mask", &d.train),
        ("val_mask", &d.val),
        ("test_mask", &d.test),
    ];
    for (place, mask) in all {
        length(file, place, d.n(), mask.len())?;
    }
    // Most likely nothing is wrong, which takes one look at everything.
    let wrong = |v: usize| {
        let chosen = all.map(|(_, mask)| u8::from(mask[v]));
        let count = chosen.into_iter().sum::<u8>();
        (count > 1) | ((count > 0) & (d.labels[v] < 0))
    };
    if !(0..d.n()).into_par_iter().with_min_len(1 << 16).any(wrong) {
        return Ok(());
    }
    for (place, mask) in all {
        if let Some(v) = (0..d.n()).find(|&v| mask[v] && d.labels[v] < 0) {
            return Err(bad(
                file,
                format!("{place}[{v}]"),
                "selects a vertex without a label",
                "leave unlabelled vertices out of every mask",
            ));
        }
    }
    for (k, (a, first)) in all.iter().enumerate() {
        for (b, second) in &all[k + 1..] {
            if let Some(v) = (0..d.n()).find(|&v| first[v] && second[v]) {
                return Err(bad(
                    file,
                    format!("{a}[{v}]"),
                    format!("the vertex is also in {b}"),
                    "put every vertex into at most one of training, validation and test",
                ));
            }
        }
    }
    Ok(())
}
