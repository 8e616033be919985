//! Edge lists: one edge a line, as SNAP, NetworkX, KONECT and everybody else write them.
//!
//! Plain text, gzip or Zstandard. `#` and `%` begin comments. Fields are separated by the first of
//! tab, comma, semicolon, bar and blanks that the first record has. The first two fields are the
//! ends of an edge, by number or by name; whether the first record's ends are numbers decides it for
//! the file. A first record of two words is a header, and left out, if numbers follow or if it begins
//! with a usual word (`source`, `FromNodeId`, …). Further columns (weights, times) are counted and ignored. Also `.npy` files `[E, 2]`.
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
    /// Reads a text file.
    ///
    /// # Errors
    /// As [`EdgeLines::next`].
    pub(super) fn read(at: &Path, limit: &Limit) -> Result<EdgeList> {
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
    turn: Turn,
    /// The first record, when only the second one told that it is no header.
    held: String,
}

/// Which record is the next edge.
#[derive(Clone, Copy)]
enum Turn {
    Start,
    Held,
    Line,
    End,
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
            turn: Turn::Start,
            held: String::new(),
        })
    }

    /// The file, for messages.
    pub(in crate::dataset) fn file(&self) -> &str {
        &self.lines.file
    }

    /// Fields of the first edge.
    pub(in crate::dataset) fn width(&self) -> usize {
        self.width
    }

    /// The next edge, or none after the last.
    ///
    /// # Errors
    /// [`crate::Error::Data`] naming the line.
    pub(in crate::dataset) fn next(&mut self) -> Result<Option<Edge<'_>>> {
        self.turn = match self.turn {
            Turn::Start => self.start()?,
            Turn::Held => Turn::Line,
            Turn::Line if self.lines.record(&COMMENTS)?.is_some() => Turn::Line,
            Turn::Line | Turn::End => Turn::End,
        };
        let lines = &self.lines;
        let line = match self.turn {
            Turn::Line => lines.line(),
            Turn::Held => &self.held,
            Turn::Start | Turn::End => return Ok(None),
        };
        let mut fields = fields(line, self.separator);
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
                let help = "call all vertices by whole numbers, or the first ones by names too";
                lines.bad(reason, help)
            })
        };
        Ok(Some(Edge::Numbers(number(u)?, number(v)?)))
    }

    /// Finds out about the file from its first records.
    fn start(&mut self) -> Result<Turn> {
        let Some(first) = self.lines.record(&COMMENTS)?.map(str::to_owned) else {
            return Ok(Turn::End);
        };
        self.describe(&first);
        let number = |f: &str| f.parse::<f64>().is_ok();
        let numbers = fields(&first, self.separator).take(2).filter(|f| number(f));
        let numbers = numbers.count();
        let width = self.width.min(2);
        self.numbers = numbers == width;
        if numbers > 0 {
            return Ok(Turn::Line);
        }
        // Two words: names, or a header that the second record tells from names, or its own words.
        let word = |f: &str| f.to_lowercase().replace(['_', ' ', '-', ':'], "");
        let start = fields(&first, self.separator).next().map(word);
        let header = start.is_some_and(|w| HEADERS.contains(&w.as_str()));
        let Some(second) = self.lines.record(&COMMENTS)?.map(str::to_owned) else {
            self.held = first;
            return Ok(if header { Turn::End } else { Turn::Held });
        };
        self.numbers = fields(&second, separator(&second)).take(2).all(number);
        if header || self.numbers {
            self.describe(&second);
            return Ok(Turn::Line);
        }
        self.held = first;
        Ok(Turn::Held)
    }

    /// Separator and width from an edge.
    fn describe(&mut self, line: &str) {
        self.separator = separator(line);
        self.width = fields(line, self.separator).count();
    }
}

/// What lines that hold no record begin with.
pub(super) const COMMENTS: [char; 2] = ['#', '%'];

/// What separates the fields of a record; none for blanks.
pub(super) fn separator(line: &str) -> Option<char> {
    ['\t', ',', ';', '|']
        .into_iter()
        .find(|&c| line.contains(c))
}

/// The fields of a record, without quotes around them.
pub(super) fn fields(line: &str, separator: Option<char>) -> impl Iterator<Item = &str> + Clone {
    let by = move |c: char| match separator {
        Some(s) => c == s,
        None => c.is_whitespace(),
    };
    let trimmed = line.split(by).map(|f| f.trim().trim_matches('"'));
    trimmed.filter(|f| !f.is_empty())
}
