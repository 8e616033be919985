//! How far a conversion is: what it does, how fast, and how long it will take.

use super::step::Steps;
use gnn_core::convert::Step;
use std::time::{Duration, Instant};

/// Progress with rate and time left.
pub struct Pace {
    steps: Steps,
    /// The step, when it began, and when it was last shown.
    now: Option<(&'static str, Instant, Instant)>,
}

/// How often progress is shown.
const SHOWN: Duration = Duration::from_millis(500);

impl Pace {
    /// Nothing is shown when `quiet`.
    pub fn new(quiet: bool) -> Pace {
        Pace {
            steps: Steps::new(quiet),
            now: None,
        }
    }

    /// Shows words of its own.
    pub fn say(&mut self, what: &str) {
        self.steps.show(what);
    }

    /// Shows how far a step is, if it is time to.
    pub fn tell(&mut self, step: Step) {
        let time = Instant::now();
        let (began, shown) = match self.now {
            Some((what, began, shown)) if what == step.what => (began, Some(shown)),
            _ => (time, None),
        };
        if shown.is_some_and(|shown| time - shown < SHOWN) {
            return;
        }
        self.now = Some((step.what, began, time));
        self.steps.show(&line(step, (time - began).as_secs_f64()));
    }
}

/// One line of progress, `seconds` after the step began.
fn line(step: Step, seconds: f64) -> String {
    let done = format!(
        "{}: {:.1} M edges, {:.0} %",
        step.what,
        step.edges as f64 / 1e6,
        100.0 * step.share
    );
    if seconds < 0.1 || step.share <= 0.0 {
        return done;
    }
    let rate = step.edges as f64 / 1e6 / seconds;
    let left = seconds * (1.0 - step.share) / step.share;
    format!("{done}, {rate:.2} M/s, {left:.0} s left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_rate_and_time_left() {
        let step = Step {
            what: "reading edges",
            edges: 30_000_000,
            share: 0.25,
        };
        let text = line(step, 10.0);
        assert_eq!(
            text,
            "reading edges: 30.0 M edges, 25 %, 3.00 M/s, 30 s left"
        );
        assert_eq!(line(step, 0.0), "reading edges: 30.0 M edges, 25 %");
    }
}
