//! What the layers of a model compute in an epoch, counted from widths: for whoever shares layers out.

use super::kind::Shape;
use super::stack::Model;
use crate::backend::Cpu;
use crate::dataset::{Dataset, Features};
use crate::graph::Propagation;
use crate::spec::RunSpec;

/// What one layer computes in an epoch, forward and back.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LayerWork {
    /// Operations of dense products.
    pub flops: f64,
    /// Elements of rows that are added up along edges.
    pub elements: f64,
}

/// The work of every layer of a request's model of this shape on the whole graph, those included that read
/// no neighbours.
pub fn work_of(spec: &RunSpec, data: &Dataset, shape: Shape) -> Vec<LayerWork> {
    let model = Model::of_layers(spec, &Cpu::new(1), shape, 0..0);
    let (n, loops) = (data.n() as f64, spec.model.propagation());
    let loops = matches!(loops, Propagation::Loops | Propagation::GcnSym);
    let edges = data.graph.n_edges() as f64 + if loops { n } else { 0.0 };
    let sparse = match &data.features {
        Features::Sparse(x) => Some(x.indices.len() as f64),
        _ => None,
    };
    let of_layer = |l: usize| {
        let layer = model.layer(l);
        let widths = layer.widths(sparse.is_some() && l == 0, l > 0);
        let columns = widths.forward.unwrap_or(0) + widths.backward.unwrap_or(0);
        let dense = layer.tensors().into_iter().filter(|t| t.rows > 1);
        // Forward, the weights' gradient, and the input's, which features do not have.
        let flops = dense.map(|t| match (l, sparse) {
            (0, Some(nonzeros)) => 4.0 * nonzeros * t.cols as f64,
            (0, None) => 4.0 * n * (t.rows * t.cols) as f64,
            _ => 6.0 * n * (t.rows * t.cols) as f64,
        });
        LayerWork {
            flops: flops.sum(),
            elements: edges * columns as f64,
        }
    };
    (0..model.layers()).map(of_layer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AggregateFirst;
    use crate::spec::{ModelKind, Value};
    use crate::testing::random_dataset;

    #[test]
    fn layers_are_counted_by_their_widths() {
        let data = random_dataset(50, 200, 40, 3, false, 1);
        let pairs = [
            ("model", Value::from_word(ModelKind::Gcn.name())),
            ("layers", Value::Int(3)),
            ("hidden", Value::Int(8)),
        ];
        let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
        let shape = Shape {
            d_in: 40,
            d_out: 3,
            relations: 1,
            aggregate_first: AggregateFirst::Narrower,
        };
        let work = work_of(&spec, &data, shape);
        let edges = (data.graph.n_edges() + 50) as f64;
        let at = |flops: usize, columns: f64| LayerWork {
            flops: flops as f64,
            elements: edges * columns,
        };
        let want = [
            at(4 * 50 * 40 * 8, 16.0),
            at(6 * 50 * 64, 16.0),
            at(6 * 50 * 24, 6.0),
        ];
        assert_eq!(work, want);
    }
}
