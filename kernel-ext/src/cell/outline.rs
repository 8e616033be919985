//! Sources without what happens inside functions.
//!
//! rust-analyzer reads the sources of the crates whose types people use. It needs what they declare; most
//! of what it would read are bodies of functions, which say nothing about types. An outline is a
//! copy of a crate's sources with those bodies empty. What a type may depend on stays: bodies of
//! `const fn`, and of functions that return an `impl Trait`. So does all documentation; its lines become
//! one comment each item, which is one attribute to read instead of many.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use ra_ap_syntax::ast::{self, AstNode, HasName};
use ra_ap_syntax::{
    Edition, NodeOrToken, SourceFile, SyntaxKind, SyntaxNode, SyntaxToken, TextRange,
};

/// In place of a body: of every type, and nothing to look into.
const EMPTY: &str = "{ loop {} }";

/// Attributes that say nothing about types, nor what is proposed to whom. The standard library has one or
/// two of them on every item. Those in macros stay: without them reading takes twice as long, for a reason
/// that is not known.
const IDLE: &[&str] = &[
    "allow",
    "inline",
    "must_use",
    "rustc_allow_const_fn_unstable",
    "rustc_const_stable",
    "rustc_const_unstable",
    "rustc_diagnostic_item",
    "rustc_on_unimplemented",
    "stable",
    "track_caller",
];

/// Writes the outline of every Rust file below `from` to the same place below `to`; other files that
/// sources may include come along. Folders named in `without` do not.
///
/// # Errors
/// When a file cannot be read or written.
pub fn folder(from: &Path, to: &Path, without: &[&str]) -> Result<()> {
    fs::create_dir_all(to)?;
    let entries =
        fs::read_dir(from).with_context(|| format!("{} cannot be read", from.display()))?;
    for entry in entries {
        let entry = entry?;
        let (name, place) = (entry.file_name(), entry.path());
        let text = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if !without.contains(&&*text) && !text.starts_with('.') {
                folder(&place, &to.join(&name), without)?;
            }
        } else if text.ends_with(".rs") {
            let source = fs::read_to_string(&place)?;
            fs::write(to.join(&name), of(&source))?;
        }
    }
    Ok(())
}

/// The outline of a source file.
pub fn of(source: &str) -> String {
    let tree = SourceFile::parse(source, Edition::Edition2024).tree();
    let mut changes = joined(tree.syntax());
    let mut bodies = Vec::new();
    for node in tree.syntax().descendants() {
        if let Some(idle) = ast::Attr::cast(node.clone()).filter(is_idle) {
            changes.push(lines_of(idle.syntax().text_range(), source));
        } else if let Some(function) = ast::Fn::cast(node.clone()) {
            bodies.extend(body(&function));
        } else if let Some(rules) = ast::MacroRules::cast(node.clone()) {
            let tree = rules.token_tree().map(|tree| tree.syntax().clone());
            bodies.extend(tree.into_iter().flat_map(|tree| in_tokens(&tree)));
        } else if let Some(call) = ast::MacroCall::cast(node) {
            let tree = call.token_tree().map(|tree| tree.syntax().clone());
            bodies.extend(tree.into_iter().flat_map(|tree| in_tokens(&tree)));
        }
    }
    let long = |range: &TextRange| usize::from(range.len()) > EMPTY.len();
    let emptied = bodies.into_iter().filter(long);
    changes.extend(emptied.map(|range| (range, EMPTY.to_owned())));
    changed(source, changes)
}

/// Lines of documentation, each run of them as one comment.
fn joined(root: &SyntaxNode) -> Vec<(TextRange, String)> {
    let mut changes = Vec::new();
    let mut next = root.first_token();
    while let Some(first) = next {
        next = first.next_token();
        let Some(sign) = sign(&first) else { continue };
        let mut tokens = vec![first.clone()];
        let mut last = first.clone();
        while let Some(more) = line_below(&last).filter(|more| self::sign(more) == Some(sign)) {
            tokens.push(more.clone());
            last = more;
        }
        next = last.next_token();
        let lines: Vec<&str> = tokens.iter().map(|token| &token.text()[3..]).collect();
        let ends = lines
            .iter()
            .any(|line| line.contains("*/") || line.contains("/*"));
        let starts = lines[0].starts_with([' ', '\n']);
        if lines.len() > 1 && starts && !ends {
            let range = first.text_range().cover(last.text_range());
            let open = if sign == "///" { "/**" } else { "/*!" };
            changes.push((range, format!("{open}{} */", lines.join("\n"))));
        }
    }
    changes
}

/// How a line of documentation begins.
fn sign(token: &SyntaxToken) -> Option<&'static str> {
    let text = token.text();
    let comment = token.kind() == SyntaxKind::COMMENT && !text.starts_with("////");
    let mut signs = ["///", "//!"].into_iter();
    signs.find(|sign| comment && text.starts_with(sign))
}

/// What stands on the next line, if that is directly below.
fn line_below(token: &SyntaxToken) -> Option<SyntaxToken> {
    let space = token.next_token()?;
    let below = space.kind() == SyntaxKind::WHITESPACE && space.text().matches('\n').count() == 1;
    space.next_token().filter(|_| below)
}

/// The range with its ends of lines alone, so that all else stays where it is.
fn lines_of(range: TextRange, source: &str) -> (TextRange, String) {
    let ends = source[range].matches('\n').count();
    (range, "\n".repeat(ends))
}

fn is_idle(attribute: &ast::Attr) -> bool {
    let path = attribute
        .path()
        .map(|path| path.syntax().text().to_string());
    path.is_some_and(|path| IDLE.contains(&path.as_str()))
}

/// The body of a function whose signature says everything.
fn body(function: &ast::Fn) -> Option<TextRange> {
    let body = function.body()?;
    function.name()?;
    let open = function.const_token().is_some()
        || function
            .ret_type()
            .is_some_and(|kind| mentions(kind.syntax(), SyntaxKind::IMPL_KW));
    (!open).then(|| body.syntax().text_range())
}

fn mentions(node: &SyntaxNode, word: SyntaxKind) -> bool {
    let mut inside = node.descendants_with_tokens();
    inside.any(|inside| inside.kind() == word)
}

/// The bodies of functions that are written out in a macro.
fn in_tokens(tree: &SyntaxNode) -> Vec<TextRange> {
    let mut bodies = Vec::new();
    let mut signature: Option<bool> = None;
    let mut constant = false;
    for element in tree.children_with_tokens() {
        match element {
            NodeOrToken::Token(token) => match token.kind() {
                SyntaxKind::FN_KW => signature = Some(!constant),
                SyntaxKind::CONST_KW => constant = true,
                SyntaxKind::IMPL_KW if signature.is_some() => signature = Some(false),
                // Not the head of a function after all, or one that ends without a body.
                SyntaxKind::SEMICOLON | SyntaxKind::EQ | SyntaxKind::FAT_ARROW => {
                    signature = None;
                    constant = false;
                }
                _ => {}
            },
            NodeOrToken::Node(node) => {
                let braces = node
                    .first_token()
                    .is_some_and(|token| token.kind() == SyntaxKind::L_CURLY);
                match (braces, signature) {
                    (true, Some(true)) => bodies.push(node.text_range()),
                    (false, Some(_)) if mentions(&node, SyntaxKind::IMPL_KW) => {
                        signature = Some(false);
                    }
                    _ => bodies.extend(in_tokens(&node)),
                }
                if braces {
                    signature = None;
                    constant = false;
                }
            }
        }
    }
    bodies
}

/// The text with other text in the given ranges; those inside others go with them.
fn changed(source: &str, mut changes: Vec<(TextRange, String)>) -> String {
    changes.sort_by_key(|(range, _)| range.start());
    let (mut text, mut from) = (String::with_capacity(source.len()), 0);
    for (range, other) in changes {
        let (start, end) = (usize::from(range.start()), usize::from(range.end()));
        if start < from {
            continue;
        }
        text.push_str(&source[from..start]);
        text.push_str(&other);
        from = end;
    }
    text.push_str(&source[from..]);
    text
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn bodies_go_and_declarations_stay() {
        let source =
            "/// Doc.\npub fn f<T>(x: T) -> Vec<T> {\n    vec![x]  // one\n}\nstruct S { a: u8 }\n";
        assert_eq!(
            of(source),
            "/// Doc.\npub fn f<T>(x: T) -> Vec<T> { loop {} }\nstruct S { a: u8 }\n"
        );
    }

    #[test]
    fn lines_of_documentation_become_one_comment_in_as_many_lines() {
        let source = "//! A.\n//!\n//!     code()\n\n/// One.\n/// Two.\n#[x]\n/// Three.\nfn f();\n\
                      /// a */ b\n/// c\nstruct S;\n//// no\n//// documentation\n";
        assert_eq!(
            of(source),
            "/*! A.\n\n     code() */\n\n/** One.\n Two. */\n#[x]\n/// Three.\nfn f();\n\
             /// a */ b\n/// c\nstruct S;\n//// no\n//// documentation\n"
        );
        let in_macro = "macro_rules! m { () => {\n/// A.\n/// B.\nstruct S;\n} }";
        let joined = "macro_rules! m { () => {\n/** A.\n B. */\nstruct S;\n} }";
        assert_eq!(of(in_macro), joined);
    }

    #[test]
    fn attributes_that_say_nothing_go() {
        let source = "#[stable(\n    since = \"1\"\n)]\n#[lang = \"x\"]\n#[inline]\nstruct S;";
        assert_eq!(of(source), "\n\n\n#[lang = \"x\"]\n\nstruct S;");
    }

    #[test]
    fn what_types_depend_on_stays() {
        for same in [
            "const fn n() -> usize { 3 + 4 + 5 + 6 }",
            "fn f() -> impl Iterator<Item = u8> { [1, 2, 3].into_iter() }",
            "fn f() -> Box<impl Fn()> { Box::new(|| ()) }",
            "trait T { fn f(&self); }",
            "const N: usize = { 1 + 2 + 3 + 4 };",
        ] {
            assert_eq!(of(same), same);
        }
    }

    #[test]
    fn functions_in_macros_are_emptied_too() {
        let source = "macro_rules! m { ($t:ty) => { impl A for $t { fn f(&self) -> u8 { self.long_name() } \
                      const fn g() -> u8 { 1 + 2 + 3 + 4 } } } }";
        let outline = of(source);
        assert!(
            outline.contains("fn f(&self) -> u8 { loop {} }"),
            "{outline}"
        );
        assert!(outline.contains("1 + 2 + 3 + 4"));
    }
}
