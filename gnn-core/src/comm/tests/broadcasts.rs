//! Laws of broadcasts: what arrives, what each rank sends of it, and that a chain goes on whatever its
//! ranks do. Which way a length goes is tested beside the ways.

use super::{LABEL, value};
use crate::record::{Op, Pass, Traffic, now_ns};
use crate::spec::{RunSpec, Value};
use crate::testing::world;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
/// Tries at an upper bound of time.
const ATTEMPTS: usize = 10;

fn of(rank: usize, len: usize) -> Vec<f32> {
    (0..len).map(|i| value(rank, i)).collect()
}

fn with(key: &str, value: &str) -> RunSpec {
    RunSpec::from_pairs([(key, Value::Str(value.into()))]).expect("well formed")
}

/// Every rank's broadcast of `lens[rank]` floats, all posted ahead: each arrives bit for bit, and a rank
/// sends what it says it will, in messages of at most a segment.
fn everybody_hears(spec: &RunSpec, lens: &[usize], polls: usize) {
    let ranks = lens.len();
    let all = world(spec, ranks, |cx, meter| {
        let me = cx.rank();
        let mut tickets = Vec::new();
        let mut said = vec![0; ranks];
        for (root, &len) in lens.iter().enumerate() {
            let mine = if root == me { of(me, len) } else { Vec::new() };
            let posted = cx.comm.post_broadcast(LABEL, root, mine, len);
            tickets.push(posted.expect("posts"));
            for peer in cx.comm.broadcast_to(root, len) {
                said[peer] += 4 * len as u64;
            }
        }
        for _ in 0..polls {
            cx.comm.poll().expect("polls");
        }
        let arrived = |t| cx.comm.finish(t).expect("arrives");
        let got: Vec<Vec<Vec<f32>>> = tickets.into_iter().map(arrived).collect();
        (got, said, meter.take_traffic())
    });
    let mut total = 0;
    for (rank, (got, said, sent)) in all.iter().enumerate() {
        for (root, (parts, &len)) in got.iter().zip(lens).enumerate() {
            let expected = of(root, len);
            assert!(parts.len() == 1 && parts[0] == expected, "{root} to {rank}");
        }
        for (peer, &said) in said.iter().enumerate() {
            let lane = (LABEL.layer, LABEL.direction, Op::Broadcast, peer as u32);
            let Traffic { bytes, messages } = sent.get(&lane).copied().unwrap_or_default();
            assert_eq!(bytes, said, "{rank} to {peer}");
            assert!(messages as usize <= lens.iter().map(|len| 1 + len / 2048).sum());
            total += bytes;
        }
    }
    let once: usize = lens.iter().sum();
    assert_eq!(total, (4 * (ranks - 1) * once) as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_every_root_says_arrives_everywhere(
        lens in prop::collection::vec(
            prop_oneof![0usize..5, 2040usize..2060, 4090usize..4100, 9000usize..20_000], 1..6),
        polls in 0usize..4,
    ) {
        everybody_hears(&RunSpec::default(), &lens, polls);
    }
}

#[test]
fn so_it_does_behind_a_link_and_through_a_hub_and_without_overlap() {
    for spec in [with("link", "10gbit,20us"), with("strategy", "distdgl")] {
        everybody_hears(&spec, &[70_000, 3, 2049, 0, 30_000], 2);
    }
    let all = world(&RunSpec::default(), 4, |cx, _| {
        cx.comm.finish_at_once();
        let data = if cx.rank() == 2 {
            of(2, 9000)
        } else {
            Vec::new()
        };
        cx.comm.broadcast(LABEL, 2, data, 9000).expect("arrives")
    });
    assert!(all.iter().all(|got| *got == of(2, 9000)));
}

/// Rank 1 is the second of the chain, and waits for a word that rank 2 says when the broadcast has reached
/// it: once it waited for ever.
#[test]
fn a_rank_that_waits_for_something_else_hands_on() {
    for spec in [RunSpec::default(), with("link", "10gbit,20us")] {
        let all = world(&spec, 3, |cx, _| {
            let me = cx.rank();
            let data = if me == 0 { of(0, 9000) } else { Vec::new() };
            let ticket = cx.comm.post_broadcast(LABEL, 0, data, 9000).expect("posts");
            let said = match me {
                1 => cx.comm.recv::<Vec<f32>>(LABEL, 2, 1).expect("comes"),
                _ => Vec::new(),
            };
            let got = cx.comm.finish(ticket).expect("arrives").concat();
            if me == 2 {
                cx.comm.post_send(LABEL, 1, vec![7.0]).expect("sends");
            }
            (said, got)
        });
        assert_eq!(all[1].0, [7.0]);
        assert!(all.iter().all(|(_, got)| *got == of(0, 9000)));
    }
}

#[test]
fn a_root_that_says_another_length_is_told() {
    let all = world(&RunSpec::default(), 1, |cx, _| {
        let told = cx.comm.broadcast(LABEL, 0, vec![0.0; 3], 4);
        told.expect_err("3 are not 4").to_string()
    });
    assert!(all[0].contains("expected 4 words, got 3"), "{}", all[0]);
}

/// 80 kB at 16 Mbit/s take 40 ms. Straight to three they would take 120; in a chain the port of the root is
/// free after 40, and the last rank has it two segments of 4.6 ms and three latencies of 1 ms later. A busy
/// machine can delay it, so one of several attempts has to be as fast.
#[test]
fn a_chain_does_not_pass_the_roots_port_again_for_every_rank() {
    let attempt = || {
        let all = world(&with("link", "16mbit,1ms"), 4, |cx, meter| {
            cx.pass(Pass::Forward);
            cx.comm.barrier(LABEL).expect("all come");
            meter.take_times();
            let start = now_ns();
            let data = if cx.rank() == 0 {
                of(0, 20_000)
            } else {
                Vec::new()
            };
            let got = cx.comm.broadcast(LABEL, 0, data, 20_000).expect("arrives");
            let end = now_ns();
            cx.comm.drain().expect("leaves");
            (start, end, now_ns(), got == of(0, 20_000))
        });
        assert!(all.iter().all(|one| one.3));
        let start = all[0].0;
        assert!(
            all[0].2 - start >= 40 * MS,
            "the root's port is busy for 40 ms"
        );
        assert!(all[3].1 - start >= 52 * MS, "two more hops, and latencies");
        all.iter().map(|one| one.1.max(one.2) - start).max()
    };
    assert!((0..ATTEMPTS).any(|_| attempt() < Some(100 * MS)));
}

/// Rank 1 looks only after 80 ms. What it hands on left its port as it came, so rank 2 has it with the first
/// look; were each segment sent when rank 1 looks, the last would come 40 ms later, in every attempt.
#[test]
fn a_rank_that_looks_late_does_not_keep_a_modelled_port() {
    let attempt = || {
        let all = world(&with("link", "16mbit,1ms"), 3, |cx, _| {
            cx.comm.barrier(LABEL).expect("all come");
            let start = now_ns();
            let data = if cx.rank() == 0 {
                of(0, 20_000)
            } else {
                Vec::new()
            };
            let ticket = cx
                .comm
                .post_broadcast(LABEL, 0, data, 20_000)
                .expect("posts");
            if cx.rank() == 1 {
                std::thread::sleep(std::time::Duration::from_millis(80));
            }
            let got = cx.comm.finish(ticket).expect("arrives").concat();
            assert_eq!(got, of(0, 20_000));
            (start, now_ns())
        });
        let took = all[2].1 - all[1].0;
        assert!(took >= 80 * MS, "{took} ns");
        took
    };
    assert!((0..ATTEMPTS).any(|_| attempt() < 115 * MS));
}
