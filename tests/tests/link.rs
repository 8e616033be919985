//! Runs behind a modelled link, on threads and under `mpirun`.
//!
//! Can catch: messages that arrive before the model lets them, a link that changes a number of the
//! training, a frame that does not name its link, hidden and exposed time that do not follow the
//! link. Cannot catch: a model that delays too much (the machine may be slow); its arithmetic is
//! tested on its own.

use anyhow::{Context as _, ensure};
use tests::runs::{Store, numbers};
use tests::{Outcome, skip};

const RUN: &str = "--data sbm:nodes=1200,classes=4,feat=32 --hidden 32 --dropout 0 --epochs 4 \
                   --eval-every 4 -n 2 -s broadcast";
const LINK: &str = "100mbit,300us";
const BYTES_PER_MS: f64 = 100e6 / 8.0 / 1e3;

fn behind_a_link(launch: &str) -> Outcome {
    let store = Store::new()?;
    let frame = |args: &str, frame: &str| -> anyhow::Result<_> {
        store.train(&format!("{RUN} --launch {launch} {args}"))?;
        store.frame("latest", frame)
    };
    let free = frame("", "epochs")?;
    ensure!(
        free.iter().all(|row| row["link"].is_null()),
        "{:?}",
        free[0]
    );
    let linked = frame(&format!("--link {LINK}"), "epochs")?;
    let losses = |rows: &[_]| numbers(rows, "train_loss");
    ensure!(losses(&free) == losses(&linked), "a link changes no bit");
    for name in ["runs", "epochs", "ranks", "comm", "stale", "partition"] {
        let rows = store.frame("latest", name)?;
        ensure!(rows.iter().all(|row| row["link"] == LINK), "{name}");
    }
    for row in store.frame("latest", "ranks")? {
        // All that a rank sends leaves through its port, one message after the other.
        let of = |column: &str| {
            row[column]
                .as_f64()
                .with_context(|| format!("{column}: {row}"))
        };
        let least = of("bytes_tx")? / BYTES_PER_MS;
        ensure!(
            of("wall_ms")? >= least,
            "{least} ms through the port: {row}"
        );
        ensure!(of("comm_ms")? + of("wait_ms")? > 0.5 * least, "{row}");
    }
    let sum = |rows: &[serde_json::Value], column: &str| numbers(rows, column).iter().sum::<f64>();
    let moving = |rows: &[_]| sum(rows, "comm_ms") + sum(rows, "wait_ms");
    ensure!(moving(&linked) > moving(&free), "the link is felt");
    Ok(())
}

#[test]
fn a_link_delays_messages_between_threads_and_changes_no_number() -> Outcome {
    behind_a_link("threads")
}

#[test]
fn a_link_delays_messages_under_mpirun_and_changes_no_number() -> Outcome {
    match skip::mpi() {
        true => behind_a_link("mpi"),
        false => Ok(()),
    }
}

#[test]
fn a_malformed_link_is_refused_before_anything_starts() -> Outcome {
    let store = Store::new()?;
    for link in ["fast", "1gbit", "1gbit,50", "0mbit,1us"] {
        let ended = store.halobook(&format!("train {RUN} --link {link} --json"))?;
        ensure!(ended.status.code() == Some(2), "{link}: {ended}");
        let (wrong, todo) = ended.complaint()?;
        ensure!(
            wrong.contains("link") && todo.contains("1gbit,50us"),
            "{wrong} {todo}"
        );
    }
    Ok(())
}
