//! `halobook bench cache`: historical caches beside a copy of memory.

use super::super::words::Words;
use super::{positive, spread_json};
use crate::host::{self, Host};
use crate::{Error, Result};
use gnn_core::strategy::CacheCase;
use kernels::Par;
use kernels::bench::{Clock, bandwidth};
use serde_json::json;

/// Runs the command.
pub fn run(words: &[String]) -> Result<i32> {
    let valued = ["lines", "width", "rows", "threads"];
    let words = Words::sort(words, &["json", "quiet"], &valued)?;
    words.names([])?;
    let case = CacheCase {
        lines: positive(&words, "lines", 200_000)?,
        width: positive(&words, "width", 128)?,
        rows: positive(&words, "rows", 20_000)?,
    };
    if case.rows > case.lines {
        return Err(Error::refused(
            format!("rows: {} do not fit into {} lines", case.rows, case.lines),
            "a step stores each vertex once: give no more --rows than --lines",
        ));
    }
    let threads = positive(&words, "threads", host::cores())?;
    let (par, clock) = (Par::new(threads), Clock::default());
    // Before and after, and the better of both: a slow moment must not flatter the cache.
    let copy = |clock| bandwidth(&par, clock, case.working_set()).copy;
    let before = copy(clock);
    let times = case.time(&par, clock);
    let copy = before.max(copy(clock));
    let rate = |ms: f64| case.bytes() as f64 / ms / 1e6;
    let (store, load) = (rate(times.store.median), rate(times.load.median));
    if !words.has("quiet") {
        println!(
            "{}\n{} lines of {} floats, {} rows a step, {threads} thread(s); a copy of as much memory: {copy:.1} GB/s\n\n\
             {:<16} {:>9} {:>9} {:>9}",
            Host::this().class(),
            case.lines,
            case.width,
            case.rows,
            "",
            "ms",
            "GB/s",
            "of copy",
        );
        for (name, ms, rate) in [
            ("search and load", times.load.median, load),
            ("store", times.store.median, store),
        ] {
            let share = 100.0 * rate / copy;
            println!("{name:<16} {ms:>9.3} {rate:>9.2} {share:>8.0}%");
        }
    }
    if words.has("json") {
        let line = json!({
            "bench": "cache", "version": env!("CARGO_PKG_VERSION"), "machine": Host::this().class(),
            "lines": case.lines, "width": case.width, "rows": case.rows, "threads": threads,
            "copy_gb_per_s": copy, "store_gb_per_s": store, "load_gb_per_s": load,
            "store_ms": spread_json(&times.store), "load_ms": spread_json(&times.load),
        });
        println!("{line}");
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_cache_is_timed_on_the_command_line() {
        let words = "--lines 100 --width 4 --rows 10 --threads 2 --json";
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        assert_eq!(run(&words).expect("runs, with right rows"), 0);
    }
}
