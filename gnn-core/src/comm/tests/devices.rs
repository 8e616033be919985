//! Messages that stay on devices, through the host's twin of NCCL. They catch messages that go to or come from
//! somebody else, that are counted otherwise than over the wire, and waits that nobody ends.

use super::*;
use crate::backend::{Backend, Cuda, Metered};
use crate::comm::Message;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::record::Meter;
use crate::spec::Value;
use crate::testing::{shim, world_on};
use kernels::cuda::nccl;
use std::rc::Rc;

/// Runs `f` on ranks with a device each; without a compiler not at all.
fn on_devices<T: Send>(
    transport: &str,
    ranks: usize,
    f: impl Fn(&mut Ctx, &Meter) -> T + Sync,
) -> Vec<T> {
    if shim().is_none() {
        return Vec::new();
    }
    nccl::load_shim().expect("there is a compiler");
    let pairs = [("backend", "cuda"), ("transport", transport)];
    let pairs = pairs.map(|(key, word)| (key, Value::Str(word.into())));
    let spec = RunSpec::from_pairs(pairs).expect("well formed");
    let open = |meter: Rc<Meter>| {
        let device = shim().expect("there before");
        Box::new(Metered::new(Cuda::new(device), meter)) as Box<dyn Backend>
    };
    world_on(&spec, ranks, open, f)
}

/// A message of `n` floats on this rank's device.
fn rows(cx: &Ctx, from: usize, n: usize) -> Message {
    let x = kernels::Mat::from_shape_fn((1, n), |(_, i)| value(from, i));
    cx.message(cx.backend.upload(x))
}

fn floats(messages: Vec<Message>) -> Vec<Vec<f32>> {
    messages.into_iter().map(Message::floats).collect()
}

/// What every operation gives, and what was counted.
fn all_operations(cx: &mut Ctx, meter: &Meter) -> (Vec<Vec<f32>>, String) {
    let (me, ranks) = (cx.rank(), cx.size());
    let len = |from: usize, to: usize| (3 * from + to) % 5;
    let mut got = Vec::new();
    let send: Vec<Message> = (0..ranks)
        .map(|to| rows(cx, me * 10 + to, len(me, to)))
        .collect();
    let lens: Vec<usize> = (0..ranks).map(|from| len(from, me)).collect();
    let early = cx
        .comm
        .post_all_to_all_v(LABEL, send, &lens)
        .expect("posts");
    let lens: Vec<usize> = (0..ranks).map(|r| r * 2).collect();
    let mine = rows(cx, me, lens[me]);
    got.extend(floats(
        cx.comm.all_gather_v(LABEL, mine, &lens).expect("gathers"),
    ));
    for root in 0..ranks {
        for n in [0, 5, 5000] {
            let mine = if root == me {
                rows(cx, root, n)
            } else {
                Message::default()
            };
            got.push(
                cx.comm
                    .broadcast(LABEL, root, mine, n)
                    .expect("casts")
                    .floats(),
            );
        }
    }
    for n in [0, 1, 7] {
        let mine = rows(cx, me, n);
        got.push(cx.comm.all_reduce(LABEL, mine).expect("sums").floats());
    }
    got.extend(floats(cx.comm.finish(early).expect("came")));
    // Those of a pair in their order, whatever else is open; the last pair has no line.
    cx.comm
        .lines(&[(0, 1), (1, 0), (1, 2), (0, 1)])
        .expect("opens");
    let (next, last) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let posted: Vec<_> = (1..4)
        .map(|n| cx.comm.post_recv::<Message>(LABEL, last, n).expect("posts"))
        .collect();
    for n in 1..4 {
        let message = rows(cx, me + n, n);
        cx.comm.post_send(LABEL, next, message).expect("sends");
    }
    for ticket in posted.into_iter().rev() {
        got.extend(floats(cx.comm.finish(ticket).expect("came")));
    }
    // Groups, each in an order of its own.
    let members: Vec<usize> = if me == 0 {
        vec![0]
    } else {
        (1..ranks).rev().collect()
    };
    let mut group = cx.comm.group(&members).expect("agreed");
    let mine = rows(cx, me, 6);
    let open = cx
        .comm
        .post_all_reduce(LABEL, rows(cx, me, 9))
        .expect("posts");
    got.push(group.all_reduce(LABEL, mine).expect("sums").floats());
    // What flies on one outlives the other.
    drop(group);
    got.extend(floats(cx.comm.finish(open).expect("came")));
    cx.comm.drain().expect("leaves");
    cx.backend.settle();
    cx.comm.settle_devices().expect("all is well");
    let counted = meter.take_traffic().into_iter();
    // Without what is said before the first layer.
    let counted = counted.filter(|(lane, _)| lane.0 == LABEL.layer);
    let bytes: Vec<_> = counted.map(|(lane, t)| (lane, t.bytes)).collect();
    (got, format!("{bytes:?}"))
}

#[test]
fn every_operation_gives_and_counts_what_it_does_over_the_wire() {
    let wire = on_devices("host", 3, all_operations);
    let lane = on_devices("nccl", 3, all_operations);
    for (wire, lane) in wire.iter().zip(&lane) {
        assert_eq!(wire.0, lane.0);
        assert!(wire.1 == lane.1, "{}\n{}", wire.1, lane.1);
    }
}

#[test]
fn messages_stay_on_the_device_and_their_time_is_counted() {
    on_devices("nccl", 2, |cx, meter| {
        assert!(cx.comm.is_between_devices());
        cx.pass(Pass::Forward);
        let mine = rows(cx, cx.rank(), 8);
        let sum = cx.comm.all_reduce(LABEL, mine).expect("sums");
        assert!(matches!(sum, Message::Device(_)));
        let x = cx.received(2, 4, sum).expect("of this shape");
        assert!(cx.received(3, 4, cx.message(x)).is_err(), "of another");
        cx.backend.settle();
        cx.comm.settle_devices().expect("all is well");
        let times = meter.take_times().0;
        assert!(times.xfer + times.hidden > 0, "{times:?}");
        assert_eq!(times.wait, 0, "nobody can tell");
        // Rows on the host go through the host.
        assert!(cx.take_device().is_some() && !cx.comm.is_between_devices());
        assert!(matches!(rows(cx, 0, 3), Message::Host(_)));
    });
}

#[test]
fn one_thing_at_a_time_is_done_where_it_is_asked_for() {
    on_devices("nccl", 2, |cx, _| {
        cx.comm.leave_devices();
        cx.comm.finish_at_once();
        cx.connect(true).expect("connects again");
        let mine = rows(cx, cx.rank(), 40_000);
        let ticket = cx.comm.post_all_reduce(LABEL, mine).expect("sums");
        let sum = floats(cx.comm.finish(ticket).expect("came"));
        assert_eq!(sum[0][5], value(0, 5) + value(1, 5));
    });
}

#[test]
fn a_rank_that_fails_is_told_and_nobody_waits_for_it() {
    let told = on_devices("nccl", 3, |cx, _| {
        if cx.rank() == 1 {
            cx.comm.abort(1);
            return None;
        }
        let mine = rows(cx, cx.rank(), 4000);
        let done = cx.comm.all_reduce(LABEL, mine).and_then(|_| {
            cx.backend.settle();
            cx.comm.settle_devices()
        });
        Some(done.expect_err("one is gone"))
    });
    for error in told.into_iter().flatten() {
        assert!(matches!(error, Error::Comm { .. }), "{error}");
    }
}
