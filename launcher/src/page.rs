//! One run in a page of text: `%run`, `halobook run`, and the end of `halobook train`.

use crate::error::Result;
use crate::keep;
use crate::manifest::{Final, Manifest};
use gnn_core::record::rows::Metric;
use gnn_core::spec::{RunSpec, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// What was asked for where it is not the default, where it ran, and what it came to.
///
/// # Errors
/// When the run folder cannot be read.
pub fn page(run_dir: &Path) -> Result<String> {
    let manifest = Manifest::read(run_dir)?;
    let mut text = outcome(run_dir, &manifest);
    let defaults: BTreeMap<String, Value> = RunSpec::default().to_pairs().into_iter().collect();
    let asked = manifest.spec.iter();
    let asked = asked.filter(|(key, value)| defaults.get(*key) != Some(value));
    let asked: Vec<String> = asked
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  asked for: {}", asked.join(", "));
    let over = if manifest.oversubscribed {
        ", more ranks than cores"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "  started {} on {}, {} thread(s) a rank{over}; seed {}, {}",
        manifest.started,
        manifest.host_class,
        manifest.threads_per_rank,
        manifest.seed,
        manifest.determinism,
    );
    let of = |what: &str, hash: &Option<String>| {
        let word = hash.as_ref().map(|hash| format!(", {what} {hash}"));
        word.unwrap_or_default()
    };
    let _ = writeln!(
        text,
        "  strategy {}{}{}, version {}, lock file {}",
        manifest.strategy_hash,
        of("partition", &manifest.partition_hash),
        of("driver", &manifest.driver),
        manifest.version,
        manifest.lock_hash,
    );
    if let Some(of) = &manifest.replays {
        let _ = writeln!(text, "  repeats run {of}");
    }
    if let Some(error) = &manifest.error {
        let _ = writeln!(text, "  {}: {}", error.name, error.message);
    }
    if keep::is_pinned(run_dir) {
        let _ = writeln!(text, "  pinned");
    }
    Ok(text)
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |x| format!("{:.1} %", 100.0 * x))
}

/// The line of a run's loss and scores; those at the best epoch where there is one.
fn scores(end: &Final) -> String {
    let loss = end.train_loss.map_or("-".into(), |x| format!("{x:.4}"));
    let mut text = format!("  train loss {loss}");
    // Without validation there is no best epoch, and nothing but the training accuracy.
    let metric = end.score.map_or(Metric::Acc, |s| s.metric).label();
    let train = end.train_acc.or(end.score.and_then(|s| s.train));
    let (val, test) = end.score.map_or((None, None), |s| (s.val, s.test));
    for (name, share) in [("train", train), ("val", val), ("test", test)] {
        if share.is_some() {
            text.push_str(&format!("   {name} {metric} {}", percent(share)));
        }
    }
    for (name, share) in [("AP", end.test_ap), ("MRR", end.test_mrr)] {
        if share.is_some() {
            text.push_str(&format!("   test {name} {}", percent(share)));
        }
    }
    if let Some(epoch) = end.best_epoch {
        text.push_str(&format!("   (best epoch {epoch})"));
    }
    text
}

/// What a run came to: a line that names it, then its scores, notes and frames.
pub fn outcome(run_dir: &Path, manifest: &Manifest) -> String {
    let mut text = String::new();
    let launch = manifest.mpi.as_deref().unwrap_or(&manifest.launch);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "run {}: {}\n  {} on {} with {} on {} rank{} ({launch})",
        manifest.run_id,
        manifest.status.label(),
        manifest.model,
        manifest.data,
        manifest.strategy,
        manifest.ranks,
        if manifest.ranks == 1 { "" } else { "s" },
    );
    let _ = writeln!(
        text,
        "  {} epochs in {:.2} s, {} bytes sent, peak memory of a rank {:.0} MiB",
        manifest.epochs_done,
        manifest.wall_ms / 1e3,
        manifest.bytes_total,
        manifest.mem_peak_bytes as f64 / f64::from(1 << 20),
    );
    if manifest.stopped_early {
        let _ = writeln!(
            text,
            "  stopped early: the validation score no longer improved (patience)"
        );
    }
    if let Some(end) = &manifest.result {
        let _ = writeln!(text, "{}", scores(end));
    }
    if let Some(target) = manifest.number("target").filter(|&score| score > 0.0) {
        let time = manifest.result.as_ref().and_then(|r| r.time_to_target_ms);
        let when = time.map_or("never reached".into(), |ms| {
            format!("first reached after {:.2} s of training", ms / 1e3)
        });
        let _ = writeln!(text, "  validation score {target} {when}");
    }
    for note in &manifest.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    let _ = writeln!(text, "  frames: {}", run_dir.join("frames").display());
    text
}
