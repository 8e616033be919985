//! Flags of the commands that train, plan and cut, and are no keys of a run.
//!
//! The keys of a run are [`gnn_core::spec::KEYS`]. Both tables are read by the command line, its help, and the
//! magics of the notebook: what is added to one of them is everywhere.

use gnn_core::spec::{KeyType, Registry};

/// Where a flag is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the command line and by the magic.
    Both,
    /// On the command line only.
    Shell,
}

/// A flag that is no key of a run.
#[derive(Debug, Clone, Copy)]
pub struct CommandFlag {
    /// Its name, with dashes.
    pub name: &'static str,
    /// Its one-letter name.
    pub short: Option<char>,
    /// What it takes; nothing for [`KeyType::Switch`].
    pub kind: KeyType,
    /// One line for help.
    pub doc: &'static str,
    /// Where it is understood.
    pub place: Place,
}

impl CommandFlag {
    const fn switch(name: &'static str, doc: &'static str) -> CommandFlag {
        CommandFlag::takes(name, KeyType::Switch, doc)
    }

    const fn takes(name: &'static str, kind: KeyType, doc: &'static str) -> CommandFlag {
        CommandFlag {
            name,
            short: None,
            kind,
            doc,
            place: Place::Both,
        }
    }

    const fn short(self, letter: char) -> CommandFlag {
        CommandFlag {
            short: Some(letter),
            ..self
        }
    }

    const fn shell(self) -> CommandFlag {
        CommandFlag {
            place: Place::Shell,
            ..self
        }
    }

    /// Whether it takes no value.
    pub const fn is_switch(&self) -> bool {
        matches!(self.kind, KeyType::Switch)
    }

    /// Its names on the command line.
    fn names(&self) -> impl Iterator<Item = String> {
        let short = self.short.map(|letter| letter.to_string());
        std::iter::once(self.name.to_owned()).chain(short)
    }
}

const COUNT: KeyType = KeyType::Int(1, i64::MAX);
/// `--json` of a command that has no other flag of its own.
pub const JSON: CommandFlag =
    CommandFlag::switch("json", "end with one JSON object on standard output").shell();
const QUIET: CommandFlag = CommandFlag::switch("quiet", "no progress, no table").shell();
const BG: CommandFlag = CommandFlag::switch(
    "bg",
    "return at once, also while its data is read; jobs, wait, attach and stop see to it then",
);
const FORCE: CommandFlag = CommandFlag::switch(
    "force",
    "start also what by its plan does not fit (--limit, or the free memory)",
);

/// Flags that read keys: understood wherever keys are.
pub const PAIRS: &[CommandFlag] = &[
    CommandFlag::takes("config", KeyType::Text("FILE"), "read keys from a run file"),
    CommandFlag::takes(
        "set",
        KeyType::Text("KEY=VALUE"),
        "set any key, also a strategy's own",
    ),
];

/// Flags of `halobook train` and `%%gnn`.
pub const TRAIN: &[CommandFlag] = &[
    CommandFlag::takes(
        "repeat",
        COUNT,
        "train so many times, each with a seed of its own, from the run's seed on",
    ),
    BG,
    CommandFlag::switch(
        "verify",
        "first train the strategy beside single on a small graph, and note what came of it",
    ),
    FORCE,
    CommandFlag::switch("dry-run", "resolve and check the request, start nothing"),
    CommandFlag::takes("run-id", KeyType::Text("ID"), "name the run's folder").shell(),
    CommandFlag::takes(
        "resume",
        KeyType::Name(Registry::Runs),
        "go on, as a new run of the same request, from the last checkpoint of RUN, which has ended; its epochs up to \
         there are in the new run's frames. Beside it only --epochs and other keys that change no epoch's result may \
         be given",
    )
    .shell(),
    JSON,
    QUIET,
];

/// Flags of `halobook sweep` and `%%sweep`.
pub const SWEEP: &[CommandFlag] = &[
    CommandFlag::takes(
        "repeat",
        COUNT,
        "each setting with so many seeds, from the request's seed on",
    ),
    CommandFlag::switch(
        "zip",
        "lists side by side, all of one length, instead of crossed",
    ),
    CommandFlag::takes("jobs", COUNT, "settings at a time [1]"),
    CommandFlag::switch(
        "in-order",
        "in the order of the lists instead of a drawn one",
    ),
    CommandFlag::switch(
        "resume",
        "take over finished runs of equal requests from earlier sweeps",
    ),
    CommandFlag::takes(
        "stop-if",
        KeyType::Text("CONDITION"),
        "no further setting once a row meets it: \"test >= 0.8\"",
    ),
    BG,
    FORCE,
    CommandFlag::switch("dry-run", "list the settings in their order, start nothing"),
    CommandFlag::takes("sweep-id", KeyType::Text("ID"), "name the sweep's folder").shell(),
    JSON,
    QUIET,
];

/// Flags of `halobook plan` and `%plan`.
pub const PLAN: &[CommandFlag] = &[
    CommandFlag::takes(
        "like",
        KeyType::Name(Registry::Runs),
        "the settings of a run; keys that are given go over them",
    ),
    CommandFlag::switch(
        "forecast",
        "in seconds, out of small graphs of the same kind",
    ),
    CommandFlag::switch("json", "the frame as JSON lines, then one object").shell(),
];

/// Flags of `halobook partition` and `%partition`, which take no keys.
pub const PARTITION: &[CommandFlag] = &[
    CommandFlag::takes(
        "data",
        KeyType::Name(Registry::Data),
        "data set, as for train (also without the flag)",
    ),
    CommandFlag::takes("ranks", COUNT, "number of parts [2]").short('n'),
    CommandFlag::takes(
        "nested",
        KeyType::Text("N"),
        "cut each part again into N; ranges:N into N runs of ascending ids",
    ),
    CommandFlag::takes(
        "method",
        KeyType::Name(Registry::Partitioners),
        "partitioner [metis]; knobs after a colon: metis:slack=0.1",
    ),
    CommandFlag::takes(
        "balance",
        KeyType::Choice(gnn_core::partition::BALANCES),
        "what METIS balances; several separated by commas",
    ),
    CommandFlag::takes(
        "set",
        KeyType::Text("KNOB=VALUE"),
        "a knob of the partitioner",
    ),
    CommandFlag::takes("seed", KeyType::Int(0, i64::MAX), "seed [0]"),
    CommandFlag::takes(
        "split",
        KeyType::Text("NAME"),
        "split of the data [standard]",
    ),
    CommandFlag::takes(
        "mem",
        KeyType::Text("SIZE"),
        "memory the partitioner may use, 2GB [what the machine has free]",
    ),
    CommandFlag::takes("time", KeyType::Seconds(0.0, f64::MAX), "time it may use"),
    CommandFlag::switch("dry-run", "say what it would need, cut nothing"),
    CommandFlag::switch("no-cache", "cut anew, keep nothing"),
    CommandFlag::switch("json", "the frame as JSON lines, then one object").shell(),
];

/// Names of those that take no value, and of those that take one.
pub fn sorted(flags: &[CommandFlag]) -> (Vec<String>, Vec<String>) {
    let named = |switch: bool| {
        let wanted = flags.iter().filter(move |flag| flag.is_switch() == switch);
        wanted.flat_map(CommandFlag::names).collect()
    };
    (named(true), named(false))
}

/// Their lines of a help page.
pub fn help(flags: &[CommandFlag]) -> String {
    const DOC_AT: usize = 27;
    const WIDTH: usize = 110;
    let mut page = String::new();
    for flag in flags {
        let short = flag.short.map_or("   ".to_owned(), |c| format!("-{c},"));
        let value = match flag.is_switch() {
            true => String::new(),
            false => format!(" {}", flag.kind.placeholder()),
        };
        let mut line = format!("  {short} --{:<18}", format!("{}{value}", flag.name));
        for word in flag.doc.split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > WIDTH {
                page.push_str(line.trim_end());
                line = format!("\n{}", " ".repeat(DOC_AT - 1));
            }
            line.push(' ');
            line.push_str(word);
        }
        page.push_str(&line);
        page.push('\n');
    }
    page
}

/// What a key takes: words, a range, or what stands for them.
pub fn values(kind: KeyType) -> String {
    const MANY: i64 = 1 << 40;
    match kind {
        KeyType::Text(_) | KeyType::Name(_) => kind.placeholder().into(),
        KeyType::Int(lo, hi) if hi > MANY => format!("{lo}…"),
        KeyType::Int(lo, hi) => format!("{lo}…{hi}"),
        KeyType::Float(lo, hi) if hi >= 1e6 => format!("{lo}…"),
        KeyType::Float(lo, hi) => format!("{lo}…{hi}"),
        KeyType::Seconds(lo, _) => format!("{lo}…, 30s, 2min"),
        KeyType::Choice(words) => words.join("|"),
        KeyType::Switch => "[true|false]".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnn_core::spec::KEYS;

    #[test]
    fn no_flag_of_a_command_that_takes_keys_is_a_key() {
        for flag in [PAIRS, TRAIN, SWEEP, PLAN].concat() {
            assert!(
                KEYS.iter().all(|key| key.flag != flag.name),
                "{}",
                flag.name
            );
        }
    }

    #[test]
    fn help_names_every_flag_and_keeps_its_width() {
        for flags in [PAIRS, TRAIN, SWEEP, PLAN, PARTITION] {
            let page = help(flags);
            for flag in flags {
                assert!(page.contains(&format!("--{}", flag.name)), "{}", flag.name);
            }
            assert!(
                page.lines().all(|line| line.chars().count() <= 110),
                "{page}"
            );
        }
        assert_eq!(
            sorted(PLAN),
            (
                vec!["forecast".to_owned(), "json".to_owned()],
                vec!["like".to_owned()]
            )
        );
    }
}
