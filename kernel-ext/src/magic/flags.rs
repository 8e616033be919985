//! The flags of a magic's line, GNU style.

use super::action::Refusal;
use super::table::{Flag, Magic};
use gnn_core::error::nearest;

/// A magic's line, taken apart.
#[derive(Debug, Default, PartialEq)]
pub struct Parsed {
    /// Positional arguments.
    pub args: Vec<String>,
    /// Flags by long name.
    pub flags: Vec<(&'static str, String)>,
}

/// A word of a line with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word without quotes.
    pub text: String,
    /// Byte range in the line, quotes included.
    pub range: std::ops::Range<usize>,
}

/// Splits a line into words from a byte offset on; quotes hold words together, and a comment
/// ends the line.
pub fn words(line: &str, from: usize) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut current: Option<Word> = None;
    let mut quote = None;
    for (at, c) in line.char_indices().skip_while(|(at, _)| *at < from) {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                current.get_or_insert_with(|| Word {
                    text: String::new(),
                    range: at..at,
                });
            }
            None if c.is_whitespace() => words.extend(current.take()),
            None if current.is_none() && line[at..].starts_with("//") => break,
            _ => current
                .get_or_insert_with(|| Word {
                    text: String::new(),
                    range: at..at,
                })
                .text
                .push(c),
        }
        if let Some(word) = &mut current {
            word.range.end = at + c.len_utf8();
        }
    }
    words.extend(current);
    words
}

/// Reads the line of `magic` from the byte offset `from`.
///
/// # Errors
/// An unknown flag, a missing value or one argument too many.
pub fn parse(magic: &'static Magic, line: &str, from: usize) -> Result<Parsed, Refusal> {
    let mut parsed = Parsed::default();
    let mut words = words(line, from).into_iter();
    while let Some(word) = words.next() {
        if let Some(name) = word.text.strip_prefix("--") {
            let (name, inline) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            let flag = magic
                .flag(name)
                .filter(|flag| name.chars().count() > 1 || flag.long == name)
                .ok_or_else(|| unknown(magic, line, &word, name))?;
            take(&mut parsed, flag, inline, &mut words, line, &word)?;
        } else if word.text.len() > 1
            && word.text.starts_with('-')
            && !word.text[1..].starts_with(|c: char| c.is_ascii_digit() || c == '.')
        {
            let rest = &word.text[1..];
            let letter: String = rest.chars().take(1).collect();
            let flag = magic
                .flag(&letter)
                .ok_or_else(|| unknown(magic, line, &word, rest))?;
            let inline = rest[letter.len()..].trim_start_matches('=');
            let inline = (!inline.is_empty()).then(|| inline.to_owned());
            take(&mut parsed, flag, inline, &mut words, line, &word)?;
        } else if magic.arg(parsed.args.len()).is_some() {
            parsed.args.push(word.text);
        } else {
            return Err(refuse(
                line,
                &word,
                format!("{} has no place for `{}`", magic.spelling(), word.text),
                format!("{}? shows what it takes", magic.spelling()),
            ));
        }
    }
    Ok(parsed)
}

fn take(
    parsed: &mut Parsed,
    flag: &'static Flag,
    inline: Option<String>,
    words: &mut impl Iterator<Item = Word>,
    line: &str,
    word: &Word,
) -> Result<(), Refusal> {
    let value = match (flag.value, inline) {
        (None, None) => String::new(),
        (None, Some(_)) => {
            return Err(refuse(
                line,
                word,
                format!("--{} takes no value", flag.long),
                String::new(),
            ));
        }
        (Some(_), Some(value)) => value,
        (Some((name, _)), None) => match words.next() {
            Some(value) => value.text,
            None => {
                return Err(refuse(
                    line,
                    word,
                    format!("{} needs a value", word.text),
                    format!("--{} {name}: {}", flag.long, flag.doc),
                ));
            }
        },
    };
    if flag.long == "output" && parsed.flags.iter().any(|(long, _)| *long == "output") {
        return Err(refuse(
            line,
            word,
            "a result is bound to one name".into(),
            "leave one of them out".into(),
        ));
    }
    parsed.flags.push((flag.long, value));
    Ok(())
}

fn unknown(magic: &Magic, line: &str, word: &Word, name: &str) -> Refusal {
    let near = nearest(name, magic.flags.iter().map(|flag| flag.long));
    refuse(
        line,
        word,
        format!("{} has no flag `{}`", magic.spelling(), word.text),
        match near {
            Some(near) => format!("did you mean --{near}?"),
            None => format!("{}? lists its flags", magic.spelling()),
        },
    )
}

fn refuse(line: &str, word: &Word, message: String, help: String) -> Refusal {
    let start = line[..word.range.start].chars().count();
    let len = line[word.range.clone()].chars().count();
    Refusal {
        message,
        line: line.to_owned(),
        span: (start, len),
        help,
    }
}
