//! Whether what names the project's own files leads somewhere: links between Markdown pages, sources that pages
//! name, and pages that sources name.

use std::path::{Path, PathBuf};

/// Every link to a file that is not there, as `page: target`.
pub fn broken(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for page in pages(root) {
        let text = std::fs::read_to_string(&page).unwrap_or_default();
        let folder = page.parent().unwrap_or(root);
        for target in targets(&text) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !folder.join(file).exists() {
                let name = page.strip_prefix(root).unwrap_or(&page);
                found.push(format!("{}: {target}", name.display()));
            }
        }
        found.extend(missing(root, &page, &text, "", ".rs"));
    }
    for source in files(root, ".rs") {
        let text = std::fs::read_to_string(&source).unwrap_or_default();
        found.extend(missing(root, &source, &text, "notebooks/", ".md"));
    }
    found
}

/// Files in backticks, from the root, that begin and end so and are not there.
fn missing(root: &Path, file: &Path, text: &str, begin: &str, end: &str) -> Vec<String> {
    let name = file.strip_prefix(root).unwrap_or(file);
    let quoted = text
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path = |word: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        word.contains('/') && word.chars().all(plain)
    };
    let paths = quoted.filter(is_path);
    let paths = paths.filter(|path| path.starts_with(begin) && path.ends_with(end));
    let lost = paths.filter(|path| !root.join(path).exists());
    lost.map(|path| format!("{}: {path}", name.display()))
        .collect()
}

/// Markdown pages of the tree.
fn pages(folder: &Path) -> Vec<PathBuf> {
    files(folder, ".md")
}

/// Files of the tree with that ending, apart from hidden folders and build output.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                found.extend(files(&path, ending));
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Targets of `](…)` that are neither addresses nor anchors, outside code.
fn targets(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        if code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            let Some(target) = rest.split([')', ' ']).next() else {
                continue;
            };
            if !target.contains("://")
                && !target.starts_with(['#', '<'])
                && !target.starts_with("mailto:")
            {
                found.push(target);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_are_followed() {
        let text = "[a](b.md) [c](https://x.y/z) ![p](p.svg \"t\") [h](#h) [s](q.md#part)\n```\n[no](no.md)\n```\n";
        assert_eq!(targets(text), ["b.md", "p.svg", "q.md#part"]);
    }

    #[test]
    fn a_missing_page_is_named() {
        let folder = std::env::temp_dir().join(format!("setup-links-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder in the temporary folder");
        std::fs::write(
            folder.join("a.md"),
            "[here](a.md) [gone](gone.md) `src/b.rs` `b.rs` `src/x y.rs`",
        )
        .expect("our own folder");
        // Put together, so that this file names no page that is not there.
        let said = ["notebooks/c.md", "other/c.md"].map(|page| format!("//! See `{page}`.\n"));
        std::fs::write(folder.join("b.rs"), said.concat()).expect("our own folder");
        let lost = ["a.md: gone.md", "a.md: src/b.rs", "b.rs: notebooks/c.md"];
        assert_eq!(broken(&folder), lost);
        let _ = std::fs::remove_dir_all(folder);
    }
}
