//! What is known without an oracle: settings under which runs are `distdgl`'s bit by bit, or full-graph training.

use super::*;
use crate::feed::SeedsBy;
use crate::strategy::distdgl;
use crate::strategy::tests::{Trained, train};
use crate::strategy::{Entry, Setup};
use crate::testing::with_relations;
use std::collections::HashMap;

/// `distdgl`, every rank on its own seeds.
const ON_OWN_SEEDS: Entry = Entry {
    build: |setup: Setup, cx| {
        let mut settings = distdgl::settings(&cx.plan.spec)?;
        settings.seeds = SeedsBy::Owner;
        distdgl::build_as(setup, cx, settings)
    },
    ..distdgl::ENTRY
};

fn same_bits(what: &str, a: &[Trained], b: &[Trained]) {
    for (a, b) in a.iter().zip(b) {
        assert_eq!(a.losses, b.losses, "{what}");
        assert!(a.gradients == b.gradients && a.logits == b.logits, "{what}");
        assert_eq!(a.sent, b.sent, "{what}");
    }
}

/// One rank reads no other's vertices; without lines, and with misses fetched, every vertex is drawn and fetched as
/// ever.
#[test]
fn without_history_it_is_distdgl_bit_by_bit() {
    let drawn = [("fanout", word("3,4")), ("batch", int(5))];
    for model in ENTRY.models {
        for (dropout, sparse) in [(0.0, false), (0.4, true)] {
            let mut data = random_dataset(80, 500, 6, 3, sparse, 12);
            if *model == ModelKind::Rgcn {
                data = with_relations(data, 3, 31);
            }
            let data = Arc::new(data);
            for ranks in 1..=3 {
                let dropout = ("dropout", Value::Float(dropout));
                let of = |set: &[(&str, Value)]| {
                    let set = [&drawn[..], std::slice::from_ref(&dropout), set].concat();
                    with(*model, ranks, &set)
                };
                let spec = of(&[("on_miss", word("fetch")), ("cs", int(0))]);
                let mut pairs = of(&[("on_miss", word("fetch"))]).to_pairs();
                let own = ["strategy", "cs", "ls", "nc", "d", "on_miss", "drift"];
                let own = [&own[..], &["persistent", "age_features"]].concat();
                pairs.retain(|(key, _)| !own.contains(&key.as_str()));
                pairs.push(("strategy".into(), Value::Str("distdgl".into())));
                let as_distdgl = RunSpec::from_pairs(pairs).expect("valid pairs");
                let owner = (ranks > 1).then(|| random_owner(80, ranks, ranks == 3, 3));
                let expected = train(&ON_OWN_SEEDS, &as_distdgl, &data, owner.clone(), ranks);
                let got = train(&ENTRY, &spec, &data, owner, ranks);
                same_bits(&format!("{model} on {ranks} ranks"), &got, &expected);
            }
        }
    }
}

/// Sparse features lie in lines of any length and say what dense ones say.
#[test]
fn sparse_features_are_those_of_dense_ones() {
    let data = random_dataset(90, 700, 6, 3, true, 21);
    let crate::dataset::Features::Sparse(x) = &data.features else {
        unreachable!("they were asked for")
    };
    let mut dense = kernels::Mat::zeros((90, 6));
    for v in 0..90 {
        for e in x.view().span(v) {
            dense[[v, x.indices[e] as usize]] += x.view().weight(e);
        }
    }
    let mut same = random_dataset(90, 700, 6, 3, false, 21);
    same.features = crate::dataset::Features::Dense(dense);
    let (sparse, dense) = (Arc::new(data), Arc::new(same));
    for (model, dropout) in [(ModelKind::Sage, 0.0), (ModelKind::Gcn, 0.4)] {
        let set = [
            ("fanout", word("3,4")),
            ("batch", int(7)),
            ("nc", int(20)),
            ("dropout", Value::Float(dropout)),
        ];
        let spec = with(model, 2, &set);
        let of = |data| train(&ENTRY, &spec, data, Some(random_owner(90, 2, false, 3)), 2);
        for (a, b) in of(&sparse).iter().zip(&of(&dense)) {
            for (a, b) in a.losses.iter().zip(&b.losses) {
                near("sparse and dense", *a, *b, 1.0);
            }
            assert!(
                a.rows::<HecRow>()
                    .iter()
                    .any(|row| row.layer == 0 && row.hits > 0)
            );
        }
    }
}

/// With room and time for everything, whole neighbourhoods, no dropout and a rate of 0, caches fill with exact
/// rows. A step that looks nothing up makes other rows, which are read once and pushed over where every step reads
/// all that others read: so losses are `single`'s but for the first L·d steps of an epoch, and so are the rows that
/// an epoch ends with.
#[test]
fn caches_of_everything_end_at_full_graph_training() {
    const EPOCHS: u64 = 4;
    let all = int(1_000_000);
    let set = [
        ("fanout", word("all")),
        ("cs", all.clone()),
        ("nc", all.clone()),
        ("ls", all),
        ("lr", Value::Float(0.0)),
        ("dropout", Value::Float(0.0)),
        ("attention_dropout", Value::Float(0.0)),
        ("drift", Value::Bool(true)),
    ];
    for model in ENTRY.models {
        let mut data = random_dataset(60, 9000, 5, 3, false, 21);
        // The last ones read nothing, and batches of those push nothing.
        data.train = (0..60).map(|v| v < 54).collect();
        if *model == ModelKind::Rgcn {
            data = with_relations(data, 3, 31);
        }
        let data = Arc::new(data);
        for (ranks, d, batch) in [(2, 2, 5), (3, 1, 7)] {
            let what = format!("{model} on {ranks} ranks, {d} steps late");
            let owner = random_owner(60, ranks, false, 3);
            let late = [("d", int(d)), ("batch", int(batch))];
            let spec = with(*model, ranks, &[&set[..], &late].concat());
            let got = train_epochs(&ENTRY, &spec, &data, Some(owner.clone()), ranks, EPOCHS);
            for rank in &got {
                let rows = rank.rows::<HecRow>();
                for row in rows.iter().filter(|row| row.layer == 1 && row.epoch >= 1) {
                    let error = row.error_rel.expect("it was asked for");
                    assert!(error < 1e-5 && row.hits > 0, "{what}: {error}");
                }
            }
            if *model == ModelKind::Rgcn {
                // The oracle does not run it.
                continue;
            }
            let oracle = |spec, owner| {
                let of = Setting {
                    spec,
                    data: &data,
                    owner,
                    in_place: false,
                };
                Oracle::new(of, weights(spec, &data), sampler(spec, &data))
            };
            let alone = with(*model, 1, &[&set[..], &[("batch", int(0))]].concat());
            let nobody = vec![0; 60];
            let mut exact = oracle(&alone, &nobody);
            exact.epoch(0);
            let exact = exact.log.remove(0);
            let mut oracle = oracle(&spec, &owner);
            for epoch in 0..EPOCHS {
                oracle.epoch(epoch);
                let (early, late) = oracle.log.split_at(2 * d as usize);
                assert!(!late.is_empty(), "{what}");
                let exactly = |steps: &[HashMap<u32, f64>]| -> f64 {
                    steps.iter().flat_map(|s| s.keys()).map(|v| exact[v]).sum()
                };
                let dropping: f64 = early.iter().flat_map(|seeds| seeds.values()).sum();
                let lost = (dropping - exactly(early)).abs() / dropping;
                assert!(lost > 3e-5, "{what}: dropped vertices change {lost}");
                let got: f64 = got.iter().map(|rank| rank.losses[epoch as usize]).sum();
                let off = (got - dropping - exactly(late)).abs() / exactly(late);
                assert!(off < 1e-5 || epoch == 0, "{what}, epoch {epoch}: {off}");
            }
        }
    }
}
