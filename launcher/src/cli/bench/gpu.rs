//! `halobook bench gpu`: all that a person with a GPU can find out, in one command and one file.

use super::super::step::Steps;
use super::super::words::Words;
use super::{epoch, positive, pythons};
use crate::bench::gpu::{self, Findings, Request, word};
use crate::time::Utc;
use crate::{Error, Result, store, sys};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What epochs train on.
const DATA: &str = "rmat:scale=18,edge-factor=16,feat=128,classes=32";

/// Runs the command.
pub fn run(words: &[String]) -> Result<i32> {
    let valued = [
        "out", "gpus", "scale", "data", "epochs", "rounds", "seconds", "against", "python",
    ];
    let words = Words::sort(words, &["quiet"], &valued)?;
    words.names([])?;
    let scale = words.number("scale")?.unwrap_or(20);
    if !(4..=26).contains(&scale) {
        return Err(Error::refused(
            format!("scale: expected 4 to 26, got {scale}"),
            "write --scale 18, for example: 2^18 vertices",
        ));
    }
    let request = Request {
        worker: std::env::current_exe().map_err(Error::io(Path::new("halobook")))?,
        gpus: positive(&words, "gpus", usize::MAX)?,
        scale,
        data: words.value("data").unwrap_or(DATA).to_owned(),
        epochs: positive(&words, "epochs", 20)?,
        rounds: positive(&words, "rounds", 1)?,
        seconds: words.number("seconds")?.unwrap_or(10.0),
        pythons: pythons(words.value("against"), &words.values("python"))?,
    };
    let date = Utc::now().rfc3339()[..10].to_owned();
    let named = words.value("out").map(PathBuf::from);
    let out = named.unwrap_or_else(|| format!("gpu-{date}.md").into());
    sys::catch_interrupts();
    let head = Head {
        date,
        commit: commit(),
        line: words_of(&request),
    };
    let mut save =
        |found: &Findings| store::write_atomic(&out, page(&head, &request, found).as_bytes());
    let mut steps = Steps::new(words.has("quiet"));
    let found = gpu::run(&request, &mut save, &mut |what| steps.show(what))?;
    drop(steps);
    save(&found)?;
    if !words.has("quiet") {
        print!("{}", page(&head, &request, &found));
    }
    println!(
        "{} holds all of it: send it in, or keep it under notebooks/measured/",
        out.display()
    );
    if found.interrupted {
        eprintln!("error: interrupted; the file holds what was found until then");
        eprintln!("help: run it again");
        return Ok(130);
    }
    if !found.right() {
        eprintln!("error: not everything is right: see {}", out.display());
        eprintln!("help: please report it with the file");
    }
    Ok(i32::from(!found.right()))
}

/// What begins a page.
struct Head {
    date: String,
    commit: Option<String>,
    line: String,
}

/// The commit of the folder that the program runs in, where that is a clone of this project.
fn commit() -> Option<String> {
    Path::new("kernels/cuda/spmm.cu").is_file().then_some(())?;
    let told = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .output();
    let told = told.ok().filter(|o| o.status.success())?;
    Some(String::from_utf8_lossy(&told.stdout).trim().to_owned())
}

fn words_of(r: &Request) -> String {
    format!(
        "halobook bench gpu --scale {} --data {} --epochs {} --rounds {}",
        r.scale, r.data, r.epochs, r.rounds
    )
}

/// The file: what was found so far.
fn page(head: &Head, request: &Request, found: &Findings) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let facts = &found.facts;
    let _ = writeln!(text, "# {}\n", facts.device);
    let parts = match facts.parts.to_string() {
        none if none.is_empty() => none,
        parts => format!("; {parts}"),
    };
    let s = if facts.gpus == 1 { "" } else { "s" };
    let at = head
        .commit
        .as_deref()
        .map_or(String::new(), |c| format!(" at {c}"));
    let _ = writeln!(
        text,
        "`{}` of version {}{at}, {}: {} GPU{s}, {} around{parts}.\n",
        head.line,
        env!("CARGO_PKG_VERSION"),
        head.date,
        facts.gpus,
        facts.host,
    );
    if facts.stands_in {
        text += "**The host stood in for the GPU: this is a rehearsal, and no time in it is one of a GPU.**\n\n";
    }
    for clash in &facts.clashes {
        let _ = writeln!(
            text,
            "**Does not fit**: {}. Install {}.\n",
            clash.what, clash.install
        );
    }
    answers(&mut text, found);
    kernels(&mut text, found);
    epochs(&mut text, found);
    scaled(&mut text, request, found);
    text
}

fn answers(text: &mut String, found: &Findings) {
    if found.answers.is_empty() {
        return;
    }
    *text += "## Right answers\n\nFour epochs of each, on the GPU and on the processor: how far the training losses are apart, as a part.\n\n";
    *text += "| strategy | model | ranks | apart | |\n|---|---|---|---|---|\n";
    for a in &found.answers {
        let (apart, verdict) = match &a.apart {
            Ok(apart) if a.right() => (format!("{apart:.1e}"), ""),
            Ok(apart) => (format!("{apart:.1e}"), "**wrong**"),
            Err(why) => (why.replace('|', "/"), "**failed**"),
        };
        let model = a.model.name();
        let name = match a.settings {
            "" => format!("`{}`", a.strategy),
            settings => format!("`{}`, {settings}", a.strategy),
        };
        let _ = writeln!(
            text,
            "| {name} | {model} | {} | {apart} | {verdict} |",
            a.ranks
        );
    }
    let _ = writeln!(text);
    let all = &found.checked.outcomes;
    if all.is_empty() {
        *text += "No memory checker: compute-sanitizer is not on the path (CUDA's toolkit has it), or was not reached.\n\n";
        return;
    }
    *text += "| memory checker | model | errors |\n|---|---|---|\n";
    for o in all {
        let errors = match &o.errors {
            Ok(n) => n.to_string(),
            Err(why) => why.replace('|', "/"),
        };
        let _ = writeln!(text, "| {} | {} | {errors} |", o.tool, o.model);
    }
    let _ = writeln!(text);
}

fn kernels(text: &mut String, found: &Findings) {
    let k = match &found.kernels {
        None => return,
        Some(Ok(kernels)) => kernels,
        Some(Err(why)) => {
            let _ = writeln!(text, "## Kernels\n\nNot timed: {why}\n");
            return;
        }
    };
    let _ = writeln!(
        text,
        "## Kernels\n\nR-MAT, {} vertices, {} edges. Times are the device's own; bytes are compulsory, beside the device's own \
         copy of {:.0} GB/s; `gathered` counts the rows that edges read.\n",
        k.vertices, k.edges, k.copy
    );
    *text +=
        "| kernel | ms | GB/s | of copy | gathered, GB/s | off by |\n|---|---|---|---|---|---|\n";
    for line in &k.lines {
        let speed = line.bytes / line.ms / 1e6;
        let off = line.off.map_or(String::new(), |off| format!("{off:.0e}"));
        let _ = writeln!(
            text,
            "| {} | {:.3} | {speed:.0} | {:.0} % | {:.0} | {off} |",
            line.kernel,
            line.ms,
            100.0 * speed / k.copy,
            line.gathered / line.ms / 1e6,
        );
    }
    let _ = writeln!(text);
}

fn epochs(text: &mut String, found: &Findings) {
    if found.epochs.is_empty() {
        return;
    }
    *text += "## Epochs\n\n";
    for outcome in &found.epochs {
        let said = match outcome {
            Ok(outcome) => epoch::text(outcome),
            Err(why) => format!("{why}\n"),
        };
        let _ = writeln!(text, "```text\n{said}```\n");
    }
}

fn scaled(text: &mut String, request: &Request, found: &Findings) {
    if found.scaled.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "## One to all GPUs\n\nGCN on {}, an epoch of the slowest rank.\n",
        request.data
    );
    *text += "| strategy | GPUs | rows pass by | ms | times one |\n|---|---|---|---|---|\n";
    for s in &found.scaled {
        let one = found
            .scaled
            .iter()
            .find(|o| o.strategy == s.strategy && o.gpus == 1);
        let one = one.and_then(|o| o.ms.as_ref().ok());
        let (ms, times) = match (&s.ms, one) {
            (Ok(ms), Some(one)) => (
                format!("{:.2}", ms.median),
                format!("{:.2}", one.median / ms.median),
            ),
            (Ok(ms), None) => (format!("{:.2}", ms.median), String::new()),
            (Err(why), _) => (why.replace('|', "/"), String::new()),
        };
        let by = if s.gpus == 1 { "" } else { word(s.transport) };
        let _ = writeln!(
            text,
            "| `{}` | {} | {by} | {ms} | {times} |",
            s.strategy, s.gpus
        );
    }
    let _ = writeln!(text);
}
