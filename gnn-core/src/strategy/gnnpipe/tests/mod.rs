//! What `gnnpipe` owes beyond what every strategy does.

mod definition;
mod oracle;
mod pipeline;
mod vertex;
mod volumes;

use crate::backend::Mat;
use crate::dataset::Dataset;
use crate::model::{Model, ModelKind, Weights};
use crate::rng;
use crate::spec::{RunSpec, Value};
use crate::strategy::Setup;
use crate::strategy::full_graph::shape_of;
use crate::testing::world;
use std::sync::Arc;
use vertex::M;

/// The models whose edges have fixed weights.
const MODELS: [ModelKind; 5] = [
    ModelKind::Gcn,
    ModelKind::Sage,
    ModelKind::Gin,
    ModelKind::Gcnii,
    ModelKind::Resgcn,
];

/// The weights with which a request begins.
fn first_weights(spec: &RunSpec, data: &Arc<Dataset>) -> Vec<Vec<M>> {
    let all = world(spec, 1, |cx, _| {
        let setup = Setup::of(Arc::clone(data), None);
        let shape = shape_of(&setup, cx);
        let model = Model::new(spec, cx.backend.as_ref(), shape);
        let wide = |w: &Mat| cx.backend.download(w).mapv(f64::from);
        let layer = |w: &Weights| w.iter().map(wide).collect();
        model.weights.iter().map(layer).collect::<Vec<Vec<M>>>()
    });
    all.into_iter().next().expect("one rank")
}

/// A chunk drawn for every vertex.
fn random_chunks(n: usize, chunks: usize, seed: u64) -> Vec<usize> {
    let chunk = |v: usize| rng::below(seed ^ 0xc4, v as u64, chunks as u64) as usize;
    (0..n).map(chunk).collect()
}

/// The same data, some vertices of it in several classes.
fn with_several_classes(mut data: Dataset, seed: u64) -> Dataset {
    let bits = data.n() * data.n_classes;
    let bit = |i: usize| rng::below(seed ^ 0xb1, i as u64, 2) as u8;
    data.multi_labels = Some((0..bits).map(bit).collect());
    data
}

/// The pairs of a request for `strategy`, with gradient descent that moves the weights well within an
/// epoch.
fn pairs(strategy: &str, model: ModelKind, layers: usize, hidden: usize) -> Vec<(String, Value)> {
    let lr = if model == ModelKind::Gin { 0.002 } else { 0.05 };
    [
        ("strategy", Value::Str(strategy.into())),
        ("model", Value::Str(model.name().into())),
        ("layers", Value::Int(layers as i64)),
        ("hidden", Value::Int(hidden as i64)),
        ("dropout", Value::Float(0.3)),
        ("optimizer", Value::Str("sgd".into())),
        ("lr", Value::Float(lr)),
        ("weight_decay", Value::Float(0.0)),
        ("seed", Value::Int(11)),
    ]
    .map(|(k, v)| (k.to_owned(), v))
    .to_vec()
}
