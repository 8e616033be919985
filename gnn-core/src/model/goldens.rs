//! Logits, loss and every gradient against PyTorch Geometric's (`tests/goldens/make.py`).
//!
//! What this cannot catch: errors that need several ranks, dropout, repeated edges or sparse
//! features (`tests.rs` and the strategies' tests have those).

use super::{ModelKind, Weights};
use crate::dataset::Features;
use crate::graph::{EdgeOptions, Graph, Relations};
use crate::spec::{RunSpec, Value};
use crate::strategy::{Setup, single};
use crate::testing::{random_dataset, world};
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Deserialize)]
struct Tensor {
    name: String,
    shape: [usize; 2],
    data: Vec<f64>,
}

#[derive(Deserialize)]
struct Golden {
    spec: serde_json::Map<String, serde_json::Value>,
    n: usize,
    src: Vec<u32>,
    dst: Vec<u32>,
    edge_type: Option<Vec<u16>>,
    x: Vec<f32>,
    classes: usize,
    labels: Vec<i32>,
    train: Vec<bool>,
    weights: Vec<Vec<Tensor>>,
    logits: Vec<f64>,
    loss: f64,
    gradients: Vec<Vec<Tensor>>,
    x_gradient: Vec<f64>,
}

fn matrix(tensor: &Tensor) -> kernels::Mat {
    let data = tensor.data.iter().map(|x| *x as f32).collect();
    kernels::Mat::from_shape_vec(tensor.shape, data).expect("as many numbers as its shape says")
}

#[track_caller]
fn close(what: &str, got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len(), "{what}: lengths");
    // A sum of cancelling terms is compared with the largest element of its tensor.
    let largest = want.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(*got) - want).abs();
        assert!(
            error <= 1e-6 + 1e-5 * largest,
            "{what}, element {i}: expected {want}, got {got}"
        );
    }
}

fn check(name: &str, golden: Golden) {
    let pairs = golden.spec.iter().map(|(key, value)| {
        let word = match value {
            serde_json::Value::String(s) => s.clone(),
            other => other.to_string(),
        };
        (key.clone(), Value::from_word(&word))
    });
    let spec = RunSpec::from_pairs(pairs).expect("a golden's keys are known");
    let n = golden.n;
    let mut data = random_dataset(n, 0, 1, golden.classes, false, 0);
    let (src, dst) = (&golden.src, &golden.dst);
    let graph = match &golden.edge_type {
        None => Graph::from_edges(n, src, dst, EdgeOptions::AS_IS),
        Some(types) => {
            let count = usize::from(*types.iter().max().expect("edges")) + 1;
            let relations = Relations::new(types.clone(), count).expect("below their number");
            Graph::from_typed_edges(n, src, dst, &relations)
        }
    };
    data.graph = graph.expect("a golden's edges are in range");
    let x = kernels::Mat::from_shape_vec((n, golden.x.len() / n), golden.x.clone());
    data.features = Features::Dense(x.expect("n rows"));
    data.labels = golden.labels.clone();
    data.train = golden.train.clone();
    let setup = Setup::of(Arc::new(data), None);
    let golden = &golden;
    world(&spec, 1, |cx, _| {
        let (mut training, _) = single::reference(setup.clone(), cx).expect("builds");
        let model = training.model_mut();
        model.input_gradient = true;
        assert_eq!(model.layers(), golden.weights.len(), "{name}: layers");
        for (l, tensors) in golden.weights.iter().enumerate() {
            let ours = model.layer(l).tensors();
            let ours: Vec<_> = ours.iter().map(|t| (t.name, [t.rows, t.cols])).collect();
            let theirs: Vec<_> = tensors.iter().map(|t| (&t.name[..], t.shape)).collect();
            assert_eq!(ours, theirs, "{name}: tensors of layer {l}");
            let loaded = tensors.iter().map(|t| cx.backend.upload(matrix(t)));
            model.weights[l] = loaded.collect::<Weights>();
        }
        let got = training.evaluate(cx).expect("runs");
        close(&format!("{name}: loss"), &[got.loss as f32], &[golden.loss]);
        let logits = crate::strategy::Strategy::logits(&mut training, cx).expect("runs");
        let logits = logits.as_slice().expect("standard layout");
        close(&format!("{name}: logits"), logits, &golden.logits);
        for (l, tensors) in golden.gradients.iter().enumerate() {
            for (t, want) in tensors.iter().enumerate() {
                let what = format!("{name}: gradient of {} of layer {l}", want.name);
                let g = got.gradients[l][t].as_slice().expect("standard layout");
                close(&what, g, &want.data);
            }
        }
        let gx = got.input.expect("asked for above");
        let gx = gx.as_slice().expect("standard layout");
        close(
            &format!("{name}: gradient of the features"),
            gx,
            &golden.x_gradient,
        );
    });
}

#[test]
fn every_golden_of_pytorch_geometric_is_met() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens");
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("goldens are part of the project") {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        let golden: Golden = serde_json::from_str(&text).expect("as make.py writes it");
        let name = path.file_stem().expect("named above").to_string_lossy();
        let model = golden.spec["model"].as_str().expect("a name").to_owned();
        seen.push(model);
        check(&name, golden);
    }
    for model in ModelKind::NAMES {
        assert!(seen.iter().any(|s| s == model), "{model} has no golden");
    }
}
