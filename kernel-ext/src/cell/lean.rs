//! A cell's source, made quicker to compile.
//!
//! evcxr writes a whole crate for every cell. Most of what the compiler does with it has nothing to do
//! with the cell: it moves every variable of the session out of the store and back, reads the
//! prelude with all of Polars, and is asked twice how the last value is shown, since most types have
//! no method for that. Here are the same sources without that. They mean the same where they compile;
//! where they do not, the source that evcxr wrote is what counts. No line moves, so that places stay
//! true.

use std::collections::{HashMap, HashSet};

use super::IMPORT;

/// What the last value of a cell is shown with where its type has nothing better.
const DEBUG: &str = r#"mod halobook_shown {
    pub trait Shown { fn evcxr_display(&self); }
    impl<T: ?Sized + std::fmt::Debug> Shown for &T {
        fn evcxr_display(&self) {
            use std::io::Write;
            let text = format!("EVCXR_BEGIN_CONTENT text/plain\n{:?}\nEVCXR_END_CONTENT\n", self);
            if let Err(error) = std::io::stdout().lock().write_all(text.as_bytes()) {
                eprintln!("Failed to send content to parent: {error:?}");
                std::process::exit(1);
            }
        }
    }
}
"#;

/// Where evcxr closes the last value of a cell.
const CLOSE: &str = ").evcxr_display();";

/// Types that no cell can give another meaning without naming them in a way that is seen.
const PLAIN: &[&str] = &[
    "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize", "f32",
    "f64", "bool", "char", "str", "static", "dyn", "mut", "std", "core", "alloc", "string", "vec",
    "String",
];

/// Whether sources that differ from evcxr's may be tried at all: not where a cell reads files beside
/// its source or says itself how a type is shown.
pub fn may_differ(source: &str) -> bool {
    let marks = [
        "include!",
        "include_str!",
        "include_bytes!",
        "#[path",
        "fn evcxr_display",
    ];
    // evcxr's own comments speak of such things.
    let lines = source.lines().filter(|line| !line.starts_with("//"));
    lines
        .flat_map(|line| marks.map(|mark| line.contains(mark)))
        .all(|marked| !marked)
}

/// The source without the variables that the cell does not name: they stay in their store.
pub fn without_idle_variables(source: &str) -> String {
    let lines: Vec<&str> = source.lines().collect();
    let moves: Vec<Option<Move>> = lines.iter().map(|line| Move::read(line)).collect();
    let mut steps: HashMap<&str, usize> = HashMap::new();
    for step in moves.iter().flatten() {
        *steps.entry(step.name).or_default() += 1;
    }
    let rest = lines.iter().zip(&moves).filter(|(_, step)| step.is_none());
    let named: HashSet<&str> = rest.flat_map(|(line, _)| words(line)).collect();
    let idle = |step: &Move| {
        // Checked, taken and put back: no more and no less.
        steps[step.name] == 3
            && !named.contains(step.name)
            && words(step.kind).all(|word| PLAIN.contains(&word) || !named.contains(word))
    };
    let kept = lines.iter().zip(&moves).map(|(line, step)| match step {
        Some(step) if idle(step) => "",
        _ => line,
    });
    joined(kept)
}

/// The source that shows its last value in one way for all types. `None` where it shows none.
pub fn with_one_display(source: &str) -> Option<String> {
    let lines: Vec<&str> = source.lines().collect();
    let close = lines.iter().rposition(|line| *line == CLOSE)?;
    let open = lines[..close].iter().rposition(|line| *line == "(")?;
    let kept = lines.iter().enumerate().map(|(at, line)| match at {
        at if at == open => "match &(",
        at if at == close => {
            ") { value => { use crate::halobook_shown::Shown as _; value.evcxr_display(); } };"
        }
        _ => line,
    });
    Some(joined(kept) + DEBUG)
}

/// The source without the prelude. `None` where it uses a word that is known to come from there.
pub fn without_prelude(source: &str, needed: &HashSet<String>) -> Option<String> {
    let mut lines = source.lines().filter(|line| *line != IMPORT);
    if lines.any(|line| words(line).any(|word| needed.contains(word))) {
        return None;
    }
    let kept = source.lines();
    Some(joined(
        kept.map(|line| if line == IMPORT { "" } else { line }),
    ))
}

/// A line in which a variable goes between a cell and the store.
struct Move<'a> {
    name: &'a str,
    kind: &'a str,
}

impl Move<'_> {
    fn read(line: &str) -> Option<Move<'_>> {
        let (before, rest) = line.split_once("evcxr_variable_store.")?;
        let (step, rest) = rest.split_once("_variable::<")?;
        let (kind, rest) = rest.rsplit_once(">(stringify!(")?;
        let (name, end) = rest.split_once(')')?;
        let put_end = format!(", {name});");
        let taken = before.strip_prefix("let ").map(|bound| {
            let bound = bound.strip_prefix("mut ").unwrap_or(bound);
            bound.strip_suffix(" = ") == Some(name)
        });
        let whole = match step {
            "check" => before == "vars_ok &= " && end == ");",
            "take" => taken == Some(true) && end == ");",
            "put" => before.is_empty() && end == put_end,
            _ => false,
        };
        let plain = !name.is_empty() && words(name).next() == Some(name);
        (whole && plain).then_some(Move { name, kind })
    }
}

/// The identifiers in a text, and whatever else looks like one.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

fn joined<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: &str = r#"use halobook::prelude::*;
{let mut vars_ok = true;
vars_ok &= evcxr_variable_store.check_variable::<DataFrame>(stringify!(frame));
vars_ok &= evcxr_variable_store.check_variable::<i32>(stringify!(x));
if !vars_ok {return evcxr_variable_store;}}
let frame = evcxr_variable_store.take_variable::<DataFrame>(stringify!(frame));
let mut x = evcxr_variable_store.take_variable::<i32>(stringify!(x));
(
x + 1
).evcxr_display();
evcxr_variable_store.put_variable::<DataFrame>(stringify!(frame), frame);
evcxr_variable_store.put_variable::<i32>(stringify!(x), x);
"#;

    #[test]
    fn variables_that_a_cell_does_not_name_stay_where_they_are() {
        let lean = without_idle_variables(CELL);
        assert!(!lean.contains("DataFrame"), "{lean}");
        assert_eq!(lean.matches("<i32>").count(), 3);
        assert_eq!(lean.lines().count(), CELL.lines().count());
        assert_eq!(lean.lines().nth(8), Some("x + 1"));
    }

    #[test]
    fn a_name_anywhere_counts() {
        for user in ["frame", "println!(\"{frame:?}\")", "a!(frame)"] {
            let cell = CELL.replace("x + 1", user);
            assert!(
                without_idle_variables(&cell).contains("<DataFrame>"),
                "{user}"
            );
        }
        // A cell that declares the type again must notice the variables of the old one.
        let cell = CELL.replace("x + 1", "{ struct DataFrame; 1 }");
        assert!(without_idle_variables(&cell).contains("<DataFrame>"));
    }

    #[test]
    fn a_variable_that_is_not_put_back_is_moved_as_before() {
        let put = "evcxr_variable_store.put_variable::<DataFrame>(stringify!(frame), frame);\n";
        let cell = CELL.replace(put, "");
        assert_eq!(without_idle_variables(&cell), cell);
    }

    #[test]
    fn the_last_value_is_shown_once_for_all() {
        let shown = with_one_display(CELL).expect("the cell ends in a value");
        assert_eq!(shown.lines().nth(7), Some("match &("));
        assert_eq!(shown.lines().nth(8), Some("x + 1"));
        assert!(shown.contains("mod halobook_shown"));
        assert!(with_one_display("let x = 1;\n").is_none());
    }

    #[test]
    fn the_prelude_goes_where_nothing_of_it_is_named() {
        let needed: HashSet<String> = ["df".to_owned(), "halobook".to_owned()].into();
        let lean = without_prelude("use halobook::prelude::*;\nx + 1\n", &needed);
        assert_eq!(lean.as_deref(), Some("\nx + 1\n"));
        assert!(without_prelude("use halobook::prelude::*;\ndf!()\n", &needed).is_none());
    }

    #[test]
    fn sources_that_read_other_files_are_left_alone() {
        assert!(may_differ(CELL));
        assert!(may_differ("// is included via include_str! then\n"));
        assert!(!may_differ("include_str!(\"a\")"));
        assert!(!may_differ("impl A { fn evcxr_display(&self) {} }"));
    }
}
