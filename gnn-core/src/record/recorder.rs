//! Turns an epoch's counters into rows and appends them.

use super::clock::{now_ns, peak_memory_bytes, process_cpu_ns, thread_cpu_ns};
use super::holds::Holds;
use super::meter::Meter;
use super::phase::{Direction, Op, Pass};
use super::rows::{BatchRow, CommRow, HopRow, RankRow, Row, SpanRow, StaleRow, TracedRow};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
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
    out: Option<(PathBuf, File)>,
    buffer: Vec<u8>,
    facts: RankFacts,
    host: String,
    predicted: HashMap<PredictedLane, u64>,
    /// Rows of finished epochs, kept when there is no file (in tests).
    pub kept: Vec<serde_json::Value>,
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl Recorder {
    /// A recorder that writes to `path`, behind the rows that are there if it `goes_on`; or keeps rows
    /// in memory.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be made.
    pub fn new(meter: Rc<Meter>, path: Option<&Path>, goes_on: bool) -> Result<Recorder> {
        let out = match path {
            None => None,
            Some(path) => {
                let opened = if goes_on {
                    File::options().create(true).append(true).open(path)
                } else {
                    File::create(path)
                };
                let file = opened.map_err(|source| Error::Io {
                    path: path.to_owned(),
                    source,
                })?;
                Some((path.to_owned(), file))
            }
        };
        Ok(Recorder {
            meter,
            out,
            buffer: Vec::new(),
            facts: RankFacts::default(),
            host: host_name(),
            predicted: HashMap::new(),
            kept: Vec::new(),
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
        self.meter.take_stale();
        self.meter.take_batches();
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

    /// Writes an epoch's rows: `ranks`, `comm`, `stale`, `batches`, `hops`, and `spans` where they are
    /// kept; `late_ns` is this rank's arrival after the first.
    ///
    /// # Errors
    /// [`Error::Io`] when the rows cannot be written.
    pub fn close(
        &mut self,
        index: u32,
        closed: &Closed,
        late_ns: u64,
        counters: Counters,
    ) -> Result<()> {
        let Counters {
            times,
            work,
            traffic,
            blocked,
            predicted,
            stale,
            batches: (batches, hops),
            spans,
            cached: [cache_bytes, dev_cache_bytes],
            rx,
        } = counters;
        let comm = times.hidden + times.xfer;
        // Kernels, copies and waits are measured one after the other on the rank's own thread, so
        // they cannot exceed wall time; what is left is `other`, and the sum is exact by
        // construction of `other` alone.
        let (compute, copy) = (ms(times.compute_total()), ms(times.copy));
        let (xfer, wait, wall) = (ms(times.xfer), ms(times.wait), ms(closed.wall));
        let row = RankRow {
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
            bytes_rx: rx,
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
            cache_bytes,
            dev_cache_bytes,
            mem_peak_bytes: peak_memory_bytes(),
            dev_mem_peak_bytes: self.meter.most_on_device(),
            predicted_mem_bytes: self.facts.memory.map(|m| m.total() as u64),
            predicted_wall_ms: None,
        };
        self.write(&row)?;
        for (&(layer, direction, op, dst), lane) in &traffic {
            // Blocked time belongs to an operation, not to a peer; it is shared by bytes.
            let total: u64 = traffic
                .iter()
                .filter(|(k, _)| (k.0, k.1, k.2) == (layer, direction, op))
                .map(|(_, t)| t.bytes)
                .sum();
            let share = lane.bytes as f64 / total.max(1) as f64;
            let waits = blocked
                .get(&(layer, direction, op))
                .copied()
                .unwrap_or_default();
            let lane_of = (layer, direction, dst);
            let known = self.predicted.get(&lane_of).copied();
            let now = predicted.get(&lane_of).copied();
            let row = CommRow {
                epoch: index,
                layer,
                direction,
                src: self.facts.rank,
                dst,
                op,
                bytes: lane.bytes,
                messages: lane.messages,
                xfer_ms: ms(waits.moving) * share,
                wait_ms: ms(waits.waiting) * share,
                predicted_bytes: known.or(now).map(|_| known.unwrap_or(0) + now.unwrap_or(0)),
            };
            self.write(&row)?;
        }
        stale.iter().try_for_each(|row| self.write(row))?;
        batches.iter().try_for_each(|row| self.write(row))?;
        hops.iter().try_for_each(|row| self.write(row))?;
        let Some((spans, traced)) = spans else {
            return Ok(());
        };
        spans.iter().try_for_each(|row| self.write(row))?;
        self.write(&traced)
    }

    /// Takes the epoch's counters from the meter. Called before evaluation, so that its traffic is
    /// not in them.
    pub fn counters(&self, index: u32) -> Counters {
        let (times, work) = self.meter.take_times();
        Counters {
            times,
            work,
            traffic: self.meter.take_traffic(),
            blocked: self.meter.take_blocked(),
            predicted: self.meter.take_predicted(),
            stale: self.meter.take_stale(),
            batches: self.meter.take_batches(),
            spans: self
                .meter
                .trace()
                .map(|trace| trace.take(index, self.facts.rank)),
            cached: self.meter.cached(),
            rx: 0,
        }
    }

    /// Appends a row to the buffer.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written as JSON (a non-finite number becomes null).
    pub fn write<R: Row>(&mut self, row: &R) -> Result<()> {
        let io = |source: serde_json::Error| Error::Io {
            path: self.out.as_ref().map(|o| o.0.clone()).unwrap_or_default(),
            source: source.into(),
        };
        let mut value = serde_json::to_value(row).map_err(io)?;
        if let Some(object) = value.as_object_mut() {
            object.insert("frame".into(), R::FRAME.into());
        }
        if self.out.is_some() {
            serde_json::to_writer(&mut self.buffer, &value).map_err(io)?;
            self.buffer.push(b'\n');
        } else {
            self.kept.push(value);
        }
        Ok(())
    }

    /// Hands buffered rows to the operating system, so that a reader sees them.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        if let Some((path, file)) = &mut self.out {
            file.write_all(&self.buffer).map_err(|source| Error::Io {
                path: path.clone(),
                source,
            })?;
            self.buffer.clear();
        }
        Ok(())
    }
}

impl Recorder {
    /// Waits until what was handed over is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written.
    pub fn sync(&self) -> Result<()> {
        match &self.out {
            Some((path, file)) => file.sync_data().map_err(|e| Error::io(path, e)),
            None => Ok(()),
        }
    }
}

/// What the meter counted in one epoch.
pub struct Counters {
    times: super::Times,
    work: super::meter::Work,
    /// Traffic by lane.
    pub traffic: std::collections::BTreeMap<super::meter::Lane, super::meter::Traffic>,
    blocked: std::collections::BTreeMap<(u16, Direction, Op), super::meter::Blocked>,
    predicted: std::collections::BTreeMap<PredictedLane, u64>,
    stale: Vec<StaleRow>,
    batches: (Vec<BatchRow>, Vec<HopRow>),
    spans: Option<(Vec<SpanRow>, TracedRow)>,
    cached: [u64; 2],
    /// Bytes received, filled in by who knows what the others sent.
    pub rx: u64,
}

impl Counters {
    /// Bytes sent to each of `size` ranks.
    pub fn sent_to(&self, size: usize) -> Vec<u64> {
        let mut to = vec![0; size];
        for (lane, traffic) in &self.traffic {
            to[lane.3 as usize] += traffic.bytes;
        }
        to
    }
}

/// The name of this host.
pub(crate) fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|s| s.trim().to_owned())
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| "localhost".into())
}
