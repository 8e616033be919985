//! Interrupts of a cell's loops and naps.
//!
//! Every loop asks at the head of each round whether somebody has interrupted the cell, which costs a load and a branch
//! (`halobook::interrupt::poll`), and a nap wakes up for it.

use ra_ap_syntax::SyntaxNode;
use ra_ap_syntax::ast::{self, AstNode, HasLoopBody};

use super::rewrite::{Edit, bytes};

const POLL: &str = " halobook::interrupt::poll();";
const SLEEP: &str = "halobook::interrupt::sleep";

/// Writes the question into loops, and the library's nap in the place of the standard one. What is inside a macro
/// or runs while the cell is compiled stays.
pub fn edits(root: &SyntaxNode) -> Vec<Edit> {
    let runs = |node: &SyntaxNode| {
        let around = || node.ancestors().skip(1);
        let is_const = |node: SyntaxNode| {
            ast::Const::can_cast(node.kind())
                || ast::Static::can_cast(node.kind())
                || ast::Fn::cast(node).is_some_and(|function| function.const_token().is_some())
        };
        !around().any(is_const)
    };
    let own = root.descendants().filter(runs);
    own.filter_map(|node| {
        if let Some(call) = ast::CallExpr::cast(node.clone()) {
            let callee = call.expr()?;
            let name = callee.syntax().text().to_string();
            let naps = [
                "std::thread::sleep",
                "::std::thread::sleep",
                "thread::sleep",
            ];
            let is_nap = naps.contains(&name.as_str());
            return is_nap.then(|| (bytes(callee.syntax().text_range()), SLEEP.to_owned()));
        }
        let body = if let Some(of) = ast::LoopExpr::cast(node.clone()) {
            of.loop_body()
        } else if let Some(of) = ast::WhileExpr::cast(node.clone()) {
            of.loop_body()
        } else {
            ast::ForExpr::cast(node)?.loop_body()
        };
        let end = bytes(body?.stmt_list()?.l_curly_token()?.text_range()).end;
        Some((end..end, POLL.to_owned()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::rewrite::edited;

    #[test]
    fn loops_and_naps_ask() {
        for (cell, written) in [
            ("loop {}", "loop { halobook::interrupt::poll();}"),
            (
                "for k in 0..3 {\n while a() { b(); }\n}",
                "for k in 0..3 { halobook::interrupt::poll();\n while a() { halobook::interrupt::poll(); b(); }\n}",
            ),
            (
                "let x = 'a: loop { break 'a 1; };",
                "let x = 'a: loop { halobook::interrupt::poll(); break 'a 1; };",
            ),
            (
                "fn f() { loop { g() } }",
                "fn f() { loop { halobook::interrupt::poll(); g() } }",
            ),
            ("std::thread::sleep(d)", "halobook::interrupt::sleep(d)"),
        ] {
            assert_eq!(edited(cell, &edits), written);
        }
    }

    #[test]
    fn what_runs_in_the_compiler_and_macros_stays() {
        for same in [
            "const fn f() -> u8 { let mut k = 0; while k < 3 { k += 1; } k }",
            "m! { loop {} }",
            "let sleep = 1;",
            "x.sleep(d)",
        ] {
            assert_eq!(edited(same, &edits), same);
        }
    }
}
