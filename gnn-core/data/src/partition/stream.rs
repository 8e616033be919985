//! One pass over the vertices, each put where a score is highest: what LDG and Fennel share.

use std::collections::BTreeSet;

use crate::Result;
use crate::clock::thread_cpu_ns;
use crate::graph::Graph;
use crate::knobs::{Knob, Value};
use crate::partition::Request;
use crate::partition::undirected::undirected;
use crate::rng::{self, Purpose};

/// In which order vertices arrive.
pub(super) const ORDER: Knob = Knob {
    name: "order",
    default: "random",
    doc: "order of the vertices: random (by the seed) or natural (by id)",
    check: |v| matches!(v, Value::Str(s) if s == "random" || s == "natural"),
};

/// How full a part may become.
pub(super) const SLACK: Knob = Knob {
    name: "slack",
    default: "0.1",
    doc: "vertices a part may have above n / parts, as a share of it",
    check: |v| v.as_f64().is_some_and(|x| (0.0..=1e6).contains(&x)),
};

/// Most vertices of a part: `⌈(1 + slack) · n / parts⌉`.
pub(super) fn capacity(n: usize, parts: usize, slack: f64) -> usize {
    (((1.0 + slack) * n as f64 / parts as f64).ceil() as usize).max(n.div_ceil(parts))
}

/// What a method likes of a part, by a vertex's neighbours there and the vertices there. It must fall
/// with the second, so that among parts without a neighbour the emptiest is best.
pub(super) trait Score: Fn(f64, f64) -> f64 {}

impl<F: Fn(f64, f64) -> f64> Score for F {}

/// Puts each vertex in turn into the part that is not full where `score` is highest; of equal ones into
/// the one with fewer vertices, then the lower. Neighbours are counted in both directions.
pub(super) fn stream(request: &Request, capacity: usize, score: impl Score) -> Result<Vec<u32>> {
    let graph = undirected(request.graph)?;
    let (n, parts) = (graph.n(), request.parts);
    let mut order: Vec<u32> = (0..n as u32).collect();
    if request.word("order") == "random" {
        rng::shuffle(rng::key(request.seed, 0, Purpose::Partition, 3), &mut order);
    }
    let mut pass = Pass::new(&graph, vec![NOWHERE; n], parts, capacity);
    for &v in &order {
        pass.put(v, &score);
    }
    Ok(pass.owner)
}

/// Edges that a sample has, about.
const SAMPLE: usize = 1 << 16;

/// What an edge of a whole pass takes for every time that one of a sample takes, which finds all neighbours put
/// already.
const WHOLE: f64 = 0.92;

/// Nanoseconds of this processor for an edge of that graph: some vertices are put where a pass would put
/// them that has put all others already, anywhere.
pub(super) fn ns_an_edge(request: &Request, capacity: usize, score: impl Score) -> f64 {
    let (graph, parts) = (request.graph, request.parts);
    let key = rng::key(request.seed, 0, Purpose::Partition, 6);
    let n = graph.n() as u64;
    let anywhere = |v: u64| rng::below(key, v, parts as u64) as u32;
    let owner: Vec<u32> = (0..n).map(anywhere).collect();
    let sample = |first: u64| {
        let mut pass = Pass::new(graph, owner.clone(), parts, capacity);
        let mut edges = 0;
        let began = thread_cpu_ns();
        for draw in first..first + n {
            let v = rng::below(key, n + draw, n) as u32;
            pass.put(v, &score);
            edges += graph.in_degree(v as usize) + 1;
            if edges >= SAMPLE {
                break;
            }
        }
        let took = (thread_cpu_ns() - began) as f64;
        std::hint::black_box(&pass.owner);
        took / edges.max(1) as f64
    };
    // Others vertices each time; the best counts, since what others do and a processor that wakes up only add.
    let best = (0..3).map(|k| sample(k * n)).fold(f64::INFINITY, f64::min);
    WHOLE * best
}

const NOWHERE: u32 = u32::MAX;

/// Where vertices were put so far.
struct Pass<'a> {
    graph: &'a Graph,
    capacity: usize,
    owner: Vec<u32>,
    /// Vertices of each part that this pass has put.
    size: Vec<usize>,
    /// Parts that are not full, the emptiest first.
    open: BTreeSet<(usize, u32)>,
    /// Neighbours of the vertex at hand by part, and which parts have any.
    near: Vec<u32>,
    met: Vec<u32>,
}

impl Pass<'_> {
    fn new(graph: &Graph, owner: Vec<u32>, parts: usize, capacity: usize) -> Pass<'_> {
        Pass {
            graph,
            capacity,
            owner,
            size: vec![0; parts],
            open: (0..parts as u32).map(|p| (0, p)).collect(),
            near: vec![0; parts],
            met: Vec::new(),
        }
    }

    fn put(&mut self, v: u32, score: &impl Score) {
        let (near, size) = (&mut self.near, &mut self.size);
        for &s in self.graph.neighbours(v as usize) {
            let p = self.owner[s as usize];
            if p != NOWHERE {
                if near[p as usize] == 0 {
                    self.met.push(p);
                }
                near[p as usize] += 1;
            }
        }
        let emptiest = self.open.first().map(|&(_, p)| p);
        let better = |p: u32, q: u32| {
            let of = |p: u32| score(f64::from(near[p as usize]), size[p as usize] as f64);
            of(p)
                .total_cmp(&of(q))
                .then(size[q as usize].cmp(&size[p as usize]))
                .then(q.cmp(&p))
        };
        let full = |p: u32| size[p as usize] >= self.capacity;
        let best = self.met.iter().copied().chain(emptiest);
        let best = best
            .filter(|&p| !full(p))
            .max_by(|&p, &q| better(p, q))
            .expect("parts · capacity is at least n, so some part is not full");
        self.owner[v as usize] = best;
        self.open.remove(&(size[best as usize], best));
        size[best as usize] += 1;
        if size[best as usize] < self.capacity {
            self.open.insert((size[best as usize], best));
        }
        self.met.drain(..).for_each(|p| near[p as usize] = 0);
    }
}
