//! Settings at their ends, and what is sent.

use super::*;
use crate::record::Direction;
use crate::strategy::tests::{Trained, train};
use crate::testing::rows_of;

fn run(ranks: usize, owner: Vec<u32>, set: &[(&str, Value)]) -> Vec<Trained> {
    let data = Arc::new(random_dataset(90, 700, 6, 3, false, 21));
    let base = [("fanout", word("3,4")), ("batch", int(7))];
    let spec = with(ModelKind::Sage, ranks, &[&base[..], set].concat());
    train(&ENTRY, &spec, &data, Some(owner), ranks)
}

/// What all epochs and layers of a rank came to.
fn total(rank: &Trained, of: impl Fn(&HecRow) -> u64) -> u64 {
    rank.rows::<HecRow>().iter().map(|row| of(row)).sum()
}

/// Where nothing is pushed, nothing is found, and vertices of others are dropped.
#[test]
fn nothing_is_pushed_that_nobody_would_read() {
    let owner = || random_owner(90, 3, false, 3);
    for (what, set) in [
        ("no room", ("cs", int(0))),
        ("no rows", ("nc", int(0))),
        ("later than an epoch", ("d", int(1000))),
    ] {
        for rank in run(3, owner(), &[set]) {
            let pushed = total(&rank, |r| r.rows_pushed + r.letters + r.bytes + r.hits);
            assert_eq!(pushed, 0, "{what}");
            assert!(total(&rank, |r| r.edges_dropped) > 0, "{what}");
            assert!(rank.losses.iter().all(|loss| loss.is_finite()), "{what}");
        }
    }
}

/// Ranks that read nothing of each other say nothing to each other, and lose nothing.
#[test]
fn an_empty_halo_is_no_halo() {
    // One rank has all that has edges.
    let owner = (0..90).map(|v| u32::from(v >= 81)).collect();
    for rank in run(2, owner, &[]) {
        let moved = total(&rank, |r| r.letters + r.lookups + r.edges_dropped + r.lines);
        assert_eq!(moved, 0);
        assert!(rank.losses.iter().all(|loss| loss.is_finite()));
    }
}

/// A rank without vertices takes every step.
#[test]
fn a_rank_may_own_nothing() {
    let all = run(3, random_owner(90, 3, true, 3), &[]);
    assert!(all[0].losses.iter().all(|loss| *loss > 0.0));
    assert!(all[2].losses.iter().all(|loss| *loss == 0.0));
}

#[test]
fn no_delay_at_all_is_refused() {
    let spec = with(ModelKind::Sage, 2, &[("d", int(1))]);
    assert!(ENTRY.check(&spec).is_ok());
    let spec = with(ModelKind::Sage, 2, &[("d", int(0))]);
    let e = ENTRY.check(&spec).expect_err("refused");
    assert!(e.to_string().contains("in the same step"), "{e}");
}

/// A delay that no step of an epoch outlasts is said before the run.
#[test]
fn a_delay_as_long_as_an_epoch_is_noted() {
    let said = |ranks, d, batch, trained| {
        let base = [("d", int(d)), ("batch", int(batch))];
        (ENTRY.notes)(&with(ModelKind::Gcn, ranks, &base), trained)
    };
    // 20 vertices in batches of 7 are three steps.
    assert_eq!(said(2, 2, 7, 20), [""; 0]);
    let note = said(2, 3, 7, 20).concat();
    assert!(
        note.contains("3 step(s)") && note.contains("d = 3"),
        "{note}"
    );
    // Everything at once is one step; one rank pushes nothing.
    assert_eq!(said(2, 1, 0, 20).len(), 1);
    assert_eq!(said(1, 1, 0, 20), [""; 0]);
}

/// What the frame says was pushed left the rank, to the byte, and nothing else did.
#[test]
fn bytes_are_those_of_the_rows() {
    let data = Arc::new(random_dataset(90, 700, 6, 3, false, 21));
    let owner = Arc::new(random_owner(90, 3, false, 3));
    let base = [("fanout", word("3,4")), ("batch", int(7)), ("nc", int(6))];
    let spec = with(ModelKind::Gat, 3, &base);
    let all = world(&spec, 3, |cx, meter| {
        let setup = Setup::of(Arc::clone(&data), Some(Arc::clone(&owner)));
        let mut built = (ENTRY.build)(setup, cx).expect("builds");
        meter.take_traffic();
        (0..3u64).all(|epoch| {
            cx.epoch = epoch;
            built.strategy.epoch(cx).expect("trains");
            let mut sent = [[0u64; 2]; 2];
            for ((layer, direction, ..), traffic) in meter.take_traffic() {
                assert!(![Direction::Sample, Direction::Pull].contains(&direction));
                if direction == Direction::Push {
                    sent[usize::from(layer)][0] += traffic.bytes;
                    sent[usize::from(layer)][1] += traffic.messages;
                }
            }
            let noted: Vec<_> = meter
                .take_noted()
                .into_iter()
                .map(|n| n.into_json())
                .collect();
            let rows = rows_of::<HecRow>(&noted);
            let widths = [6, 4 * spec.heads as u64];
            rows.iter().zip(widths).all(|(row, width)| {
                let words = row.rows_pushed * (1 + width) + row.letters;
                // Features come once, and there is room for all of them.
                let less = row.layer == 0 && row.bytes < 4 * words;
                assert!(row.bytes == 4 * words || less, "{row:?}");
                [row.bytes, row.letters] == sent[usize::from(row.layer)] && row.bytes > 0
            })
        })
    });
    assert_eq!(all, [true; 3]);
}
