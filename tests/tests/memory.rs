//! What ranks of `distdgl` hold under `mpirun`.
//!
//! Can catch: a rank that reads the whole data set into its memory, or keeps the file mapped. Cannot
//! catch: anything smaller than a fourth of the data, nor evaluation, which reads the rows of a rank's
//! whole halo at once.

use anyhow::ensure;
use tests::runs::{Store, numbers};
use tests::{Outcome, skip};

/// The largest peak of any rank in the first epoch, before anything was evaluated.
fn peak(store: &Store, data: &str) -> anyhow::Result<f64> {
    store.train(&format!(
        "--data {data} -s distdgl -n 4 --launch mpi --partition hash --epochs 2 --eval-every 2 \
         --dropout 0 --hidden 8 --set batch=50 --set fanout=2"
    ))?;
    let rows = store.frame("latest", "ranks")?;
    let first = rows.into_iter().filter(|row| row["epoch"] == 0);
    let first: Vec<_> = first.collect();
    ensure!(first.len() == 4, "{} ranks", first.len());
    Ok(numbers(&first, "mem_peak_bytes")
        .into_iter()
        .fold(0.0, f64::max))
}

#[test]
fn a_rank_of_four_holds_less_than_half_of_the_data() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let store = Store::new()?;
    let (n, width) = (40_000, 512);
    let made = format!("sbm:nodes={n},classes=4,feat={width},degree=6");
    let file = store.home().join("large.halo");
    let ended = store.halobook(&format!("convert {made} {} --quiet", file.display()))?;
    ensure!(ended.status.success(), "{ended}");
    // The program itself, with its MPI.
    let program = peak(&store, "karate")?;
    let held = peak(&store, &file.display().to_string())? - program;
    let data = f64::from(4 * n * width);
    ensure!(
        held < data / 2.0,
        "{held} bytes beside the program, of {data}"
    );
    Ok(())
}
