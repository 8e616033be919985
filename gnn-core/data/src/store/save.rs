//! A data set in memory to a stored graph.

use std::path::Path;

use rayon::prelude::*;

use super::about::Saved;
use super::{Header, Writer};
use crate::Result;
use crate::dataset::{About, Dataset, Features};

/// Writes `data` to the file `path`; `ids` are the vertices' ids in the `source`, where they are
/// others: `[n]`. Returns the file's bytes.
///
/// # Errors
/// [`crate::Error::Data`] for a data set that is not valid, [`crate::Error::Io`] when the file
/// cannot be written.
pub fn save(data: &Dataset, source: &str, ids: Option<&[u64]>, path: &Path) -> Result<u64> {
    data.check_values()?;
    let mut out = Writer::create(path)?;
    out.put("indptr", data.graph.indptr())?;
    out.put("indices", data.graph.indices())?;
    if let Some(relations) = data.graph.relations() {
        out.put("edge_type", relations.types())?;
    }
    match &data.features {
        Features::Dense(x) => match x.as_slice() {
            Some(values) => out.put("feat", values)?,
            None => out.put("feat", &x.iter().copied().collect::<Vec<f32>>())?,
        },
        Features::Mapped { values, .. } => out.put("feat", values)?,
        Features::Identity(_) => {}
        Features::Sparse(x) => {
            out.put("feat_indptr", &x.indptr)?;
            out.put("feat_indices", &x.indices)?;
            if let Some(weights) = &x.weights {
                out.put("feat_data", weights)?;
            }
        }
    }
    if data.labels.iter().any(|&c| c >= 0) {
        out.put("label", &data.labels)?;
        out.put("split", &split(data))?;
    }
    if let Some(multi) = &data.multi_labels {
        out.put("multi_label", multi)?;
    }
    if let Some(types) = &data.node_types {
        out.put("node_type", types)?;
    }
    if let Some(ids) = ids {
        out.put("vertex_id", ids)?;
    }
    let about = serde_json::to_vec(&Saved::of(&data.about)).expect("plain values");
    if data.about != About::default() {
        out.put("about", &about)?;
    }
    if let Some(links) = &data.links {
        for (name, pairs) in [
            ("train_link", &links.train),
            ("val_link", &links.val),
            ("test_link", &links.test),
            ("val_neg", &links.val_neg),
            ("test_neg", &links.test_neg),
        ] {
            out.put::<u32>(name, pairs.as_flattened())?;
        }
    }
    out.finish(Header {
        name: data.name.clone(),
        source: source.into(),
        synthetic: data.synthetic,
        task: data.task.into(),
        vertices: data.n() as u64,
        edges: data.graph.n_edges() as u64,
        feature_width: data.features.dim() as u64,
        classes: data.n_classes as u64,
        relations: data.graph.relations().map(|r| r.count() as u64),
        sections: Vec::new(),
    })
}

/// The masks as one byte a vertex.
fn split(data: &Dataset) -> Vec<u8> {
    let of = |v: usize| match (data.train[v], data.val[v], data.test[v]) {
        (true, ..) => 1,
        (_, true, _) => 2,
        (.., true) => 3,
        _ => 0,
    };
    (0..data.n()).into_par_iter().map(of).collect()
}
