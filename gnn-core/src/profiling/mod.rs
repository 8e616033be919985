//! Real epochs of one rank on the host, with every operation timed where it happens, and what it needs at least.
//!
//! Of a strategy that trains on mini-batches, those that are made when they are asked for, whose making is among the
//! operations ([`batches`]).

mod batches;

use crate::backend::{Backend, Call, Cpu, Metered, Profiled};
use crate::comm::ThreadTransport;
use crate::ctx::Ctx;
use crate::dataset::Features;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::record::{Meter, Pass, Phase, give_back, now_ns};
use crate::spec::{RunSpec, Value};
use crate::strategy::{Entry, Setup, find_in};
use kernels::Par;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// One epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Nanoseconds of all of it.
    pub ns: u64,
    /// Its operations, in their order.
    pub calls: Vec<Call>,
}

/// Trains `plan` on one rank, a thread of its own, without evaluation, and gives the epochs after its warm-up.
///
/// # Errors
/// [`Error::Unsupported`] for several ranks, another device than the host, or a strategy whose work is in
/// threads of its own, as batches are with `prefetch`; whatever building the strategy or an epoch meets.
pub fn profile(plan: &Plan, setup: Setup, entries: &[Entry]) -> Result<Vec<Profile>> {
    let entry = find_in(entries, &plan.spec.strategy)?;
    if plan.spec.ranks != 1 || plan.spec.backend != "cpu" || beside(entry, &plan.spec) {
        return Err(Error::Unsupported {
            what: "a profile of this request".into(),
            reason:
                "operations are timed on one rank, on the host, in the thread that asks for them"
                    .into(),
            help: "profile strategy single, or distdgl with prefetch = 0, on one rank, with backend cpu"
                .into(),
        });
    }
    // A thread of its own, as a rank has.
    std::thread::scope(|scope| {
        let rank = scope.spawn(|| epochs(plan, setup, entry));
        rank.join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// [`profile`] on the thread that trains.
fn epochs(plan: &Plan, setup: Setup, entry: &Entry) -> Result<Vec<Profile>> {
    let row = bytes_of_row(&setup.data.features);
    let plan = Arc::new(plan.clone());
    let (meter, calls) = (Rc::new(Meter::new(None)), Rc::new(RefCell::default()));
    let busy = Arc::default();
    let host = Cpu::of(Par::here(plan.threads).watched(Arc::clone(&busy)));
    let host = Profiled::new(
        host,
        Rc::clone(&meter),
        Rc::clone(&calls),
        Arc::clone(&busy),
    );
    let backend: Box<dyn Backend> = Box::new(Metered::new(host, Rc::clone(&meter)));
    let transport = ThreadTransport::world(1).pop().expect("a world of one");
    let mut cx = Ctx::new(
        Arc::clone(&plan),
        Box::new(transport),
        backend,
        Rc::clone(&meter),
    );
    cx.busy = Some(Arc::clone(&busy));
    cx.enter(Phase::Setup);
    cx.pass(Pass::Setup);
    let mut strategy = (entry.build)(setup, &mut cx)?.strategy;
    give_back();
    let mut all = Vec::new();
    for epoch in 0..plan.spec.epochs {
        cx.epoch = epoch as u64;
        cx.enter(Phase::Other);
        cx.pass(Pass::Forward);
        calls.borrow_mut().clear();
        meter.take_noted();
        let before = busy.ns();
        let start = now_ns();
        strategy.epoch(&mut cx)?;
        cx.backend.settle();
        let ns = now_ns() - start;
        if epoch >= plan.spec.warmup {
            let mut calls = calls.borrow().clone();
            let known: u64 = calls.iter().map(|call| call.busy_ns).sum();
            let others = (busy.ns() - before).saturating_sub(known);
            calls.extend(batches::calls(meter.take_noted(), row, others));
            all.push(Profile { ns, calls });
        }
    }
    Ok(all)
}

/// Whether it works in threads beside the one that trains.
fn beside(entry: &Entry, spec: &RunSpec) -> bool {
    let none_ahead = spec.knobs.get("prefetch") == Some(&Value::Int(0));
    entry.background && !none_ahead
}

/// Bytes of a row of features, on average.
fn bytes_of_row(features: &Features) -> f64 {
    let n = features.n().max(1) as f64;
    match features {
        Features::Sparse(x) => 8.0 * x.indices.len() as f64 / n,
        dense => 4.0 * dense.dim() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset;
    use crate::spec::{RunSpec, Value};
    use crate::strategy::STRATEGIES;

    fn spec(pairs: &[(&str, Value)]) -> RunSpec {
        let own = [
            ("data", Value::Str("karate".into())),
            ("epochs", Value::Int(3)),
            ("warmup", Value::Int(1)),
        ];
        RunSpec::from_pairs(own.into_iter().chain(pairs.iter().cloned())).expect("valid pairs")
    }

    fn run(pairs: &[(&str, Value)]) -> Result<Vec<Profile>> {
        let spec = spec(pairs);
        let data = dataset::load("karate", 0).expect("built in");
        profile(
            &Plan::in_threads(spec),
            Setup::of(Arc::new(data), None),
            STRATEGIES,
        )
    }

    fn sum<'a>(calls: impl Iterator<Item = &'a Call>) -> (f64, f64) {
        calls.fold((0.0, 0.0), |(b, f), call| (b + call.bytes, f + call.flops))
    }

    #[test]
    fn every_operation_of_an_epoch_is_there_with_what_it_needs() {
        let made =
            run(&[("hidden", Value::Int(8)), ("dropout", Value::Float(0.0))]).expect("profiled");
        assert_eq!(made.len(), 2);
        for Profile { ns, calls } in &made {
            let timed: u64 = calls.iter().map(|call| call.ns).sum();
            assert!(timed > 0 && timed <= *ns, "{timed} of {ns}");
            let within = |call: &Call| call.busy_ns <= call.ns;
            assert!(calls.iter().all(within), "one thread: {calls:?}");
            assert!(calls.iter().any(|call| call.busy_ns > 0));
            let of = |op: &str| calls.iter().filter(|call| call.op == op).count();
            assert!(
                of("linear") >= 2 && of("spmm") >= 2 && of("softmax_xent") == 1,
                "{calls:?}"
            );
            assert!(of("weight_gradients") + of("sparse_gemm") >= 2, "{calls:?}");
            // Both layers' weights.
            assert_eq!(of("adam"), 4, "{calls:?}");
        }
        // The second layer's forward product: [34, 8] · [8, 4], or aggregated first.
        let of_second =
            |call: &&Call| call.op == "linear" && call.layer == 1 && call.pass == Pass::Forward;
        let (moved, flops) = sum(made[0].calls.iter().filter(of_second));
        assert_eq!(flops, 2.0 * 34.0 * 8.0 * 4.0);
        assert!(
            moved >= 4.0 * (34.0 * 8.0 + 8.0 * 4.0 + 34.0 * 4.0),
            "{moved}"
        );
        let both = |profile: &Profile| sum(profile.calls.iter());
        assert_eq!(both(&made[0]), both(&made[1]), "epochs need the same");
    }

    #[test]
    fn attention_and_residuals_are_counted_too() {
        for model in ["gat", "sage", "gin", "gcnii"] {
            let made = run(&[("model", Value::Str(model.into()))]).expect("profiled");
            let (moved, flops) = sum(made[0].calls.iter());
            assert!(moved > 0.0 && flops > 0.0, "{model}");
            assert!(
                made[0]
                    .calls
                    .iter()
                    .all(|call| call.bytes >= 0.0 && call.flops.is_finite())
            );
        }
    }

    #[test]
    fn making_mini_batches_is_among_the_operations() {
        let of = |prefetch| {
            run(&[
                ("model", Value::Str("sage".into())),
                ("dropout", Value::Float(0.0)),
                ("strategy", Value::Str("distdgl".into())),
                ("fanout", Value::Str("3,2".into())),
                ("batch", Value::Int(8)),
                ("prefetch", Value::Int(prefetch)),
            ])
        };
        let made = of(0).expect("profiled");
        assert_eq!(made.len(), 2);
        for Profile { ns, calls } in &made {
            let timed: u64 = calls.iter().map(|call| call.ns).sum();
            assert!(timed > 0 && timed <= *ns, "{timed} of {ns}");
            let of = |op: &str, layer| {
                let of = |call: &&Call| call.op == op && call.layer == layer;
                calls.iter().filter(of).collect::<Vec<_>>()
            };
            let [first, second] = [of("draw", 0), of("draw", 1)];
            // The second layer draws in-edges of the seeds, two each, and the first those of more vertices.
            assert_eq!(
                (first.len(), second.len(), of("collect", 0).len()),
                (1, 1, 1)
            );
            assert!(first[0].bytes > second[0].bytes, "{calls:?}");
            assert!(
                of("linear", 1).len() > 1,
                "a call for each batch: {calls:?}"
            );
        }
        let refused = of(2).expect_err("made in other threads").to_string();
        assert!(refused.contains("profile"), "{refused}");
    }

    #[test]
    fn what_has_no_single_thread_of_operations_is_refused() {
        assert!(
            run(&[
                ("ranks", Value::Int(2)),
                ("strategy", Value::Str("halo".into()))
            ])
            .is_err()
        );
    }
}
