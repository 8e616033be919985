//! A module of the core knows those on the floors below it, and no other: what the head of the crate's
//! documentation draws.
//!
//! Cannot catch: a name that reaches a module through another's `pub use`. Test code may look anywhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// From below; modules of one floor do not know each other.
const FLOORS: &[&[&str]] = &[
    &["record", "sample", "spec"],
    &["plan"],
    &["backend", "comm"],
    &["ctx"],
    &["checkpoint"],
    &["patience"],
    &["device", "model"],
    &["head"],
    &["feed"],
    &["strategy"],
    &["embeddings", "evaluation"],
    &["profiling", "rehearsal", "work"],
];

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        let tests = [
            "tests",
            "tests.rs",
            "testing.rs",
            "goldens.rs",
            "reference.rs",
        ];
        if tests.contains(&name) {
            continue;
        }
        if path.is_dir() {
            sources(&path, into);
        } else if name.ends_with(".rs") {
            into.push(path);
        }
    }
}

/// The modules that a file names behind `crate::`, outside comments and its module of tests.
fn named(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or("");
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.collect::<Vec<_>>().join("\n");
    let word = |rest: &str| -> String {
        let letter = |c: &char| c.is_alphanumeric() || *c == '_';
        rest.trim_start().chars().take_while(letter).collect()
    };
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let Some(list) = rest.strip_prefix('{') else {
            found.insert(word(rest));
            continue;
        };
        let mut depth = 1;
        let mut start = 0;
        for (i, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => {
                    found.insert(word(&list[start..i]));
                    start = i + 1;
                }
                _ => {}
            }
            if depth == 0 {
                found.insert(word(&list[start..i]));
                break;
            }
        }
    }
    found
}

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

#[test]
fn every_arrow_leads_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut wrong = Vec::new();
    let mut arrows = 0;
    for file in &files {
        let inside = file.strip_prefix(&root).expect("below the root");
        let first = inside.components().next().expect("a module");
        let module = first.as_os_str().to_str().expect("plain names");
        let module = module.trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let own = floor(module).unwrap_or_else(|| panic!("{module} has no floor yet"));
        let text = fs::read_to_string(file).expect("readable");
        for other in named(&text).iter().filter(|other| *other != module) {
            let Some(below) = floor(other) else { continue };
            arrows += 1;
            if below >= own {
                wrong.push(format!("{} names {other}", inside.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(arrows > 300, "only {arrows} arrows were found");
}

#[test]
fn a_list_of_names_is_read_whole() {
    let text = "use crate::{a::B, c::{D, e::F}, g};\nfn f() { crate::h::i() }\n// crate::j\n";
    let found: Vec<String> = named(text).into_iter().collect();
    assert_eq!(found, ["a", "c", "g", "h"]);
}
