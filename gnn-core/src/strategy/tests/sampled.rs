//! Strategies that sample: at their exact setting they are `single`, and otherwise repeatable.

use super::{STRATEGIES, Trained, assert_same, random_owner, spec, train, train_epochs};
use crate::feed::BatchRow;
use crate::model::ModelKind;
use crate::record::Direction;
use crate::spec::{RunSpec, Value};
use crate::strategy::{Entry, Setup, distdgl, find};
use crate::testing::{random_dataset, with_relations, world};
use std::sync::Arc;

/// However batches are made, ahead or not, by one thread or several, for one trainer or several, features
/// summed where they lie or not: whole neighbourhoods of all training vertices in one step are full-graph training.
#[test]
fn batches_of_everything_equal_single_however_they_are_made() {
    let data = Arc::new(random_dataset(80, 500, 6, 3, false, 12));
    let entry = find("distdgl").expect("registered");
    let with = |entry: &Entry, model, extra: &[(&str, i64)]| {
        let mut pairs = spec(entry, model, 3, 8).to_pairs();
        pairs.retain(|(key, _)| key != "dropout");
        pairs.push(("dropout".into(), Value::Float(0.0)));
        let extra = extra.iter().map(|(k, v)| ((*k).to_owned(), Value::Int(*v)));
        pairs.extend(extra);
        RunSpec::from_pairs(pairs).expect("valid pairs")
    };
    for model in [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat] {
        let alone = with(&STRATEGIES[0], model, &[]);
        let expected = train(&STRATEGIES[0], &alone, &data, None, 1);
        for (prefetch, workers, trainers) in [(0, 1, 1), (1, 1, 1), (4, 2, 1), (4, 2, 2), (0, 1, 3)]
        {
            for ranks in 1..=3 {
                let extra = [
                    ("prefetch", prefetch),
                    ("workers", workers),
                    ("trainers", trainers),
                ];
                let spec = with(entry, model, &extra);
                let owner = random_owner(80, ranks, false, 3);
                let got = train(entry, &spec, &data, Some(owner), ranks);
                let what = format!(
                    "{model} on {ranks} ranks, {prefetch} ahead by {workers} for {trainers}"
                );
                assert_same(&what, model, &expected[0], &got);
            }
        }
    }
}

/// Two trainers of a rank make the steps of one with twice their batch: the same seeds, with gradients summed
/// and sent once a step; but each pulls what it reads, also what the other has pulled.
#[test]
fn trainers_of_a_rank_make_the_steps_of_one_with_their_batches_together() {
    let data = Arc::new(random_dataset(200, 900, 6, 3, false, 12));
    let entry = find("distdgl").expect("registered");
    let run = |batch: i64, trainers: i64| {
        let mut pairs = spec(entry, ModelKind::Sage, 2, 8).to_pairs();
        pairs.retain(|(key, _)| key != "dropout" && key != "batch");
        pairs.push(("dropout".into(), Value::Float(0.0)));
        pairs.push(("batch".into(), Value::Int(batch)));
        pairs.push(("trainers".into(), Value::Int(trainers)));
        let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
        let owner = random_owner(200, 2, false, 3);
        train_epochs(entry, &spec, &data, Some(owner), 2, 3)
    };
    let (one, two) = (run(20, 1), run(10, 2));
    for (one, two) in one.iter().zip(&two) {
        for (a, b) in one.losses.iter().zip(&two.losses) {
            assert!((a - b).abs() <= 1e-4 * a.abs(), "{a} and {b}");
        }
        assert_eq!((&two.sent, &two.sent), (&one.sent, &two.predicted));
        let pulled = |t: &Trained| -> Vec<(u64, u64)> {
            let rows = t.rows::<BatchRow>();
            rows.iter().map(|r| (r.batches, r.rows_remote)).collect()
        };
        for ((steps, together), (batches, apart)) in pulled(one).into_iter().zip(pulled(two)) {
            assert_eq!(batches, 2 * steps);
            assert!(steps > 1 && apart > together, "{apart} and {together} rows");
        }
    }
}

/// Evaluation in pieces of a few rows, some of whose sources are kept and some fetched for each, gives what
/// one rank computes at once.
#[test]
fn evaluation_in_pieces_is_that_of_single() {
    let entry = Entry {
        build: |setup, cx| {
            let mut settings = distdgl::settings(&cx.plan.spec)?;
            settings.least = 3;
            distdgl::build_as(setup, cx, settings)
        },
        ..distdgl::ENTRY
    };
    for model in entry.models {
        for sparse in [false, true] {
            let mut data = random_dataset(120, 900, 6, 3, sparse, 31);
            if *model == ModelKind::Rgcn {
                data = with_relations(data, 3, 31);
            }
            let data = Arc::new(data);
            let alone = spec(&STRATEGIES[0], *model, 3, 9);
            let mut pairs = alone.to_pairs();
            pairs.retain(|(key, _)| key != "dropout");
            pairs.push(("dropout".into(), Value::Float(0.0)));
            let alone = RunSpec::from_pairs(pairs.clone()).expect("valid pairs");
            let expected = train(&STRATEGIES[0], &alone, &data, None, 1);
            pairs.retain(|(key, _)| key != "strategy");
            let exact = [("strategy", "distdgl"), ("fanout", "all"), ("batch", "0")];
            pairs.extend(exact.map(|(k, v)| (k.to_owned(), Value::from_word(v))));
            let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
            for ranks in 1..=4 {
                let owner = random_owner(120, ranks, ranks == 4, 3);
                let got = train(&entry, &spec, &data, Some(owner), ranks);
                let what = format!("{model} on {ranks} ranks, sparse {sparse}");
                assert_same(&what, *model, &expected[0], &got);
            }
        }
    }
}

/// Batches, sizes that do not divide, ranks without training vertices, fan-out 0: the same seeds are
/// trained on, and a second run gives the same bits, however far ahead batches are made.
#[test]
fn sampled_runs_repeat_bit_by_bit() {
    let data = Arc::new(random_dataset(90, 700, 6, 3, false, 21));
    let entry = find("distdgl").expect("registered");
    let run = |ranks: usize, fan_out: &str, batch: i64, prefetch: i64| {
        let mut pairs = spec(entry, ModelKind::Sage, 2, 8).to_pairs();
        pairs.retain(|(key, _)| key != "fanout" && key != "batch");
        pairs.push(("fanout".into(), Value::from_word(fan_out)));
        pairs.push(("batch".into(), Value::Int(batch)));
        pairs.push(("prefetch".into(), Value::Int(prefetch)));
        let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
        // The last rank owns nothing.
        let owner = random_owner(90, ranks, true, 3);
        let trained = train(entry, &spec, &data, Some(owner), ranks);
        let all = trained.into_iter().map(|r| (r.losses, r.gradients));
        all.collect::<Vec<_>>()
    };
    for ranks in 1..=4 {
        for (fan_out, batch) in [("3,4", 7), ("0", 5), ("2", 1000), ("all", 3)] {
            let first = run(ranks, fan_out, batch, 0);
            for prefetch in [1, 3] {
                let what = format!("{ranks} ranks, fan-out {fan_out}, batch {batch}");
                assert_eq!(run(ranks, fan_out, batch, prefetch), first, "{what}");
            }
        }
    }
}

/// Rows that a rank keeps copies of are the rows that it would fetch.
#[test]
fn cached_rows_change_no_bit() {
    let data = Arc::new(random_dataset(90, 700, 6, 3, false, 2));
    let sparse = Arc::new(random_dataset(90, 700, 6, 3, true, 2));
    let entry = find("distdgl").expect("registered");
    for (data, model) in [
        (&data, ModelKind::Sage),
        (&sparse, ModelKind::Gcn),
        (&data, ModelKind::Gat),
    ] {
        let run = |cache: &str, by: &str| {
            let mut pairs = spec(entry, model, 2, 8).to_pairs();
            pairs.retain(|(key, _)| key != "fanout" && key != "batch");
            let more = [
                ("fanout", "4"),
                ("batch", "9"),
                ("cache", cache),
                ("cache_by", by),
            ];
            pairs.extend(more.map(|(k, v)| (k.to_owned(), Value::from_word(v))));
            let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
            let trained = train(entry, &spec, data, Some(random_owner(90, 3, false, 3)), 3);
            let kept: u64 = trained.iter().map(|r| r.cached).sum();
            let reused: u64 = trained.iter().map(|r| r.work.halo_reused).sum();
            // A cache of 1 MB has room for every row.
            let fresh: Vec<u64> = trained.iter().map(|r| r.work.halo_fresh).collect();
            let fetches = fresh.iter().all(|rows| *rows > 0);
            assert_eq!(fetches, cache != "1MB", "{model} with {cache}: {fresh:?}");
            assert_eq!(reused > 0, kept > 0, "{model} with {cache} by {by}");
            let all = trained.into_iter().map(|r| (r.losses, r.gradients));
            (all.collect::<Vec<_>>(), kept)
        };
        let (plain, nothing) = run("0", "degree");
        assert_eq!(nothing, 0);
        for (cache, by) in [
            ("10", "degree"),
            ("1MB", "degree"),
            ("10", "presample"),
            ("10", "inclusion"),
        ] {
            let (got, kept) = run(cache, by);
            assert!(kept > 0, "{cache} by {by}");
            assert_eq!(got, plain, "{model} with {cache} by {by}");
        }
    }
}

/// Letters count for the epoch whose batches they are for, however early they are sent.
#[test]
fn letters_are_counted_in_the_epoch_they_are_for() {
    let data = Arc::new(random_dataset(90, 700, 6, 3, false, 21));
    let entry = find("distdgl").expect("registered");
    let owner = Arc::new(random_owner(90, 3, false, 3));
    let run = |prefetch: i64| {
        let mut pairs = spec(entry, ModelKind::Sage, 2, 8).to_pairs();
        pairs.retain(|(key, _)| key != "fanout" && key != "batch");
        let more = [
            ("fanout", 3),
            ("batch", 7),
            ("cache", 5),
            ("prefetch", prefetch),
        ];
        pairs.extend(more.map(|(k, v)| (k.to_owned(), Value::Int(v))));
        pairs.push(("cache_by".into(), Value::Str("presample".into())));
        let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
        world(&spec, 3, |cx, meter| {
            let setup = Setup::of(Arc::clone(&data), Some(Arc::clone(&owner)));
            let mut built = (entry.build)(setup, cx).expect("builds");
            cx.comm.agree(&[0.0]).expect("in step");
            let mut epochs = Vec::new();
            for epoch in 0..3 {
                cx.epoch = epoch;
                meter.take_traffic();
                built.strategy.epoch(cx).expect("trains");
                let mut sent = meter.take_traffic();
                sent.retain(|lane, _| matches!(lane.1, Direction::Sample | Direction::Pull));
                epochs.push(sent);
                cx.comm.agree(&[0.0]).expect("in step");
            }
            epochs
        })
    };
    let now = run(0);
    assert!(now.iter().flatten().all(|sent| !sent.is_empty()));
    assert_eq!(run(1), now);
    assert_eq!(run(4), now);
}

/// Fan-outs by type of edges: enough of each is all, any number of ranks draws the same, and as many
/// numbers are wanted as there are types.
#[test]
fn fan_outs_may_differ_by_type_of_edges() {
    let data = with_relations(random_dataset(80, 500, 6, 3, false, 12), 3, 5);
    let data = Arc::new(data);
    let entry = find("distdgl").expect("registered");
    let with = |fan_out: &str| {
        let mut pairs = spec(entry, ModelKind::Rgcn, 2, 8).to_pairs();
        pairs.retain(|(key, _)| key != "fanout");
        pairs.push(("fanout".into(), Value::Str(fan_out.into())));
        RunSpec::from_pairs(pairs).expect("valid pairs")
    };
    let alone = spec(&STRATEGIES[0], ModelKind::Rgcn, 2, 8);
    let single = train(&STRATEGIES[0], &alone, &data, None, 1);
    let few = train(entry, &with("2/0/1,3/3/0"), &data, None, 1);
    assert_ne!(few[0].losses, single[0].losses);
    for ranks in 1..=3 {
        let owner = random_owner(80, ranks, false, 3);
        let on = |fan_out: &str| {
            let what = format!("{fan_out} on {ranks} ranks");
            let owner = Some(owner.clone());
            (what, train(entry, &with(fan_out), &data, owner, ranks))
        };
        let (what, all) = on("500/500/500");
        assert_same(&what, ModelKind::Rgcn, &single[0], &all);
        let (what, some) = on("2/0/1,3/3/0");
        assert_same(&what, ModelKind::Rgcn, &few[0], &some);
    }
    world(&with("2/1,all"), 1, |cx, _| {
        let setup = Setup::of(Arc::clone(&data), None);
        let refused = (entry.build)(setup, cx).err().expect("three types");
        assert!(refused.to_string().contains("3 numbers"), "{refused}");
    });
}
