//! Plain Rust cells, which are compiled from sources that differ from evcxr's.
//!
//! Can catch: a cell that means something else for it, a variable that an idle cell loses, a value shown in
//! another form, an error that is not the cell's own. Cannot catch: how long a cell takes (`halobook
//! bench notebook` times it).

use anyhow::ensure;
use tests::Outcome;
use tests::kernel::Kernel;

/// What a cell is expected to show as text, or a part of its error.
enum Expected {
    Text(&'static str),
    Html(&'static str),
    Nothing,
    Error(&'static str),
}
use Expected::{Error, Html, Nothing, Text};

#[test]
fn cells_mean_what_they_say() -> Outcome {
    let mut kernel = Kernel::start()?;
    for (code, expected) in [
        (
            "let x = 41; let mut names = vec![String::from(\"a\")];",
            Nothing,
        ),
        ("x + 1", Text("42")),
        // Neither names nor x is named here, and both are there afterwards.
        ("1.5 * 2.0", Text("3.0")),
        ("names.push(\"b\".into()); names.len()", Text("2")),
        ("format!(\"{x}\")", Text("\"41\"")),
        ("()", Nothing),
        ("let frame = df!(\"n\" => [1, 2, 3]).unwrap();", Nothing),
        ("&frame", Html("<table")),
        ("x", Text("41")),
        (
            "frame.clone().lazy().filter(col(\"n\").gt(lit(1))).collect()?.height()",
            Text("2"),
        ),
        // A type of the cell's own that says how it is shown.
        (
            "struct Own; impl Own { fn evcxr_display(&self) { println!(\"EVCXR_BEGIN_CONTENT \
             text/html\\n<i>own</i>\\nEVCXR_END_CONTENT\") } }\nOwn",
            Html("<i>own</i>"),
        ),
        ("&Own", Html("<i>own</i>")),
        // What is wrong is said of the cell, with and without the prelude.
        ("x + \"a\"", Error("cannot add `&str` to `i32`")),
        ("nowhere + 1", Error("nowhere")),
        (
            "struct Mute; Mute",
            Error("`Mute` doesn't implement `Debug`"),
        ),
        ("panic!(\"stop {x}\")", Error("stop 41")),
        ("names.join(\",\")", Text("\"a,b\"")),
        // A type that is declared anew takes its variables along, named or not.
        (
            "#[derive(Debug)] struct P { a: u8 }\nlet p = P { a: 1 };",
            Nothing,
        ),
        (
            "#[derive(Debug)] struct P { a: u16, b: String }\n1",
            Text("1"),
        ),
        ("p", Error("`p`")),
        ("names.len() + x as usize", Text("43")),
        // evcxr's own settings count.
        (":fmt {:x?}\nvec![255]", Text("Output format: {:x?}\n[ff]")),
        ("x", Text("29")),
    ] {
        let answer = kernel.execute(code)?;
        let holds = match expected {
            Text(text) => answer.shown("text/plain").as_deref() == Some(text),
            Html(part) => answer
                .shown("text/html")
                .is_some_and(|html| html.contains(part)),
            Nothing => answer.is_ok() && answer.shown("text/plain").is_none(),
            Error(part) => !answer.is_ok() && answer.content().to_string().contains(part),
        };
        ensure!(holds, "{code}: {} {:?}", answer.reply, answer.iopub);
    }
    Ok(())
}
