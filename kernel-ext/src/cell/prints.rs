//! `print!` of a cell appears at once: what comes over a pipe line by line would wait for the line's end.

use ra_ap_syntax::ast::{self, AstNode};
use ra_ap_syntax::{SyntaxKind, SyntaxNode};

use super::rewrite::{Edit, bytes};

/// The macro that hands text to the kernel.
const NOW: &str = "halobook::print_now";

/// Where a cell prints less than a line.
pub fn edits(cell: &SyntaxNode) -> Vec<Edit> {
    let calls = cell
        .descendants()
        .filter(|node| node.kind() == SyntaxKind::MACRO_CALL);
    let paths = calls.filter_map(|node| ast::MacroCall::cast(node)?.path());
    let prints = paths.filter(|path| path.syntax().text() == "print");
    prints
        .map(|path| (bytes(path.syntax().text_range()), NOW.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::rewrite::edited;
    use super::edits;

    #[test]
    fn only_print_is_written_anew() {
        let cell = "for i in 0..3 { print!(\"{i} \"); }\nprintln!(\"{}\", 1);\nfn f() { print!(\"a\") }\nmy::print!(2);";
        let expected = "for i in 0..3 { halobook::print_now!(\"{i} \"); }\nprintln!(\"{}\", 1);\n\
                        fn f() { halobook::print_now!(\"a\") }\nmy::print!(2);";
        assert_eq!(edited(cell, &|cell| edits(cell)), expected);
    }
}
