//! A folder of two tables: `edges.csv` with the ends of an edge a line, and `nodes.csv` with a vertex a line, whose
//! first line names its columns.
//!
//! | column of `nodes.csv` | called |
//! |---|---|
//! | what edges call the vertex (else its row, from 0) | `id`, `node`, `node_id`, `vertex`, `name` |
//! | class, by number or name; empty or -1 is unlabelled | `label`, `y`, `class`, `target` |
//! | `train`, `val` or `test` | `split`, `part`, `set` |
//! | the same, a column of 0 and 1 each | `train_mask`, `val_mask`, `test_mask` |
//! | a feature each, numbers | all others |

use std::path::{Path, PathBuf};

use kernels::Mat;

use super::edge_list::{COMMENTS, EdgeList, separator};
use super::{Ask, Listing, TEXT};
use crate::Result;
use crate::dataset::meta::Meta;
use crate::dataset::source::{Lines, shown};
use crate::dataset::{Column, Dataset, EdgeTable, Limit, Texts, VertexTable, bad, split};
use crate::graph::EdgeOptions;

const IDS: [&str; 5] = ["id", "node", "node_id", "vertex", "name"];
const LABELS: [&str; 4] = ["label", "y", "class", "target"];
const SPLITS: [&str; 3] = ["split", "part", "set"];
const MASKS: [(&str, &str); 3] = [
    ("train_mask", "train"),
    ("val_mask", "val"),
    ("test_mask", "test"),
];

/// The table of vertices beside the edges `at`, if there is one.
pub(super) fn beside(at: &Path) -> Result<Option<PathBuf>> {
    let listing = Listing::of(at.parent().unwrap_or(Path::new(".")))?;
    let fits = |n: &&String| {
        ["nodes.", "vertices."].iter().any(|b| n.starts_with(b)) && super::ends(n, &TEXT)
    };
    let found = listing.names().find(fits).and_then(|n| listing.path(n));
    Ok(found)
}

/// Loads the folder whose edges are the file `at` and whose vertices are the file `nodes`.
pub(super) fn load(ask: &Ask, at: &Path, nodes: &Path) -> Result<Dataset> {
    split::only_standard(ask.split, "a folder of two tables")?;
    let vertices = vertices(nodes, ask.limit)?;
    let list = EdgeList::read(at, ask.limit)?;
    let edges = EdgeTable {
        source: list.source,
        target: list.target,
        relation: None,
    };
    let options = EdgeOptions {
        symmetrise: !Meta::beside(at)?.directed,
        ..EdgeOptions::SIMPLE
    };
    let file = at.display().to_string();
    let mut dataset = Dataset::from_tables(&file, edges, Some(vertices), options, ask.limit)?;
    dataset.name = super::folder_name(at);
    dataset.about.format = "edges and nodes";
    Ok(dataset)
}

/// What a column is for.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    Id,
    Label,
    Split,
    Mask(usize),
    Feature,
}

impl Use {
    fn of(name: &str) -> Use {
        let name = name.to_lowercase();
        let mask = MASKS.iter().position(|(mask, _)| *mask == name);
        match name.as_str() {
            n if IDS.contains(&n) => Use::Id,
            n if LABELS.contains(&n) => Use::Label,
            n if SPLITS.contains(&n) => Use::Split,
            _ => mask.map_or(Use::Feature, Use::Mask),
        }
    }
}

fn vertices(path: &Path, limit: &Limit) -> Result<VertexTable> {
    let mut lines = Lines::open(path, limit)?;
    let file = lines.file.clone();
    let Some(head) = lines.record(&COMMENTS)?.map(str::to_owned) else {
        let help = "name the columns in the first line: id,label,split,x0,x1";
        return Err(bad(&file, "line 1", "holds no names of columns", help));
    };
    let by = separator(&head);
    let names: Vec<String> = cells(&head, by).map(str::to_owned).collect();
    if names.iter().all(|name| name.parse::<f64>().is_ok()) {
        let help =
            "name the columns in the first line: id,label,split, and a name for each feature";
        return Err(lines.bad("holds numbers, not names of columns", help));
    }
    let uses: Vec<Use> = names.iter().map(|name| Use::of(name)).collect();
    for (k, of) in uses.iter().enumerate() {
        if *of != Use::Feature
            && let Some(other) = uses[..k].iter().position(|known| known == of)
        {
            let reason = format!(
                "{} and {} are both the same of a vertex",
                names[other], names[k]
            );
            return Err(lines.bad(reason, "leave one of them out"));
        }
    }
    let width = uses.iter().filter(|of| **of == Use::Feature).count();
    let (mut ids, mut labels, mut splits) = (Vec::new(), Texts::default(), Texts::default());
    let (mut features, mut rows): (Vec<f32>, usize) = (Vec::new(), 0);
    while lines.record(&COMMENTS)?.is_some() {
        let line = lines.line();
        limit.take(
            2 * line.len() as u64 + 48 + 4 * width as u64,
            &file,
            "vertices",
        )?;
        let fields: Vec<&str> = cells(line, by).collect();
        if fields.len() != names.len() {
            let reason = format!(
                "has {} fields, and the first line names {}",
                fields.len(),
                names.len()
            );
            return Err(lines.bad(reason, "give every column one value a line"));
        }
        let mut part = "";
        for ((field, of), name) in fields.iter().zip(&uses).zip(&names) {
            match of {
                Use::Id => ids.push((*field).to_owned()),
                Use::Label => labels.push(field),
                Use::Split => part = field,
                Use::Mask(k) if ["1", "true", "True", "TRUE", "1.0"].contains(field) => {
                    part = MASKS[*k].1
                }
                Use::Mask(_) => {}
                Use::Feature => match field.parse::<f32>() {
                    Ok(x) if x.is_finite() => features.push(x),
                    _ => {
                        let reason =
                            format!("{name} is {}, which is no finite number", shown(field));
                        let help =
                            "columns that are no id, label or split are features, and hold numbers";
                        return Err(lines.bad(reason, help));
                    }
                },
            }
        }
        splits.push(part);
        rows += 1;
    }
    let has = |wanted: fn(&Use) -> bool| uses.iter().any(wanted);
    let x = (width > 0).then(|| Mat::from_shape_vec((rows, width), features));
    Ok(VertexTable {
        id: has(|of| *of == Use::Id).then(|| column(ids)),
        label: has(|of| *of == Use::Label).then(|| classes(labels)),
        split: has(|of| matches!(of, Use::Split | Use::Mask(_))).then_some(Column::Texts(splits)),
        kind: None,
        features: x.map(|x| x.expect("a row has as many features as there are columns of them")),
    })
}

/// The fields of a line, empty ones too.
fn cells(line: &str, separator: Option<char>) -> Box<dyn Iterator<Item = &str> + '_> {
    match separator {
        Some(by) => Box::new(line.split(by).map(bare)),
        None => Box::new(line.split_whitespace().map(bare)),
    }
}

/// A field without blanks and quotes around it.
fn bare(field: &str) -> &str {
    field.trim().trim_matches('"')
}

/// Whole numbers where all are.
fn column(ids: Vec<String>) -> Column {
    let numbers: Option<Vec<i64>> = ids.iter().map(|id| id.parse().ok()).collect();
    match numbers {
        Some(numbers) => Column::Ints(numbers),
        None => Column::Texts(ids.into_iter().collect()),
    }
}

/// Classes as numbers where all are, an empty one as -1.
fn classes(labels: Texts) -> Column {
    let number = |label: &str| {
        if label.is_empty() {
            Some(-1)
        } else {
            label.parse().ok()
        }
    };
    let numbers: Option<Vec<i64>> = labels.iter().map(number).collect();
    numbers.map_or(Column::Texts(labels), Column::Ints)
}
