//! Whether the links between the project's own Markdown pages lead somewhere.

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
    }
    found
}

/// Markdown pages of the tree, apart from hidden folders and build output.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                found.extend(pages(&path));
            }
        } else if name.ends_with(".md") {
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
        std::fs::write(folder.join("a.md"), "[here](a.md) [gone](gone.md)")
            .expect("our own folder");
        assert_eq!(broken(&folder), ["a.md: gone.md"]);
        let _ = std::fs::remove_dir_all(folder);
    }
}
