//! One line of progress, from the run's own event stream.

use crate::tail::Tail;
use gnn_core::record::rows::Metric;
use serde::Deserialize;
use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that shows how a run is getting on, until it is told to end.
pub struct Progress {
    done: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Where progress is shown.
#[derive(Clone, Copy, PartialEq)]
pub enum Shown {
    /// On a terminal, and where `HALOBOOK_NONINTERACTIVE` asks for it.
    WhereWanted,
    /// Anywhere: it is what was asked for.
    Anywhere,
}

/// How progress is shown.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// One line, rewritten.
    Line,
    /// A line for every tenth of the run.
    Tenths,
}

impl Progress {
    /// Shows the progress of a run on standard error: one rewritten line on a terminal, a line for
    /// every tenth when `HALOBOOK_NONINTERACTIVE` is set or it is to be shown anywhere, else nothing.
    pub fn show(run_dir: &Path, shown: Shown) -> Option<Progress> {
        let wanted = std::env::var("HALOBOOK_NONINTERACTIVE").is_ok_and(|v| v != "0");
        let style = match (wanted, std::io::stderr().is_terminal()) {
            (true, _) => Style::Tenths,
            (false, true) => Style::Line,
            (false, false) if shown == Shown::Anywhere => Style::Tenths,
            (false, false) => return None,
        };
        let done = Arc::new(AtomicBool::new(false));
        let (events, told) = (run_dir.join("events.jsonl"), Arc::clone(&done));
        let thread = std::thread::spawn(move || follow(&mut Tail::open(events), style, &told));
        Some(Progress { done, thread })
    }

    /// Shows what is left and ends.
    pub fn end(self) {
        self.done.store(true, Ordering::SeqCst);
        // A panic in the display is not a reason to lose the run's result.
        let _ = self.thread.join();
    }
}

fn follow(events: &mut Tail, style: Style, done: &AtomicBool) {
    let mut err = std::io::stderr();
    let (mut total_ms, mut count, mut tenth) = (0.0, 0u32, 0);
    loop {
        let last = done.load(Ordering::SeqCst);
        let mut newest = None;
        for line in events.next_lines().unwrap_or_default() {
            let Ok(event) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            if event["event"] == "epoch" {
                total_ms += event["wall_ms"].as_f64().unwrap_or(0.0);
                count += 1;
                let (at, of) = (
                    event["epoch"].as_u64().unwrap_or(0) + 1,
                    event["epochs"].as_u64(),
                );
                let now = at * 10 / of.unwrap_or(1).max(1);
                if style == Style::Tenths && now > tenth {
                    tenth = now;
                    // Progress that cannot be shown is no reason to fail.
                    let _ = writeln!(err, "{}", text(&event, total_ms / f64::from(count)));
                }
                newest = Some(event);
            }
        }
        if let Some(event) = newest.filter(|_| style == Style::Line) {
            let _ = write!(err, "\r\x1b[K{}", text(&event, total_ms / f64::from(count)));
            let _ = err.flush();
        }
        if last {
            if style == Style::Line && count > 0 {
                let _ = write!(err, "\r\x1b[K");
            }
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn text(event: &Value, mean_ms: f64) -> String {
    let epoch = event["epoch"].as_u64().unwrap_or(0) + 1;
    let epochs = event["epochs"].as_u64().unwrap_or(0);
    let loss = event["train_loss"]
        .as_f64()
        .map_or("-".into(), |x| format!("{x:.4}"));
    // An epoch that was not evaluated has no metric.
    let metric: Option<Metric> = Metric::deserialize(&event["metric"]).ok();
    let score = metric.zip(event["val"].as_f64());
    let score = score.map_or("-".into(), |(metric, val)| {
        format!("{} {:.1} %", metric.label(), 100.0 * val)
    });
    format!("epoch {epoch}/{epochs}  loss {loss}  val {score}  {mean_ms:.2} ms/epoch")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_line_names_the_metric_of_the_task() {
        let event = |metric: Option<&str>, val: Option<f64>| json!({"epoch": 4, "epochs": 10, "train_loss": 0.5, "metric": metric, "val": val});
        let auc = text(&event(Some("auc"), Some(0.931)), 2.0);
        assert_eq!(
            auc,
            "epoch 5/10  loss 0.5000  val AUC 93.1 %  2.00 ms/epoch"
        );
        assert!(text(&event(Some("acc"), Some(0.5)), 2.0).contains("val acc 50.0 %"));
        assert!(text(&event(None, None), 2.0).contains("val -  "));
    }
}
