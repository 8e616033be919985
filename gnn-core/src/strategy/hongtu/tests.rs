//! What `hongtu` owes beyond what every strategy does: every setting gives what `single` gives, and moves
//! the rows that the cut says.

use super::frames::TransfersRow;
use super::{ENTRY, IN_MEMORY};
use crate::backend::{Backend, Cuda, Metered};
use crate::dataset::{Dataset, Features};
use crate::error::{Error, Result};
use crate::model::ModelKind;
use crate::record::Pass;
use crate::record::frame::Noted;
use crate::rng;
use crate::spec::{RunSpec, Value};
use crate::strategy::tests::{Trained, assert_same, spec, train, train_on};
use crate::strategy::{Entry, STRATEGIES, Setup};
use crate::testing::{random_dataset, rows_of, shim, with_relations, world};
use std::sync::Arc;

/// A request for `hongtu` with further settings.
fn request(model: ModelKind, more: &[(&str, Value)]) -> RunSpec {
    let mut request = spec(&ENTRY, model, 3, 6);
    for (name, value) in more {
        request.knobs.set(name, value.clone());
    }
    ENTRY.check(&request).expect("can be run");
    request
}

fn word(text: &str) -> Value {
    Value::Str(text.into())
}

fn owners(n: usize, ranks: usize) -> Option<Vec<u32>> {
    let owner = |v| rng::below(0x0e, v as u64, ranks as u64) as u32;
    (ranks > 1).then(|| (0..n).map(owner).collect())
}

fn reference(model: ModelKind, data: &Arc<Dataset>) -> Trained {
    let request = spec(&STRATEGIES[0], model, 3, 6);
    train(&STRATEGIES[0], &request, data, None, 1).swap_remove(0)
}

#[test]
fn every_setting_gives_what_single_gives() {
    let plain = random_dataset(40, 170, 5, 4, false, 3);
    let sparse = Arc::new(random_dataset(40, 170, 5, 4, true, 3));
    let mut typed = with_relations(plain.clone(), 3, 3);
    let typed_too = Arc::new(typed.clone());
    // Vertices without features have their numbers.
    typed.features = Features::Identity(40);
    let (plain, typed) = (Arc::new(plain), Arc::new(typed));
    for &model in ENTRY.models {
        let data = match model {
            ModelKind::Rgcn => [&typed, &typed_too],
            _ => [&plain, &sparse],
        };
        for data in data {
            let expected = reference(model, data);
            for ranks in [1, 2, 3] {
                for (chunks, dedup, memory) in [
                    (1, "p2p+ru", "hybrid"),
                    (4, "p2p+ru", "hybrid"),
                    (3, "p2p+ru", "recompute"),
                    (3, "p2p+ru", "keep"),
                    (4, "p2p", "recompute"),
                    (3, "none", "cached"),
                    (3, "none", "recompute"),
                    (4, "p2p+ru", "cached"),
                    (50, "p2p+ru", "recompute"),
                    (3, "p2p+ru", "auto"),
                ] {
                    let request = request(
                        model,
                        &[
                            ("chunks", Value::Int(chunks)),
                            ("dedup", word(dedup)),
                            ("memory", word(memory)),
                            ("narrower", Value::Bool(chunks != 3)),
                            ("overlap", Value::Bool(ranks == 2)),
                        ],
                    );
                    let what =
                        format!("{model}, {ranks} ranks, {chunks} chunks, {dedup}, {memory}");
                    let got = train(&ENTRY, &request, data, owners(40, ranks), ranks);
                    assert_same(&what, model, &expected, &got);
                    got.iter().for_each(|rank| rank.assert_predicted(&what));
                }
            }
        }
    }
}

/// Bytes of an epoch by the closed forms of the module's head, from the volumes of the cut.
#[test]
fn bytes_are_those_of_the_closed_forms() {
    let data = Arc::new(random_dataset(60, 300, 8, 4, false, 4));
    for model in [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gin] {
        for ranks in [1, 3] {
            let more = [("chunks", Value::Int(4)), ("narrower", Value::Bool(false))];
            let mut request = request(model, &more);
            request.dropout = 0.0;
            let got = train(&ENTRY, &request, &data, owners(60, ranks), ranks);
            let rows: Vec<_> = got.iter().map(|rank| rank.rows::<TransfersRow>()).collect();
            let last = |pick: &dyn Fn(&TransfersRow) -> u64| -> u64 {
                let of = rows
                    .iter()
                    .map(|rows| pick(rows.last().expect("each epoch")));
                of.sum()
            };
            let v_ru = rows[0].last().expect("each epoch").rows_reused;
            assert_eq!(last(&|r| r.rows_loaded), v_ru);
            let (n, widths) = (60u64, [8u64, 6, 6, 4]);
            let own = u64::from(model.reads_own_rows());
            let (mut to, mut back) = (0, 0);
            for l in 0..3 {
                // Own rows are loaded once forward, and once more for the update's second time.
                to += v_ru * widths[l] + n * (widths[l] + widths[l + 1]) + 2 * own * n * widths[l];
                back += n * (widths[l] + widths[l + 1]);
                if l > 0 {
                    back += (v_ru + own * n) * widths[l];
                }
            }
            assert_eq!(last(&|r| r.h2d_bytes), 4 * to, "{model}, {ranks} ranks");
            assert_eq!(last(&|r| r.d2h_bytes), 4 * back, "{model}, {ranks} ranks");
        }
    }
}

/// The same of layers that multiply first: all three narrow.
#[test]
fn bytes_of_products_are_those_of_the_closed_forms() {
    let data = Arc::new(random_dataset(60, 300, 8, 2, false, 4));
    for model in [ModelKind::Gcn, ModelKind::Sage] {
        for (ranks, memory) in [(1, "hybrid"), (3, "recompute")] {
            let more = [("chunks", Value::Int(4)), ("memory", word(memory))];
            let mut request = request(model, &more);
            (request.hidden, request.layers) = (4, 2);
            let got = train(&ENTRY, &request, &data, owners(60, ranks), ranks);
            let rows = got.iter().map(|rank| {
                let mut rows = rank.rows::<TransfersRow>();
                rows.pop().expect("each epoch")
            });
            let rows: Vec<_> = rows.collect();
            let sum =
                |pick: &dyn Fn(&TransfersRow) -> u64| rows.iter().map(|row| pick(row)).sum::<u64>();
            let (v_ru, n, widths) = (rows[0].rows_reused, 60u64, [8u64, 4, 2]);
            let own = u64::from(model.reads_own_rows());
            let (mut to, mut back) = (0, 0);
            for l in 0..2 {
                let gate = if l == 0 { 2 } else { 0 };
                to += v_ru * widths[l + 1] + n * (2 * widths[l] + (2 + gate) * widths[l + 1]);
                to += n * widths[l + 1] + own * n * widths[l];
                back += v_ru * widths[l + 1] + n * 2 * widths[l + 1];
                back += if l > 0 { n * widths[l] } else { 0 };
            }
            assert_eq!(sum(&|r| r.h2d_bytes), 4 * to, "{model}, {ranks} ranks");
            assert_eq!(sum(&|r| r.d2h_bytes), 4 * back, "{model}, {ranks} ranks");
        }
    }
}

/// Copies made ahead are the same copies: the bits, the bytes that move and those that come from another device
/// stay, and the room they wait in is the device's.
#[test]
fn copies_ahead_change_nothing_but_when_they_are_made() {
    let data = Arc::new(random_dataset(60, 300, 8, 4, false, 4));
    for &model in ENTRY.models.iter().filter(|&&m| m != ModelKind::Rgcn) {
        for (ranks, memory, narrower) in [
            (1, "hybrid", true),
            (1, "cached", false),
            (3, "recompute", true),
            (2, "keep", true),
        ] {
            let what = format!("{model}, {ranks} ranks, {memory}");
            let with = |overlap: bool| {
                let request = request(
                    model,
                    &[
                        ("chunks", Value::Int(4)),
                        ("memory", word(memory)),
                        ("narrower", Value::Bool(narrower)),
                        ("overlap", Value::Bool(overlap)),
                    ],
                );
                train(&ENTRY, &request, &data, owners(60, ranks), ranks)
            };
            for (without, with) in with(false).iter().zip(&with(true)) {
                assert_eq!(without.losses, with.losses, "{what}");
                assert_eq!(without.logits, with.logits, "{what}");
                assert_eq!(without.gradients, with.gradients, "{what}");
                let rows = |of: &Trained| of.rows::<TransfersRow>();
                for (without, with) in rows(without).iter().zip(&rows(with)) {
                    let of = |row: &TransfersRow| (row.h2d_bytes, row.d2h_bytes, row.rows_fetched);
                    assert_eq!(of(without), of(with), "{what}");
                    assert_eq!(without.h2d_hidden_ms, 0.0, "{what}");
                }
            }
        }
    }
}

/// A device apart from the host, which is the host shim here: it trains what the host's own memory trains, copies
/// made ahead or not. The shim makes those as late as can be.
#[test]
fn a_device_apart_trains_the_same_with_copies_beside_its_work() {
    let Some(device) = shim() else { return };
    let data = Arc::new(random_dataset(60, 300, 8, 4, false, 4));
    for model in [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat] {
        let expected = reference(model, &data);
        for (overlap, memory, narrower) in [
            (false, "hybrid", true),
            (true, "hybrid", true),
            (true, "cached", false),
            (true, "recompute", true),
        ] {
            let more = [
                ("chunks", Value::Int(3)),
                ("memory", word(memory)),
                ("narrower", Value::Bool(narrower)),
                ("overlap", Value::Bool(overlap)),
            ];
            let mut request = request(model, &more);
            request.backend = "cuda".into();
            let open = |meter| {
                let device = Cuda::new(Arc::clone(&device));
                Box::new(Metered::new(device, meter)) as Box<dyn Backend>
            };
            let got = train_on(&ENTRY, &request, &data, None, (1, 3), open);
            let what = format!("{model}, {memory}, overlap {overlap}");
            assert_same(&what, model, &expected, &got);
        }
    }
}

/// In memory nothing crosses, and a budget holds likewise.
#[test]
fn in_memory_no_row_crosses() {
    let data = Arc::new(random_dataset(60, 300, 8, 4, false, 4));
    for model in [ModelKind::Gcn, ModelKind::Gcnii, ModelKind::Gat] {
        let mut request = spec(&IN_MEMORY, model, 3, 6);
        for (ranks, budget) in [(1, 0), (3, 0), (1, 1 << 30)] {
            request.knobs.set("device_mem", Value::Int(budget));
            let got = train(&IN_MEMORY, &request, &data, owners(60, ranks), ranks);
            for rank in &got {
                let rows = rank.rows::<TransfersRow>();
                let last = rows.last().expect("each epoch");
                assert_eq!((last.h2d_bytes, last.d2h_bytes), (0, 0));
                assert_eq!(rank.on_device.is_some(), budget > 0);
            }
        }
    }
}

/// Where everything fits, and nobody asks for chunks, nothing is moved; one byte less, and it is.
#[test]
fn everything_stays_where_it_fits_to_the_byte() {
    let data = Arc::new(random_dataset(60, 300, 8, 4, false, 4));
    for (model, ranks) in [
        (ModelKind::Sage, 1),
        (ModelKind::Gat, 1),
        (ModelKind::Gcn, 3),
    ] {
        let all = |entry: &Entry, budget: u64| {
            let mut request = spec(entry, model, 3, 6);
            request.ranks = ranks;
            if entry.name == ENTRY.name {
                request.knobs.set("memory", word("auto"));
            }
            request.knobs.set("device_mem", Value::Int(budget as i64));
            let owner = owners(60, ranks).map(Arc::new);
            let got = world(&request, ranks, |cx, meter| {
                let setup = Setup::of(Arc::clone(&data), owner.clone());
                let mut strategy = (entry.build)(setup, cx)?.strategy;
                strategy.epoch(cx)?;
                let noted = meter.take_noted().into_iter().map(Noted::into_json);
                let noted: Vec<_> = noted.collect();
                let moved = rows_of::<TransfersRow>(&noted)[0].h2d_bytes;
                Ok((meter.most_on_device().expect("a budget"), moved))
            });
            let got: Result<Vec<(u64, u64)>> = got.into_iter().collect();
            got.map(|got| {
                let most = got.iter().map(|rank| rank.0).max().expect("ranks");
                (most, got.iter().map(|rank| rank.1).sum::<u64>())
            })
        };
        // The most that there is, with an evaluation.
        let refused = all(&IN_MEMORY, 1000);
        let Err(Error::Budget { asked, .. }) = refused else {
            panic!("{model}, {ranks}: {refused:?}");
        };
        for entry in [&IN_MEMORY, &ENTRY] {
            let (most, moved) = all(entry, asked).expect("fits");
            assert!(
                most <= asked && moved == 0,
                "{}: {model}, {ranks}",
                entry.name
            );
        }
        let (less, moved) = all(&ENTRY, asked - 1).expect("fits in chunks");
        assert!(
            less < asked && moved > 0,
            "{model}, {ranks}: {less} of {asked}"
        );
        assert!(all(&IN_MEMORY, asked - 1).is_err(), "{model}, {ranks}");
    }
}

/// The most that a device of `budget` bytes holds in a short training on one rank, the losses, and how many
/// chunks there are.
fn held(data: &Arc<Dataset>, request: &RunSpec, budget: u64) -> Result<(u64, Vec<f64>, u32)> {
    let mut request = request.clone();
    let bytes = Value::Int(budget as i64);
    request.knobs.set("device_mem", bytes);
    let all = world(&request, 1, |cx, meter| {
        let setup = Setup::of(Arc::clone(data), None);
        let mut built = (ENTRY.build)(setup, cx)?;
        let mut losses = Vec::new();
        for epoch in 0..2 {
            cx.epoch = epoch;
            losses.push(built.strategy.epoch(cx)?);
            cx.pass(Pass::Eval);
            built.strategy.logits(cx)?;
        }
        let noted = meter.take_noted().into_iter().map(Noted::into_json);
        let noted: Vec<_> = noted.collect();
        let chunks = rows_of::<TransfersRow>(&noted)[0].chunks;
        let most = meter.most_on_device().expect("a device with a budget");
        Ok((most, losses, chunks))
    });
    all.into_iter().next().expect("one rank")
}

#[test]
fn a_budget_holds_to_the_byte_or_is_refused_before_training() {
    let plain = Arc::new(random_dataset(60, 300, 8, 4, false, 4));
    let sparse = Arc::new(random_dataset(60, 300, 8, 4, true, 4));
    let typed = Arc::new(with_relations(
        random_dataset(60, 300, 8, 4, false, 4),
        3,
        3,
    ));
    for (model, data) in [
        (ModelKind::Gcn, &plain),
        (ModelKind::Sage, &plain),
        (ModelKind::Gcnii, &sparse),
        (ModelKind::Gat, &plain),
        (ModelKind::Gin, &sparse),
        (ModelKind::Rgcn, &typed),
    ] {
        for (chunks, memory, overlap) in [
            (1, "hybrid", false),
            (5, "hybrid", false),
            (5, "cached", true),
            (5, "keep", false),
            (7, "recompute", true),
        ] {
            let what = format!("{model}, {chunks} chunks, {memory}, overlap {overlap}");
            let request = request(
                model,
                &[
                    ("chunks", Value::Int(chunks)),
                    ("memory", word(memory)),
                    ("overlap", Value::Bool(overlap)),
                ],
            );
            let holds = |budget: u64| held(data, &request, budget).expect(&what);
            let (all, losses, n) = holds(1 << 40);
            assert_eq!(holds(all), (all, losses.clone(), n), "{what}");
            // One byte less: edges are copied to the device for each use.
            let least = match chunks {
                1 => all,
                _ => {
                    let (least, same, _) = holds(all - 1);
                    assert_eq!(same, losses, "{what}");
                    assert!(least < all, "{what}");
                    assert_eq!(holds(least), (least, losses, n), "{what}");
                    least
                }
            };
            match held(data, &request, least - 1) {
                Err(Error::Budget { asked, budget, .. }) => {
                    assert_eq!((asked, budget), (least, least - 1), "{what}");
                }
                other => panic!("{what}: {other:?}"),
            }
        }
    }
}

/// Lists that are copied for each use are summed over as those that stay: rows of a mean wide enough for a factor.
#[test]
fn a_budget_changes_no_bit_of_a_wide_mean() {
    let data = Arc::new(random_dataset(60, 300, 8, 4, false, 4));
    let mut request = request(ModelKind::Sage, &[("chunks", Value::Int(5))]);
    request.hidden = 24;
    let (all, losses, _) = held(&data, &request, 1 << 40).expect("fits");
    let (less, same, _) = held(&data, &request, all - 1).expect("fits chunk by chunk");
    assert!(less < all);
    assert_eq!(same, losses);
}

#[test]
fn as_few_chunks_are_made_as_fit() {
    let data = Arc::new(random_dataset(120, 700, 8, 4, false, 4));
    let fixed = request(ModelKind::Gcn, &[("chunks", Value::Int(1))]);
    let (whole, ..) = held(&data, &fixed, 1 << 40).expect("fits");
    let auto = |budget: u64| {
        let (held, _, chunks) = held(&data, &request(ModelKind::Gcn, &[]), budget)?;
        Ok::<_, Error>((held, chunks))
    };
    assert_eq!(auto(whole).expect("fits"), (whole, 1));
    let (held, some) = auto(whole - 1).expect("fits");
    assert!(some > 1 && held < whole, "{held} of {whole} in {some}");
    let (held, more) = auto(whole / 2).expect("fits");
    assert!(
        more > some && held <= whole / 2,
        "{held} of {whole} in {more}"
    );
    assert!(matches!(auto(1000), Err(Error::Budget { .. })));
}

/// From all of a layer down to nothing: what is chosen fits, and a device with room for all keeps all.
#[test]
fn as_much_is_kept_of_each_layer_as_fits() {
    let data = Arc::new(random_dataset(120, 700, 8, 4, false, 4));
    let of = |memory: &str, budget: u64| {
        let more = [("chunks", Value::Int(3)), ("memory", word(memory))];
        held(&data, &request(ModelKind::Gcn, &more), budget).expect("fits")
    };
    let (keep, hybrid) = (of("keep", 1 << 40), of("hybrid", 1 << 40));
    assert_eq!(of("auto", 1 << 40), keep);
    for budget in [hybrid.0, (keep.0 + hybrid.0) / 2, keep.0 - 1] {
        let (most, losses, _) = of("auto", budget);
        assert!(most <= budget, "{most} of {budget}");
        assert_eq!(losses, keep.1);
    }
}

/// With a disk behind a host of few bytes: the same, whatever lies where.
#[test]
fn a_disk_behind_the_host_changes_nothing() {
    let plain = Arc::new(random_dataset(240, 900, 24, 4, false, 3));
    let typed = Arc::new(with_relations(
        random_dataset(240, 900, 24, 4, false, 3),
        3,
        3,
    ));
    let mut paged = 0;
    for &model in ENTRY.models {
        let data = match model {
            ModelKind::Rgcn => &typed,
            _ => &plain,
        };
        for ranks in [1, 3] {
            for (dedup, memory) in [
                ("p2p+ru", "hybrid"),
                ("p2p+ru", "cached"),
                ("none", "hybrid"),
                ("p2p", "keep"),
            ] {
                let request = request(
                    model,
                    &[
                        ("chunks", Value::Int(4)),
                        ("dedup", word(dedup)),
                        ("memory", word(memory)),
                    ],
                );
                let expected = train(&ENTRY, &request, data, owners(240, ranks), ranks);
                for host in [50_000, 70_000, 1 << 30] {
                    let mut request = request.clone();
                    request.knobs.set("host_mem", Value::Int(host));
                    let what = format!("{model}, {ranks} ranks, {dedup}, {memory}, {host} bytes");
                    let got = train(&ENTRY, &request, data, owners(240, ranks), ranks);
                    for (expected, got) in expected.iter().zip(&got) {
                        assert_eq!(got.losses, expected.losses, "{what}");
                        assert_eq!(got.gradients, expected.gradients, "{what}");
                        assert_eq!(got.logits, expected.logits, "{what}");
                        assert_eq!(got.sent, expected.sent, "{what}");
                        let rows = got.rows::<TransfersRow>();
                        let last = rows.last().expect("each epoch");
                        let of_expected = expected.rows::<TransfersRow>();
                        let before = of_expected.last().expect("each epoch");
                        assert_eq!(
                            (last.h2d_bytes, last.d2h_bytes),
                            (before.h2d_bytes, before.d2h_bytes),
                            "{what}"
                        );
                        match last.host_mem_peak_bytes {
                            Some(most) => assert!(most <= host as u64, "{what}: {most}"),
                            None => assert_eq!(last.disk_read_bytes, 0, "{what}"),
                        }
                        paged += u64::from(last.disk_read_bytes > 0 && last.disk_written_bytes > 0);
                    }
                }
            }
        }
    }
    assert!(paged > 50, "{paged}");
}
