//! Bytes that training on one rank holds at once, by formula.
//!
//! An epoch is walked through in the order of its calls: forward adds what it keeps, backward frees
//! it again while gradients exist for a short time. Of all moments, the one at which most exists is
//! the answer. Nothing is measured; a test holds the formulas against what a metered backend sees.
//!
//! With `n` rows and `H` heads of `w` columns, 4 bytes an element:
//!
//! | layer | kept by forward | forward besides | backward, one after the other |
//! |---|---|---|---|
//! | GCN, aggregate first | `n·d_in` (aggregate), `n·d_out` | | `g, n·d_in`; `2·n·d_in` |
//! | GCN, multiply first | `n·d_out` | `n·d_out` | `g, n·d_out`; `n·d_out, n·d_in` |
//! | SAGE, aggregate first | as GCN | | `g, 2·n·d_in` |
//! | SAGE, multiply first | `n·d_out` | `n·d_out` | `g, n·d_out, n·d_in` |
//! | GAT | `3·n·H·w + 4·n·H`, `n·d_out` | | `g, 2·n·H`; `g, n·H·w + 3·n·H` (sums freed); `n·H·w, n·d_in` |
//!
//! `g` is the gradient of the layer's output, `n·d_out`; where heads are averaged, it is held beside
//! that of their concatenation only until that one is made. The first layer has no gradient of its
//! input, and keeps its aggregate from epoch to epoch where the request has it made once. Where it
//! aggregates first and the second multiplies first, the gradient between them is made piece by piece
//! as the first layer's weights read it ([`crate::backend::Operand::Made`]), and is in no sum.

use super::{AggregateFirst, ModelKind, Shape};
use crate::dataset::{Dataset, Features, Task};
use crate::graph::Block;
use crate::record::Holds;
use crate::spec::{AggregateWidth, FeatureStorage, FirstAggregate, OptimiserKind, RunSpec};
use serde::Serialize;

/// Bytes at the fullest moment of an epoch, by what they are for. The program itself is not in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// The block that layers multiply by, its transposed where that differs, what of both is kept in
    /// another order for wide rows; vertices' ids, labels and masks.
    pub graph: usize,
    /// Input features, and their transposed where they are sparse.
    pub features: usize,
    /// What forward made and backward still needs at that moment.
    pub activations: usize,
    /// Gradients of activations, and what else exists for as long as one step of a layer.
    pub gradients: usize,
    /// Weights, their gradients and the optimiser's state.
    pub parameters: usize,
}

impl From<Memory> for Holds {
    fn from(m: Memory) -> Holds {
        Holds {
            graph: m.graph,
            features: m.features,
            activations: m.activations + m.gradients,
            history: 0,
            offloaded: 0,
            halo: 0,
            parameters: m.parameters,
        }
    }
}

impl Memory {
    /// Graph, features, activations and gradients: what grows with the data.
    pub fn data(&self) -> usize {
        self.graph + self.features + self.activations + self.gradients
    }

    /// All parts together.
    pub fn total(&self) -> usize {
        self.data() + self.parameters
    }

    /// What `spec` needs on one rank that trains on every row of `block`, the whole graph of `data` as
    /// the model wants it; `block` makes what it keeps for backward. None where there is no formula:
    /// for other models than GCN, GraphSAGE and GAT, for decoupled ones and for links, and where
    /// features stored in 16 bits are widened.
    pub fn of(spec: &RunSpec, data: &Dataset, block: &Block) -> Option<Memory> {
        let model = spec.model;
        let known = matches!(model, ModelKind::Gcn | ModelKind::Sage | ModelKind::Gat);
        if !known || spec.decoupled || data.task == Task::LinkPrediction {
            return None;
        }
        let features = &data.features;
        let rounded = spec.feature_storage == FeatureStorage::Bf16;
        let shape = Shape {
            d_in: features.dim(),
            d_out: data.n_classes,
            relations: 1,
            aggregate_first: AggregateFirst::of(spec),
        };
        block.edges_t();
        let (sparse, transposed) = match features {
            Features::Dense(_) | Features::Mapped { .. } => (None, 0),
            Features::Identity(n) => (Some(*n), features.bytes()),
            // Rows become columns; elements stay as many.
            Features::Sparse(x) => {
                let starts = 8 * (x.n_cols + 1);
                let own = 8 * x.indptr.len();
                (Some(x.indices.len()), x.bytes() - own + starts)
            }
        };
        let epoch = Epoch {
            spec,
            n: block.n_dst,
            sparse,
        };
        let first = epoch.layers(shape)[0].first;
        if rounded && !(model == ModelKind::Gcn && first && spec.dropout == 0.0) {
            return None;
        }
        epoch.arrange(block, shape);
        let (activations, gradients) = epoch.fullest(shape);
        let moments = match spec.optimizer {
            OptimiserKind::Adam | OptimiserKind::Adamw => 2,
            OptimiserKind::Sgd => usize::from(spec.momentum > 0.0),
        };
        let weights = model.weights(spec, shape);
        // What averages the heads of the last layer is a matrix as well.
        let averages = model == ModelKind::Gat && spec.out_heads > 1;
        let average = usize::from(averages) * spec.out_heads * shape.d_out * shape.d_out;
        // Ids, labels and masks.
        let lists = 11 * block.n_dst + data.multi_labels.as_ref().map_or(0, Vec::len);
        Some(Memory {
            graph: block.bytes() + lists,
            features: features.bytes() / if rounded { 2 } else { 1 } + transposed,
            activations: 4 * activations,
            gradients: 4 * gradients,
            parameters: 4 * ((2 + moments) * weights + average),
        })
    }
}

/// One epoch of a request.
struct Epoch<'a> {
    spec: &'a RunSpec,
    n: usize,
    /// Elements of sparse features.
    sparse: Option<usize>,
}

/// A layer's widths.
#[derive(Clone, Copy)]
struct Layer {
    d_in: usize,
    d_out: usize,
    /// Columns of all heads together, and how many heads.
    heads: (usize, usize),
    /// Whether it has the gradient of its input made.
    passes_on: bool,
    /// Whether it aggregates its input rather than its output.
    first: bool,
    /// Whether forward keeps a new aggregate of the input.
    keeps: bool,
}

/// Elements that exist, and the most that existed together.
#[derive(Default)]
struct Ledger {
    kept: usize,
    most: (usize, usize),
}

impl Ledger {
    fn keep(&mut self, elements: usize) {
        self.kept += elements;
        self.beside(0);
    }

    fn free(&mut self, elements: usize) {
        self.kept -= elements;
    }

    /// A moment with so many elements beside what is kept.
    fn beside(&mut self, elements: usize) {
        if self.kept + elements > self.most.0 + self.most.1 {
            self.most = (self.kept, elements);
        }
    }
}

impl Epoch<'_> {
    /// Widths of every layer.
    fn layers(&self, shape: Shape) -> Vec<Layer> {
        let spec = self.spec;
        let attention = spec.model == ModelKind::Gat;
        let once = spec.first_aggregate == FirstAggregate::Once;
        let mut d_in = shape.d_in;
        let layer = |l: usize| {
            let last = l + 1 == spec.layers;
            let (heads, width) = match last {
                true if attention => (spec.out_heads, shape.d_out),
                false if attention => (spec.heads, spec.hidden),
                true => (1, shape.d_out),
                false => (1, spec.hidden),
            };
            let d_out = if last { width } else { heads * width };
            let sparse = l == 0 && self.sparse.is_some();
            let before = match spec.aggregate_width {
                AggregateWidth::Narrower => d_in <= d_out || (l == 0 && once),
                AggregateWidth::Hidden => l > 0,
            };
            let first = !attention && !sparse && before;
            let made = Layer {
                d_in,
                d_out,
                heads: (heads * width, heads),
                passes_on: l > 0,
                first,
                keeps: first && !(l == 0 && once),
            };
            d_in = d_out;
            made
        };
        (0..spec.layers).map(layer).collect()
    }

    /// Has `block` make what is aggregated over on the host.
    fn arrange(&self, block: &Block, shape: Shape) {
        if self.spec.model == ModelKind::Gat || self.spec.backend != "cpu" {
            return;
        }
        for layer in self.layers(shape) {
            let width = if layer.first { layer.d_in } else { layer.d_out };
            // Backward of an aggregate that comes first makes the gradient of the input.
            let backward = (layer.passes_on || !layer.first).then(|| block.edges_t());
            for edges in backward.into_iter().chain([block.edges()]) {
                edges.factor();
                if width >= kernels::segmented::WIDE {
                    edges.segmented();
                }
            }
        }
    }

    /// Elements of activations, and beside them, at the fullest moment.
    fn fullest(&self, shape: Shape) -> (usize, usize) {
        let (n, layers) = (self.n, self.layers(shape));
        let mut ledger = Ledger::default();
        if layers[0].first && !layers[0].keeps {
            ledger.keep(n * layers[0].d_in);
        }
        if self.spec.dropout > 0.0 {
            // The features after dropout; of sparse ones the values, in both orders.
            let dense = n * shape.d_in;
            ledger.keep(self.sparse.map_or(dense, |elements| 2 * elements));
        }
        for layer in &layers {
            self.forward(layer, &mut ledger);
        }
        let logits = n * shape.d_out;
        ledger.beside(logits);
        ledger.free(logits);
        let joined = self.joined(&layers);
        for layer in layers[joined..].iter().rev() {
            self.backward(layer, &mut ledger);
        }
        if joined > 0 {
            // The gradient of the second layer's output and its aggregate.
            ledger.beside(2 * n * layers[1].d_out);
        }
        ledger.most
    }

    /// How many of the first layers have their backward in one go, with nothing written between them.
    fn joined(&self, layers: &[Layer]) -> usize {
        let [first, second, ..] = layers else {
            return 0;
        };
        let read = match self.spec.model {
            ModelKind::Gcn => first.d_in,
            ModelKind::Sage => 2 * first.d_in,
            _ => return 0,
        };
        let makes = self.spec.backend == "cpu" && kernels::linear::makes_rows(read, first.d_out);
        if first.first && !second.first && makes {
            2
        } else {
            0
        }
    }

    fn forward(&self, layer: &Layer, ledger: &mut Ledger) {
        let (n, (wide, heads)) = (self.n, layer.heads);
        if self.spec.model == ModelKind::Gat {
            ledger.keep(3 * n * wide + 4 * n * heads);
        } else if layer.keeps {
            ledger.keep(n * layer.d_in);
        } else if !layer.first {
            ledger.beside(2 * n * layer.d_out);
        }
        ledger.keep(n * layer.d_out);
    }

    /// The gradient of the output exists already, the output of the layer is gone.
    fn backward(&self, layer: &Layer, ledger: &mut Ledger) {
        let Layer { d_in, d_out, .. } = *layer;
        let (n, (wide, heads)) = (self.n, layer.heads);
        let g = n * d_out;
        let input = if layer.passes_on { n * d_in } else { 0 };
        let aggregate = if layer.keeps { n * d_in } else { 0 };
        match self.spec.model {
            ModelKind::Gat => {
                if heads > 1 && wide != d_out {
                    ledger.beside(g + n * wide);
                }
                let (sums, scores) = (n * wide, n * heads);
                ledger.beside(n * wide + 2 * scores);
                ledger.free(2 * sums + scores);
                ledger.beside(2 * n * wide + 3 * scores);
                ledger.free(n * wide + 3 * scores);
                ledger.beside(n * wide + input);
            }
            ModelKind::Sage if layer.first => {
                ledger.beside(g);
                ledger.free(aggregate);
                ledger.beside(g + 2 * input);
            }
            ModelKind::Sage => ledger.beside(g + g + input),
            _ if layer.first => {
                ledger.beside(g);
                ledger.free(aggregate);
                ledger.beside((g + input).max(2 * input));
            }
            _ => ledger.beside((g + g).max(g + input)),
        }
        // What the layer before made is freed when its gradient is there.
        ledger.free(input);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::evaluate;
    use crate::spec::Value;
    use crate::strategy::{Setup, find};
    use crate::testing::{random_dataset, world};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn spec(pairs: &[(&str, &str)]) -> RunSpec {
        let value = |v: &str| Value::from_word(v);
        let pairs = pairs.iter().map(|(k, v)| (*k, value(v)));
        RunSpec::from_pairs(pairs).expect("a request")
    }

    fn planned(spec: &RunSpec, data: &Dataset) -> Memory {
        let block = data.graph.propagation(spec.model.propagation());
        Memory::of(spec, data, &block).expect("has a formula")
    }

    /// The most bytes of matrices of two epochs and evaluations.
    fn held(spec: &RunSpec, data: Dataset) -> usize {
        let data = Arc::new(data);
        let most = world(spec, 1, |cx, meter| {
            let data = Arc::clone(&data);
            let setup = Setup::of(data, None);
            let build = find("single").expect("registered").build;
            let mut built = build(setup, cx).expect("builds");
            for epoch in 0..2 {
                cx.epoch = epoch;
                built.strategy.epoch(cx).expect("trains");
                evaluate(cx, built.strategy.as_mut(), &built.rows).expect("evaluates");
            }
            meter.most_held() as usize
        });
        most[0]
    }

    /// Training holds what the formulas say, up to those parameter gradients that do not exist yet at
    /// the fullest moment.
    fn agree(spec: &RunSpec, data: Dataset) {
        let plan = planned(spec, &data);
        let dense = matches!(data.features, Features::Dense(_));
        let features = if dense { plan.features } else { 0 };
        let matrices = features + plan.activations + plan.gradients;
        let got = held(spec, data);
        let what = format!("{spec:?}: {plan:?}");
        assert!(got <= matrices + plan.parameters, "{got} of {what}");
        assert!(got >= matrices, "{got}, although {matrices} of {what}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn training_holds_as_many_bytes_as_planned(
            model in prop::sample::select(vec!["gcn", "sage", "gat"]), layers in 1usize..5,
            hidden in 1usize..24, heads in 1usize..5, out_heads in 1usize..4, d in 1usize..40,
            classes in 2usize..9, sparse: bool, drops: bool, once: bool, rounds: bool, seed: u64,
        ) {
            let number = |n: usize| n.to_string();
            let p = if drops { "0.5" } else { "0.0" };
            let once = once && !drops && model != "gat" && !sparse;
            // What is widened has no formula.
            let first = layers == 1 && d <= classes || layers > 1 && d <= hidden;
            let rounds = rounds && !drops && !sparse && model == "gcn" && first;
            let spec = spec(&[
                ("feature_storage", if rounds { "bf16" } else { "f32" }), ("model", model), ("layers", &number(layers)), ("hidden", &number(hidden)),
                ("heads", &number(heads)), ("out_heads", &number(out_heads)), ("dropout", p),
                ("attention_dropout", p),
                ("first_aggregate", if once { "once" } else { "every-epoch" }),
            ]);
            agree(&spec, random_dataset(700, 2800, d, classes, sparse, seed));
        }
    }

    #[test]
    fn the_parts_of_a_small_graph_are_counted() {
        let data = crate::dataset::load("sbm:nodes=100,classes=3,feat=5,degree=6", 1);
        let data = data.expect("a built-in");
        let loops = data.graph.n_edges() + 100;
        let spec = spec(&[("layers", "2"), ("hidden", "7"), ("dropout", "0.0")]);
        let plan = planned(&spec, &data);
        assert_eq!(plan.features, 100 * 5 * 4);
        // An index and a weight an edge, a start a row; symmetric.
        assert_eq!(plan.graph, 101 * 8 + loops * 8 + 100 * 11);
        // The first layer's aggregate and output, while the second multiplies: its product and what
        // that is aggregated to are three columns wide.
        assert_eq!(
            (plan.activations, plan.gradients),
            (100 * 4 * (5 + 7), 100 * 4 * (3 + 3))
        );
        assert_eq!(plan.parameters, 4 * 4 * (5 * 7 + 7 + 7 * 3 + 3));
        assert_eq!(plan.total(), plan.data() + plan.parameters);
    }

    #[test]
    fn what_has_no_formula_is_not_guessed() {
        let data = crate::dataset::load("karate", 1).expect("a built-in");
        let of = |spec: &RunSpec, data: &Dataset| {
            let block = data.graph.propagation(spec.model.propagation());
            Memory::of(spec, data, &block)
        };
        assert_eq!(of(&spec(&[("model", "gin")]), &data), None);
        assert_eq!(of(&spec(&[("decoupled", "true")]), &data), None);
        let task = Task::LinkPrediction;
        assert_eq!(of(&spec(&[]), &Dataset { task, ..data }), None);
    }
}
