//! Published numbers against the papers' texts, which lie beside the clone where somebody has them.
//!
//! Can catch: a number, a caption or a line that is not the text's. Cannot catch: a number of the right
//! lines in the wrong cell of a figure; rows of a table must stand on one line together.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use halobook::paper::{Printed, Published, Table};

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names of all papers there are.
fn papers() -> Vec<String> {
    let folder = tree().join("notebooks/papers/published");
    let entries = std::fs::read_dir(&folder).expect("the papers' folder is in the tree");
    let files = entries.flatten().map(|entry| entry.path());
    let mut names: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

/// The lines that a table names, with their numbers.
fn source<'t>(table: &Table, text: &'t [&'t str]) -> Vec<&'t str> {
    let mut lines = Vec::new();
    for range in table.lines.split(',') {
        let (first, last) = range
            .trim()
            .split_once('-')
            .unwrap_or((range.trim(), range.trim()));
        let number = |word: &str| word.trim().parse::<usize>().expect("lines are numbers");
        lines.extend(text[number(first) - 1..number(last)].iter());
    }
    lines
}

/// Whether a line has `number` as a whole, or three times over, as formulas are where a page was made text.
fn has(line: &str, number: &str) -> bool {
    whole(line, number) || whole(line, &number.repeat(3))
}

/// Whether a line has `number` as a whole: no digit, nor a point before one, goes on where it ends.
fn whole(line: &str, number: &str) -> bool {
    line.match_indices(number).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let mut after = line[at + number.len()..].chars();
        let (next, behind) = (after.next(), after.next());
        let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        let goes_on = digit(next) || (matches!(next, Some('.' | ',')) && digit(behind));
        !digit(before) && before != Some('.') && !goes_on
    })
}

/// The number of a cell as it is printed.
fn number(cell: &str) -> Option<String> {
    Printed::read(cell)?;
    let is = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    Some(cell.chars().take_while(|c| is(*c)).collect())
}

#[test]
fn every_paper_can_be_read_and_names_where_it_stands() {
    let papers = papers();
    assert!(papers.len() >= 3, "{papers:?}");
    for name in papers {
        let paper = Published::find(&name).expect("a paper of the tree");
        for table in &paper.items {
            assert!(
                !table.lines.is_empty() && !table.caption.is_empty(),
                "{}",
                table.number
            );
            let frame = table.frame();
            assert_eq!(frame.height(), table.rows.len(), "{name}, {}", table.number);
        }
    }
}

#[test]
fn every_number_is_in_the_lines_that_it_names() {
    let texts = tree().join("../shared/papers");
    for name in papers() {
        let paper = Published::find(&name).expect("a paper of the tree");
        let Ok(text) = std::fs::read_to_string(texts.join(&paper.text)) else {
            // Past libtest's capture: a skip is seen.
            let _ = writeln!(
                std::io::stderr(),
                "skip: published numbers of {name}: there is no ../shared/papers/{}",
                paper.text
            );
            continue;
        };
        let text: Vec<&str> = text.lines().collect();
        for table in &paper.items {
            let lines = source(table, &text);
            let what = format!("{name}, {}", table.number);
            let caption = lines.iter().any(|line| line.contains(&table.caption));
            assert!(caption, "{what}: its caption is not there");
            for row in &table.rows {
                let numbers: Vec<String> = row[table.labels.len()..]
                    .iter()
                    .filter_map(|c| number(c))
                    .collect();
                // A printed row is a line; what is said of a figure may be in several.
                let found = match table.curves {
                    None => lines
                        .iter()
                        .any(|line| numbers.iter().all(|n| has(line, n))),
                    Some(_) => numbers
                        .iter()
                        .all(|n| lines.iter().any(|line| has(line, n))),
                };
                assert!(found, "{what}: {row:?} is not in lines {}", table.lines);
            }
        }
    }
}

#[test]
fn a_number_is_found_only_as_a_whole() {
    assert!(has("a 2.14× b", "2.14") && has("0.40.", "0.40") && has("(25, 10)", "25"));
    assert!(
        !has("12.14", "2.14") && !has("2.145", "2.14") && !has("0.40", "0.4") && !has("1.5", "5")
    );
    assert!(!has("2,449,029", "2,449") && has("2,449,029", "2,449,029"));
    assert!(has("is 78.278.278.2 of", "78.2") && !has("is 78.278.2 of", "78.2"));
}
