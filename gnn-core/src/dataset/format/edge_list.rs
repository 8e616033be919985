//! Edge lists: one edge a line, as SNAP, NetworkX, KONECT and everybody else write them.
//!
//! Plain text, gzip or Zstandard. `#` and `%` begin comments. Fields are separated by the first of
//! tab, comma, semicolon, bar and blanks that the first record has. The first two fields are the
//! ends of an edge, by number or by name; whether the first record's ends are numbers decides it for
//! the file. A first record that is a header (`source target`, `FromNodeId ToNodeId`, …) is left
//! out. Further columns (weights, times) are counted and ignored. Also `.npy` files `[E, 2]`.
//!
//! Both directions are stored unless `meta.json` beside the file says `"directed": true`; repeats
//! and self loops are dropped. Features, labels and splits may lie beside it, see
//! [`crate::dataset`].

use std::path::Path;

use super::{Ask, stem};
use crate::Result;
use crate::dataset::meta::Meta;
use crate::dataset::source::{Lines, shown};
use crate::dataset::table::Table;
use crate::dataset::{Column, Dataset, EdgeTable, Limit, Texts, bad, split};
use crate::graph::EdgeOptions;

/// Words of header lines, in lower case and without marks.
const HEADERS: [&str; 13] = [
    "source",
    "src",
    "from",
    "fromnodeid",
    "id1",
    "nodeid",
    "u",
    "node1",
    "head",
    "sourceid",
    "start",
    "user",
    "sourcenode",
];

/// Loads the file `at`.
pub(super) fn load(ask: &Ask, at: &Path) -> Result<Dataset> {
    split::only_standard(ask.split, "an edge list")?;
    let meta = Meta::beside(at)?;
    let file = at.display().to_string();
    let list = if at.extension().is_some_and(|e| e == "npy") {
        pairs(at, ask.limit)?
    } else {
        EdgeList::read(at, ask.limit)?
    };
    if list.source.is_empty() {
        let help = "give one edge a line: source and target";
        return Err(bad(&file, "edges", "holds no edge", help));
    }
    let edges = EdgeTable {
        source: list.source,
        target: list.target,
        relation: None,
    };
    let options = EdgeOptions {
        symmetrise: !meta.directed,
        ..EdgeOptions::SIMPLE
    };
    let mut dataset = Dataset::from_tables(&file, edges, None, options, ask.limit)?;
    dataset.name = stem(at);
    dataset.about.format = "edge list";
    if list.ignored > 0 {
        let columns = if list.ignored == 1 {
            "column"
        } else {
            "columns"
        };
        let note = format!("{} {columns} after the ends of edges ignored", list.ignored);
        dataset.about.notes.push(note);
    }
    Ok(dataset)
}

/// An array of pairs as an edge list.
fn pairs(at: &Path, limit: &Limit) -> Result<EdgeList> {
    let table = Table::read(at, limit)?;
    table.columns(2)?;
    let ends = table.into_ints()?.0;
    let end = |k: usize| {
        ends[k.min(ends.len())..]
            .iter()
            .step_by(2)
            .copied()
            .collect()
    };
    Ok(EdgeList {
        source: Column::Ints(end(0)),
        target: Column::Ints(end(1)),
        ignored: 0,
    })
}

/// The ends of all edges of a file.
pub(super) struct EdgeList {
    pub(super) source: Column,
    pub(super) target: Column,
    /// Columns that were left out.
    pub(super) ignored: usize,
}

impl EdgeList {
    fn read(at: &Path, limit: &Limit) -> Result<EdgeList> {
        let mut edges = EdgeLines::open(at, limit)?;
        let file = edges.file().to_owned();
        let (mut src, mut dst) = (Vec::new(), Vec::new());
        let (mut from, mut to) = (Texts::default(), Texts::default());
        while let Some(edge) = edges.next()? {
            // Growing lists may have room for as much again.
            match edge {
                Edge::Numbers(u, v) => {
                    limit.take(32, &file, "edges")?;
                    src.push(u);
                    dst.push(v);
                }
                Edge::Names(u, v) => {
                    limit.take(2 * (u.len() + v.len() + 16) as u64, &file, "edges")?;
                    from.push(u);
                    to.push(v);
                }
            }
        }
        let ignored = edges.width().saturating_sub(2);
        let (source, target) = if from.is_empty() {
            (Column::Ints(src), Column::Ints(dst))
        } else {
            (Column::Texts(from), Column::Texts(to))
        };
        Ok(EdgeList {
            source,
            target,
            ignored,
        })
    }
}

/// One edge as it was written.
pub(in crate::dataset) enum Edge<'a> {
    /// By numbers.
    Numbers(i64, i64),
    /// By names.
    Names(&'a str, &'a str),
}

/// The edges of a text file one by one, in memory that does not grow.
pub(in crate::dataset) struct EdgeLines {
    lines: Lines,
    separator: Option<char>,
    numbers: bool,
    width: usize,
    started: bool,
}

impl EdgeLines {
    /// Opens the file, which may be compressed.
    ///
    /// # Errors
    /// [`crate::Error::Io`] when it cannot be opened.
    pub(in crate::dataset) fn open(path: &Path, limit: &Limit) -> Result<EdgeLines> {
        Ok(EdgeLines {
            lines: Lines::open(path, limit)?,
            separator: None,
            numbers: false,
            width: 0,
            started: false,
        })
    }

    /// The file, for messages.
    pub(in crate::dataset) fn file(&self) -> &str {
        &self.lines.file
    }

    /// Fields of the first record.
    pub(in crate::dataset) fn width(&self) -> usize {
        self.width
    }

    /// The next edge, or none after the last.
    ///
    /// # Errors
    /// [`crate::Error::Data`] naming the line.
    pub(in crate::dataset) fn next(&mut self) -> Result<Option<Edge<'_>>> {
        if !self.started {
            self.started = true;
            if !self.start()? {
                return Ok(None);
            }
        } else if self.lines.record(&['#', '%'])?.is_none() {
            return Ok(None);
        }
        let lines = &self.lines;
        let mut fields = fields(lines.line(), self.separator);
        let (Some(u), Some(v)) = (fields.next(), fields.next()) else {
            let help = "write source and target of one edge a line; is the file truncated?";
            return Err(lines.bad("has fewer than two fields", help));
        };
        if !self.numbers {
            return Ok(Some(Edge::Names(u, v)));
        }
        let number = |field: &str| {
            field.parse::<i64>().map_err(|_| {
                let reason = format!("{} is not a whole number like the ids before", shown(field));
                lines.bad(
                    reason,
                    "call all vertices by whole numbers, or the first ones by names too",
                )
            })
        };
        Ok(Some(Edge::Numbers(number(u)?, number(v)?)))
    }

    /// Finds out about the file from its first record. Whether there is one.
    fn start(&mut self) -> Result<bool> {
        for first in [true, false] {
            let Some(line) = self.lines.record(&['#', '%'])? else {
                return Ok(false);
            };
            let separators = ['\t', ',', ';', '|'];
            self.separator = separators.into_iter().find(|&c| line.contains(c));
            self.width = fields(line, self.separator).count();
            let mut ends = fields(line, self.separator).take(2);
            let word = |f: &str| f.to_lowercase().replace(['_', ' ', '-', ':'], "");
            let header = ends
                .clone()
                .next()
                .is_some_and(|f| HEADERS.contains(&word(f).as_str()));
            self.numbers = ends.all(|f| f.parse::<i64>().is_ok());
            if !(first && header) {
                break;
            }
        }
        Ok(true)
    }
}

/// The fields of a record, without quotes around them.
fn fields(line: &str, separator: Option<char>) -> impl Iterator<Item = &str> + Clone {
    let by = move |c: char| match separator {
        Some(s) => c == s,
        None => c.is_whitespace(),
    };
    let trimmed = line.split(by).map(|f| f.trim().trim_matches('"'));
    trimmed.filter(|f| !f.is_empty())
}
