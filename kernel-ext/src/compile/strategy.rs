//! A strategy's cell becomes a program, kept in the store under its name.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::{Command, Stdio};

use gnn_core::spec::find_key;
use launcher::strategies::{self, About, Setting};
use serde_json::Value;

use super::rustc;
use super::shape::{self, Body, Shape};
use crate::cell::facts::Facts;
use crate::front::Failure;
use crate::live::interrupt::Interrupt;

/// A strategy as it is written.
pub struct Source<'a> {
    /// Its name in other cells.
    pub name: &'a str,
    /// The cell without the magic's line, whose place is left blank.
    pub code: &'a str,
}

/// The whole program: one strategy more than the command line has.
const MAIN: &str = r#"#[allow(dead_code, unused_imports)]
#[path = "cell.rs"]
mod cell;

#[global_allocator]
static ALLOCATOR: halobook::strategy::Allocator = halobook::strategy::ALLOCATOR;

fn main() {
    halobook::strategy::program(cell::entry(), MPI)
}
"#;
const WITH_MPI: &str = "Some(halobook::strategy::MpiLibrary {
        init: || Ok(Box::new(gnn_mpi::init()?)),
        name: gnn_mpi::library,
    })";

/// Compiles it, unless that was done before, and says what it is. Not kept yet under its name.
///
/// # Errors
/// What is wrong with the cell; what cannot be written.
pub fn compile(
    source: &Source<'_>,
    facts: &Facts,
    interrupt: Option<&Interrupt>,
) -> Result<About, Failure> {
    let shape = shape::read(source.code)
        .map_err(|[what, help]| Failure::config(what, [format!("help: {help}")]))?;
    let mut hasher = DefaultHasher::new();
    (source.name, source.code, &facts.key).hash(&mut hasher);
    let hash = format!("{:016x}", hasher.finish());
    let dir = strategies::dir(source.name).join(&hash);
    if !dir.join("program").is_file() {
        build(source, &shape, &hash, facts, interrupt)?;
    }
    describe(source.name, hash, &dir.join("program"))
}

fn build(
    source: &Source<'_>,
    shape: &Shape,
    hash: &str,
    facts: &Facts,
    interrupt: Option<&Interrupt>,
) -> Result<(), Failure> {
    let parent = strategies::dir(source.name);
    let draft = parent.join(format!("draft-{}", std::process::id()));
    let stored = |error: std::io::Error| {
        Failure::new(
            "HaloConfigError",
            format!("{} cannot be written: {error}", parent.display()),
            ["help: HALOBOOK_HOME names another place for the store".to_owned()],
        )
    };
    let (cell, main) = texts(source, shape, hash, facts);
    // What an earlier attempt of this process left.
    let _ = std::fs::remove_dir_all(&draft);
    std::fs::create_dir_all(&draft).map_err(stored)?;
    std::fs::write(draft.join("cell.rs"), cell).map_err(stored)?;
    std::fs::write(draft.join("main.rs"), main).map_err(stored)?;
    let done = rustc::program(facts, &draft, source.code.lines().count(), interrupt);
    let done = done.and_then(|()| {
        let to = parent.join(hash);
        // Another kernel may have been quicker with the same source.
        std::fs::rename(&draft, &to)
            .or_else(|error| if to.is_dir() { Ok(()) } else { Err(error) })
            .map_err(stored)
    });
    let _ = std::fs::remove_dir_all(&draft);
    done
}

/// `cell.rs` and `main.rs`.
fn texts(source: &Source<'_>, shape: &Shape, hash: &str, facts: &Facts) -> (String, String) {
    let mut cell = with_lines(source.code);
    cell.push('\n');
    cell.push_str(&entry(source.name, shape, hash));
    let mpi = if facts.mpi.is_some() {
        WITH_MPI
    } else {
        "None"
    };
    (cell, MAIN.replace("MPI)", &format!("{mpi})")))
}

/// The cell with an import on its first line, which is blank where the magic stood.
fn with_lines(code: &str) -> String {
    let lines = code.lines().map(|line| {
        // Documentation of a file cannot stand below an import.
        match line.strip_prefix("//!") {
            Some(rest) => format!("// {rest}"),
            None => line.to_owned(),
        }
    });
    let lines = lines.collect::<Vec<_>>().join("\n");
    format!("use halobook::strategy::prelude::*; {lines}")
}

/// What the magic adds: the strategy's entry.
fn entry(name: &str, shape: &Shape, hash: &str) -> String {
    let made = match shape {
        Shape::Entry => format!(
            "Entry {{ name: {name:?}, paper: {:?}, exact: Exact::Unclaimed, ..ENTRY }}",
            format!("cell {hash}")
        ),
        Shape::Unread => "compile_error!(\"the cell cannot be read\")".to_owned(),
        Shape::Exchange(body) => {
            let build = format!(
                "|setup, cx| ::halobook::strategy::build_exchange(setup, cx, |knobs: &Knobs| {})",
                make(body, "")
            );
            about(name, body, hash, "exchange", &build)
        }
        Shape::BlockRows(body) => {
            let build = format!(
                "|setup, cx| ::halobook::strategy::on_block_rows(setup, cx, |blocks, knobs: &Knobs| {})",
                make(body, "blocks")
            );
            about(name, body, hash, "block_rows", &build)
        }
        Shape::Neighbourhood(body) => {
            let build = format!(
                "|setup, cx| ::halobook::strategy::on_neighbourhoods(setup, cx, |knobs: &Knobs| {})",
                make(body, "")
            );
            about(name, body, hash, "neighbourhood", &build)
        }
    };
    format!("pub fn entry() -> ::halobook::strategy::Entry {{\n    {made}\n}}\n")
}

fn about(name: &str, body: &Body, hash: &str, kind: &str, build: &str) -> String {
    let mut knobs = String::new();
    for field in body.fields.iter().filter(|field| field.is_setting()) {
        let default = match body.has_default {
            true => format!("Some(<{} as Default>::default().{})", body.name, field.name),
            false => "None".to_owned(),
        };
        let _ = write!(
            knobs,
            "::halobook::strategy::knob::<{}>({:?}, {:?}, {default}), ",
            field.kind, field.name, field.doc
        );
    }
    let summary = match body.doc.as_str() {
        "" => "written in a cell",
        doc => doc,
    };
    let frame = |row: &String| format!("<{row} as ::halobook::strategy::FrameRow>::FRAME");
    let frames: Vec<String> = body.frames.iter().map(frame).collect();
    format!(
        "::halobook::strategy::About {{ name: {name:?}, source: {hash:?}, summary: {summary:?}, \
         knobs: vec![{knobs}], frames: vec![{}] }}.{kind}({build})",
        frames.join(", ")
    )
}

/// The struct from settings; other fields begin as their types' defaults.
fn make(body: &Body, blocks: &str) -> String {
    let mut made = format!("{{ let _ = knobs; {} {{ ", body.name);
    for field in &body.fields {
        let value = if field.is_setting() {
            format!(
                "<{} as ::halobook::strategy::Setting>::read(knobs, {:?})",
                field.kind, field.name
            )
        } else if field.name == blocks {
            blocks.to_owned()
        } else {
            "Default::default()".to_owned()
        };
        let _ = write!(made, "{}: {value}, ", field.name);
    }
    made.push_str("} }");
    made
}

/// What the program says of its strategy.
fn describe(name: &str, hash: String, program: &Path) -> Result<About, Failure> {
    let broken = |what: String| Failure::new("HaloCompileError", what, []);
    let done = Command::new(program)
        .args(["strategies", "--json"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| broken(format!("the strategy's program does not start: {error}")))?;
    let text = String::from_utf8_lossy(&done.stdout);
    let own = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|entry| entry["name"] == name)
        .ok_or_else(|| broken("the strategy's program does not know it".to_owned()))?;
    let word = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let knob = |of: &Value| Setting {
        name: word(&of["name"]),
        default: word(&of["default"]),
        doc: word(&of["doc"]),
    };
    let knobs: Vec<Setting> = list(&own["knobs"]).iter().map(knob).collect();
    own_names(name, &knobs)?;
    Ok(About {
        name: name.to_owned(),
        summary: word(&own["summary"]),
        hash,
        models: list(&own["models"]).iter().map(word).collect(),
        knobs,
        frames: serde_json::from_value(own["frames"].clone()).unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        verified: None,
    })
}

/// Refuses a setting that a cell could not give: its name is that of a key of every run.
fn own_names(strategy: &str, knobs: &[Setting]) -> Result<(), Failure> {
    let Some(key) = knobs.iter().find_map(|knob| find_key(&knob.name)) else {
        return Ok(());
    };
    Err(Failure::config(
        format!(
            "{strategy} has a setting `{}`, which every run has already",
            key.name
        ),
        [
            format!("{}: {}", key.name, key.doc),
            "help: give the field another name".to_owned(),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_no_key_of_every_run() {
        let named = |name: &str| Setting {
            name: name.into(),
            default: String::new(),
            doc: String::new(),
        };
        assert!(own_names("lazy", &[named("patient"), named("every")]).is_ok());
        let refused = own_names("lazy", &[named("every"), named("limit")]);
        let text = format!("{:?}", refused.expect_err("limit is a key"));
        assert!(text.contains("setting `limit`"), "{text}");
    }

    #[test]
    fn lines_stay_where_they_are() {
        let text = with_lines("\n//! Mine.\nstruct X;\n");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "//  Mine.");
        assert_eq!(lines[2], "struct X;");
    }

    #[test]
    fn fields_become_settings_and_state() {
        let code = "\nstruct X { every: usize, seen: Vec<f32> }\nimpl Strategy for X {}\n";
        let shape = shape::read(code).expect("a strategy");
        let text = entry("x", &shape, "ab");
        assert!(
            text.contains("knob::<usize>(\"every\", \"\", None)"),
            "{text}"
        );
        assert!(text.contains("seen: Default::default()"), "{text}");
        assert!(text.contains("frames: vec![] }"), "{text}");
    }

    #[test]
    fn frames_of_the_cell_are_the_entrys() {
        let code =
            "frame! { Seen in \"seen\" { rows: u64 } }\nstruct X { }\nimpl Strategy for X {}\n";
        let text = entry("x", &shape::read(code).expect("a strategy"), "ab");
        let frames = "frames: vec![<Seen as ::halobook::strategy::FrameRow>::FRAME]";
        assert!(text.contains(frames), "{text}");
    }
}
