//! Sources without what happens inside functions.
//!
//! rust-analyzer reads the sources of the crates whose types people use. It needs what they declare; most
//! of what it would read are bodies of functions, which say nothing about types. An outline is a
//! copy of a crate's sources with those bodies empty. What a type may depend on stays: bodies of
//! `const fn`, and of functions that return an `impl Trait`. So does all documentation.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use ra_ap_syntax::ast::{self, AstNode, HasName};
use ra_ap_syntax::{Edition, NodeOrToken, SourceFile, SyntaxKind, SyntaxNode, TextRange};

/// In place of a body: of every type, and nothing to look into.
const EMPTY: &str = "{ loop {} }";

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
    let mut bodies = Vec::new();
    for node in tree.syntax().descendants() {
        if let Some(function) = ast::Fn::cast(node.clone()) {
            bodies.extend(body(&function));
        } else if let Some(rules) = ast::MacroRules::cast(node.clone()) {
            let tree = rules.token_tree().map(|tree| tree.syntax().clone());
            bodies.extend(tree.into_iter().flat_map(|tree| in_tokens(&tree)));
        } else if let Some(call) = ast::MacroCall::cast(node) {
            let tree = call.token_tree().map(|tree| tree.syntax().clone());
            bodies.extend(tree.into_iter().flat_map(|tree| in_tokens(&tree)));
        }
    }
    emptied(source, bodies)
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

/// The text with nothing in the given ranges; those inside others go with them.
fn emptied(source: &str, mut bodies: Vec<TextRange>) -> String {
    bodies.sort_by_key(|range| range.start());
    let (mut text, mut from) = (String::with_capacity(source.len()), 0);
    for range in bodies {
        let (start, end) = (usize::from(range.start()), usize::from(range.end()));
        if start < from || end - start <= EMPTY.len() {
            continue;
        }
        text.push_str(&source[from..start]);
        text.push_str(EMPTY);
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
