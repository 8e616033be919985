//! A run's card, kept up to date from the run's folder.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use launcher::forecast::Expected;
use launcher::jobs;
use launcher::store::{Manifest, Status};
use launcher::tail::Tail;

use super::card::Card;
use super::lane::Lane;
use super::report;
use crate::front::CellOutput;

/// A card is redrawn at most this often.
pub const REDRAW: Duration = Duration::from_millis(250);
/// A run shorter than this shows no card in the cell that waits for it.
const CARD_AFTER: Duration = Duration::from_secs(1);

/// The card of one run in one cell. Its messages carry the header of the request that started
/// that cell, whatever other cells do meanwhile.
pub struct Follower {
    /// What is known of the run.
    pub card: Card,
    run_dir: PathBuf,
    tail: Tail,
    output: CellOutput,
    display_id: String,
    started: Instant,
    drawn: Option<Instant>,
    /// One line per tenth of the epochs instead of a card.
    plain: bool,
    tenths: u64,
}

impl Follower {
    /// Follows the run `id`, which has just been asked for or is under way.
    pub fn new(id: &str, output: &CellOutput) -> Follower {
        let run_dir = launcher::store::runs_dir().join(id);
        Follower {
            card: Card::new(id),
            tail: Tail::open(run_dir.join("events.jsonl")),
            run_dir,
            output: output.clone(),
            // A run may have cards in several cells.
            display_id: format!("halobook-run-{id}-{}", uuid::Uuid::new_v4().simple()),
            started: Instant::now(),
            drawn: None,
            plain: std::env::var_os("HALOBOOK_NONINTERACTIVE").is_some_and(|value| value == "1"),
            tenths: 0,
        }
    }

    /// The run's folder.
    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// Takes in what has happened since the last look.
    pub fn look(&mut self) {
        for line in self.tail.next_lines().unwrap_or_default() {
            self.card.event(&line);
        }
        self.card.elapsed = self.started.elapsed();
    }

    /// Takes in what has happened; the run's manifest when it has ended.
    pub fn has_ended(&mut self) -> Option<Manifest> {
        let manifest = Manifest::read(&self.run_dir).ok();
        // After the manifest: a closed one has all its epochs among the events.
        self.look();
        let manifest = manifest?;
        self.card.elapsed = jobs::elapsed(&manifest);
        if manifest.is_loading() {
            self.card.set_status("reading the data");
        }
        self.card.unwatched = manifest.unwatched();
        (manifest.status != Status::Running).then_some(manifest)
    }

    /// Redraws the card when it is time to, and shows it once the cell has waited for a second.
    pub fn draw(&mut self) {
        if self.plain {
            return self.tell_tenth();
        }
        let early = !self.card.shown && self.started.elapsed() < CARD_AFTER;
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
        self.look_at_ranks();
        let card = self.card.render();
        if self.card.shown {
            self.output.update(&card, &self.display_id);
        } else {
            self.output.display(&card, &self.display_id);
            self.card.shown = true;
        }
        self.drawn = Some(Instant::now());
    }

    /// Says how the run stands when no event does, at once.
    pub fn set_status(&mut self, status: &str) {
        self.card.set_status(status);
        self.drawn = None;
    }

    /// The card's last state, where there is a card.
    pub fn close(&mut self, manifest: &Manifest) {
        self.card.set_status(manifest.status.label());
        if let Some(error) = &manifest.error {
            self.card.note(&report::headline(error));
        }
        if self.card.shown {
            self.look_at_ranks();
            self.output.update(&self.card.render(), &self.display_id);
        }
    }

    /// Rows and status pages are read for a card alone: a run that shows none pays nothing.
    fn look_at_ranks(&mut self) {
        if self.card.lanes.len() as u32 != self.card.ranks() {
            let lane = |rank| Lane::new(&self.run_dir, rank);
            self.card.lanes = (0..self.card.ranks()).map(lane).collect();
        }
        let expected = Expected::read(&self.run_dir, self.card.ranks());
        for lane in &mut self.card.lanes {
            lane.look(&expected);
        }
    }

    /// Keeps the card up to date until the run ends, on a thread of its own: the cell need not
    /// wait.
    pub fn leave(mut self) {
        let follow = move || {
            loop {
                if let Some(manifest) = self.has_ended() {
                    return self.close(&manifest);
                }
                if !self.run_dir.exists() {
                    return;
                }
                self.draw();
                std::thread::sleep(REDRAW);
            }
        };
        // Without a thread the card stays as it is; the run is not touched by that.
        let _ = std::thread::Builder::new()
            .name("card".into())
            .spawn(follow);
    }

    fn tell_tenth(&mut self) {
        let tenth = (10 * self.card.done())
            .checked_div(self.card.epochs())
            .unwrap_or(0);
        if tenth > self.tenths {
            self.tenths = tenth;
            self.output.stdout(&format!("{}\n", self.card.line()));
        }
    }
}
