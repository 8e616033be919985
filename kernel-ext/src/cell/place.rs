//! Which line of a cell a line of its source is.
//!
//! evcxr puts a cell's items first and its statements into a function, each as it was written, so a line is
//! found by its text; of equal ones, by which of them it is.

/// The number, from 1, and the text of the line of `cell` that stands in line `at`, from 1, of `source`; `written` is the
/// cell as it was handed over, line for line.
pub fn line_of(cell: &str, written: &str, source: &str, at: usize) -> Option<(usize, String)> {
    let line = |at: usize| source.lines().nth(at.checked_sub(1)?).map(str::trim);
    // A value that is shown begins behind a bracket of evcxr's, which counts as its place.
    let (at, text) = match line(at)? {
        "(" | "match &(" => (at + 1, line(at + 1)?),
        text => (at, text),
    };
    if text.is_empty() {
        return None;
    }
    let count = |line: &str| line.trim() == text;
    // As many of this text as come before it in the source come before it in the cell.
    let before = source
        .lines()
        .take(at - 1)
        .filter(|line| count(line))
        .count();
    let all = || written.lines().enumerate();
    let equal: Vec<usize> = all()
        .filter(|(_, line)| count(line))
        .map(|(k, _)| k)
        .collect();
    let found = match equal.get(before).or(equal.last()) {
        Some(found) => *found,
        // Statements of one line are one each in the source.
        None => all().filter(|(_, line)| line.contains(text)).last()?.0,
    };
    Some((found + 1, cell.lines().nth(found)?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::line_of;

    #[test]
    fn a_line_is_found_by_its_text() {
        let cell = "use std::fs;\nlet a = f()?;\n  g();\n  g();\na";
        let written = "use std::fs;\nlet a = f().or_end();\n  g();\n  g();\na";
        let source =
            "use std::fs;\nfn run() {\nlet a = f().or_end();\n  g();\n  g();\n(\na\n).show()\n}";
        for (at, number, text) in [
            (1, 1, "use std::fs;"),
            (3, 2, "let a = f()?;"),
            (4, 3, "  g();"),
            (5, 4, "  g();"),
            (6, 5, "a"),
            (7, 5, "a"),
        ] {
            let found = line_of(cell, written, source, at);
            assert_eq!(found, Some((number, text.to_owned())), "{at}");
        }
        let cell = "let v = f(); v[7]";
        for (open, at) in [("(", 3), ("match &(", 2)] {
            let source = format!("let v = f();\n{open}\n v[7]\n).show()");
            let found = line_of(cell, cell, &source, at);
            assert_eq!(found, Some((1, cell.to_owned())), "{open}");
        }
        for at in [0, 2, 8, 20] {
            assert_eq!(line_of(cell, written, source, at), None, "{at}");
        }
    }
}
