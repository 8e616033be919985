//! Reading what ranks appended.

use super::own::Own;
use crate::error::{Error, Result};
use crate::forecast::Expected;
use gnn_core::record::frame::Schema;
use gnn_core::record::rows::{CommRow, EndedRow, MetricsRow, PartRow, RankRow, SpanRow, TracedRow};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// All rows of a run, by frame, of the epochs that every rank finished.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Rank rows, by epoch, then rank.
    pub ranks: Vec<RankRow>,
    /// Traffic rows, by epoch, then sender, in the order written.
    pub comm: Vec<CommRow>,
    /// Rows of frames that the strategy adds.
    pub own: Vec<Own>,
    /// Spans, by epoch, then rank, then beginning.
    pub spans: Vec<SpanRow>,
    /// How many of them there are, by epoch, then rank.
    pub traced: Vec<TracedRow>,
    /// One row an epoch.
    pub metrics: Vec<MetricsRow>,
    /// One row a part.
    pub partition: Vec<PartRow>,
    /// The last epoch of a run that ended early by itself.
    pub ended: Option<EndedRow>,
    /// The finished epochs, ascending.
    pub epochs: Vec<u32>,
}

/// A line's tag, read first; the columns follow in a second pass.
#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow)]
    frame: std::borrow::Cow<'a, str>,
}

/// Whether a run folder has rows: where it has none, frames made of them would be empty.
pub(super) fn are_kept(run_dir: &Path) -> bool {
    run_dir.join("rows/rank-0.jsonl").is_file()
}

impl Rows {
    /// Reads `rows/rank-K.jsonl` of every rank, without rows of frames that the strategy adds.
    ///
    /// # Errors
    /// As [`Rows::read_with`].
    pub fn read(run_dir: &Path, ranks: u32) -> Result<Rows> {
        Rows::read_with(run_dir, ranks, Vec::new())
    }

    /// Reads `rows/rank-K.jsonl` of every rank, with rows of some frames that the strategy adds. A torn
    /// last line is ignored, and so are files that do not exist yet.
    ///
    /// # Errors
    /// When a file cannot be read, or a complete line is not a row.
    pub fn read_with(run_dir: &Path, ranks: u32, own: Vec<Schema>) -> Result<Rows> {
        let mut rows = Rows {
            own: own.into_iter().map(Own::new).collect(),
            ..Rows::default()
        };
        for rank in 0..ranks {
            let path = run_dir.join("rows").join(format!("rank-{rank}.jsonl"));
            let text = match std::fs::read(&path) {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(Error::io(&path)(e)),
            };
            let whole = text
                .iter()
                .rposition(|&b| b == b'\n')
                .map_or(0, |end| end + 1);
            for line in text[..whole]
                .split(|&b| b == b'\n')
                .filter(|l| !l.is_empty())
            {
                rows.add(line).map_err(|source| Error::Json {
                    path: path.clone(),
                    source,
                })?;
            }
        }
        rows.keep_finished(ranks);
        rows.foresee(&Expected::read(run_dir, ranks));
        Ok(rows)
    }

    /// Enters what was foreseen before the run.
    fn foresee(&mut self, expected: &Expected) {
        for row in &mut self.ranks {
            row.predicted_mem_bytes = expected.memory(row.rank, row.predicted_mem_bytes);
            if let Some(seen) = expected.foreseen(row.rank) {
                row.predicted_wall_ms = seen.wall_ms;
            }
        }
    }

    fn add(&mut self, line: &[u8]) -> serde_json::Result<()> {
        let tag: Tag = serde_json::from_slice(line)?;
        match tag.frame.as_ref() {
            "ranks" => self.ranks.push(serde_json::from_slice(line)?),
            "comm" => self.comm.push(serde_json::from_slice(line)?),
            "spans" => self.spans.push(serde_json::from_slice(line)?),
            "traced" => self.traced.push(serde_json::from_slice(line)?),
            "metrics" => self.metrics.push(metrics(line)?),
            "partition" => self.partition.push(serde_json::from_slice(line)?),
            "ended" => self.ended = Some(serde_json::from_slice(line)?),
            // Rows of a frame that nobody asked for, or of a later version, stay in the file.
            name => {
                if let Some(own) = self.own.iter_mut().find(|own| own.name() == name) {
                    own.add(line)?;
                }
            }
        }
        Ok(())
    }

    /// What a reader of the spans should know.
    pub fn dropped_note(&self) -> Option<String> {
        let dropped: u64 = self.traced.iter().map(|t| t.dropped).sum();
        let kept: u64 = self.traced.iter().map(|t| t.spans).sum();
        (dropped > 0).then(|| {
            format!(
                "{dropped} of {} spans were dropped: trace fewer epochs",
                dropped + kept
            )
        })
    }

    /// Drops rows of epochs that some rank, or the metrics, have not got: the run ended in them.
    fn keep_finished(&mut self, ranks: u32) {
        let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
        for row in &self.ranks {
            *seen.entry(row.epoch).or_default() += 1;
        }
        let finished = |epoch: u32| seen.get(&epoch) == Some(&ranks);
        self.metrics.retain(|m| finished(m.epoch));
        self.metrics.sort_by_key(|m| m.epoch);
        self.epochs = self.metrics.iter().map(|m| m.epoch).collect();
        let epochs = &self.epochs;
        let whole = |epoch: u32| epochs.binary_search(&epoch).is_ok();
        self.ranks.retain(|r| whole(r.epoch));
        self.ranks.sort_by_key(|r| (r.epoch, r.rank));
        self.comm.retain(|c| whole(c.epoch));
        self.comm.sort_by_key(|c| (c.epoch, c.src));
        self.spans.retain(|s| whole(s.epoch));
        self.spans.sort_by_key(|s| (s.epoch, s.rank, s.start_us));
        self.traced.retain(|t| whole(t.epoch));
        self.traced.sort_by_key(|t| (t.epoch, t.rank));
        self.partition.sort_by_key(|p| p.part);
    }
}

/// A metrics row; a loss that is not a number was written as null.
pub(crate) fn metrics(line: &[u8]) -> serde_json::Result<MetricsRow> {
    let mut value: serde_json::Value = serde_json::from_slice(line)?;
    let diverged = value
        .get("train_loss")
        .is_some_and(serde_json::Value::is_null);
    if diverged {
        value["train_loss"] = 0.0.into();
    }
    let mut row: MetricsRow = serde_json::from_value(value)?;
    if diverged {
        row.train_loss = f64::NAN;
    }
    Ok(row)
}
