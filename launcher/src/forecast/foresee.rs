//! A rehearsal in the units of frames: bytes by item, and time by the machine's rates.

use super::machine::Machine;
use crate::error::Result;
use crate::resolve::{Resolved, Starter};
use crate::sys;
use gnn_core::dataset::Dataset;
use gnn_core::record::Holds;
use gnn_core::strategy::{Entry, Setup};
use gnn_core::{Rehearsed, rehearse};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Resident bytes of training over those of its items: holes that set-up and messages leave behind, and
/// the rounding of large pages. A factor that fits what was measured ([`super`]).
pub(super) const SLACK: f64 = 1.2;

/// The same where nobody sends messages, and buffers are of the same sizes every epoch.
const SLACK_ALONE: f64 = 1.05;

/// What is foreseen of one rank.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Foreseen {
    /// The rank.
    pub rank: u32,
    /// Bytes of training by item; none where nobody can say.
    pub holds: Option<Holds>,
    /// Whether activations are a formula's of expected sizes.
    pub expected: bool,
    /// Whether it is the only rank, and trains on the full graph.
    #[serde(default)]
    pub alone: bool,
    /// Bytes of set-up at its fullest moment, of this rank's share where ranks share a process.
    pub setup: u64,
    /// Bytes of the program; none where the machine was not measured.
    pub program: Option<u64>,
    /// The most bytes on a device with a budget; none without one.
    #[serde(default)]
    pub device: Option<u64>,
    /// Bytes that an epoch copies to a device, and from it, where rows lie apart from it.
    #[serde(default)]
    pub copied: Option<[u64; 2]>,
    /// The share of an epoch in which it waits for others in a pipeline.
    #[serde(default)]
    pub bubble: Option<f64>,
    /// Bytes that the rank sends in its first epoch.
    pub bytes: u64,
    /// What it computes in an epoch; none where drawing, which is not counted, is part of it.
    #[serde(default)]
    pub work: Option<Work>,
    /// Milliseconds of an epoch; none where the machine was not measured, or much of the time is spent
    /// on what is not counted.
    pub wall_ms: Option<f64>,
}

/// What an epoch computes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Operations of dense products; a multiply-add is two.
    pub flops: f64,
    /// Elements of rows that are added up along edges.
    pub elements: f64,
    /// Bytes that everything else reads and writes.
    pub moved: f64,
}

impl Work {
    fn of(seen: &Rehearsed) -> Work {
        Work {
            flops: seen.asked.flops,
            elements: seen.work.edge_elements as f64,
            moved: seen.asked.moved,
        }
    }
}

impl Foreseen {
    /// Bytes of the rank's process at its fullest moment, as far as they are known.
    pub fn memory(&self) -> Option<u64> {
        Some(self.training()?.max(self.setup) + self.program.unwrap_or(0))
    }

    /// Bytes of training, with what its allocator needs beside.
    fn training(&self) -> Option<u64> {
        let slack = if self.alone { SLACK_ALONE } else { SLACK };
        Some((slack * self.holds?.total() as f64) as u64)
    }

    /// The largest part of that, by name.
    pub fn largest(&self) -> Option<(&'static str, u64)> {
        let holds = self.holds?;
        if Some(self.setup) > self.training() {
            return Some(("set-up", self.setup));
        }
        let items = [
            ("graph", holds.graph),
            ("features", holds.features),
            ("activations", holds.activations),
            ("historical rows", holds.history),
            ("rows on the host", holds.offloaded),
            ("halo buffer", holds.halo),
            ("optimizer", holds.parameters),
        ];
        let items = items.map(|(name, bytes)| (name, bytes as u64));
        let program = ("program", self.program.unwrap_or(0));
        items.into_iter().chain([program]).max_by_key(|item| item.1)
    }
}

/// Rehearses a resolved request on its data; with `machine`, times and the program's memory as well.
///
/// # Errors
/// As [`rehearse`].
pub fn foresee(
    resolved: &Resolved,
    data: Arc<Dataset>,
    strategies: &'static [Entry],
    machine: Option<&Machine>,
) -> Result<Vec<Foreseen>> {
    let setup = Setup {
        data,
        owner: resolved.owner.clone().map(Arc::new),
        nested: resolved.nested.clone().map(Arc::new),
    };
    sys::map_large_zeros();
    let ranks = rehearse(&resolved.plan, setup, strategies)?;
    let shares = resolved.starter == Starter::Threads;
    let label = resolved.starter.label();
    let count = ranks.len() as u64;
    let of = |(rank, seen): (usize, &Rehearsed)| {
        let program = machine.and_then(|m| m.program.get(label).copied());
        Foreseen {
            rank: rank as u32,
            holds: seen.memory,
            expected: seen.facts.memory.is_some(),
            alone: count == 1 && !resolved.entry.background,
            setup: match shares {
                true => (seen.setup - seen.data) as u64 + seen.data as u64 / count,
                false => seen.setup as u64,
            },
            program: program.map(|bytes| if shares { bytes / count } else { bytes }),
            device: seen.device,
            copied: seen.copied,
            bubble: seen.facts.bubble,
            bytes: seen.bytes(),
            work: (!resolved.entry.background).then(|| Work::of(seen)),
            wall_ms: machine.and_then(|m| wall_ms(resolved, seen, m)),
        }
    };
    let mut all: Vec<Foreseen> = ranks.iter().enumerate().map(of).collect();
    in_step(&mut all);
    Ok(all)
}

/// Ranks of a pipeline take as long as the slowest, and the bubble.
fn in_step(all: &mut [Foreseen]) {
    if all.iter().any(|rank| rank.bubble.is_some()) {
        let slowest = all
            .iter()
            .filter_map(|rank| rank.wall_ms)
            .fold(0.0, f64::max);
        for rank in all {
            let busy = 1.0 - rank.bubble.unwrap_or(0.0);
            rank.wall_ms = rank.wall_ms.map(|_| slowest / busy);
        }
    }
}

/// Milliseconds of an epoch on the host: operations by one thread's rates, shared by the threads that
/// get a core; then messages, none of them hidden. None for what samples, whose drawing is not
/// counted, for other devices, over a modelled link, and with a rank that is slowed down.
fn wall_ms(resolved: &Resolved, seen: &Rehearsed, machine: &Machine) -> Option<f64> {
    let (plan, spec) = (&resolved.plan, &resolved.plan.spec);
    if resolved.entry.background
        || spec.backend != "cpu"
        || spec.link.is_some()
        || spec.slow.is_some()
    {
        return None;
    }
    let wanted = (spec.ranks * plan.threads) as f64;
    let cores = match resolved.starter {
        Starter::Slurm => wanted,
        _ => resolved.host.cores as f64,
    };
    let threads = plan.threads as f64 * (cores / wanted).min(1.0);
    let work = Work::of(seen);
    let work =
        work.flops / machine.flops + work.elements / machine.elements + work.moved / machine.bytes;
    // A message is copied out and in.
    let moved = 2.0 * seen.bytes() as f64 / machine.bytes;
    let messages = seen.messages() as f64 * machine.message_ms;
    let pace = machine.pace.get(spec.model.name()).copied().unwrap_or(1.0);
    Some(1e3 * (pace * work / threads + moved) + messages)
}
