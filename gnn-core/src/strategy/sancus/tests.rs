//! What the registry's tests cannot see: schedules, ages, savings, and that what is exact has the
//! bits of `broadcast`. Which epochs a bound chooses is tested beside the bounds.

use super::{ENTRY, SKIPG};
use crate::model::ModelKind;
use crate::record::Direction;
use crate::spec::{RunSpec, Value};
use crate::strategy::full_graph::{Freshness, StaleRow};
use crate::strategy::tests::{Trained, random_owner, spec, train_epochs};
use crate::strategy::{Entry, broadcast};
use crate::testing::{Of, random_dataset};
use std::collections::BTreeSet;
use std::sync::Arc;

const N: usize = 70;

fn run(
    entry: &Entry,
    model: ModelKind,
    ranks: usize,
    epochs: u64,
    more: &[(&str, &str)],
) -> Vec<Trained> {
    let data = Arc::new(random_dataset(N, 300, 6, 3, false, 8));
    let mut pairs = spec(entry, model, 2, 8).to_pairs();
    pairs.extend(
        more.iter()
            .map(|(k, v)| ((*k).to_owned(), Value::from_word(v))),
    );
    let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
    // The last of several ranks owns nothing.
    let owner = random_owner(N, ranks, true, 3);
    train_epochs(entry, &spec, &data, Some(owner), ranks, epochs)
}

fn bits(trained: Vec<Trained>) -> Vec<(Vec<f64>, Vec<Vec<f32>>, kernels::Mat)> {
    trained
        .into_iter()
        .map(|r| (r.losses, r.gradients, r.logits))
        .collect()
}

#[test]
fn without_staleness_the_bits_are_those_of_broadcast() {
    for &model in ENTRY.models {
        for ranks in 1..=4 {
            let exact = bits(run(&broadcast::ENTRY, model, ranks, 4, &[]));
            for entry in [&ENTRY, &SKIPG] {
                for bound in ["epoch-fixed=0", "variation=0"] {
                    let got = bits(run(entry, model, ranks, 4, &[("bound", bound)]));
                    assert_eq!(
                        got, exact,
                        "{} {model} {bound} on {ranks} ranks",
                        entry.name
                    );
                }
            }
        }
    }
}

/// Epochs in which a rank's rows of a layer were in a state.
fn epochs_in(rows: &[Of<StaleRow>], rank: u32, layer: u16, state: Freshness) -> BTreeSet<u32> {
    let of = |r: &&Of<StaleRow>| (r.rank, r.layer, r.state) == (rank, layer, state);
    rows.iter().filter(of).map(|r| r.epoch).collect()
}

fn all_rows(trained: &[Trained]) -> Vec<Of<StaleRow>> {
    trained.iter().flat_map(Trained::rows::<StaleRow>).collect()
}

#[test]
fn a_fixed_bound_broadcasts_in_exactly_its_epochs() {
    for (entry, direction) in [(&ENTRY, Direction::Forward), (&SKIPG, Direction::Backward)] {
        let trained = run(entry, ModelKind::Gcn, 3, 9, &[("bound", "epoch-fixed=2")]);
        let rows = all_rows(&trained);
        for rank in 0..3 {
            let active = epochs_in(&rows, rank, 1, Freshness::Active);
            assert_eq!(
                active,
                BTreeSet::from([0, 3, 6]),
                "{} rank {rank}",
                entry.name
            );
            let stale = epochs_in(&rows, rank, 1, Freshness::Stale);
            assert_eq!(stale.len(), 6);
        }
        let bounded = rows.iter().filter(|r| r.state != Freshness::Input);
        for row in bounded {
            assert_eq!(
                (row.age_max_epochs, row.direction),
                (row.epoch % 3, direction)
            );
            assert_eq!(row.age_mean_epochs, f64::from(row.age_max_epochs));
        }
    }
}

#[test]
fn an_adaptive_bound_refreshes_ranks_at_different_epochs() {
    let trained = run(
        &ENTRY,
        ModelKind::Gcn,
        4,
        8,
        &[("bound", "epoch-adaptive=1")],
    );
    let rows = all_rows(&trained);
    let active = |rank| epochs_in(&rows, rank, 1, Freshness::Active);
    assert_eq!(active(0), BTreeSet::from([0, 2, 4, 6]));
    assert_eq!(active(2), active(0));
    assert_eq!(active(3), BTreeSet::from([0, 3, 5, 7]));
    let one = [("bound", "epoch-adaptive=1"), ("wake", "one")];
    let rows = all_rows(&run(&ENTRY, ModelKind::Gcn, 4, 8, &one));
    let active = epochs_in(&rows, 2, 1, Freshness::Active);
    assert_eq!(active, BTreeSet::from([0, 3, 5, 7]));
}

/// What a rank counts as reused is what others say it kept of theirs; all else that it read was fresh.
fn assert_counted(trained: &[Trained], epoch: u32) {
    let rows = all_rows(trained);
    for (rank, one) in trained.iter().enumerate() {
        let of = |r: &&Of<StaleRow>| {
            let forward = r.direction == Direction::Forward;
            forward && (r.epoch, r.peer) == (epoch, rank as u32)
        };
        let reused = rows.iter().filter(of).map(|r| r.rows_reused).sum::<u64>();
        let read = 2 * (N - one.ids.len()) as u64;
        let counted = (one.work.halo_fresh, one.work.halo_reused);
        assert_eq!(counted, (read - reused, reused), "rank {rank}");
    }
}

/// A skipped broadcast sends nothing, an agreement one word, and everything else is as predicted.
#[test]
fn bytes_are_those_of_the_schedule() {
    let bounds = [
        "epoch-fixed=1",
        "epoch-fixed=3",
        "epoch-adaptive=1",
        "variation=0.9",
    ];
    for entry in [&ENTRY, &SKIPG] {
        for &model in entry.models {
            for ranks in 2..=4 {
                for bound in bounds {
                    let what = format!("{} {model} {bound} on {ranks}", entry.name);
                    let trained = run(entry, model, ranks, 5, &[("bound", bound)]);
                    assert_counted(&trained, 4);
                    let agreed = if bound.starts_with("variation") { 4 } else { 0 };
                    for (rank, trained) in trained.iter().enumerate() {
                        assert_eq!(trained.sent, trained.predicted, "{what}");
                        let stale = |r: &Of<StaleRow>| r.state == Freshness::Stale;
                        for row in trained.rows().into_iter().filter(stale) {
                            let lane = (row.layer, row.direction, row.peer);
                            let sent = trained.sent[row.epoch as usize].get(&lane);
                            // So few bytes go straight from their owner.
                            assert_eq!(sent.copied().unwrap_or(0), agreed, "{what} rank {rank}");
                            assert_eq!((row.bytes_sent, row.bytes_agreed), (0, agreed));
                            assert_eq!(row.rows_reused, trained.ids.len() as u64);
                        }
                    }
                }
            }
        }
    }
}

/// Blocks of more than 8 kB go around the ring: a stale rank hands on what active ones send, and nothing
/// of its own. All ranks together send what the owners' rows of the `stale` frame say.
#[test]
fn bytes_are_those_of_the_schedule_around_a_ring() {
    const N: usize = 900;
    const RANKS: usize = 4;
    let data = Arc::new(random_dataset(N, 2000, 20, 16, false, 8));
    let owner = random_owner(N, RANKS, false, 3);
    let rows = |rank| owner.iter().filter(|&&r| r == rank as u32).count();
    for (entry, direction) in [(&ENTRY, Direction::Forward), (&SKIPG, Direction::Backward)] {
        for bound in ["epoch-fixed=1", "epoch-adaptive=1", "variation=0.3"] {
            let mut pairs = spec(entry, ModelKind::Gcn, 2, 18).to_pairs();
            for (key, value) in [("bound", bound), ("dropout", "0"), ("lr", "0.001")] {
                pairs.push((key.into(), Value::from_word(value)));
            }
            let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
            let trained = train_epochs(entry, &spec, &data, Some(owner.clone()), RANKS, 6);
            let stale = all_rows(&trained);
            let of = |rank: usize, epoch: usize| {
                let it = |r: &&Of<StaleRow>| {
                    let place = (r.rank as usize, r.epoch as usize);
                    (place, r.layer, r.direction) == ((rank, epoch), 1, direction)
                };
                stale.iter().find(it).expect("a row for each reader")
            };
            let mut skipped = 0;
            for epoch in 0..6 {
                let active = |rank| of(rank, epoch).state == Freshness::Active;
                for (rank, one) in trained.iter().enumerate() {
                    assert_eq!(one.sent, one.predicted, "{} {bound}", entry.name);
                    skipped += usize::from(!active(rank));
                    let next = (rank + 1) % RANKS;
                    for peer in (0..RANKS).filter(|&peer| peer != rank) {
                        let roots = (0..RANKS).filter(|&j| peer == next && j != next && active(j));
                        let floats: usize = roots.map(|j| 16 * rows(j)).sum();
                        let sent = one.sent[epoch].get(&(1, direction, peer as u32));
                        assert_eq!(
                            sent.copied().unwrap_or(0),
                            4 * floats as u64 + of(rank, epoch).bytes_agreed,
                            "{} {bound}: {rank} to {peer} in epoch {epoch}",
                            entry.name
                        );
                    }
                }
            }
            assert!((1..6 * RANKS).contains(&skipped), "{bound}: {skipped}");
        }
    }
}

/// 6 features, 8 wide: the first layer aggregates the features, which travel once.
#[test]
fn features_travel_once_and_are_no_saving_of_the_bound() {
    let trained = run(&ENTRY, ModelKind::Sage, 3, 4, &[("bound", "epoch-fixed=0")]);
    for (rank, trained) in trained.iter().enumerate() {
        let features = 4 * 6 * trained.ids.len() as u64;
        let sent =
            |epoch: usize| trained.sent[epoch].get(&(0, Direction::Forward, (rank as u32 + 1) % 3));
        assert_eq!(sent(0).copied().unwrap_or(0), features);
        assert!((1..4).all(|epoch| sent(epoch).is_none()));
        let rows = trained.rows::<StaleRow>();
        let saved = |state| {
            let of = rows.iter().filter(|r| r.state == state);
            of.map(|r| r.bytes_saved).sum::<u64>()
        };
        assert_eq!(saved(Freshness::Input), 2 * 3 * features);
        assert_eq!(saved(Freshness::Active), 0);
        // The features of the others, and their rows of the second layer, 3 wide.
        let others = (N - trained.ids.len()) as u64;
        assert_eq!(trained.cached, 4 * others * (6 + 3));
    }
}

#[test]
fn variation_waits_for_rows_to_move_and_says_how_far_they_did() {
    let still = [("bound", "variation=0.02"), ("dropout", "0"), ("lr", "0")];
    let rows = all_rows(&run(&ENTRY, ModelKind::Gcn, 3, 5, &still));
    for rank in 0..2 {
        let active = epochs_in(&rows, rank, 1, Freshness::Active);
        assert_eq!(active, BTreeSet::from([0]), "nothing moves without a step");
    }
    let moving = [("bound", "variation=0.1"), ("dropout", "0"), ("lr", "0.01")];
    let rows = all_rows(&run(&ENTRY, ModelKind::Gcn, 3, 12, &moving));
    let later = |r: &&Of<StaleRow>| r.layer == 1 && r.epoch > 0;
    for row in rows.iter().filter(later) {
        let drift = row.drift_rel.expect("measured");
        let far = row.state == Freshness::Active;
        assert_eq!(far, drift > 0.1, "{row:?}");
    }
    let counts = (0..2).map(|rank| epochs_in(&rows, rank, 1, Freshness::Active).len());
    assert!(
        counts.clone().all(|n| (2..12).contains(&n)),
        "{:?}",
        counts.collect::<Vec<_>>()
    );
}

#[test]
fn absolute_and_relative_norms_differ() {
    let active = |norm: &str| {
        let more = [("bound", "variation=0.3"), ("norm", norm), ("dropout", "0")];
        let rows = all_rows(&run(&ENTRY, ModelKind::Gcn, 2, 10, &more));
        epochs_in(&rows, 0, 1, Freshness::Active).len()
    };
    assert!(active("absolute") > active("relative"));
}

/// L2 norm of the largest of the ranks' blocks of the gradient of logits, before the first step:
/// softmax less the label, over all training vertices. Without dropout it is all that goes back here.
fn largest_block(ranks: usize) -> f64 {
    let data = random_dataset(N, 300, 6, 3, false, 8);
    let train_total = data.train.iter().filter(|t| **t).count() as f64;
    let square = |row: ndarray::ArrayView1<'_, f32>, label: usize| -> f64 {
        let total: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
        let of =
            |(c, &x): (usize, &f32)| f64::from(x).exp() / total - f64::from(u8::from(c == label));
        row.iter().enumerate().map(of).map(|d| d * d).sum()
    };
    let start = run(&ENTRY, ModelKind::Gcn, ranks, 0, &[("dropout", "0")]);
    let norm = |rank: &Trained| -> f64 {
        let rows = rank.ids.iter().map(|&v| v as usize).enumerate();
        let squares = rows
            .filter(|&(_, v)| data.train[v])
            .map(|(k, v)| square(rank.logits.row(k), data.labels[v] as usize));
        squares.sum::<f64>().sqrt() / train_total
    };
    start.iter().map(norm).fold(0.0, f64::max)
}

/// A block is clipped where it is longer than the threshold times the root of the number of ranks, and
/// not where it is shorter.
#[test]
fn gradients_are_clipped_to_the_threshold_times_the_root_of_ranks() {
    for ranks in 2..=4 {
        let with = |clip: f64| {
            let clip = clip.to_string();
            let more = [("clip", clip.as_str()), ("dropout", "0")];
            bits(run(&ENTRY, ModelKind::Gcn, ranks, 1, &more))
        };
        let (free, just) = (with(0.0), largest_block(ranks) / (ranks as f64).sqrt());
        assert_eq!(with(1.001 * just), free, "{ranks} ranks");
        assert_ne!(with(0.999 * just), free, "{ranks} ranks");
    }
}

#[test]
fn stale_rows_are_used_and_change_the_training() {
    for entry in [&ENTRY, &SKIPG] {
        let with = |bound: &str| bits(run(entry, ModelKind::Gcn, 3, 4, &[("bound", bound)]));
        assert_ne!(
            with("epoch-fixed=3"),
            with("epoch-fixed=0"),
            "{}",
            entry.name
        );
    }
}

#[test]
fn a_bound_that_is_none_is_refused() {
    for bound in ["3", "epochs=3", "variation=-1", "epoch-fixed=0.5"] {
        let pairs = [("strategy", "sancus"), ("bound", bound)];
        let pairs = pairs.map(|(k, v)| (k, Value::from_word(v)));
        let error = RunSpec::from_pairs(pairs).expect_err(bound);
        assert!(error.to_string().contains("bound"), "{error}");
    }
}
