//! One pass over the vertices, each put where a score is highest: what LDG and Fennel share.

use std::collections::BTreeSet;

use crate::Result;
use crate::partition::Request;
use crate::partition::undirected::undirected;
use crate::rng::{self, Purpose};
use crate::spec::{Knob, Value};

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

/// Puts each vertex in turn into the part that is not full where `score(neighbours there, vertices
/// there)` is highest; of equal ones into the one with fewer vertices, then the lower. Neighbours
/// are counted in both directions. `score` must fall with the second argument, so that among parts
/// without a neighbour the emptiest is best.
pub(super) fn stream(
    request: &Request,
    capacity: usize,
    score: impl Fn(f64, f64) -> f64,
) -> Result<Vec<u32>> {
    let graph = undirected(request.graph)?;
    let (n, parts) = (graph.n(), request.parts);
    let mut order: Vec<u32> = (0..n as u32).collect();
    if request.word("order") == "random" {
        rng::shuffle(rng::key(request.seed, 0, Purpose::Partition, 3), &mut order);
    }
    const NOWHERE: u32 = u32::MAX;
    let mut owner = vec![NOWHERE; n];
    let mut size = vec![0usize; parts];
    let mut open: BTreeSet<(usize, u32)> = (0..parts as u32).map(|p| (0, p)).collect();
    let mut near = vec![0u32; parts];
    let mut met = Vec::new();
    for &v in &order {
        for &s in graph.neighbours(v as usize) {
            let p = owner[s as usize];
            if p != NOWHERE {
                if near[p as usize] == 0 {
                    met.push(p);
                }
                near[p as usize] += 1;
            }
        }
        let emptiest = open.first().map(|&(_, p)| p);
        let better = |p: u32, q: u32| {
            let of = |p: u32| score(f64::from(near[p as usize]), size[p as usize] as f64);
            of(p)
                .total_cmp(&of(q))
                .then(size[q as usize].cmp(&size[p as usize]))
                .then(q.cmp(&p))
        };
        let full = |p: u32| size[p as usize] >= capacity;
        let best = met.iter().copied().chain(emptiest).filter(|&p| !full(p));
        let best = best
            .max_by(|&p, &q| better(p, q))
            .expect("parts · capacity is at least n, so some part is not full");
        owner[v as usize] = best;
        open.remove(&(size[best as usize], best));
        size[best as usize] += 1;
        if size[best as usize] < capacity {
            open.insert((size[best as usize], best));
        }
        met.drain(..).for_each(|p| near[p as usize] = 0);
    }
    Ok(owner)
}
