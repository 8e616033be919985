//! Strategies as cells write them: exact when they leave nothing out, and what they reuse is counted.

use super::*;
use crate::backend::Mat;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Aggregate, At};
use crate::strategy::full_graph::StaleRow;
use crate::strategy::full_graph::block_rows::BlockRows;
use crate::strategy::full_graph::exchange::{self, Exchange, ExchangeRule};
use crate::strategy::written::{About, knob, on_block_rows};

/// Fetches every so many epochs.
struct Every(usize);

impl ExchangeRule for Every {
    fn exchange(&mut self, x: &mut Exchange<'_>) -> Result<()> {
        if x.epoch().is_multiple_of(self.0) {
            x.fetch_fresh()
        } else {
            x.reuse_last()
        }
    }
}

fn every() -> Entry {
    About {
        name: "every",
        source: "",
        summary: "fetches every so many epochs",
        knobs: vec![knob::<usize>("every", "epochs", Some(1))],
        frames: Vec::new(),
    }
    .exchange(|setup, cx| exchange::build(setup, cx, |knobs| Every(knobs.count("every"))))
}

struct Blocks(BlockRows);

impl Aggregate for Blocks {
    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        self.0.exact(cx, at, x)
    }
}

fn blocks() -> Entry {
    About {
        name: "blocks",
        source: "",
        summary: "all rows to everybody",
        knobs: Vec::new(),
        frames: Vec::new(),
    }
    .block_rows(|setup, cx| on_block_rows(setup, cx, |blocks, _| Blocks(blocks)))
}

#[test]
fn what_leaves_nothing_out_equals_single() {
    let plain = Arc::new(random_dataset(45, 160, 6, 3, false, 5));
    let typed = random_dataset(45, 160, 6, 3, false, 5);
    let typed = Arc::new(with_relations(typed, 3, 2));
    let single = &STRATEGIES[0];
    for entry in [every(), blocks()] {
        for model in coupled(&entry) {
            let data = if model == ModelKind::Rgcn {
                &typed
            } else {
                &plain
            };
            let expected = train(single, &spec(single, model, 2, 5), data, None, 1);
            for ranks in 1..=4 {
                let owner = random_owner(45, ranks, ranks == 4, 3);
                let got = train(&entry, &spec(&entry, model, 2, 5), data, Some(owner), ranks);
                let what = format!("{} {model} on {ranks} ranks", entry.name);
                assert_same(&what, model, &expected[0], &got);
                if entry.name == "every" {
                    got.iter().for_each(|rank| rank.assert_predicted(&what));
                }
            }
        }
    }
}

/// [`Every`] with fresh rows in every second epoch.
fn every_second() -> (Entry, RunSpec) {
    let entry = every();
    let mut pairs = spec(&entry, ModelKind::Gcn, 2, 5).to_pairs();
    pairs.push(("every".into(), Value::Int(2)));
    let spec = RunSpec::from_pairs_in(&[every()], pairs).expect("valid pairs");
    (entry, spec)
}

#[test]
fn reused_rows_are_not_sent_and_have_an_age() {
    let data = Arc::new(random_dataset(45, 160, 6, 3, false, 5));
    let (entry, spec) = every_second();
    let owner = random_owner(45, 3, false, 3);
    for rank in train(&entry, &spec, &data, Some(owner), 3) {
        rank.assert_predicted("every second epoch");
        let halo = |epoch: usize| -> u64 {
            let lanes = rank.sent[epoch].iter();
            let of = |lane: &PredictedLane| lane.1 != Direction::Grad;
            lanes.filter(|(lane, _)| of(lane)).map(|l| l.1).sum()
        };
        assert!(halo(0) > 0 && halo(1) == 0 && halo(2) == halo(0));
        assert!(rank.cached > 0);
        for row in rank.rows::<StaleRow>() {
            let reused = row.epoch == 1;
            assert_eq!(row.age_max_epochs, u32::from(reused));
            assert_eq!(row.bytes_sent == 0, reused);
            assert_eq!(row.bytes_saved > 0, reused);
        }
    }
}

#[test]
fn rows_read_are_fresh_or_reused() {
    let data = Arc::new(random_dataset(45, 160, 6, 3, false, 5));
    let (entry, spec) = every_second();
    let after = |epochs| {
        let owner = Some(random_owner(45, 3, false, 3));
        train_epochs(&entry, &spec, &data, owner, 3, epochs)
    };
    for (fetched, kept) in after(1).iter().zip(after(2)) {
        let (fetched, kept) = (fetched.work, kept.work);
        assert!(fetched.halo_fresh > 0);
        assert_eq!((fetched.halo_reused, kept.halo_fresh), (0, 0));
        assert_eq!(kept.halo_reused, fetched.halo_fresh);
    }
}

/// Fetches when rows have drifted by more than a part.
struct Drifting(f64);

impl ExchangeRule for Drifting {
    fn exchange(&mut self, x: &mut Exchange<'_>) -> Result<()> {
        if x.drift()? > self.0 {
            x.fetch_fresh()
        } else {
            x.reuse_last()
        }
    }
}

#[test]
fn ranks_decide_alike_by_drift() {
    let data = Arc::new(random_dataset(45, 160, 6, 3, false, 5));
    let entry = |knobs| About {
        name: "drifting",
        source: "",
        summary: "fetches what has drifted",
        knobs,
        frames: Vec::new(),
    };
    let limit = knob::<f64>("limit", "part", Some(0.0));
    let entry = entry(vec![limit])
        .exchange(|setup, cx| exchange::build(setup, cx, |knobs| Drifting(knobs.number("limit"))));
    let single = &STRATEGIES[0];
    let expected = train(single, &spec(single, ModelKind::Gcn, 2, 5), &data, None, 1);
    let owner = random_owner(45, 3, false, 3);
    let got = train(
        &entry,
        &spec(&entry, ModelKind::Gcn, 2, 5),
        &data,
        Some(owner),
        3,
    );
    assert_same("no drift allowed", ModelKind::Gcn, &expected[0], &got);
}

#[test]
fn a_setting_without_a_default_has_to_be_given() {
    let entry = About {
        name: "every",
        source: "",
        summary: "",
        knobs: vec![knob::<usize>("every", "epochs between fetches", None)],
        frames: Vec::new(),
    }
    .exchange(|_, _| unreachable!("not built"));
    let error = entry.parse_knobs(Vec::new()).unwrap_err().to_string();
    assert!(
        error.contains("every") && error.contains("no default"),
        "{error}"
    );
    let given = vec![("every".to_owned(), Value::Int(3))];
    assert_eq!(entry.parse_knobs(given).expect("given").count("every"), 3);
    let wrong = vec![("every".to_owned(), Value::Int(-3))];
    assert!(entry.parse_knobs(wrong).is_err());
}
