//! Whatever the schedule does, a run is distdgl's bit by bit on the same cut. Cannot catch: what distdgl
//! has wrong too.

use super::*;
use crate::model::ModelKind;
use crate::spec::KEYS;
use crate::strategy::find;
use crate::strategy::tests::feeds::sampled;
use crate::strategy::tests::{Trained, random_owner, train};
use crate::testing::{random_dataset, with_relations};
use proptest::prelude::*;
use std::sync::Arc;

/// A request for `strategy` with these knobs beside those of [`sampled`].
fn request(strategy: &str, base: &RunSpec, knobs: &[(&str, Value)]) -> RunSpec {
    let entry = find(strategy).expect("registered");
    let own = |key: &str| entry.knobs.iter().any(|k| k.name == key);
    let shared = |key: &str| KEYS.iter().any(|k| k.name == key) || own(key);
    let mut pairs = base.to_pairs();
    pairs.retain(|(key, _)| key != "strategy" && shared(key));
    pairs.retain(|(key, _)| knobs.iter().all(|(k, _)| k != key));
    pairs.push(("strategy".into(), Value::Str(strategy.into())));
    pairs.extend(knobs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
    RunSpec::from_pairs(pairs).expect("valid pairs")
}

/// It, with operations and answers held up at random.
fn held_up() -> Entry {
    let build = |setup: Setup, cx: &mut Ctx| {
        let spec = &cx.plan.spec;
        let delays = Some(spec.seed);
        let settings = Settings {
            delays,
            ..settings(spec)?
        };
        let pool = PoolSettings {
            delays,
            ..fine(spec)
        };
        build_as(setup, cx, settings, pool)
    };
    Entry { build, ..ENTRY }
}

fn word(w: &str) -> Value {
    Value::Str(w.into())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any grain, number of threads, bound, order and way of summing gradients; operations and answers are
    /// held up at random.
    #[test]
    fn runs_are_those_of_distdgl_bit_by_bit(
        n in 30usize..120, degree in 1usize..9, ranks in 1usize..5, model in 0usize..4, dropout: bool,
        (grain, threads, dags) in (1i64..40, 1i64..4, 1i64..6), coarse: bool, fine: bool, ps: bool,
        bound in prop::option::of(1i64..20_000), trainers in 1i64..3, all: bool, seed: u64,
    ) {
        let model = [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat, ModelKind::Rgcn][model];
        let mut data = random_dataset(n, n * degree, 6, 3, false, seed);
        if model == ModelKind::Rgcn {
            data = with_relations(data, 3, seed);
        }
        let data = Arc::new(data);
        let mut base = sampled(model, if dropout { 0.4 } else { 0.0 });
        base.knobs.set("trainers", Value::Int(trainers));
        if all {
            base.knobs.set("fanout", word("all"));
        }
        let owner = || (ranks > 1).then(|| random_owner(n, ranks, seed % 2 == 0, seed));
        let reference = train(&distdgl::ENTRY, &base, &data, owner(), ranks);
        let knobs = [
            ("grain", Value::Int(grain)),
            ("sample_threads", Value::Int(threads)),
            ("dags", Value::Int(dags)),
            ("coarse", Value::Bool(coarse)),
            ("fine", Value::Bool(fine)),
            ("poll_ms", Value::Float(0.2)),
            ("gradients", word(if ps { "ps" } else { "allreduce" })),
            ("in_flight", bound.map_or(word("none"), Value::Int)),
        ];
        let spec = request("bytegnn", &base, &knobs);
        let got = train(&held_up(), &spec, &data, owner(), ranks);
        for (a, b) in reference.iter().zip(&got) {
            prop_assert_eq!(&a.losses, &b.losses);
            // A parameter server has the gradients of its part of the weights alone.
            prop_assert!(a.logits == b.logits && (ps || a.gradients == b.gradients));
            // The same rows are asked for, each once; only their letters are cut otherwise.
            let pulled = |t: &Trained| {
                let rows = t.rows::<BatchRow>();
                rows.iter().map(|r| (r.rows_remote, r.drawn_remote)).collect::<Vec<_>>()
            };
            prop_assert_eq!(pulled(a), pulled(b));
        }
    }
}
