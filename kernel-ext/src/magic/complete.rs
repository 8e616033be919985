//! Completion inside magics: from the table, without rustc.

use std::ops::Range;

use gnn_core::partition::PARTITIONERS;
use halobook::chart::MARKS;
use halobook::plot::KINDS;

use super::flags;
use super::table::{self, Kind, MAGICS, Magic, Value};

/// Candidates (text and kind) and the byte range that one replaces.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The candidates.
    pub items: Vec<(String, String)>,
    /// What they replace.
    pub range: Range<usize>,
}

/// Looks names up that the table does not hold: strategies, runs and tables of SQL.
pub type Names<'a> = &'a dyn Fn(Value) -> Vec<String>;

/// Completes at a byte offset; `None` when the place is Rust.
pub fn at(code: &str, position: usize, names: Names<'_>) -> Option<Found> {
    let position = position.min(code.len());
    if !code.is_char_boundary(position) {
        return None;
    }
    let start = code[..position].rfind('\n').map_or(0, |at| at + 1);
    let line = &code[start..position];
    let whole = code[start..].lines().next().unwrap_or_default();
    if let Some(magic) = owner(&code[..start]) {
        return Some(body(magic, line, start, position, names));
    }
    if !line.starts_with(['%', ':']) || !rust_starts_after(&code[..start]) {
        return None;
    }
    let signs = line.chars().take_while(|c| *c == '%' || *c == ':').count();
    let word = &line[signs..];
    if word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let items: Vec<(String, String)> = MAGICS
            .iter()
            .filter(|magic| magic.name.starts_with(word))
            .filter(|magic| match (&line[..signs], magic.kind) {
                ("%%", kind) => kind == Kind::Cell,
                ("%", _) => true,
                (_, kind) => kind == Kind::Line,
            })
            .map(|magic| {
                let spelled = if line.starts_with(':') {
                    format!(":{}", magic.name)
                } else {
                    magic.spelling()
                };
                (spelled, "magic".to_owned())
            })
            .collect();
        // evcxr has `:` commands of its own and completes those.
        if items.is_empty() && line.starts_with(':') {
            return None;
        }
        return Some(Found {
            items,
            range: start..position,
        });
    }
    if !table::looks_like_magic(whole) {
        return None;
    }
    let name: String = word
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    let magic = table::find(&name)?;
    Some(arguments(
        magic,
        line,
        signs + name.len(),
        start,
        position,
        names,
    ))
}

/// The cell magic that owns what follows `head`.
fn owner(head: &str) -> Option<&'static Magic> {
    let first = head
        .lines()
        .find(|line| !line.trim().is_empty() && !line.trim_start().starts_with("//"))?;
    let name: String = first
        .strip_prefix("%%")?
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    table::find(&name)
}

fn rust_starts_after(head: &str) -> bool {
    head.lines().all(|line| {
        let content = line.trim();
        content.is_empty() || content.starts_with("//") || table::looks_like_magic(line)
    })
}

fn arguments(
    magic: &'static Magic,
    line: &str,
    from: usize,
    start: usize,
    position: usize,
    names: Names<'_>,
) -> Found {
    let mut words = flags::words(line, from);
    let current = match words.last() {
        Some(word) if word.range.end == line.len() => words.pop(),
        _ => None,
    };
    let (typed, at) = match &current {
        Some(word) => (word.text.clone(), start + word.range.start),
        None => (String::new(), position),
    };
    let previous = words.last().map(|word| word.text.as_str());
    let awaits = previous
        .filter(|word| word.starts_with('-') && !word.contains('='))
        .and_then(|word| magic.flag(word.trim_start_matches('-')))
        .and_then(|flag| flag.value);
    if let Some((_, value)) = awaits {
        return found(value, &typed, at..position, names);
    }
    if let Some((name, part)) = typed
        .strip_prefix("--")
        .and_then(|text| text.split_once('='))
    {
        let value = magic
            .flag(name)
            .and_then(|flag| flag.value)
            .map_or(Value::Free, |(_, value)| value);
        return found(value, part, at + 2 + name.len() + 1..position, names);
    }
    let given = words
        .iter()
        .filter(|word| !word.text.starts_with('-'))
        .count();
    if !typed.starts_with('-')
        && let Some((_, value)) = magic.arg(given)
    {
        return found(value, &typed, at..position, names);
    }
    let items = magic
        .flags
        .iter()
        .map(|flag| format!("--{}", flag.long))
        .filter(|flag| flag.starts_with(&typed))
        .map(|flag| (flag, "flag".to_owned()))
        .collect();
    Found {
        items,
        range: at..position,
    }
}

/// Inside a body: keys, or values after `=`; in SQL tables.
fn body(
    magic: &'static Magic,
    line: &str,
    start: usize,
    position: usize,
    names: Names<'_>,
) -> Found {
    if matches!(magic.name, "sql" | "check") {
        let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let outside = line.char_indices().rfind(|(_, c)| !in_name(*c));
        let at = outside.map_or(0, |(at, c)| at + c.len_utf8());
        return found(Value::Table, &line[at..], start + at..position, names);
    }
    let piece_at = line.rfind(';').map_or(0, |at| at + 1);
    let piece = &line[piece_at..];
    let blank = piece.len() - piece.trim_start().len();
    if let Some((key, part)) = piece.split_once('=') {
        let value = magic
            .flag(key.trim())
            .and_then(|flag| flag.value)
            .map_or(Value::Free, |(_, value)| value);
        let skip = part.len() - part.trim_start().len();
        let part_at = start + piece_at + key.len() + 1 + skip;
        let mut result = found(
            value,
            part.trim_start().trim_matches('"'),
            part_at..position,
            names,
        );
        for (text, _) in &mut result.items {
            *text = format!("\"{text}\"");
        }
        return result;
    }
    let typed = piece.trim_start();
    let takes_keys = magic.flags.iter().any(|flag| flag.key);
    let items = magic
        .flags
        .iter()
        .filter(|flag| flag.key || (takes_keys && flag.long == "output"))
        .map(|flag| flag.long.replace('-', "_"))
        .filter(|key| key.starts_with(&typed.replace('-', "_")))
        .map(|key| (format!("{key} = "), "key".to_owned()))
        .collect();
    Found {
        items,
        range: start + piece_at + blank..position,
    }
}

/// What needs no file, and the catalogue's names.
fn data() -> Vec<String> {
    let built_in = gnn_core::dataset::catalogue().iter().map(|e| e.name);
    let fetched = launcher::datasets::ALL.iter().map(|e| e.name);
    built_in.chain(fetched).map(str::to_owned).collect()
}

fn found(value: Value, typed: &str, range: Range<usize>, names: Names<'_>) -> Found {
    let words: Vec<String> = match value {
        Value::Free => Vec::new(),
        Value::OneOf(words) => words.iter().map(|&word| word.to_owned()).collect(),
        Value::Data => data(),
        Value::Partitioner => PARTITIONERS.iter().map(|e| e.name.to_owned()).collect(),
        Value::Plot => {
            let kinds = KINDS
                .iter()
                .map(|kind| kind.0)
                .chain(MARKS.iter().map(|mark| mark.0));
            kinds.map(str::to_owned).collect()
        }
        Value::Strategy | Value::Run | Value::Table => names(value),
    };
    let items = words
        .into_iter()
        .filter(|word| word.starts_with(typed))
        .map(|word| (word, "instance".to_owned()))
        .collect();
    Found { items, range }
}
