//! ByteGNN's partitioner: blocks of what labelled vertices read, spread by their labels.

use std::collections::BTreeMap;

use crate::Result;
use crate::graph::{EdgeOptions, Graph};
use crate::knobs::{Knob, Value};
use crate::partition::request::allowed;
use crate::partition::{Partitioner, PartitionerEntry, Request};

/// Two steps. *Blocks*: every training, validation and test vertex is the centre of a block; a
/// breadth-first search of `hops` rounds from all centres at once, along in-edges since those are
/// what sampling reads, gives every other vertex to the block that reaches it first (the lower
/// centre of equal ones). *Assignment* (Algorithm 2): blocks in descending order of their largest
/// count of training, validation or test vertices, then of all their vertices, go to the part with
/// the highest `CE · BS`: cross edges between block and part over the part's vertices, times
/// `1 − α·train/C_train − β·val/C_val − γ·test/C_test` with the part's counts over its equal share.
///
/// With `α + β + γ = 1` a part whose weighted load has reached 1 is never chosen while another has
/// room, so no part's weighted load is above 1 and that of the largest block.
///
/// # Paper
/// Zheng et al., "ByteGNN: Efficient Graph Neural Network Training at Large Scale", PVLDB 15(6),
/// 2022, <https://doi.org/10.14778/3514061.3514069>.
///
/// # Differs
/// Algorithm 2 does not say how equal scores are decided (all are 0 for the first block): here by
/// the balance score, then fewer vertices, then the lower part. As every centre keeps its own block,
/// a block would have exactly one labelled vertex, so blocks are first merged along the most cross
/// edges while they stay below `n / (parts · blocks)` vertices; `blocks = 0` merges nothing.
/// Vertices that no block reaches, which no sample of `hops` layers reads, fill the parts that have
/// fewest vertices. Without any labelled vertex, all are centres and count as training.
pub struct ByteGnn;

const SHARE: &str = "0.3333333333333333";

/// The registry entry.
pub(super) const ENTRY: PartitionerEntry = PartitionerEntry {
    name: "bytegnn",
    about: "K-hop blocks around labelled vertices, balanced by train, val and test (ByteGNN)",
    knobs: &[
        Knob {
            name: "hops",
            default: "2",
            doc: "hops of a block: layers of the model that will sample",
            check: allowed::positive,
        },
        Knob {
            name: "alpha",
            default: SHARE,
            doc: "weight of the balance of training vertices",
            check: allowed::amount,
        },
        Knob {
            name: "beta",
            default: SHARE,
            doc: "weight of the balance of validation vertices",
            check: allowed::amount,
        },
        Knob {
            name: "gamma",
            default: SHARE,
            doc: "weight of the balance of test vertices",
            check: allowed::amount,
        },
        Knob {
            name: "blocks",
            default: "32",
            doc: "blocks a part that merging leaves at least; 0 merges nothing",
            check: |v| matches!(v, Value::Int(0..=0xffff_ffff)),
        },
    ],
    partitioner: &ByteGnn,
};

const NONE: u32 = u32::MAX;

impl Partitioner for ByteGnn {
    fn assign(&self, request: &Request) -> Result<Vec<u32>> {
        let labels = Labels::of(request);
        let graph = request.graph;
        let mut block = blocks(graph, &labels, request.number("hops") as usize);
        let per_part = request.number("blocks") as usize;
        if per_part > 0 {
            let most = graph.n() / (request.parts * per_part);
            merge(graph, &mut block, most);
        }
        Ok(place(request, &labels, &block))
    }
}

/// Which labelled set each vertex is in: 0 training, 1 validation, 2 test.
struct Labels {
    of: Vec<u8>,
    totals: [usize; 3],
}

const UNLABELLED: u8 = 3;

impl Labels {
    fn of(request: &Request) -> Labels {
        let n = request.graph.n();
        let masks = [request.train, request.val, request.test];
        let is = |mask: &[bool], v: usize| mask.get(v).copied().unwrap_or(false);
        let kind = |v: usize| masks.iter().position(|m| is(m, v));
        let mut of: Vec<u8> = (0..n)
            .map(|v| kind(v).map_or(UNLABELLED, |k| k as u8))
            .collect();
        if of.iter().all(|&k| k == UNLABELLED) {
            of.fill(0);
        }
        let mut totals = [0; 3];
        for &k in of.iter().filter(|&&k| k != UNLABELLED) {
            totals[usize::from(k)] += 1;
        }
        Labels { of, totals }
    }
}

/// The block of each vertex, numbered by centre in ascending order; [`NONE`] where none reaches.
fn blocks(graph: &Graph, labels: &Labels, hops: usize) -> Vec<u32> {
    let mut block = vec![NONE; graph.n()];
    let mut edge: Vec<u32> = Vec::new();
    for (v, b) in block.iter_mut().enumerate() {
        if labels.of[v] != UNLABELLED {
            *b = edge.len() as u32;
            edge.push(v as u32);
        }
    }
    for _ in 0..hops {
        let mut next = Vec::new();
        for &v in &edge {
            for &s in graph.neighbours(v as usize) {
                if block[s as usize] == NONE {
                    block[s as usize] = block[v as usize];
                    next.push(s);
                }
            }
        }
        edge = next;
    }
    block
}

/// Joins blocks, small ones first, each to the block it has most edges with while both together
/// have at most `most` vertices; renumbers what is left.
fn merge(graph: &Graph, block: &mut [u32], most: usize) {
    let members = members(block);
    let mut size: Vec<usize> = members.iter().map(Vec::len).collect();
    let mut into: Vec<u32> = (0..size.len() as u32).collect();
    let root = |into: &[u32], mut b: u32| {
        while into[b as usize] != b {
            b = into[b as usize];
        }
        b
    };
    let mut order: Vec<u32> = (0..size.len() as u32).collect();
    order.sort_by_key(|&b| (size[b as usize], b));
    let mut edges: BTreeMap<u32, usize> = BTreeMap::new();
    for &b in &order {
        let own = root(&into, b);
        edges.clear();
        for &v in &members[b as usize] {
            for &s in graph.neighbours(v as usize) {
                if block[s as usize] != NONE {
                    let other = root(&into, block[s as usize]);
                    if other != own && size[own as usize] + size[other as usize] <= most {
                        *edges.entry(other).or_default() += 1;
                    }
                }
            }
        }
        let best = edges
            .iter()
            .max_by(|x, y| x.1.cmp(y.1).then(y.0.cmp(x.0)))
            .map(|(&other, _)| other);
        if let Some(other) = best {
            size[other as usize] += size[own as usize];
            into[own as usize] = other;
        }
    }
    // Roots are looked up once more and numbered in their order.
    let mut number = vec![NONE; into.len()];
    let mut count = 0;
    for b in block.iter_mut().filter(|b| **b != NONE) {
        let r = root(&into, *b) as usize;
        if number[r] == NONE {
            number[r] = count;
            count += 1;
        }
        *b = number[r];
    }
}

/// The vertices of each block.
fn members(block: &[u32]) -> Vec<Vec<u32>> {
    let count = block
        .iter()
        .filter(|&&b| b != NONE)
        .max()
        .map_or(0, |&b| b + 1);
    let mut members = vec![Vec::new(); count as usize];
    for (v, &b) in block.iter().enumerate().filter(|(_, b)| **b != NONE) {
        members[b as usize].push(v as u32);
    }
    members
}

/// Algorithm 2 over blocks, then the vertices of none.
fn place(request: &Request, labels: &Labels, block: &[u32]) -> Vec<u32> {
    let (graph, parts) = (request.graph, request.parts);
    let weight = ["alpha", "beta", "gamma"].map(|k| request.number(k));
    let share = labels.totals.map(|t| t as f64 / parts as f64);
    let members = members(block);
    let held = |b: &[u32]| {
        let mut held = [0usize; 3];
        for &v in b {
            let k = usize::from(labels.of[v as usize]);
            if k < 3 {
                held[k] += 1;
            }
        }
        held
    };
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&b| {
        let most = held(&members[b]).into_iter().max().unwrap_or(0);
        (std::cmp::Reverse((most, members[b].len())), b)
    });
    let mut owner = vec![NONE; graph.n()];
    let mut size = vec![0usize; parts];
    let mut has = vec![[0usize; 3]; parts];
    let reverse = Reverse::of(graph);
    let mut cross = vec![0u64; parts];
    for b in order {
        cross.fill(0);
        for &v in &members[b] {
            let both = graph
                .neighbours(v as usize)
                .iter()
                .chain(reverse.of_vertex(v));
            for &s in both {
                if owner[s as usize] != NONE {
                    cross[owner[s as usize] as usize] += 1;
                }
            }
        }
        let room = |p: usize| {
            let load = |k: usize| match share[k] {
                0.0 => 0.0,
                share => weight[k] * has[p][k] as f64 / share,
            };
            1.0 - load(0) - load(1) - load(2)
        };
        let score = |p: usize| cross[p] as f64 / size[p].max(1) as f64 * room(p);
        let best = (0..parts)
            .max_by(|&p, &q| {
                score(p)
                    .total_cmp(&score(q))
                    .then(room(p).total_cmp(&room(q)))
                    .then(size[q].cmp(&size[p]))
                    .then(q.cmp(&p))
            })
            .expect("at least one part");
        members[b]
            .iter()
            .for_each(|&v| owner[v as usize] = best as u32);
        size[best] += members[b].len();
        let held = held(&members[b]);
        (0..3).for_each(|k| has[best][k] += held[k]);
    }
    for p in owner.iter_mut().filter(|p| **p == NONE) {
        let emptiest = (0..parts)
            .min_by_key(|&q| size[q])
            .expect("at least one part");
        size[emptiest] += 1;
        *p = emptiest as u32;
    }
    owner
}

/// Destinations of the out-edges of each vertex; nothing for a symmetric graph, whose in-edges
/// say the same.
struct Reverse {
    indptr: Vec<u64>,
    indices: Vec<u32>,
}

impl Reverse {
    fn of(graph: &Graph) -> Reverse {
        let mut indptr = vec![0u64; graph.n() + 1];
        if graph.is_already(EdgeOptions::SIMPLE) {
            return Reverse {
                indptr,
                indices: Vec::new(),
            };
        }
        graph
            .indices()
            .iter()
            .for_each(|&s| indptr[s as usize + 1] += 1);
        (0..graph.n()).for_each(|v| indptr[v + 1] += indptr[v]);
        let mut next = indptr.clone();
        let mut indices = vec![0; graph.n_edges()];
        for v in 0..graph.n() {
            for &s in graph.neighbours(v) {
                indices[next[s as usize] as usize] = v as u32;
                next[s as usize] += 1;
            }
        }
        Reverse { indptr, indices }
    }

    fn of_vertex(&self, v: u32) -> &[u32] {
        let v = v as usize;
        &self.indices[self.indptr[v] as usize..self.indptr[v + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Method;

    /// Figure 10 of the paper in small: A and B are labelled, each at the end of a path, and the
    /// paths are joined far from both.
    #[test]
    fn what_a_labelled_vertex_reads_stays_with_it() {
        let src: Vec<u32> = (0..9).collect();
        let dst: Vec<u32> = (1..10).collect();
        let g = Graph::from_edges(10, &src, &dst, EdgeOptions::SIMPLE).expect("valid");
        let train: Vec<bool> = (0..10).map(|v| v == 0 || v == 9).collect();
        let method = Method::parse("bytegnn:hops=2,blocks=0").expect("known");
        let request = Request {
            train: &train,
            ..Request::new(method, &g, 2, 0)
        };
        let owner = request.assign().expect("cuts");
        assert_eq!(owner[..3], [owner[0]; 3]);
        assert_eq!(owner[7..], [owner[9]; 3]);
        assert_ne!(owner[0], owner[9], "one training vertex a part");
        assert_eq!(owner.iter().filter(|&&p| p == 0).count(), 5);
    }

    #[test]
    fn the_weighted_load_stays_below_one_and_a_block() {
        let d = crate::load::load("sbm:nodes=2000,classes=4,degree=8", 1).expect("built in");
        for text in ["bytegnn", "bytegnn:blocks=4", "bytegnn:blocks=0,hops=1"] {
            let method = Method::parse(text).expect("known");
            let request = Request::of(method, &d, 5, 1);
            let owner = request.assign().expect("cuts");
            let masks = [&d.train, &d.val, &d.test];
            let per_part = request.number("blocks") as usize;
            let largest = 2000usize.checked_div(5 * per_part).unwrap_or(1) as f64;
            for p in 0..5 {
                let load: f64 = masks
                    .iter()
                    .map(|mask| {
                        let all = mask.iter().filter(|&&m| m).count() as f64;
                        let here = (0..2000).filter(|&v| mask[v] && owner[v] == p).count() as f64;
                        here / (all / 5.0) / 3.0
                    })
                    .sum();
                let smallest = masks.iter().map(|m| m.iter().filter(|&&x| x).count()).min();
                let block = largest / (smallest.expect("three masks") as f64 / 5.0) / 3.0;
                assert!(load <= 1.0 + block + 1e-9, "{text}: part {p} has {load}");
            }
        }
    }
}
