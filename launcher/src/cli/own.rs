//! Flags of a command that takes a run's keys, and are no keys.

use crate::Result;
use crate::flags::{self, CommandFlag};
use crate::request::{Flag, Pair, parse_flags, parse_flags_with_lists};

/// They, as they were given.
pub struct Own(Vec<Flag>);

impl Own {
    /// The keys' pairs, and those of `ours` that were given. With `lists`, a key's value may be a list.
    ///
    /// # Errors
    /// As [`parse_flags`].
    pub fn sort(words: &[String], ours: &[CommandFlag], lists: bool) -> Result<(Vec<Pair>, Own)> {
        let (switches, valued) = flags::sorted(ours);
        let known = |flag: &str| {
            let flag = flag.replace('_', "-");
            if switches.contains(&flag) {
                return Some(false);
            }
            valued.contains(&flag).then_some(true)
        };
        let (pairs, flags) = match lists {
            true => parse_flags_with_lists(words, &known)?,
            false => parse_flags(words, &known)?,
        };
        Ok((pairs, Own(flags)))
    }

    /// Whether a flag was given.
    pub fn has(&self, name: &str) -> bool {
        self.0
            .iter()
            .any(|(flag, _)| flag.replace('_', "-") == name)
    }

    /// The value that was given last.
    pub fn value(&self, name: &str) -> Option<String> {
        let mut flags = self.0.iter().rev();
        let found = flags.find(|(flag, _)| flag.replace('_', "-") == name);
        found.and_then(|(_, value)| value.clone())
    }
}
