//! `halobook gc`: makes the store smaller.

use super::words::Words;
use crate::error::{Error, Result};
use crate::forecast::size;
use crate::gc::{Wish, collect, says_something};
use gnn_core::spec::bytes;
use serde_json::json;

/// `halobook gc --size 10GB|--keep N|--days N [--dry-run] [--json]`.
pub fn gc(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &["dry-run", "json"], &["size", "keep", "days"])?;
    words.names([])?;
    let wrong = |flag: &str, text: &str, example: &str| {
        Error::refused(
            format!("--{flag}: {text} is not what it takes"),
            format!("write --{flag} {example}"),
        )
    };
    let size_of = |text| bytes(text).ok_or_else(|| wrong("size", text, "10GB"));
    let count = |text: &str| text.parse().map_err(|_| wrong("keep", text, "100"));
    let days = |text: &str| {
        let days: Option<f64> = text.parse().ok();
        days.filter(|days| days.is_finite() && *days >= 0.0)
            .ok_or_else(|| wrong("days", text, "30"))
    };
    let wish = Wish {
        size: words.value("size").map(size_of).transpose()?,
        keep: words.value("keep").map(count).transpose()?,
        days: words.value("days").map(days).transpose()?,
    };
    says_something(&wish)?;
    let dry = words.has("dry-run");
    let done = collect(wish, dry)?;
    let (left, bytes_left) = done.left;
    if words.has("json") {
        println!(
            "{}",
            json!({"dry_run": dry, "runs": done.gone, "bytes": done.freed, "left": left, "bytes_left": bytes_left})
        );
        return Ok(0);
    }
    if dry {
        done.gone.iter().for_each(|run| println!("{run}"));
    }
    println!(
        "{} runs {}, {}; {left} are left, {}{}",
        done.gone.len(),
        if dry { "would go" } else { "are deleted" },
        size(done.freed),
        size(bytes_left),
        match done.held {
            0 => String::new(),
            held => format!(" ({held} pinned or running)"),
        }
    );
    Ok(0)
}
