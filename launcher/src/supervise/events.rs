//! `events.jsonl`: what happened to a run, as it happens. Only the supervisor writes it.

use crate::error::{Error, Result};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The event stream of a run.
pub(crate) struct Events {
    path: PathBuf,
    file: File,
    start: Instant,
}

impl Events {
    /// Begins the stream; `start` is its time zero.
    pub fn create(run_dir: &Path, start: Instant) -> Result<Events> {
        let path = run_dir.join("events.jsonl");
        let file = File::create(&path).map_err(Error::io(&path))?;
        Ok(Events { path, file, start })
    }

    /// Appends an event: `{"t_ms", "event", ...fields}`. One write a line, so that a reader never
    /// sees two halves of different lines.
    pub fn put(&mut self, event: &str, fields: Value) -> Result<()> {
        let mut line = json!({
            "t_ms": self.start.elapsed().as_secs_f64() * 1e3,
            "event": event,
        });
        if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), fields) {
            line.extend(fields);
        }
        let text = format!("{line}\n");
        self.file
            .write_all(text.as_bytes())
            .map_err(Error::io(&self.path))
    }
}
