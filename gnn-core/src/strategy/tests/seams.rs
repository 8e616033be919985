//! A strategy in test code out of the mini-batch family's common parts, with a launcher and a sum of
//! gradients of its own: batches begun out of order, and gradients summed otherwise, change no bit.
//! Cannot catch: what distdgl has wrong too.

use super::feeds::sampled;
use super::{random_owner, train};
use crate::checkpoint::Snapshot;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::feed::{BatchRange, Flight, How, Launcher, Launching};
use crate::model::{Model, ModelKind, Optimiser, Weights};
use crate::record::PredictedLane;
use crate::spec::{RunSpec, Value};
use crate::strategy::mini_batch::{AllReduce, Base, GradientSync};
use crate::strategy::{Built, Entry, Setup, distdgl};
use crate::testing::random_dataset;
use std::sync::Arc;

/// Begins the younger of two batches first.
struct Swapped {
    count: u64,
    next: u64,
}

impl Launcher for Swapped {
    fn next(&mut self, flight: &Flight) -> Option<u64> {
        if self.next >= self.count || flight.begun >= flight.taken + 4 {
            return None;
        }
        let k = self.next;
        self.next += 1;
        // The last of an odd number has no other to change places with.
        Some(if k ^ 1 < self.count { k ^ 1 } else { k })
    }
}

fn build_with(
    setup: Setup,
    cx: &mut Ctx,
    launching: Launching,
    sync: impl FnOnce(&Model, &Ctx) -> Box<dyn GradientSync>,
) -> Result<Built> {
    let mut settings = distdgl::settings(&cx.plan.spec)?;
    settings.workers = 2;
    let base = Base::of(&setup, cx, settings)?;
    drop(setup);
    let mut beside = base.start(cx)?;
    let makers = beside.makers(cx)?;
    let feed = beside.prefetched(makers, Some(launching), cx)?;
    beside.finish(cx, Box::new(feed), sync, None)
}

fn all_reduce(model: &Model, cx: &Ctx) -> Box<dyn GradientSync> {
    Box::new(AllReduce::new(model, cx))
}

fn swapped(range: BatchRange) -> Box<dyn Launcher> {
    Box::new(Swapped {
        count: range.len(),
        next: 0,
    })
}

/// Batches that are begun out of order, several at once by a thread, are trained on in order.
#[test]
fn batches_begun_out_of_order_are_taken_in_order() {
    let data = Arc::new(random_dataset(90, 700, 6, 3, false, 21));
    let build = |setup: Setup, cx: &mut Ctx| {
        let launching = Launching {
            launcher: Box::new(swapped),
            how: How::Each(2),
        };
        build_with(setup, cx, launching, all_reduce)
    };
    let entry = Entry {
        build,
        ..distdgl::ENTRY
    };
    let spec = sampled(ModelKind::Sage, 0.4);
    for ranks in 1..=3 {
        let of = |entry: &Entry| {
            let owner = (ranks > 1).then(|| random_owner(90, ranks, false, 3));
            let all = train(entry, &spec, &data, owner, ranks).into_iter();
            all.map(|r| (r.losses, r.gradients, r.sent))
                .collect::<Vec<_>>()
        };
        assert!(of(&entry) == of(&distdgl::ENTRY), "{ranks} ranks");
    }
}

/// Every rank tells all others its gradients, and sums them by itself in the order of the ranks.
struct Told {
    mine: Vec<Weights>,
    sums: Vec<Weights>,
    optimiser: Optimiser,
}

impl GradientSync for Told {
    fn predict(&self, _cx: &Ctx) -> Vec<(PredictedLane, u64)> {
        Vec::new()
    }

    fn begin(&mut self, _cx: &Ctx) {
        self.mine.clear();
    }

    fn add(&mut self, _cx: &Ctx, _layer: usize, _grads: Weights) {
        unreachable!("a rank has one trainer");
    }

    fn ready(&mut self, _cx: &mut Ctx, _layer: usize, grads: Weights) -> Result<()> {
        // Layers come last first.
        self.mine.insert(0, grads);
        Ok(())
    }

    fn apply(&mut self, cx: &mut Ctx, weights: &mut [Weights]) -> Result<()> {
        self.sums.clear();
        for layer in std::mem::take(&mut self.mine) {
            let mut sums = Weights::new();
            for g in layer {
                let g = cx.backend.take(g);
                let wide: Vec<f64> = g.iter().map(|&x| f64::from(x)).collect();
                let all = cx.comm.agree(&wide)?;
                let sum = |k: usize| {
                    let of_ranks = all.iter().map(|part| part[k] as f32);
                    of_ranks.reduce(|a, b| a + b).expect("a rank")
                };
                let sum = kernels::Mat::from_shape_vec(g.dim(), (0..g.len()).map(sum).collect());
                sums.push(cx.backend.upload(sum.expect("as many")));
            }
            self.sums.push(sums);
        }
        self.optimiser.step(cx, weights, &self.sums);
        Ok(())
    }

    fn gradients(&self) -> &[Weights] {
        &self.sums
    }

    fn save(&mut self, cx: &Ctx, snapshot: &mut Snapshot) {
        self.optimiser
            .save(cx.backend.as_ref(), &mut snapshot.shared);
    }

    fn restore(&mut self, cx: &Ctx, snapshot: &mut Snapshot) -> Result<()> {
        self.optimiser
            .restore(cx.backend.as_ref(), &mut snapshot.shared)
    }
}

/// Another way to sum in the order of the ranks gives the bits of the all-reduce.
#[test]
fn gradients_may_be_summed_otherwise() {
    let data = Arc::new(random_dataset(90, 700, 6, 3, false, 21));
    let build = |setup: Setup, cx: &mut Ctx| {
        let told = |model: &Model, cx: &Ctx| {
            let optimiser = Optimiser::new(&cx.plan.spec, model, cx.backend.as_ref());
            Box::new(Told {
                mine: Vec::new(),
                sums: Vec::new(),
                optimiser,
            }) as Box<dyn GradientSync>
        };
        build_with(setup, cx, Launching::fixed(2, 2), told)
    };
    let entry = Entry {
        build,
        ..distdgl::ENTRY
    };
    let spec = sampled(ModelKind::Sage, 0.4);
    for ranks in 1..=3 {
        let of = |entry: &Entry| {
            let owner = (ranks > 1).then(|| random_owner(90, ranks, true, 3));
            train(entry, &spec, &data, owner, ranks)
        };
        let (reference, got) = (of(&distdgl::ENTRY), of(&entry));
        for (a, b) in reference.iter().zip(&got) {
            assert_eq!(a.losses, b.losses, "{ranks} ranks");
            assert!(
                a.gradients == b.gradients && a.logits == b.logits,
                "{ranks} ranks"
            );
        }
        assert!(!got[0].gradients.is_empty());
    }
}

/// Servers of parts of the weights give the bits of the all-reduce, and send as many bytes.
#[test]
fn a_parameter_server_gives_the_bits_of_the_all_reduce() {
    let data = Arc::new(random_dataset(90, 700, 6, 3, false, 21));
    for (model, optimizer, trainers) in [
        (ModelKind::Sage, "adam", 1),
        (ModelKind::Gcn, "adamw", 2),
        (ModelKind::Gat, "sgd", 1),
    ] {
        for ranks in 1..=4 {
            let of = |gradients: &str| {
                let mut pairs = sampled(model, 0.4).to_pairs();
                pairs.retain(|(key, _)| key != "optimizer");
                pairs.push(("optimizer".into(), Value::Str(optimizer.into())));
                let mut spec = RunSpec::from_pairs(pairs).expect("valid pairs");
                spec.weight_decay = 0.01;
                if optimizer == "sgd" {
                    spec.momentum = 0.9;
                }
                spec.knobs.set("gradients", Value::Str(gradients.into()));
                spec.knobs.set("trainers", Value::Int(trainers));
                let owner = (ranks > 1).then(|| random_owner(90, ranks, true, 3));
                train(&distdgl::ENTRY, &spec, &data, owner, ranks)
            };
            let what = format!("{model}, {optimizer}, {ranks} ranks");
            for (a, b) in of("allreduce").iter().zip(&of("ps")) {
                assert_eq!(a.losses, b.losses, "{what}");
                assert!(a.logits == b.logits, "{what}");
                assert_eq!(a.sent, b.sent, "{what}");
                b.assert_predicted(&what);
            }
        }
    }
}
