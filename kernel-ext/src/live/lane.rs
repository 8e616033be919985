//! A rank's lane on the card of a live run: where its epochs go, what memory it holds, what it is
//! doing, and when it was last heard.

use std::collections::VecDeque;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use gnn_core::record::state::State;
use gnn_core::record::{now_ns, state};
use halobook::plot::parts;
use launcher::forecast::{Expected, size};
use launcher::tail::Tail;
use serde::Deserialize;

use crate::text::escape;

/// Epochs that a bar is the mean of, the last ones.
const RECENT: usize = 16;
/// Width of the longest bar, px.
const WIDTH: f64 = 160.0;

/// One rank, followed through its rows and its status page.
pub struct Lane {
    rank: u32,
    page: PathBuf,
    rows: Tail,
    /// What its last epochs took, ms, by part.
    recent: VecDeque<[f64; 5]>,
    /// The most memory it held, bytes.
    held: u64,
    /// What its training was said to need, bytes.
    training: Option<u64>,
    /// What was expected of its process, bytes.
    expected: Option<u64>,
    now: Option<State>,
}

/// What matters here of a row of the `ranks` frame.
#[derive(Deserialize)]
struct Row<'a> {
    frame: &'a str,
    compute_ms: f64,
    copy_ms: f64,
    xfer_exposed_ms: f64,
    wait_ms: f64,
    other_ms: f64,
    mem_peak_bytes: u64,
    predicted_mem_bytes: Option<u64>,
}

impl Lane {
    /// The lane of `rank` in the run in `run_dir`.
    pub fn new(run_dir: &Path, rank: u32) -> Lane {
        Lane {
            rank,
            page: run_dir.join(format!("state/rank-{rank}")),
            rows: Tail::open(run_dir.join(format!("rows/rank-{rank}.jsonl"))),
            recent: VecDeque::new(),
            held: 0,
            training: None,
            expected: None,
            now: None,
        }
    }

    /// Takes in what has happened since the last look.
    pub fn look(&mut self, expected: &Expected) {
        self.now = state::read(&self.page).or(self.now.take());
        for line in self.rows.next_lines().unwrap_or_default() {
            self.line(&line);
        }
        self.expected = expected.memory(self.rank, self.training);
    }

    /// Takes in one row of any frame.
    fn line(&mut self, line: &str) {
        // Rows of other frames lack these columns.
        let Some(row) = serde_json::from_str::<Row<'_>>(line)
            .ok()
            .filter(|row| row.frame == "ranks")
        else {
            return;
        };
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back([
            row.compute_ms,
            row.copy_ms,
            row.xfer_exposed_ms,
            row.wait_ms,
            row.other_ms,
        ]);
        self.held = self.held.max(row.mem_peak_bytes);
        self.training = row.predicted_mem_bytes.or(self.training);
    }

    /// The mean of its last epochs, ms, by part.
    fn mean(&self) -> [f64; 5] {
        let count = self.recent.len().max(1) as f64;
        std::array::from_fn(|part| self.recent.iter().map(|e| e[part]).sum::<f64>() / count)
    }

    /// What an epoch takes and what is held, in words.
    fn account(&self) -> String {
        let [compute, copy, transfer, wait, _] = self.mean();
        let mut words = String::new();
        if !self.recent.is_empty() {
            let _ = write!(
                words,
                "{} ms: {} + {} + {}",
                short(self.mean().iter().sum()),
                short(compute),
                short(copy + transfer),
                short(wait)
            );
        }
        if self.held > 0 {
            let _ = write!(words, " · {}", size(self.held));
            if let Some(expected) = self.expected {
                let _ = write!(words, " of {}", size(expected));
            }
        }
        words
    }

    /// What it is doing, in words.
    fn doing(&self) -> String {
        let Some(now) = &self.now else {
            return "not up yet".to_owned();
        };
        let mut words = match now.op {
            Some(op) => format!("waits in {}", op.label()),
            None => now.phase.label().to_owned(),
        };
        if let Some(peer) = now.peer {
            let _ = write!(words, " for rank {peer}");
        }
        let silent = now_ns().saturating_sub(now.heartbeat_ns) as f64 / 1e9;
        let _ = write!(words, ", heard {silent:.1} s ago");
        words
    }
}

/// All lanes in HTML; what the ranks are doing is for a run that goes on.
pub fn html(lanes: &[Lane], live: bool) -> String {
    let known = lanes.iter().any(|lane| !lane.recent.is_empty());
    if lanes.is_empty() || !(known || live) {
        return String::new();
    }
    let mut html = String::from("<div style=\"font-size:12px;margin-top:4px\">");
    if known {
        html.push_str("<div>an epoch of each rank: ");
        for (name, colour) in parts() {
            let _ = write!(
                html,
                "<svg width=\"9\" height=\"9\" style=\"margin:0 3px 0 6px\">\
                 <rect width=\"9\" height=\"9\" fill=\"{colour}\"/></svg>{name}"
            );
        }
        html.push_str("</div>");
    }
    let longest = lanes
        .iter()
        .map(|lane| lane.mean().iter().sum())
        .fold(f64::MIN_POSITIVE, f64::max);
    for (rank, lane) in lanes.iter().enumerate() {
        let _ = write!(
            html,
            "<div style=\"display:flex;gap:8px;align-items:center;white-space:nowrap\">\
             <span style=\"width:48px\">rank {rank}</span>{}<span>{}</span>",
            bar(lane, longest),
            escape(&lane.account())
        );
        if live {
            let _ = write!(
                html,
                "<span style=\"opacity:0.7\">{}</span>",
                escape(&lane.doing())
            );
        }
        html.push_str("</div>");
    }
    html.push_str("</div>");
    html
}

/// A lane's bar, where `longest` ms are as wide as it gets.
fn bar(lane: &Lane, longest: f64) -> String {
    let mut svg = format!(
        "<svg width=\"{WIDTH}\" height=\"10\" role=\"img\" style=\"flex:none\"><title>{}</title>",
        escape(&lane.account())
    );
    let mut x = 0.0;
    for ((_, colour), ms) in parts().iter().zip(lane.mean()) {
        let width = WIDTH * ms.max(0.0) / longest;
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" width=\"{width:.1}\" height=\"10\" fill=\"{colour}\"/>"
        );
        x += width;
    }
    svg + "</svg>"
}

/// A line a rank, for those who see no picture.
pub fn text(lanes: &[Lane], live: bool) -> String {
    let mut text = String::new();
    for (rank, lane) in lanes.iter().enumerate() {
        let mut words = vec![lane.account()];
        if live {
            words.push(lane.doing());
        }
        words.retain(|word| !word.is_empty());
        if !words.is_empty() {
            let _ = write!(text, "\nrank {rank}: {}", words.join(" · "));
        }
    }
    match text.is_empty() {
        true => text,
        false => format!("\nms an epoch: compute + copy and exposed transfer + wait{text}"),
    }
}

/// Milliseconds with three digits or so.
fn short(ms: f64) -> String {
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms => format!("{ms:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnn_core::record::phase::{Op, Phase};

    /// A rank that finished epochs of so many ms of computing and waiting.
    fn lane(epochs: impl IntoIterator<Item = (f64, f64)>) -> Lane {
        let mut lane = Lane::new(Path::new("/nowhere"), 0);
        for (compute, wait) in epochs {
            let row = serde_json::json!({
                "frame": "ranks", "compute_ms": compute, "copy_ms": 0.0, "xfer_exposed_ms": 0.0,
                "wait_ms": wait, "other_ms": 0.0, "mem_peak_bytes": 50_000_000,
                "predicted_mem_bytes": 50_000_000, "unknown": 1,
            });
            lane.line(&row.to_string());
            lane.line(r#"{"frame":"comm","bytes":1}"#);
            lane.line("torn");
        }
        lane
    }

    #[test]
    fn a_lane_is_the_mean_of_the_last_epochs_and_memory_against_plan() {
        let warm_up = std::iter::once((900.0, 900.0));
        let mut lane = lane(warm_up.chain(std::iter::repeat_n((3.0, 1.0), RECENT)));
        lane.look(&Expected::default());
        assert_eq!(
            lane.account(),
            "4.00 ms: 3.00 + 0.00 + 1.00 · 50.0 MB of 60.0 MB"
        );
        let html = html(&[lane], false);
        assert!(html.contains("x=\"0.0\" width=\"120.0\""), "{html}");
        assert!(html.contains("x=\"120.0\" width=\"40.0\""), "{html}");
        assert!(!html.contains("heard"), "{html}");
    }

    #[test]
    fn a_live_lane_says_whom_the_rank_waits_for_and_when_it_was_heard() {
        let mut lane = lane([]);
        assert_eq!(lane.doing(), "not up yet");
        lane.now = Some(State {
            pid: 1,
            phase: Phase::Comm,
            epoch: 3,
            layer: 0,
            op: Some(Op::P2p),
            peer: Some(1),
            since_ns: now_ns(),
            heartbeat_ns: now_ns(),
            bytes: 8,
            program: 0,
        });
        let doing = "waits in p2p for rank 1, heard 0.0 s ago";
        assert_eq!(lane.doing(), doing);
        assert!(text(&[lane], true).contains(doing));
    }

    #[test]
    fn nothing_is_drawn_of_a_run_that_ended_before_its_first_epoch() {
        assert_eq!(html(&[lane([])], false), "");
        assert_eq!(text(&[lane([])], false), "");
    }
}
