//! Algorithm 2 once more, for all ranks one after the other in one thread, in `f64` and plain lists. Shared with
//! the strategy are the draws of neighbours, the keys of dropout and of what is left out, and nothing else;
//! gradients are central differences, in which rows of caches do not move.

mod forward;

use super::super::frames::HecRow;
use crate::dataset::{Dataset, Features};
use crate::rng::{self, Purpose};
use crate::sample::Sampler;
use crate::spec::RunSpec;
use kernels::Par;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

type M = ndarray::Array2<f64>;
type Row = Vec<f64>;

/// By how much a weight is moved to either side.
const STEP: f64 = 1e-6;

/// Vertex, step and row of each line, the oldest first.
type Lines = Vec<(u32, u64, Row)>;

/// Step, layer, sender and receiver.
type Way = (u64, usize, usize, usize);

/// What the oracle runs.
pub(super) struct Setting<'a> {
    pub(super) spec: &'a RunSpec,
    pub(super) data: &'a Dataset,
    pub(super) owner: &'a [u32],
    /// Whether what the first layer reads of a rank's own comes in the order of its numbers.
    pub(super) in_place: bool,
}

struct Rank {
    /// Its vertices in the order of their numbers, and those that are trained.
    own: Vec<u32>,
    train: Vec<u32>,
    caches: Vec<Lines>,
    /// By layer, what an epoch came to.
    said: Vec<HecRow>,
    ages: Vec<u64>,
}

impl Rank {
    /// An epoch begins.
    fn begin(&mut self, spec: &RunSpec) {
        self.said = (0..spec.layers).map(nothing).collect();
        self.ages = vec![0; spec.layers];
        if !spec.knobs.flag("persistent") {
            self.caches.iter_mut().for_each(Vec::clear);
        }
    }
}

/// A batch of a rank.
struct Drawn {
    /// By layer, the vertices that it makes, and those that it reads of the layer below.
    rows: Vec<Vec<u32>>,
    below: Vec<Vec<u32>>,
    /// By layer and row, sources with their weights.
    edges: Vec<Vec<Vec<(u32, f64)>>>,
    /// By layer, the rows of the cache.
    cached: Vec<HashMap<u32, Row>>,
}

pub(super) struct Oracle<'a> {
    of: Setting<'a>,
    features: M,
    sampler: Sampler,
    in_degree: Vec<u32>,
    /// By rank, who reads its vertices.
    readers: HashMap<u32, Vec<usize>>,
    ranks: Vec<Rank>,
    pub(super) weights: Vec<Vec<M>>,
    pub(super) gradients: Vec<Vec<M>>,
    flying: BTreeMap<Way, Vec<(u32, Row)>>,
    steps: u64,
    /// Features that have been sent: of whom, and to whom.
    told: HashSet<(u32, usize)>,
    /// By step of the last epoch, seeds with their losses.
    pub(super) log: Vec<HashMap<u32, f64>>,
}

/// What a HEC does with a row.
fn store(lines: &mut Lines, room: usize, (vertex, now, row): (u32, u64, Row), said: &mut HecRow) {
    let known = lines.iter().position(|line| line.0 == vertex);
    match known {
        Some(k) => {
            lines.remove(k);
            said.rows_renewed += 1;
        }
        None if room == 0 => {
            said.rows_refused += 1;
            return;
        }
        None if lines.len() == room => {
            lines.remove(0);
            said.rows_evicted += 1;
        }
        None => said.rows_added += 1,
    }
    lines.push((vertex, now, row));
}

impl<'a> Oracle<'a> {
    pub(super) fn new(of: Setting<'a>, weights: Vec<Vec<M>>, sampler: Sampler) -> Oracle<'a> {
        let Setting {
            spec, data, owner, ..
        } = of;
        let n = data.graph.n();
        let Features::Dense(x) = &data.features else {
            panic!("its features are dense")
        };
        let propagation = data.graph.propagation(spec.model.propagation());
        let edges = propagation.csr();
        let remote = |v: &u32| {
            let sources = &edges.indices[edges.span(*v as usize)];
            sources
                .iter()
                .any(|&u| owner[u as usize] != owner[*v as usize])
        };
        let mut readers: HashMap<u32, Vec<usize>> = HashMap::new();
        for v in 0..n {
            for &u in &edges.indices[edges.span(v)] {
                let reader = owner[v] as usize;
                let all = readers.entry(u).or_default();
                if owner[u as usize] as usize != reader && !all.contains(&reader) {
                    all.push(reader);
                }
            }
        }
        let rank = |r: usize| {
            let mine = || (0..n as u32).filter(move |&v| owner[v as usize] as usize == r);
            let inner = mine().filter(|v| !remote(v));
            let own: Vec<u32> = inner.chain(mine().filter(remote)).collect();
            Rank {
                train: own
                    .iter()
                    .copied()
                    .filter(|&v| data.train[v as usize])
                    .collect(),
                own,
                caches: vec![Vec::new(); spec.layers],
                said: Vec::new(),
                ages: Vec::new(),
            }
        };
        let ranks: Vec<Rank> = (0..spec.ranks).map(rank).collect();
        let most = ranks.iter().map(|r| r.train.len()).max().unwrap_or(0);
        let steps = match spec.knobs.count("batch") {
            0 => 1,
            batch => most.div_ceil(batch).max(1) as u64,
        };
        Oracle {
            features: x.mapv(f64::from),
            sampler,
            in_degree: (0..n).map(|v| edges.span(v).len() as u32).collect(),
            readers,
            ranks,
            weights,
            gradients: Vec::new(),
            flying: BTreeMap::new(),
            steps,
            told: HashSet::new(),
            log: Vec::new(),
            of,
        }
    }

    fn count(&self, knob: &str) -> usize {
        self.of.spec.knobs.count(knob)
    }

    /// How many vertices of others a rank reads.
    fn halo(&self, r: usize) -> usize {
        self.readers
            .values()
            .filter(|readers| readers.contains(&r))
            .count()
    }

    fn fetches(&self) -> bool {
        self.of.spec.knobs.word("on_miss") == "fetch"
    }

    /// An epoch: by rank, the sum of its losses and the rows of the frame.
    pub(super) fn epoch(&mut self, epoch: u64) -> Vec<(f64, Vec<HecRow>)> {
        self.ranks
            .iter_mut()
            .for_each(|rank| rank.begin(self.of.spec));
        self.log.clear();
        let mut losses = vec![0.0; self.ranks.len()];
        for k in 0..self.steps {
            self.step(epoch, k, &mut losses);
        }
        let said = self.ranks.iter_mut().map(|rank| {
            for (layer, said) in rank.said.iter_mut().enumerate() {
                said.lines = rank.caches[layer].len() as u64;
                if said.lookups > 0 {
                    said.hit_pct = Some(100.0 * said.hits as f64 / said.lookups as f64);
                }
                if said.hits > 0 {
                    said.age_mean_steps = Some(rank.ages[layer] as f64 / said.hits as f64);
                }
            }
            std::mem::take(&mut rank.said)
        });
        losses.into_iter().zip(said).collect()
    }

    fn step(&mut self, epoch: u64, k: u64, losses: &mut [f64]) {
        let (delay, now) = (self.count("d") as u64, epoch * self.steps + k);
        let pushes = self.count("cs") > 0 && self.count("nc") > 0;
        if k >= delay {
            (0..self.ranks.len()).for_each(|r| self.receive(r, now, pushes));
        }
        let drawn: Vec<Drawn> = (0..self.ranks.len())
            .map(|r| self.draw(r, (epoch, k), k >= delay))
            .collect();
        let made: Vec<(Vec<M>, Row)> = (0..drawn.len())
            .map(|r| self.forward(&drawn[r], epoch))
            .collect();
        if pushes && k + delay < self.steps {
            for (r, (batch, (made, _))) in drawn.iter().zip(&made).enumerate() {
                self.push(r, batch, made, (epoch, now));
            }
        }
        let seeds: usize = drawn.iter().map(|d| d.rows[d.rows.len() - 1].len()).sum();
        let mut log = HashMap::new();
        for ((sum, (_, loss)), batch) in losses.iter_mut().zip(&made).zip(&drawn) {
            *sum += loss.iter().sum::<f64>();
            let seeds = batch.rows.last().expect("a layer");
            log.extend(seeds.iter().copied().zip(loss.iter().copied()));
        }
        self.log.push(log);
        if self.of.spec.lr > 0.0 {
            self.learn(&drawn, epoch, seeds.max(1) as f64);
        }
    }

    /// What was sent `d` steps before is stored, after what is too old has gone.
    fn receive(&mut self, r: usize, now: u64, pushes: bool) {
        let (room, life) = (self.count("cs"), self.count("ls") as u64);
        let ages = self.of.spec.knobs.flag("age_features");
        let sent = now - self.count("d") as u64;
        // There are no more lines than vertices that may be looked for.
        let halo = self.halo(r);
        for layer in 0..self.of.spec.layers {
            let Rank { caches, said, .. } = &mut self.ranks[r];
            let (lines, said) = (&mut caches[layer], &mut said[layer]);
            if layer > 0 || ages {
                let before = lines.len();
                lines.retain(|line| now - line.1 <= life);
                said.rows_expired += (before - lines.len()) as u64;
            }
            for from in (0..self.of.spec.ranks).filter(|_| pushes) {
                for (vertex, row) in self
                    .flying
                    .remove(&(sent, layer, from, r))
                    .unwrap_or_default()
                {
                    store(lines, room.min(halo), (vertex, now, row), said);
                }
            }
        }
    }

    /// The batch of a rank; edges to what is nowhere are gone.
    fn draw(&mut self, r: usize, (epoch, k): (u64, u64), open: bool) -> Drawn {
        let (layers, steps, seed) = (self.of.spec.layers, self.steps, self.of.spec.seed);
        let mut order = self.ranks[r].train.clone();
        if steps > 1 {
            rng::shuffle(rng::key(seed, epoch, Purpose::Shuffle, 0), &mut order);
        }
        let bound = |k: u64| (order.len() as u64 * k / steps) as usize;
        let mut rows = order[bound(k)..bound(k + 1)].to_vec();
        let now = epoch * steps + k;
        let (fetches, rescale) = (self.fetches(), !self.of.spec.model.attends());
        let mut drawn = Drawn {
            rows: vec![Vec::new(); layers],
            below: vec![Vec::new(); layers],
            edges: vec![Vec::new(); layers],
            cached: vec![HashMap::new(); layers],
        };
        for layer in (0..layers).rev() {
            let hop = self.sampler.draw(layer, (epoch, k), &rows, &Par::new(1));
            let Rank {
                caches,
                said,
                ages,
                own,
                ..
            } = &mut self.ranks[r];
            let said = &mut said[layer];
            let mut below = rows.clone();
            let mut asked: Vec<u32> = Vec::new();
            for (row, span) in hop.indptr.windows(2).enumerate() {
                let span = span[0] as usize..span[1] as usize;
                let mut kept = Vec::new();
                for e in span.clone() {
                    let (u, weight) = (hop.sources[e], hop.weights.as_ref().map_or(1.0, |w| w[e]));
                    said.edges += 1;
                    let is_own = own.contains(&u);
                    let line = caches[layer].iter().find(|l| l.0 == u && open && !is_own);
                    if !is_own && open && !asked.contains(&u) {
                        asked.push(u);
                        said.lookups += 1;
                        if let Some(line) = line {
                            said.hits += 1;
                            ages[layer] += now - line.1;
                            said.age_max_steps =
                                Some(said.age_max_steps.unwrap_or(0).max(now - line.1));
                        }
                    }
                    match line {
                        Some(line) if !rows.contains(&u) => {
                            drawn.cached[layer].insert(u, line.2.clone());
                        }
                        None if !is_own && !fetches => {
                            said.edges_dropped += 1;
                            continue;
                        }
                        _ if !below.contains(&u) => below.push(u),
                        _ => {}
                    }
                    kept.push((u, f64::from(weight)));
                }
                if rescale {
                    let by = span.len() as f64 / kept.len() as f64;
                    kept.iter_mut().for_each(|(_, w)| *w *= by);
                }
                assert_eq!(drawn.edges[layer].len(), row);
                drawn.edges[layer].push(kept);
            }
            drawn.rows[layer] = rows;
            rows = below.clone();
            drawn.below[layer] = below;
        }
        drawn
    }

    /// The rows of a batch that peers read leave for them.
    fn push(&mut self, r: usize, batch: &Drawn, made: &[M], (epoch, now): (u64, u64)) {
        let most = self.count("nc");
        for (layer, made) in made.iter().enumerate() {
            let below = batch.below[layer].iter().copied().enumerate();
            let mut own: Vec<(usize, u32)> = below
                .filter(|(_, v)| self.ranks[r].own.contains(v))
                .collect();
            let all_own = self.ranks[r].own.clone();
            let number = |v: u32| all_own.iter().position(|&u| u == v);
            if layer == 0 && self.of.in_place {
                own.sort_by_key(|&(_, v)| number(v));
            }
            let reads =
                |v: u32, peer: usize| self.readers.get(&v).is_some_and(|r| r.contains(&peer));
            for peer in (0..self.of.spec.ranks).filter(|&p| p != r) {
                if !self.ranks[r].own.iter().any(|&v| reads(v, peer)) {
                    continue;
                }
                let mut rows: Vec<(usize, u32)> = own
                    .iter()
                    .copied()
                    .filter(|&(_, v)| reads(v, peer))
                    .collect();
                let all = rows.len();
                if all > most {
                    let key = rng::key(self.of.spec.seed, epoch, Purpose::Push, layer as u64);
                    let key = rng::at(rng::at(key, now), peer as u64);
                    let arrives = |v: u32| {
                        let place = number(v).expect("its own") as u64;
                        let drawn = rng::uniform_f32(key, place);
                        -(1.0 - drawn).ln() / self.in_degree[v as usize].max(1) as f32
                    };
                    let mut by: Vec<f32> = rows.iter().map(|&(_, v)| arrives(v)).collect();
                    by.sort_by(f32::total_cmp);
                    rows.retain(|&(_, v)| arrives(v) < by[most]);
                }
                let width = made.ncols();
                // Whoever has room for all that it reads gets features once.
                let roomy = layer == 0 && self.halo(peer) <= self.count("cs");
                let come = match roomy {
                    true => rows
                        .iter()
                        .filter(|row| self.told.insert((row.1, peer)))
                        .count(),
                    false => rows.len(),
                };
                let said = &mut self.ranks[r].said[layer];
                said.rows_pushed += rows.len() as u64;
                said.rows_left_out += (all - rows.len()) as u64;
                said.letters += 1;
                said.bytes += 4 * (1 + rows.len() + come * width) as u64;
                let row = |&(k, v): &(usize, u32)| match layer {
                    0 => (v, self.features.row(v as usize).to_vec()),
                    _ => (v, made.row(k).to_vec()),
                };
                let rows = rows.iter().map(row).collect();
                self.flying.insert((now, layer, r, peer), rows);
            }
        }
    }

    /// One step down the gradient of the mean loss.
    fn learn(&mut self, drawn: &[Drawn], epoch: u64, seeds: f64) {
        let shapes = self
            .weights
            .iter()
            .map(|of| of.iter().map(M::dim).collect::<Vec<_>>());
        let shapes: Vec<Vec<(usize, usize)>> = shapes.collect();
        let gradient =
            |oracle: &mut Oracle<'_>, (layer, tensor, at): (usize, usize, (usize, usize))| {
                let mut loss = |by: f64| -> f64 {
                    let before = oracle.weights[layer][tensor][at];
                    oracle.weights[layer][tensor][at] = before + by;
                    let all = drawn
                        .iter()
                        .flat_map(|batch| oracle.forward(batch, epoch).1);
                    let sum = all.sum();
                    oracle.weights[layer][tensor][at] = before;
                    sum
                };
                (loss(STEP) - loss(-STEP)) / (2.0 * STEP * seeds)
            };
        let mut gradients = Vec::new();
        for (layer, of) in shapes.iter().enumerate() {
            let each = of.iter().enumerate().map(|(tensor, &shape)| {
                M::from_shape_fn(shape, |at| gradient(self, (layer, tensor, at)))
            });
            gradients.push(each.collect::<Vec<M>>());
        }
        let lr = self.of.spec.lr;
        for (weights, gradients) in self.weights.iter_mut().zip(&gradients) {
            for (w, g) in weights.iter_mut().zip(gradients) {
                w.scaled_add(-lr, g);
            }
        }
        self.gradients = gradients;
    }
}

fn nothing(layer: usize) -> HecRow {
    HecRow {
        layer: layer as u16,
        lookups: 0,
        hits: 0,
        hit_pct: None,
        edges: 0,
        edges_dropped: 0,
        age_mean_steps: None,
        age_max_steps: None,
        rows_pushed: 0,
        rows_left_out: 0,
        rows_renewed: 0,
        rows_added: 0,
        rows_evicted: 0,
        rows_refused: 0,
        rows_expired: 0,
        lines: 0,
        letters: 0,
        bytes: 0,
        pre_ms: 0.0,
        comm_ms: 0.0,
        post_ms: 0.0,
        error_rel: None,
    }
}

/// What neighbours are drawn from: the whole graph.
pub(super) fn sampler(spec: &RunSpec, data: &Dataset) -> Sampler {
    let block = Arc::new(data.graph.propagation(spec.model.propagation()));
    let settings = super::super::settings(spec).expect("readable");
    let sampler = Sampler::new(block, settings.neighbours.fan_outs, spec.seed);
    match spec.model.attends() {
        true => sampler.unweighted(),
        false => sampler,
    }
}
