//! What a magic is made of: flags, documentation and what completes where.

use gnn_core::spec::{Key, KeyType, Registry};
use launcher::flags::CommandFlag;

pub use super::list::MAGICS;

/// Where a magic stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `%%name`: owns its cell.
    Cell,
    /// `%name` or `:name`: one line, Rust may follow.
    Line,
}

/// What can be written in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// Anything; nothing is proposed.
    Free,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A data set's name.
    Data,
    /// A strategy's name.
    Strategy,
    /// A partitioner's name, knobs behind it.
    Partitioner,
    /// A kind of plot.
    Plot,
    /// A run: a bound name, an id or `latest`.
    Run,
    /// A table of `%%sql`.
    Table,
}

impl Value {
    /// What completes where a value of this type stands.
    const fn of(kind: KeyType) -> Value {
        match kind {
            KeyType::Choice(words) => Value::OneOf(words),
            KeyType::Switch => Value::OneOf(&["true", "false"]),
            KeyType::Name(Registry::Data) => Value::Data,
            KeyType::Name(Registry::Strategies) => Value::Strategy,
            KeyType::Name(Registry::Partitioners) => Value::Partitioner,
            KeyType::Name(Registry::Runs) => Value::Run,
            _ => Value::Free,
        }
    }
}

/// A flag of a magic.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Its long name, with dashes.
    pub long: &'static str,
    /// Its one-letter name.
    pub short: Option<char>,
    /// What it takes; `None` for a switch.
    pub value: Option<(&'static str, Value)>,
    /// One line.
    pub doc: &'static str,
    /// Whether it is a key of a run, which a cell's body can hold.
    pub key: bool,
}

impl Flag {
    /// A key of a run as a flag.
    pub const fn of_key(key: &Key) -> Flag {
        Flag {
            key: true,
            ..Flag::of_kind(key.flag, key.short, key.kind, key.doc)
        }
    }

    /// A command's own flag.
    pub const fn of_command(flag: &CommandFlag) -> Flag {
        Flag::of_kind(flag.name, flag.short, flag.kind, flag.doc)
    }

    const fn of_kind(
        long: &'static str,
        short: Option<char>,
        kind: KeyType,
        doc: &'static str,
    ) -> Flag {
        let value = match kind {
            KeyType::Switch => None,
            kind => Some((kind.placeholder(), Value::of(kind))),
        };
        Flag {
            long,
            short,
            value,
            doc,
            key: false,
        }
    }
}

/// A magic.
#[derive(Debug)]
pub struct Magic {
    /// Its name without `%`.
    pub name: &'static str,
    /// Where it stands.
    pub kind: Kind,
    /// What stands beside its flags: a name for it and what completes there. A last name that ends
    /// in `…` stands for any number.
    pub args: &'static [(&'static str, Value)],
    /// Its flags.
    pub flags: &'static [Flag],
    /// One line.
    pub summary: &'static str,
    /// The rest of the manual page.
    pub details: &'static str,
}

pub(super) const fn value(
    long: &'static str,
    short: Option<char>,
    name: &'static str,
    value: Value,
    doc: &'static str,
) -> Flag {
    Flag {
        long,
        short,
        value: Some((name, value)),
        doc,
        key: false,
    }
}

pub(super) const fn switch(long: &'static str, doc: &'static str) -> Flag {
    Flag {
        long,
        short: None,
        value: None,
        doc,
        key: false,
    }
}

/// The magic of that name.
pub fn find(name: &str) -> Option<&'static Magic> {
    MAGICS.iter().find(|magic| magic.name == name)
}

impl Magic {
    /// The name as it is written.
    pub fn spelling(&self) -> String {
        match self.kind {
            Kind::Cell => format!("%%{}", self.name),
            Kind::Line => format!("%{}", self.name),
        }
    }

    /// What stands beside its flags in the place `at`.
    pub fn arg(&self, at: usize) -> Option<(&'static str, Value)> {
        let last = self.args.last().filter(|(name, _)| name.ends_with('…'));
        self.args.get(at).or(last).copied()
    }

    /// The flag with this long or short name (no dashes; `_` counts as `-`).
    pub fn flag(&self, name: &str) -> Option<&'static Flag> {
        let name = name.replace('_', "-");
        let mut letters = name.chars();
        let letter = letters.next().filter(|_| letters.next().is_none());
        self.flags
            .iter()
            .find(|flag| flag.long == name || (letter.is_some() && flag.short == letter))
    }
}

/// Whether a line of a cell's head is a magic's: `%` or, for our own names, `:` at column 0.
pub fn looks_like_magic(line: &str) -> bool {
    match line.strip_prefix('%') {
        Some(rest) => {
            let rest = rest.strip_prefix('%').unwrap_or(rest);
            rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '?')
        }
        None => line.strip_prefix(':').is_some_and(|rest| {
            let name = rest
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
                .unwrap_or_default();
            find(name).is_some_and(|magic| magic.kind == Kind::Line)
        }),
    }
}
