//! Small questions about a cell's text.

use ra_ap_syntax::{Edition, SourceFile};

/// Whether a console should run what was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// It can run.
    Complete,
    /// More is to come.
    Incomplete,
    /// It can never run.
    Invalid,
}

/// Judges Rust code by evcxr's own parser: an error at the very end means that something is
/// missing there, an error before it that something is wrong.
pub fn completeness(code: &str) -> Completeness {
    const HEAD: &str = "fn cell() {\n";
    let body = code.trim_end();
    if body.is_empty() {
        return Completeness::Complete;
    }
    let wrapped = format!("{HEAD}{body}\n}}\n");
    let parsed = SourceFile::parse(&wrapped, Edition::Edition2024);
    let end = HEAD.len() + body.len();
    let errors = parsed.errors();
    let Some(first) = errors
        .iter()
        .map(|error| usize::from(error.range().start()))
        .min()
    else {
        return Completeness::Complete;
    };
    if first >= end {
        Completeness::Incomplete
    } else {
        Completeness::Invalid
    }
}

/// The byte offset of the `chars`-th character, which is how the protocol counts.
pub fn byte_offset(text: &str, chars: usize) -> usize {
    text.char_indices()
        .nth(chars)
        .map_or(text.len(), |(at, _)| at)
}

/// The number of characters before a byte offset.
pub fn char_offset(text: &str, byte: usize) -> usize {
    text.char_indices().take_while(|(at, _)| *at < byte).count()
}

/// The path-like word around a byte offset, as in `std::fs::read`.
pub fn word_at(text: &str, position: usize) -> Option<&str> {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '!';
    let position = position.min(text.len());
    if !text.is_char_boundary(position) {
        return None;
    }
    let start = text[..position]
        .char_indices()
        .rev()
        .take_while(|(_, c)| part(*c))
        .last()
        .map_or(position, |(at, _)| at);
    let end = text[position..]
        .char_indices()
        .find(|(_, c)| !part(*c))
        .map_or(text.len(), |(at, _)| position + at);
    Some(text[start..end].trim_matches(':').trim_end_matches('!')).filter(|word| !word.is_empty())
}

/// `text` as HTML shows it.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completeness_of_rust() {
        use Completeness::{Complete, Incomplete, Invalid};
        for (code, want) in [
            ("let x = 1;", Complete),
            ("1 + 2", Complete),
            ("", Complete),
            ("fn f() {", Incomplete),
            ("let x =", Incomplete),
            ("vec![1, 2", Incomplete),
            ("fn fn", Invalid),
            ("let = 3;", Invalid),
            ("fn f() {}", Complete),
        ] {
            assert_eq!(completeness(code), want, "{code}");
        }
    }

    #[test]
    fn offsets_count_characters() {
        let text = "aé%x";
        assert_eq!(byte_offset(text, 2), 3);
        assert_eq!(char_offset(text, 3), 2);
        assert_eq!(byte_offset(text, 99), text.len());
    }

    #[test]
    fn words() {
        assert_eq!(word_at("println!(x)", 3), Some("println"));
        assert_eq!(word_at("std::fs::read(", 13), Some("std::fs::read"));
        assert_eq!(word_at("  ", 1), None);
    }
}
