//! The project's `.npz` layout: arrays by name, described at [`crate::dataset`].

use std::path::Path;

use kernels::{CsrBuf, Mat};

use crate::Result;
use crate::dataset::archive::Archive;
use crate::dataset::meta::Meta;
use crate::dataset::{Dataset, Features, Task, bad, check, split};
use crate::graph::{EdgeOptions, Graph, Relations};

/// Loads the data set in the file `path` with the masks of the split of that name.
pub(super) fn load(path: &Path, split: &str) -> Result<Dataset> {
    let mut archive = Archive::open(path)?;
    let file = archive.file.clone();
    let meta = Meta::beside(path)?;
    let label = archive.array("label")?;
    let (labels, n_classes, multi_labels) = if label.shape.len() == 2 {
        let (labels, multi) = check::multi_labels(&file, &label.ints()?, label.shape[1])?;
        (labels, label.shape[1], Some(multi))
    } else {
        label.expect_dims(1)?;
        let (labels, classes) = check::labels(&file, &label.ints()?, meta.num_classes)?;
        (labels, classes, None)
    };
    let n = labels.len();
    let graph = graph(&mut archive, &meta, n)?;
    let node_types = if archive.has("node_type") {
        let types = archive.vector("node_type")?.ints()?;
        check::length(&file, "node_type", n, types.len())?;
        Some(check::types(&file, "node_type", &types, None)?.0)
    } else {
        None
    };
    let features = features(&mut archive, n)?;
    let [train, val, test] = split::masks(&mut archive, split)?;
    let folder = path
        .parent()
        .and_then(Path::file_name)
        .filter(|_| path.ends_with("graph.npz"));
    let name = folder
        .or(path.file_stem())
        .map(|s| s.to_string_lossy().into_owned());
    let task = if multi_labels.is_some() {
        Task::MultiLabel
    } else {
        Task::NodeClassification
    };
    let dataset = Dataset {
        name: name.unwrap_or_else(|| file.clone()),
        graph,
        features,
        labels,
        n_classes,
        train,
        val,
        test,
        synthetic: false,
        task,
        multi_labels,
        node_types,
        links: None,
    };
    Ok(dataset)
}

/// The edges. With `edge_type` they are typed, and inverse relations are added unless every edge
/// already has its reverse or the data says that it is directed.
fn graph(archive: &mut Archive, meta: &Meta, n: usize) -> Result<Graph> {
    let file = archive.file.clone();
    let src = check::edges(&file, "edge_src", &archive.vector("edge_src")?.ints()?, n)?;
    let dst = check::edges(&file, "edge_dst", &archive.vector("edge_dst")?.ints()?, n)?;
    let same_length = |place: &str, got: usize, help: &str| {
        if got == src.len() {
            return Ok(());
        }
        let reason = format!("expected {} elements like edge_src, got {got}", src.len());
        Err(bad(&file, place, reason, help))
    };
    same_length("edge_dst", dst.len(), "save both ends of every edge")?;
    if !archive.has("edge_type") {
        return Graph::from_edges(n, &src, &dst, EdgeOptions::AS_IS);
    }
    let types = archive.vector("edge_type")?.ints()?;
    same_length("edge_type", types.len(), "save one type an edge")?;
    let (types, count) = check::types(&file, "edge_type", &types, meta.num_edge_types)?;
    let relations = Relations::new(types, count)?;
    let given = Graph::from_typed_edges(n, &src, &dst, &relations)?;
    if meta.directed || given.is_symmetric() {
        return Ok(given);
    }
    let both = |a: &[u32], b: &[u32]| [a, b].concat();
    let relations = relations.with_inverses()?;
    Graph::from_typed_edges(n, &both(&src, &dst), &both(&dst, &src), &relations)
}

fn features(archive: &mut Archive, n: usize) -> Result<Features> {
    let file = archive.file.clone();
    let (dense, sparse) = (archive.has("feat"), archive.has("feat_data"));
    if dense && sparse {
        return Err(bad(
            &file,
            "feat",
            "is there beside feat_data",
            "keep either the dense or the sparse features",
        ));
    }
    if dense {
        let feat = archive.array("feat")?;
        feat.expect_dims(2)?;
        check::length(&file, "feat", n, feat.shape[0])?;
        let x = Mat::from_shape_vec((n, feat.shape[1]), feat.floats());
        return Ok(Features::Dense(
            x.expect("an array holds as many elements as its shape says"),
        ));
    }
    if !sparse {
        return Ok(Features::identity(n));
    }
    let shape = archive.vector("feat_shape")?.ints()?;
    let cols = match shape[..] {
        [rows, cols] if rows == n as i64 && (1..=i64::from(u32::MAX)).contains(&cols) => {
            cols as usize
        }
        _ => {
            let reason = format!("expected ({n}, features), got {shape:?}");
            return Err(bad(
                &file,
                "feat_shape",
                reason,
                "save (vertices, features)",
            ));
        }
    };
    let (indptr, indices) = (
        archive.vector("feat_indptr")?.ints()?,
        archive.vector("feat_indices")?.ints()?,
    );
    check::length(&file, "feat_indptr", n + 1, indptr.len())?;
    let out = |(e, x): (usize, i64)| {
        let reason = format!("column {x} is outside 0..{cols}");
        bad(
            &file,
            format!("feat_indices[{e}]"),
            reason,
            "number the features from 0",
        )
    };
    if let Some(wrong) = indices
        .iter()
        .copied()
        .enumerate()
        .find(|&(_, c)| c < 0 || c >= cols as i64)
    {
        return Err(out(wrong));
    }
    if let Some(v) = indptr.iter().position(|&p| p < 0) {
        let reason = format!("{} is negative", indptr[v]);
        return Err(bad(
            &file,
            format!("feat_indptr[{v}]"),
            reason,
            "save the row starts of compressed rows",
        ));
    }
    let x = CsrBuf {
        indptr: indptr.into_iter().map(|p| p as u64).collect(),
        indices: indices.into_iter().map(|c| c as u32).collect(),
        weights: Some(archive.vector("feat_data")?.floats()),
        n_cols: cols,
    };
    Ok(Features::Sparse(x))
}
