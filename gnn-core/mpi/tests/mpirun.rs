//! Over a real MPI: groups of ranks out of step with each other and with the world, and broadcasts that
//! ranks hand on. What they compute is tested on threads, which run the same communicator.

use gnn_core::comm::{Communicator, Label};
use gnn_core::record::{Direction, Meter, Op};
use std::process::Command;
use std::rc::Rc;

/// Says that a process is a rank.
const RANK: &str = "HALOBOOK_TEST_RANK";

const LABEL: Label = Label {
    layer: 1,
    direction: Direction::Forward,
};

fn value(rank: usize, i: usize) -> f32 {
    (rank * 100 + i) as f32 * 0.37 - 11.0
}

fn values(rank: usize, n: usize) -> Vec<f32> {
    (0..n).map(|i| value(rank, i)).collect()
}

fn sum(ranks: &[usize], n: usize) -> Vec<f32> {
    let of = |i: usize| ranks.iter().map(|&r| value(r, i)).sum();
    (0..n).map(of).collect()
}

/// What one of three ranks does, when it is asked by the test below. The first two ranks are a group and
/// the last two are one: rank 0 reduces three times and gets a message while rank 2 reduces once, and rank 1
/// finishes with rank 2 before it begins with rank 0. Large enough for messages that MPI does not buffer.
#[test]
fn on_a_rank() {
    const N: usize = 300_000;
    if std::env::var_os(RANK).is_none() {
        return;
    }
    let transport = gnn_mpi::init().expect("the first time in this process");
    let meter = Rc::new(Meter::new(None));
    let mut world = Communicator::new(Box::new(transport), Rc::clone(&meter), true);
    let me = world.rank();
    assert_eq!(world.size(), 3);
    let lower: &[usize] = if me < 2 { &[1, 0] } else { &[2] };
    let upper: &[usize] = if me > 0 { &[1, 2] } else { &[0] };
    let mut first = world.group(lower).expect("agrees");
    let mut second = world.group(upper).expect("agrees");
    meter.take_traffic();
    let all = |comm: &mut Communicator, n: usize| {
        comm.post_all_reduce(LABEL, values(me, n)).expect("posts")
    };
    let mut tickets = Vec::new();
    match me {
        0 => {
            tickets.push((all(&mut world, N), sum(&[0, 1, 2], N)));
            for k in 0..3 {
                // Member 0 of this group is rank 1.
                tickets.push((all(&mut first, N + k), sum(&[1, 0], N + k)));
            }
            assert_eq!(
                first.recv::<Vec<f32>>(LABEL, 0, 4).expect("comes"),
                values(1, 4)
            );
        }
        1 => {
            let ticket = all(&mut second, N);
            assert_eq!(
                world.finish(ticket).expect("arrives").concat(),
                sum(&[1, 2], N)
            );
            for k in 0..3 {
                tickets.push((all(&mut first, N + k), sum(&[1, 0], N + k)));
            }
            first.post_send(LABEL, 1, values(1, 4)).expect("sends");
            tickets.push((all(&mut world, N), sum(&[0, 1, 2], N)));
        }
        _ => {
            tickets.push((all(&mut second, N), sum(&[1, 2], N)));
            tickets.push((all(&mut world, N), sum(&[0, 1, 2], N)));
        }
    }
    for (ticket, expected) in tickets.into_iter().rev() {
        assert_eq!(first.finish(ticket).expect("arrives").concat(), expected);
    }
    // Peers by their names in the world, and all that left.
    let sent = meter.take_traffic();
    let peers: Vec<u32> = sent
        .keys()
        .filter(|lane| lane.2 == Op::Allreduce)
        .map(|lane| lane.3)
        .collect();
    let others: Vec<u32> = (0..3).filter(|&r| r != me as u32).collect();
    assert_eq!(peers, others);
    let bytes: u64 = sent.values().map(|t| t.bytes).sum();
    let seen = world.agree(&[bytes as f64]).expect("agrees").concat();
    // 2·(n − 1)·N of each all-reduce, and the message.
    let numbers = 4 * N + 2 * (3 * N + 3) + 2 * N + 4;
    assert_eq!(seen.iter().sum::<f64>(), 4.0 * numbers as f64);
    broadcasts(&mut world, &meter);
    world.drain().expect("leaves");
}

/// Every rank broadcasts, all posted ahead: a long one in segments around the ring, a short one straight, and
/// nothing. Each arrives bit for bit, whichever is waited for first, and each rank gets each word once.
fn broadcasts(world: &mut Communicator, meter: &Meter) {
    const LENGTHS: [usize; 4] = [300_000, 5, 2049, 0];
    let (me, ranks) = (world.rank(), world.size());
    meter.take_traffic();
    let mut tickets = Vec::new();
    for root in 0..ranks {
        for n in LENGTHS {
            let mine = if root == me {
                values(me, n)
            } else {
                Vec::new()
            };
            let ticket = world.post_broadcast(LABEL, root, mine, n).expect("posts");
            tickets.push((ticket, values(root, n)));
        }
    }
    if me == 1 {
        tickets.reverse();
    }
    for (ticket, expected) in tickets {
        assert_eq!(world.finish(ticket).expect("arrives").concat(), expected);
    }
    let bytes: u64 = meter.take_traffic().values().map(|t| t.bytes).sum();
    let seen = world.agree(&[bytes as f64]).expect("agrees").concat();
    let once = 4 * ranks * LENGTHS.iter().sum::<usize>();
    assert_eq!(seen.iter().sum::<f64>(), ((ranks - 1) * once) as f64);
}

/// The starter of an MPI and its flags for ranks that share cores; none on a machine without one.
fn mpirun() -> Option<Command> {
    let named = std::env::var_os("HALOBOOK_MPIRUN").unwrap_or_else(|| "mpirun".into());
    let said = Command::new(&named).arg("--version").output().ok()?;
    let open = String::from_utf8_lossy(&said.stdout).contains("Open MPI");
    let mut command = Command::new(named);
    if open {
        command.args([
            "--oversubscribe",
            "--allow-run-as-root",
            "--bind-to",
            "none",
        ]);
        command.args(["--mca", "mpi_yield_when_idle", "1"]);
    }
    Some(command)
}

#[test]
fn groups_are_out_of_step_and_broadcasts_are_handed_on_under_mpirun() {
    if std::env::var_os(RANK).is_some() {
        return;
    }
    let Some(mut command) = mpirun() else {
        let required = std::env::var("HALOBOOK_REQUIRE").unwrap_or_default();
        assert!(!required.contains("mpi"), "no MPI was found");
        println!("SKIP no MPI was found");
        return;
    };
    let own = std::env::current_exe().expect("a test program");
    command.args(["-n", "3"]).arg(own);
    command.args(["on_a_rank", "--exact", "--nocapture", "--test-threads=1"]);
    let output = command.env(RANK, "1").output().expect("starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    assert_eq!(said.matches("1 passed").count(), 3, "{said}{errors}");
}
