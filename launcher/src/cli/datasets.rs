//! `halobook datasets`: what there is to train on, and how to get it.

use super::words::Words;
use crate::datasets::{self, ALL, Entry, Payload};
use crate::{Error, Result};
use serde_json::json;

/// What `--help` says beyond the first lines.
pub const HELP: &str = "
  datasets                 what needs no file, look-alikes, and the catalogue
  datasets get NAME        download a data set of the catalogue, or say which files to put where
  datasets verify PATH     read a stored graph whole and compare its checksums

      --to DIR             put NAME into DIR/NAME [the data folder of Halobook]
      --json               one JSON object a line
";

/// Runs the command.
pub fn datasets(words: &[String]) -> Result<i32> {
    match words.first().map(String::as_str) {
        Some("get") => get(&words[1..]),
        Some("verify") => verify(&words[1..]),
        Some(word) if !word.starts_with('-') => Err(Error::refused(
            format!("datasets: unknown word '{word}'"),
            "write `halobook datasets`, `datasets get NAME` or `datasets verify PATH`",
        )),
        _ => list(words),
    }
}

fn list(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &["json"], &[])?;
    words.names([])?;
    let builtin = gnn_core::dataset::catalogue();
    if words.has("json") {
        for entry in builtin {
            println!(
                "{}",
                json!({ "name": entry.name, "about": entry.about, "kind": "built-in" })
            );
        }
        for (name, about) in gnn_core::dataset::look_alikes() {
            println!(
                "{}",
                json!({ "name": name, "about": about, "kind": "look-alike" })
            );
        }
        ALL.iter().for_each(|e| println!("{}", object(e)));
        return Ok(0);
    }
    println!("without any file:");
    for entry in builtin {
        println!("  {:<55} {}", entry.name, entry.about);
    }
    println!(
        "  {:<55} a folder or file of any format that is read (see `halobook train --help`)",
        "PATH"
    );
    println!("\nlook-alikes, synthetic; add ,scale=0.1 to shrink:");
    for (name, about) in gnn_core::dataset::look_alikes() {
        println!("  {name:<24} {about}");
    }
    println!("\ncatalogue (`halobook datasets get NAME`):");
    println!(
        "  {:<17} {:>11} {:>13} {:>9}  {:<22} {:<20} published",
        "name", "vertices", "edges", "download", "task", "licence"
    );
    for e in ALL {
        let score = e.accuracy.map_or("-".into(), |a| {
            format!("{} {:.1} % ({})", a.model, a.percent, a.source)
        });
        println!(
            "  {:<17} {:>11} {:>13} {:>6} MB  {:<22} {:<20} {score}",
            e.name,
            e.vertices,
            e.edges,
            e.bytes.div_ceil(1_000_000),
            e.task,
            e.licence.split(" (").next().unwrap_or(e.licence),
        );
    }
    Ok(0)
}

fn object(e: &Entry) -> serde_json::Value {
    let files: Vec<String> = e
        .files()
        .iter()
        .map(|f| format!("{}{f}", e.address))
        .collect();
    json!({
        "name": e.name, "kind": "catalogue", "vertices": e.vertices, "edges": e.edges, "task": e.task,
        "bytes": e.bytes, "licence": e.licence, "source": e.source, "files": files,
        "accuracy": e.accuracy.map(|a| json!({ "model": a.model, "percent": a.percent, "source": a.source })),
    })
}

fn get(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &["json"], &["to"])?;
    let [name] = words.names(["NAME"]).map_err(|e| {
        let help = "`halobook datasets` lists the names";
        Error::refused(e.to_string(), help)
    })?;
    let entry = datasets::find(name)?;
    let folder = datasets::folder(name, words.value("to"));
    eprintln!(
        "{name}: about {} MB from {} into {}",
        entry.bytes.div_ceil(1_000_000),
        entry.address,
        folder.display()
    );
    let got = datasets::get(entry, &folder, "curl")?;
    got.notes.iter().for_each(|note| println!("{note}"));
    let path = got.path.display();
    match entry.payload {
        Payload::Edges(_) => println!("next: halobook convert {path} {name}.halo --symmetrise"),
        _ => println!("next: halobook train --data {path}"),
    }
    if words.has("json") {
        println!(
            "{}",
            json!({ "name": name, "path": got.path, "notes": got.notes })
        );
    }
    Ok(0)
}

fn verify(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &[], &[])?;
    let [path] = words.names(["PATH"])?;
    let file = gnn_core::store::find(path.as_ref()).ok_or_else(|| {
        Error::refused(
            format!("{path}: no stored graph"),
            "give a file NAME.halo, or a folder with graph.halo",
        )
    })?;
    let stored = gnn_core::store::Stored::open(&file)?;
    stored.verify()?;
    let header = stored.header();
    println!(
        "{}: {}: {} vertices, {} edges, {} sections as they were written",
        file.display(),
        header.name,
        header.vertices,
        header.edges,
        header.sections.len()
    );
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<i32> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        datasets(&words)
    }

    #[test]
    fn wrong_words_are_refused_and_stored_graphs_verified() {
        for (line, part) in [
            ("gt cora", "unknown word 'gt'"),
            ("get", "expected NAME"),
            ("get coar", "cora"),
            ("get cora --from x", "--from"),
            ("verify /nowhere", "no stored graph"),
        ] {
            let e = run(line).expect_err(line).to_string();
            assert!(e.contains(part), "{line}: {e}");
        }
        assert_eq!(run("").expect("lists"), 0);
        assert_eq!(run("--json").expect("lists"), 0);
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("a.halo");
        let data = gnn_core::dataset::load("karate", 0).expect("built in");
        gnn_core::store::save(&data, "karate", None, &path).expect("writable");
        assert_eq!(
            run(&format!("verify {}", path.display())).expect("whole"),
            0
        );
        let mut bytes = std::fs::read(&path).expect("just written");
        let last = bytes.len() - 4096;
        bytes[last] ^= 1;
        std::fs::write(&path, bytes).expect("writable");
        let e = run(&format!("verify {}", path.display())).expect_err("damaged");
        assert!(e.to_string().contains("checksum"), "{e}");
    }
}
