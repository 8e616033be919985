//! What is written into a cell before it is compiled, line for line: see [`ends`],
//! [`clones`], [`loops`] and [`prints`].

use std::borrow::Cow;
use std::ops::Range;

use ra_ap_syntax::ast::AstNode;
use ra_ap_syntax::{Edition, SourceFile, SyntaxNode, TextRange};

use super::{clones, ends, loops, prints};

const HEAD: &str = "fn cell() {\n";

/// What stands instead of some bytes of a cell.
pub type Edit = (Range<usize>, String);

/// The cell as it is compiled, in a session with these variables, names and types. One that does not parse stays as
/// it was.
pub fn rewritten<'a>(code: &'a str, variables: &[(String, String)]) -> Cow<'a, str> {
    edited(code, &|cell| {
        let mut edits = ends::edits(cell);
        edits.extend(clones::edits(cell, variables));
        edits.extend(loops::edits(cell));
        edits.extend(prints::edits(cell));
        edits
    })
}

/// The cell with what `edits` makes of its tree.
pub fn edited<'a>(code: &'a str, edits: &dyn Fn(&SyntaxNode) -> Vec<Edit>) -> Cow<'a, str> {
    let wrapped = format!("{HEAD}{code}\n}}\n");
    let parsed = SourceFile::parse(&wrapped, Edition::Edition2024);
    if !parsed.errors().is_empty() {
        return Cow::Borrowed(code);
    }
    let mut edits = edits(parsed.tree().syntax());
    if edits.is_empty() {
        return Cow::Borrowed(code);
    }
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let (mut text, mut from) = (String::new(), 0);
    for (range, written) in edits {
        text.push_str(&code[from..range.start]);
        text.push_str(&written);
        from = range.end;
    }
    text.push_str(&code[from..]);
    Cow::Owned(text)
}

/// Where in the cell a part of its tree is.
pub fn bytes(range: TextRange) -> Range<usize> {
    usize::from(range.start()) - HEAD.len()..usize::from(range.end()) - HEAD.len()
}
