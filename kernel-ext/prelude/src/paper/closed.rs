//! Closed forms: what a strategy must send and keep, by its paper, from sizes alone.
//!
//! Bytes are of an epoch and of all ranks together unless it is said otherwise; a float has 4. Layers are
//! those of the models whose aggregation has fixed weights and whose features are dense: the narrower side
//! of a layer's product travels, and a gradient of the features is not asked for.

mod offload;

use crate::run::Run;

pub use offload::{
    intermediate_bytes, to_devices_bytes, to_hosts_bytes, topology_bytes, vertex_data_bytes,
};

/// Bytes of a float.
const FLOAT: f64 = 4.0;

/// Widths of a model: of its features, of each hidden layer, of its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Widths(Vec<usize>);

impl Widths {
    /// Of `layers` layers; all hidden ones are equally wide.
    pub fn new(features: usize, hidden: usize, classes: usize, layers: usize) -> Widths {
        let hidden = std::iter::repeat_n(hidden, layers.saturating_sub(1));
        Widths(
            [features]
                .into_iter()
                .chain(hidden)
                .chain([classes])
                .collect(),
        )
    }

    /// How many layers.
    pub fn layers(&self) -> usize {
        self.0.len() - 1
    }

    /// Columns that travel forward in each layer: the narrower side of its product.
    pub fn forward(&self) -> Vec<f64> {
        self.0.windows(2).map(|w| w[0].min(w[1]) as f64).collect()
    }

    /// Columns of gradients that travel backward in each layer: as many, but none for features that are
    /// aggregated before they are multiplied.
    pub fn backward(&self) -> Vec<f64> {
        let mut columns = self.forward();
        if self.0[0] <= self.0[1] {
            columns[0] = 0.0;
        }
        columns
    }

    fn both(&self) -> f64 {
        self.forward().iter().chain(&self.backward()).sum()
    }
}

/// CAGNET's 1D algorithm (Tripathy et al., SC 2020, section IV-A), and SANCUS where nothing is skipped:
/// every rank's rows go to the `ranks - 1` others, `4 · (N − 1) · V · Σ widths`.
pub fn broadcast_bytes(ranks: f64, vertices: f64, widths: &Widths) -> f64 {
    FLOAT * (ranks - 1.0) * vertices * widths.both()
}

/// `halo` (DepComm, NeutronTP section 2.2): every remote row that a rank reads is sent to it once a
/// layer and way. `halo_rows` are those of all ranks together.
pub fn halo_bytes(halo_rows: f64, widths: &Widths) -> f64 {
    FLOAT * halo_rows * widths.both()
}

/// SANCUS's cache, all ranks together: everybody else's rows of every layer, `4 · (N − 1) · V · Σ widths`
/// (section 5.3.4 of the summary of 2024).
pub fn cache_bytes(ranks: f64, vertices: f64, widths: &Widths) -> f64 {
    FLOAT * (ranks - 1.0) * vertices * widths.forward().iter().sum::<f64>()
}

/// What SANCUS's Table 6 prints, bytes of one GPU: `(N − 1)/N · V · 2F · 4`, two layers' rows as wide as
/// the features, of all vertices but its own.
pub fn printed_cache_bytes(ranks: f64, vertices: f64, features: f64) -> f64 {
    (ranks - 1.0) / ranks * vertices * 2.0 * features * FLOAT
}

/// The share of its epochs in which SCS-E broadcasts: one in `bound + 1` (SANCUS, Algorithm 4).
pub fn fixed_share(bound: usize, epochs: usize) -> f64 {
    epochs.div_ceil(bound + 1) as f64 / epochs as f64
}

/// Rows of SCS-E (SANCUS, Algorithm 4): as [`broadcast_bytes`], but forward only in the epochs that
/// broadcast, features that are aggregated themselves once in the run, and gradients always.
pub fn fixed_bytes(ranks: f64, vertices: f64, widths: &Widths, bound: usize, epochs: usize) -> f64 {
    let (mut forward, back) = (widths.forward(), widths.backward());
    let features = match back[0] {
        0.0 => std::mem::take(&mut forward[0]) / epochs as f64,
        _ => 0.0,
    };
    let rows = fixed_share(bound, epochs) * forward.iter().sum::<f64>() + back.iter().sum::<f64>();
    FLOAT * (ranks - 1.0) * vertices * (features + rows)
}

/// Collective operations on rows in an epoch of naive tensor parallelism: a split and a gather for every
/// aggregation, both ways, but none backward of the features (NeutronTP, section 4.1.2).
pub fn naive_rounds(layers: usize) -> f64 {
    (4 * layers - 2) as f64
}

/// The same of decoupled tensor parallelism, whatever the layers: a split and a gather each way.
pub const DECOUPLED_ROUNDS: f64 = 4.0;

/// Rows of naive tensor parallelism: a split and a gather for every aggregation, of the features once and
/// forward only, then of the narrower side of each layer, both ways (NeutronTP, sections 3.1 and 3.3).
pub fn naive_bytes(run: &Run, widths: &Widths) -> f64 {
    let columns = &widths.0;
    let later = columns.windows(2).skip(1).map(|w| w[0].min(w[1]));
    let later: f64 = later.map(|w| both_ways(run, w)).sum();
    2.0 * (travels(run, columns[0], false) + later) / run.epoch_count() as f64
}

/// Rows of decoupled tensor parallelism: a split and a gather of the classes, both ways (NeutronTP,
/// section 4.1.2).
pub fn decoupled_bytes(run: &Run, classes: usize) -> f64 {
    2.0 * both_ways(run, classes) / run.epoch_count() as f64
}

/// Rows of a pipeline of `stages`: those of all vertices over each boundary, forward and back,
/// `2 · (S − 1) · V · H · 4` (GNNPipe, section 3.2); `columns` are the hidden width, twice that where an
/// initial residual goes along.
pub fn pipeline_bytes(stages: f64, vertices: f64, columns: f64) -> f64 {
    2.0 * (stages - 1.0) * vertices * columns * FLOAT
}

/// Rows of graph parallelism that aggregates rows of the hidden width in every layer, and of the groups of a
/// hybrid: `2 · α · L · V · H · 4`, where `read_rows` is `α · V`, the rows that parts read of each other
/// (GNNPipe, sections 2.3 and 3.5).
pub fn deep_halo_bytes(layers: f64, read_rows: f64, hidden: f64) -> f64 {
    2.0 * layers * read_rows * hidden * FLOAT
}

/// Weight gradients of `weights` numbers that `ranks` have each a copy of: around the ring and back,
/// `2 · (N − 1) · ‖W‖ · 4`.
pub fn weight_bytes(ranks: f64, weights: f64) -> f64 {
    2.0 * (ranks - 1.0) * weights * FLOAT
}

/// Weights of the deep models of GNNPipe's evaluation, biases left out: GCN `F·H + (L − 2)·H² + H·C`,
/// GraphSAGE twice that, GCNII `F·H + L·H² + H·C`, ResGCN+ `F·H + 2·L·H² + H·C`.
///
/// # Panics
/// On another model.
pub fn deep_weights(model: &str, widths: &Widths) -> f64 {
    let columns = &widths.0;
    let (layers, hidden) = (widths.layers() as f64, columns[1] as f64);
    let square = hidden * hidden;
    let ends = hidden * (columns[0] + columns[columns.len() - 1]) as f64;
    match model {
        "gcn" => ends + (layers - 2.0) * square,
        "sage" => 2.0 * (ends + (layers - 2.0) * square),
        "gcnii" => ends + layers * square,
        "resgcn" => ends + 2.0 * layers * square,
        _ => panic!("{model}: a form is known of gcn, sage, gcnii and resgcn"),
    }
}

/// The share of an epoch in which a stage of a pipeline idles, `(S − 1) / (K + S − 1)` (GPipe; GNNPipe,
/// section 3.3).
pub fn bubble(stages: f64, chunks: f64) -> f64 {
    (stages - 1.0) / (chunks + stages - 1.0)
}

fn both_ways(run: &Run, columns: usize) -> f64 {
    travels(run, columns, false) + travels(run, columns, true)
}

/// Bytes of a run's splits, or gathers, one way and over all epochs: of so many columns of every vertex,
/// what does not stay on its rank, `4 · (V · D − Σ V_r · D_r)`.
fn travels(run: &Run, columns: usize, back: bool) -> f64 {
    let vertices = run.per_rank("owned_nodes");
    let all = vertices.iter().sum::<f64>() * columns as f64;
    let one = |epoch: usize| {
        let slices = dealt(columns, vertices.len(), epoch, back);
        all - vertices.iter().zip(slices).map(|(v, d)| v * d).sum::<f64>()
    };
    FLOAT * (0..run.epoch_count()).map(one).sum::<f64>()
}

/// How many of so many columns are each rank's: those that do not divide go round from epoch to epoch,
/// forward and backward half a round apart.
fn dealt(columns: usize, ranks: usize, epoch: usize, back: bool) -> Vec<f64> {
    let first = epoch + if back { ranks / 2 } else { 0 };
    let more = |r: usize| (r + ranks - first % ranks) % ranks < columns % ranks;
    let part = (columns / ranks) as f64;
    (0..ranks)
        .map(|r| part + f64::from(u8::from(more(r))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrower_side_travels() {
        let wide = Widths::new(100, 16, 7, 3);
        assert_eq!(wide.layers(), 3);
        assert_eq!(
            [wide.forward(), wide.backward()],
            [[16.0, 16.0, 7.0], [16.0, 16.0, 7.0]]
        );
        let narrow = Widths::new(8, 16, 32, 2);
        assert_eq!(narrow.forward(), [8.0, 16.0]);
        assert_eq!(narrow.backward(), [0.0, 16.0]);
        assert_eq!(broadcast_bytes(4.0, 10.0, &narrow), 4.0 * 3.0 * 10.0 * 40.0);
        assert_eq!(halo_bytes(5.0, &narrow), 4.0 * 5.0 * 40.0);
        assert_eq!(cache_bytes(4.0, 10.0, &narrow), 4.0 * 3.0 * 10.0 * 24.0);
        // Of 16 epochs one sends the features' 8 columns, 8 the next layer's, all their gradients.
        let kept = fixed_bytes(4.0, 10.0, &narrow, 1, 16);
        assert_eq!(kept, 4.0 * 3.0 * 10.0 * (0.5 + 8.0 + 16.0));
        let never = fixed_bytes(4.0, 10.0, &wide, 0, 16);
        assert_eq!(never, broadcast_bytes(4.0, 10.0, &wide));
    }

    #[test]
    fn columns_are_dealt_out_whole_and_all() {
        for (columns, ranks) in [(41, 4), (3, 4), (8, 4), (7, 3)] {
            for epoch in 0..5 {
                let slices = dealt(columns, ranks, epoch, epoch % 2 == 0);
                assert_eq!(slices.iter().sum::<f64>(), columns as f64);
            }
        }
        assert_eq!(dealt(5, 4, 0, false), [2.0, 1.0, 1.0, 1.0]);
        assert_eq!(dealt(5, 4, 1, false), [1.0, 2.0, 1.0, 1.0]);
        assert_eq!(dealt(5, 4, 0, true), [1.0, 1.0, 2.0, 1.0]);
    }

    /// Cells of GNNPipe's Table 5, in GiB, where a replication factor of 0.82 is implied for the hybrid's
    /// chunks of Squirrel.
    #[test]
    fn volumes_are_those_that_gnnpipe_prints() {
        let (gib, n, h) = (1024f64.powi(3), 5201.0, 1000.0);
        let near = |got: f64, printed: f64| {
            let got = got / gib;
            assert!((got - printed).abs() < 0.01 * printed, "{got}, {printed}");
        };
        near(pipeline_bytes(8.0, n, h), 0.27);
        near(pipeline_bytes(8.0, n, 2.0 * h), 0.54);
        let widths = Widths::new(2089, 1000, 5, 32);
        for (model, graph, hybrid) in [
            ("gcn", 4.43, 1.38),
            ("sage", 6.10, 1.61),
            ("gcnii", 4.53, 1.51),
            ("resgcn", 6.20, 1.63),
        ] {
            let weights = deep_weights(model, &widths);
            let of_graph = deep_halo_bytes(32.0, 2.22 * n, h) + weight_bytes(8.0, weights);
            near(of_graph, graph);
            let columns = if model == "gcnii" { 2.0 * h } else { h };
            let of_hybrid = pipeline_bytes(4.0, n, columns)
                + deep_halo_bytes(32.0, 0.82 * n, h)
                + weight_bytes(2.0, weights);
            near(of_hybrid, hybrid);
        }
        assert_eq!(bubble(8.0, 32.0), 7.0 / 39.0);
    }

    #[test]
    fn rounds_and_shares_are_those_of_the_papers() {
        assert_eq!([naive_rounds(3), DECOUPLED_ROUNDS], [10.0, 4.0]);
        assert_eq!([fixed_share(1, 16), fixed_share(3, 16)], [0.5, 0.25]);
        assert_eq!(fixed_share(2, 16), 6.0 / 16.0);
    }
}
