//! Arrival times from departures alone; then real messages on threads, against the same arithmetic.
//! What this cannot catch: MPI, which the tests from outside run.

use super::Link;
use super::ports::{Inbound, Notice, Outbound, Parcel};
use crate::comm::Label;
use crate::record::{Direction, Pass, Times, now_ns};
use crate::spec::{RunSpec, Value};
use crate::testing::world;
use std::sync::Barrier;
use std::time::Duration;

const LABEL: Label = Label {
    layer: 0,
    direction: Direction::Forward,
};

/// A byte takes 8 ns, a head 100 ns.
fn link() -> Link {
    Link::parse("1gbit,100ns").expect("well formed")
}

#[test]
fn a_link_is_read_and_written() {
    for (text, written) in [
        ("1gbit,50us", "1gbit,50us"),
        ("2.5Gbit, 1ms", "2500mbit,1ms"),
        ("100mbit,0s", "100mbit,0ns"),
        ("9bit,1500ns", "9bit,1500ns"),
    ] {
        let link = Link::parse(text).expect(text);
        assert_eq!(link.to_string(), written);
        assert_eq!(Link::parse(written).expect(written), link);
    }
}

#[test]
fn a_malformed_link_is_refused_with_what_is_wrong() {
    for (text, what) in [
        ("1gbit", "expected RATE,LATENCY, got 1gbit"),
        ("50us", "RATE,LATENCY"),
        ("fast,50us", "fast is no rate"),
        ("1gb,50us", "1gb is no rate"),
        ("0gbit,50us", "0gbit is no rate"),
        ("-1gbit,50us", "-1gbit is no rate"),
        ("1gbit,50", "50 is no latency"),
        ("1gbit,-50us", "-50us is no latency"),
        ("1gbit,50us,3", "50us,3 is no latency"),
        ("nangbit,50us", "no rate"),
        ("1gbit,1e99s", "no latency"),
        (",", "no rate"),
    ] {
        let error = Link::parse(text).expect_err(text).to_string();
        assert!(error.contains(what), "{text}: {error}");
        let pair = [("link", Value::from_word(text))];
        assert!(RunSpec::from_pairs(pair).is_err(), "{text}");
    }
    let none = RunSpec::from_pairs([("link", Value::Str("none".into()))]).expect("no link");
    assert_eq!(none.link, None);
}

fn notice(departs_ns: u64, bytes: u64) -> Notice {
    Notice {
        sent_ns: departs_ns,
        departs_ns,
        tag: 1,
        bytes,
    }
}

fn arrival(inbound: &Inbound, parcel: Parcel) -> Option<u64> {
    inbound.times(parcel).expect("announced").1
}

#[test]
fn a_message_alone_takes_latency_and_its_bytes() {
    let mut out = Outbound::new(link());
    assert_eq!(out.departs(1_000, 50), 1_000);
    let mut inbound = Inbound::new(link());
    let parcel = inbound.announce(1, notice(1_000, 50));
    inbound.admit(1_099);
    assert_eq!(arrival(&inbound, parcel), None, "its head is not here yet");
    inbound.admit(1_100);
    assert_eq!(arrival(&inbound, parcel), Some(1_100 + 400));
}

#[test]
fn a_senders_port_passes_one_message_after_the_other() {
    let mut out = Outbound::new(link());
    let departures = [(0, 100), (0, 10), (500, 10), (2_000, 10)].map(|(t, b)| out.departs(t, b));
    assert_eq!(departures, [0, 800, 880, 2_000]);
    assert_eq!(out.way_out().free_ns, 2_080);
}

#[test]
fn a_receivers_port_passes_heads_in_their_order_whoever_is_heard_first() {
    let notices = [
        (1, notice(0, 100)),
        (2, notice(10, 100)),
        (3, notice(5_000, 1)),
    ];
    let expected = [100 + 800, 900 + 800, 5_100 + 8];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let mut inbound = Inbound::new(link());
        let mut parcels = [None; 3];
        for k in order {
            parcels[k] = Some(inbound.announce(notices[k].0, notices[k].1));
        }
        for now in [0, 105, 2_000, 6_000] {
            inbound.admit(now);
        }
        let arrivals = parcels.map(|p| arrival(&inbound, p.expect("announced")));
        assert_eq!(arrivals, expected.map(Some), "{order:?}");
    }
}

#[test]
fn both_directions_of_a_port_are_used_at_once() {
    // Two ranks send each other 100 bytes at time 0: nobody waits for the other.
    for _ in 0..2 {
        let (mut out, mut inbound) = (Outbound::new(link()), Inbound::new(link()));
        let departs = out.departs(0, 100);
        let parcel = inbound.announce(1, notice(departs, 100));
        inbound.admit(10_000);
        assert_eq!(arrival(&inbound, parcel), Some(900));
    }
}

fn linked(text: &str) -> RunSpec {
    RunSpec::from_pairs([("link", Value::Str(text.into()))]).expect("well formed")
}

const MS: u64 = 1_000_000;

/// 40 000 bytes at 16 Mbit/s take 20 ms, and the head 5 ms.
#[test]
fn a_real_message_is_not_seen_before_its_modelled_arrival() {
    let all = world(&linked("16mbit,5ms"), 2, |cx, meter| {
        cx.pass(Pass::Forward);
        if cx.rank() == 0 {
            let sent = now_ns();
            let message = vec![1.5; 10_000];
            cx.comm.post_send(LABEL, 1, message).expect("sends");
            cx.comm.drain().expect("leaves");
            assert!(now_ns() - sent >= 20 * MS, "the port is busy for 20 ms");
            return (sent, Times::default());
        }
        let got = cx
            .comm
            .recv::<Vec<f32>>(LABEL, 0, 10_000)
            .expect("receives");
        assert_eq!(got, vec![1.5; 10_000]);
        (now_ns(), meter.take_times().0)
    });
    let took = all[1].0 - all[0].0;
    assert!(took >= 25 * MS, "{took} ns");
    let times = all[1].1;
    assert!(times.xfer >= 10 * MS && times.wait + times.xfer <= took + 50 * MS);
}

/// What travels while a rank works is hidden; what is left when it waits is exposed.
#[test]
fn work_during_the_journey_hides_that_much_of_it() {
    for work_ms in [40, 10] {
        let sent = Barrier::new(2);
        let all = world(&linked("16mbit,5ms"), 2, |cx, meter| {
            cx.pass(Pass::Forward);
            sent.wait();
            if cx.rank() == 0 {
                let message = vec![0.0; 10_000];
                cx.comm.post_send(LABEL, 1, message).expect("sends");
                sent.wait();
                return None;
            }
            let ticket = cx
                .comm
                .post_recv::<Vec<f32>>(LABEL, 0, 10_000)
                .expect("posts");
            sent.wait();
            std::thread::sleep(Duration::from_millis(work_ms));
            cx.comm.finish(ticket).expect("arrives");
            Some(meter.take_times().0)
        });
        let times = all[1].expect("the receiver");
        let exposed = times.xfer + times.wait;
        // The journey's 25 ms, whatever the machine does: hidden up to the moment of waiting.
        assert!(times.hidden >= work_ms.min(25) * MS - MS, "{times:?}");
        assert!(times.hidden <= 25 * MS + MS, "{times:?}");
        assert!(times.hidden + exposed >= 25 * MS - MS, "{times:?}");
        assert_eq!(times.wait, 0, "its sender had sent: {times:?}");
    }
}

/// Three senders share one receiver's port: three times the time of one.
#[test]
fn messages_to_one_rank_share_its_port() {
    let all = world(&linked("16mbit,1ms"), 4, |cx, _| {
        if cx.rank() > 0 {
            let sent = now_ns();
            let message = vec![0.0; 5_000];
            cx.comm.post_send(LABEL, 0, message).expect("sends");
            return sent;
        }
        for from in 1..4 {
            cx.comm
                .recv::<Vec<f32>>(LABEL, from, 5_000)
                .expect("receives");
        }
        now_ns()
    });
    let first = all[1..].iter().min().expect("three senders");
    let took = all[0] - first;
    assert!(took >= 31 * MS, "3 times 10 ms, and 1 ms: {took} ns");
}

#[test]
fn a_rank_that_fails_ends_those_that_wait_behind_a_link() {
    let all = world(&linked("1gbit,1ms"), 2, |cx, _| {
        if cx.rank() == 0 {
            cx.comm.post_send(LABEL, 1, vec![2.0]).expect("sends");
            cx.comm.abort(1);
            return true;
        }
        let first = cx
            .comm
            .recv::<Vec<f32>>(LABEL, 0, 1)
            .expect("sent before the failure");
        first == [2.0] && cx.comm.recv::<Vec<f32>>(LABEL, 0, 1).is_err()
    });
    assert_eq!(all, [true, true]);
}
