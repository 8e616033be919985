//! RDF graphs: N-Triples (`.nt`, `.nt.gz`) with a split in tables (AIFB, MUTAG, BGS, AM).
//!
//! Every IRI, blank node and literal that occurs as subject or object is a vertex; its type says
//! which of the three it is. Every predicate is a relation, with an inverse added, as R-GCN's
//! published loader does. Vertices are called as in the file. Literals are vertices by value, so
//! two equal ones are one vertex.
//!
//! `*trainingSet*` and `*testSet*` (`.tsv` or `.csv`, with a header) name entities and their class:
//! the column whose values are vertices of the graph, and the column `label…`. As in the R-GCN
//! experiments, a fifth of the training entities, the first ones in the file, validate; the split
//! `full` trains on all of them. Without tables vertices have no class.
//!
//! # Paper
//! Schlichtkrull et al., "Modeling Relational Data with Graph Convolutional Networks", ESWC 2018,
//! <https://arxiv.org/abs/1703.06103>; the data: Ristoski, de Vries, Paulheim, "A Collection of
//! Benchmark Datasets for Systematic Evaluations of Machine Learning on the Semantic Web", ISWC 2016.

use std::path::Path;

use super::{Ask, Listing};
use crate::dataset::source::{Lines, shown};
use crate::dataset::texts::Dictionary;
use crate::dataset::{Dataset, Limit, STANDARD, Types, bad, check, typed};
use crate::{Error, Result};

/// Types of vertices, in order.
const KINDS: [&str; 3] = ["resource", "literal", "blank node"];

/// Loads the graph in the file `at`, with the split beside it.
pub(super) fn load(ask: &Ask, at: &Path) -> Result<Dataset> {
    let limit = ask.limit;
    let mut lines = Lines::open(at, limit)?;
    let mut vertices = Dictionary::new(&lines.file, limit);
    let mut predicates = Dictionary::new(&lines.file, limit);
    let (mut src, mut dst, mut types) = (Vec::new(), Vec::new(), Vec::new());
    let mut kinds: Vec<u16> = Vec::new();
    while lines.record(&['#'])?.is_some() {
        let Some([(s, s_kind), (p, _), (o, o_kind)]) = triple(lines.line()) else {
            let reason = format!("{} is not a triple", shown(lines.line()));
            let help = "write subject, predicate and object of N-Triples, and a full stop";
            return Err(lines.bad(reason, help));
        };
        limit.take(40, &lines.file, "triples")?;
        let mut vertex = |text: &str, kind: u16| -> Result<u32> {
            let v = vertices.number(text)?;
            if v as usize == kinds.len() {
                kinds.push(kind);
            }
            Ok(v)
        };
        src.push(vertex(s, s_kind)?);
        dst.push(vertex(o, o_kind)?);
        types.push(i64::from(predicates.number(p)?));
    }
    let (n, file) = (vertices.len(), lines.file.clone());
    limit.graph(n as u64, 2 * src.len() as u64, &file)?;
    let (types, count) = check::types(&file, "predicate", &types, Some(predicates.len()))?;
    let graph = typed::graph(n, [src, dst], types, count, false)?;
    let mut dataset = Dataset::unlabelled(super::stem(at), graph);
    let listing = Listing::of(at.parent().unwrap_or(Path::new(".")))?;
    let find = |word: &str| {
        let mut names = listing.names().filter(|n| n.contains(word));
        names
            .find(|n| n.ends_with(".tsv") || n.ends_with(".csv"))
            .cloned()
    };
    match (find("trainingSet"), find("testSet")) {
        (Some(train), Some(test)) => {
            let read = |name: &str| match listing.path(name) {
                Some(path) => Entities::read(&path, &vertices, limit),
                None => Err(bad(
                    &file,
                    name,
                    "is not a file",
                    "give the split beside the graph",
                )),
            };
            let (train, test) = (read(&train)?, read(&test)?);
            label(&mut dataset, ask.split, &train, &test)?;
        }
        _ if ask.split == STANDARD => {}
        _ => return Err(Error::unknown("split", ask.split, &[STANDARD])),
    }
    let short = |name: &str| {
        let name = name.trim_matches(['<', '>']);
        name.to_owned()
    };
    let relations = predicates.into_texts();
    let relations: Vec<String> = relations.iter().map(short).collect();
    let kind_names = KINDS.map(str::to_owned);
    dataset.about.types = Types::count(Some(&kinds), &kind_names, &dataset.graph, &relations);
    dataset.about.format = "N-Triples";
    dataset.about.ids = Some(vertices.into_texts());
    dataset.node_types = Some(kinds);
    Ok(dataset)
}

/// Subject, predicate and object as written, each with its kind of vertex.
fn triple(line: &str) -> Option<[(&str, u16); 3]> {
    let (subject, rest) = term(line)?;
    let (predicate, rest) = term(rest.trim_start())?;
    let (object, rest) = term(rest.trim_start())?;
    let end = rest.trim_start().strip_prefix('.')?.trim_start();
    let right = subject.1 != 1 && predicate.1 == 0 && (end.is_empty() || end.starts_with('#'));
    right.then_some([subject, predicate, object])
}

/// The term at the start of the text with its kind, and the rest.
fn term(text: &str) -> Option<((&str, u16), &str)> {
    let (end, kind) = match text.as_bytes().first()? {
        b'<' => (text.find('>')? + 1, 0),
        b'_' => {
            let end = text.find(char::is_whitespace).unwrap_or(text.len());
            // A label does not end with the full stop of its line.
            (text[..end].trim_end_matches('.').len(), 2)
        }
        b'"' => {
            let bytes = text.as_bytes();
            let mut at = 1;
            while *bytes.get(at)? != b'"' {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
            // A language or a type may follow.
            let rest = &text[at + 1..];
            let more = match rest.strip_prefix("^^") {
                Some(of) if of.starts_with('<') => 3 + of.find('>')?,
                Some(_) => return None,
                None if rest.starts_with('@') => {
                    let tag = |c: char| c.is_ascii_alphanumeric() || c == '-';
                    let tail = rest[1..].find(|c| !tag(c));
                    tail.map_or(rest.len(), |at| at + 1)
                }
                None => 0,
            };
            (at + 1 + more, 1)
        }
        _ => return None,
    };
    Some(((&text[..end], kind), &text[end..]))
}

/// Entities with their class, as one of the tables of a split lists them.
struct Entities {
    file: String,
    vertices: Vec<u32>,
    classes: Vec<String>,
}

impl Entities {
    fn read(at: &Path, known: &Dictionary, limit: &Limit) -> Result<Entities> {
        let mut lines = Lines::open(at, limit)?;
        let by = if at.extension().is_some_and(|e| e == "csv") {
            ','
        } else {
            '\t'
        };
        let header = lines.record(&[])?.unwrap_or("").to_owned();
        let label = header.split(by).position(|f| f.trim().starts_with("label"));
        let label = label.ok_or_else(|| {
            lines.bad(
                "names no column label…",
                "name the column of classes in the first line",
            )
        })?;
        let mut out = Entities {
            file: lines.file.clone(),
            vertices: Vec::new(),
            classes: Vec::new(),
        };
        while lines.record(&[])?.is_some() {
            let fields: Vec<&str> = lines.line().split(by).map(str::trim).collect();
            let named = |f: &&str| known.find(&format!("<{f}>"));
            let vertex = fields.iter().find_map(named);
            let (Some(vertex), Some(class)) = (vertex, fields.get(label)) else {
                let reason = "names no vertex of the graph, or no class";
                return Err(lines.bad(reason, "is this the split of another graph?"));
            };
            limit.take(2 * class.len() as u64 + 80, &lines.file, "entities")?;
            out.vertices.push(vertex);
            out.classes.push((*class).to_owned());
        }
        Ok(out)
    }
}

/// Sets classes and masks from the tables of a split.
fn label(dataset: &mut Dataset, split: &str, train: &Entities, test: &Entities) -> Result<()> {
    let mut names: Vec<String> = train.classes.iter().chain(&test.classes).cloned().collect();
    names.sort_unstable();
    names.dedup();
    if names.len() as i64 > check::MAX_CLASSES {
        let reason = format!("{} different classes", names.len());
        return Err(bad(
            &train.file,
            "label",
            reason,
            "is this a column of classes?",
        ));
    }
    for part in [train, test] {
        for (&v, class) in part.vertices.iter().zip(&part.classes) {
            let class = names.binary_search(class).expect("among all classes") as i32;
            let slot = &mut dataset.labels[v as usize];
            if *slot >= 0 {
                let id = format!("vertex {v}");
                return Err(bad(
                    &part.file,
                    id,
                    "is listed twice",
                    "list every entity once",
                ));
            }
            *slot = class;
        }
    }
    let validate = match split {
        STANDARD => train.vertices.len() / 5,
        "full" => 0,
        _ => return Err(Error::unknown("split", split, &["full", STANDARD])),
    };
    let (val, fit) = train.vertices.split_at(validate);
    let masks = [&mut dataset.train, &mut dataset.val, &mut dataset.test];
    for (mask, ids) in masks.into_iter().zip([fit, val, &test.vertices]) {
        ids.iter().for_each(|&v| mask[v as usize] = true);
    }
    dataset.n_classes = names.len();
    dataset.about.classes = names;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::triple;

    #[test]
    fn full_stops_and_languages_end_where_n_triples_lets_them() {
        let of = |line: &'static str| triple(line).map(|[s, _, o]| (s.0, o.0));
        assert_eq!(of("_:a <p> _:b."), Some(("_:a", "_:b")));
        assert_eq!(of("_:a.c <p> _:b ."), Some(("_:a.c", "_:b")));
        assert_eq!(of("<s> <p> \"x\"@en."), Some(("<s>", "\"x\"@en")));
        assert_eq!(
            of("<s> <p> \"x\"@en-GB . # said"),
            Some(("<s>", "\"x\"@en-GB"))
        );
        assert_eq!(of("<s> <p> \"x\" y ."), None);
    }
}
