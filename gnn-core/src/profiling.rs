//! Real epochs of one rank on the host, with every operation timed where it happens, and what it needs at least.

use crate::backend::{Backend, Call, Cpu, Metered, Profiled};
use crate::comm::ThreadTransport;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::record::{Meter, Pass, Phase, give_back, now_ns};
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

/// Trains `plan` on one rank of this thread, without evaluation, and gives the epochs after its warm-up.
///
/// # Errors
/// [`Error::Unsupported`] for several ranks, another device than the host, or a strategy whose work is in
/// threads of its own; whatever building the strategy or an epoch meets.
pub fn profile(plan: &Plan, setup: Setup, entries: &[Entry]) -> Result<Vec<Profile>> {
    let entry = find_in(entries, &plan.spec.strategy)?;
    if plan.spec.ranks != 1 || plan.spec.backend != "cpu" || entry.background {
        return Err(Error::Unsupported {
            what: "a profile of this request".into(),
            reason:
                "operations are timed on one rank, on the host, in the thread that asks for them"
                    .into(),
            help: "profile strategy single on one rank, with backend cpu".into(),
        });
    }
    let plan = Arc::new(plan.clone());
    let (meter, calls) = (Rc::new(Meter::new(None)), Rc::new(RefCell::default()));
    let busy = Arc::default();
    let host = Cpu::of(Par::watched(plan.threads, Arc::clone(&busy)));
    let host = Profiled::new(host, Rc::clone(&meter), Rc::clone(&calls), busy);
    let backend: Box<dyn Backend> = Box::new(Metered::new(host, Rc::clone(&meter)));
    let transport = ThreadTransport::world(1).pop().expect("a world of one");
    let mut cx = Ctx::new(Arc::clone(&plan), Box::new(transport), backend, meter);
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
        let start = now_ns();
        strategy.epoch(&mut cx)?;
        cx.backend.settle();
        let ns = now_ns() - start;
        if epoch >= plan.spec.warmup {
            let calls = calls.borrow().clone();
            all.push(Profile { ns, calls });
        }
    }
    Ok(all)
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
