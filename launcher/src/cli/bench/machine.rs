//! `halobook bench machine`: the limits that kernels run into.

use super::super::step::Steps;
use super::super::words::Words;
use super::kernels_bench::{Clock, Limits, working_sets};
use super::{disturbed, positive, spread_json};
use crate::Result;
use crate::bench::others::{Watch, wait_for_quiet};
use crate::host::{self, Host};
use kernels::Par;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// Largest working set where the last cache is not known.
const LARGEST: usize = 256 << 20;

/// Samples of a limit: the best counts.
pub const CLOCK: Clock = Clock {
    warmup: 2,
    samples: 15,
    seconds: 1.5,
};

/// Runs the command.
pub fn run(words: &[String]) -> Result<i32> {
    let words = Words::sort(
        words,
        &["json", "quiet"],
        &["threads", "largest", "patience"],
    )?;
    words.names([])?;
    let threads = counts(positive(&words, "threads", host::cores())?);
    let largest = positive(&words, "largest", default_largest() >> 20)? << 20;
    let patience = words.number::<u64>("patience")?.unwrap_or(0);
    let mut steps = Steps::new(words.has("quiet"));
    wait_for_quiet(Duration::from_secs(patience));
    let watch = Watch::start();
    let limits: Vec<Limits> = threads
        .iter()
        .map(|&t| {
            let told = &mut |what: &str| steps.show(&format!("{t} thread(s): {what}"));
            Limits::measure(&Par::new(t), CLOCK, &working_sets(largest), told)
        })
        .collect();
    drop(steps);
    let others = watch.others();
    if !words.has("quiet") {
        print!("{}", text(&limits, others));
    }
    if words.has("json") {
        let measured: Vec<Value> = limits.iter().map(limits_json).collect();
        let object = json!({
            "bench": "machine", "version": env!("CARGO_PKG_VERSION"),
            "machine": Host::this().class(), "others_cores": others, "limits": measured,
        });
        println!("{object}");
    }
    Ok(0)
}

/// 1, doubling, and all.
fn counts(all: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = std::iter::successors(Some(1), |t| Some(t * 2))
        .take_while(|&t| t < all)
        .collect();
    counts.push(all);
    counts
}

/// Twice the last cache, at most a sixth of the memory.
pub fn default_largest() -> usize {
    let cache = (0..8)
        .filter_map(|k| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{k}/size");
            cache_bytes(std::fs::read_to_string(path).ok()?.trim())
        })
        .max();
    let most = (Host::this().memory_bytes / 6).max(64 << 20) as usize;
    cache.map_or(LARGEST, |c| 2 * c).clamp(16 << 20, most)
}

fn cache_bytes(text: &str) -> Option<usize> {
    let (number, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    Some(number.parse::<usize>().ok()? * unit)
}

/// Limits as JSON.
pub fn limits_json(limits: &Limits) -> Value {
    let sets: Vec<Value> = limits
        .bandwidth
        .iter()
        .map(|b| {
            json!({
                "working_set_bytes": b.working_set, "copy_gb_per_s": b.copy, "triad_gb_per_s": b.triad,
                "update_gb_per_s": b.update, "copy_ms": spread_json(&b.copy_ms),
                "triad_ms": spread_json(&b.triad_ms), "update_ms": spread_json(&b.update_ms),
            })
        })
        .collect();
    let flops: serde_json::Map<String, Value> = limits
        .flops
        .iter()
        .map(|(engine, rate)| (engine.label(), json!(rate)))
        .collect();
    json!({ "threads": limits.threads, "bandwidth": sets, "peak_gflop_per_s": flops })
}

fn text(limits: &[Limits], others: Option<f64>) -> String {
    let mut text = format!("{}\n\n", Host::this().class());
    // Writing to a String cannot fail.
    let _ = write!(text, "{:<24}", "GB/s by working set");
    for l in limits {
        let copy = format!("copy×{}", l.threads);
        let _ = write!(text, " {copy:>8} {:>8} {:>8}", "triad", "update");
    }
    text.push('\n');
    let sets = limits.first().map_or(&[][..], |l| &l.bandwidth);
    for (row, set) in sets.iter().enumerate() {
        let _ = write!(text, "{:>20} MiB", set.working_set >> 20);
        for l in limits {
            let b = &l.bandwidth[row];
            let _ = write!(text, " {:>8.1} {:>8.1} {:>8.1}", b.copy, b.triad, b.update);
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "\nGFLOP/s by SIMD level, and of f32 products on tiles"
    );
    let engines = limits.first().map_or(&[][..], |l| &l.flops);
    for (row, (engine, _)) in engines.iter().enumerate() {
        let _ = write!(text, "{:<24}", engine.label());
        for l in limits {
            let _ = write!(text, " {:>26.1}", l.flops[row].1);
        }
        text.push('\n');
    }
    if let Some(note) = disturbed(others) {
        let _ = writeln!(text, "{note}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_and_end_with_all() {
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(6), [1, 2, 4, 6]);
    }

    #[test]
    fn cache_sizes_have_units() {
        assert_eq!(cache_bytes("48K"), Some(48 << 10));
        assert_eq!(cache_bytes("480M"), Some(480 << 20));
        assert_eq!(cache_bytes("x"), None);
        assert!(default_largest() >= 16 << 20);
    }

    #[test]
    fn small_limits_are_written_as_table_and_json() {
        let clock = Clock {
            warmup: 0,
            samples: 1,
            seconds: 0.01,
        };
        let limits = Limits::measure(&Par::new(1), clock, &[1 << 20], &mut |_| {});
        let table = text(std::slice::from_ref(&limits), Some(1.0));
        assert!(
            table.contains("1 MiB") && table.contains("copy×1"),
            "{table}"
        );
        assert!(table.contains("not of a quiet machine"));
        let object = limits_json(&limits);
        assert_eq!(object["bandwidth"][0]["working_set_bytes"], 1 << 20);
        assert!(object["peak_gflop_per_s"]["scalar"].as_f64() > Some(0.0));
    }
}
