//! Memory and time of a cut, foreseen; refused with numbers where it cannot fit.
//!
//! # Where the numbers come from
//! Memory is counted where a method's arrays are ours. METIS holds every level of its coarse graphs,
//! so these are foreseen on the graph itself ([`coarsening`]); bytes a level's edge and vertex are
//! fitted to measurements of R-MAT graphs of 2¹⁴ to 2²⁰ vertices, planted partitions of 2¹⁴ to 2¹⁸ and
//! look-alikes, into 4, 8 and 32 parts, one balance and three: all within 12 %. Its time is a sum over the
//! same levels, fitted to the processor time of such runs, and the speed of this machine's memory at the
//! graph's size is measured before each forecast; 83 % of the runs that it was fitted to were within 25 %, of others
//! half (below). Too short by
//! up to a half are cuts of dense planted partitions into many parts, where every vertex has neighbours
//! in all of them. Thinned, METIS is foreseen by the number of edges alone.
//!
//! # Measured
//! Foreseen / measured by `halobook bench data`, 8 parts, the better of two runs, two-core x86-64 machine of
//! 24 GB of which others used 1.2 cores, November 2026. Measured is wall time, so it is too long here.
//!
//! | graph | balance | MB | ms |
//! |---|---|---|---|
//! | R-MAT 2¹⁴ | work | 12.3 / 13.6 | 50 / 83 |
//! | | train+edges | 12.5 / 13.5 | 91 / 149 |
//! | R-MAT 2¹⁶ | work | 61.8 / 66.0 | 485 / 435 |
//! | | train+edges | 62.7 / 65.3 | 416 / 849 |
//! | R-MAT 2¹⁸ | work | 294 / 305 | 2143 / 2924 |
//! | | train+edges | 298 / 314 | 2782 / 2515 |
//! | planted 2¹⁴ | work | 13.0 / 13.8 | 55 / 80 |
//! | | train+edges | 13.2 / 13.9 | 128 / 136 |
//! | planted 2¹⁶ | work | 60.9 / 64.2 | 288 / 374 |
//! | | train+edges | 61.8 / 66.9 | 457 / 601 |
//! | planted 2¹⁸ | work | 276 / 294 | 2674 / 3440 |
//! | | train+edges | 280 / 299 | 3916 / 4344 |
//!
//! Beside processor time, which is what is foreseen: the same graphs (`feat=1`, planted ones of degree 16), 8 parts, a
//! two-core x86-64 machine of AMD on which others ran 5 to 15 threads, November 2026; milliseconds foreseen / taken
//! by `Request::assign`. A sample of LDG's and Fennel's own pass tells their time and, in proportion,
//! ByteGNN's; before, a table for another machine was two to seven times too long here, as for thinned METIS.
//!
//! | graph | metis | train+edges | thin=coarse | thin=input | ldg | fennel | bytegnn |
//! |---|---|---|---|---|---|---|---|
//! | R-MAT 2¹⁴ | 56 / 49 | 81 / 91 | 40 / 51 | 20 / 21 | 4.4 / 3.6 | 5.1 / 4.7 | 6.8 / 12.7 |
//! | R-MAT 2¹⁶ | 291 / 232 | 427 / 373 | 306 / 265 | 160 / 100 | 38 / 27 | 43 / 69 | 79 / 70 |
//! | R-MAT 2¹⁸ | 1436 / 1260 | 2040 / 1587 | 2040 / 1338 | 491 / 590 | 207 / 257 | 239 / 394 | 431 / 545 |
//! | planted 2¹⁴ | 48 / 67 | 160 / 87 | 46 / 71 | 48 / 61 | 9.2 / 9.3 | 13.6 / 12.0 | 16.8 / 10.3 |
//! | planted 2¹⁶ | 267 / 331 | 482 / 522 | 346 / 305 | 394 / 320 | 45 / 57 | 68 / 82 | 78 / 67 |
//! | planted 2¹⁸ | 1594 / 2010 | 2019 / 2556 | 1881 / 1812 | 2026 / 1908 | 296 / 365 | 339 / 610 | 648 / 688 |
//!
//! # Not done
//! Memory is within a tenth, of LDG and Fennel within a fifth, of METIS with `thin=input` on R-MAT down to 0.62.
//! Processor times are within 25 % in 30 of these 42 runs; what the same cut takes varied by a third
//! itself on that machine (Fennel on R-MAT 2¹⁸: 218 to 394). Wall time is longer wherever others compute.
//!
//! [`coarsening`]: super::coarsening
//!
//! `halobook bench data` prints what is foreseen beside what is measured, on three sizes of two kinds
//! of graph.

use crate::graph::Graph;
use crate::partition::coarsening::{Levels, levels};
use crate::partition::undirected::{is_simple, undirected};
use crate::partition::{Method, Request, balance, fennel, ldg};
use crate::rng::{self, Purpose};
use crate::{Error, Result};

/// What a cut needs beside the data set.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Need {
    /// Bytes at the peak.
    pub bytes: u64,
    /// Milliseconds of one processor of this machine.
    pub ms: f64,
}

/// What of a request decides how much it needs.
#[derive(Clone, Copy)]
struct Size {
    /// Vertices.
    nodes: f64,
    /// Directed edges of the simple undirected graph that is cut; at most, where it has to be made.
    edges: f64,
    /// Bytes that making that graph needs at its peak; 0 where the graph is it.
    making: f64,
    /// Edges that vertices have above the mean degree, as a share of all: 0 where degrees are
    /// equal, towards 1 for power laws.
    skew: f64,
}

impl Size {
    fn of(request: &Request) -> Size {
        let graph = request.graph;
        let (n, edges) = (graph.n(), graph.n_edges());
        let mean = edges.div_ceil(n.max(1));
        let above = (0..n).map(|v| graph.in_degree(v).saturating_sub(mean));
        let skew = above.sum::<usize>() as f64 / edges.max(1) as f64;
        let (nodes, given) = (n as f64, edges as f64);
        if is_simple(graph) {
            return Size {
                nodes,
                edges: given,
                making: 0.0,
                skew,
            };
        }
        // A destination an edge, then both directions and two arrays of offsets.
        Size {
            nodes,
            edges: 2.0 * given,
            making: 12.0 * given + 16.0 * nodes,
            skew,
        }
    }
}

/// METIS's working memory: bytes an edge and a vertex, and how many more an edge for every doubling
/// of the vertices above 2¹⁴ (more levels of coarse graphs), up to 2²².
struct Fit {
    edge: f64,
    deeper: f64,
    vertex: f64,
}

const COARSE: Fit = Fit {
    edge: 30.0,
    deeper: 0.9,
    vertex: 103.0,
};

impl Fit {
    fn bytes(&self, nodes: f64, edges: f64) -> f64 {
        let levels = (nodes.max(1.0).log2() - 14.0).clamp(-6.0, 8.0);
        (self.edge + self.deeper * levels) * edges + self.vertex * nodes
    }
}

/// Nanoseconds an edge at some numbers of edges, between them by their logarithm.
fn by_size(table: &[(f64, f64)], edges: f64) -> f64 {
    let at = table.partition_point(|&(e, _)| e <= edges);
    match (at.checked_sub(1).map(|k| table[k]), table.get(at)) {
        (None, Some(&(_, ns))) | (Some((_, ns)), None) => ns,
        (Some((e0, n0)), Some(&(e1, n1))) => n0 + (n1 - n0) * (edges / e0).ln() / (e1 / e0).ln(),
        (None, None) => 0.0,
    }
}

/// Times by the number of edges.
const COARSE_NS: &[(f64, f64)] = &[(1e6, 400.0), (8e6, 520.0), (1.6e7, 780.0)];

/// What ByteGNN's blocks take of an edge for every time that a pass of LDG takes of it.
const BLOCKS: f64 = 2.3;

/// What METIS needs to cut a graph of these levels, of which `edges` are given.
fn whole(graph: &Graph, levels: &Levels, parts: f64, constraints: f64) -> Need {
    let (n, e) = (levels.nodes[0], levels.edges[0]);
    let sum = |of: &[f64]| of.iter().sum::<f64>();
    let (nodes, edges) = (sum(&levels.nodes), sum(&levels.edges));
    let bytes = 2.42 * e + 9.39 * (edges - e) + 73.3 * (nodes - n) + 6.7 * constraints * n;
    // Vertices that may have neighbours in many parts.
    let many = (0..graph.n()).filter(|&v| graph.in_degree(v) >= 8).count() as f64;
    let apart = |v: usize| parts.min(graph.in_degree(v) as f64);
    let apart = (0..graph.n()).map(apart).sum::<f64>();
    let more = constraints - 1.0;
    let near = (488.0 + 358.0 * parts.log2()) * nodes
        + 110.0 * many * parts
        + (234.0 * apart + 1.87e6 * parts) * more;
    // Both speeds relative to those of the machine that the numbers are of.
    let far = 18.8 * edges * access_ns(96.0 * n) / 30.0;
    Need {
        bytes: bytes as u64,
        ms: (near * access_ns(64e3) / 5.0 + far) / 1e6,
    }
}

/// More than METIS needs, without a look at the edges.
fn at_most(size: &Size, constraints: f64) -> f64 {
    // As many levels as there can be, none of which loses an edge.
    let levels = (size.nodes.max(2.0).log2() - 5.0).max(1.0);
    let whole = (3.0 + 9.4 * levels) * size.edges + (150.0 + 7.0 * constraints) * size.nodes;
    whole.max(size.making)
}

/// What METIS needs for a graph of that size when it drops edges.
fn thinned(size: &Size, parts: f64, constraints: f64, thin: &str) -> Need {
    let Size {
        nodes,
        edges,
        making,
        skew,
    } = *size;
    // Thinning the input keeps an edge that is among the mean degree's heaviest of both its ends.
    let left = edges * (1.0 - skew).powi(2);
    let (cut, ns) = match thin {
        "coarse" => (edges, by_size(COARSE_NS, edges) * edges),
        _ => (left, 100.0 * edges + by_size(COARSE_NS, left) * left),
    };
    let weights = 8.0 * nodes * (constraints - 1.0);
    // Initial partitioning and refinement grow with the parts, and with every further balance.
    let more = 0.0031 * parts + 0.018 * (constraints - 1.0) * parts.powf(0.7);
    Need {
        bytes: (COARSE.bytes(nodes, cut) + weights).max(making) as u64,
        ms: (ns / 1e6 + 0.2 * more * edges.powf(0.6)) * slowness(nodes),
    }
}

impl<'a> Request<'a> {
    /// What [`Request::cut`] will need, before it runs.
    ///
    /// # Errors
    /// [`Error::Spec`] and [`Error::Shape`] as [`Request::assign`].
    pub fn need(&self) -> Result<Need> {
        self.check()?;
        Ok(self.settled().foreseen())
    }

    /// The request with its method decided where limits may choose.
    pub(super) fn settled(&self) -> Request<'a> {
        let thinned = |thin: &str| Request {
            method: self.method.with("thin", thin),
            ..self.clone()
        };
        if self.word("thin") != "auto" || self.surely_fits() {
            return self.clone();
        }
        // The least thinning that fits; the most, to be refused with its numbers, if none does.
        // `auto` that nothing had to be dropped for stays what it is, and means `never`.
        if !self.exceeds(self.foreseen()) {
            return self.clone();
        }
        let coarse = thinned("coarse");
        if !self.exceeds(coarse.foreseen()) {
            return coarse;
        }
        thinned("input")
    }

    /// Whether METIS fits whatever the graph is like.
    fn surely_fits(&self) -> bool {
        let constraints = balance::constraints(self) as f64;
        let most = || at_most(&Size::of(self), constraints);
        self.limits.ms.is_none() && self.limits.bytes.is_none_or(|b| most() < b as f64)
    }

    /// What METIS needs for the whole graph.
    fn whole(&self, by_edges: bool, constraints: f64) -> Need {
        let size = Size::of(self);
        let simple = undirected(self.graph);
        // What cannot be made simple is refused when it is cut.
        let graph = simple.as_deref().unwrap_or(self.graph);
        let levels = levels(graph, self.parts, by_edges);
        let need = whole(graph, &levels, self.parts as f64, constraints);
        let copy = if size.making > 0.0 {
            16.0 * size.nodes
        } else {
            0.0
        };
        Need {
            bytes: (need.bytes as f64 + copy).max(size.making) as u64,
            ..need
        }
    }

    /// What this method needs.
    pub(super) fn foreseen(&self) -> Need {
        let (n, parts) = (self.graph.n() as f64, self.parts as f64);
        let plain = |per_node: f64| Need {
            bytes: (per_node * n) as u64,
            ms: 4e-6 * n,
        };
        if self.parts == 1 || self.parts >= self.graph.n() {
            return plain(4.0);
        }
        let streamed = |ns: f64, more: f64| {
            let size = Size::of(self);
            let copy = 4.0 * size.edges + 8.0 * n;
            let made = if size.making > 0.0 { copy } else { 0.0 };
            Need {
                bytes: ((made + more).max(size.making)) as u64,
                ms: ns * (size.edges + n) * 1e-6,
            }
        };
        match self.method.entry.name {
            "metis" => {
                let constraints = balance::constraints(self) as f64;
                let wish = self.word("balance");
                let by_edges = wish == "work" || wish.contains("edges");
                match self.word("thin") {
                    "never" | "auto" => self.whole(by_edges, constraints),
                    thin => thinned(&Size::of(self), parts, constraints, thin),
                }
            }
            "hongtu" => self.whole(true, 1.0),
            "ldg" => streamed(ldg::ns_an_edge(self), 9.6 * n),
            "fennel" => streamed(fennel::ns_an_edge(self), 9.6 * n),
            "bytegnn" => {
                let size = Size::of(self);
                let reverse = if size.making > 0.0 {
                    2.0 * size.edges
                } else {
                    0.0
                };
                Need {
                    bytes: (81.0 * n + reverse) as u64,
                    ..streamed(BLOCKS * blocks_ns(self), 0.0)
                }
            }
            _ => plain(4.0),
        }
    }

    fn exceeds(&self, need: Need) -> bool {
        self.limits.bytes.is_some_and(|most| need.bytes > most)
            || self.limits.ms.is_some_and(|most| need.ms > most)
    }

    /// Refuses a cut that cannot fit, with what would.
    pub(super) fn refuse(&self, need: Need) -> Result<()> {
        if !self.exceeds(need) {
            return Ok(());
        }
        let (n, edges) = (self.graph.n(), self.graph.n_edges());
        let over_memory = self.limits.bytes.is_some_and(|most| need.bytes > most);
        let reason = if over_memory {
            format!(
                "needs {} of memory beside the data set, {} may be used",
                megabytes(need.bytes),
                megabytes(self.limits.bytes.unwrap_or(0))
            )
        } else {
            format!(
                "needs {:.1} s, {:.1} s may be used",
                need.ms / 1e3,
                self.limits.ms.unwrap_or(0.0) / 1e3
            )
        };
        let others = [
            "metis:thin=coarse",
            "metis:thin=input",
            "fennel",
            "ldg",
            "hash",
        ];
        let fitting = others.iter().find_map(|text| {
            let method = Method::parse(text).ok()?;
            let other = Request {
                method,
                ..self.clone()
            };
            let need = other.foreseen();
            (!self.exceeds(need)).then(|| format!("{text} needs {}", megabytes(need.bytes)))
        });
        Err(Error::Unsupported {
            what: format!(
                "{} into {} parts of {n} vertices and {edges} edges",
                self.method.label(),
                self.parts
            ),
            reason,
            help: fitting
                .unwrap_or_else(|| "use a machine with more memory, or fewer parts".into()),
        })
    }
}

fn megabytes(bytes: u64) -> String {
    match bytes as f64 {
        b if b >= 1e9 => format!("{:.2} GB", b / 1e9),
        b => format!("{:.1} MB", b / 1e6),
    }
}

/// Bytes that this process may still take: what the machine has available, and what the control
/// group leaves. None where nobody says.
pub fn machine_bytes() -> Option<u64> {
    let number = |path: &str| {
        std::fs::read_to_string(path)
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    };
    let text = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = text.and_then(|text| {
        let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    });
    let group = |most: &str, used: &str| Some(number(most)?.saturating_sub(number(used)?));
    let groups = [
        group("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        group(
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ];
    machine
        .into_iter()
        .chain(groups.into_iter().flatten())
        .min()
}

/// Nanoseconds an edge of a pass of LDG, which reads a graph as the search of ByteGNN's blocks does.
fn blocks_ns(request: &Request) -> f64 {
    let method = Method::parse("ldg").expect("registered with these defaults");
    ldg::ns_an_edge(&Request {
        method,
        ..request.clone()
    })
}

/// How many times as long this machine takes for so many vertices as the one that the table is of: as
/// for METIS without thinning, whose work is near and far about half each.
fn slowness(nodes: f64) -> f64 {
    (access_ns(64e3) / 5.0 + access_ns(96.0 * nodes) / 30.0) / 2.0
}

/// Processor time of a random read and write among so many bytes, the work of every partitioner here:
/// the better of two tries, some milliseconds each.
fn access_ns(bytes: f64) -> f64 {
    const STEPS: u64 = 1 << 18;
    let mut words = vec![1u32; (bytes / 4.0) as usize + 1024];
    let most = words.len() as u64;
    let key = rng::key(1, 0, Purpose::Partition, 5);
    let mut once = |_| {
        let began = crate::record::clock::thread_cpu_ns();
        for step in 0..STEPS {
            let at = rng::below(key, step, most) as usize;
            let from = rng::below(key, step ^ 0x5555_5555, most) as usize;
            words[at] = words[at].wrapping_add(words[from]);
        }
        std::hint::black_box(&words);
        (crate::record::clock::thread_cpu_ns() - began) as f64 / STEPS as f64
    };
    [0, 1]
        .map(&mut once)
        .into_iter()
        .fold(f64::INFINITY, f64::min)
}
