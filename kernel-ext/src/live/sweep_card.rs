//! A sweep's card, kept up to date from the sweep's folder.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use launcher::sweep::{self as sweeps, Ended, Event, Row};
use launcher::tail::Tail;

use super::follow::REDRAW;
use crate::front::{CellOutput, Shown};
use crate::text::escape;

/// A sweep shorter than this shows no card in the cell that waits for it.
const CARD_AFTER: Duration = Duration::from_secs(1);
/// Rows on the card, the last ones.
const ROWS: usize = 8;

/// The card of one sweep in one cell.
pub struct SweepCard {
    /// The sweep.
    pub id: String,
    /// Its folder.
    pub dir: PathBuf,
    /// How many settings it has.
    pub settings: usize,
    /// Those that have ended.
    pub rows: Vec<Row>,
    /// How it says that it ended.
    pub how: Option<Ended>,
    /// Whether it was asked to stop.
    pub stopped: bool,
    /// Words of what runs, by order.
    running: Vec<(u32, String)>,
    tail: Tail,
    output: CellOutput,
    display_id: String,
    started: Instant,
    /// What it had taken before this card began.
    before: Duration,
    /// How long it took, once it has ended.
    took: Option<Duration>,
    shown: bool,
    drawn: Option<Instant>,
    /// A line a setting instead of a card.
    plain: bool,
}

impl SweepCard {
    /// Follows the sweep `id`, which has just been asked for or is under way.
    pub fn new(id: &str, output: &CellOutput) -> SweepCard {
        let dir = sweeps::sweeps_dir().join(id);
        SweepCard {
            id: id.to_owned(),
            settings: 0,
            rows: Vec::new(),
            how: None,
            stopped: false,
            running: Vec::new(),
            tail: Tail::open(dir.join("events.jsonl")),
            before: sweeps::standing(&dir).elapsed,
            dir,
            output: output.clone(),
            // A sweep may have cards in several cells.
            display_id: format!("halobook-sweep-{id}-{}", uuid::Uuid::new_v4().simple()),
            started: Instant::now(),
            took: None,
            shown: false,
            drawn: None,
            plain: std::env::var_os("HALOBOOK_NONINTERACTIVE").is_some_and(|value| value == "1"),
        }
    }

    /// Takes in what has happened since the last look.
    pub fn look(&mut self) {
        for line in self.tail.next_lines().unwrap_or_default() {
            if let Ok(event) = serde_json::from_str(&line) {
                self.event(event);
            }
        }
    }

    /// Takes in what has happened; whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        let standing = sweeps::standing(&self.dir);
        self.stopped |= standing.stopping;
        // After that: one that has ended has all its events.
        self.look();
        !standing.goes_on
    }

    /// It has been asked to stop.
    pub fn stopping(&mut self) {
        self.stopped = true;
        self.drawn = None;
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Begin { settings } => self.settings = settings,
            Event::Start { order, words, .. } => self.running.push((order, words)),
            Event::Row(row) => {
                self.running.retain(|(order, _)| *order != row.order);
                self.rows.push(*row);
                if self.plain {
                    let line = self.rows.last().map(said).unwrap_or_default();
                    self.output.stdout(&format!("{line}\n"));
                }
            }
            Event::End { how, wall_ms } => {
                self.how = Some(how);
                let said = wall_ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok());
                self.took = Some(said.unwrap_or_else(|| self.before + self.started.elapsed()));
            }
        }
    }

    /// The sweep in a line.
    pub fn line(&self) -> String {
        let failed = self.rows.iter().filter(|row| row.status != "ok").count();
        let mut line = format!("{} of {} settings", self.rows.len(), self.settings);
        if failed > 0 {
            line.push_str(&format!(", {failed} without a result"));
        }
        let took = self
            .took
            .unwrap_or_else(|| self.before + self.started.elapsed());
        let seconds = took.as_secs_f64();
        line.push_str(&format!(" · {seconds:.1} s"));
        let taken = self.rows.iter().filter(|row| row.reused).count();
        if taken > 0 {
            line.push_str(&format!(" · {taken} taken over"));
        }
        line
    }

    /// Redraws the card when it is time to, and shows it once the cell has waited for a second.
    pub fn draw(&mut self) {
        let early = !self.shown && self.started.elapsed() < CARD_AFTER;
        if early || self.drawn.is_some_and(|at| at.elapsed() < REDRAW) {
            return;
        }
        self.show();
    }

    /// Shows the card now.
    pub fn show(&mut self) {
        if self.plain {
            return;
        }
        let card = self.render();
        if self.shown {
            self.output.update(&card, &self.display_id);
        } else {
            self.output.display(&card, &self.display_id);
            self.shown = true;
        }
        self.drawn = Some(Instant::now());
    }

    /// The card's last state, where there is a card.
    pub fn close(&mut self) {
        self.running.clear();
        if self.shown {
            self.show();
        }
    }

    /// Keeps the card up to date until the sweep ends, on a thread of its own: the cell need not wait.
    pub fn leave(mut self) {
        let follow = move || {
            while !self.has_ended() {
                self.draw();
                std::thread::sleep(REDRAW);
            }
            self.close();
        };
        // Without a thread the card stays as it is; the sweep is not touched by that.
        let _ = std::thread::Builder::new()
            .name("card".into())
            .spawn(follow);
    }

    /// How far it is: what runs, and the last rows.
    fn render(&self) -> Shown {
        let mut head = format!("sweep {} · {}", self.id, self.line());
        if self.stopped && !self.running.is_empty() {
            head.push_str(" · finishing what runs");
        }
        if self.how == Some(Ended::Interrupted) {
            head.push_str(" · interrupted");
        }
        let now: Vec<String> = self
            .running
            .iter()
            .map(|(_, words)| format!("… {words}"))
            .collect();
        let from = self.rows.len().saturating_sub(ROWS);
        let done: Vec<String> = self.rows[from..].iter().map(said).collect();
        let done_share = 100 * self.rows.len() / self.settings.max(1);
        let item = |line: &String| format!("<div>{}</div>", escape(line));
        let html = format!(
            "<div><b>{}</b></div>\
             <svg width=\"100%\" height=\"6\" role=\"img\" aria-label=\"{done_share} % done\">\
             <rect width=\"100%\" height=\"6\" fill=\"#8884\"/>\
             <rect width=\"{done_share}%\" height=\"6\" fill=\"#3b82f6\"/></svg>\
             <small>{}{}</small>",
            escape(&head),
            done.iter().map(item).collect::<String>(),
            now.iter().map(item).collect::<String>(),
        );
        let text = [vec![head], done, now].concat().join("\n");
        Shown::html(text, html)
    }
}

/// A row in a line.
fn said(row: &Row) -> String {
    let mut line = format!("{}: {}", row.words(), row.status);
    if let Some(ms) = row.numbers.epoch_ms {
        line.push_str(&format!(", {ms:.2} ms an epoch"));
    }
    if let (Some(metric), Some(test)) = (&row.metric, row.numbers.test) {
        line.push_str(&format!(", test {metric} {test:.3}"));
    }
    if let Some(error) = &row.error {
        line.push_str(&format!(": {error}"));
    }
    line
}
