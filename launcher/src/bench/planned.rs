//! Bytes that a run on one rank needs by its own account.
//!
//! Nothing here is measured: it is what the matrices of one epoch must hold, so a peak far above it
//! is memory that somebody wastes.

use gnn_core::dataset::Dataset;
use gnn_core::model::ModelKind;
use gnn_core::spec::RunSpec;
use serde::Serialize;

/// The parts, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// The block that layers multiply by, and its transposed where that differs.
    pub graph: usize,
    /// Input features.
    pub features: usize,
    /// Every layer's output, kept for the backward pass.
    pub activations: usize,
    /// The gradients of these outputs.
    pub gradients: usize,
}

impl Planned {
    /// All parts together.
    pub fn total(&self) -> usize {
        self.graph + self.features + self.activations + self.gradients
    }
}

/// What training by `spec` on one rank needs.
pub fn planned(data: &Dataset, spec: &RunSpec) -> Planned {
    let block = data.graph.propagation(spec.model.propagation());
    block.edges_t();
    // Attention keeps what it projected beside what it attended to, of all heads.
    let (hidden, last) = if spec.model == ModelKind::Gat {
        let last = data.n_classes * spec.out_heads;
        (2 * spec.hidden * spec.heads, last + data.n_classes)
    } else {
        (spec.hidden, data.n_classes)
    };
    let outputs = (spec.layers - 1) * hidden + last;
    let matrices = 4 * data.n() * outputs;
    Planned {
        graph: block.bytes(),
        features: data.features.bytes(),
        activations: matrices,
        gradients: matrices,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_small_graph_are_counted() {
        let data = gnn_core::dataset::load("sbm:nodes=100,classes=3,feat=5,degree=6", 1)
            .expect("a built-in");
        let spec = RunSpec {
            layers: 3,
            hidden: 7,
            ..RunSpec::default()
        };
        let got = planned(&data, &spec);
        assert_eq!(got.features, 100 * 5 * 4);
        assert_eq!(got.activations, 100 * (7 + 7 + 3) * 4);
        assert_eq!(got.gradients, got.activations);
        let attention = RunSpec {
            model: ModelKind::Gat,
            layers: 2,
            heads: 4,
            ..spec
        };
        let of_gat = planned(&data, &attention);
        assert_eq!(of_gat.activations, 100 * (2 * 7 * 4 + 3 + 3) * 4);
        // Loops are added: an index and a weight an edge, a start a row.
        let edges = data.graph.n_edges() + 100;
        assert_eq!(got.graph, 101 * 8 + edges * 8);
        assert_eq!(got.total(), got.graph + got.features + 2 * got.activations);
    }
}
