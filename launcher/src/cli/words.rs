//! The words of the small commands: names in order, and a few flags.

use crate::flags::{self, CommandFlag};
use crate::{Error, Result};

/// Words sorted into names and flags.
pub struct Words {
    names: Vec<String>,
    flags: Vec<(String, Option<String>)>,
}

impl Words {
    /// Sorts `words`; `switches` take no value, `valued` take one.
    ///
    /// # Errors
    /// For a flag that is neither, with the nearest one, and for a missing value.
    pub fn sort(words: &[String], switches: &[&str], valued: &[&str]) -> Result<Words> {
        let mut sorted = Words {
            names: Vec::new(),
            flags: Vec::new(),
        };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let Some(flag) = word.strip_prefix('-').map(|w| w.trim_start_matches('-')) else {
                sorted.names.push(word.clone());
                continue;
            };
            let (flag, inline) = match flag.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (flag, None),
            };
            if switches.contains(&flag) {
                sorted.flags.push((flag.to_owned(), None));
            } else if valued.contains(&flag) {
                let value = inline.or_else(|| rest.next().cloned()).ok_or_else(|| {
                    Error::refused(
                        format!("--{flag} needs a value"),
                        format!("write --{flag} VALUE"),
                    )
                })?;
                sorted.flags.push((flag.to_owned(), Some(value)));
            } else {
                let known: Vec<&str> = switches.iter().chain(valued).copied().collect();
                let near = gnn_core::error::nearest(flag, known.iter().copied());
                let near = near.map_or(String::new(), |n| format!("; did you mean '--{n}'?"));
                let help = if known.is_empty() {
                    "this command has no flags".to_owned()
                } else {
                    format!("flags: --{}", known.join(", --"))
                };
                return Err(Error::refused(format!("unknown flag '{word}'{near}"), help));
            }
        }
        Ok(sorted)
    }

    /// [`Words::sort`] by a table of flags.
    ///
    /// # Errors
    /// As [`Words::sort`].
    pub fn of(words: &[String], flags: &[CommandFlag]) -> Result<Words> {
        fn names(of: &[String]) -> Vec<&str> {
            of.iter().map(String::as_str).collect()
        }
        let (switches, valued) = flags::sorted(flags);
        Words::sort(words, &names(&switches), &names(&valued))
    }

    /// The names, in order.
    pub fn all_names(&self) -> &[String] {
        &self.names
    }

    /// Whether a switch was given.
    pub fn has(&self, switch: &str) -> bool {
        self.flags.iter().any(|(flag, _)| flag == switch)
    }

    /// The value of a flag, if it was given; the last one counts.
    pub fn value(&self, flag: &str) -> Option<&str> {
        self.flags
            .iter()
            .rev()
            .find(|(f, _)| f == flag)
            .and_then(|(_, v)| v.as_deref())
    }

    /// All values of a flag that may be repeated.
    pub fn values(&self, flag: &str) -> Vec<&str> {
        let of_flag = self.flags.iter().filter(|(f, _)| f == flag);
        of_flag.filter_map(|(_, v)| v.as_deref()).collect()
    }

    /// The value of a flag as a number, if it was given.
    ///
    /// # Errors
    /// When it is no whole number.
    pub fn number<T: std::str::FromStr>(&self, flag: &str) -> Result<Option<T>> {
        let read = |text: &str| {
            text.parse().map_err(|_| {
                Error::refused(
                    format!("{flag}: expected a whole number, got {text}"),
                    format!("write --{flag} 3, for example"),
                )
            })
        };
        self.value(flag).map(read).transpose()
    }

    /// Exactly these names, in order.
    ///
    /// # Errors
    /// When there are more or fewer.
    pub fn names<const N: usize>(&self, wanted: [&str; N]) -> Result<[&str; N]> {
        let given: Vec<&str> = self.names.iter().map(String::as_str).collect();
        given.as_slice().try_into().map_err(|_| {
            let usage = if N == 0 {
                "no names".to_owned()
            } else {
                wanted.join(" ")
            };
            Error::refused(
                format!(
                    "expected {usage}, got {}",
                    if given.is_empty() {
                        "nothing".into()
                    } else {
                        given.join(" ")
                    }
                ),
                "RUN is an id from `halobook runs`, the beginning of one, a name, or latest",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sort(line: &str) -> Result<Words> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Words::sort(&words, &["json"], &["tail"])
    }

    #[test]
    fn names_and_flags_come_apart() {
        let words = sort("latest --tail 5 epochs --json").expect("fine");
        assert_eq!(
            words.names(["RUN", "FRAME"]).expect("two"),
            ["latest", "epochs"]
        );
        assert!(words.has("json") && words.names(["RUN"]).is_err());
        assert_eq!(words.number::<usize>("tail").expect("a number"), Some(5));
        assert_eq!(
            sort("--tail 1 --tail=2").expect("fine").values("tail"),
            ["1", "2"]
        );
        assert_eq!(sort("--tail=7").expect("fine").value("tail"), Some("7"));
    }

    #[test]
    fn wrong_flags_name_the_nearest() {
        let error = |line: &str| sort(line).err().expect("an error").to_string();
        assert!(error("--jsn").contains("--json"));
        assert!(error("--tail").contains("needs a value"));
        assert!(
            sort("--tail x")
                .expect("fine")
                .number::<usize>("tail")
                .is_err()
        );
    }
}
