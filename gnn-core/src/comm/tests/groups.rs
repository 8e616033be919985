//! Laws of groups: what a group does is what a world of its size does, under the names of the world; and
//! groups need not be in step with each other or with the world.

use super::{LABEL, value};
use crate::comm::{Communicator, Label};
use crate::ctx::Ctx;
use crate::record::{Direction, Lane, Meter, Op, Pass, Traffic};
use crate::spec::{RunSpec, Value};
use crate::testing::world;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Sent = BTreeMap<Lane, Traffic>;

/// Every operation once, by a rank of a communicator: what it got of each.
fn everything(comm: &mut Communicator, lens: &[usize]) -> Vec<Vec<Vec<f32>>> {
    let (me, size) = (comm.rank(), comm.size());
    let len = |from: usize, to: usize| lens[(from * 5 + to) % lens.len()];
    let of = |rank: usize, n: usize| -> Vec<f32> { (0..n).map(|i| value(rank, i)).collect() };
    let send = (0..size).map(|to| of(me * 10 + to, len(me, to)));
    let recv: Vec<usize> = (0..size).map(|from| len(from, me)).collect();
    let all = comm
        .post_all_to_all_v(LABEL, send.collect(), &recv)
        .expect("posts");
    let each: Vec<usize> = (0..size).map(|r| len(r, r)).collect();
    let gathered = comm
        .post_all_gather_v(LABEL, of(me, each[me]), &each)
        .expect("posts");
    let (root, next) = (size - 1, (me + 1) % size);
    let data = if me == root {
        of(root, each[root])
    } else {
        Vec::new()
    };
    let told = comm
        .post_broadcast(LABEL, root, data, each[root])
        .expect("posts");
    // Long enough for a chain.
    let data = if me == 0 { of(0, 5000) } else { Vec::new() };
    let long = comm.post_broadcast(LABEL, 0, data, 5000).expect("posts");
    let sum = comm.post_all_reduce(LABEL, of(me, lens[0])).expect("posts");
    comm.poll().expect("polls");
    let mut got = vec![
        comm.finish(sum).expect("arrives"),
        comm.finish(long).expect("arrives"),
        comm.finish(told).expect("arrives"),
        comm.finish(all).expect("arrives"),
        comm.finish(gathered).expect("arrives"),
    ];
    if size > 1 {
        comm.post_send(LABEL, next, of(me, 3)).expect("sends");
        let before = (me + size - 1) % size;
        got.push(vec![
            comm.recv::<Vec<f32>>(LABEL, before, 3).expect("receives"),
        ]);
    }
    comm.barrier(LABEL).expect("all come");
    let said = comm.agree(&[me as f64]).expect("agrees");
    got.push(said.iter().map(|x| vec![x[0] as f32]).collect());
    got
}

/// Traffic with receivers renamed.
fn named(sent: Sent, name: impl Fn(u32) -> u32) -> Sent {
    let lane = |((l, d, op, to), t)| ((l, d, op, name(to)), t);
    sent.into_iter().map(lane).collect()
}

/// The members of the group of each rank.
fn members(colours: &[usize], mine: usize) -> Vec<usize> {
    (0..colours.len()).filter(|&r| colours[r] == mine).collect()
}

fn linked(text: &str) -> RunSpec {
    RunSpec::from_pairs([("link", Value::Str(text.into()))]).expect("well formed")
}

/// Operations of letters run through a hub, as those of a strategy with work in the background.
fn through_a_hub() -> RunSpec {
    RunSpec::from_pairs([("strategy", Value::Str("distdgl".into()))]).expect("well formed")
}

fn groups_equal_worlds(spec: &RunSpec, colours: &[usize], lens: &[usize]) {
    let run = |cx: &mut Ctx, meter: &Meter, comm: &mut Communicator| {
        cx.pass(Pass::Forward);
        meter.take_traffic();
        meter.take_times();
        let got = everything(comm, lens);
        (got, meter.take_traffic(), meter.take_times().1.rounds)
    };
    let all = world(spec, colours.len(), |cx, meter| {
        let mine = members(colours, colours[cx.rank()]);
        let mut group = cx.comm.group(&mine).expect("all take part");
        assert_eq!(group.size(), mine.len());
        assert_eq!(group.world_rank(group.rank()), cx.rank());
        run(cx, meter, &mut group)
    });
    for colour in 0..3 {
        let ranks = members(colours, colour);
        let alone = world(spec, ranks.len(), |cx, meter| {
            let everybody: Vec<usize> = (0..cx.size()).collect();
            let mut same = cx.comm.group(&everybody).expect("all take part");
            let of_group = run(cx, meter, &mut same);
            let (got, sent) = (everything(&mut cx.comm, lens), meter.take_traffic());
            assert_eq!((got, sent), (of_group.0.clone(), of_group.1.clone()));
            of_group
        });
        for ((got, sent, rounds), &rank) in alone.into_iter().zip(&ranks) {
            let theirs = named(sent, |r| ranks[r as usize] as u32);
            assert_eq!(
                all[rank],
                (got, theirs, rounds),
                "rank {rank} of {colours:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_group_does_what_a_world_of_its_size_does(
        colours in prop::collection::vec(0usize..3, 1..6), lens in prop::collection::vec(0usize..7, 4..9),
    ) {
        groups_equal_worlds(&RunSpec::default(), &colours, &lens);
    }
}

#[test]
fn so_it_does_behind_a_link_and_through_a_hub() {
    for spec in [linked("1gbit,20us"), through_a_hub()] {
        groups_equal_worlds(&spec, &[0, 1, 0, 1, 1], &[3, 0, 5, 2]);
    }
}

/// Rank 1 is in both groups and finishes those of the second first; rank 0 does three all-reduces and a
/// message in one group while rank 2 does one in the other, and the world has one in flight.
#[test]
fn groups_out_of_step_do_not_wait_for_each_other() {
    let label = |layer: u16| Label {
        layer,
        direction: Direction::Forward,
    };
    for spec in [RunSpec::default(), linked("1gbit,20us"), through_a_hub()] {
        let all = world(&spec, 3, |cx, meter| {
            let me = cx.rank();
            let first: &[usize] = if me < 2 { &[0, 1] } else { &[2] };
            let second: &[usize] = if me > 0 { &[1, 2] } else { &[0] };
            let mut first = cx.comm.group(first).expect("agrees");
            let mut second = cx.comm.group(second).expect("agrees");
            let mine =
                |k: usize, n: usize| -> Vec<f32> { (0..n).map(|i| value(me + 4 * k, i)).collect() };
            let before = meter.take_traffic();
            let mut got = Vec::new();
            let mut posted = Vec::new();
            let mut post = |comm: &mut Communicator, k: usize, n: usize| {
                posted.push(
                    comm.post_all_reduce(label(k as u16), mine(k, n))
                        .expect("posts"),
                );
            };
            match me {
                0 => {
                    post(&mut cx.comm, 0, 9);
                    (1..4).for_each(|k| post(&mut first, k, 5 + k));
                    first.post_send(LABEL, 1, mine(5, 4)).expect("sends");
                    // Rank 1 answers only when its sum with rank 2 is there.
                    got.push(first.recv::<Vec<f32>>(LABEL, 1, 2).expect("receives"));
                }
                1 => {
                    post(&mut second, 4, 6);
                    let sum = cx
                        .comm
                        .finish(posted.pop().expect("posted"))
                        .expect("arrives");
                    let mut post = |comm: &mut Communicator, k: usize, n: usize| {
                        posted.push(
                            comm.post_all_reduce(label(k as u16), mine(k, n))
                                .expect("posts"),
                        );
                    };
                    (1..4).for_each(|k| post(&mut first, k, 5 + k));
                    first.post_send(LABEL, 0, vec![1.0, 2.0]).expect("sends");
                    got.push(first.recv::<Vec<f32>>(LABEL, 0, 4).expect("receives"));
                    post(&mut cx.comm, 0, 9);
                    got.extend(sum);
                }
                _ => {
                    post(&mut second, 4, 6);
                    post(&mut cx.comm, 0, 9);
                }
            }
            // The last posted first, on whichever communicator.
            for ticket in posted.into_iter().rev() {
                got.extend(first.finish(ticket).expect("arrives"));
            }
            (got, before, meter.take_traffic())
        });
        let sum = |k: usize, ranks: &[usize], n: usize| -> Vec<f32> {
            let of = |i: usize| ranks.iter().map(|r| value(r + 4 * k, i)).sum();
            (0..n).map(of).collect()
        };
        let in_first = |k: usize| sum(k, &[0, 1], 5 + k);
        let whole = || sum(0, &[0, 1, 2], 9);
        let in_second = || sum(4, &[1, 2], 6);
        let message: Vec<f32> = (0..4).map(|i| value(20, i)).collect();
        let expected = [
            vec![
                vec![1.0, 2.0],
                in_first(3),
                in_first(2),
                in_first(1),
                whole(),
            ],
            vec![
                message,
                in_second(),
                whole(),
                in_first(3),
                in_first(2),
                in_first(1),
            ],
            vec![whole(), in_second()],
        ];
        for (rank, (got, _, sent)) in all.iter().enumerate() {
            assert_eq!(got, &expected[rank], "rank {rank}");
            assert_eq!(sent, &predicted(rank), "rank {rank}");
        }
    }
}

/// What rank `me` sends in the test above: of an all-reduce its parts of the others' chunks, and its own
/// summed chunk to each.
fn predicted(me: usize) -> Sent {
    let mut sent = Sent::new();
    let reduces: [(u16, usize, &[usize]); 5] = [
        (0, 9, &[0, 1, 2]),
        (1, 6, &[0, 1]),
        (2, 7, &[0, 1]),
        (3, 8, &[0, 1]),
        (4, 6, &[1, 2]),
    ];
    for (layer, n, ranks) in reduces {
        let bounds = kernels::par::split_rows(n, ranks.len());
        let len = |r: usize| bounds[r + 1] - bounds[r];
        let Some(mine) = ranks.iter().position(|&r| r == me) else {
            continue;
        };
        for to in (0..ranks.len()).filter(|&to| to != mine) {
            let lane = (layer, Direction::Forward, Op::Allreduce, ranks[to] as u32);
            let bytes = 4 * (len(to) + len(mine)) as u64;
            sent.insert(lane, Traffic { bytes, messages: 2 });
        }
    }
    let pair = |to: u32, bytes: u64| {
        (
            (LABEL.layer, LABEL.direction, Op::P2p, to),
            Traffic { bytes, messages: 1 },
        )
    };
    match me {
        0 => sent.extend([pair(1, 16)]),
        1 => sent.extend([pair(0, 8)]),
        _ => {}
    }
    sent
}

/// Only rank 0 waits for the message; it once let nothing else that it had posted go on meanwhile.
#[test]
fn a_rank_that_waits_for_a_message_lets_its_all_reduce_go_on() {
    let all = world(&RunSpec::default(), 2, |cx, _| {
        let ticket = cx.comm.post_all_reduce(LABEL, vec![1.0; 8]).expect("posts");
        if cx.rank() == 0 {
            cx.comm
                .recv::<Vec<f32>>(LABEL, 1, 1)
                .expect("comes after the sum");
        }
        let sum = cx.comm.finish(ticket).expect("arrives").concat();
        if cx.rank() == 1 {
            cx.comm.post_send(LABEL, 0, vec![0.0]).expect("sends");
        }
        sum
    });
    assert_eq!(all, vec![vec![2.0; 8]; 2]);
}

#[test]
fn one_thing_at_a_time_does_not_hold_up_ranks_that_are_not_in_step() {
    let spec = RunSpec::from_pairs([("sync", Value::Bool(true))]).expect("well formed");
    let all = world(&spec, 2, |cx, _| {
        let mut group = cx.comm.group(&[0, 1]).expect("agrees");
        let (one, two) = if cx.rank() == 0 {
            let one = cx.comm.post_all_reduce(LABEL, vec![1.0]).expect("posts");
            (one, group.post_all_reduce(LABEL, vec![2.0]).expect("posts"))
        } else {
            let two = group.post_all_reduce(LABEL, vec![2.0]).expect("posts");
            (
                cx.comm.post_all_reduce(LABEL, vec![1.0]).expect("posts"),
                two,
            )
        };
        [one, two].map(|t| cx.comm.finish(t).expect("arrives").concat())
    });
    assert_eq!(all, vec![[vec![2.0], vec![4.0]]; 2]);
}

#[test]
fn groups_of_groups_have_tags_of_their_own() {
    let all = world(&RunSpec::default(), 4, |cx, _| {
        let me = cx.rank();
        let half: &[usize] = if me < 2 { &[0, 1] } else { &[2, 3] };
        let mut half = cx.comm.group(half).expect("agrees");
        // Only one half makes one more; then both make one across, turned round.
        let mut inner = (me < 2).then(|| half.group(&[1, 0]).expect("agrees"));
        let across: &[usize] = if me.is_multiple_of(2) {
            &[2, 0]
        } else {
            &[3, 1]
        };
        let mut across = cx.comm.group(across).expect("agrees");
        let a = across
            .post_all_gather_v(LABEL, vec![me as f32], &[1, 1])
            .expect("posts");
        let b = half
            .post_all_gather_v(LABEL, vec![me as f32], &[1, 1])
            .expect("posts");
        let c = inner.as_mut().map(|i| {
            i.post_all_gather_v(LABEL, vec![me as f32], &[1, 1])
                .expect("posts")
        });
        let c = c.map(|t| half.finish(t).expect("arrives").concat());
        let [a, b] = [a, b].map(|t| half.finish(t).expect("arrives").concat());
        cx.within(&mut across, |cx| {
            assert_eq!((cx.rank(), cx.size()), (1 - me / 2, 2));
            assert_eq!(cx.comm.world_rank(cx.rank()), me);
        });
        assert_eq!((cx.rank(), cx.size()), (me, 4));
        (a, b, c)
    });
    for (me, (a, b, c)) in all.into_iter().enumerate() {
        let (low, first) = ((me % 2) as f32, (me / 2 * 2) as f32);
        assert_eq!(a, [low + 2.0, low]);
        assert_eq!(b, [first, first + 1.0]);
        assert_eq!(c, (me < 2).then(|| vec![1.0, 0.0]));
    }
}

#[test]
fn what_is_no_group_is_refused_on_every_rank_that_it_touches() {
    let refused = |lists: [&'static [usize]; 3]| {
        world(&RunSpec::default(), 3, move |cx, _| {
            let made = cx.comm.group(lists[cx.rank()]);
            made.err().map(|e| e.to_string())
        })
    };
    // Not in its own group; a rank that is not there; named twice.
    for lists in [
        [&[1][..], &[1], &[2]],
        [&[0, 3], &[1], &[2]],
        [&[0, 0], &[1], &[2]],
    ] {
        let all = refused(lists);
        let text = all[0].as_deref().unwrap_or_default();
        assert!(text.contains("are not a group of rank 0 among 3"), "{text}");
        assert!(all[1..].iter().all(Option::is_none), "{all:?}");
    }
    let all = refused([&[0, 1], &[1, 0], &[2]]);
    let text = all[0].as_deref().unwrap_or_default();
    assert!(
        text.contains("rank 1 does not name the group [0, 1]"),
        "{text}"
    );
    assert!(all[1].is_some() && all[2].is_none());
    let too_many = world(&RunSpec::default(), 1, |cx, _| {
        let made = (0..16).map(|_| cx.comm.group(&[0]).is_ok());
        made.collect::<Vec<_>>()
    });
    assert_eq!(too_many[0].iter().filter(|ok| **ok).count(), 15);
}
