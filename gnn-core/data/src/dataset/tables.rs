//! A data set from tables of edges and vertices, whoever read them.
//!
//! Vertices are called by numbers or by names. A table of vertices with an `id` column numbers them
//! by its rows. Without one, whole numbers stay vertex numbers if more than half of those up to the
//! largest occur, or if there is a row for each vertex; otherwise they are renumbered in ascending
//! order. Names are numbered in order of their first appearance. Ids that are not the vertex
//! numbers are kept in [`About::ids`].

use std::borrow::Cow;

use kernels::Mat;
use rayon::prelude::*;

use crate::Result;
use crate::dataset::texts::Dictionary;
use crate::dataset::{About, Dataset, Features, Limit, Texts, Types, bad, check, split, typed};
use crate::graph::{EdgeOptions, Graph};

/// One column of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Names.
    Texts(Texts),
}

impl Column {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Column::Ints(x) => x.len(),
            Column::Texts(x) => x.len(),
        }
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Row `k` as text.
    fn text(&self, k: usize) -> Cow<'_, str> {
        match self {
            Column::Ints(x) => x[k].to_string().into(),
            Column::Texts(x) => x.get(k).unwrap_or("").into(),
        }
    }
}

/// Edges, one a row.
#[derive(Debug, Clone)]
pub struct EdgeTable {
    /// Where they start: `[e]`.
    pub source: Column,
    /// Where they end: `[e]`.
    pub target: Column,
    /// What relation they belong to, where they have types: `[e]`.
    pub relation: Option<Column>,
}

/// Vertices, one a row. Everything may be absent.
#[derive(Debug, Clone, Default)]
pub struct VertexTable {
    /// What the edges call them: `[n]`; absent, their row.
    pub id: Option<Column>,
    /// Class: `[n]`; -1 or an empty name is unlabelled. Names are numbered in sorted order.
    pub label: Option<Column>,
    /// `train`, `val` (or `valid`) and `test`, or 0, 1 and 2: `[n]`; anything else is in no part.
    /// Absent, 60/20/20 % of the labelled vertices at random.
    pub split: Option<Column>,
    /// Type, by number or by name: `[n]`.
    pub kind: Option<Column>,
    /// Features: `[n, d]`.
    pub features: Option<Mat>,
}

impl Dataset {
    /// A data set from a table of edges and perhaps one of vertices. With relations,
    /// `options.symmetrise` adds inverse relations and the other options do not apply. Without
    /// labels it has no classes; then links may be predicted.
    ///
    /// # Errors
    /// [`crate::Error::Data`] naming table, column and row: columns of different length, an id that
    /// no vertex has or two have, too many classes or types, features that are not finite, and what
    /// needs more memory than `limit`.
    pub fn from_tables(
        name: &str,
        edges: EdgeTable,
        vertices: Option<VertexTable>,
        options: EdgeOptions,
        limit: &Limit,
    ) -> Result<Dataset> {
        let table = vertices.unwrap_or_default();
        let rows = rows(name, &table)?;
        let EdgeTable {
            source,
            target,
            relation,
        } = edges;
        same(name, "target", source.len(), target.len())?;
        let (ends, n, ids) = number(name, source, target, table.id, rows, limit)?;
        limit.graph(n as u64, ends[0].len() as u64, name)?;
        let (graph, relations) = match relation {
            None => {
                let [src, dst] = ends;
                (Graph::from_edges(n, &src, &dst, options)?, Vec::new())
            }
            Some(column) => {
                same(name, "relation", ends[0].len(), column.len())?;
                let (types, names) = kinds(name, "relation", column, limit)?;
                let count = names.len();
                (
                    typed::graph(n, ends, types, count, !options.symmetrise)?,
                    names,
                )
            }
        };
        let mut dataset = Dataset::unlabelled(name, graph);
        if let Some(label) = table.label {
            let (labels, classes) = classes(name, label, limit)?;
            let (labels, n_classes) = check::labels(name, &labels, None)?;
            [dataset.train, dataset.val, dataset.test] = match &table.split {
                None => split::random(&labels),
                Some(column) => parts(column),
            };
            (dataset.labels, dataset.n_classes) = (labels, n_classes);
            dataset.about.classes = classes;
        }
        let mut kind_names = Vec::new();
        if let Some(column) = table.kind {
            let (types, names) = kinds(name, "type", column, limit)?;
            (dataset.node_types, kind_names) = (Some(types), names);
        }
        if let Some(x) = table.features {
            dataset.features = Features::Dense(x);
        }
        let types = dataset.node_types.as_deref();
        let types = Types::count(types, &kind_names, &dataset.graph, &relations);
        dataset.about = About {
            format: "tables",
            types,
            ids,
            ..dataset.about
        };
        dataset.check()?;
        Ok(dataset)
    }
}

/// Number of rows of a table of vertices, if it has any column.
fn rows(name: &str, table: &VertexTable) -> Result<Option<usize>> {
    let columns = [
        ("id", table.id.as_ref().map(Column::len)),
        ("label", table.label.as_ref().map(Column::len)),
        ("split", table.split.as_ref().map(Column::len)),
        ("type", table.kind.as_ref().map(Column::len)),
        ("features", table.features.as_ref().map(Mat::nrows)),
    ];
    let mut rows = None;
    for (column, len) in columns {
        if let Some(len) = len {
            same(name, column, *rows.get_or_insert(len), len)?;
        }
    }
    Ok(rows)
}

fn same(name: &str, column: &str, expected: usize, got: usize) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    let reason = format!("expected {expected} rows like the columns before, got {got}");
    Err(bad(
        name,
        column,
        reason,
        "give every column one value a row",
    ))
}

/// Both ends of every edge as vertex numbers, the number of vertices, and their ids where those are
/// not the numbers.
pub(super) fn number(
    name: &str,
    source: Column,
    target: Column,
    ids: Option<Column>,
    rows: Option<usize>,
    limit: &Limit,
) -> Result<([Vec<u32>; 2], usize, Option<Texts>)> {
    let edges = source.len() as u64;
    limit.take(8 * edges, name, "ends of edges")?;
    match (source, target, ids) {
        (Column::Ints(src), Column::Ints(dst), None) => match rows {
            Some(n) => {
                let ends = [
                    check::edges(name, "source", src, n)?,
                    check::edges(name, "target", dst, n)?,
                ];
                Ok((ends, n, None))
            }
            None => whole(name, src, dst, limit),
        },
        (source, target, ids) => {
            let mut numbers = Dictionary::new(name, limit);
            let known = ids.is_some();
            for k in 0..ids.as_ref().map_or(0, Column::len) {
                let id = ids.as_ref().map_or("".into(), |ids| ids.text(k));
                if numbers.number(&id)? as usize != k {
                    let reason = format!("{} is there twice", crate::dataset::source::shown(&id));
                    let place = format!("id[{k}]");
                    return Err(bad(name, place, reason, "give every vertex one row"));
                }
            }
            let mut end = |place: &str, column: &Column| -> Result<Vec<u32>> {
                let one = |e: usize| {
                    let id = column.text(e);
                    if !known {
                        return numbers.number(&id);
                    }
                    numbers.find(&id).ok_or_else(|| {
                        let id = crate::dataset::source::shown(&id);
                        let reason = format!("no vertex has the id {id}");
                        let help = "give every end of an edge a row among the vertices";
                        bad(name, format!("{place}[{e}]"), reason, help)
                    })
                };
                (0..column.len()).map(one).collect()
            };
            let ends = [end("source", &source)?, end("target", &target)?];
            let n = numbers.len();
            Ok((ends, n, Some(numbers.into_texts())))
        }
    }
}

/// [`number`] for whole numbers without a table of vertices.
fn whole(
    name: &str,
    src: Vec<i64>,
    dst: Vec<i64>,
    limit: &Limit,
) -> Result<([Vec<u32>; 2], usize, Option<Texts>)> {
    for (place, ends) in [("source", &src), ("target", &dst)] {
        if let Some(e) = ends.iter().position(|&v| v < 0) {
            let reason = format!("vertex {} is negative", ends[e]);
            let help = "number the vertices from 0, or call them by names";
            return Err(bad(name, format!("{place}[{e}]"), reason, help));
        }
    }
    let largest = src.iter().chain(&dst).max().map_or(0, |&v| v as u64);
    let count = 2 * src.len() as u64;
    // So many ids can at most be there, so a larger number leaves gaps without counting.
    if largest < u64::from(u32::MAX) && largest < 2 * count {
        limit.take(largest + 1, name, "vertex ids")?;
        let mut seen = vec![false; largest as usize + 1];
        src.iter()
            .chain(&dst)
            .for_each(|&v| seen[v as usize] = true);
        let distinct = seen.iter().filter(|&&s| s).count() as u64;
        if 2 * distinct > largest {
            let narrow = |ends: Vec<i64>| ends.into_iter().map(|v| v as u32).collect();
            let n = if count == 0 { 0 } else { largest as usize + 1 };
            return Ok(([narrow(src), narrow(dst)], n, None));
        }
    }
    limit.take(8 * count, name, "vertex ids")?;
    let mut ids: Vec<i64> = src.iter().chain(&dst).copied().collect();
    ids.par_sort_unstable();
    ids.dedup();
    if ids.len() >= u32::MAX as usize {
        let help = "split the graph; vertices are numbered by 32 bits";
        return Err(bad(name, "vertex ids", "are more than 4294967295", help));
    }
    let find = |v: &i64| ids.binary_search(v).expect("every end is among the ids") as u32;
    let ends = [&src, &dst].map(|ends| ends.par_iter().map(find).collect());
    limit.take(28 * ids.len() as u64, name, "vertex ids")?;
    let texts = ids.iter().map(i64::to_string).collect();
    Ok((ends, ids.len(), Some(texts)))
}

/// Types by number, with a name for each.
fn kinds(
    name: &str,
    place: &str,
    column: Column,
    limit: &Limit,
) -> Result<(Vec<u16>, Vec<String>)> {
    match column {
        Column::Ints(types) => {
            let (types, count) = check::types(name, place, &types, None)?;
            Ok((types, (0..count).map(|k| k.to_string()).collect()))
        }
        Column::Texts(types) => {
            let mut numbers = Dictionary::new(name, limit);
            let types = types.iter().map(|t| Ok(i64::from(numbers.number(t)?)));
            let types = types.collect::<Result<Vec<i64>>>()?;
            let (types, _) = check::types(name, place, &types, None)?;
            let names = numbers.into_texts();
            Ok((types, names.iter().map(str::to_owned).collect()))
        }
    }
}

/// Classes by number, -1 for an empty name, and the names in sorted order.
fn classes(name: &str, column: Column, limit: &Limit) -> Result<(Vec<i64>, Vec<String>)> {
    let texts = match column {
        Column::Ints(labels) => return Ok((labels, Vec::new())),
        Column::Texts(texts) => texts,
    };
    let mut numbers = Dictionary::new(name, limit);
    for label in texts.iter().filter(|l| !l.is_empty()) {
        numbers.number(label)?;
        if numbers.len() as i64 > check::MAX_CLASSES {
            let reason = format!("has more than {} different values", check::MAX_CLASSES);
            return Err(bad(name, "label", reason, "is this a column of classes?"));
        }
    }
    let names = numbers.into_texts();
    let mut names: Vec<String> = names.iter().map(str::to_owned).collect();
    names.sort_unstable();
    let class = |l: &str| {
        names
            .binary_search_by(|n| n.as_str().cmp(l))
            .map_or(-1, |c| c as i64)
    };
    Ok((texts.iter().map(class).collect(), names))
}

/// Training, validation and test masks from a column that names the part of each vertex.
fn parts(column: &Column) -> [Vec<bool>; 3] {
    let words: [&[&str]; 3] = [
        &["train", "0"],
        &["val", "valid", "validation", "1"],
        &["test", "2"],
    ];
    words.map(|words| {
        let is = |k: usize| words.contains(&&*column.text(k));
        (0..column.len()).map(is).collect()
    })
}
