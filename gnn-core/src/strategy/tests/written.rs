//! Strategies as cells write them: exact when they leave nothing out, and what they reuse is counted.

use super::*;
use crate::backend::Mat;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Aggregate, At};
use crate::sample::{Drawn, Neighbourhood, Random, Vertex};
use crate::strategy::full_graph::StaleRow;
use crate::strategy::full_graph::block_rows::BlockRows;
use crate::strategy::full_graph::exchange::{self, Exchange, ExchangeRule};
use crate::strategy::written::{About, knob, on_block_rows, on_neighbourhoods};

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

/// Neighbours in proportion to their degree, one after the other; what each counts for makes sums right on average.
#[derive(Default)]
struct ByDegree {
    /// What it does wrong, to be found out.
    wrong: Wrong,
    calls: std::sync::atomic::AtomicU32,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Wrong {
    #[default]
    Nothing,
    Beyond,
    TooMany,
    TooFew,
    Otherwise,
    NoNumber,
}

impl Neighbourhood for ByDegree {
    fn draw(&self, of: &Vertex<'_>, random: &mut Random, drawn: &mut Drawn) {
        let degree = of.degree();
        let most = of.fan_out.unwrap_or(degree);
        match self.wrong {
            Wrong::Beyond => return drawn.take(degree),
            Wrong::TooMany => return (0..=most).for_each(|k| drawn.take(k % degree.max(1))),
            Wrong::TooFew => return,
            _ => {}
        }
        if most >= degree {
            return (0..degree).for_each(|k| drawn.take_for(k, 1.0));
        }
        let weights: Vec<f64> = (0..degree)
            .map(|k| f64::from(1 + of.source_degree(k)))
            .collect();
        let total: f64 = weights.iter().sum();
        let calls = self
            .calls
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        for _ in 0..most {
            let mut at = random.uniform() * total;
            if self.wrong == Wrong::Otherwise {
                at = (at + f64::from(calls) * 0.37 * total) % total;
            }
            let k = weights.iter().position(|w| {
                at -= w;
                at < 0.0
            });
            let k = k.unwrap_or(degree - 1);
            let counts = match self.wrong {
                Wrong::NoNumber => f64::NAN,
                _ => total / weights[k] / most as f64,
            };
            drawn.take_for(k, counts as f32);
        }
    }
}

fn by_degree() -> Entry {
    About {
        // So that ranks of tests have letters.
        name: "bytegnn",
        source: "",
        summary: "neighbours by degree",
        knobs: vec![knob::<u32>("wrong", "what it does wrong", Some(0))],
        frames: Vec::new(),
    }
    .neighbourhood(|setup, cx| {
        on_neighbourhoods(setup, cx, |knobs| ByDegree {
            wrong: [
                Wrong::Nothing,
                Wrong::Beyond,
                Wrong::TooMany,
                Wrong::TooFew,
                Wrong::Otherwise,
                Wrong::NoNumber,
            ][knobs.count("wrong")],
            ..ByDegree::default()
        })
    })
}

/// Of whole neighbourhoods it is `single`; of some, any number of ranks draws the same.
#[test]
fn a_sampling_function_runs_at_owners_and_draws_the_same_on_any_number_of_ranks() {
    let data = Arc::new(random_dataset(80, 700, 6, 3, false, 5));
    let entry = by_degree();
    for model in [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat] {
        let whole = RunSpec {
            dropout: 0.0,
            ..spec(&entry, model, 2, 8)
        };
        let mut some = whole.clone();
        some.knobs.set("fanout", Value::Int(3));
        for (spec, exact) in [(whole, true), (some, false)] {
            let alone = match exact {
                true => {
                    let single = RunSpec {
                        dropout: 0.0,
                        ..super::spec(&STRATEGIES[0], model, 2, 8)
                    };
                    train(&STRATEGIES[0], &single, &data, None, 1)
                }
                false => train(&entry, &spec, &data, None, 1),
            };
            for ranks in 1..=4 {
                let owner = (ranks > 1).then(|| random_owner(80, ranks, false, 3));
                let got = train(&entry, &spec, &data, owner, ranks);
                let what = format!("{model} on {ranks} ranks, exact: {exact}");
                assert_same(&what, model, &alone[0], &got);
                let repeated = train(
                    &entry,
                    &spec,
                    &data,
                    (ranks > 1).then(|| random_owner(80, ranks, false, 3)),
                    ranks,
                );
                for (a, b) in got.iter().zip(&repeated) {
                    assert_eq!(a.losses, b.losses, "{what}");
                }
            }
        }
    }
}

/// What a function may not do is found before training, and said.
#[test]
fn sampling_functions_that_draw_what_is_not_there_are_refused_with_words() {
    let data = Arc::new(random_dataset(80, 700, 6, 3, false, 5));
    let entry = by_degree();
    for (wrong, fan_out, words) in [
        (1, "3", "which has"),
        (2, "3", "at most 3 were asked for"),
        (3, "all", "all were asked for"),
        (4, "3", "otherwise the second time"),
        (5, "3", "no number"),
    ] {
        let mut spec = spec(&entry, ModelKind::Sage, 2, 8);
        spec.knobs.set("fanout", Value::from_word(fan_out));
        spec.knobs.set("wrong", Value::Int(wrong));
        let setup = Setup::of(Arc::clone(&data), None);
        let refused = crate::testing::world(&spec, 1, |cx, _| {
            let built = (entry.build)(setup.clone(), cx);
            built.err().map(|e| e.to_string()).unwrap_or_default()
        });
        assert!(refused[0].contains(words), "{wrong}: {}", refused[0]);
    }
    let mut spec = spec(&entry, ModelKind::Sage, 2, 8);
    spec.knobs.set("replace", Value::Bool(true));
    let setup = Setup::of(data, None);
    let refused = crate::testing::world(&spec, 1, |cx, _| {
        (entry.build)(setup.clone(), cx)
            .err()
            .map(|e| e.to_string())
    });
    assert!(
        refused[0]
            .as_ref()
            .is_some_and(|e| e.contains("sampling function"))
    );
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
