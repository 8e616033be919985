//! Memory and time of a cut, foreseen; refused with numbers where it cannot fit.
//!
//! # Where the numbers come from
//! Memory is counted where a method's arrays are ours. METIS holds every level of its coarse graphs,
//! so these are foreseen on the graph itself ([`coarsening`]); bytes a level's edge and vertex are
//! fitted to measurements of R-MAT graphs of 2¹⁴ to 2²⁰ vertices, planted partitions of 2¹⁴ to 2¹⁸ and
//! look-alikes, into 4, 8 and 32 parts, one balance and three: all within 12 %. Its time is a sum over the
//! same levels ([`effort`]) in this machine's pace ([`pace`]), which is measured before each forecast.
//!
//! [`effort`]: super::effort
//! [`pace`]: super::pace
//!
//! # Measured
//! Foreseen beside taken, memory and time: `notebooks/measured/cuts.md`.
//!
//! # Not done
//! Graphs of strong communities are foreseen too long: METIS finds them early and refines less. Coauthor Physics
//! into 8 parts was 1.2 to 1.5 times too long when the constants were fitted, most with several balances. Of the
//! 222 single forecasts behind these medians four were 1.6 to 2.6 times too long, when others kept the shared cache
//! from the measurement of memory and not from METIS. A forecast of METIS takes 31 to 35 ms at 2¹⁴
//! vertices (as long as the cut, twice as long as one with `thin=input` of R-MAT), 58 to 89 ms at 2¹⁶, 0.26 to
//! 0.66 s at 2¹⁸ (a quarter to a half of the cut without thinning); those of LDG and Fennel take half of their pass
//! or more. Wall time is longer wherever others compute.
//!
//! [`coarsening`]: super::coarsening
//!
//! `halobook bench data` prints what is foreseen beside what is measured, on three sizes of two kinds
//! of graph.

use crate::clock::thread_cpu_ns;
use crate::graph::{EdgeOptions, Graph};
use crate::partition::coarsening::{Levels, levels};
use crate::partition::effort::{self, Task};
use crate::partition::thin::left;
use crate::partition::undirected::undirected;
use crate::partition::{Method, Request, balance, fennel, ldg};
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
    /// Milliseconds that finding out took whether the graph is simple, as every partitioner does first.
    looked_ms: f64,
}

/// Whether a graph is simple, and milliseconds that finding out takes.
fn look(graph: &Graph) -> (bool, f64) {
    let began = thread_cpu_ns();
    let simple = graph.is_already(EdgeOptions::SIMPLE);
    (simple, (thread_cpu_ns() - began) as f64 / 1e6)
}

impl Size {
    fn of(request: &Request) -> Size {
        let graph = request.graph;
        let (n, edges) = (graph.n(), graph.n_edges());
        let mean = edges.div_ceil(n.max(1));
        let above = (0..n).map(|v| graph.in_degree(v).saturating_sub(mean));
        let skew = above.sum::<usize>() as f64 / edges.max(1) as f64;
        let (nodes, given) = (n as f64, edges as f64);
        let (simple, looked_ms) = look(graph);
        if simple {
            return Size {
                nodes,
                edges: given,
                making: 0.0,
                skew,
                looked_ms,
            };
        }
        // A destination an edge, then both directions and two arrays of offsets.
        Size {
            nodes,
            edges: 2.0 * given,
            making: 12.0 * given + 16.0 * nodes,
            skew,
            looked_ms,
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

/// Looking at a graph that takes longer is not repeated.
const ONCE_MS: f64 = 100.0;

/// What ByteGNN's blocks take of an edge for every time that a pass of LDG takes of it, and how much more where
/// some vertices have most of the edges.
const BLOCKS: [f64; 2] = [1.3, 1.95];

/// What METIS needs to cut a graph of these levels.
fn whole(levels: &Levels, task: Task) -> Need {
    let (n, e) = (levels.nodes[0], levels.edges[0]);
    let sum = |of: &[f64]| of.iter().sum::<f64>();
    let (nodes, edges) = (sum(&levels.nodes), sum(&levels.edges));
    let bytes = 2.42 * e + 9.39 * (edges - e) + 73.3 * (nodes - n) + 6.7 * task.constraints * n;
    Need {
        bytes: bytes as u64,
        ms: effort::whole_ms(levels, task),
    }
}

/// More than METIS needs, without a look at the edges.
fn at_most(size: &Size, constraints: f64) -> f64 {
    // As many levels as there can be, none of which loses an edge.
    let levels = (size.nodes.max(2.0).log2() - 5.0).max(1.0);
    let whole = (3.0 + 9.4 * levels) * size.edges + (150.0 + 7.0 * constraints) * size.nodes;
    whole.max(size.making)
}

/// What METIS needs for a graph of that size and these levels when it drops edges, all but a share `left` of them
/// before, where that is said.
fn thinned(size: &Size, levels: &Levels, left: Option<f64>, task: Task) -> Need {
    let cut = size.edges * left.unwrap_or(1.0);
    let weights = 8.0 * size.nodes * (task.constraints - 1.0);
    Need {
        bytes: (COARSE.bytes(size.nodes, cut) + weights).max(size.making) as u64,
        ms: effort::thinned_ms(levels, left, task),
    }
}

impl<'a> Request<'a> {
    /// What [`Request::cut`] will need, before it runs.
    ///
    /// # Errors
    /// [`Error::Spec`] and [`Error::Shape`] as [`Request::assign`].
    pub fn need(&self) -> Result<Need> {
        self.check()?;
        Ok(self.settled().foreseen_nested())
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
        if !self.exceeds(self.foreseen_nested()) {
            return self.clone();
        }
        let coarse = thinned("coarse");
        if !self.exceeds(coarse.foreseen_nested()) {
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

    /// What METIS needs, with edges dropped as `thin` says.
    fn levelled(&self, by_edges: bool, constraints: f64, thin: &str) -> Need {
        let size = Size::of(self);
        let made = (size.making > 0.0).then(|| undirected(self.graph));
        // What cannot be made simple is refused when it is cut.
        let made = made.and_then(|made| made.ok());
        let graph = made.as_deref().unwrap_or(self.graph);
        let levels = levels(graph, self.parts, by_edges);
        let task = Task {
            parts: self.parts as f64,
            constraints,
        };
        let need = match thin {
            "coarse" => return thinned(&size, &levels, None, task),
            "input" => return thinned(&size, &levels, Some(left(graph)), task),
            _ => whole(&levels, task),
        };
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

    /// What this method needs for the first level.
    pub(super) fn foreseen(&self) -> Need {
        let n = self.graph.n() as f64;
        let plain = |per_node: f64| Need {
            bytes: (per_node * n) as u64,
            ms: 4e-6 * n,
        };
        if self.parts == 1 || self.parts >= self.graph.n() {
            return plain(4.0);
        }
        let streamed = |ns: f64, more: f64| {
            let size = Size::of(self);
            // The first look may be the first at these edges; the partitioner's is not.
            let looked_ms = if size.looked_ms < ONCE_MS {
                size.looked_ms.min(look(self.graph).1)
            } else {
                size.looked_ms
            };
            let copy = 4.0 * size.edges + 8.0 * n;
            let made = if size.making > 0.0 { copy } else { 0.0 };
            Need {
                bytes: ((made + more).max(size.making)) as u64,
                ms: looked_ms + ns * (size.edges + n) * 1e-6,
            }
        };
        match self.method.entry.name {
            "metis" => {
                let constraints = balance::constraints(self) as f64;
                let wish = self.word("balance");
                let by_edges = wish == "work" || wish.contains("edges");
                self.levelled(by_edges, constraints, self.word("thin"))
            }
            "hongtu" => self.levelled(true, 1.0, "never"),
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
                    ..streamed((BLOCKS[0] + BLOCKS[1] * size.skew) * blocks_ns(self), 0.0)
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
            let need = other.foreseen_nested();
            (!self.exceeds(need)).then(|| format!("{text} needs {}", megabytes(need.bytes)))
        });
        Err(Error::Unsupported {
            what: format!(
                "{} into {} of {n} vertices and {edges} edges",
                self.method.label(),
                self.both()
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

/// Nanoseconds an edge of a pass of LDG, which reads a graph as the search of ByteGNN's blocks does.
fn blocks_ns(request: &Request) -> f64 {
    let method = Method::parse("ldg").expect("registered with these defaults");
    ldg::ns_an_edge(&Request {
        method,
        ..request.clone()
    })
}
