//! `halobook partition`: cut a graph and see what that costs, before any training.

use super::words::Words;
use crate::flags::{self, PARTITION};
use crate::partition::{self as cutting, Done, Wanted};
use crate::{Error, Result, frames};
use gnn_core::dataset::STANDARD;
use gnn_core::memory::Memory;
use gnn_core::partition::{Limits, Method, Nested, PARTITIONERS, Parts};
use gnn_core::spec::Value;
use serde_json::json;
use std::fmt::Write;

/// The flags, for help.
pub fn help() -> String {
    let mut text = format!(
        "\n{}\nCuts are kept in $HALOBOOK_HOME/partitions by the content of what was cut.\n\nMethods:\n",
        flags::help(PARTITION)
    );
    for entry in PARTITIONERS {
        let _ = writeln!(text, "  {:<9} {}", entry.name, entry.about);
        for knob in entry.knobs {
            let _ = writeln!(
                text,
                "    {:<11} {} [{}]",
                knob.name, knob.doc, knob.default
            );
        }
    }
    text
}

/// `halobook partition`.
pub fn partition(words: &[String]) -> Result<i32> {
    let words = Words::of(words, PARTITION)?;
    let wanted = wanted(&words)?;
    if words.has("dry-run") {
        let need = cutting::foresee(&wanted)?;
        let free = Memory::now().left();
        if words.has("json") {
            let seen = json!({
                "method": wanted.method.label(), "parts": wanted.parts.count,
                "predicted_bytes": need.bytes, "predicted_ms": need.ms, "limit_bytes": wanted.limits.bytes,
            });
            println!("{seen}");
        } else {
            println!(
                "{} into {} needs {} of memory beside the data set and {:.1} s ({} free)",
                wanted.method.label(),
                wanted.parts,
                megabytes(need.bytes),
                need.ms / 1e3,
                free.map_or("unknown".into(), megabytes),
            );
        }
        return Ok(0);
    }
    let done = cutting::partition(&wanted)?;
    done.notes.iter().for_each(|note| eprintln!("note: {note}"));
    if words.has("json") {
        let frame = frames::partition_frame(&done.rows, &done.report)?;
        frames::json_lines(&frame)
            .iter()
            .for_each(|line| println!("{line}"));
        println!("{}", summary(&done));
    } else {
        print!("{}", table(&done));
    }
    Ok(0)
}

fn wanted(words: &Words) -> Result<Wanted> {
    let mut data = words.value("data").map(str::to_owned);
    match (words.all_names(), &data) {
        ([], _) => {}
        ([name], None) => data = Some(name.clone()),
        (names, _) => {
            return Err(Error::refused(
                format!("one data set at a time, got {}", names.join(" ")),
                "write halobook partition --data NAME -n 4",
            ));
        }
    }
    let data = data.ok_or_else(|| {
        Error::refused(
            "data: no data set was named",
            "write halobook partition --data karate -n 2; `halobook datasets` lists names",
        )
    })?;
    let count = words.number("n")?.or(words.number("ranks")?).unwrap_or(2);
    let nested = words.value("nested").map(Nested::parse).transpose()?;
    let parts = Parts::of(count).each(nested.unwrap_or_default());
    let mut pairs: Vec<(String, Value)> = Vec::new();
    for set in words.values("set") {
        let (key, value) = set.split_once('=').ok_or_else(|| {
            Error::refused(
                format!("set: expected KNOB=VALUE, got {set}"),
                "for example --set slack=0.1",
            )
        })?;
        pairs.push((key.trim().to_owned(), Value::from_word(value.trim())));
    }
    if let Some(balance) = words.value("balance") {
        pairs.push(("balance".into(), Value::Str(balance.replace(',', "+"))));
    }
    let given = Method::parse(words.value("method").unwrap_or("metis"))?;
    // Flags go over what stands after the method's colon.
    let own = given.knobs.iter().map(|(k, v)| (k.clone(), v.clone()));
    let method = Method::new(given.entry.name, own.chain(pairs))?;
    let bytes = match words.value("mem") {
        Some(text) => Some(cutting::size("mem", text)?),
        None => Memory::now().left(),
    };
    let ms = match words.value("time") {
        Some(text) => {
            let seconds = text.parse::<f64>().ok().filter(|s| *s > 0.0);
            let seconds = seconds.ok_or_else(|| {
                Error::refused(
                    format!("time: expected seconds, got {text}"),
                    "for example --time 30",
                )
            })?;
            Some(seconds * 1e3)
        }
        None => None,
    };
    Ok(Wanted {
        data,
        split: words.value("split").unwrap_or(STANDARD).to_owned(),
        parts,
        method,
        seed: words.number("seed")?.unwrap_or(0),
        limits: Limits { bytes, ms },
        cached: !words.has("no-cache"),
    })
}

fn megabytes(bytes: u64) -> String {
    match bytes as f64 {
        b if b >= 1e9 => format!("{:.2} GB", b / 1e9),
        b => format!("{:.1} MB", b / 1e6),
    }
}

fn summary(done: &Done) -> serde_json::Value {
    let r = &done.report;
    let mut object = json!({
        "partition_id": done.id, "method": r.method, "parts": r.parts, "cut_share": r.cut_share,
        "hash_cut_share": r.hash_cut_share, "alpha": r.alpha, "hash_alpha": r.hash_alpha,
        "node_balance": r.node_balance, "edge_balance": r.edge_balance,
        "train_balance": r.train_balance, "partition_ms": r.ms,
        "partition_peak_bytes": r.peak_bytes, "predicted_bytes": r.predicted_bytes,
        "predicted_ms": r.predicted_ms,
        "types": r.types, "cached": r.cached, "frame": done.dir.join("partition.parquet"),
    });
    if let Some(nested) = &r.nested {
        object["nested"] = json!(nested);
    }
    object
}

/// The frame as people read it, then the whole in a few lines.
fn table(done: &Done) -> String {
    const SHOWN: usize = 32;
    const TYPES: usize = 12;
    let r = &done.report;
    let mut text = format!(
        "{:>4} {:>10} {:>11} {:>10} {:>6} {:>11} {:>8} {:>8} {:>8} {:>6}\n",
        "part", "nodes", "edges", "halo", "halo%", "cut edges", "train", "val", "test", "peers"
    );
    for row in done.rows.iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "{:>4} {:>10} {:>11} {:>10} {:>5.1}% {:>11} {:>8} {:>8} {:>8} {:>6}",
            row.part,
            row.nodes,
            row.edges,
            row.halo_nodes,
            100.0 * row.halo_share,
            row.cut_edges,
            row.train_nodes,
            row.val_nodes,
            row.test_nodes,
            row.peers
        );
    }
    if done.rows.len() > SHOWN {
        let _ = writeln!(text, "   … and {} more parts", done.rows.len() - SHOWN);
    }
    let mark = if r.synthetic { " (synthetic)" } else { "" };
    let percent = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.1} %", 100.0 * x));
    let _ = writeln!(
        text,
        "{}{mark}: {} into {} parts cuts {} of edges (hash {}), replication factor {:.3} (hash {:.3})",
        r.data,
        r.method,
        r.parts,
        percent(Some(r.cut_share)),
        percent(r.hash_cut_share),
        r.alpha,
        r.hash_alpha.unwrap_or(0.0),
    );
    let _ = writeln!(
        text,
        "largest part over the mean: {:.3} of vertices, {:.3} of edges, {:.3} of training vertices",
        r.node_balance, r.edge_balance, r.train_balance
    );
    if let Some(second) = &r.nested {
        let _ = writeln!(
            text,
            "each part again into {}: cuts {} of the edges within parts, replication factor {:.3}; \
             largest over the mean: {:.3} of vertices",
            second.each,
            percent(Some(second.cut_share)),
            second.alpha,
            second.node_balance
        );
    }
    for facts in r.types.iter().take(TYPES) {
        let _ = writeln!(
            text,
            "{} of type {}: {}, largest part {:.3} over the mean",
            facts.of.label(),
            facts.name,
            facts.count(),
            facts.balance()
        );
    }
    if r.types.len() > TYPES {
        let _ = writeln!(
            text,
            "… and {} more types, all in the frame",
            r.types.len() - TYPES
        );
    }
    let from = if r.cached {
        ", when it was first made"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "took {:.1} ms and {} beside the data set{from} (foreseen {:.1} ms and {}); frame: {}",
        r.ms,
        megabytes(r.peak_bytes),
        r.predicted_ms,
        megabytes(r.predicted_bytes),
        done.dir.join("partition.parquet").display(),
    );
    text
}
