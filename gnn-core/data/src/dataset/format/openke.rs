//! OpenKE's knowledge graphs: `train2id.txt`, `valid2id.txt`, `test2id.txt` (count, then head, tail
//! and relation a line), `relation2id.txt` and perhaps `entity2id.txt` (count, then name and number
//! a line). The names may have a prefix.
//!
//! The graph has the training triples with an inverse relation for each. The pairs of the other
//! triples are held out for link prediction, with as many pairs that no triple joins drawn beside
//! them; the relation of a held-out pair is not kept. Entities without a file of names are as many
//! as the largest number says. There are no features (one-hot) and no classes.
//!
//! # Paper
//! Han et al., "OpenKE: An Open Toolkit for Knowledge Embedding", EMNLP 2018 (demo),
//! <https://aclanthology.org/D18-2024>.

use std::path::Path;

use super::{Ask, Listing};
use crate::Result;
use crate::dataset::source::{Lines, shown};
use crate::dataset::{Dataset, Limit, Texts, Types, bad, check, links, split, typed};

/// Head, tail and relation of each line.
struct Triples {
    file: String,
    heads: Vec<u32>,
    tails: Vec<u32>,
    relations: Vec<i64>,
}

/// Loads the knowledge graph whose training triples are the file `at`.
pub(super) fn load(ask: &Ask, at: &Path) -> Result<Dataset> {
    split::only_standard(ask.split, "a knowledge graph")?;
    let limit = ask.limit;
    let name = at
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let prefix = name.trim_end_matches("train2id.txt");
    let listing = Listing::of(at.parent().unwrap_or(Path::new(".")))?;
    let beside = |file: &str| listing.path(&format!("{prefix}{file}"));
    let train = Triples::read(at, limit)?;
    let mut held = Vec::new();
    for file in ["valid2id.txt", "test2id.txt"] {
        held.push(beside(file).map(|p| Triples::read(&p, limit)).transpose()?);
    }
    let entities = beside("entity2id.txt")
        .map(|p| names(&p, limit))
        .transpose()?;
    let relations = beside("relation2id.txt")
        .map(|p| names(&p, limit))
        .transpose()?;
    let all = || std::iter::once(&train).chain(held.iter().flatten());
    let largest = all().flat_map(|t| t.heads.iter().chain(&t.tails)).max();
    let used = largest.map_or(0, |&v| v as usize + 1);
    let n = entities.as_ref().map_or(used, Texts::len);
    limit.graph(n as u64, 2 * train.heads.len() as u64, &train.file)?;
    for triples in all() {
        let ends = triples.heads.iter().zip(&triples.tails);
        if let Some(k) = ends.clone().position(|(&h, &t)| h.max(t) as usize >= n) {
            let reason = format!("an entity of triple {k} is outside 0..{n}");
            let help = "number the entities as entity2id.txt does";
            return Err(bad(&triples.file, "entities", reason, help));
        }
    }
    let declared = relations.as_ref().map(Texts::len);
    let (types, count) = check::types(&train.file, "relation", &train.relations, declared)?;
    for triples in held.iter().flatten() {
        check::types(&triples.file, "relation", &triples.relations, Some(count))?;
    }
    let ends = [train.heads.clone(), train.tails.clone()];
    let graph = typed::graph(n, ends, types, count, false)?;
    let mut dataset = Dataset::unlabelled(super::folder_name(at), graph);
    let relations: Vec<String> = relations
        .iter()
        .flat_map(Texts::iter)
        .map(str::to_owned)
        .collect();
    dataset.about.types = Types::count(None, &[], &dataset.graph, &relations);
    dataset.about.format = "OpenKE";
    dataset.about.ids = entities;
    if let [Some(val), Some(test)] = &held[..] {
        let pairs = |t: &Triples| {
            t.heads
                .iter()
                .zip(&t.tails)
                .map(|(&h, &t)| [h, t])
                .collect()
        };
        let split = [pairs(&train), pairs(val), pairs(test)];
        dataset.links = Some(links::given(&dataset.name, &dataset.graph, split)?);
    }
    Ok(dataset)
}

impl Triples {
    fn read(at: &Path, limit: &Limit) -> Result<Triples> {
        let mut lines = Lines::open(at, limit)?;
        let declared = count(&mut lines)?;
        let mut out = Triples {
            file: lines.file.clone(),
            heads: Vec::new(),
            tails: Vec::new(),
            relations: Vec::new(),
        };
        while lines.record(&[])?.is_some() {
            let mut fields = lines
                .line()
                .split_whitespace()
                .map(|f| f.parse::<u32>().ok());
            let three = [(); 3].map(|()| fields.next().flatten().filter(|&v| v < u32::MAX));
            let ([Some(h), Some(t), Some(r)], None) = (three, fields.next()) else {
                let reason = format!("{} is not a triple", shown(lines.line()));
                return Err(lines.bad(reason, "write the numbers of head, tail and relation"));
            };
            limit.take(40, &lines.file, "triples")?;
            out.heads.push(h);
            out.tails.push(t);
            out.relations.push(i64::from(r));
        }
        expect(&lines, declared, out.heads.len())?;
        Ok(out)
    }
}

/// The count in the first line.
fn count(lines: &mut Lines) -> Result<u64> {
    let line = lines.record(&[])?.unwrap_or("").to_owned();
    line.parse().map_err(|_| {
        let reason = format!("{} is not a count", shown(&line));
        lines.bad(reason, "write the number of lines in the first line")
    })
}

fn expect(lines: &Lines, declared: u64, got: usize) -> Result<()> {
    if declared == got as u64 {
        return Ok(());
    }
    let reason = format!("the first line says {declared} lines, there are {got}");
    Err(bad(
        &lines.file,
        "line 1",
        reason,
        "is the file truncated? download it again",
    ))
}

/// Names by number.
fn names(at: &Path, limit: &Limit) -> Result<Texts> {
    let mut lines = Lines::open(at, limit)?;
    let declared = count(&mut lines)?;
    let mut all: Vec<(u32, String)> = Vec::new();
    while lines.record(&[])?.is_some() {
        let line = lines.line();
        let parsed = line.rsplit_once(char::is_whitespace);
        let parsed = parsed.and_then(|(name, k)| Some((k.parse().ok()?, name.trim().to_owned())));
        let Some(entry) = parsed else {
            let reason = format!("{} is not a name with a number", shown(line));
            return Err(lines.bad(reason, "write name and number a line"));
        };
        limit.take(2 * entry.1.len() as u64 + 80, &lines.file, "names")?;
        all.push(entry);
    }
    expect(&lines, declared, all.len())?;
    all.sort();
    if let Some(k) = (0..all.len()).find(|&k| all[k].0 as usize != k) {
        let reason = format!("number {k} is missing or there twice");
        return Err(bad(
            &lines.file,
            format!("number {k}"),
            reason,
            "number the names from 0",
        ));
    }
    Ok(all.iter().map(|(_, name)| name).collect())
}
