//! The manual's and the README's lines for a shell, read by the parsers that would read them.
//!
//! Can catch: a command, flag, knob or value that is no more. Cannot catch: what a line does, and files that it
//! names.

use super::own::Own;
use super::{COMMANDS, help};
use crate::flags::{CommandFlag, PLAN, SWEEP, TRAIN};
use crate::request::parse_pairs;
use gnn_core::strategy::STRATEGIES;
use std::path::Path;

/// `halobook …` lines of the blocks for a shell, by page.
fn lines() -> Vec<(String, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pages = std::fs::read_dir(root.join("notebooks/manual")).expect("the manual");
    let pages = pages.map(|page| page.expect("a page").path());
    let mut found = Vec::new();
    for page in pages.chain([root.join("README.md")]) {
        let text = std::fs::read_to_string(&page).expect("text");
        let mut shell = false;
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("```") {
                shell = kind == "sh";
                continue;
            }
            let line = line.strip_prefix("target/release/").unwrap_or(line);
            if let Some(rest) = line.strip_prefix("halobook ").filter(|_| shell) {
                found.push((format!("{}: {line}", page.display()), words(rest)));
            }
        }
    }
    assert!(found.len() > 40, "{} lines", found.len());
    found
}

/// Words of a line, quotes taken off.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quote, mut open) = (Vec::<String>::new(), None, false);
    for c in line.chars() {
        match quote {
            Some(q) if c == q => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == ' ' => {
                open = false;
                continue;
            }
            _ => {
                if !open {
                    words.push(String::new());
                    open = true;
                }
                words.last_mut().expect("just pushed").push(c);
            }
        }
    }
    words
}

/// Whether the values of keys are single ones that a request is made of.
fn requested(line: &str, rest: &[String], flags: &[CommandFlag], lists: bool) {
    let (pairs, _) = Own::sort(rest, flags, lists).unwrap_or_else(|e| panic!("{line}: {e}"));
    let single = pairs.into_iter().filter(|(key, value)| {
        let text = value.to_string();
        !lists || !(text.starts_with('[') || (key == "ranks" && text.contains(',')))
    });
    parse_pairs(STRATEGIES, single).unwrap_or_else(|e| panic!("{line}: {e}"));
}

#[test]
fn lines_for_a_shell_are_what_the_program_reads() {
    let train = COMMANDS
        .iter()
        .find(|c| c.name == "train")
        .expect("a command");
    let keys = help::command(train);
    for (line, words) in lines() {
        let (name, rest) = words.split_first().expect("a command");
        let command = COMMANDS.iter().find(|c| c.name == name);
        let command = command.unwrap_or_else(|| panic!("{line}: no such command"));
        let page = help::command(command) + &keys;
        for word in rest.iter().filter(|word| word.starts_with("--")) {
            let flag = word.split('=').next().unwrap_or(word);
            let known = page.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
            assert!(
                flag == "--help" || known.into_iter().any(|w| w == flag),
                "{line}: {flag}"
            );
        }
        if rest.iter().any(|word| word == "--help") {
            continue;
        }
        match command.name {
            "train" => requested(&line, rest, TRAIN, rest.iter().any(|w| w == "--repeat")),
            "sweep" => requested(&line, rest, SWEEP, true),
            "plan" => requested(&line, rest, PLAN, true),
            _ => {}
        }
    }
}
