//! `halobook bench data`: conversion, opening, and cuts, foreseen beside measured.
//!
//! Every measurement is a process of its own of this program, so that its peak of memory is its own.

use super::super::step::Steps;
use super::super::words::Words;
use super::{disturbed, positive};
use crate::bench::others::{Watch, wait_for_quiet};
use crate::host::Host;
use crate::{Error, Result};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What is generated, made symmetric, freed of repeats, and stored.
const GRAPH: &str = "rmat:scale=22";

/// What is cut: three sizes of two kinds.
const CUT: [&str; 6] = [
    "rmat:scale=14,feat=1",
    "rmat:scale=16,feat=1",
    "rmat:scale=18,feat=1",
    "sbm:nodes=16384,degree=16,feat=1",
    "sbm:nodes=65536,degree=16,feat=1",
    "sbm:nodes=262144,degree=16,feat=1",
];

/// How.
const METHODS: [&str; 2] = ["metis", "metis:balance=train+edges"];

/// Runs the command.
pub fn run(words: &[String]) -> Result<i32> {
    let valued = ["graph", "cut", "parts", "rounds", "patience"];
    let words = Words::sort(words, &["json", "quiet"], &valued)?;
    words.names([])?;
    let parts = positive(&words, "parts", 8)?;
    let rounds = positive(&words, "rounds", 3)?;
    let patience = words.number::<u64>("patience")?.unwrap_or(0);
    let graph = words.value("graph").unwrap_or(GRAPH);
    let given = words.values("cut");
    let cut = if given.is_empty() { &CUT[..] } else { &given };
    let folder = std::env::temp_dir().join(format!("halobook-bench-data-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
    let mut steps = Steps::new(words.has("quiet"));
    wait_for_quiet(Duration::from_secs(patience));
    let watch = Watch::start();
    let measured = measure(graph, cut, parts, rounds, &folder, &mut steps);
    drop(steps);
    // What cannot be removed lies among temporary files.
    let _ = std::fs::remove_dir_all(&folder);
    let (stored, cuts) = measured?;
    let others = watch.others();
    if !words.has("quiet") {
        print!("{}", text(&stored, &cuts));
        if let Some(note) = disturbed(others) {
            println!("{note}");
        }
    }
    if words.has("json") {
        println!(
            "{}",
            json!({ "machine": Host::this().class(), "stored": stored, "cuts": cuts, "other_cores": others })
        );
    }
    Ok(0)
}

/// Conversions, then cuts, each with the command's own numbers.
fn measure(
    graph: &str,
    cut: &[&str],
    parts: usize,
    rounds: usize,
    folder: &Path,
    steps: &mut Steps,
) -> Result<(Vec<Value>, Vec<Value>)> {
    let (mut stored, mut cuts) = (Vec::new(), Vec::new());
    let file = folder.join("graph.halo");
    for round in 1..=rounds {
        steps.show(&format!("{graph}: stored, {round} of {rounds}"));
        let mut command = own(folder)?;
        command.arg("convert").arg(graph).arg(&file);
        stored.push(last_object(command.args(["--quiet", "--json"]))?);
    }
    for &data in cut {
        for method in METHODS {
            // By turns, and the quickest counts: what others do only adds.
            let mut best: Option<Value> = None;
            for round in 1..=rounds {
                steps.show(&format!("{data}: {method}, {round} of {rounds}"));
                let mut command = own(folder)?;
                command.args([
                    "partition",
                    data,
                    "--method",
                    method,
                    "--no-cache",
                    "--json",
                ]);
                let one = last_object(command.arg("-n").arg(parts.to_string()))?;
                let ms = |v: &Value| number(v, "partition_ms");
                if best.as_ref().is_none_or(|b| ms(&one) < ms(b)) {
                    best = Some(one);
                }
            }
            let mut best = best.expect("at least one round");
            best["data"] = data.into();
            cuts.push(best);
        }
    }
    Ok((stored, cuts))
}

/// This program, with a store of its own.
fn own(folder: &Path) -> Result<Command> {
    let program = std::env::current_exe().map_err(Error::io(Path::new("halobook")))?;
    let mut command = Command::new(program);
    command.env("HALOBOOK_HOME", folder);
    Ok(command)
}

/// The object that ends a command's output.
fn last_object(command: &mut Command) -> Result<Value> {
    let words: Vec<_> = command.get_args().map(|w| w.to_string_lossy()).collect();
    let line = format!("halobook {}", words.join(" "));
    let done = command.output().map_err(Error::io(Path::new(&line)))?;
    let said = String::from_utf8_lossy(&done.stdout);
    let object = said
        .lines()
        .last()
        .and_then(|l| serde_json::from_str(l).ok());
    object.filter(|_| done.status.success()).ok_or_else(|| {
        let why = String::from_utf8_lossy(&done.stderr);
        let why = why.trim().lines().next().unwrap_or("no result").to_owned();
        Error::refused(format!("{line}: {why}"), "run that command by itself")
    })
}

fn number(object: &Value, key: &str) -> f64 {
    object[key].as_f64().unwrap_or(f64::NAN)
}

fn text(stored: &[Value], cuts: &[Value]) -> String {
    let mut text = format!("{}\n\n", Host::this().class());
    let _ = writeln!(
        text,
        "{:<10} {:>12} {:>9} {:>9} {:>22} {:>15} {:>13} {:>10}",
        "stored",
        "edges",
        "wall s",
        "cpu s",
        "M edges/s/core by wall",
        "peak / file",
        "looked at ms",
        "opened ms"
    );
    for one in stored {
        let (edges, seconds) = (number(one, "edges"), number(one, "seconds"));
        let cores = crate::host::cores() as f64;
        let _ = writeln!(
            text,
            "{:<10} {:>12} {:>9.2} {:>9.2} {:>22.2} {:>15.2} {:>13.1} {:>10.1}",
            "",
            edges,
            seconds,
            number(one, "cpu_seconds"),
            edges / 1e6 / seconds / cores,
            number(one, "mem_peak_bytes") / number(one, "bytes"),
            number(one, "look_ms"),
            number(one, "open_ms"),
        );
    }
    let _ = writeln!(
        text,
        "\n{:<36} {:<28} {:>18} {:>6} {:>20} {:>6}",
        "cut, foreseen / measured", "method", "MB", "", "ms", ""
    );
    for one in cuts {
        let pair = |foreseen: &str, measured: &str, unit: f64| {
            let (f, m) = (number(one, foreseen) / unit, number(one, measured) / unit);
            (format!("{f:.1} / {m:.1}"), f / m)
        };
        let (bytes, of_bytes) = pair("predicted_bytes", "partition_peak_bytes", 1e6);
        let (ms, of_ms) = pair("predicted_ms", "partition_ms", 1.0);
        let _ = writeln!(
            text,
            "{:<36} {:<28} {bytes:>18} {of_bytes:>6.2} {ms:>20} {of_ms:>6.2}",
            one["data"].as_str().unwrap_or_default(),
            one["method"].as_str().unwrap_or_default(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_stand_beside_what_they_are_of() {
        let stored = json!({
            "edges": 6_000_000, "seconds": 1.0, "cpu_seconds": 1.5, "mem_peak_bytes": 300,
            "bytes": 200, "look_ms": 12.5, "open_ms": 1.5,
        });
        let cut = json!({
            "data": "karate", "method": "metis", "predicted_bytes": 3_000_000,
            "partition_peak_bytes": 2_000_000, "predicted_ms": 5.0, "partition_ms": 10.0,
        });
        let text = text(&[stored], &[cut]);
        let lines: Vec<&str> = text.lines().collect();
        let rate = 6.0 / crate::host::cores() as f64;
        assert!(lines[3].contains(&format!("{rate:.2}")) && lines[3].contains("1.50"));
        let last = lines.last().expect("the cut");
        assert!(
            last.contains("3.0 / 2.0") && last.contains("5.0 / 10.0"),
            "{last}"
        );
        assert!(last.trim_end().ends_with("0.50"), "{last}");
    }

    #[test]
    fn a_command_that_fails_is_named_with_its_reason() {
        let mut command = Command::new("sh");
        let e = last_object(command.args(["-c", "echo broken >&2; exit 1"]));
        assert!(e.expect_err("failed").to_string().contains("broken"));
    }
}
