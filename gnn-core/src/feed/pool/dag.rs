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
use super::logical::{Logical, Pairing, Parts, Place};
use crate::dataset::Pair;
use crate::sample::{Hop, Without};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

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
    plan: Arc<Plan>,
    /// Where seeds are edges or have others beside them, what is drawn of them.
    pairs: Option<Paired>,
    /// By layer.
    hops: Vec<Found<Hop>>,
    features: Found<RowData>,
    /// All rows of the last layer are known.
    begun: bool,
    /// What blocks have been made of; taken by the thread that makes one.
    making: Option<Making>,
    /// What was done while `making` may be with another thread.
    stats: Stats,
    /// Layers without a block; the blocks are made from the last one down.
    left: usize,
    /// The next block, or the end, waits for a thread or has one.
    queued: bool,
}

/// Seeds with others beside them.
struct Paired {
    /// Edges, or the data set's ids.
    batch: Arc<Vec<u32>>,
    /// Whether what is drawn waits for all of them: it must not read them.
    exclude: bool,
    /// By instance.
    positives: Vec<Option<Vec<Pair>>>,
    negatives: Vec<Option<Vec<Pair>>>,
}

/// What decides what is wanted, the same for all batches.
pub(super) struct Plan {
    pub(super) logical: Logical,
    pub(super) me: usize,
    /// Vertices, and ranks that own them.
    pub(super) numbers: (usize, usize),
    /// Seeds of an instance, by layer rows of a part, and of the features.
    pub(super) seeds: usize,
    pub(super) grains: Vec<usize>,
    pub(super) fetches: usize,
}

impl Plan {
    /// Of batches of which `wants` is wanted, in instances of `grain` seeds, where seeds are edges or have
    /// others beside them if `pairs`.
    pub(super) fn new(wants: Wants, pairs: bool, grain: usize, shard: &Shard) -> Plan {
        // An instance of so many seeds has as many rows below as they find.
        let mut grains = vec![grain; wants.layers];
        let mut rows = grain;
        for layer in (0..wants.layers).rev() {
            grains[layer] = rows;
            rows = rows.saturating_add(shard.expects(layer, rows));
        }
        let parts = Parts {
            layers: wants.layers,
            pairs,
            features: wants.features,
            // A first layer in place reads rows of its own only where the model says so.
            rows_too: !wants.in_place || wants.own,
        };
        Plan {
            logical: Logical::new(parts),
            me: shard.rank,
            numbers: (shard.numbers.ids.len(), shard.numbers.first.len() - 1),
            seeds: grain.max(1),
            grains,
            fetches: rows,
        }
    }
}

/// A batch's seeds.
pub(super) enum Seeded {
    /// Rows of its last layer.
    Rows(Box<Making>),
    /// Edges, or vertices with others beside them; whether what is drawn must not read these pairs.
    Pairs(Vec<u32>, bool),
}

/// Something that may be done now: by a thread of this rank, or else by the owner of some rows.
pub(super) struct Todo {
    /// The operator, and the number of the instance.
    pub(super) what: (Place, usize),
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
    pub(super) fn seeded(&self, plan: &Arc<Plan>, seeds: Seeded, by: &Finder<'_>) -> Vec<Todo> {
        let (n, owners) = plan.numbers;
        let hops = plan.grains.iter().map(|&g| Found::new(n, owners, g));
        let state = State {
            pairs: None,
            hops: hops.collect(),
            features: Found::new(n, owners, plan.fetches),
            begun: false,
            making: None,
            stats: Stats::default(),
            left: plan.grains.len(),
            queued: false,
            plan: Arc::clone(plan),
        };
        *lock(&self.state) = Some(state);
        match seeds {
            Seeded::Rows(making) => self.begun(*making, by),
            Seeded::Pairs(batch, exclude) => self.state().pair(batch, exclude, by),
        }
    }

    /// All rows of its last layer are known.
    pub(super) fn begun(&self, mut making: Making, by: &Finder<'_>) -> Vec<Todo> {
        let _ = self.without.set(making.take_without());
        let (mut state, mut todo) = (self.state(), Vec::new());
        let pairing = state.plan.logical.pairing();
        let found = pairing.map_or(Logical::SEED, |pairing| pairing.all);
        state.find(making.rows(), found, by, &mut todo);
        state.begun = true;
        state.making = Some(making);
        state.settle(by, &mut todo);
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

    /// All of the batch's seeds, and which of them an instance has.
    pub(super) fn seeds(&self, instance: usize) -> (Arc<Vec<u32>>, Range<usize>) {
        let pairs = self.pairs.as_ref().expect("seeds that are paired");
        let (n, grain) = (pairs.batch.len(), self.plan.seeds);
        let first = instance.saturating_mul(grain).min(n);
        let end = first.saturating_add(grain).min(n);
        (Arc::clone(&pairs.batch), first..end)
    }

    /// Draws pairs of `batch`.
    fn pair(&mut self, batch: Vec<u32>, exclude: bool, by: &Finder<'_>) -> Vec<Todo> {
        let instances = batch.len().div_ceil(self.plan.seeds).max(1);
        self.pairs = Some(Paired {
            batch: Arc::new(batch),
            exclude,
            positives: vec![None; instances],
            negatives: vec![None; instances],
        });
        let pairing = self.pairing();
        let both = |k| [(pairing.positive, k), (pairing.negative, k)];
        let all = (0..instances).flat_map(both);
        all.map(|what| self.todo(what, None, by)).collect()
    }

    /// Pairs of an instance's seeds have been drawn, with these ends.
    pub(super) fn paired(
        &mut self,
        (joined, instance): (bool, usize),
        drawn: Vec<Pair>,
        ends: &[u32],
        by: &Finder<'_>,
    ) -> Vec<Todo> {
        let pairs = self.pairs.as_mut().expect("seeds that are paired");
        let of = match joined {
            true => &mut pairs.positives,
            false => &mut pairs.negatives,
        };
        of[instance] = Some(drawn);
        let all = pairs.positives.iter().chain(&pairs.negatives);
        let whole = all.into_iter().all(Option::is_some);
        let (exclude, mut todo) = (pairs.exclude, Vec::new());
        let Pairing {
            positive,
            negative,
            all,
        } = self.pairing();
        if !exclude {
            let found = if joined { positive } else { negative };
            self.find(ends, found, by, &mut todo);
        }
        if whole {
            todo.push(self.todo((all, 0), None, by));
        }
        todo
    }

    fn pairing(&self) -> Pairing {
        let pairing = self.plan.logical.pairing();
        pairing.expect("seeds that are paired")
    }

    /// How many seeds there are, and the pairs of all: those that are joined, and those that are not.
    pub(super) fn take_pairs(&mut self) -> (usize, Vec<Pair>, Vec<Pair>) {
        let pairs = self.pairs.take().expect("taken once");
        let all = |of: Vec<Option<Vec<Pair>>>| of.into_iter().flatten().flatten().collect();
        (
            pairs.batch.len(),
            all(pairs.positives),
            all(pairs.negatives),
        )
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

    /// Edges of a layer's hop so far.
    pub(super) fn edges_of_hop(&self, layer: usize) -> usize {
        let hops = self.hops[layer].parts.iter();
        let hops = hops.filter_map(|p| p.got.as_ref());
        hops.map(|hop| hop.sources.len()).sum()
    }

    /// Rows of the features that are fetched.
    pub(super) fn rows_of_features(&self) -> usize {
        self.features.parts.iter().map(|p| p.rows.len()).sum()
    }

    /// A part of a hop has been drawn.
    pub(super) fn drawn(
        &mut self,
        layer: usize,
        part: usize,
        hop: Hop,
        by: &Finder<'_>,
    ) -> Vec<Todo> {
        let (mut todo, found) = (Vec::new(), self.plan.logical.hop(layer));
        self.find(&hop.sources, found, by, &mut todo);
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

    /// The operator at `found` has found some vertices, each of which is read: as a row of the next hop and all
    /// below, and by the features.
    fn find(&mut self, vertices: &[u32], found: Place, by: &Finder<'_>, todo: &mut Vec<Todo>) {
        let logical = &self.plan.logical;
        let features = logical.reads(logical.features(), found);
        let hops = logical.highest_hop(found).map_or(0..0, |l| 0..l + 1);
        let all = &by.shard.numbers;
        let own = all.of(self.plan.me);
        if hops.is_empty() {
            if features {
                self.find_features(vertices, by, todo);
            }
            return;
        }
        for &v in vertices {
            let is_own = own.contains(&v);
            let owner = if is_own { self.plan.me } else { all.owner(v) };
            let mut new = true;
            for layer in hops.clone().rev() {
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

    /// Some vertices are read by the features alone: most of what is found, and most of it is here or has been
    /// found before.
    fn find_features(&mut self, vertices: &[u32], by: &Finder<'_>, todo: &mut Vec<Todo>) {
        let all = &by.shard.numbers;
        let own = all.of(self.plan.me);
        // What is new cannot be foreseen, so nothing branches on it.
        let (mut news, mut count) = (vec![0; vertices.len()], 0);
        for &v in vertices {
            news[count] = v;
            count += usize::from(!own.contains(&v) & !self.features.has(v));
        }
        for &v in &news[..count] {
            if self.features.has(v) || (by.is_kept)(v) {
                continue;
            }
            let (_, cut) = self.features.want(v, all.owner(v));
            if let Some(part) = cut {
                todo.push(self.fetch(part, by));
            }
        }
    }

    /// Closes what nothing more will be found of, and says what may be done now that was not before.
    fn settle(&mut self, by: &Finder<'_>, todo: &mut Vec<Todo>) {
        let mut above = self.begun;
        for layer in (0..self.hops.len()).rev() {
            if above && !self.hops[layer].closed {
                for part in self.hops[layer].close() {
                    todo.push(self.draw(layer, part, by));
                }
            }
            above &= self.hops[layer].is_whole();
        }
        if above && !self.features.closed {
            for part in self.features.close() {
                todo.push(self.fetch(part, by));
            }
        }
        if !self.queued
            && self.making.is_some()
            && let Some(place) = self.follows()
        {
            self.queued = true;
            todo.push(self.todo((place, 0), None, by));
        }
    }

    /// The next block, or the end, if what it is made of is there.
    fn follows(&self) -> Option<Place> {
        let logical = &self.plan.logical;
        match self.left.checked_sub(1) {
            Some(layer) => self.hops[layer].is_whole().then(|| logical.block(layer)),
            None => self.features.is_whole().then(|| logical.end()),
        }
    }

    fn draw(&self, layer: usize, part: usize, by: &Finder<'_>) -> Todo {
        let Part { owner, rows, .. } = &self.hops[layer].parts[part];
        let place = self.plan.logical.hop(layer);
        self.todo((place, part), Some((*owner, rows)), by)
    }

    fn fetch(&self, part: usize, by: &Finder<'_>) -> Todo {
        let Part { owner, rows, .. } = &self.features.parts[part];
        let place = self.plan.logical.features();
        self.todo((place, part), Some((*owner, rows)), by)
    }

    /// An instance, of rows of some owner if it is of rows.
    fn todo(&self, what: (Place, usize), of: Option<(usize, &Vec<u32>)>, by: &Finder<'_>) -> Todo {
        let others = of.filter(|&(owner, _)| owner != self.plan.me);
        Todo {
            what,
            cost: self.plan.logical.operator(what.0).cost(self, what.1, by),
            ask: others.map(|(owner, rows)| (owner, rows.clone())),
        }
    }
}
