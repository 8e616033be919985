//! A plain folder whose vertices have names: `edges.*` with two names a line, `labels.*` with a name
//! and a class, and perhaps `train.*`, `val.*` and `test.*` with a name a line.
//!
//! Vertices are numbered in order of their first appearance among the edges. Classes may be names too;
//! they are numbered in sorted order. Names that no edge has are refused, but in the first line,
//! which may be a header. Features cannot be told which vertex they belong to: they need numbers.

use std::path::Path;

use super::edge_list::{COMMENTS, EdgeList, fields, separator};
use super::{Ask, Listing, TEXT};
use crate::Result;
use crate::dataset::meta::Meta;
use crate::dataset::source::{Lines, shown};
use crate::dataset::texts::Dictionary;
use crate::dataset::{Dataset, EdgeTable, Limit, bad, check, split};
use crate::graph::EdgeOptions;

/// Loads the folder whose edges are the file `at`.
pub(super) fn load(ask: &Ask, at: &Path) -> Result<Dataset> {
    split::only_standard(ask.split, "a folder of plain files")?;
    let limit = ask.limit;
    let listing = Listing::of(at.parent().unwrap_or(Path::new(".")))?;
    let file = at.display().to_string();
    let find = |stem: &str| {
        let fits = |n: &&String| n.starts_with(&format!("{stem}.")) && super::ends(n, &TEXT);
        listing.names().find(fits).and_then(|n| listing.path(n))
    };
    if let Some(x) = listing.names().find(|n| n.starts_with("features.")) {
        let help = "number the vertices from 0 in edges and labels, in the order of the features";
        return Err(bad(&file, x, "cannot belong to vertices with names", help));
    }
    let list = EdgeList::read(at, limit)?;
    let edges = EdgeTable {
        source: list.source,
        target: list.target,
        relation: None,
    };
    let options = EdgeOptions {
        symmetrise: !Meta::beside(at)?.directed,
        ..EdgeOptions::SIMPLE
    };
    let mut dataset = Dataset::from_tables(&file, edges, None, options, limit)?;
    dataset.name = super::folder_name(at);
    dataset.about.format = "plain folder";
    let mut known = Dictionary::new(&file, limit);
    for id in dataset.about.ids.iter().flat_map(|ids| ids.iter()) {
        known.number(id)?;
    }
    let Some(labels) = find("labels") else {
        return Ok(dataset);
    };
    let mut given: Vec<Option<String>> = vec![None; dataset.n()];
    for_each(&labels, &known, limit, |v, class, lines| {
        let Some(class) = class else {
            return Err(lines.bad("has no class", "write the name of a vertex and its class"));
        };
        limit.take(2 * class.len() as u64 + 48, &lines.file, "labels")?;
        if given[v].replace(class.to_owned()).is_some() {
            return Err(lines.bad("names a vertex again", "give every vertex one label"));
        }
        Ok(())
    })?;
    let mut names: Vec<&str> = given.iter().flatten().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() as i64 > check::MAX_CLASSES {
        let reason = format!("{} different classes", names.len());
        let labels = labels.display().to_string();
        return Err(bad(
            &labels,
            "label",
            reason,
            "is this a column of classes?",
        ));
    }
    let class = |c: &str| names.binary_search(&c).map_or(-1, |k| k as i32);
    dataset.labels = given
        .iter()
        .map(|c| c.as_deref().map_or(-1, class))
        .collect();
    dataset.n_classes = names.len();
    dataset.about.classes = names.into_iter().map(str::to_owned).collect();
    [dataset.train, dataset.val, dataset.test] = split::random(&dataset.labels);
    if find("train").is_some() {
        let masks = [&mut dataset.train, &mut dataset.val, &mut dataset.test];
        for (mask, stem) in masks.into_iter().zip(["train", "val", "test"]) {
            mask.fill(false);
            if let Some(path) = find(stem) {
                for_each(&path, &known, limit, |v, _, _| {
                    mask[v] = true;
                    Ok(())
                })?;
            }
        }
    }
    Ok(dataset)
}

/// Calls `take` with the vertex and the second field of every record.
fn for_each(
    at: &Path,
    known: &Dictionary,
    limit: &Limit,
    mut take: impl FnMut(usize, Option<&str>, &Lines) -> Result<()>,
) -> Result<()> {
    let mut lines = Lines::open(at, limit)?;
    let mut first = true;
    while lines.record(&COMMENTS)?.is_some() {
        let line = lines.line();
        let mut fields = fields(line, separator(line));
        let name = fields.next().unwrap_or("");
        match known.find(name) {
            Some(v) => take(v as usize, fields.next(), &lines)?,
            None if first => {}
            None => {
                let reason = format!("no edge has a vertex {}", shown(name));
                return Err(lines.bad(reason, "write names as the edges do"));
            }
        }
        first = false;
    }
    Ok(())
}
