//! The `.npz` files of heterophilous-graphs (Roman-empire, Squirrel, Chameleon, …).
//!
//! `node_features` `[N, F]`, `node_labels` `[N]`, `edges` `[E, 2]`, `train_masks`, `val_masks`,
//! `test_masks` `[S, N]`. Each edge is stored once; as the published loader does, the other
//! direction is added. The standard split is number 0.
//!
//! # Paper
//! Platonov, Kuznedelev, Diskin, Babenko, Prokhorenkova, "A critical look at the evaluation of GNNs
//! under heterophily", ICLR 2023, <https://arxiv.org/abs/2302.11640>.

use std::path::Path;

use kernels::Mat;

use super::{Ask, stem};
use crate::Result;
use crate::dataset::archive::Archive;
use crate::dataset::meta::Meta;
use crate::dataset::{Dataset, Features, STANDARD, bad, check, split};
use crate::graph::{EdgeOptions, Graph};

/// Loads the file `at`.
pub(super) fn load(ask: &Ask, at: &Path) -> Result<Dataset> {
    let meta = Meta::beside(at)?;
    let mut archive = Archive::open(at, ask.limit)?;
    let file = archive.file.clone();
    let labels = archive.vector("node_labels")?.into_ints()?;
    let n = labels.len();
    let (labels, n_classes) = check::labels(&file, &labels, meta.num_classes)?;
    let edges = archive.array("edges")?;
    edges.expect_dims(2)?;
    if edges.shape[1] != 2 {
        let reason = format!("expected (edges, 2), got {:?}", edges.shape);
        return Err(bad(
            &file,
            "edges",
            reason,
            "save both ends of an edge in a row",
        ));
    }
    ask.limit.graph(n as u64, edges.shape[0] as u64, &file)?;
    let ends = edges.into_ints()?;
    let end = |k: usize| ends[k.min(ends.len())..].iter().step_by(2).copied();
    let src = check::edges(&file, "edges[:, 0]", end(0), n)?;
    let dst = check::edges(&file, "edges[:, 1]", end(1), n)?;
    drop(ends);
    let options = EdgeOptions {
        symmetrise: !meta.directed,
        ..EdgeOptions::SIMPLE
    };
    let mut dataset = Dataset::unlabelled(stem(at), Graph::from_edges(n, &src, &dst, options)?);
    let x = archive.array("node_features")?;
    x.expect_dims(2)?;
    check::length(&file, "node_features", n, x.shape[0])?;
    let x = Mat::from_shape_vec((n, x.shape[1]), x.into_floats());
    dataset.features = Features::Dense(x.expect("as many elements as the shape says"));
    (dataset.labels, dataset.n_classes) = (labels, n_classes);
    let number = if ask.split == STANDARD {
        // What is absent here is not the request's mistake.
        for masks in ["train_masks", "val_masks", "test_masks"] {
            if !archive.has(masks) {
                archive.array(masks)?;
            }
        }
        "0"
    } else {
        ask.split
    };
    [dataset.train, dataset.val, dataset.test] = split::masks(&mut archive, number)?;
    dataset.about.format = "heterophilous-graphs";
    Ok(dataset)
}
