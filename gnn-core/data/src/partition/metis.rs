//! METIS k-way edge cut, with one balance or several.

use std::sync::{Mutex, PoisonError};

use metis::Idx;
use metis::option::{NIter, ObjType, Seed};

use crate::Result;
use crate::graph::Graph;
use crate::knobs::{Knob, Value};
use crate::partition::request::allowed;
use crate::partition::thin::thin;
use crate::partition::undirected::undirected;
use crate::partition::{Partitioner, PartitionerEntry, Request, balance};

/// Few cut edges between parts of about equal work, on the undirected graph without self loops.
///
/// By default a vertex weighs its incident edges plus the mean of them, so that parts balance
/// vertices and edges together: no part weighs more than 1.03 times the mean and the heaviest
/// vertex. With `balance=` each word is a constraint of its own (multi-constraint METIS), and
/// vertices are one in any case: `edges` (incident edges), `train`, `val`, `test` (those
/// vertices), `types` (the vertices of each type), `type-edges` (their incident edges). METIS then
/// aims at every part having at most `1 + slack` of the mean of each. With several it promises none of
/// them: a cut says aloud which balance has a part above that and the heaviest vertex
/// ([`Cut::missed`](crate::partition::Cut)), and the `partition` frame what was reached.
///
/// METIS makes few edges cut by default; `objective=volume` makes few halo copies of vertices.
///
/// # Measured
/// Time and cut edges beside DGL's METIS: `notebooks/measured/cuts.md`.
///
/// # Paper
/// Karypis, Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs",
/// SIAM J. Sci. Comput. 20(1), 1998, <https://doi.org/10.1137/S1064827595287997>; the same,
/// "Multilevel Algorithms for Multi-Constraint Graph Partitioning", SC 1998. Which constraints:
/// DistDGL, §4.1.2.
pub struct Metis;

/// The registry entry.
pub(super) const ENTRY: PartitionerEntry = PartitionerEntry {
    name: "metis",
    about: "METIS k-way: few cut edges, balanced by vertices and edges, or several ways at once",
    knobs: &[
        Knob {
            name: "balance",
            default: "work",
            doc: "work (vertices and edges in one), or words joined by +: vertices, edges, train, val, test, types, type-edges",
            check: |v| matches!(v, Value::Str(s) if balance::is_wish(s)),
        },
        Knob {
            name: "slack",
            default: "0.03",
            doc: "what a part may have above the mean, as a share of it",
            check: |v| v.as_f64().is_some_and(|x| (0.001..=10.0).contains(&x)),
        },
        Knob {
            name: "thin",
            default: "auto",
            doc: "drop edges while coarsening (coarse), or of the input too (input); never; or auto, as little as the limits of memory and time allow",
            check: |v| matches!(v, Value::Str(s) if THINNINGS.contains(&s.as_str())),
        },
        Knob {
            name: "objective",
            default: "cut",
            doc: "what is made small: cut (edges) or volume (halo copies of vertices)",
            check: |v| matches!(v, Value::Str(s) if s == "cut" || s == "volume"),
        },
        Knob {
            name: "passes",
            default: "2",
            doc: "passes of refinement a level (METIS's own number is 10; 1 when thinning)",
            check: allowed::positive,
        },
        Knob {
            name: "starts",
            default: "1",
            doc: "initial partitionings, the best of which is refined; auto is METIS's own 4 or 5 (1 when thinning)",
            check: |v| matches!(v, Value::Str(s) if s == "auto") || allowed::positive(v),
        },
    ],
    partitioner: &Metis,
};

/// The words of `thin`.
const THINNINGS: [&str; 4] = ["auto", "never", "coarse", "input"];

/// METIS draws from one generator of the process, so two cuts at the same time would disturb each
/// other's numbers and the result would depend on timing.
pub(super) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Places in METIS's array of options that the crate has no names for (`metis.h`, version 5.2).
pub(super) const NIPARTS: usize = 6;
const DROPEDGES: usize = 19;

impl Partitioner for Metis {
    fn assign(&self, request: &Request) -> Result<Vec<u32>> {
        let n = request.graph.n();
        // METIS divides by the vertices of a part; here every vertex has a part of its own.
        if request.parts >= n {
            return Ok((0..n as u32).collect());
        }
        let simple = undirected(request.graph)?;
        let edges = Idx::try_from(simple.n_edges()).map_err(|_| {
            request.failed(format!(
                "{} edges are more than 32-bit METIS takes",
                simple.n_edges()
            ))
        })?;
        let (weights, constraints) = balance::weights(request, &simple, edges)?;
        let settled = request.settled();
        let thinning = settled.word("thin");
        let thins = !matches!(thinning, "auto" | "never");
        let (xadj, adjncy) = if thinning == "input" {
            arrays(&thin(&simple, simple.n_edges().div_ceil(n)))
        } else {
            arrays(&simple)
        };
        drop(simple);
        let mut part = vec![0 as Idx; n];
        let fail = |reason: String| request.failed(reason);
        let parts = Idx::try_from(request.parts)
            .map_err(|_| fail(format!("{} parts are too many", request.parts)))?;
        let slack = vec![1.0 + request.number("slack") as f32; constraints];
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut metis = metis::Graph::new(constraints as Idx, parts, &xadj, &adjncy)
            .map_err(|e| fail(e.to_string()))?
            .set_vwgt(&weights);
        let (passes, starts) = match thins {
            true => (1, 1),
            false => (
                request.number("passes") as Idx,
                request.number("starts") as Idx,
            ),
        };
        let mut options = [-1 as Idx; metis::NOPTIONS];
        if thins {
            options[DROPEDGES] = 1;
        }
        // `auto` is no number.
        if starts > 0 {
            options[NIPARTS] = starts;
        }
        metis = metis.set_options(&options);
        // METIS's own default is 10.
        if passes != 10 {
            metis = metis.set_option(NIter(passes));
        }
        if request.word("objective") == "volume" {
            metis = metis.set_option(ObjType::Vol);
        }
        // METIS's own default is 0.03.
        if request.number("slack") != 0.03 {
            metis = metis.set_ubvec(&slack);
        }
        metis
            .set_option(Seed((request.seed & 0x7fff_ffff) as Idx))
            .part_kway(&mut part)
            .map_err(|e| fail(e.to_string()))?;
        drop(guard);
        let mut owner: Vec<u32> = part.into_iter().map(|p| p as u32).collect();
        if constraints == 1 {
            balance::relieve(&mut owner, &weights, request.parts, request.number("slack"));
        }
        Ok(owner)
    }
}

/// METIS's own arrays; the caller has checked that the edges fit.
fn arrays(graph: &Graph) -> (Vec<Idx>, Vec<Idx>) {
    let xadj = graph.indptr().iter().map(|&e| e as Idx).collect();
    let adjncy = graph.indices().iter().map(|&v| v as Idx).collect();
    (xadj, adjncy)
}
