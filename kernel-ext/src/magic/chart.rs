//! `%plot FRAME MARK`: a frame of the user's own is a variable of the cell's process, so the line becomes Rust
//! there.

use halobook::chart::MARKS;

use super::action::{Line, Refusal};

/// Flags of marks, and the method that each becomes; columns of a mark are its arguments instead.
const METHODS: [(&str, &str); 5] = [
    ("by", "by"),
    ("facet", "facet"),
    ("err", "err"),
    ("title", "title"),
    ("bins", "bins"),
];
const COLUMNS: [&str; 3] = ["x", "y", "value"];

/// The Rust that draws it, in one line; none where `line` does not name a mark.
pub(super) fn rust(line: &Line, text: &str) -> Result<Option<String>, Refusal> {
    let refuse = |message: String, help: &str| Refusal {
        message,
        line: text.to_owned(),
        span: (0, text.chars().count()),
        help: help.to_owned(),
    };
    let mark = match line.args.as_slice() {
        [_, mark, ..] => MARKS.iter().find(|known| known.0 == mark),
        _ => None,
    };
    let Some((mark, needed)) = mark else {
        let own = METHODS.iter().map(|m| m.0).chain(COLUMNS);
        let given = own.into_iter().find(|flag| line.flag(flag).is_some());
        return match given {
            Some(flag) => Err(refuse(
                format!("--{flag} is of a chart of a frame"),
                "name the frame and a mark: %plot t line --x ranks --y epoch_ms; marks are line, scatter, bar, \
                 hist, box and heat",
            )),
            None => Ok(None),
        };
    };
    if let Some(flag) = ["epoch", "zoom", "band", "interactive"]
        .iter()
        .find(|flag| line.flag(flag).is_some())
    {
        let message = format!("--{flag} is of plots of a run, not of {mark}");
        return Err(refuse(message, "%plot? lists what each takes"));
    }
    let mut columns = Vec::new();
    for column in COLUMNS {
        match (needed.contains(&column), line.flag(column)) {
            (true, Some(name)) => columns.push(format!("{name:?}")),
            (true, None) => {
                let example: Vec<String> = needed.iter().map(|c| format!("--{c} COLUMN")).collect();
                let message = format!("{mark} needs a column for --{column}");
                return Err(refuse(
                    message,
                    &format!("%plot {} {mark} {}", line.args[0], example.join(" ")),
                ));
            }
            (false, Some(_)) => {
                return Err(refuse(
                    format!("{mark} has no --{column}"),
                    "%plot? lists what each takes",
                ));
            }
            (false, None) => {}
        }
    }
    let method = if *mark == "box" { "boxes" } else { mark };
    let frame = &line.args[0];
    let mut rust = format!(
        "halobook::chart::plot(&({frame})).{method}({})",
        columns.join(", ")
    );
    for (flag, method) in METHODS {
        let Some(value) = line.flag(flag) else {
            continue;
        };
        let value = match (flag, value.parse::<usize>()) {
            ("bins", Ok(count)) => count.to_string(),
            ("bins", Err(_)) => {
                return Err(refuse(format!("--bins takes a count, not `{value}`"), ""));
            }
            _ => format!("{value:?}"),
        };
        rust += &format!(".{method}({value})");
    }
    let (width, font) = (line.flag("width"), line.flag("font"));
    let bare = line.flag("bare").is_some();
    let saved = match line.flag("to") {
        None if bare || width.is_some() || font.is_some() => {
            return Err(refuse(
                "--width, --font and --bare are of a file".into(),
                "name one: -o figure.pdf",
            ));
        }
        None => String::new(),
        Some(file) => {
            let wide = width.map_or(String::new(), |width| format!(".wide({width:?})?"));
            let font = font.map_or(String::new(), |family| format!(".font({family:?})"));
            let bare = if bare { ".bare()" } else { "" };
            format!("figure.clone(){bare}{font}{wide}.save({file:?})?; ")
        }
    };
    Ok(Some(format!(
        "{{ let figure = {rust}.plot(); {saved}halobook::display::bundle(&halobook::Show::bundle(&figure)); }} // {}",
        text.trim_start()
    )))
}

#[cfg(test)]
mod tests {
    use super::super::action::{Action, expand};

    #[test]
    fn a_mark_of_a_frame_becomes_rust_in_its_line() {
        let cell = "%plot t.head(Some(3)) line --x ranks --y \"epoch ms\" --by strategy --err std\nlet a = 1;\n";
        let Action::Rust(rust) = expand(cell) else {
            panic!("{:?}", expand(cell));
        };
        let drawn = "plot(&(t.head(Some(3)))).line(\"ranks\", \"epoch ms\").by(\"strategy\").err(\"std\").plot()";
        assert!(
            rust.lines().next().is_some_and(|line| line.contains(drawn)),
            "{rust}"
        );
        assert_eq!(rust.lines().nth(1), Some("let a = 1;"));
        let Action::Rust(saved) = expand("%plot t box --x a --y b -o x.pdf --width 8cm --bare")
        else {
            panic!("a box");
        };
        assert!(
            saved.contains(".bare().wide(\"8cm\")?.save(\"x.pdf\")?"),
            "{saved}"
        );
    }

    #[test]
    fn what_a_mark_lacks_is_said() {
        for (cell, said) in [
            ("%plot t line --x a", "line needs a column for --y"),
            ("%plot t hist --x a --y b", "hist has no --y"),
            ("%plot r1 curve --x a", "--x is of a chart of a frame"),
            (
                "%plot t bar --x a --y b --epoch 3",
                "--epoch is of plots of a run",
            ),
            ("%plot t hist --x a --bins many", "--bins takes a count"),
            ("%plot t hist --x a --bare", "are of a file"),
        ] {
            let Action::Refused(refusal) = expand(cell) else {
                panic!("{cell} was taken");
            };
            assert!(
                refusal.message.contains(said),
                "{cell}: {}",
                refusal.message
            );
        }
        assert!(matches!(expand("%plot r1 stack"), Action::Lines { .. }));
    }
}
