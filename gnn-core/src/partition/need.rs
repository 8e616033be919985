//! Memory and time of a cut, foreseen; refused with numbers where it cannot fit.
//!
//! # Where the numbers come from
//! Memory is counted where a method's arrays are ours. METIS allocates by what coarsening leaves,
//! so its bytes an edge and vertex are fitted to measurements: R-MAT (edge factors 8 and 16) and
//! planted partitions (degree 16) of 2¹⁴, 2¹⁶ and 2¹⁸ vertices into 4, 8 and 32 parts, two-core
//! x86-64 machine with 24 GB; all of these within 25 % (most within 12 %). Meshes, whose coarse
//! graphs shrink faster, need less than foreseen. Times are of the same machine and runs, as
//! processor time; [`slowness`] says how much slower this one is.

use crate::partition::undirected::is_simple;
use crate::partition::{Method, Request, balance};
use crate::rng::{self, Purpose};
use crate::{Error, Result};

/// What a cut needs beside the data set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Need {
    /// Bytes at the peak.
    pub bytes: u64,
    /// Milliseconds of one processor, of the class that the formulas were fitted on.
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

const WHOLE: Fit = Fit {
    edge: 44.0,
    deeper: 5.0,
    vertex: 163.0,
};
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
const METIS_NS: &[(f64, f64)] = &[
    (2.5e5, 280.0),
    (1.5e6, 340.0),
    (4e6, 800.0),
    (1.6e7, 1350.0),
];
const COARSE_NS: &[(f64, f64)] = &[(1e6, 400.0), (8e6, 520.0), (1.6e7, 780.0)];
const LDG_NS: &[(f64, f64)] = &[(2.5e5, 23.0), (1e6, 40.0), (8e6, 52.0), (1.6e7, 115.0)];
const FENNEL_NS: &[(f64, f64)] = &[(2.5e5, 31.0), (1e6, 55.0), (8e6, 118.0), (1.6e7, 180.0)];
const BYTEGNN_NS: &[(f64, f64)] = &[(2.5e5, 85.0), (1.5e6, 100.0), (8e6, 225.0), (1.6e7, 320.0)];

/// What METIS needs for a graph of that size.
fn metis(size: &Size, parts: f64, constraints: f64, thin: &str) -> Need {
    let Size {
        nodes,
        edges,
        making,
        skew,
    } = *size;
    // Thinning the input keeps an edge that is among the mean degree's heaviest of both its ends.
    let left = edges * (1.0 - skew).powi(2);
    let (fit, cut, ns) = match thin {
        "never" | "auto" => (&WHOLE, edges, by_size(METIS_NS, edges) * edges),
        "coarse" => (&COARSE, edges, by_size(COARSE_NS, edges) * edges),
        _ => (
            &COARSE,
            left,
            100.0 * edges + by_size(COARSE_NS, left) * left,
        ),
    };
    let weights = 8.0 * nodes * (constraints - 1.0);
    // Initial partitioning and refinement grow with the parts, and with every further balance.
    let spread = edges.powf(0.6);
    let passes = if matches!(thin, "never" | "auto") {
        1.0
    } else {
        0.2
    };
    let more = 0.0031 * parts + 0.018 * (constraints - 1.0) * parts.powf(0.7);
    Need {
        bytes: (fit.bytes(nodes, cut) + weights).max(making) as u64,
        ms: ns / 1e6 + passes * more * spread,
    }
}

impl<'a> Request<'a> {
    /// What [`Request::cut`] will need, before it runs.
    ///
    /// # Errors
    /// [`Error::Spec`] and [`Error::Shape`] as [`Request::assign`].
    pub fn need(&self) -> Result<Need> {
        self.check()?;
        Ok(self.settled().1)
    }

    /// The request with its method decided where limits may choose, and what it needs.
    pub(super) fn settled(&self) -> (Request<'a>, Need) {
        let needs = |thin: Option<&'static str>| {
            let method = match thin {
                Some(thin) => self.method.with("thin", thin),
                None => self.method.clone(),
            };
            let request = Request {
                method,
                ..self.clone()
            };
            let need = request.foreseen();
            (request, need)
        };
        if self.word("thin") != "auto" {
            return needs(None);
        }
        // The least thinning that fits; the most, to be refused with its numbers, if none does.
        // `auto` that nothing had to be dropped for stays what it is, and means `never`.
        let all = [None, Some("coarse"), Some("input")].map(needs);
        let fits = |need: &Need| !self.exceeds(*need);
        let at = all.iter().position(|(_, need)| fits(need)).unwrap_or(2);
        all.into_iter().nth(at).expect("three were tried")
    }

    fn foreseen(&self) -> Need {
        let (n, parts) = (self.graph.n() as f64, self.parts as f64);
        let plain = |per_node: f64| Need {
            bytes: (per_node * n) as u64,
            ms: 4e-6 * n,
        };
        if self.parts == 1 {
            return plain(4.0);
        }
        let streamed = |table: &[(f64, f64)], more: f64| {
            let size = Size::of(self);
            let copy = 4.0 * size.edges + 8.0 * n;
            let made = if size.making > 0.0 { copy } else { 0.0 };
            Need {
                bytes: ((made + more).max(size.making)) as u64,
                ms: by_size(table, size.edges) * size.edges * 1e-6 * (1.0 + parts / 150.0),
            }
        };
        match self.method.entry.name {
            "metis" => {
                let constraints = balance::constraints(self) as f64;
                metis(&Size::of(self), parts, constraints, self.word("thin"))
            }
            "hongtu" => metis(&Size::of(self), parts, 1.0, "never"),
            "ldg" => streamed(LDG_NS, 16.0 * n),
            "fennel" => streamed(FENNEL_NS, 16.0 * n),
            "bytegnn" => {
                let size = Size::of(self);
                let reverse = if size.making > 0.0 {
                    2.0 * size.edges
                } else {
                    0.0
                };
                Need {
                    bytes: (81.0 * n + reverse) as u64,
                    ..streamed(BYTEGNN_NS, 0.0)
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

/// How many times as long this machine takes as the one that the formulas were fitted on: a tenth
/// of a second's worth of random reads and writes, the work of every partitioner here.
pub fn slowness() -> f64 {
    const WORDS: usize = 1 << 22;
    const STEPS: u64 = 1 << 22;
    /// What the steps take there.
    const REFERENCE_MS: f64 = 40.0;
    let mut words = vec![1u32; WORDS];
    let key = rng::key(1, 0, Purpose::Partition, 5);
    let began = crate::record::clock::thread_cpu_ns();
    for step in 0..STEPS {
        let at = rng::below(key, step, WORDS as u64) as usize;
        let from = rng::below(key, step ^ 0x5555, WORDS as u64) as usize;
        words[at] = words[at].wrapping_add(words[from]);
    }
    std::hint::black_box(&words);
    (crate::record::clock::thread_cpu_ns() - began) as f64 / 1e6 / REFERENCE_MS
}
