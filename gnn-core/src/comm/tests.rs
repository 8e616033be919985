//! Laws of the collectives on in-process worlds of 1 to 4 ranks. MPI runs the same communicator;
//! the tests from outside compare its losses with these to the last bit.

use super::Label;
use crate::record::{Direction, Op, Pass};
use crate::spec::RunSpec;
use crate::testing::world;
use proptest::prelude::*;

mod broadcasts;
mod devices;
mod groups;
mod letters;

const LABEL: Label = Label {
    layer: 3,
    direction: Direction::Forward,
};

fn value(rank: usize, i: usize) -> f32 {
    (rank * 1000 + i) as f32 * 0.37 - 11.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn all_reduce_sums_in_rank_order_everywhere(ranks in 1usize..5, len in 0usize..40) {
        let expected: Vec<f32> = (0..len).map(|i| (0..ranks).map(|r| value(r, i)).sum()).collect();
        let all = world(&RunSpec::default(), ranks, |cx, meter| {
            let mine: Vec<f32> = (0..len).map(|i| value(cx.rank(), i)).collect();
            let sum = cx.comm.all_reduce(LABEL, mine).expect("all ranks take part");
            (sum, meter.take_traffic().values().map(|t| t.bytes).sum::<u64>())
        });
        let total: u64 = all.iter().map(|r| r.1).sum();
        prop_assert_eq!(total, (2 * 4 * len * (ranks - 1)) as u64);
        for (sum, _) in all {
            prop_assert_eq!(&sum, &expected);
        }
    }

    #[test]
    fn all_to_all_delivers_what_was_sent(ranks in 1usize..5, lens in prop::collection::vec(0usize..6, 16)) {
        let len = |from: usize, to: usize| lens[from * 4 + to];
        let all = world(&RunSpec::default(), ranks, |cx, meter| {
            let me = cx.rank();
            let send = (0..ranks).map(|to| (0..len(me, to)).map(|i| value(me * 10 + to, i)).collect::<Vec<f32>>()).collect();
            let recv: Vec<usize> = (0..ranks).map(|from| len(from, me)).collect();
            let got = cx.comm.all_to_all_v(LABEL, send, &recv).expect("lengths agree");
            (got, meter.take_traffic())
        });
        for (me, (got, sent)) in all.iter().enumerate() {
            for (from, part) in got.iter().enumerate() {
                let expected: Vec<f32> = (0..len(from, me)).map(|i| value(from * 10 + me, i)).collect();
                prop_assert_eq!(part, &expected);
            }
            for to in (0..ranks).filter(|&to| to != me) {
                let lane = sent.get(&(3, Direction::Forward, Op::Alltoall, to as u32));
                prop_assert_eq!(lane.map_or(0, |t| t.bytes), 4 * len(me, to) as u64);
            }
        }
    }

    #[test]
    fn gather_gives_everything_to_everybody(ranks in 1usize..5, lens in prop::collection::vec(0usize..6, 4)) {
        let all = world(&RunSpec::default(), ranks, |cx, _| {
            let me = cx.rank();
            let mine: Vec<f32> = (0..lens[me]).map(|i| value(me, i)).collect();
            cx.comm.all_gather_v(LABEL, mine, &lens[..ranks]).expect("lengths agree")
        });
        for got in all {
            for (from, part) in got.iter().enumerate() {
                let expected: Vec<f32> = (0..lens[from]).map(|i| value(from, i)).collect();
                prop_assert_eq!(part, &expected);
            }
        }
    }
}

#[test]
fn broadcasts_posted_ahead_arrive_in_order() {
    let all = world(&RunSpec::default(), 3, |cx, _| {
        let me = cx.rank();
        let mut tickets = Vec::new();
        for root in 0..3 {
            let data = if root == me {
                vec![root as f32; 5]
            } else {
                Vec::new()
            };
            tickets.push(cx.comm.post_broadcast(LABEL, root, data, 5).expect("posts"));
        }
        cx.comm.poll().expect("polls");
        let got: Vec<Vec<f32>> = tickets
            .into_iter()
            .map(|t| cx.comm.finish(t).expect("arrives").concat())
            .collect();
        got
    });
    for got in all {
        assert_eq!(got, vec![vec![0.0; 5], vec![1.0; 5], vec![2.0; 5]]);
    }
}

#[test]
fn messages_of_a_pair_arrive_in_the_order_sent() {
    let all = world(&RunSpec::default(), 2, |cx, _| {
        if cx.rank() == 0 {
            for k in 0..4 {
                cx.comm
                    .post_send(LABEL, 1, vec![k as f32; k + 1])
                    .expect("sends");
            }
            Vec::new()
        } else {
            (0..4)
                .map(|k| cx.comm.recv::<Vec<f32>>(LABEL, 0, k + 1).expect("receives"))
                .collect()
        }
    });
    assert_eq!(
        all[1],
        (0..4).map(|k| vec![k as f32; k + 1]).collect::<Vec<_>>()
    );
}

#[test]
fn a_message_of_another_length_is_an_error_not_a_truncation() {
    let all = world(&RunSpec::default(), 2, |cx, _| {
        if cx.rank() == 0 {
            cx.comm.post_send(LABEL, 1, vec![0.0; 3]).expect("sends");
            None
        } else {
            cx.comm
                .recv::<Vec<f32>>(LABEL, 0, 4)
                .err()
                .map(|e| e.to_string())
        }
    });
    let message = all[1].as_deref().unwrap_or_default();
    assert!(message.contains("expected 4 words, got 3"), "{message}");
}

#[test]
fn a_rank_that_aborts_wakes_those_that_wait_for_it() {
    let all = world(&RunSpec::default(), 2, |cx, _| {
        if cx.rank() == 0 {
            cx.comm.abort(1);
            true
        } else {
            cx.comm.recv::<Vec<f32>>(LABEL, 0, 4).is_err()
        }
    });
    assert_eq!(all, vec![true, true]);
}

#[test]
fn agreement_keeps_every_bit_and_stays_out_of_epoch_time() {
    let all = world(&RunSpec::default(), 3, |cx, meter| {
        cx.pass(Pass::Eval);
        let got = cx
            .comm
            .agree(&[std::f64::consts::PI * cx.rank() as f64, -0.0])
            .expect("agrees");
        (got, meter.take_times().0)
    });
    for (got, times) in all {
        for (r, pair) in got.iter().enumerate() {
            assert_eq!(
                pair[0].to_bits(),
                (std::f64::consts::PI * r as f64).to_bits()
            );
            assert_eq!(pair[1].to_bits(), (-0.0f64).to_bits());
        }
        assert_eq!(times.accounted(), 0);
    }
}

/// The second stage of an all-reduce was once counted twice when it began inside `poll`.
#[test]
fn time_is_not_counted_twice_when_poll_advances_an_all_reduce() {
    let all = world(&RunSpec::default(), 4, |cx, meter| {
        cx.pass(Pass::Forward);
        let start = crate::record::now_ns();
        for _ in 0..20 {
            let ticket = cx
                .comm
                .post_all_reduce(LABEL, vec![1.0; 40_000])
                .expect("posts");
            for _ in 0..50 {
                cx.comm.poll().expect("polls");
            }
            cx.comm.finish(ticket).expect("arrives");
        }
        (
            meter.take_times().0.accounted(),
            crate::record::now_ns() - start,
        )
    });
    for (accounted, wall) in all {
        assert!(accounted <= wall, "{accounted} ns accounted in {wall} ns");
    }
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for ranks in 1..5 {
        let came = AtomicUsize::new(0);
        let all = world(&RunSpec::default(), ranks, |cx, meter| {
            for round in 1..4 {
                came.fetch_add(1, Ordering::SeqCst);
                cx.comm.barrier(LABEL).expect("all ranks take part");
                assert!(came.load(Ordering::SeqCst) >= round * ranks);
            }
            meter.take_traffic()
        });
        for lane in all.iter().flatten() {
            assert_eq!(
                (lane.0.2, lane.1.messages, lane.1.bytes),
                (Op::Barrier, 3, 12)
            );
        }
    }
}
