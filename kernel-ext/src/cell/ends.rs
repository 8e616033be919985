//! The `?` of a cell, see the prelude's `OrEnd`.

use std::borrow::Cow;

use ra_ap_syntax::ast::{self, AstNode};
use ra_ap_syntax::{Edition, SourceFile, SyntaxNode};

const HEAD: &str = "fn cell() {\n";

/// The cell with every `?` of its own written as `.or_end()`: the cell's value is shown as what it is then, and an
/// error is one. A cell that does not parse stays as it was; so does a `?` inside a function, a closure, an
/// `async` block or a macro.
pub fn with_own_ends(code: &str) -> Cow<'_, str> {
    if !code.contains('?') {
        return Cow::Borrowed(code);
    }
    let wrapped = format!("{HEAD}{code}\n}}\n");
    let parsed = SourceFile::parse(&wrapped, Edition::Edition2024);
    if !parsed.errors().is_empty() {
        return Cow::Borrowed(code);
    }
    let root = parsed.tree().syntax().clone();
    let Some(cell) = root.children().find_map(ast::Fn::cast) else {
        return Cow::Borrowed(code);
    };
    let own = |node: &SyntaxNode| {
        let around = node.ancestors().skip(1);
        let mut around = around.take_while(|around| around != cell.syntax());
        !around.any(|around| {
            let kind = around.kind();
            let is_block = || {
                ast::BlockExpr::cast(around.clone()).is_some_and(|block| block.modifier().is_some())
            };
            ast::Fn::can_cast(kind) || ast::ClosureExpr::can_cast(kind) || is_block()
        })
    };
    let marks = root
        .descendants()
        .filter(own)
        .filter_map(ast::TryExpr::cast)
        .filter_map(|expr| expr.question_mark_token())
        .map(|token| usize::from(token.text_range().start()) - HEAD.len());
    let mut marks: Vec<usize> = marks.collect();
    marks.sort_unstable();
    let (mut text, mut from) = (String::new(), 0);
    for at in marks {
        text.push_str(&code[from..at]);
        text.push_str(".or_end()");
        from = at + 1;
    }
    if from == 0 {
        return Cow::Borrowed(code);
    }
    text.push_str(&code[from..]);
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::with_own_ends;

    #[test]
    fn the_cells_own_question_marks_change() {
        for (cell, written) in [
            ("df.lazy().collect()?\n", "df.lazy().collect().or_end()\n"),
            (
                "let a = b()?;\na.c()?",
                "let a = b().or_end();\na.c().or_end()",
            ),
            ("let a = b()?;\na", "let a = b().or_end();\na"),
            ("a.b()?;", "a.b().or_end();"),
            (
                "let f = async { a()? };\nb()?;",
                "let f = async { a()? };\nb().or_end();",
            ),
            ("a.b()? // why?", "a.b().or_end() // why?"),
            (
                "fn f() -> R { g()?; h() }\nlet k = |x: u8| -> R { l(x)?; m() };\nn()?",
                "fn f() -> R { g()?; h() }\nlet k = |x: u8| -> R { l(x)?; m() };\nn().or_end()",
            ),
            (
                "if a()? { 1 } else { 2 }",
                "if a().or_end() { 1 } else { 2 }",
            ),
        ] {
            assert_eq!(with_own_ends(cell), written);
        }
    }

    #[test]
    fn other_cells_stay() {
        for same in [
            "a.b()",
            "a // why?",
            "?",
            "",
            "let a = (b()?",
            "println!(\"{}\", a?)",
        ] {
            assert_eq!(with_own_ends(same), same);
        }
    }
}
