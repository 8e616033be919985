//! How deeply a text is nested, before anything that goes down into it reads it.
//!
//! Parsers of Rust call themselves for every bracket and every sign before an operand, here and in the compiler; where the
//! stack ends, so does the process, and no error can be told.

use crate::front::Failure;

/// The most that is read: more than anybody writes.
pub const MOST: usize = 200;

/// Why `text` is not read, if it is nested too deeply.
pub fn refused(text: &str) -> Option<Failure> {
    let (depth, line) = deepest(text);
    (depth > MOST).then(|| {
        Failure::new(
            "HaloCellError",
            format!("the cell is nested {depth} deep in line {line}"),
            [format!(
                "help: brackets, types and signs may be nested {MOST} deep; give a part of it a name of its own"
            )],
        )
    })
}

/// Whether `text` is nested too deeply to be read.
pub fn is_too_deep(text: &str) -> bool {
    deepest(text).0 > MOST
}

/// The deepest nesting of brackets, of types' angles, or of signs before an operand, and its line, from 1. Not in
/// comments and what is in quotes.
fn deepest(text: &str) -> (usize, usize) {
    let (mut brackets, mut angles, mut signs) = (0usize, 0usize, 0usize);
    let (mut most, mut line, mut before) = ((0, 1), 1, ' ');
    // Only Rust has signs; a line of them in a magic's body is a line.
    let is_rust = !text.trim_start().starts_with('%');
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = skipped(rest, before).unwrap_or(c.len_utf8());
        let passed = &rest[..length];
        line += passed.matches('\n').count();
        if length == c.len_utf8() {
            match c {
                '(' | '[' | '{' => brackets += 1,
                ')' | ']' | '}' => brackets = brackets.saturating_sub(1),
                '<' if before.is_alphanumeric() || before == ':' || before == '<' => angles += 1,
                '>' if before != '-' && before != '=' => angles = angles.saturating_sub(1),
                _ => {}
            }
            match c {
                '!' | '&' | '*' | '-' | '|' if is_rust => signs += 1,
                c if c.is_whitespace() => {}
                _ => signs = 0,
            }
            // What looked like a type's angle was a comparison.
            if matches!(c, ';' | '{' | '}') {
                angles = 0;
            }
        }
        let depth = brackets + angles + signs;
        if depth > most.0 {
            most = (depth, line);
        }
        before = passed.chars().next_back().unwrap_or(' ');
        rest = &rest[length..];
    }
    most
}

/// How many bytes of a comment, a string or a character begin here, if one does.
fn skipped(rest: &str, before: char) -> Option<usize> {
    let bytes = rest.as_bytes();
    let until = |from: usize, end: &str| {
        rest[from..]
            .find(end)
            .map_or(rest.len(), |at| from + at + end.len())
    };
    match bytes[0] {
        b'/' if rest.starts_with("//") => Some(rest.find('\n').unwrap_or(rest.len())),
        b'/' if rest.starts_with("/*") => Some(until(2, "*/")),
        b'r' if !before.is_alphanumeric() && before != '_' => {
            let hashes = rest[1..].bytes().take_while(|b| *b == b'#').count();
            (bytes.get(1 + hashes) == Some(&b'"'))
                .then(|| until(2 + hashes, &format!("\"{}", "#".repeat(hashes))))
        }
        b'"' => {
            let mut at = 1;
            while at < bytes.len() && bytes[at] != b'"' {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
            let mut end = (at + 1).min(bytes.len());
            while !rest.is_char_boundary(end) {
                end += 1;
            }
            Some(end)
        }
        // 'x' or '\n', and no lifetime.
        b'\'' if bytes.get(1) == Some(&b'\\') => {
            let escaped = rest[2..].chars().next().map_or(0, char::len_utf8);
            Some(until(2 + escaped, "'"))
        }
        b'\'' => {
            let c = rest[1..].chars().next()?;
            let end = 1 + c.len_utf8();
            (bytes.get(end) == Some(&b'\'')).then_some(end + 1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_that_of_brackets_types_and_signs() {
        for (text, depth) in [
            ("", 0),
            ("'\\é' (", 1),
            ("f(g[1])", 2),
            ("let a: Vec<Vec<u8>> = b;", 2),
            ("a<b; c<d; e<f", 1),
            ("a < b", 0),
            ("-> x => y", 1),
            ("!!!x", 3),
            ("\"((((\" // ((((\n(", 1),
            ("r#\"((\"(\"#", 0),
            ("'(' '\\'' ' ", 0),
            ("/* ( */ (", 1),
            ("fn f<'a>(x: &'a str) {}", 2),
            ("\"é\\", 0),
            ("%%gnn\n# -----", 0),
        ] {
            assert_eq!(deepest(text).0, depth, "{text}");
        }
    }

    #[test]
    fn what_is_too_deep_is_refused_with_its_line() {
        let failure =
            refused(&format!("let a = 1;\nlet z = {};", "(".repeat(1000))).expect("is deep");
        assert_eq!(failure.evalue, "the cell is nested 1000 deep in line 2");
        for deep in ["(".repeat(201), "-".repeat(201), "Vec<".repeat(201)] {
            assert!(is_too_deep(&deep), "{deep}");
        }
        assert!(refused(&"(".repeat(200)).is_none());
    }
}
