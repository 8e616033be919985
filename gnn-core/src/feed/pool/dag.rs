//! One batch: what has been found, what is open, what may be done next.
//!
//! A row of a layer is read by that layer as well, so it is a row of every layer below, and its features are
//! read: all of that can begin as soon as it is found, whatever else of its hop is still open.

use super::super::collect::Wants;
use super::super::making::Making;
use super::super::rows::RowData;
use super::super::shard::Shard;
use super::super::stats::Stats;
use super::found::{Found, Part};
use super::lock;
use super::operation::Do;
use crate::sample::{Hop, Without};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// One batch.
pub(super) struct Dag {
    /// In the run.
    pub(super) number: u64,
    /// Epoch and step.
    pub(super) at: (u64, u64),
    /// Edges that are left out, once its seeds are known.
    without: OnceLock<Option<Without>>,
    state: Mutex<Option<State>>,
}

/// What has been found of it.
pub(super) struct State {
    /// Whose vertices, and what is wanted of them.
    plan: Plan,
    /// By layer.
    hops: Vec<Found<Hop>>,
    features: Found<RowData>,
    /// What blocks have been made of; taken by the thread that makes one.
    making: Option<Making>,
    /// What was done while `making` may be with another thread.
    stats: Stats,
    /// Layers without a block; the blocks are made from the last one down.
    left: usize,
    /// The next block, or the end, waits for a thread or has one.
    queued: bool,
}

/// What decides what is wanted, the same for all batches.
pub(super) struct Plan {
    pub(super) wants: Wants,
    pub(super) me: usize,
    /// Rows of a part, by layer, and of the features.
    pub(super) grains: Vec<usize>,
    pub(super) fetches: usize,
}

/// Something that may be done now: by a thread of this rank, or else by the owner of some rows.
pub(super) struct Todo {
    pub(super) what: Do,
    pub(super) cost: u64,
    pub(super) ask: Option<(usize, Vec<u32>)>,
}

/// What a thread knows that finds rows.
pub(super) struct Finder<'a> {
    pub(super) shard: &'a Shard,
    /// Whether a copy of another rank's row is kept.
    pub(super) is_kept: &'a dyn Fn(u32) -> bool,
    /// Columns of the features.
    pub(super) width: usize,
}

impl Dag {
    /// Batch `number` of the run, of this epoch and step.
    pub(super) fn new(number: u64, at: (u64, u64)) -> Dag {
        Dag {
            number,
            at,
            without: OnceLock::new(),
            state: Mutex::new(None),
        }
    }

    /// Edges that are left out.
    pub(super) fn without(&self) -> Option<&Without> {
        self.without.get().and_then(Option::as_ref)
    }

    /// Its seeds are known.
    pub(super) fn seeded(&self, plan: Plan, mut making: Making, by: &Finder<'_>) -> Vec<Todo> {
        let _ = self.without.set(making.take_without());
        let (n, owners) = (by.shard.numbers.ids.len(), by.shard.numbers.first.len() - 1);
        let hops = plan.grains.iter().map(|&g| Found::new(n, owners, g));
        let mut state = State {
            hops: hops.collect(),
            features: Found::new(n, owners, plan.fetches),
            left: plan.grains.len(),
            plan,
            making: None,
            queued: false,
            stats: Stats::default(),
        };
        let mut todo = Vec::new();
        let top = state.left - 1;
        state.find(making.rows(), Some(top), by, &mut todo);
        state.making = Some(making);
        state.settle(by, &mut todo);
        *lock(&self.state) = Some(state);
        todo
    }

    /// What has been found of it.
    ///
    /// # Panics
    /// Before its seeds are known.
    pub(super) fn state(&self) -> StateGuard<'_> {
        StateGuard(lock(&self.state))
    }
}

/// A batch's state, held.
pub(super) struct StateGuard<'a>(MutexGuard<'a, Option<State>>);

impl std::ops::Deref for StateGuard<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        self.0.as_ref().expect("its seeds are known")
    }
}

impl std::ops::DerefMut for StateGuard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_mut().expect("its seeds are known")
    }
}

impl State {
    /// Adds to what is known of the batch's making.
    pub(super) fn stats(&mut self, add: impl FnOnce(&mut Stats)) {
        add(&mut self.stats);
    }

    /// Rows of a part of a layer's hop.
    pub(super) fn rows_to_draw(&self, layer: usize, part: usize) -> Vec<u32> {
        self.hops[layer].parts[part].rows.clone()
    }

    /// Owner and number of rows of a part of a hop.
    pub(super) fn part_of_hop(&self, layer: usize, part: usize) -> (usize, usize) {
        let part = &self.hops[layer].parts[part];
        (part.owner, part.rows.len())
    }

    /// Owner and number of rows of a part of the features.
    pub(super) fn part_of_features(&self, part: usize) -> (usize, usize) {
        let part = &self.features.parts[part];
        (part.owner, part.rows.len())
    }

    /// A part of a hop has been drawn.
    pub(super) fn drawn(
        &mut self,
        layer: usize,
        part: usize,
        hop: Hop,
        by: &Finder<'_>,
    ) -> Vec<Todo> {
        let mut todo = Vec::new();
        self.find(&hop.sources, layer.checked_sub(1), by, &mut todo);
        self.hops[layer].put(part, hop);
        self.settle(by, &mut todo);
        todo
    }

    /// A part of the features is here.
    pub(super) fn fetched(&mut self, part: usize, rows: RowData, by: &Finder<'_>) -> Vec<Todo> {
        self.features.put(part, rows);
        let mut todo = Vec::new();
        self.settle(by, &mut todo);
        todo
    }

    /// A layer's block has been made.
    pub(super) fn blocked(&mut self, making: Making, by: &Finder<'_>) -> Vec<Todo> {
        self.making = Some(making);
        self.left -= 1;
        self.queued = false;
        let mut todo = Vec::new();
        self.settle(by, &mut todo);
        todo
    }

    /// Takes what a layer's block is made of.
    pub(super) fn take_hop(&mut self, layer: usize) -> (Vec<Part<Hop>>, Making) {
        let parts = std::mem::take(&mut self.hops[layer].parts);
        let making = self.making.take();
        (parts, making.expect("one block is made at a time"))
    }

    /// Takes what the input is made of.
    pub(super) fn take_features(&mut self) -> (Vec<Part<RowData>>, Making) {
        let parts = std::mem::take(&mut self.features.parts);
        let making = self.making.take();
        let mut making = making.expect("all blocks are made");
        making.stats.add(&self.stats);
        (parts, making)
    }

    /// Some vertices are read: as rows of `layer` and all below, or, with none, by the first layer alone.
    fn find(
        &mut self,
        vertices: &[u32],
        layer: Option<usize>,
        by: &Finder<'_>,
        todo: &mut Vec<Todo>,
    ) {
        let wants = self.plan.wants;
        // A first layer in place reads rows of its own only where the model says so.
        let rows_too = layer.is_none() || !wants.in_place || wants.own;
        let features = wants.features && rows_too;
        let all = &by.shard.numbers;
        let own = all.of(self.plan.me);
        for &v in vertices {
            let is_own = own.contains(&v);
            // The first layer's sources are most of what is found, and most of them are here.
            if layer.is_none() && (is_own || !features) {
                continue;
            }
            let owner = if is_own { self.plan.me } else { all.owner(v) };
            let mut new = true;
            for layer in layer.map_or(0..0, |l| 0..l + 1).rev() {
                let cut;
                (new, cut) = self.hops[layer].want(v, owner);
                if let Some(part) = cut {
                    todo.push(self.draw(layer, part, by));
                }
                if !new {
                    break;
                }
            }
            if new && features && !is_own && !self.features.has(v) && !(by.is_kept)(v) {
                let (_, cut) = self.features.want(v, owner);
                if let Some(part) = cut {
                    todo.push(self.fetch(part, by));
                }
            }
        }
    }

    /// Closes what nothing more will be found of, and says what may be done now that was not before.
    fn settle(&mut self, by: &Finder<'_>, todo: &mut Vec<Todo>) {
        let mut above = true;
        for layer in (0..self.hops.len()).rev() {
            if above && !self.hops[layer].closed {
                for part in self.hops[layer].close() {
                    todo.push(self.draw(layer, part, by));
                }
            }
            above = self.hops[layer].is_whole();
            if !above {
                break;
            }
        }
        if above && !self.features.closed {
            for part in self.features.close() {
                todo.push(self.fetch(part, by));
            }
        }
        if !self.queued
            && self.making.is_some()
            && let Some((what, cost)) = self.follows(by)
        {
            self.queued = true;
            let ask = None;
            todo.push(Todo { what, cost, ask });
        }
    }

    /// The next block, or the end, if what it is made of is there; and what that costs.
    fn follows(&self, by: &Finder<'_>) -> Option<(Do, u64)> {
        let Some(layer) = self.left.checked_sub(1) else {
            let parts = self
                .features
                .is_whole()
                .then(|| self.features.parts.iter())?;
            let rows: usize = parts.map(|p| p.rows.len()).sum();
            return Some((Do::End, (rows * by.width) as u64));
        };
        let hop = &self.hops[layer];
        let parts = hop.is_whole().then(|| hop.parts.iter())?;
        let edges = parts
            .filter_map(|p| p.got.as_ref())
            .map(|h| h.sources.len());
        Some((Do::Block(layer), edges.sum::<usize>() as u64))
    }

    fn draw(&self, layer: usize, part: usize, by: &Finder<'_>) -> Todo {
        let Part { owner, rows, .. } = &self.hops[layer].parts[part];
        // How many neighbours others' rows have is not known: as many as this rank's, on average.
        let cost = rows.len() + by.shard.expects(layer, rows.len());
        self.todo(Do::Draw(layer, part), cost, (*owner, rows))
    }

    fn fetch(&self, part: usize, by: &Finder<'_>) -> Todo {
        let Part { owner, rows, .. } = &self.features.parts[part];
        self.todo(Do::Fetch(part), rows.len() * by.width, (*owner, rows))
    }

    fn todo(&self, what: Do, cost: usize, (owner, rows): (usize, &[u32])) -> Todo {
        Todo {
            what,
            cost: cost as u64,
            ask: (owner != self.plan.me).then(|| (owner, rows.to_vec())),
        }
    }
}
