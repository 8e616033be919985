//! The card of a live run: one bundle, redrawn as the run goes on. Static HTML and SVG only, so
//! that the last state is what a saved notebook shows.

use std::fmt::Write;
use std::time::Duration;

use gnn_core::record::rows::Metric;
use serde::Deserialize;
use serde_json::Value;

use super::lane::{self, Lane};
use crate::front::Shown;
use crate::text::escape;

/// Everything the card shows.
#[derive(Default)]
pub struct Card {
    /// The run's id.
    pub run_id: String,
    /// `halo · gcn · karate`.
    title: String,
    ranks: u64,
    epochs: u64,
    done: u64,
    losses: Vec<f64>,
    /// The last validation score with its metric.
    score: Option<(Metric, f64)>,
    notes: Vec<String>,
    /// `running`, `stopping`, then how the run ended.
    status: String,
    /// Why nobody would notice that it ends; nothing as long as it is watched.
    pub unwatched: Option<String>,
    /// One lane a rank.
    pub lanes: Vec<Lane>,
    /// Since the run was asked for.
    pub elapsed: Duration,
    /// Whether a cell shows it.
    pub shown: bool,
}

impl Card {
    /// The card of a run that has been asked for.
    pub fn new(run_id: &str) -> Card {
        Card {
            run_id: run_id.to_owned(),
            status: "starting".to_owned(),
            ..Card::default()
        }
    }

    /// Takes one line of the event stream into account.
    pub fn event(&mut self, line: &str) {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            return;
        };
        let word = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str().unwrap_or_default() {
            "launched" => {
                self.title = format!(
                    "{} · {} · {}",
                    word("strategy"),
                    word("model"),
                    word("data")
                );
                self.ranks = event["ranks"].as_u64().unwrap_or(1);
                self.epochs = event["epochs"].as_u64().unwrap_or(0);
                self.status = "running".to_owned();
            }
            "epoch" => {
                self.done = event["epoch"].as_u64().map_or(self.done, |epoch| epoch + 1);
                if let Some(loss) = event["train_loss"].as_f64() {
                    self.losses.push(loss);
                }
                // Not every epoch is evaluated.
                let metric = Metric::deserialize(&event["metric"]).ok();
                self.score = metric.zip(event["val"].as_f64()).or(self.score);
            }
            "note" => self.notes.push(word("text")),
            "stopping" => self.status = "stopping at the end of the epoch".to_owned(),
            "finished" => self.status = word("status"),
            _ => {}
        }
    }

    /// Says how the run stands, when no event does.
    pub fn set_status(&mut self, status: &str) {
        self.status = status.to_owned();
    }

    /// Adds what a reader should know.
    pub fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// How many ranks it has; none before it was launched.
    pub fn ranks(&self) -> u32 {
        u32::try_from(self.ranks).unwrap_or(0)
    }

    /// Epochs finished.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Epochs asked for.
    pub fn epochs(&self) -> u64 {
        self.epochs
    }

    /// How long the rest will take at the present speed.
    fn eta(&self) -> Option<Duration> {
        let left = self
            .epochs
            .checked_sub(self.done)
            .filter(|left| *left > 0)?;
        if self.done == 0 || self.status != "running" {
            return None;
        }
        Some(self.elapsed.mul_f64(left as f64 / self.done as f64))
    }

    /// One line for people who cannot see the rest.
    pub fn line(&self) -> String {
        let mut line = format!("run {}", self.run_id);
        if !self.title.is_empty() {
            let ranks = if self.ranks == 1 { "rank" } else { "ranks" };
            let _ = write!(line, " · {} · {} {ranks}", self.title, self.ranks);
        }
        let _ = write!(line, " · {}", self.status);
        if let Some(why) = &self.unwatched {
            let _ = write!(line, " · {why}");
        }
        if self.epochs > 0 {
            let _ = write!(line, " · epoch {}/{}", self.done, self.epochs);
        }
        if let Some(loss) = self.losses.last() {
            let _ = write!(line, " · loss {loss:.4}");
        }
        if let Some((metric, val)) = self.score {
            let _ = write!(line, " · val {} {:.1} %", metric.label(), val * 100.0);
        }
        let _ = write!(line, " · {}", seconds(self.elapsed));
        if let Some(eta) = self.eta() {
            let _ = write!(line, " · {} to go", seconds(eta));
        }
        line
    }

    /// The card in HTML and text.
    pub fn render(&self) -> Shown {
        let mut html = String::from(
            "<div style=\"font-family:sans-serif;font-size:13px;border:1px solid #8884;\
             border-radius:6px;padding:8px 12px;max-width:640px\">",
        );
        let _ = write!(html, "<div>{}</div>", escape(&self.line()));
        html.push_str(&self.bar());
        html.push_str(&self.sparkline());
        let live = self.status == "running" || self.status.starts_with("stopping");
        html.push_str(&lane::html(&self.lanes, live));
        for note in &self.notes {
            let _ = write!(html, "<div><em>{}</em></div>", escape(note));
        }
        html.push_str("</div>");
        let mut text = self.line() + &lane::text(&self.lanes, live);
        for note in &self.notes {
            let _ = write!(text, "\nnote: {note}");
        }
        Shown::html(text, html)
    }

    fn bar(&self) -> String {
        if self.epochs == 0 {
            return String::new();
        }
        let width = 600.0 * self.done as f64 / self.epochs as f64;
        format!(
            "<svg width=\"600\" height=\"6\" style=\"display:block;margin:4px 0\">\
             <rect width=\"600\" height=\"6\" rx=\"3\" fill=\"#8883\"/>\
             <rect width=\"{width:.1}\" height=\"6\" rx=\"3\" fill=\"#4c78a8\"/></svg>"
        )
    }

    /// The loss by epoch, thinned to a point a pixel pair.
    fn sparkline(&self) -> String {
        const POINTS: usize = 200;
        let finite: Vec<f64> = self
            .losses
            .iter()
            .copied()
            .filter(|x| x.is_finite())
            .collect();
        if finite.len() < 2 {
            return String::new();
        }
        let low = finite.iter().copied().fold(f64::INFINITY, f64::min);
        let high = finite.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let span = (high - low).max(f64::MIN_POSITIVE);
        let count = finite.len().min(POINTS);
        let mut points = String::new();
        for i in 0..count {
            let at = i * (finite.len() - 1) / (count - 1);
            let x = 600.0 * at as f64 / (finite.len() - 1) as f64;
            let y = 2.0 + 36.0 * (high - finite[at]) / span;
            let _ = write!(points, "{x:.1},{y:.1} ");
        }
        format!(
            "<svg width=\"600\" height=\"40\" style=\"display:block\" role=\"img\">\
             <title>training loss by epoch, {high:.4} to {low:.4}</title>\
             <polyline points=\"{}\" fill=\"none\" stroke=\"#e45756\" stroke-width=\"1.5\"/></svg>",
            points.trim_end()
        )
    }
}

fn seconds(time: Duration) -> String {
    let s = time.as_secs_f64();
    let (minutes, hours) = ((s / 60.0) as u64, (s / 3600.0) as u64);
    match s {
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 3600.0 => format!("{minutes} min {:02} s", (s % 60.0) as u64),
        _ => format!("{hours} h {:02} min", minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn card() -> Card {
        let mut card = Card::new("20260102-030405-abcd");
        card.event(
            r#"{"event":"launched","ranks":2,"strategy":"halo","model":"gcn","data":"<b>","epochs":4}"#,
        );
        card.event(r#"{"event":"note","text":"oversubscribed"}"#);
        card.event(r#"{"event":"epoch","epoch":0,"train_loss":2.0,"metric":null,"val":null}"#);
        card.event(r#"{"event":"epoch","epoch":1,"train_loss":1.5,"metric":"acc","val":0.5}"#);
        card.event("not json");
        card.elapsed = Duration::from_secs(2);
        card
    }

    #[test]
    fn the_line_says_everything() {
        assert_eq!(
            card().line(),
            "run 20260102-030405-abcd · halo · gcn · <b> · 2 ranks · running · epoch 2/4 · \
             loss 1.5000 · val acc 50.0 % · 2.0 s · 2.0 s to go"
        );
    }

    #[test]
    fn the_line_names_the_metric_of_the_task() {
        let mut card = card();
        for (metric, words) in [("auc", "val AUC 93.1 %"), ("f1", "val F1 93.1 %")] {
            let event = format!(r#"{{"event":"epoch","epoch":2,"metric":"{metric}","val":0.931}}"#);
            card.event(&event);
            // An epoch without evaluation leaves what is known.
            card.event(r#"{"event":"epoch","epoch":3,"metric":null,"val":null}"#);
            assert!(card.line().contains(words), "{}", card.line());
        }
    }

    #[test]
    fn a_run_that_nobody_watches_says_so() {
        let mut card = card();
        card.unwatched = Some("nobody watches: supervisor 7 is stopped".into());
        let shown = card.render();
        let text = shown.bundle["text/plain"].as_str().unwrap_or_default();
        assert!(text.contains("nobody watches: supervisor 7"), "{text}");
    }

    #[test]
    fn html_is_escaped_and_holds_bar_and_sparkline() {
        let shown = card().render();
        let html = shown.bundle["text/html"].as_str().expect("html");
        assert!(html.contains("&lt;b&gt;") && !html.contains("<b>"));
        assert!(html.contains("width=\"300.0\""));
        assert!(html.contains("polyline"));
        assert!(
            shown.bundle["text/plain"]
                .as_str()
                .is_some_and(|t| t.contains("note: over"))
        );
    }

    #[test]
    fn a_finished_card_says_neither_what_ranks_do_nor_what_is_left() {
        let mut card = card();
        card.lanes = vec![Lane::new(Path::new("/nowhere"), 0)];
        let live = card.render();
        assert!(
            live.bundle["text/html"]
                .as_str()
                .is_some_and(|html| html.contains("rank 0"))
        );
        card.event(r#"{"event":"finished","status":"ok"}"#);
        let html = card.render().bundle["text/html"]
            .as_str()
            .expect("html")
            .to_owned();
        assert!(!html.contains("rank 0"));
        assert!(!html.contains("to go"));
    }
}
