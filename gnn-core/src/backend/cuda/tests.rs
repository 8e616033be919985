//! Every device that is here trains as the CPU does: the host shim, which executes the kernels' own
//! source, and a GPU where there is one. Cannot catch: faults that need more than one stream.

use super::Cuda;
use crate::backend::{Backend, Metered, check};
use crate::dataset::Dataset;
use crate::model::ModelKind;
use crate::record::{Meter, Pass};
use crate::spec::{RunSpec, Value};
use crate::strategy::{Setup, find};
use crate::testing::{random_dataset, required, shim, with_relations, world, world_on};
use kernels::cuda::Device;
use std::rc::Rc;
use std::sync::Arc;

const EPOCHS: u64 = 4;

/// Losses, logits, and whether times were resolved.
fn train(spec: &RunSpec, data: &Arc<Dataset>, device: Option<Arc<Device>>) -> (Vec<f64>, Vec<f32>) {
    let train = |cx: &mut crate::ctx::Ctx, meter: &Meter| {
        let setup = Setup::of(Arc::clone(data), None);
        let entry = find("single").expect("always there");
        let mut built = (entry.build)(setup.clone(), cx).expect("builds");
        let mut losses = Vec::new();
        for epoch in 0..EPOCHS {
            cx.epoch = epoch;
            meter.take_times();
            losses.push(built.strategy.epoch(cx).expect("trains"));
            cx.backend.settle();
            let (times, work) = meter.take_times();
            let mut passes = [Pass::Forward, Pass::Backward, Pass::Optim, Pass::Loss].iter();
            let timed = passes.all(|&pass| times.of(pass) > 0);
            assert!(work.edges > 0 && timed, "{times:?}");
        }
        cx.pass(Pass::Eval);
        let logits = built.strategy.logits(cx).expect("evaluates");
        (losses, logits.iter().copied().collect())
    };
    let mut ranks = match device {
        None => world(spec, 1, train),
        Some(device) => {
            let open = |meter: Rc<Meter>| {
                Box::new(Metered::new(Cuda::new(Arc::clone(&device)), meter)) as Box<dyn Backend>
            };
            world_on(spec, 1, open, train)
        }
    };
    ranks.pop().expect("one rank")
}

fn spec(model: ModelKind, dropout: f64) -> RunSpec {
    let pairs = [
        ("model", Value::Str(model.name().into())),
        ("layers", Value::Int(2)),
        ("hidden", Value::Int(8)),
        ("heads", Value::Int(4)),
        ("dropout", Value::Float(dropout)),
        ("seed", Value::Int(3)),
    ];
    RunSpec::from_pairs(pairs).expect("valid pairs")
}

/// Every device there is must train `model` as the CPU does.
fn agrees(model: ModelKind, sparse: bool) {
    let data = random_dataset(60, 240, 11, 5, sparse, 7);
    let data = Arc::new(if model == ModelKind::Rgcn {
        with_relations(data, 3, 5)
    } else {
        data
    });
    for dropout in [0.0, 0.4] {
        agrees_with(&spec(model, dropout), &data);
    }
}

/// Every device there is must train as the CPU does.
fn agrees_with(spec: &RunSpec, data: &Arc<Dataset>) {
    let gpu = kernels::cuda::open(0);
    assert!(gpu.is_ok() || !required("cuda"), "{gpu:?}");
    let (want, wanted) = train(spec, data, None);
    for device in [shim(), gpu.ok()].into_iter().flatten() {
        let (got, logits) = train(spec, data, Some(Arc::clone(&device)));
        let name = format!(
            "{} by {} on {}",
            spec.model,
            spec.optimizer.name(),
            device.name()
        );
        for (epoch, (g, w)) in got.iter().zip(&want).enumerate() {
            assert!(
                (g - w).abs() <= 1e-4 * w.abs(),
                "{name}: epoch {epoch}: {w}, got {g}"
            );
        }
        let largest = wanted.iter().fold(0f32, |m, x| m.max(x.abs()));
        for (g, w) in logits.iter().zip(&wanted) {
            assert!(
                (g - w).abs() <= 2e-3 * largest.max(1.0),
                "{name}: logit {w}, got {g}"
            );
        }
    }
}

#[test]
fn gcn_trains_as_on_the_cpu() {
    agrees(ModelKind::Gcn, false);
    agrees(ModelKind::Gcn, true);
}

#[test]
fn sage_trains_as_on_the_cpu() {
    agrees(ModelKind::Sage, false);
    agrees(ModelKind::Sage, true);
}

#[test]
fn gat_trains_as_on_the_cpu() {
    agrees(ModelKind::Gat, false);
}

#[test]
fn every_other_model_trains_as_on_the_cpu() {
    let done = [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat];
    for &model in ModelKind::ALL.iter().filter(|m| !done.contains(m)) {
        agrees(model, false);
    }
}

#[test]
fn every_optimiser_steps_as_on_the_cpu() {
    let data = Arc::new(random_dataset(60, 240, 11, 5, false, 7));
    for (optimiser, momentum) in [("adamw", 0.0), ("sgd", 0.0), ("sgd", 0.9)] {
        let mut pairs = spec(ModelKind::Gcn, 0.4).to_pairs();
        pairs.push(("optimizer".into(), Value::Str(optimiser.into())));
        pairs.push(("momentum".into(), Value::Float(momentum)));
        agrees_with(&RunSpec::from_pairs(pairs).expect("valid pairs"), &data);
    }
}

#[test]
fn asked_for_without_a_gpu_it_is_refused_with_words() {
    let refused = check("cuda");
    let there = kernels::cuda::gpus().is_ok();
    match refused {
        Ok(()) => assert!(there),
        Err(e) => {
            assert!(!there);
            let words = e.to_string();
            assert!(
                words.contains("cuda: no ") || words.contains("cuda: the NVIDIA"),
                "{words}"
            );
        }
    }
    assert!(check("cpu").is_ok());
}
