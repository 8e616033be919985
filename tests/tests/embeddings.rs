//! What a run keeps of every vertex, and the frame of a schedule, from outside.
//!
//! Can catch: vertices that are lost or doubled between ranks, launches that nobody wrote down. Cannot catch:
//! embeddings that are wrong everywhere.

use anyhow::ensure;
use serde_json::Value;
use tests::Outcome;
use tests::runs::Store;

/// Embeddings are kept where that is asked for, a row a vertex whichever rank it is of; what they are worth is
/// told by a probe. Every batch was begun once, and the frame of the schedule says why.
#[test]
fn embeddings_are_a_frame_and_launches_another() -> Outcome {
    let store = Store::new()?;
    let data = "sbm:nodes=400,classes=3,degree=12,feat=12,signal=3,homophily=0.95";
    let run = format!("--data {data} -s bytegnn -n 2 --launch threads --set batch=50");
    let run = format!("{run} --task unsupervised --embedding 5 --dropout 0 --epochs 6");
    store.train(&run)?;
    let none = store.halobook("frames latest embeddings")?;
    ensure!(
        !none.status.success() && none.stderr.contains("keep_embeddings"),
        "{none}"
    );
    store.train(&format!("{run} --keep-embeddings true"))?;
    let kept = store.frame("latest", "embeddings")?;
    ensure!(kept.len() == 400, "{} rows", kept.len());
    for (v, row) in kept.iter().enumerate() {
        ensure!(
            row["vertex"] == v && row["rank"].as_u64() < Some(2),
            "{row}"
        );
        ensure!(
            (0..5).all(|k| row[format!("e{k}")].is_number()) && row.get("e5").is_none(),
            "{row}"
        );
    }
    let probe = store.halobook("probe latest --json")?.stdout;
    let probe: Value = serde_json::from_str(&probe)?;
    ensure!(probe["test_acc"].as_f64() > Some(60.0), "{probe}");
    let launches = store.frame("latest", "schedule")?;
    for rank in 0..2 {
        let of = launches.iter().filter(|row| row["rank"] == rank);
        let mut begun: Vec<u64> = of.filter_map(|row| row["launch"].as_u64()).collect();
        begun.sort_unstable();
        let batches = store.frame("latest", "batches")?;
        let of = batches.iter().filter(|row| row["rank"] == rank);
        let count: u64 = of.filter_map(|row| row["batches"].as_u64()).sum();
        ensure!(
            begun == (0..count).collect::<Vec<_>>(),
            "{begun:?} of {count}"
        );
    }
    Ok(())
}
