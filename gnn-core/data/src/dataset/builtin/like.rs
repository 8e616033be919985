//! Look-alikes of published data sets: their ratio of edges to vertices, widths, classes, degree tail,
//! homophily and split, at any scale, without a byte of the data itself.
//!
//! Vertices belong to communities, several a class. The vertex of rank `r` in its type is an end of
//! an edge with a chance that falls like `r^-s`, so that degrees have a power-law tail with the
//! exponent `1 + 1/s`; `s` is what gives the first vertex the published largest degree. The other end
//! is drawn in the same way from the same community or from all. Ranks are spread over ids and
//! communities, so nothing needs a table of weights.
//!
//! # Measured
//! What training reaches on each: `notebooks/measured/data.md`. GCN finds nothing on squirrel, whose neighbours
//! are of other classes, nor on amazon. ogbn-papers100M, ogbn-mag, mag-lsc and amazon have features 6 to 25 times
//! as strong (`signal` in `published`), without which little was learnt at small scales, and training vertices
//! that are spread evenly over classes which have few.
//!
//! # Differs
//! Triangles, directed in- and out-degrees of one vertex, and locality of ids are not imitated; the
//! sizes of communities are alike; relations of a typed graph share one tail.

mod published;

use kernels::CsrBuf;
use rayon::prelude::*;

use self::published::{ALL, Published, Width};
use super::rmat::Shuffle;
use super::{Key, Keys, Sizes, normal_features, split, split_by};
use crate::dataset::{About, Dataset, Features, Task};
use crate::graph::{EdgeOptions, Graph, Relations, SelfLoops};
use crate::rng::{self, Purpose};
use crate::{Error, Result};

const KEYS: [Key; 1] = [Key::number("scale", 1.0, 0.0, 1.0)];

/// Edges of a look-alike at most, and elements of its features.
const MAX_EDGES: f64 = super::MAX_EDGES;
const MAX_ELEMENTS: f64 = super::MAX_ELEMENTS;

/// Neighbours that a community has for each one of a vertex, where there are enough vertices.
const ROOM: f64 = 8.0;

/// Training vertices that a class has, below which they are spread over the classes evenly.
const FEW: f64 = 20.0;

/// Share of a vertex's words that are its class's own.
const OWN_WORDS: f64 = 0.3;

/// Names and descriptions of all look-alikes, as they are written.
pub fn names() -> impl Iterator<Item = (String, String)> {
    ALL.iter().map(|p| {
        let types = p.types.iter().map(|t| format!("{} {}", t.count, t.name));
        let types: Vec<String> = types.collect();
        let types = types.join(", ");
        let about = format!("{}: {types}, {} edges in the original", p.about, p.edges());
        (format!("like:{}", p.name), about)
    })
}

/// `like:NAME`, perhaps with `,scale=…`.
pub(super) fn make(name: &str, spec: &str, seed: u64) -> Result<Dataset> {
    let (which, rest) = spec.split_once(',').unwrap_or((spec, ""));
    let known: Vec<&str> = ALL.iter().map(|p| p.name).collect();
    let found = ALL.iter().find(|p| p.name == which.trim());
    let like = found.ok_or_else(|| Error::unknown("look-alike", which.trim(), &known))?;
    let keys = Keys::parse("like", &KEYS, rest)?;
    let world = World::new(like, keys.number("scale"), seed)?;
    let (graph, node_types) = world.graph()?;
    let labelled = world.labels();
    let n = graph.n();
    let papers = world.counts[0] as usize;
    let mut masks = world.masks(&labelled[..papers]);
    masks.iter_mut().for_each(|m| m.resize(n, false));
    let [train, val, test] = masks;
    let features = world.features(&labelled);
    let known = |v: usize| train[v] || val[v] || test[v];
    let labels: Vec<i32> = (0..n)
        .into_par_iter()
        .map(|v| match (known(v), like.several) {
            (false, _) => -1,
            (true, true) => 0,
            (true, false) => labelled[v] as i32,
        })
        .collect();
    let multi_labels = like.several.then(|| world.several(&labelled));
    Ok(Dataset {
        name: format!("{name} (synthetic)"),
        graph,
        features,
        labels,
        n_classes: like.classes,
        train,
        val,
        test,
        synthetic: true,
        task: if like.several {
            Task::MultiLabel
        } else {
            Task::NodeClassification
        },
        multi_labels,
        node_types,
        links: None,
        about: About::default(),
    })
}

/// Vertices at least: a quarter of all pairs are edges, and there are some of every part and class.
fn least(like: &Published) -> f64 {
    let degree = like.edges() as f64 / like.vertices() as f64;
    let some = (4.0 * degree).max(4.0 * like.classes as f64);
    some.max(16.0 * like.vertices() as f64 / like.types[0].count as f64 / like.split[0])
}

/// The size of `NAME,scale=…`, and its parts of it.
pub(super) fn sizes(spec: &str) -> Option<Sizes> {
    let (which, rest) = spec.split_once(',').unwrap_or((spec, ""));
    let like = ALL.iter().find(|p| p.name == which.trim())?;
    let scale = Keys::parse("like", &KEYS, rest).ok()?.number("scale");
    let width = match like.width {
        Width::Dense(d) => d as f64,
        Width::Words(count, _) => count as f64,
    };
    let whole = like.vertices() as f64;
    Some(Sizes {
        edges: scale * like.edges() as f64,
        elements: scale * whole * width,
        least: least(like) / whole / scale,
        part: Box::new(move |share| format!("like:{},scale={}", like.name, scale * share)),
    })
}

/// A look-alike at a scale.
struct World {
    like: &'static Published,
    seed: u64,
    /// Vertices of each type, and where their ids start.
    counts: Vec<u64>,
    starts: Vec<u64>,
    /// Edges of each relation.
    edges: Vec<u64>,
    /// Ids within each type by rank.
    orders: Vec<Order>,
    communities: u64,
    /// Share of edges drawn within a community, before chance adds some.
    inside: f64,
    /// Ranks are drawn as `n · u^power`.
    power: f64,
}

impl World {
    fn new(like: &'static Published, scale: f64, seed: u64) -> Result<World> {
        let wrong = |reason: String, help: String| Error::Spec {
            key: format!("data = like:{}", like.name),
            reason,
            help,
        };
        let shrink = |count: u64| (count as f64 * scale).round().max(1.0) as u64;
        let counts: Vec<u64> = like.types.iter().map(|t| shrink(t.count)).collect();
        let edges: Vec<u64> = like.relations.iter().map(|r| shrink(r.count)).collect();
        let (n, m) = (counts.iter().sum::<u64>(), edges.iter().sum::<u64>());
        let degree = like.edges() as f64 / like.vertices() as f64;
        let least = least(like);
        if (n as f64) < least {
            let smallest = least / like.vertices() as f64;
            return Err(wrong(
                format!("{n} vertices are too few for its degrees, classes and split"),
                format!("use scale={smallest:.1e} at least"),
            ));
        }
        let width = match like.width {
            Width::Dense(d) => d,
            Width::Words(_, words) => words,
        };
        let stored = m as f64 * if like.is_typed() { 2.0 } else { 1.0 };
        let share = (MAX_EDGES / stored).min(MAX_ELEMENTS / (n as f64 * width as f64));
        if share < 1.0 {
            return Err(wrong(
                format!("{n} vertices and {stored} edges are too many"),
                format!("use scale={:.1e} at most", scale * share * 0.99),
            ));
        }
        let size = (ROOM * degree).max(256.0);
        let each = (n as f64 / size / like.classes as f64).floor().max(1.0);
        let communities = each as u64 * like.classes as u64;
        // The first vertex of n gets the share n^-(1-s) of all edges.
        let largest = like.largest as f64 / like.edges() as f64;
        let slope = -largest.ln() / (like.vertices() as f64).ln();
        let chance = 1.0 / like.classes as f64;
        let within = ((like.homophily - chance) / (1.0 - chance)).max(0.0);
        let room = n as f64 / communities as f64 / degree / 2.0;
        Ok(World {
            like,
            seed,
            starts: counts
                .iter()
                .scan(0, |next, &count| {
                    *next += count;
                    Some(*next - count)
                })
                .collect(),
            orders: (0..counts.len() as u64)
                .map(|t| Order::new(counts[t as usize], rng::key(seed, 0, Purpose::Shuffle, t)))
                .collect(),
            counts,
            edges,
            communities,
            inside: within.min(room),
            power: 1.0 / slope.clamp(0.2, 1.0),
        })
    }

    /// Where a vertex of this rank among `n` is drawn from.
    fn rank(&self, n: u64, u: f64) -> u64 {
        ((n as f64 * u.powf(self.power)) as u64).min(n - 1)
    }

    /// The `e`-th drawn edge of relation `r`.
    fn edge(&self, r: usize, e: u64) -> (u32, u32) {
        let key = rng::key(self.seed, 0, Purpose::Graph, r as u64);
        let u = |k: u64| rng::uniform_f64(key, 3 * e + k);
        let relation = &self.like.relations[r];
        let (from, to) = (self.counts[relation.from], self.counts[relation.to]);
        let src = self.rank(from, u(0));
        let community = src % self.communities;
        let members = (to + self.communities - 1).saturating_sub(community) / self.communities;
        let dst = if members > 0 && u(1) < self.inside {
            self.rank(members, u(2)) * self.communities + community
        } else {
            self.rank(to, u(2))
        };
        let id = |t: usize, rank: u64| (self.starts[t] + self.orders[t].id(rank)) as u32;
        (id(relation.from, src), id(relation.to, dst))
    }

    /// One relation as a simple graph: drawn again with more where repeats made it too small.
    fn relation(&self, r: usize) -> Result<Graph> {
        let symmetrise = self.like.both_directions;
        let options = EdgeOptions {
            symmetrise,
            dedup: true,
            self_loops: SelfLoops::Drop,
        };
        let wanted = self.edges[r] as f64;
        let mut draws = wanted / if symmetrise { 2.0 } else { 1.0 };
        let n = self.counts.iter().sum::<u64>() as usize;
        for round in 0.. {
            let ends = (0..draws as u64).into_par_iter().map(|e| self.edge(r, e));
            let (src, dst): (Vec<u32>, Vec<u32>) = ends.unzip();
            let graph = Graph::from_edges(n, &src, &dst, options)?;
            let got = graph.n_edges().max(1) as f64;
            if got >= 0.98 * wanted || round == 3 {
                return Ok(graph);
            }
            // Repeats become more frequent, so a little more than in proportion.
            draws *= 1.0 + 1.2 * (wanted / got - 1.0);
        }
        unreachable!("the last round returns")
    }

    /// The graph, typed with inverse relations where the original has types, and types of vertices.
    fn graph(&self) -> Result<(Graph, Option<Vec<u16>>)> {
        if !self.like.is_typed() {
            return Ok((self.relation(0)?, None));
        }
        let (mut src, mut dst, mut types) = (Vec::new(), Vec::new(), Vec::new());
        for r in 0..self.like.relations.len() {
            let graph = self.relation(r)?;
            src.extend_from_slice(graph.indices());
            dst.extend(
                (0..graph.n()).flat_map(|v| std::iter::repeat_n(v as u32, graph.in_degree(v))),
            );
            types.resize(src.len(), r as u16);
        }
        let relations = Relations::new(types, self.like.relations.len())?.with_inverses()?;
        let both = |a: &[u32], b: &[u32]| [a, b].concat();
        let n = self.counts.iter().sum::<u64>() as usize;
        let graph = Graph::from_typed_edges(n, &both(&src, &dst), &both(&dst, &src), &relations)?;
        let types = self.counts.iter().enumerate();
        let types = types.flat_map(|(t, &count)| std::iter::repeat_n(t as u16, count as usize));
        Ok((graph, Some(types.collect())))
    }

    /// The class of every vertex, also of those whose label is not given away.
    fn labels(&self) -> Vec<u32> {
        let mut labels = vec![0; self.counts.iter().sum::<u64>() as usize];
        for (t, order) in self.orders.iter().enumerate() {
            for rank in 0..self.counts[t] {
                let class = rank % self.communities % self.like.classes as u64;
                labels[(self.starts[t] + order.id(rank)) as usize] = class as u32;
            }
        }
        labels
    }

    /// Who trains, validates and tests among the vertices of these classes: at random, but where classes
    /// have few to train on, about as many of each.
    fn masks(&self, labels: &[u32]) -> [Vec<bool>; 3] {
        let (n, shares) = (labels.len(), self.like.split);
        if n as f64 * shares[0] >= FEW * self.like.classes as f64 {
            return split(n, self.seed, shares);
        }
        let key = rng::key(self.seed, 0, Purpose::Split, 0);
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.par_sort_unstable_by_key(|&v| (labels[v as usize], rng::at(key, u64::from(v)), v));
        let mut place = vec![0u32; n];
        (0..).zip(&order).for_each(|(k, &v)| place[v as usize] = k);
        // Every time that a share of one more vertex is full, in the order of classes.
        let full = |k: u32| (f64::from(k) * shares[0] + 0.5).floor();
        split_by(n, shares, |v| match full(place[v] + 1) > full(place[v]) {
            true => 0.0,
            false => shares[0] + (1.0 - shares[0]) * rng::uniform_f64(key, v as u64),
        })
    }

    /// A second class beside the first for half of the vertices: `[n · classes]`.
    fn several(&self, labels: &[u32]) -> Vec<u8> {
        let classes = self.like.classes;
        let key = rng::key(self.seed, 0, Purpose::Labels, 1);
        let mut out = vec![0; labels.len() * classes];
        out.par_chunks_mut(classes)
            .enumerate()
            .for_each(|(v, row)| {
                let first = labels[v] as usize;
                row[first] = 1;
                if rng::uniform_f64(key, v as u64) < 0.5 {
                    // The same one for all of a class, so that it can be learned.
                    row[(first * 7 + 3) % classes] = 1;
                }
            });
        out
    }

    fn features(&self, labels: &[u32]) -> Features {
        let (n, classes) = (labels.len(), self.like.classes);
        match self.like.width {
            Width::Dense(d) => {
                let means = rng::key(self.seed, 0, Purpose::Features, 1);
                let scale = self.like.signal / (d as f32).sqrt();
                let count = (classes * d) as u64;
                let means: Vec<f32> = (0..count).map(|c| rng::normal(means, c) * scale).collect();
                Features::Dense(normal_features(n, d, self.seed, |v, x| {
                    let mean = &means[labels[v] as usize * d..][..d];
                    x.iter_mut().zip(mean).for_each(|(x, m)| *x += m);
                }))
            }
            Width::Words(columns, words) => {
                let key = rng::key(self.seed, 0, Purpose::Features, 0);
                let own = columns / classes;
                let row = |v: usize| -> Vec<u32> {
                    let mut row: Vec<u32> = (0..words as u64)
                        .map(|k| {
                            let at = (v * words) as u64 + k;
                            let word = rng::below(key, 2 * at, columns as u64) as usize;
                            let is_own = rng::uniform_f64(key, 2 * at + 1) < OWN_WORDS;
                            let block = labels[v] as usize * own;
                            (if is_own { block + word % own } else { word }) as u32
                        })
                        .collect();
                    row.sort_unstable();
                    row.dedup();
                    row
                };
                let rows: Vec<Vec<u32>> = (0..n).into_par_iter().map(row).collect();
                let mut out = CsrBuf::empty(columns);
                for row in rows {
                    out.indices.extend(row);
                    out.indptr.push(out.indices.len() as u64);
                }
                Features::Sparse(out)
            }
        }
    }
}

/// A random-looking bijection of `0..n`.
struct Order {
    n: u64,
    shuffle: Shuffle,
}

impl Order {
    fn new(n: u64, seed: u64) -> Order {
        let bits = n.next_power_of_two().trailing_zeros();
        let shuffle = Shuffle::new(bits, seed);
        Order { n, shuffle }
    }

    fn id(&self, rank: u64) -> u64 {
        // A bijection of the next power of two, walked until it lands below n: at most every second
        // number is above it, and the walk is a cycle that `rank` itself is on.
        let mut id = rank;
        loop {
            id = u64::from(self.shuffle.apply(id));
            if id < self.n {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests;
