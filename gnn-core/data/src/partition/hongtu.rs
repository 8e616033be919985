//! HongTu's two levels: devices, and on each of them chunks in an order that moves little.

use std::collections::BTreeSet;

use crate::Result;
use crate::graph::Graph;
use crate::knobs::{Knob, Value};
use crate::partition::chunk::equal_edges;
use crate::partition::facts::by_owner;
use crate::partition::request::allowed;
use crate::partition::{Method, Partitioner, PartitionerEntry, Request};

/// METIS cuts the graph into `parts` devices, and ranges of equal in-edges cut each device's
/// vertices (in id order) into `chunks`. Batch `j` is chunk `j` of every device. As a partitioner
/// this is METIS: the chunks of a device and their order are asked for with [`TwoLevel::of`].
///
/// # Measured
/// How many neighbours chunks load: `notebooks/measured/cuts.md`.
///
/// # Paper
/// Wang et al., "HongTu: Scalable Full-Graph GNN Training on Multiple GPUs", SIGMOD 2024, §4.1 and
/// §5.3, <https://doi.org/10.1145/3626733>.
pub struct HongTu;

const fn throughput(name: &'static str, default: &'static str, doc: &'static str) -> Knob {
    Knob {
        name,
        default,
        doc,
        check: |v| v.as_f64().is_some_and(|x| x > 0.0 && x < 1e18),
    }
}

/// The registry entry.
pub(super) const ENTRY: PartitionerEntry = PartitionerEntry {
    name: "hongtu",
    about: "METIS into devices, each cut into chunks whose order reuses most (HongTu)",
    knobs: &[
        Knob {
            name: "chunks",
            default: "4",
            doc: "chunks of each device",
            check: |v| matches!(v, Value::Int(1..=0xffff)) && allowed::positive(v),
        },
        throughput("host_gbps", "12", "host to device, GB/s"),
        throughput("peer_gbps", "50", "device to device, GB/s"),
        throughput("reuse_gbps", "600", "reuse within a device, GB/s"),
    ],
    partitioner: &HongTu,
};

impl Partitioner for HongTu {
    fn assign(&self, request: &Request) -> Result<Vec<u32>> {
        Request {
            method: Method::parse("metis")?,
            ..request.clone()
        }
        .assign()
    }
}

/// What moves an amount of data how fast, in vertices (or any other amount) a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throughputs {
    /// `T_hd`: host to device.
    pub host: f64,
    /// `T_dd`: device to device.
    pub peer: f64,
    /// `T_ru`: reuse within a device.
    pub reuse: f64,
}

/// Vertices that are moved in one layer of an epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Volumes {
    /// `V_ori`: every chunk loads all its sources.
    pub original: u64,
    /// `V_+p2p`: every batch loads the sources of its chunks once.
    pub peer: u64,
    /// `V_+ru`: and keeps those that the batch before has loaded.
    pub reused: u64,
}

impl Volumes {
    /// Equation 4: `V_ru/T_hd + (V_ori − V_p2p)/T_dd + (V_p2p − V_ru)/T_ru`, in seconds.
    pub fn cost(&self, t: &Throughputs) -> f64 {
        self.reused as f64 / t.host
            + (self.original - self.peer) as f64 / t.peer
            + (self.peer - self.reused) as f64 / t.reuse
    }
}

/// A graph cut twice.
#[derive(Debug, Clone, PartialEq)]
pub struct TwoLevel {
    /// Device of each vertex: `[n]`.
    pub owner: Vec<u32>,
    /// Batch of each vertex, the place of its chunk in the order of its device: `[n]`.
    pub chunk: Vec<u32>,
    /// Vertices by device, then batch, then id: `[n]`.
    pub order: Vec<u32>,
    /// Where each chunk starts in `order`, devices outer: `[devices · chunks + 1]`.
    pub starts: Vec<usize>,
    /// What the first order of the chunks moves.
    pub before: Volumes,
    /// What the chosen order moves.
    pub after: Volumes,
}

impl TwoLevel {
    /// Cuts and reorganises. The request's method is `hongtu`; its knobs say how many chunks a
    /// device has and what throughputs the cost model takes.
    ///
    /// # Errors
    /// As [`Request::assign`].
    pub fn of(request: &Request) -> Result<TwoLevel> {
        let t = ["host_gbps", "peer_gbps", "reuse_gbps"].map(|k| request.number(k));
        let throughputs = Throughputs {
            host: t[0],
            peer: t[1],
            reuse: t[2],
        };
        let owner = request.assign()?;
        let chunks = request.number("chunks") as usize;
        Ok(TwoLevel::of_chunks(
            request.graph,
            owner,
            request.parts,
            chunks,
            Some(&throughputs),
        ))
    }

    /// Cuts each of the `devices` that `owner: [n]` names into chunks of equal in-edges and puts
    /// them in the order of Algorithm 4, where by these throughputs that costs less than leaving them in
    /// order of ids; without throughputs they are left so.
    pub fn of_chunks(
        graph: &Graph,
        owner: Vec<u32>,
        devices: usize,
        chunks: usize,
        throughputs: Option<&Throughputs>,
    ) -> TwoLevel {
        let first = ranges(graph, &owner, devices, chunks);
        let sources: Vec<Vec<Vec<u32>>> = first
            .iter()
            .map(|device| device.iter().map(|c| sources(graph, c)).collect())
            .collect();
        let natural: Vec<Vec<usize>> = vec![(0..chunks).collect(); devices];
        let before = volumes(&sources, &natural, graph.n());
        let greedy = throughputs.map(|throughputs| {
            let order = algorithm_4(&sources, graph.n());
            let moved = volumes(&sources, &order, graph.n());
            (order, moved, throughputs)
        });
        let better = greedy.filter(|(_, moved, t)| moved.cost(t) < before.cost(t));
        let (order, after) = better.map_or((natural, before), |(order, moved, _)| (order, moved));
        let mut two = TwoLevel {
            chunk: vec![0; graph.n()],
            order: Vec::with_capacity(graph.n()),
            starts: vec![0],
            owner,
            before,
            after,
        };
        for (device, places) in first.iter().zip(&order) {
            for (j, &k) in places.iter().enumerate() {
                for &v in &device[k] {
                    two.chunk[v as usize] = j as u32;
                }
                two.order.extend_from_slice(&device[k]);
                two.starts.push(two.order.len());
            }
        }
        two
    }
}

/// Each device's vertices, ascending, cut into ranges of about equal in-edges.
pub(super) fn ranges(
    graph: &Graph,
    owner: &[u32],
    devices: usize,
    chunks: usize,
) -> Vec<Vec<Vec<u32>>> {
    let order = by_owner(owner, devices);
    let mut rest = &order[..];
    (0..devices as u32)
        .map(|device| {
            let n = rest.partition_point(|&v| owner[v as usize] <= device);
            let (own, tail) = rest.split_at(n);
            rest = tail;
            let mut before = vec![0u64];
            for &v in own {
                before.push(before[before.len() - 1] + graph.in_degree(v as usize) as u64);
            }
            let bounds = equal_edges(&before, chunks);
            bounds
                .windows(2)
                .map(|b| own[b[0]..b[1]].to_vec())
                .collect()
        })
        .collect()
}

/// `N_ij`: the sources of a chunk's in-edges, ascending.
fn sources(graph: &Graph, chunk: &[u32]) -> Vec<u32> {
    let all = chunk.iter().flat_map(|&v| graph.neighbours(v as usize));
    let mut sources: Vec<u32> = all.copied().collect();
    sources.sort_unstable();
    sources.dedup();
    sources
}

/// A set of vertices that is emptied in no time.
struct Marks {
    at: Vec<u32>,
    round: u32,
}

impl Marks {
    fn new(n: usize) -> Marks {
        Marks {
            at: vec![0; n],
            round: 0,
        }
    }

    fn clear(&mut self) {
        self.round += 1;
    }

    /// Whether it is new.
    fn insert(&mut self, v: u32) -> bool {
        std::mem::replace(&mut self.at[v as usize], self.round) != self.round
    }

    fn shared(&self, list: &[u32]) -> usize {
        let has = |v: &&u32| self.at[**v as usize] == self.round;
        list.iter().filter(has).count()
    }
}

/// The member of `left` with the highest count, the first of equal ones; it is taken out.
fn take_best(left: &mut BTreeSet<usize>, count: impl Fn(usize) -> usize) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    for &k in left.iter() {
        let c = count(k);
        if best.is_none_or(|(most, _)| c > most) {
            best = Some((c, k));
        }
    }
    let (_, k) = best?;
    left.remove(&k);
    Some(k)
}

/// Algorithm 4: which chunk of each device is in which batch, `[devices][chunks]`. Phase one puts
/// chunks with most sources in common into the same batch, phase two batches with most sources in
/// common behind each other.
fn algorithm_4(sources: &[Vec<Vec<u32>>], n: usize) -> Vec<Vec<usize>> {
    let chunks = sources.first().map_or(0, Vec::len);
    let mut union: Vec<Vec<u32>> = sources.first().cloned().unwrap_or_default();
    let mut placed: Vec<Vec<usize>> = vec![(0..chunks).collect()];
    let mut marks = Marks::new(n);
    for device in sources.iter().skip(1) {
        let mut left: BTreeSet<usize> = (0..chunks).collect();
        let mut places = Vec::with_capacity(chunks);
        for batch in &mut union {
            marks.clear();
            batch.iter().for_each(|&v| {
                marks.insert(v);
            });
            let k = take_best(&mut left, |k| marks.shared(&device[k]))
                .expect("as many chunks as batches");
            batch.extend(device[k].iter().copied().filter(|&v| marks.insert(v)));
            places.push(k);
        }
        placed.push(places);
    }
    let mut left: BTreeSet<usize> = (1..chunks).collect();
    let mut batches = vec![0; chunks.min(1)];
    while let Some(&last) = batches.last() {
        marks.clear();
        union[last].iter().for_each(|&v| {
            marks.insert(v);
        });
        match take_best(&mut left, |k| marks.shared(&union[k])) {
            Some(k) => batches.push(k),
            None => break,
        }
    }
    let in_order = |places: Vec<usize>| batches.iter().map(|&j| places[j]).collect();
    placed.into_iter().map(in_order).collect()
}

fn volumes(sources: &[Vec<Vec<u32>>], order: &[Vec<usize>], n: usize) -> Volumes {
    let chunks = sources.first().map_or(0, Vec::len);
    let mut of = Volumes::default();
    let (mut here, mut before) = (Marks::new(n), Marks::new(n));
    before.clear();
    for j in 0..chunks {
        here.clear();
        for (device, places) in sources.iter().zip(order) {
            let chunk = &device[places[j]];
            of.original += chunk.len() as u64;
            for &v in chunk {
                if here.insert(v) {
                    of.peer += 1;
                    of.reused += u64::from(before.shared(&[v]) == 0);
                }
            }
        }
        std::mem::swap(&mut here, &mut before);
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_levels_cover_the_graph_and_the_order_costs_no_more() {
        let d = crate::load::load("rmat:scale=10,edge-factor=8", 2).expect("built in");
        let method = Method::parse("hongtu:chunks=6").expect("known");
        let request = Request::of(method, &d, 3, 1);
        let two = TwoLevel::of(&request).expect("cuts");
        let mut seen = two.order.clone();
        seen.sort_unstable();
        assert_eq!(seen, (0..d.n() as u32).collect::<Vec<_>>());
        assert_eq!(two.starts.len(), 3 * 6 + 1);
        for (k, w) in two.starts.windows(2).enumerate() {
            let chunk = &two.order[w[0]..w[1]];
            assert!(chunk.is_sorted());
            for &v in chunk {
                let place = (two.owner[v as usize], two.chunk[v as usize]);
                assert_eq!(place, ((k / 6) as u32, (k % 6) as u32));
            }
        }
        let t = Throughputs {
            host: 1.0,
            peer: 4.0,
            reuse: 50.0,
        };
        assert!(two.after.cost(&t) <= two.before.cost(&t));
        for v in [two.before, two.after] {
            assert!(
                v.original >= v.peer && v.peer >= v.reused && v.reused > 0,
                "{v:?}"
            );
        }
        assert_eq!(two.before.original, two.after.original);
    }

    #[test]
    fn algorithm_4_groups_equal_sources_and_puts_neighbours_side_by_side() {
        // Device 1 holds the same sources as device 0 in another order; batches 0 and 2 share most.
        let s = |list: &[u32]| list.to_vec();
        let sources = vec![
            vec![s(&[0, 1, 2]), s(&[6, 7, 8]), s(&[2, 1, 3])],
            vec![s(&[6, 7]), s(&[1, 3]), s(&[0, 1])],
        ];
        let order = algorithm_4(&sources, 9);
        assert_eq!(order, [vec![0, 2, 1], vec![2, 1, 0]]);
        let v = volumes(&sources, &order, 9);
        // Batches {0,1,2}, {1,2,3}, {6,7,8}: 3 loaded, then only 3, then 3.
        assert_eq!((v.original, v.peer, v.reused), (15, 9, 7));
    }
}
