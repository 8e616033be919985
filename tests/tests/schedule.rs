//! ByteGNN's schedule from outside: whatever holds ranks, owners and messages up, a run is `distdgl`'s on the same
//! cut, bit by bit.
//!
//! Can catch: an order of real messages that changes what is trained. Cannot catch: what `distdgl` has wrong too.

use anyhow::ensure;
use tests::runs::Store;
use tests::{Outcome, skip};

#[test]
fn slow_ranks_and_links_change_no_bit() -> Outcome {
    let store = Store::new()?;
    let launch = if skip::mpi() { "mpi" } else { "threads" };
    let data = "sbm:nodes=900,classes=4,feat=12,degree=10";
    let common = format!("--data {data} -n 3 --launch {launch} --model sage --partition bytegnn");
    let common = format!("{common} --dropout 0.3 --epochs 3 --set batch=60 --set fanout=5");
    let losses = |more: &str| -> anyhow::Result<Vec<u64>> {
        store.train(&format!("{common} {more}"))?;
        let epochs = store.frame("latest", "epochs")?;
        let losses = epochs.iter().filter_map(|row| row["train_loss"].as_f64());
        Ok(losses.map(f64::to_bits).collect())
    };
    let expected = losses("-s distdgl")?;
    ensure!(expected.len() == 3, "{expected:?}");
    for more in [
        "--slow 1:4x",
        "--link 200mbit,1ms --set grain=8 --set sample_threads=2",
        "--slow 0:3x --set gradients=ps --set coarse=false --set fine=false",
        "--link 200mbit,1ms --slow 2:4x --set dags=2 --set in_flight=20kB --set poll_ms=1",
    ] {
        let got = losses(&format!("-s bytegnn {more}"))?;
        ensure!(got == expected, "{more}: other losses");
    }
    Ok(())
}
