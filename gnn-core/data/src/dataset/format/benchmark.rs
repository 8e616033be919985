//! The `.npz` files of gnn-benchmark (Amazon, Coauthor, Cora-ML, …): adjacency and attributes as
//! compressed rows.
//!
//! `adj_data`, `adj_indices`, `adj_indptr`, `adj_shape`; `attr_data`, `attr_indices`, `attr_indptr`,
//! `attr_shape`, or a dense `attr_matrix`; `labels`. Arrays of Python objects (names of vertices and
//! classes in some of the files) are not touched. As the published loaders do, edges are made
//! symmetric and self loops dropped; weights are ignored, attributes stay as they are (PyTorch
//! Geometric sets positive ones to 1). The files have no split: 60/20/20 % at random.
//!
//! # Paper
//! Shchur, Mumme, Bojchevski, Günnemann, "Pitfalls of Graph Neural Network Evaluation", 2018,
//! <https://arxiv.org/abs/1811.05868>.

use std::path::Path;

use kernels::{CsrBuf, Mat};

use super::{Ask, Csr, stem};
use crate::Result;
use crate::dataset::archive::Archive;
use crate::dataset::{Dataset, Features, bad, check, split};
use crate::graph::{EdgeOptions, Graph};

/// Loads the file `at`.
pub(super) fn load(ask: &Ask, at: &Path) -> Result<Dataset> {
    split::only_standard(ask.split, "a gnn-benchmark file")?;
    let mut archive = Archive::open(at, ask.limit)?;
    let file = archive.file.clone();
    let adjacency = rows(&mut archive, "adj")?;
    let n = adjacency.rows();
    if adjacency.n_cols != n {
        let reason = format!("is {n} x {}", adjacency.n_cols);
        return Err(bad(
            &file,
            "adj_shape",
            reason,
            "save a square adjacency matrix",
        ));
    }
    ask.limit
        .graph(n as u64, 2 * adjacency.indices.len() as u64, &file)?;
    let span = |v: usize| (adjacency.indptr[v + 1] - adjacency.indptr[v]) as usize;
    let src: Vec<u32> = (0..n)
        .flat_map(|v| std::iter::repeat_n(v as u32, span(v)))
        .collect();
    let graph = Graph::from_edges(n, &src, &adjacency.indices, EdgeOptions::SIMPLE)?;
    let mut dataset = Dataset::unlabelled(stem(at), graph);
    if archive.has("attr_data") {
        let mut x = rows(&mut archive, "attr")?;
        check::length(&file, "attr_shape", n, x.rows())?;
        let data = archive.vector("attr_data")?.into_floats();
        if data.len() != x.indices.len() {
            let reason = format!("expected {} elements, got {}", x.indices.len(), data.len());
            return Err(bad(&file, "attr_data", reason, "save one value an index"));
        }
        x.weights = Some(data);
        dataset.features = Features::Sparse(x);
    } else if archive.has("attr_matrix") {
        let x = archive.array("attr_matrix")?;
        x.expect_dims(2)?;
        check::length(&file, "attr_matrix", n, x.shape[0])?;
        let x = Mat::from_shape_vec((n, x.shape[1]), x.into_floats());
        dataset.features = Features::Dense(x.expect("as many elements as the shape says"));
    }
    if archive.has("labels") {
        let labels = archive.vector("labels")?.into_ints()?;
        check::length(&file, "labels", n, labels.len())?;
        let (labels, n_classes) = check::labels(&file, &labels, None)?;
        [dataset.train, dataset.val, dataset.test] = split::random(&labels);
        (dataset.labels, dataset.n_classes) = (labels, n_classes);
    }
    dataset.about.format = "gnn-benchmark";
    Ok(dataset)
}

/// The compressed rows `NAME_indptr`, `NAME_indices`, `NAME_shape`, without values.
fn rows(archive: &mut Archive, name: &str) -> Result<CsrBuf> {
    let places = ["indptr", "indices", "shape"].map(|part| format!("{name}_{part}"));
    let [indptr, indices, shape] = places.each_ref().map(String::as_str);
    let stored = Csr {
        indptr: archive.vector(indptr)?.into_ints()?,
        indices: archive.vector(indices)?.into_ints()?,
        shape: archive.vector(shape)?.into_ints()?,
    };
    stored.checked(&archive.file, [indptr, indices, shape])
}
