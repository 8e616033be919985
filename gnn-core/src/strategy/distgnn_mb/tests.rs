//! Held against an oracle that runs all ranks one after the other, and against what is known: one rank and caches
//! without lines are `distdgl`; caches of everything are full-graph training, some steps late.

mod edges;
mod limits;
mod oracle;

use super::ENTRY;
use super::frames::HecRow;
use crate::model::{AggregateFirst, Model, ModelKind, Shape};
use crate::spec::{RunSpec, Value};
use crate::strategy::Setup;
use crate::strategy::full_graph::shape_of;
use crate::strategy::tests::{random_owner, spec, train_epochs};
use crate::testing::{random_dataset, world};
use oracle::{Oracle, Setting, sampler};
use std::sync::Arc;

/// A request with these settings.
fn with(model: ModelKind, ranks: usize, set: &[(&str, Value)]) -> RunSpec {
    let mut pairs = spec(&ENTRY, model, 2, 4).to_pairs();
    let more = set.iter().map(|(k, v)| ((*k).to_owned(), v.clone()));
    let fixed = [
        ("ranks", Value::Int(ranks as i64)),
        ("optimizer", Value::Str("sgd".into())),
        ("on_miss", Value::Str("drop".into())),
        ("cs", int(1000)),
    ];
    let fixed = fixed.map(|(k, v)| (k.to_owned(), v));
    let all: Vec<(String, Value)> = fixed.into_iter().chain(more).collect();
    pairs.retain(|(key, _)| !all.iter().any(|(k, _)| k == key));
    for (key, value) in all {
        pairs.retain(|(k, _)| *k != key);
        pairs.push((key, value));
    }
    RunSpec::from_pairs(pairs).expect("valid pairs")
}

fn int(i: i64) -> Value {
    Value::Int(i)
}

fn word(w: &str) -> Value {
    Value::from_word(w)
}

/// The weights with which training begins.
fn weights(spec: &RunSpec, data: &Arc<crate::dataset::Dataset>) -> Vec<Vec<ndarray::Array2<f64>>> {
    let mut all = world(spec, 1, |cx, _| {
        let setup = Setup::of(Arc::clone(data), None);
        let shape = Shape {
            aggregate_first: AggregateFirst::Always,
            ..shape_of(&setup, cx)
        };
        let model = Model::new(spec, cx.backend.as_ref(), shape);
        let wide = |w| cx.backend.download(w).mapv(f64::from);
        let layers = model.weights.iter();
        layers
            .map(|of| of.iter().map(wide).collect())
            .collect::<Vec<Vec<_>>>()
    });
    all.remove(0)
}

fn near(what: &str, a: f64, b: f64, scale: f64) {
    assert!(
        (a - b).abs() <= 1e-5 * scale.max(a.abs()),
        "{what}: {a} and {b}"
    );
}

/// Losses, gradients and what the caches did, epoch by epoch, are the oracle's.
fn equals_oracle(model: ModelKind, ranks: usize, set: &[(&str, Value)]) -> Vec<HecRow> {
    const EPOCHS: u64 = 3;
    let data = Arc::new(random_dataset(70, 420, 5, 3, false, 21));
    let owner = random_owner(70, ranks, false, 3);
    let base = [
        ("fanout", word("3,4")),
        ("batch", int(4)),
        ("cs", int(12)),
        ("lr", Value::Float(0.05)),
        ("dropout", Value::Float(0.0)),
        ("attention_dropout", Value::Float(0.0)),
        ("weight_decay", Value::Float(0.0)),
        ("momentum", Value::Float(0.0)),
    ];
    let set = [&base[..], set].concat();
    let spec = with(model, ranks, &set);
    let what = format!("{model} on {ranks} ranks, {set:?}");
    let got = train_epochs(&ENTRY, &spec, &data, Some(owner.clone()), ranks, EPOCHS);
    let of = Setting {
        spec: &spec,
        data: &data,
        owner: &owner,
        in_place: model != ModelKind::Gat && spec.dropout == 0.0,
    };
    let mut oracle = Oracle::new(of, weights(&spec, &data), sampler(&spec, &data));
    let mut all = Vec::new();
    for epoch in 0..EPOCHS {
        for (rank, (loss, said)) in oracle.epoch(epoch).into_iter().enumerate() {
            let what = format!("{what}, epoch {epoch}, rank {rank}");
            near(&what, loss, got[rank].losses[epoch as usize], 1.0);
            let rows = got[rank].rows::<HecRow>();
            let rows = rows.iter().filter(|row| u64::from(row.epoch) == epoch);
            for (said, row) in said.into_iter().zip(rows) {
                let timed = HecRow {
                    pre_ms: row.pre_ms,
                    comm_ms: row.comm_ms,
                    post_ms: row.post_ms,
                    ..said
                };
                assert_eq!(timed, **row, "{what}");
                all.push(timed);
            }
        }
    }
    let expected = oracle.gradients.iter().flatten();
    let got = got[0].gradients.iter();
    for (t, (expected, got)) in expected.zip(got).enumerate() {
        let scale = expected.iter().fold(1e-3f64, |m, x| m.max(x.abs()));
        for (a, b) in expected.iter().zip(got) {
            near(&format!("{what}: gradient {t}"), *a, f64::from(*b), scale);
        }
    }
    all
}

fn sum(rows: &[HecRow], of: impl Fn(&HecRow) -> u64) -> u64 {
    rows.iter().map(of).sum()
}

/// Everything that can happen to a row does.
#[test]
fn every_epoch_is_the_oracles() {
    for model in [ModelKind::Sage, ModelKind::Gcn, ModelKind::Gat] {
        let rows = equals_oracle(model, 3, &[("ls", int(1)), ("nc", int(5))]);
        for (what, count) in [
            ("hits", sum(&rows, |r| r.hits)),
            ("misses", sum(&rows, |r| r.lookups - r.hits)),
            ("dropped", sum(&rows, |r| r.edges_dropped)),
            ("evicted", sum(&rows, |r| r.rows_evicted)),
            ("expired", sum(&rows, |r| r.rows_expired)),
            ("renewed", sum(&rows, |r| r.rows_renewed)),
            ("left out", sum(&rows, |r| r.rows_left_out)),
            ("old", sum(&rows, |r| r.age_max_steps.unwrap_or(0))),
        ] {
            assert!(count > 0, "{model}: no row was {what}");
        }
    }
}

#[test]
fn settings_change_what_the_oracle_changes() {
    let flag = |f| Value::Bool(f);
    let dropout = ("dropout", Value::Float(0.4));
    for (model, ranks, set) in [
        (ModelKind::Sage, 2, vec![("d", int(2)), ("ls", int(3))]),
        (
            ModelKind::Gcn,
            4,
            vec![("persistent", flag(false)), ("d", int(3))],
        ),
        (
            ModelKind::Sage,
            3,
            vec![("age_features", flag(false)), ("ls", int(0))],
        ),
        (ModelKind::Gat, 2, vec![dropout.clone(), ("cs", int(1000))]),
        (ModelKind::Gcn, 2, vec![dropout, ("nc", int(3))]),
        (ModelKind::Sage, 3, vec![("on_miss", word("fetch"))]),
        // Features come once, and are old and new again.
        (
            ModelKind::Sage,
            3,
            vec![("cs", int(1000)), ("ls", int(0)), ("nc", int(5))],
        ),
        (
            ModelKind::Gat,
            3,
            vec![("on_miss", word("fetch")), ("cs", int(1000))],
        ),
        (ModelKind::Gcn, 3, vec![("fanout", word("all"))]),
    ] {
        equals_oracle(model, ranks, &set);
    }
}
