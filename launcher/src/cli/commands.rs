//! The small commands: looking at runs, and ending them.

use super::Program;
use super::words::Words;
use crate::jobs::Target;
use crate::store::{list, run_dir};
use crate::{Error, LogQuery, Result, doctor as doctors, frames as framing};
use gnn_core::record::frame::FrameDef;
use gnn_core::strategy::Exact;
use serde_json::json;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// `halobook runs`.
pub fn runs(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &["json"], &[])?;
    words.names([])?;
    if words.has("json") {
        framing::json_lines(&framing::runs()?)
            .iter()
            .for_each(|line| println!("{line}"));
        return Ok(0);
    }
    println!(
        "{:<21} {:<12} {:<10} {:>5} {:<6} {:>7} {:>11} {:>9}  data",
        "run", "status", "strategy", "ranks", "model", "epochs", "test", "seconds"
    );
    for run in list()? {
        let score = run.result.as_ref().and_then(|r| r.score);
        let test = score.and_then(|s| Some((s.metric, s.test?)));
        println!(
            "{:<21} {:<12} {:<10} {:>5} {:<6} {:>7} {:>11} {:>9.2}  {}",
            run.run_id,
            run.status.label(),
            run.strategy,
            run.ranks,
            run.model,
            run.epochs_done,
            test.map_or("-".into(), |(metric, x)| {
                format!("{} {:.1} %", metric.label(), 100.0 * x)
            }),
            run.wall_ms / 1e3,
            run.data,
        );
    }
    Ok(0)
}

/// `halobook frames`, `halobook frames RUN` and `halobook frames RUN FRAME`.
pub fn frames(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &["json", "csv", "parquet"], &["o", "to"])?;
    if words.all_names().len() < 2 {
        let run = words.all_names().first().map(|run| run_dir(run));
        let schemas = framing::schemas(run.transpose()?.as_deref())?;
        if words.has("json") {
            schemas
                .iter()
                .for_each(|schema| println!("{}", json!(schema)));
        } else {
            print!("{}", framing::listed(&schemas));
        }
        return Ok(0);
    }
    let [run, frame] = words.names(["RUN", "FRAME"])?;
    let frame = framing::load(&run_dir(run)?, frame)?;
    let to = words.value("to").or(words.value("o")).map(Path::new);
    let form = match (words.has("csv"), words.has("parquet"), to) {
        (false, false, None) => None,
        (true, false, _) => Some(framing::Form::Csv),
        (false, true, _) => Some(framing::Form::Parquet),
        (false, false, Some(path)) => Some(framing::Form::of(path)?),
        (true, true, _) => {
            return Err(Error::refused(
                "--csv and --parquet are two forms",
                "name one of them",
            ));
        }
    };
    if let Some(form) = form {
        return framing::write(frame, form, to).map(|()| 0);
    }
    if words.has("json") {
        framing::json_lines(&frame)
            .iter()
            .for_each(|line| println!("{line}"));
    } else {
        println!("{frame}");
    }
    Ok(0)
}

/// `halobook cite`.
pub fn cite(words: &[String], program: &Program) -> Result<i32> {
    let words = Words::sort(words, &[], &[])?;
    match words.all_names() {
        [] => println!("{}", crate::cite::halobook()),
        names => {
            for name in names {
                println!("{}", crate::cite::cite(name, program.strategies)?);
            }
        }
    }
    Ok(0)
}

/// `halobook run RUN`.
pub fn run(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &[], &[])?;
    let [run] = words.names(["RUN"])?;
    print!("{}", crate::page::page(&run_dir(run)?)?);
    Ok(0)
}

/// `halobook probe RUN`.
pub fn probe(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &["json"], &[])?;
    let [run] = words.names(["RUN"])?;
    let found = crate::probe::probe(&framing::load(&run_dir(run)?, "embeddings")?)?;
    if words.has("json") {
        println!("{}", json!(found));
    } else {
        println!("{found}");
    }
    Ok(0)
}

/// `halobook pin RUN`.
pub fn pin(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &["off"], &[])?;
    let [run] = words.names(["RUN"])?;
    crate::keep::pin(&run_dir(run)?, !words.has("off"))?;
    Ok(0)
}

/// `halobook rm RUN`.
pub fn rm(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &[], &[])?;
    let [run] = words.names(["RUN"])?;
    crate::keep::remove(&run_dir(run)?)?;
    Ok(0)
}

/// `halobook diff RUN RUN`.
pub fn diff(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &["json"], &[])?;
    let [left, right] = words.names(["RUN", "RUN"])?;
    let frame = crate::diff::diff(&run_dir(left)?, &run_dir(right)?)?;
    if words.has("json") {
        framing::json_lines(&frame)
            .iter()
            .for_each(|line| println!("{line}"));
    } else {
        print!("{}", framing::text(&frame));
    }
    Ok(0)
}

/// `halobook sql QUERY`.
pub fn sql(words: &[String]) -> Result<i32> {
    ask_kernel("sql", words)
}

/// `halobook strategy NAME FILE`.
pub fn strategy(words: &[String]) -> Result<i32> {
    ask_kernel("strategy", words)
}

/// `halobook plot RUN KIND`.
pub fn plot(words: &[String]) -> Result<i32> {
    ask_kernel("plot", words)
}

/// `halobook trace RUN`.
pub fn trace(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &[], &["o", "to"])?;
    let [run] = words.names(["RUN"])?;
    let dir = run_dir(run)?;
    let trace = crate::chrome::chrome(&dir)?;
    let Some(path) = words.value("to").or(words.value("o")) else {
        println!("{trace}");
        return Ok(0);
    };
    std::fs::write(path, trace).map_err(Error::io(Path::new(path)))?;
    print!("{}", crate::chrome::summary(&dir)?);
    println!("{path}: open it in https://ui.perfetto.dev or chrome://tracing");
    Ok(0)
}

/// `halobook bench notebook` and `halobook bench polars`.
pub fn bench_in_kernel(words: &[String]) -> Result<i32> {
    ask_kernel("bench", words)
}

/// `halobook check CLAIMS`.
pub fn check(words: &[String]) -> Result<i32> {
    ask_kernel("check", words)
}

/// What the kernel's program answers: SQL would double the size of this one, which every rank runs.
fn ask_kernel(command: &str, words: &[String]) -> Result<i32> {
    let here = std::env::current_exe().map_err(Error::io(Path::new("halobook")))?;
    let program = here.with_file_name("halobook-kernel");
    let error = Command::new(&program).arg(command).args(words).exec();
    Err(Error::refused(
        format!("{} cannot be started: {error}", program.display()),
        "halobook-kernel does that, and should lie beside halobook; \
         `cargo build --release --workspace` builds both",
    ))
}

/// `halobook log RUN`.
pub fn log(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &[], &["rank", "tail", "grep"])?;
    let [run] = words.names(["RUN"])?;
    let query = LogQuery {
        rank: words.number("rank")?,
        tail: words.number("tail")?,
        grep: words.value("grep").map(str::to_owned),
    };
    let text = crate::log(&run_dir(run)?, query)?;
    if !text.is_empty() {
        println!("{text}");
    }
    Ok(0)
}

/// `halobook stop RUN`.
pub fn stop(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &["now"], &[])?;
    let [run] = words.names(["RUN"])?;
    let target = Target::of(run)?;
    let (id, now) = (target.id(), words.has("now"));
    let dir = match target {
        Target::Run(dir) => dir,
        Target::Sweep(dir) => {
            match (crate::sweep::stop(&dir, now)?, now) {
                (true, true) => println!("sweep {id} is being ended"),
                (true, false) => println!("sweep {id} ends after what runs"),
                (false, _) => println!("sweep {id} has ended"),
            }
            return Ok(0);
        }
    };
    match (crate::stop(&dir, now)?, now) {
        (true, true) => println!("run {id} is being ended"),
        (true, false) => println!("run {id} ends after its epoch"),
        (false, _) => println!("run {id} is not running"),
    }
    Ok(0)
}

/// `halobook strategies`.
pub fn strategies(words: &[String], program: &Program) -> Result<i32> {
    let words = Words::sort(words, &["json"], &[])?;
    words.names([])?;
    for entry in crate::strategies::known(program.strategies) {
        let models: Vec<&str> = entry.models.iter().map(|m| m.name()).collect();
        let exact = match entry.exact {
            Exact::Always => "always".to_owned(),
            Exact::Unclaimed => "not claimed".to_owned(),
            Exact::With(knobs) => {
                let knobs: Vec<String> = knobs.iter().map(|(k, v)| format!("{k} = {v}")).collect();
                format!("with {}", knobs.join(", "))
            }
        };
        if words.has("json") {
            let knob = |k: &gnn_core::strategy::Knob| json!({ "name": k.name, "default": k.default, "doc": k.doc });
            let knobs: Vec<_> = entry.knobs.iter().map(knob).collect();
            let frames: Vec<_> = entry.frames.iter().map(FrameDef::schema).collect();
            let object = json!({
                "name": entry.name, "paper": entry.paper, "summary": entry.summary, "models": models,
                "ranks": [entry.ranks.0, entry.ranks.1], "exact": exact, "knobs": knobs,
                "frames": frames,
            });
            println!("{object}");
            continue;
        }
        println!("{:<10} {}", entry.name, entry.summary);
        println!(
            "{:<10} models {}; exact {exact}; {}",
            "",
            models.join(", "),
            entry.paper
        );
        for knob in entry.knobs {
            let default = match knob.default {
                "" => "(no default)".to_owned(),
                value => format!("= {value}"),
            };
            println!("{:<10} {} {default}: {}", "", knob.name, knob.doc);
        }
        for frame in entry.frames {
            println!("{:<10} frame {}: {}", "", frame.name, frame.doc);
        }
    }
    Ok(0)
}

/// `halobook doctor`.
pub fn doctor(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &["json"], &[])?;
    words.names([])?;
    let report = doctors::report();
    if words.has("json") {
        println!("{}", json!(report));
    } else {
        println!("{report}");
    }
    Ok(i32::from(!report.ok))
}
