//! A sweep as others see it: whether it goes on, how far it is, and asking it to stop.

use super::{Ended, Event, Row, rows};
use crate::error::{Error, Result};
use crate::stop::{ask, is_asked, is_asked_now};
use crate::time::Utc;
use crate::{store, sys};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// How often a sweep that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Whose a sweep is: `sweep.json` in its folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Owner {
    pid: u32,
    pid_start: Option<u64>,
    started: String,
}

impl Owner {
    /// This process, from now on.
    pub(super) fn this() -> Owner {
        let pid = std::process::id();
        Owner {
            pid,
            pid_start: sys::start_ticks(pid),
            started: Utc::now().rfc3339(),
        }
    }

    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join("sweep.json");
        let text = serde_json::to_vec(self).map_err(|source| Error::Json {
            path: path.clone(),
            source,
        })?;
        store::write_atomic(&path, &text)
    }

    fn read(dir: &Path) -> Option<Owner> {
        let bytes = std::fs::read(dir.join("sweep.json")).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn is_there(&self) -> bool {
        sys::is_alive(self.pid)
            && (self.pid_start.is_none() || self.pid_start == sys::start_ticks(self.pid))
    }
}

/// How a sweep stands.
#[derive(Debug, Clone)]
pub struct Standing {
    /// Name of its folder.
    pub id: String,
    /// How many settings it has.
    pub settings: usize,
    /// Those that have ended.
    pub rows: Vec<Row>,
    /// Runs of those that are under way.
    pub runs: Vec<String>,
    /// How it ended; none while it goes on, and where its process is gone.
    pub ended: Option<Ended>,
    /// Whether its process is there.
    pub goes_on: bool,
    /// Whether it was asked to stop.
    pub stopping: bool,
    /// Since its start; of one that has ended, what it took.
    pub elapsed: Duration,
}

/// How the sweep in `dir` stands.
pub fn standing(dir: &Path) -> Standing {
    let owner = Owner::read(dir);
    let there = owner.as_ref().is_some_and(Owner::is_there);
    // After its process was looked at: one that has gone has written all its events.
    let text = std::fs::read_to_string(dir.join("events.jsonl")).unwrap_or_default();
    let events = text.lines().filter_map(|l| serde_json::from_str(l).ok());
    let (mut settings, mut ended, mut begun, mut took) = (0, None, Vec::new(), None);
    for event in events {
        match event {
            Event::Begin { settings: n } => settings = n,
            Event::Start { order, run_id, .. } => begun.push((order, run_id)),
            Event::Row(row) => begun.retain(|(order, _)| *order != row.order),
            Event::End { how, wall_ms } => (ended, took) = (Some(how), wall_ms),
        }
    }
    let since = owner.and_then(|owner| Utc::parse(&owner.started));
    let since = since.map_or(0.0, |started| (Utc::now().ms - started.ms) as f64);
    let seconds = took.unwrap_or(since).max(0.0) / 1e3;
    let name = dir.file_name().unwrap_or_default();
    Standing {
        id: name.to_string_lossy().into_owned(),
        settings,
        rows: rows(dir),
        runs: begun.into_iter().map(|(_, run)| run).collect(),
        goes_on: there && ended.is_none(),
        ended,
        stopping: is_asked(dir),
        elapsed: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
    }
}

/// All sweeps of the store that go on, the oldest first.
pub fn going() -> Vec<Standing> {
    let all = super::all().into_iter().filter(|dir| {
        // Only those whose process is there are read.
        Owner::read(dir).is_some_and(|owner| owner.is_there())
    });
    all.map(|dir| standing(&dir))
        .filter(|s| s.goes_on)
        .collect()
}

/// Waits until a sweep has ended.
pub fn wait(dir: &Path) -> Standing {
    loop {
        let now = standing(dir);
        if !now.goes_on {
            return now;
        }
        std::thread::sleep(LOOK);
    }
}

/// Asks a sweep to finish what runs and leave the rest, or to end what runs `now`. Returns whether it
/// was still going on.
///
/// # Errors
/// When its folder cannot be written.
pub fn stop(dir: &Path, now: bool) -> Result<bool> {
    let goes_on = standing(dir).goes_on;
    if goes_on {
        ask(dir, now)?;
    }
    Ok(goes_on)
}

/// How often a sweep was asked to stop: as with interrupts, two is at once.
pub(super) fn asked(dir: &Path) -> usize {
    match (is_asked(dir), is_asked_now(dir)) {
        (_, true) => 2,
        (true, false) => 1,
        (false, false) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_goes_on_until_it_says_its_end_or_its_process_is_gone() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let tell = |text: &str| {
            let path = dir.path().join("events.jsonl");
            let before = std::fs::read_to_string(&path).unwrap_or_default();
            std::fs::write(&path, format!("{before}{text}\n")).expect("writes");
        };
        assert!(!standing(dir.path()).goes_on, "nobody's");
        Owner::this().write(dir.path()).expect("writes");
        tell(r#"{"event":"begin","settings":3}"#);
        tell(r#"{"event":"start","order":0,"words":"a","run_id":"x"}"#);
        let now = standing(dir.path());
        assert!(now.goes_on && !now.stopping && now.settings == 3);
        assert_eq!(now.runs, ["x"]);
        assert!(stop(dir.path(), false).expect("asks") && asked(dir.path()) == 1);
        assert!(stop(dir.path(), true).expect("asks") && asked(dir.path()) == 2);
        let mut gone = Owner::this();
        gone.pid_start = Some(1);
        gone.write(dir.path()).expect("writes");
        assert!(!standing(dir.path()).goes_on, "its process is another one");
        Owner::this().write(dir.path()).expect("writes");
        tell(r#"{"event":"end","how":"whole","wall_ms":2500.0}"#);
        let end = standing(dir.path());
        assert_eq!(end.elapsed, Duration::from_millis(2500));
        assert!(!end.goes_on && end.ended == Some(Ended::Whole));
        assert!(!stop(dir.path(), false).expect("asks"));
    }
}
