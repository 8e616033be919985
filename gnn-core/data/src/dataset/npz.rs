//! The project's `.npz` layout: arrays by name, described at [`crate::dataset`]; the names that PyG and DGL give
//! them are read as well.

use std::path::Path;

use kernels::{CsrBuf, Mat};

use crate::Result;
use crate::dataset::archive::Archive;
use crate::dataset::meta::Meta;
use crate::dataset::{
    About, Dataset, Features, Limit, Pair, Task, Types, bad, check, links, split, typed,
};
use crate::graph::{EdgeOptions, Graph};

/// What others call the arrays.
const ALSO: [(&str, &str); 10] = [
    ("feat", "x"),
    ("feat", "features"),
    ("label", "y"),
    ("label", "labels"),
    ("edge_src", "src"),
    ("edge_dst", "dst"),
    ("edge_type", "etype"),
    ("node_type", "ntype"),
    ("val_mask", "valid_mask"),
    ("val_mask", "validation_mask"),
];

/// The arrays that are looked for, as an error names them.
pub(super) const EXPECTED: &str = "save edges as edge_index [2, E] or edge_src, edge_dst [E]; features as x or feat \
    [N, F]; classes as y or label [N]; parts as train_mask, val_mask, test_mask [N]. Also read are adj_indptr \
    (gnn-benchmark) and node_features (heterophilous-graphs)";

/// Loads the data set in the file `path` with the masks of the split of that name.
pub(super) fn load(path: &Path, split: &str, limit: &Limit) -> Result<Dataset> {
    let mut archive = Archive::open(path, limit)?.or_called(&ALSO);
    let file = archive.file.clone();
    let meta = Meta::beside(path)?;
    let (labels, n_classes, multi_labels) = labels(&mut archive, &meta)?;
    let n = labels.len();
    let (graph, links) = graph(&mut archive, &meta, n, limit)?;
    let node_types = if archive.has("node_type") {
        let types = archive.vector("node_type")?.into_ints()?;
        check::length(&file, "node_type", n, types.len())?;
        Some(check::types(&file, "node_type", &types, None)?.0)
    } else {
        None
    };
    let relations = &meta.edge_types.0;
    let types = Types::count(node_types.as_deref(), &meta.node_types.0, &graph, relations);
    let features = features(&mut archive, n)?;
    let [train, val, test] = if n_classes == 0 && !archive.has("train_mask") {
        split::only_standard(split, "a data set without classes")?;
        [0; 3].map(|_| vec![false; n])
    } else {
        split::masks(&mut archive, split)?
    };
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
    let name = name.unwrap_or_else(|| file.clone());
    let links = links.map(|pairs| links::given(&name, &graph, pairs));
    let dataset = Dataset {
        name,
        links: links.transpose()?,
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
        about: About {
            format: "graph.npz",
            types,
            classes: meta.class_names.0,
            ..About::default()
        },
        node_types,
    };
    Ok(dataset)
}

/// One class a vertex, or several, -1 where there is none; and the number of classes. Without labels
/// the data says how many vertices there are.
fn labels(archive: &mut Archive, meta: &Meta) -> Result<(Vec<i32>, usize, Option<Vec<u8>>)> {
    let file = archive.file.clone();
    if let (false, Some(n)) = (archive.has("label"), meta.num_nodes) {
        archive.limit.graph(n as u64, 0, &file)?;
        return Ok((vec![-1; n], 0, None));
    }
    let mut label = archive.array("label")?;
    if let [n, 1] = label.shape[..] {
        // A column is a list.
        label.shape = vec![n];
    }
    if label.shape.len() == 2 {
        let classes = label.shape[1];
        let (labels, multi) = check::multi_labels(&file, &label.into_ints()?, classes)?;
        return Ok((labels, classes, Some(multi)));
    }
    label.expect_dims(1)?;
    let (labels, classes) = check::labels(&file, &label.into_ints()?, meta.num_classes)?;
    Ok((labels, classes, None))
}

/// Pairs that are trained on, that validate and that test.
type SplitPairs = [Vec<Pair>; 3];

/// The edges. With `edge_type` they are typed, and inverse relations are added unless every edge
/// already has its reverse or the data says that it is directed. With `edge_split` the graph has the
/// training edges alone, and all pairs are returned by their part.
fn graph(
    archive: &mut Archive,
    meta: &Meta,
    n: usize,
    limit: &Limit,
) -> Result<(Graph, Option<SplitPairs>)> {
    let file = archive.file.clone();
    let [src, dst] = ends(archive)?;
    limit.graph(n as u64, 2 * src.len() as u64, &file)?;
    let mut src = check::edges(&file, "edge_src", src, n)?;
    let mut dst = check::edges(&file, "edge_dst", dst, n)?;
    let count = src.len();
    let same_length = |place: &str, got: usize, help: &str| {
        if got == count {
            return Ok(());
        }
        let reason = format!("expected {count} elements like edge_src, got {got}");
        Err(bad(&file, place, reason, help))
    };
    same_length("edge_dst", dst.len(), "save both ends of every edge")?;
    let typed = archive.has("edge_type");
    let (mut types, mut relations) = (Vec::new(), 0);
    if typed {
        let given = archive.vector("edge_type")?.into_ints()?;
        same_length("edge_type", given.len(), "save one type an edge")?;
        (types, relations) = check::types(&file, "edge_type", &given, meta.num_edge_types)?;
    }
    let mut links = None;
    if archive.has("edge_split") {
        let split = archive.vector("edge_split")?.into_ints()?;
        same_length("edge_split", split.len(), "save one part an edge")?;
        let (split, _) = check::types(&file, "edge_split", &split, Some(3))?;
        let mut pairs = SplitPairs::default();
        let ends = src.iter().zip(&dst).zip(&split);
        ends.for_each(|((&u, &v), &part)| pairs[usize::from(part)].push([u, v]));
        links = Some(pairs);
        let trained = |part: u16| part == 0;
        retain(&mut src, &split, trained);
        retain(&mut dst, &split, trained);
        retain(&mut types, &split, trained);
    }
    let graph = if typed {
        typed::graph(n, [src, dst], types, relations, meta.directed)?
    } else {
        Graph::from_edges(n, &src, &dst, EdgeOptions::AS_IS)?
    };
    Ok((graph, links))
}

/// Where edges start and end: two lists, or PyG's `edge_index`.
fn ends(archive: &mut Archive) -> Result<[Vec<i64>; 2]> {
    if archive.has("edge_src") || !archive.has("edge_index") {
        let src = archive.vector("edge_src")?.into_ints()?;
        return Ok([src, archive.vector("edge_dst")?.into_ints()?]);
    }
    let pairs = archive.array("edge_index")?;
    let shape = pairs.shape.clone();
    let flat = pairs.into_ints()?;
    match shape[..] {
        [2, edges] => {
            let dst = flat[edges..].to_vec();
            let mut src = flat;
            src.truncate(edges);
            Ok([src, dst])
        }
        [_, 2] => Ok([0, 1].map(|k| flat.iter().skip(k).step_by(2).copied().collect())),
        _ => {
            let reason = format!("expected (2, edges), got {shape:?}");
            Err(bad(
                &archive.file,
                "edge_index",
                reason,
                "save both ends of every edge, a row each",
            ))
        }
    }
}

/// Keeps the elements whose part is wanted.
fn retain<T>(of: &mut Vec<T>, parts: &[u16], wanted: fn(u16) -> bool) {
    let mut parts = parts.iter();
    of.retain(|_| parts.next().is_some_and(|&p| wanted(p)));
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
        let shape = (n, feat.shape[1]);
        let x = Mat::from_shape_vec(shape, feat.into_floats());
        return Ok(Features::Dense(
            x.expect("an array holds as many elements as its shape says"),
        ));
    }
    if !sparse {
        return Ok(Features::Identity(n));
    }
    let shape = archive.vector("feat_shape")?.into_ints()?;
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
        archive.vector("feat_indptr")?.into_ints()?,
        archive.vector("feat_indices")?.into_ints()?,
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
        weights: Some(archive.vector("feat_data")?.into_floats()),
        n_cols: cols,
    };
    Ok(Features::Sparse(x))
}
