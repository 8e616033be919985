//! Messages between devices through the library that speaks NCCL's interface on the host. They catch wrong
//! counts, peers and orders, memory that is used while it is on its way, and waits that no abort ends. They
//! cannot catch what only NCCL on GPUs does.

use super::super::nccl::{self, Comm, Id};
use super::super::{Queue, Shim};
use super::*;
use std::time::Duration;

/// Runs `f` on every rank, each on a device of its own; none without a compiler.
fn world<T: Send>(
    ranks: usize,
    f: impl Fn(&Arc<Device>, &Queue, Comm) -> T + Sync,
) -> Option<Vec<T>> {
    match nccl::load_shim() {
        Err(e @ Error::Missing { .. }) => {
            skip("nvrtc", &e.to_string());
            return None;
        }
        other => other.expect("it compiles"),
    }
    let id = Id::new().expect("the shim is there");
    let id = Id::from_bytes(*id.bytes());
    Some(std::thread::scope(|scope| {
        let rank = |rank| {
            let f = &f;
            move || {
                let device = Device::new(Box::new(Shim::open(false).expect("as above")));
                let queue = Queue::of(&device).expect("a stream");
                let comm = Comm::join(queue.side(), id, rank, ranks).expect("all join");
                f(&device, &queue, comm)
            }
        };
        let all: Vec<_> = (0..ranks).map(|r| scope.spawn(rank(r))).collect();
        let joined = all.into_iter().map(|rank| rank.join());
        joined.map(|r| r.expect("a rank panicked")).collect()
    }))
}

/// Element `k` of what rank `from` has for rank `to`.
fn word(from: usize, to: usize, k: usize) -> f32 {
    (from * 1000 + to * 100 + k) as f32 / 3.0
}

fn floats(from: usize, to: usize, n: usize) -> Vec<f32> {
    (0..n).map(|k| word(from, to, k)).collect()
}

/// How much `from` has for `to`: different for every pair, more than a socket holds for some.
fn amount(from: usize, to: usize) -> usize {
    match (from + 2 * to) % 4 {
        0 => 300_000,
        k => 17 * k + from,
    }
}

#[test]
fn what_is_exchanged_comes_as_it_was() {
    for ranks in 1..=4 {
        world(ranks, |device, queue, comm| {
            let me = comm.rank();
            let others: Vec<usize> = (0..ranks).filter(|&r| r != me).collect();
            // Two at once: the second is asked for before the first has landed.
            let flights = [0, 1].map(|turn| {
                let to = |&r: &usize| {
                    (
                        r,
                        Arc::new(device.upload(&floats(me + turn, r, amount(me, r)))),
                    )
                };
                let from = others.iter().map(|&r| (r, amount(r, me)));
                let sent = others.iter().map(to).collect();
                queue
                    .exchange(&comm, sent, &from.collect::<Vec<_>>())
                    .expect("taken")
            });
            for (turn, flight) in flights.into_iter().enumerate() {
                let (came, [begun, ended]) = flight.land().expect("the device is well");
                for (&from, got) in others.iter().zip(&came) {
                    let want = floats(from + turn, me, amount(from, me));
                    assert!(got.download() == want, "{from} to {me} of {ranks}");
                }
                device.between(&begun, &ended);
            }
            device.finish();
            comm.leave().expect("in peace");
        });
    }
}

#[test]
fn sums_are_in_the_order_that_is_asked_for_and_roots_give_to_all() {
    for (ranks, n) in [(1, 5), (2, 1), (3, 2), (3, 100_003), (4, 30)] {
        let x = |rank: usize| -> Vec<f32> {
            let at = |k: usize| crate::hash::join(rank as u64, k as u64) as u32 as f32 * 1.7e-3;
            (0..n).map(at).collect()
        };
        let got = world(ranks, |device, queue, comm| {
            let bounds = crate::par::split_rows(n, ranks);
            let sum = queue
                .sum(&comm, Arc::new(device.upload(&x(comm.rank()))), &bounds)
                .expect("taken");
            let roots: Vec<_> = (0..ranks)
                .map(|root| {
                    let mine = match root == comm.rank() {
                        true => Arc::new(device.upload(&x(root))),
                        false => Arc::new(device.fresh(n)),
                    };
                    queue.broadcast(&comm, root, mine).expect("taken")
                })
                .collect();
            for (root, flight) in roots.into_iter().enumerate() {
                let (came, _) = flight.land().expect("well");
                assert!(came[0].download() == x(root));
            }
            let (sum, _) = sum.land().expect("well");
            let x = Arc::new(device.upload(&x(comm.rank())));
            let (other, _) = queue
                .sum_in_any_order(&comm, x)
                .expect("taken")
                .land()
                .expect("well");
            device.finish();
            comm.leave().expect("in peace");
            [&sum[0], &other[0]].map(|sum| sum.download())
        });
        let sum = |order: &mut dyn Iterator<Item = usize>| {
            let mut sum = x(order.next().expect("a rank"));
            for rank in order {
                sum.iter_mut().zip(x(rank)).for_each(|(w, x)| *w += x);
            }
            sum
        };
        let (want, backwards) = (sum(&mut (0..ranks)), sum(&mut (0..ranks).rev()));
        for [got, other] in got.into_iter().flatten() {
            assert!(got == want, "{ranks} ranks, {n} floats");
            assert!(other == backwards, "{ranks} ranks, {n} floats");
        }
        assert!(
            n < 1000 || want != backwards,
            "orders that can be told apart"
        );
    }
}

#[test]
fn groups_have_their_own_ranks_and_order() {
    world(4, |device, queue, comm| {
        let me = comm.rank();
        let members = if me == 3 { None } else { Some(&[2, 0, 1][..]) };
        let group = comm.split(queue.side(), members).expect("all call it");
        assert_eq!(group.is_some(), me != 3);
        if let Some(group) = group {
            assert_eq!((group.rank(), group.ranks()), ([1, 2, 0][me], 3));
            let own = Queue::of(device).expect("a stream");
            let x = Arc::new(device.upload(&[me as f32]));
            let flight = own.broadcast(&group, 0, x).expect("taken");
            assert_eq!(flight.land().expect("well").0[0].download(), [2.0]);
            group.leave().expect("in peace");
        }
        comm.leave().expect("in peace");
    });
}

/// Looks at `comm` until it says what went wrong.
fn told(comm: &Comm) -> String {
    for _ in 0..5000 {
        if let Err(e) = comm.check() {
            return e.to_string();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("nothing was said in ten seconds");
}

#[test]
fn a_message_of_another_length_is_told_and_an_abort_ends_the_wait() {
    world(2, |device, queue, comm| {
        if comm.rank() == 0 {
            let sent = vec![(1, Arc::new(device.upload(&floats(0, 1, 10))))];
            let flight = queue.exchange(&comm, sent, &[]).expect("taken");
            flight.land().expect("it has left");
            device.finish();
            return comm.leave().expect("in peace");
        }
        let flight = queue.exchange(&comm, Vec::new(), &[(0, 11)]);
        let flight = flight.expect("taken");
        assert_eq!(told(&comm), "NCCL, messages: invalid usage");
        assert!(!flight.is_done().expect("asked"), "it waits");
        comm.abort();
        assert!(comm.check().is_err());
        // Without the abort this would not return.
        flight.land().expect("the device goes on");
        device.finish();
    });
}

#[test]
fn a_peer_that_goes_is_told() {
    world(3, |device, queue, comm| {
        if comm.rank() == 2 {
            return drop(comm);
        }
        let flight = queue.exchange(&comm, Vec::new(), &[(2, 4)]).expect("taken");
        assert!(told(&comm).contains("remote process exited"));
        comm.abort();
        flight.land().expect("the device goes on");
        let after = queue
            .exchange(&comm, Vec::new(), &[(2, 4)])
            .err()
            .expect("refused");
        assert!(after.to_string().contains("was aborted"), "{after}");
        device.finish();
    });
}

#[test]
fn what_leaves_was_there_when_it_was_asked_for() {
    // The buffer is written again at once: its message is the first content.
    world(2, |device, queue, comm| {
        let peer = 1 - comm.rank();
        let x = Arc::new(device.upload(&floats(comm.rank(), peer, 1000)));
        let flight = queue
            .exchange(&comm, vec![(peer, x)], &[(peer, 1000)])
            .expect("taken");
        for _ in 0..10 {
            device.upload(&[0.0f32; 1000]);
        }
        let (came, _) = flight.land().expect("well");
        assert!(came[0].download() == floats(peer, comm.rank(), 1000));
        comm.leave().expect("in peace");
    });
}

#[test]
fn a_version_that_is_too_old_is_refused_with_both() {
    let Ok(()) = nccl::load_shim() else { return };
    // SAFETY: the shim's own function, of this type, in the library that was loaded above.
    unsafe {
        let library = libloading::Library::new("libnccl.so").expect("loaded above");
        let tell: libloading::Symbol<unsafe extern "C" fn(i32)> =
            library.get(b"nccl_shim_version").expect("its own");
        tell(21703);
        let old = nccl::version().expect_err("too old");
        tell(22304);
        assert_eq!(
            old.to_string(),
            "NCCL is too old: expected 2.18.0 or newer, got 2.17.3"
        );
    }
    assert_eq!(nccl::version().map(nccl::written), Ok("2.23.4".into()));
    assert_eq!(nccl::written(2708), "2.7.8");
}
