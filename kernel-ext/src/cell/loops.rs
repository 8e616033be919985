//! Interrupts of a cell's loops and naps.
//!
//! Every loop asks at the head of each round whether somebody has interrupted the cell, which costs a load and a branch
//! (`halobook::interrupt::poll`), and a nap wakes up for it. So does a closure that is a loop's body in all but name
//! (`for_each`), or that does more than arithmetic: an expression that the compiler may make a vector of stays as it is.

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
    let own: Vec<SyntaxNode> = root.descendants().filter(runs).collect();
    let closures = own.iter().cloned().filter_map(ast::ClosureExpr::cast);
    let mut all: Vec<Edit> = closures.filter(asks).flat_map(|of| head(&of)).collect();
    all.extend(own.into_iter().filter_map(|node| {
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
    }));
    all
}

/// Methods whose closure is the body of a loop.
const LOOPS: [&str; 10] = [
    "for_each",
    "try_for_each",
    "fold",
    "try_fold",
    "any",
    "all",
    "find",
    "position",
    "scan",
    "take_while",
];

/// Whether a closure may be what takes long.
fn asks(closure: &ast::ClosureExpr) -> bool {
    if closure.async_token().is_some() || closure.const_token().is_some() {
        return false;
    }
    let Some(body) = closure.body() else {
        return false;
    };
    let mut inside = body.syntax().descendants();
    let list = closure.syntax().parent();
    let call = list.and_then(|list| ast::MethodCallExpr::cast(list.parent()?));
    let name = call.and_then(|call| call.name_ref());
    name.is_some_and(|name| LOOPS.contains(&name.text()))
        || inside.any(|node| {
            let kind = node.kind();
            ast::BlockExpr::can_cast(kind)
                || ast::CallExpr::can_cast(kind)
                || ast::MacroExpr::can_cast(kind)
        })
}

/// The question at the head of a closure, whose body becomes a block where it is none.
fn head(closure: &ast::ClosureExpr) -> Vec<Edit> {
    let Some(body) = closure.body() else {
        return Vec::new();
    };
    if let ast::Expr::BlockExpr(block) = &body {
        if block.modifier().is_some() {
            return Vec::new();
        }
        let curly = block.stmt_list().and_then(|list| list.l_curly_token());
        let end = curly.map(|token| bytes(token.text_range()).end);
        return end
            .map(|end| (end..end, POLL.to_owned()))
            .into_iter()
            .collect();
    }
    let around = bytes(body.syntax().text_range());
    vec![
        (around.start..around.start, format!("{{{POLL} ")),
        (around.end..around.end, " }".to_owned()),
    ]
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
            (
                "v.iter().for_each(|x| s.push(x));",
                "v.iter().for_each(|x| { halobook::interrupt::poll(); s.push(x) });",
            ),
            (
                "(0..n).map(|k| slow(k)?).max()",
                "(0..n).map(|k| { halobook::interrupt::poll(); slow(k)? }).max()",
            ),
            (
                "v.map(|k| { let a = k; a })",
                "v.map(|k| { halobook::interrupt::poll(); let a = k; a })",
            ),
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
            "v.iter().map(|x| x.sqrt() * 2.0).sum::<f64>()",
            "s.spawn(async || { a() })",
        ] {
            assert_eq!(edited(same, &edits), same);
        }
    }
}
