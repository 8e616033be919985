//! Frames and runs that stay when a cell uses them up.
//!
//! `t.lazy()` takes `t`, and the next cell would not find it. Where a cell gives a variable of a type that is
//! cheap to clone away, it gives a clone.

use std::collections::{HashMap, HashSet};

use ra_ap_syntax::SyntaxNode;
use ra_ap_syntax::ast::{self, AstNode, HasName};

use super::rewrite::{Edit, bytes};

/// What is written behind a variable that would be gone.
const CLONE: &str = ".clone()";

/// Which methods of a type take it by value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taking {
    /// All that matter.
    All,
    /// Some, by name.
    Some,
}

/// How values of a type are taken; none of a type that is not cheap to clone.
fn taking(kind: &str) -> Option<Taking> {
    if kind.starts_with('&') {
        return None;
    }
    match kind.rsplit("::").next()? {
        "LazyFrame" | "Expr" => Some(Taking::All),
        "DataFrame" | "Series" | "Column" | "Run" | "Runs" => Some(Taking::Some),
        _ => None,
    }
}

/// Whether a method takes a value whose methods mostly borrow.
fn takes(method: &str) -> bool {
    let named = [
        "lazy",
        "pipe",
        "pipe_with_args",
        "rechunk_into_arrow",
        "split_chunks_by_n",
        "take_inner",
        "take_materialized_series",
        "with_name",
    ];
    named.contains(&method) || method.starts_with("into_")
}

/// Writes `.clone()` behind those of `variables`, names and types, that the cell would take by value. A name that
/// the cell itself gives to something stays as it is, and so does what is inside a macro.
pub fn edits(root: &SyntaxNode, variables: &[(String, String)]) -> Vec<Edit> {
    let cheap = variables.iter();
    let cheap = cheap.filter_map(|(name, kind)| Some((name.as_str(), taking(kind)?)));
    let cheap: HashMap<&str, Taking> = cheap.collect();
    if cheap.is_empty() {
        return Vec::new();
    }
    let own: HashSet<String> = root
        .descendants()
        .filter_map(ast::IdentPat::cast)
        .filter_map(|pat| Some(pat.name()?.text().to_string()))
        .collect();
    let taken = root.descendants().filter_map(ast::PathExpr::cast);
    let edits = taken.filter_map(|expr| {
        let name = expr.syntax().text().to_string();
        let taking = *cheap.get(name.as_str())?;
        let goes = !own.contains(&name) && goes(expr.syntax(), taking);
        // A field of the same name is written out.
        let field = expr.syntax().parent().and_then(ast::RecordExprField::cast);
        let is_short = field.is_some_and(|field| field.colon_token().is_none());
        let written = match is_short {
            true => format!(": {name}{CLONE}"),
            false => CLONE.to_owned(),
        };
        let end = bytes(expr.syntax().text_range()).end;
        goes.then_some((end..end, written))
    });
    edits.collect()
}

/// Whether the variable `expr` is taken where it stands.
fn goes(expr: &SyntaxNode, taking: Taking) -> bool {
    let Some(parent) = expr.parent() else {
        return false;
    };
    if let Some(call) = ast::MethodCallExpr::cast(parent.clone()) {
        let name = call.name_ref().map(|name| name.text().to_string());
        return match taking {
            Taking::All => name.is_some_and(|name| name != "clone"),
            Taking::Some => name.is_some_and(|name| takes(&name)),
        };
    }
    let kind = parent.kind();
    if let Some(bound) = ast::LetStmt::cast(parent) {
        // A reference that a pattern takes needs the variable itself.
        return matches!(bound.pat(), Some(ast::Pat::IdentPat(pat)) if pat.ref_token().is_none());
    }
    ast::ArgList::can_cast(kind)
        || ast::ArrayExpr::can_cast(kind)
        || ast::TupleExpr::can_cast(kind)
        || ast::RecordExprField::can_cast(kind)
}

#[cfg(test)]
mod tests {
    use super::edits;
    use crate::cell::rewrite::edited;

    fn written(code: &str) -> String {
        let variables = [
            ("t", "DataFrame"),
            ("l", "polars::prelude::LazyFrame"),
            ("r1", "halobook::Run"),
            ("n", "Vec<DataFrame>"),
            ("by", "&DataFrame"),
        ];
        let variables = variables.map(|(name, kind)| (name.to_owned(), kind.to_owned()));
        edited(code, &|root| edits(root, &variables)).into_owned()
    }

    #[test]
    fn what_would_be_taken_is_cloned() {
        for (cell, cloned) in [
            ("t.lazy().collect()?", "t.clone().lazy().collect()?"),
            (
                "let a = l.filter(x).collect()?;\na",
                "let a = l.clone().filter(x).collect()?;\na",
            ),
            ("compare(&[r1, r2])", "compare(&[r1.clone(), r2])"),
            ("let a = t;", "let a = t.clone();"),
            ("f(t, &t)", "f(t.clone(), &t)"),
            (
                "(0..3).map(|k| t.lazy().limit(k))",
                "(0..3).map(|k| t.clone().lazy().limit(k))",
            ),
            ("S { t: t, r1 }", "S { t: t.clone(), r1: r1.clone() }"),
            (
                "a.lazy().join(t.lazy(), x)",
                "a.lazy().join(t.clone().lazy(), x)",
            ),
        ] {
            assert_eq!(written(cell), cloned);
        }
    }

    #[test]
    fn the_rest_stays() {
        for same in [
            "t",
            "t.height()",
            "let c = t.column(\"x\")?;",
            "l.clone().collect()",
            "t.clone().lazy()",
            "t = t2;",
            "&t",
            "let ref a = t;",
            "n.into_iter()",
            "by.lazy()",
            "println!(\"{}\", t.lazy())",
            "let t = u;\nt.lazy()",
            "fn f(t: DataFrame) -> LazyFrame { t.lazy() }",
            "t.lazy(",
            "x.t.lazy()",
            "",
        ] {
            assert_eq!(written(same), same);
        }
    }
}
