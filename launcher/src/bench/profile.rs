//! Where the time of a real epoch goes, operation by operation, beside what this machine could do at best.
//!
//! The limit of an epoch is the sum over its operations of what binds each, moving its compulsory bytes or
//! computing, at rates measured in the same process just before, in the cheaper order of operations: a first
//! layer that multiplies before it aggregates is held against aggregating its features, once, since nothing
//! comes back through them. The other layers run the cheaper order. Mini-batches are held against the order that was run.

use crate::error::Result;
use gnn_core::backend::{Gathered, Listed};
use gnn_core::dataset::{Dataset, Features};
use gnn_core::graph::Graph;
use gnn_core::model::ModelKind;
use gnn_core::plan::Plan;
use gnn_core::spec::RunSpec;
use gnn_core::strategy::{STRATEGIES, Setup, find_in, vertex_order};
use gnn_core::{Profile, profile};
use kernels::bench::{Bound, Clock, Limits, Spread, gather};
use kernels::{Csr, CsrBuf, Par};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often fetching rows is timed.
const FETCHES: Clock = Clock {
    warmup: 1,
    samples: 5,
    seconds: 1.0,
};

/// One operation of one layer and pass, over an epoch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Op {
    /// The operation.
    pub op: &'static str,
    /// Layer.
    pub layer: usize,
    /// Pass of the model.
    pub pass: &'static str,
    /// Calls in an epoch.
    pub calls: usize,
    /// Milliseconds, the median over epochs.
    pub ms: f64,
    /// Milliseconds that its threads share, each as long: the rest is waiting, or work of one alone. The median over
    /// epochs.
    pub shared_ms: f64,
    /// Milliseconds at least.
    pub least_ms: f64,
    /// Compulsory bytes.
    pub bytes: f64,
    /// Operations.
    pub flops: f64,
    /// What binds most of it.
    pub bound: &'static str,
    /// Milliseconds of fetching the rows that it reads one by one: along edges, or for elements of sparse features;
    /// zero where it reads none so.
    pub fetch_ms: f64,
    /// Those rows.
    #[serde(skip)]
    gathered: Gathered,
}

/// The epochs of one request.
#[derive(Debug, Clone)]
pub struct Profiled {
    /// Threads.
    pub threads: usize,
    /// Vertices, edges, columns of features, classes.
    pub size: [usize; 4],
    /// Milliseconds of an epoch.
    pub epoch: Spread,
    /// Its operations, the dearest first.
    pub ops: Vec<Op>,
    /// Milliseconds of an epoch in no operation, the median.
    pub between_ms: f64,
}

impl Profiled {
    /// Milliseconds that an epoch takes at least.
    pub fn least_ms(&self) -> f64 {
        self.ops.iter().map(|op| op.least_ms).sum()
    }

    /// The same, with no operation below the time of fetching its rows, in the order of operations that was run; none
    /// where that was not timed.
    pub fn fetching_ms(&self) -> Option<f64> {
        let timed = self.ops.iter().any(|op| op.fetch_ms > 0.0);
        let each = self.ops.iter().map(|op| op.least_ms.max(op.fetch_ms));
        timed.then(|| each.sum())
    }

    /// How many times as fast as on one thread an epoch can be on `threads`: what threads share now would be shared
    /// among those, and what they do not would stay as long as it is.
    pub fn scales_to(&self, threads: usize) -> f64 {
        let shared: f64 = self.ops.iter().map(|op| op.shared_ms).sum();
        let (all, alone) = (shared * self.threads as f64, self.epoch.median - shared);
        (all + alone) / (all / threads.max(1) as f64 + alone.max(0.0)).max(1e-9)
    }

    /// How many times as long as [`Profiled::least_ms`] it takes.
    pub fn over_limit(&self) -> f64 {
        self.epoch.median / self.least_ms().max(1e-9)
    }
}

/// Trains `spec` on one rank with the threads of `limits`, and holds every operation against them.
///
/// # Errors
/// As [`profile`].
pub fn run(spec: RunSpec, data: Arc<Dataset>, limits: &Limits) -> Result<Profiled> {
    let size = [
        data.n(),
        data.graph.n_edges(),
        data.features.dim(),
        data.n_classes,
    ];
    let multiplies = matches!(
        spec.model,
        ModelKind::Gcn | ModelKind::Sage | ModelKind::Gin
    );
    let dense = matches!(data.features, Features::Dense(_));
    // The run takes the data set's own, as every run does.
    let sparse = match &data.features {
        Features::Sparse(rows) => Some(rows.clone()),
        _ => None,
    };
    let plan = Plan {
        threads: limits.threads,
        oversubscribed: false,
        ..Plan::in_threads(spec)
    };
    let graph = match vertex_order(&data.graph, &plan.spec) {
        Some((_, ids)) => data.graph.renumbered(&ids),
        None => data.graph.clone(),
    };
    let sampled = find_in(STRATEGIES, &plan.spec.strategy)?.background;
    let epochs = profile(&plan, Setup::of(data, None), STRATEGIES)?;
    let mut made = summed(&epochs, size, limits);
    if sampled {
        // Edges of a batch read rows of the batch.
        return Ok(made);
    }
    let ms = fetches(&made, &graph, sparse.as_ref().map(CsrBuf::view));
    made.ops
        .iter_mut()
        .zip(ms)
        .for_each(|(op, ms)| op.fetch_ms = ms);
    if multiplies && dense {
        aggregate_features(&mut made, limits);
    }
    Ok(made)
}

/// Milliseconds of fetching the rows that each operation reads along the edges of `graph` or for the elements of
/// sparse features, timed once for each width; zero for those of features that are not given.
pub(super) fn fetches(made: &Profiled, graph: &Graph, features: Option<Csr<'_>>) -> Vec<f64> {
    let par = Par::new(made.threads);
    let mut by_width = BTreeMap::new();
    let of = |op: &Op| {
        let Gathered {
            rows,
            columns,
            list,
        } = op.gathered;
        let listed = match (list, features) {
            (Listed::Edges, _) => graph.csr(),
            (Listed::Features, Some(rows)) => rows,
            (Listed::Features, None) => return 0.0,
        };
        if rows == 0.0 {
            return 0.0;
        }
        let all = by_width
            .entry((list, columns))
            .or_insert_with(|| gather(&par, FETCHES, listed, columns).median);
        // A model's loops are not among the edges.
        *all * rows / listed.indices.len().max(1) as f64
    };
    made.ops.iter().map(of).collect()
}

/// Holds the aggregations of a first layer that multiplies first, forward and backward, against one of its
/// features; a model's loops are not among the edges.
fn aggregate_features(made: &mut Profiled, limits: &Limits) {
    let [n, edges, columns, _] = made.size.map(|x| x as f64);
    // Lists of neighbours and weights, rows that are read, rows that are written.
    let bytes = 8.0 * (edges + n) + 8.0 * n * columns;
    let (other, _) = limits.least_ms(bytes, bytes, 2.0 * edges * columns);
    let of_first = |op: &&mut Op| op.op == "spmm" && op.layer == 0;
    if made.ops.iter_mut().filter(of_first).count() < 2 {
        return;
    }
    let run: f64 = made
        .ops
        .iter_mut()
        .filter(of_first)
        .map(|op| op.least_ms)
        .sum();
    if run > other {
        for op in made.ops.iter_mut().filter(of_first) {
            op.least_ms *= other / run;
        }
    }
}

fn median(values: &[f64]) -> f64 {
    Spread::of(values).map_or(f64::NAN, |spread| spread.median)
}

/// What one operation came to in one epoch.
#[derive(Default, Clone)]
struct Sum {
    calls: usize,
    ms: f64,
    busy_ms: f64,
    bytes: f64,
    flops: f64,
    /// Rows that are read one by one.
    gathered: Gathered,
    /// Least milliseconds by what binds.
    moving: f64,
    computing: f64,
}

fn summed(epochs: &[Profile], size: [usize; 4], limits: &Limits) -> Profiled {
    let mut by_op: BTreeMap<(usize, &str, &str), Vec<Sum>> = BTreeMap::new();
    for (k, epoch) in epochs.iter().enumerate() {
        for call in &epoch.calls {
            let key = (call.layer, call.pass.label(), call.op);
            let sums = by_op
                .entry(key)
                .or_insert_with(|| vec![Sum::default(); epochs.len()]);
            let (least, bound) = limits.least_ms(call.bytes, call.bytes, call.flops);
            let sum = &mut sums[k];
            sum.calls += 1;
            sum.ms += call.ns as f64 / 1e6;
            sum.busy_ms += call.busy_ns as f64 / 1e6;
            sum.bytes += call.bytes;
            sum.flops += call.flops;
            sum.gathered = Gathered {
                rows: sum.gathered.rows + call.gathered.rows,
                ..call.gathered
            };
            match bound {
                Bound::Memory => sum.moving += least,
                Bound::Compute => sum.computing += least,
            }
        }
    }
    let shared = |sum: &Sum| sum.busy_ms / limits.threads as f64;
    let op = |((layer, pass, op), sums): ((usize, &'static str, &'static str), Vec<Sum>)| {
        let first = sums
            .iter()
            .find(|sum| sum.calls > 0)
            .cloned()
            .unwrap_or_default();
        let bound = if first.moving >= first.computing {
            Bound::Memory
        } else {
            Bound::Compute
        };
        Op {
            op,
            layer,
            pass,
            calls: first.calls,
            ms: median(&sums.iter().map(|sum| sum.ms).collect::<Vec<_>>()),
            shared_ms: median(&sums.iter().map(shared).collect::<Vec<_>>()),
            least_ms: first.moving + first.computing,
            bytes: first.bytes,
            flops: first.flops,
            bound: bound.label(),
            fetch_ms: 0.0,
            gathered: first.gathered,
        }
    };
    let mut ops: Vec<Op> = by_op.into_iter().map(op).collect();
    ops.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    let ms = |epoch: &Profile| epoch.ns as f64 / 1e6;
    let timed = |epoch: &Profile| {
        epoch
            .calls
            .iter()
            .map(|call| call.ns as f64 / 1e6)
            .sum::<f64>()
    };
    let between: Vec<f64> = epochs
        .iter()
        .map(|epoch| ms(epoch) - timed(epoch))
        .collect();
    let whole: Vec<f64> = epochs.iter().map(ms).collect();
    let none = Spread {
        best: f64::NAN,
        low: f64::NAN,
        median: f64::NAN,
        high: f64::NAN,
        samples: 0,
    };
    Profiled {
        threads: limits.threads,
        size,
        epoch: Spread::of(&whole).unwrap_or(none),
        ops,
        between_ms: median(&between),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnn_core::backend::Call;
    use gnn_core::graph::EdgeOptions;
    use gnn_core::record::Pass;

    /// 1 GB/s and 1 GFLOP/s.
    fn limits() -> Limits {
        let one = Spread::of(&[1.0]).expect("one value");
        let bandwidth = kernels::bench::Bandwidth {
            working_set: usize::MAX,
            copy: 1.0,
            triad: 1.0,
            update: 1.0,
            copy_ms: one,
            triad_ms: one,
            update_ms: one,
        };
        let engine = kernels::engine::Engine::detect();
        Limits {
            threads: 1,
            bandwidth: vec![bandwidth],
            flops: vec![(engine, 1.0)],
        }
    }

    fn call(op: &'static str, ms: u64, bytes: f64, flops: f64) -> Call {
        Call {
            op,
            layer: 1,
            pass: Pass::Forward,
            ns: ms * 1_000_000,
            busy_ns: ms * 500_000,
            bytes,
            flops,
            gathered: Gathered::default(),
        }
    }

    #[test]
    fn an_epochs_limit_is_the_sum_of_what_binds_each_operation() {
        let epoch = |ms: u64| Profile {
            ns: (ms + 3) * 1_000_000,
            calls: vec![
                call("spmm", ms - 4, 2e6, 1e6),
                call("linear", 1, 1e6, 3e6),
                call("linear", 3, 1e6, 1e6),
            ],
        };
        let made = summed(&[epoch(10), epoch(14), epoch(12)], [1; 4], &limits());
        assert_eq!(made.epoch.median, 15.0);
        assert_eq!(made.between_ms, 3.0);
        let names: Vec<_> = made.ops.iter().map(|op| (op.op, op.calls, op.ms)).collect();
        assert_eq!(names, [("spmm", 1, 8.0), ("linear", 2, 4.0)]);
        // Two milliseconds of moving; three of computing and one of moving.
        let least: Vec<_> = made.ops.iter().map(|op| (op.least_ms, op.bound)).collect();
        assert_eq!(least, [(2.0, "memory"), (4.0, "compute")]);
        assert_eq!(made.over_limit(), 2.5);
        // Of one thread's 15 milliseconds 6 are in jobs.
        assert_eq!(made.ops.iter().map(|op| op.shared_ms).sum::<f64>(), 6.0);
        assert_eq!(made.scales_to(1), 1.0);
        assert_eq!(made.scales_to(2), 15.0 / 12.0);
    }

    #[test]
    fn elements_of_sparse_features_fetch_rows_where_features_are_given() {
        let of = |list| Call {
            gathered: Gathered {
                rows: 3.0,
                columns: 4,
                list,
            },
            ..call("sparse_gemm", 1, 1.0, 1.0)
        };
        let epoch = Profile {
            ns: 3_000_000,
            calls: vec![of(Listed::Features)],
        };
        let made = summed(&[epoch], [3, 2, 2, 2], &limits());
        let graph = Graph::from_edges(3, &[0, 1], &[1, 2], EdgeOptions::AS_IS).expect("a graph");
        let rows = CsrBuf {
            indptr: vec![0, 2, 3, 3],
            indices: vec![0, 1, 1],
            ..CsrBuf::empty(2)
        };
        assert_eq!(fetches(&made, &graph, None), [0.0]);
        let ms = fetches(&made, &graph, Some(rows.view()));
        assert!(ms[0] > 0.0 && ms[0].is_finite(), "{ms:?}");
    }

    #[test]
    fn a_first_layer_is_held_against_aggregating_its_features_where_that_is_cheaper() {
        let spmm = |pass| Call {
            layer: 0,
            pass,
            ..call("spmm", 9, 3e6, 1e6)
        };
        let epoch = Profile {
            ns: 20_000_000,
            calls: vec![spmm(Pass::Forward), spmm(Pass::Backward)],
        };
        // 8 (edges + vertices) + 8 vertices · columns bytes, 2 edges · columns operations.
        let least = |columns| {
            let mut made = summed(
                std::slice::from_ref(&epoch),
                [50_000, 100_000, columns, 3],
                &limits(),
            );
            aggregate_features(&mut made, &limits());
            made.least_ms()
        };
        assert!((least(4) - 2.8).abs() < 1e-9, "{}", least(4));
        assert!((least(100) - 6.0).abs() < 1e-9, "{}", least(100));
    }
}
