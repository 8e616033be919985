//! The `?` of a cell, see the prelude's `OrEnd`.

use ra_ap_syntax::SyntaxNode;
use ra_ap_syntax::ast::{self, AstNode};

use super::rewrite::{Edit, bytes};

/// Writes every `?` of the cell's own as `.or_end()`: the cell's value is shown as what it is then, and an error is
/// one. A `?` inside a function, a closure, an `async` block or a macro stays.
pub fn edits(root: &SyntaxNode) -> Vec<Edit> {
    let Some(cell) = root.children().find_map(ast::Fn::cast) else {
        return Vec::new();
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
    root.descendants()
        .filter(own)
        .filter_map(ast::TryExpr::cast)
        .filter_map(|expr| Some((expr.question_mark_token()?, asked(&expr))))
        .map(|(token, frame)| {
            let written = match frame {
                Some(frame) => format!(".or_end_of(&{frame})"),
                None => ".or_end()".to_owned(),
            };
            (bytes(token.text_range()), written)
        })
        .collect()
}

/// The variable whose columns are asked for, which is still there when they are not found.
fn asked(expr: &ast::TryExpr) -> Option<String> {
    const OF_COLUMNS: [&str; 4] = ["column", "select", "drop", "sort"];
    let ast::Expr::MethodCallExpr(call) = expr.expr()? else {
        return None;
    };
    let name = call.name_ref()?;
    let receiver = call.receiver()?;
    let is_name =
        matches!(&receiver, ast::Expr::PathExpr(path) if !path.syntax().text().contains_char(':'));
    (OF_COLUMNS.contains(&name.text()) && is_name).then(|| receiver.syntax().text().to_string())
}

#[cfg(test)]
mod tests {
    use super::edits;
    use crate::cell::rewrite::edited;

    fn with_own_ends(cell: &str) -> String {
        edited(cell, &edits).into_owned()
    }

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
                "t.column(\"x\")?.f64()?",
                "t.column(\"x\").or_end_of(&t).f64().or_end()",
            ),
            (
                "t.head(None).select([\"x\"])?",
                "t.head(None).select([\"x\"]).or_end()",
            ),
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
