//! What the user wrote becomes a [`RunSpec`]: flags, files and cell bodies by one parser.

use crate::error::{Error, Result};
use gnn_core::spec::{KEYS, KeyType, RunSpec, Value, find_key};
use gnn_core::strategy::Entry;
use std::path::Path;

/// One `key = value` of a request, in the order written; a later one overrides an earlier one.
pub type Pair = (String, Value);

/// A flag that is no key, and its value if it takes one.
pub type Flag = (String, Option<String>);

/// Turns pairs into a request with every default filled in.
///
/// # Errors
/// What [`RunSpec::from_pairs_in`] refuses, with the nearest right name.
pub fn parse_pairs(strategies: &[Entry], pairs: impl IntoIterator<Item = Pair>) -> Result<RunSpec> {
    Ok(RunSpec::from_pairs_in(strategies, pairs)?)
}

/// Reads the body of a cell or a specification file: `key = value`, one a line or separated by
/// `;`, comments after `#` or `//`. Values are those of TOML; a bare word is text.
///
/// # Errors
/// [`Error::Refused`] naming the line that is no `key = value`.
pub fn parse_body(text: &str) -> Result<Vec<Pair>> {
    parse_lines(text, false)
}

fn parse_lines(text: &str, lists: bool) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for statement in statements(line) {
            let pair = parse_statement(statement, lists).map_err(|what| {
                Error::refused(
                    format!("line {}: {what}", index + 1),
                    "write one key = value a line, as in: epochs = 100",
                )
            })?;
            pairs.push(pair);
        }
    }
    Ok(pairs)
}

/// Splits a line at `;` and cuts its comment, both outside quotes.
fn statements(line: &str) -> Vec<&str> {
    let bytes = line.as_bytes();
    let (mut quote, mut start, mut end) = (None, 0, line.len());
    let mut parts = Vec::new();
    for (at, &byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (Some(open), _) if byte == open && (open == b'\'' || bytes[at - 1] != b'\\') => {
                quote = None
            }
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b';') => {
                parts.push(&line[start..at]);
                start = at + 1;
            }
            (None, b'#') => {
                end = at;
                break;
            }
            // A comment, unless it is part of a bare word such as a path with a double slash.
            (None, b'/')
                if bytes.get(at + 1) == Some(&b'/') && (at == 0 || bytes[at - 1] == b' ') =>
            {
                end = at;
                break;
            }
            (None, _) => {}
        }
    }
    parts.push(&line[start.min(end)..end]);
    parts
        .into_iter()
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .collect()
}

fn parse_statement(statement: &str, lists: bool) -> std::result::Result<Pair, String> {
    if statement.starts_with('[') {
        return Err(format!("{statement}: keys are flat, without sections"));
    }
    let (key, value) = statement
        .split_once('=')
        .ok_or_else(|| format!("expected key = value, got {statement}"))?;
    let (key, value) = (key.trim().trim_matches('"'), value.trim());
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(format!("expected one word before =, got {key:?}"));
    }
    if value.is_empty() {
        return Err(format!("{key}: the value is missing"));
    }
    let quoted = value.starts_with(['"', '\'']);
    let value =
        match toml::from_str::<toml::Table>(&format!("v = {value}")).map(|mut t| t.remove("v")) {
            Ok(Some(toml::Value::String(text))) => Value::Str(text),
            Ok(Some(toml::Value::Integer(i))) => Value::Int(i),
            Ok(Some(toml::Value::Float(x))) => Value::Float(x),
            Ok(Some(toml::Value::Boolean(b))) => Value::Bool(b),
            Ok(Some(toml::Value::Array(_))) if lists => Value::Str(value.to_owned()),
            Ok(Some(toml::Value::Array(_) | toml::Value::Table(_))) => {
                return Err(format!("{key}: expected one value, got a list or a table"));
            }
            _ if quoted => return Err(format!("{key}: the quotes of {value} do not close")),
            _ => Value::from_word(value),
        };
    Ok((key.to_owned(), value))
}

/// Reads a specification file (`--config`).
fn parse_file(path: &Path, lists: bool) -> Result<Vec<Pair>> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        Error::refused(
            format!("config: {}: {e}", path.display()),
            "check the path of --config",
        )
    })?;
    parse_lines(&text, lists)
        .map_err(|error| Error::refused(format!("{}: {error}", path.display()), error.help()))
}

/// Reads one `key=value` of `--set`.
fn parse_set(text: &str, lists: bool) -> Result<Pair> {
    parse_statement(text, lists).map_err(|what| {
        Error::refused(
            format!("set: {what}"),
            "write --set key=value, as in --set epochs=100",
        )
    })
}

/// Reads a run's flags: every key of the table and of the strategy as `--key value` or
/// `--key=value`, short flags, `--config FILE` and `--set key=value`. Words that `known` claims are
/// not pairs: it is given the flag and says whether it takes a value; they come back as the second
/// part.
///
/// # Errors
/// [`Error::Refused`] for a word that is no flag, a flag without its value, an unreadable file.
pub fn parse_flags(
    words: &[String],
    known: &dyn Fn(&str) -> Option<bool>,
) -> Result<(Vec<Pair>, Vec<Flag>)> {
    sort_flags(words, known, false)
}

/// [`parse_flags`], where a value may also be a list, which is kept as it is written.
///
/// # Errors
/// As [`parse_flags`].
pub fn parse_flags_with_lists(
    words: &[String],
    known: &dyn Fn(&str) -> Option<bool>,
) -> Result<(Vec<Pair>, Vec<Flag>)> {
    sort_flags(words, known, true)
}

fn sort_flags(
    words: &[String],
    known: &dyn Fn(&str) -> Option<bool>,
    lists: bool,
) -> Result<(Vec<Pair>, Vec<Flag>)> {
    let (mut pairs, mut others) = (Vec::new(), Vec::new());
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let Some((flag, inline)) = split_flag(word) else {
            return Err(Error::refused(
                format!("expected a flag, got {word:?}"),
                "write --key value; `halobook train --help` lists the keys",
            ));
        };
        let mut value = || -> Result<String> {
            let next = || rest.next_if(|w| !looks_like_a_flag(w)).cloned();
            inline.clone().or_else(next).ok_or_else(|| {
                Error::refused(
                    format!("{word} needs a value"),
                    format!("write {word} VALUE; `halobook train --help` lists the keys"),
                )
            })
        };
        match known(&flag) {
            Some(true) => others.push((flag.clone(), Some(value()?))),
            Some(false) => others.push((flag, None)),
            None => match flag.as_str() {
                "config" => pairs.extend(parse_file(Path::new(&value()?), lists)?),
                "set" => pairs.push(parse_set(&value()?, lists)?),
                _ => pairs.push((flag.clone(), flag_value(&flag, value)?)),
            },
        }
    }
    Ok((pairs, others))
}

fn flag_value(flag: &str, value: impl FnOnce() -> Result<String>) -> Result<Value> {
    let in_table = find_key(flag).is_some();
    match value() {
        Ok(word) => Ok(Value::from_word(&word)),
        Err(_) if find_key(flag).is_some_and(|key| key.kind == KeyType::Switch) => {
            Ok(Value::Bool(true))
        }
        Err(error) if in_table => Err(error),
        // A knob that is only named is switched on; an unknown one is refused by its name.
        Err(_) => Ok(Value::Bool(true)),
    }
}

fn split_flag(word: &str) -> Option<(String, Option<String>)> {
    let (flag, inline) = match word.split_once('=') {
        Some((flag, value)) => (flag, Some(value.to_owned())),
        None => (word, None),
    };
    if let Some(long) = flag.strip_prefix("--").filter(|long| !long.is_empty()) {
        return Some((long.to_owned(), inline));
    }
    let short = flag
        .strip_prefix('-')
        .filter(|s| !s.is_empty() && !looks_like_a_number(flag))?;
    let mut letters = short.chars();
    let first = letters.next();
    let key = KEYS.iter().find(|k| k.short.is_some() && k.short == first);
    match (key, letters.as_str(), &inline) {
        (Some(key), "", _) => Some((key.name.to_owned(), inline)),
        // `-n4`; but `-seed` was meant to be `--seed`.
        (Some(key), tail, None) if find_key(short).is_none() => {
            Some((key.name.to_owned(), Some(tail.to_owned())))
        }
        _ => Some((short.to_owned(), inline)),
    }
}

fn looks_like_a_number(word: &str) -> bool {
    word.strip_prefix('-')
        .is_some_and(|w| w.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

fn looks_like_a_flag(word: &str) -> bool {
    word.starts_with('-') && word.len() > 1 && !looks_like_a_number(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnn_core::strategy::STRATEGIES;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn flags(line: &str) -> Result<(Vec<Pair>, Vec<Flag>)> {
        parse_flags(&words(line), &|flag| match flag {
            "json" => Some(false),
            "run-id" => Some(true),
            _ => None,
        })
    }

    #[test]
    fn flags_files_and_cells_agree() {
        let by_flags = flags("--data karate -n 2 -shalo --lr=0.5 --weight-decay 5e-4 --seed 7")
            .expect("flags")
            .0;
        let body = "data = \"karate\"; ranks = 2 # two\nstrategy = halo\n\n// rate\nlr = 0.5; weight_decay = 5e-4\nseed=7";
        let by_body = parse_body(body).expect("body");
        assert_eq!(
            parse_pairs(STRATEGIES, by_flags).expect("spec"),
            parse_pairs(STRATEGIES, by_body).expect("spec")
        );
    }

    #[test]
    fn values_keep_their_quotes_comments_and_paths() {
        let pairs =
            parse_body("data = \"a;b#c\"\nname = 'x // y' // why\ndata = /data//x").expect("body");
        let text = |s: &str| Value::Str(s.into());
        assert_eq!(pairs[0].1, text("a;b#c"));
        assert_eq!(pairs[1].1, text("x // y"));
        assert_eq!(pairs[2].1, text("/data//x"));
        let sbm = parse_body("data = sbm:nodes=50,classes=3").expect("body");
        assert_eq!(sbm[0].1, text("sbm:nodes=50,classes=3"));
    }

    #[test]
    fn wrong_lines_are_named() {
        for (body, part) in [
            ("epochs = 3\nepochs", "line 2"),
            ("lr =", "value is missing"),
            ("[run]\nlr = 1", "without sections"),
            ("lr = [1, 2]", "one value"),
            ("data = \"karate", "do not close"),
            ("two words = 1", "one word"),
        ] {
            let error = parse_body(body).unwrap_err().to_string();
            assert!(error.contains(part), "{body}: {error}");
        }
    }

    #[test]
    fn misspelt_flags_and_values_name_the_nearest_right_one() {
        for (line, nearest) in [
            ("--epoch 3", "epochs"),
            ("--strateg halo", "strategy"),
            ("--model gnc", "gcn"),
            ("--strategy hallo", "halo"),
            ("--partition mettis", "metis"),
        ] {
            let pairs = flags(line).expect("flags").0;
            let error = parse_pairs(STRATEGIES, pairs).unwrap_err().to_string();
            assert!(error.contains(nearest), "{line}: {error}");
        }
    }

    #[test]
    fn flags_without_their_value_and_stray_words_are_refused() {
        assert!(
            flags("--epochs")
                .unwrap_err()
                .to_string()
                .contains("--epochs needs a value")
        );
        assert!(
            flags("--epochs --json")
                .unwrap_err()
                .to_string()
                .contains("needs a value")
        );
        assert!(
            flags("karate")
                .unwrap_err()
                .to_string()
                .contains("expected a flag")
        );
        let (pairs, others) = flags("--lr -1 --json --run-id x").expect("flags");
        assert_eq!(pairs, [("lr".to_owned(), Value::Int(-1))]);
        assert_eq!(
            others,
            [
                ("json".to_owned(), None),
                ("run-id".to_owned(), Some("x".to_owned()))
            ]
        );
    }

    #[test]
    fn a_switch_that_is_only_named_is_on() {
        for line in [
            "--trace",
            "--trace --epochs 3",
            "--trace=true",
            "--set trace=true",
        ] {
            let spec = parse_pairs(STRATEGIES, flags(line).expect("flags").0).expect("spec");
            assert!(spec.trace, "{line}");
        }
        let off = parse_pairs(STRATEGIES, flags("--trace false").expect("flags").0);
        assert!(!off.expect("spec").trace);
        let error = parse_pairs(STRATEGIES, flags("--trace yes").expect("flags").0);
        assert!(error.unwrap_err().to_string().contains("true or false"));
    }

    #[test]
    fn a_configuration_file_can_be_overridden() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("run.toml");
        std::fs::write(&path, "epochs = 1_000\ndata = \"karate\"\n").expect("writes");
        let line = format!("--config {} --set epochs=5", path.display());
        let spec = parse_pairs(STRATEGIES, flags(&line).expect("flags").0).expect("spec");
        assert_eq!((spec.epochs, spec.data.as_str()), (5, "karate"));
        let error = flags("--config /nowhere/run.toml").unwrap_err();
        assert!(error.to_string().contains("/nowhere/run.toml"), "{error}");
    }
}
