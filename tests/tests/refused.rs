//! Wrong requests: each is refused before anything starts, with one line what is wrong and one
//! line what to do.
//!
//! Can catch: a wrong request that starts a rank, leaves a run folder, ends with another status
//! than 2, or does not name the nearest right name. Cannot catch: whether the words are kind.

use anyhow::{Context as _, ensure};
use tests::folder::{arrays, floats, ints, longs, npy, npz};
use tests::runs::Store;
use tests::{Outcome, skip};

fn refused(store: &Store, args: &str, says: &[&str]) -> Outcome {
    let ended = store.halobook(&format!("train {args}"))?;
    ensure!(ended.status.code() == Some(2), "{ended}");
    ensure!(
        store.runs().is_empty(),
        "a run was made: {:?}",
        store.runs()
    );
    let (wrong, help) = ended.complaint()?;
    let both = format!("{wrong}\n{help}");
    for word in says {
        ensure!(both.contains(word), "`{word}` is not said: {both}");
    }
    ensure!(!help.trim().is_empty(), "no help: {ended}");
    Ok(())
}

/// Every fault of a list is reported, not just the first.
fn all(faults: Vec<(String, anyhow::Error)>) -> Outcome {
    let text: Vec<String> = faults
        .iter()
        .map(|(what, error)| format!("{what}: {error:#}"))
        .collect();
    ensure!(
        text.is_empty(),
        "{} not refused as promised:\n{}",
        text.len(),
        text.join("\n")
    );
    Ok(())
}

#[test]
fn wrong_words_are_refused_with_the_nearest_right_one() -> Outcome {
    let table: &[(&str, &[&str])] = &[
        ("--data karate --epoch 5", &["epoch", "epochs"]),
        ("--data karate --hiden 5", &["hidden"]),
        ("--data karate --set weight_decoy=1", &["weight_decay"]),
        ("--data kerate", &["kerate", "karate"]),
        ("--data sbn:nodes=100,classes=2", &["sbm"]),
        ("--data sbm:node=100,classes=2", &["nodes"]),
        ("--data ./no/such/folder", &["no/such/folder"]),
        ("--data karate -s hallo -n 2", &["halo"]),
        ("--data karate --model gnc", &["gcn"]),
        ("--data karate -s halo -n 2 --partition metiss", &["metis"]),
        ("--data karate --launch thread", &["threads"]),
        ("--data karate --feature-norm rows", &["row"]),
        ("--data karate --backend cpuu", &["cpu"]),
        ("--data karate --layers 0", &["layers"]),
        ("--data karate --layers 1000", &["layers"]),
        ("--data karate --layers two", &["layers"]),
        ("--data karate --hidden 0", &["hidden"]),
        ("--data karate --epochs 0", &["epochs"]),
        ("--data karate --epochs -3", &["epochs"]),
        ("--data karate -n 0", &["ranks"]),
        ("--data karate -n 2.5", &["ranks"]),
        ("--data karate --dropout 1.0", &["dropout"]),
        ("--data karate --dropout -0.1", &["dropout"]),
        ("--data karate --lr nan", &["lr"]),
        ("--data karate --lr", &["lr"]),
        ("--data karate -s single -n 2", &["single"]),
        ("--data karate --config /no/such/run.toml", &["run.toml"]),
    ];
    let store = Store::new()?;
    let faults = table.iter().filter_map(|(args, says)| {
        let error = refused(&store, args, says).err()?;
        Some((args.to_string(), error))
    });
    all(faults.collect())
}

/// Replaces one array of a whole file.
fn with(name: &'static str, bytes: Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
    let mut all = arrays();
    for (array, content) in &mut all {
        if *array == name {
            *content = bytes.clone();
        }
    }
    all
}

#[test]
fn damaged_files_are_refused() -> Outcome {
    let store = Store::new()?;
    let home = store.home().to_path_buf();
    // The undamaged file is accepted, so that what is refused below is the damage.
    let whole = npz(home.join("whole"), &arrays())?;
    store.train(&format!("--data {} --epochs 1 -s single", whole.display()))?;
    std::fs::remove_dir_all(home.join("runs"))?;

    let mut nan: Vec<f32> = vec![0.5; 12];
    nan[7] = f32::NAN;
    let duplicate = [
        arrays(),
        vec![("label", npy("<i8", "4,", &longs(&[1, 1, 1, 1])))],
    ]
    .concat();
    let mut missing = arrays();
    missing.retain(|(name, _)| *name != "edge_dst");
    type Case<'a> = (&'a str, Vec<(&'a str, Vec<u8>)>, &'a str);
    let cases: Vec<Case> = vec![
        (
            "nan",
            with("feat", npy("<f4", "4, 3", &floats(&nan))),
            "feat",
        ),
        (
            "edge-high",
            with("edge_dst", npy("<i4", "4,", &ints(&[1, 0, 9, 2]))),
            "edge_dst",
        ),
        (
            "edge-low",
            with("edge_src", npy("<i4", "4,", &ints(&[0, -1, 2, 3]))),
            "edge_src",
        ),
        (
            "edge-short",
            with("edge_dst", npy("<i4", "3,", &ints(&[1, 0, 3]))),
            "edge_dst",
        ),
        (
            "label-low",
            with("label", npy("<i8", "4,", &longs(&[0, -7, 0, 1]))),
            "label",
        ),
        (
            "label-huge",
            with("label", npy("<i8", "4,", &longs(&[0, 1, 0, 1 << 40]))),
            "label",
        ),
        (
            "feat-short",
            with("feat", npy("<f4", "3, 3", &floats(&[0.0; 9]))),
            "feat",
        ),
        (
            "array-cut",
            with("feat", npy("<f4", "4, 3", &floats(&[0.0; 5]))),
            "feat",
        ),
        (
            "array-text",
            with("label", b"not an array".to_vec()),
            "label",
        ),
        ("missing", missing, "edge_dst"),
        ("duplicate", duplicate, "label"),
    ];
    let mut faults = Vec::new();
    for (name, arrays, says) in cases {
        let folder = npz(home.join(name), &arrays)?;
        let args = format!("--data {} --epochs 1 -s single", folder.display());
        if let Err(error) = refused(&store, &args, &[says]) {
            faults.push((name.to_string(), error));
        }
    }
    let bytes = std::fs::read(whole.join("graph.npz"))?;
    for keep in [0, 10, bytes.len() / 2, bytes.len() - 1] {
        let folder = home.join(format!("truncated-{keep}"));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("graph.npz"), &bytes[..keep])?;
        let args = format!("--data {} --epochs 1 -s single", folder.display());
        if let Err(error) = refused(&store, &args, &["graph.npz"]) {
            faults.push((format!("truncated to {keep} bytes"), error));
        }
    }
    all(faults)
}

#[test]
fn real_data_cut_short_is_refused() -> Outcome {
    let Some(cora) = skip::data("cora") else {
        return Ok(());
    };
    let store = Store::new()?;
    let bytes = std::fs::read(cora.join("graph.npz"))?;
    let folder = store.home().join("short");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("graph.npz"), &bytes[..bytes.len() * 3 / 4])?;
    let args = format!("--data {} --epochs 1 -s single", folder.display());
    refused(&store, &args, &["graph.npz"]).context("three quarters of Cora")
}
