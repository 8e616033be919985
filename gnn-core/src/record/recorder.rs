//! Turns an epoch's counters into rows and appends them.

use super::clock::{now_ns, peak_memory_bytes, process_cpu_ns, thread_cpu_ns};
use super::counters::Counters;
use super::file::RowsFile;
use super::frame::{FrameDef, Noted};
use super::holds::Holds;
use super::meter::{Lane, Meter};
use super::phase::{Direction, Pass};
use super::rows::{CommRow, RankRow, Row};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

/// Key of a predicted `comm` row: layer, direction, receiver.
pub type PredictedLane = (u16, Direction, u32);

/// Facts of a rank that are the same in every row.
#[derive(Debug, Clone, Default)]
pub struct RankFacts {
    /// Rank.
    pub rank: u32,
    /// Name of the device.
    pub device: String,
    /// Vertices owned.
    pub owned_nodes: u64,
    /// Remote vertices read.
    pub halo_nodes: u64,
    /// Training vertices owned.
    pub train_nodes: u64,
    /// Bytes that training needs at its fullest moment, where that is foreseen.
    pub memory: Option<Holds>,
    /// The share of an epoch in which the rank is expected to wait for those beside it in a pipeline.
    pub bubble: Option<f64>,
    /// Edges multiplied each epoch that another rank multiplies as well.
    pub edges_redundant: u64,
    /// Whether several ranks share this process.
    pub shares_process: bool,
}

/// An epoch that has begun.
pub struct Epoch {
    start_ns: u64,
    start_cpu: u64,
}

/// An epoch that has ended but whose rows are not written yet.
pub struct Closed {
    wall: u64,
    cpu: u64,
    start_ns: u64,
}

impl Closed {
    /// When the epoch began on this rank.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Wall time on this rank in milliseconds.
    pub fn wall_ms(&self) -> f64 {
        ms(self.wall)
    }
}

/// Appends one rank's rows.
pub struct Recorder {
    meter: Rc<Meter>,
    file: RowsFile,
    facts: RankFacts,
    host: String,
    predicted: HashMap<PredictedLane, u64>,
    /// The frames that the strategy may add.
    frames: &'static [FrameDef],
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl Recorder {
    /// A recorder that writes to `path`, behind the rows that are there if it `goes_on`; `frames` are those
    /// that the strategy may add.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be made.
    pub fn new(
        meter: Rc<Meter>,
        path: &Path,
        goes_on: bool,
        frames: &'static [FrameDef],
    ) -> Result<Recorder> {
        Ok(Recorder {
            meter,
            file: RowsFile::open(path, goes_on)?,
            facts: RankFacts::default(),
            host: host_name(),
            predicted: HashMap::new(),
            frames,
        })
    }

    /// Sets what is the same in every row.
    pub fn set_facts(&mut self, facts: RankFacts) {
        self.facts = facts;
    }

    /// Sets the bytes that the plan predicts this rank to send each epoch.
    pub fn predict(&mut self, lanes: impl IntoIterator<Item = (PredictedLane, u64)>) {
        self.predicted = lanes.into_iter().collect();
    }

    fn cpu_ns(&self) -> u64 {
        if self.facts.shares_process {
            thread_cpu_ns()
        } else {
            process_cpu_ns()
        }
    }

    /// Begins an epoch: counters start at zero.
    pub fn begin(&mut self, epoch: u32) -> Epoch {
        self.meter.page(|page| page.epoch(u64::from(epoch)));
        self.meter.take_times();
        self.meter.take_blocked();
        self.meter.take_traffic();
        self.meter.take_predicted();
        self.meter.take_noted();
        if let Some(trace) = self.meter.trace() {
            trace.clear();
        }
        Epoch {
            start_cpu: self.cpu_ns(),
            start_ns: now_ns(),
        }
    }

    /// Ends the timed part of an epoch.
    pub fn end(&mut self, epoch: Epoch) -> Closed {
        Closed {
            wall: now_ns() - epoch.start_ns,
            cpu: self.cpu_ns().saturating_sub(epoch.start_cpu),
            start_ns: epoch.start_ns,
        }
    }

    /// Takes the epoch's counters from the meter. Called before evaluation, so that its traffic is
    /// not in them.
    pub fn counters(&self, index: u32) -> Counters {
        Counters::take(&self.meter, index, self.facts.rank)
    }

    /// Writes an epoch's rows: `ranks`, `comm`, those of the strategy's own frames, and `spans` where they
    /// are kept; `late_ns` is this rank's arrival after the first.
    ///
    /// # Errors
    /// [`Error::Io`] when the rows cannot be written, [`Error::Unsupported`] for a row of a frame that the
    /// strategy does not declare.
    pub fn close(
        &mut self,
        index: u32,
        closed: &Closed,
        late_ns: u64,
        mut counters: Counters,
    ) -> Result<()> {
        self.write(&self.rank_row(index, closed, late_ns, &counters))?;
        for lane in counters.traffic.keys() {
            self.write(&self.comm_row(index, lane, &counters))?;
        }
        for row in std::mem::take(&mut counters.noted) {
            self.write_noted(row)?;
        }
        let Some((spans, traced)) = counters.spans else {
            return Ok(());
        };
        spans.iter().try_for_each(|row| self.write(row))?;
        self.write(&traced)
    }

    fn rank_row(&self, index: u32, closed: &Closed, late_ns: u64, counters: &Counters) -> RankRow {
        let Counters {
            times,
            work,
            traffic,
            cached: [cache_bytes, dev_cache_bytes],
            rx,
            ..
        } = counters;
        // Kernels, copies and waits are measured one after the other on the rank's own thread, so
        // they cannot exceed wall time, but for those of a device of its own (`within`); what is left is
        // `other`, and the sum is exact by construction of `other` alone.
        let times = times.within(closed.wall);
        let comm = times.hidden + times.xfer;
        let on_device = self.meter.device_memory();
        let (compute, copy) = (ms(times.compute_total()), ms(times.copy));
        let (xfer, wait, wall) = (ms(times.xfer), ms(times.wait), ms(closed.wall));
        RankRow {
            epoch: index,
            rank: self.facts.rank,
            host: self.host.clone(),
            device: self.facts.device.clone(),
            wall_ms: wall,
            compute_ms: compute,
            injected_ms: ms(times.injected),
            copy_ms: copy,
            xfer_exposed_ms: xfer,
            wait_ms: wait,
            other_ms: wall - (compute + copy + xfer + wait),
            comm_ms: ms(comm),
            comm_hidden_ms: ms(times.hidden),
            overlap_pct: (comm > 0).then(|| 100.0 * times.hidden as f64 / comm as f64),
            cpu_ms: ms(closed.cpu),
            late_ms: ms(late_ns),
            sample_ms: ms(times.of(Pass::Sample)),
            forward_ms: ms(times.of(Pass::Forward)),
            classify_ms: ms(times.of(Pass::Classify)),
            loss_ms: ms(times.of(Pass::Loss)),
            backward_ms: ms(times.of(Pass::Backward)),
            optim_ms: ms(times.of(Pass::Optim)),
            bytes_tx: traffic.values().map(|t| t.bytes).sum(),
            bytes_rx: *rx,
            msgs_tx: traffic.values().map(|t| t.messages).sum(),
            rounds: work.rounds,
            edges: work.edges,
            edge_elements: work.edge_elements,
            edges_redundant: self.facts.edges_redundant,
            owned_nodes: self.facts.owned_nodes,
            halo_nodes: self.facts.halo_nodes,
            train_nodes: self.facts.train_nodes,
            halo_fresh: work.halo_fresh,
            halo_reused: work.halo_reused,
            cache_bytes: *cache_bytes,
            dev_cache_bytes: *dev_cache_bytes,
            mem_peak_bytes: peak_memory_bytes(),
            dev_mem_peak_bytes: self.meter.most_on_device(),
            dev_mem_used_bytes: on_device.map(|[used, _]| used),
            dev_mem_idle_bytes: on_device.map(|[_, idle]| idle),
            predicted_mem_bytes: self.facts.memory.map(|m| m.total() as u64),
            predicted_wall_ms: None,
        }
    }

    fn comm_row(&self, index: u32, lane: &Lane, counters: &Counters) -> CommRow {
        let &(layer, direction, op, dst) = lane;
        let traffic = counters.traffic.get(lane).copied().unwrap_or_default();
        let [xfer_ms, wait_ms] = counters.blocked_in(lane);
        let lane_of = (layer, direction, dst);
        let known = self.predicted.get(&lane_of).copied();
        let now = counters.predicted.get(&lane_of).copied();
        CommRow {
            epoch: index,
            layer,
            direction,
            src: self.facts.rank,
            dst,
            op,
            bytes: traffic.bytes,
            messages: traffic.messages,
            xfer_ms,
            wait_ms,
            predicted_bytes: known.or(now).map(|_| known.unwrap_or(0) + now.unwrap_or(0)),
        }
    }

    /// Appends a row to the buffer.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written as JSON (a non-finite number becomes null).
    pub fn write<R: Row>(&mut self, row: &R) -> Result<()> {
        let mut value = serde_json::to_value(row).map_err(|e| Error::io("row", e.into()))?;
        if let Some(object) = value.as_object_mut() {
            object.insert("frame".into(), R::FRAME.name.into());
        }
        self.file.append(&value)
    }

    fn write_noted(&mut self, row: Noted) -> Result<()> {
        if !self.frames.contains(&row.frame) {
            return Err(Error::Unsupported {
                what: format!("a row of frame {:?}", row.frame.name),
                reason: "the strategy's entry does not declare that frame".into(),
                help: "name it in the entry's `frames`".into(),
            });
        }
        self.file.append(&row.into_json())
    }

    /// Hands buffered rows to the operating system, so that a reader sees them.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }

    /// Waits until what was handed over is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written.
    pub fn sync(&self) -> Result<()> {
        self.file.sync()
    }
}

/// The name of this host.
pub(crate) fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|s| s.trim().to_owned())
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| "localhost".into())
}
