//! Open Graph Benchmark: node, link and heterogeneous folders as OGB's own downloader lays them out.
//!
//! | file | content |
//! |---|---|
//! | `raw/edge.csv.gz`, `raw/num-node-list.csv.gz`, `raw/num-edge-list.csv.gz` | one graph |
//! | `raw/node-feat.csv.gz` | features of each vertex; absent, one-hot |
//! | `raw/edge_reltype.csv.gz` | relation of each edge (ogbl-wikikg2) |
//! | `raw/node-label.csv.gz` | a class, or 0 and 1 for each of several, a vertex |
//! | `raw/data.npz`, `raw/node-label.npz` | the same as arrays (ogbn-papers100M) |
//! | `split/NAME/{train,valid,test}.csv.gz` | vertices of each part |
//! | `split/NAME/{train,valid,test}.pt` | edges of each part, see `link` |
//! | `raw/triplet-type-list.csv.gz`, … | several types, see `hetero` |
//!
//! Edges without types are made symmetric, as OGB does for the sets that it calls undirected and its
//! example programs do for the others (ogbn-arxiv, ogbn-papers100M); `meta.json` with
//! `"directed": true` in the folder keeps them as they are. Repeats and self loops are dropped.
//! Features of edges and further attributes (years, species) are ignored.
//!
//! # Paper
//! Hu et al., "Open Graph Benchmark: Datasets for Machine Learning on Graphs", NeurIPS 2020,
//! <https://arxiv.org/abs/2005.00687>.

mod csv;
mod hetero;
mod link;

use std::path::{Path, PathBuf};

use kernels::Mat;

use super::{Ask, Listing};
use crate::dataset::archive::Archive;
use crate::dataset::meta::Meta;
use crate::dataset::{Dataset, Features, Limit, STANDARD, Task, Types, bad, check, typed};
use crate::graph::{EdgeOptions, Graph};
use crate::{Error, Result};

/// What to do about a damaged file.
const AGAIN: &str = "let OGB's downloader fetch the data set again";

/// Loads the folder `at`, which has `raw` and `split`.
pub(super) fn load(ask: &Ask, at: &Path) -> Result<Dataset> {
    let raw = at.join("raw");
    if raw.join("triplet-type-list.csv.gz").is_file() {
        return hetero::load(ask, at);
    }
    let meta = Meta::beside(&at.join("meta.json"))?;
    let limit = ask.limit;
    let parts = if raw.join("data.npz").is_file() {
        Stored::binary(&raw, limit)?
    } else {
        Stored::csv(&raw, limit)?
    };
    let Stored {
        file,
        n,
        ends,
        features,
        label,
        relations,
    } = parts;
    let graph = match relations {
        Some(types) => {
            let (types, count) = check::types(&file, "edge_reltype", &types, None)?;
            typed::graph(n, ends, types, count, meta.directed)?
        }
        None => {
            let options = EdgeOptions {
                symmetrise: !meta.directed,
                ..EdgeOptions::SIMPLE
            };
            let [src, dst] = ends;
            Graph::from_edges(n, &src, &dst, options)?
        }
    };
    let mut dataset = Dataset::unlabelled(name(at), graph);
    dataset.about.types = Types::count(None, &[], &dataset.graph, &[]);
    dataset.about.format = "OGB";
    if let Some(x) = features {
        dataset.features = Features::Dense(x);
    }
    if let Some(label) = label {
        check::length(&label.file, "labels", n, label.n())?;
        labelled(&mut dataset, label)?;
    }
    if raw.join("edge-feat.csv.gz").is_file() {
        dataset.about.notes.push("features of edges ignored".into());
    }
    let split = split(at, ask.split)?;
    if split.join("train.pt").is_file() {
        link::hold_out(&mut dataset, &split, limit)?;
    } else if dataset.n_classes > 0 {
        let masks = [&mut dataset.train, &mut dataset.val, &mut dataset.test];
        for (mask, part) in masks.into_iter().zip(["train", "valid", "test"]) {
            select(mask, &split.join(format!("{part}.csv.gz")), 0, n, limit)?;
        }
    }
    Ok(dataset)
}

/// The folder's name; that of the folder above for `raw`.
fn name(at: &Path) -> String {
    super::folder_name(&at.join("raw"))
}

/// The folder of the split: of that name, or the only one.
fn split(at: &Path, split: &str) -> Result<PathBuf> {
    let folder = at.join("split");
    let names = Listing::folders(&folder)?;
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    match (split, &known[..]) {
        (STANDARD, [only]) => Ok(folder.join(only)),
        (STANDARD, []) => {
            let reason = "has no split folder such as split/time";
            Err(bad(&at.display().to_string(), "split", reason, AGAIN))
        }
        _ if known.contains(&split) => Ok(folder.join(split)),
        _ => Err(Error::unknown("split", split, &known)),
    }
}

/// Sets the vertices that a file lists, which starts counting at `from`, of `n`.
fn select(mask: &mut [bool], at: &Path, from: usize, n: usize, limit: &Limit) -> Result<()> {
    let ids = csv::rows::<i64>(at, limit)?;
    ids.columns(1)?;
    for v in check::edges(&ids.file, "vertex", ids.values, n)? {
        mask[from + v as usize] = true;
    }
    Ok(())
}

/// Sets the classes of a data set from one row a vertex, -1 unlabelled.
fn labelled(dataset: &mut Dataset, label: csv::CsvRows<i64>) -> Result<()> {
    if label.width > 1 {
        let (labels, multi) = check::multi_labels(&label.file, &label.values, label.width)?;
        (dataset.labels, dataset.n_classes) = (labels, label.width);
        dataset.multi_labels = Some(multi);
        dataset.task = Task::MultiLabel;
        return Ok(());
    }
    // Some sets have classes that no vertex belongs to.
    let classes = label
        .values
        .iter()
        .max()
        .map_or(0, |&c| c.saturating_add(1).max(0));
    let declared = Some(classes as usize);
    let (labels, n_classes) = check::labels(&label.file, &label.values, declared)?;
    (dataset.labels, dataset.n_classes) = (labels, n_classes);
    Ok(())
}

/// A graph of one type of vertices, as stored.
struct Stored {
    file: String,
    n: usize,
    ends: [Vec<u32>; 2],
    features: Option<Mat>,
    label: Option<csv::CsvRows<i64>>,
    relations: Option<Vec<i64>>,
}

impl Stored {
    fn csv(raw: &Path, limit: &Limit) -> Result<Stored> {
        let at = raw.join("edge.csv.gz");
        let [n, declared] = ["num-node-list.csv.gz", "num-edge-list.csv.gz"].map(|f| raw.join(f));
        let n = count(&n, limit)?;
        let declared = count(&declared, limit)?;
        let ends = edges(&at, declared, [n, n], limit)?;
        let file = at.display().to_string();
        limit.graph(n as u64, declared as u64, &file)?;
        let optional = |name: &str| Some(raw.join(name)).filter(|p| p.is_file());
        let features = optional("node-feat.csv.gz").map(|p| features(&p, n, limit));
        let label = optional("node-label.csv.gz").map(|p| csv::labels(&p, limit));
        let relations = optional("edge_reltype.csv.gz").map(|p| {
            let types = csv::rows::<i64>(&p, limit)?;
            types.columns(1)?;
            match types.values.len() {
                got if got == declared => Ok(types.values),
                got => {
                    let reason = format!("expected {declared} relations (one an edge), got {got}");
                    Err(bad(&types.file, "lines", reason, AGAIN))
                }
            }
        });
        Ok(Stored {
            file,
            n,
            ends,
            features: features.transpose()?,
            label: label.transpose()?,
            relations: relations.transpose()?,
        })
    }

    fn binary(raw: &Path, limit: &Limit) -> Result<Stored> {
        let mut archive = Archive::open(&raw.join("data.npz"), limit)?;
        let file = archive.file.clone();
        let counts = archive.array("num_nodes_list")?.into_ints()?;
        let n = one(&file, "num_nodes_list", &counts)?;
        let edges = archive.array("edge_index")?;
        let [2, count] = edges.shape[..] else {
            let reason = format!("expected (2, edges), got {:?}", edges.shape);
            return Err(bad(&file, "edge_index", reason, AGAIN));
        };
        limit.graph(n as u64, count as u64, &file)?;
        let mut src = edges.into_ints()?;
        let dst = src.split_off(count);
        let src = check::edges(&file, "edge_index[0]", src, n)?;
        let dst = check::edges(&file, "edge_index[1]", dst, n)?;
        let features = if archive.has("node_feat") {
            let x = archive.array("node_feat")?;
            x.expect_dims(2)?;
            check::length(&file, "node_feat", n, x.shape[0])?;
            let x = Mat::from_shape_vec((n, x.shape[1]), x.into_floats());
            Some(x.expect("as many elements as the shape says"))
        } else {
            None
        };
        let at = raw.join("node-label.npz");
        let label = at
            .is_file()
            .then(|| binary_labels(&at, limit))
            .transpose()?;
        Ok(Stored {
            file,
            n,
            ends: [src, dst],
            features,
            label,
            relations: None,
        })
    }
}

/// Labels of `node-label.npz`, NaN where there is none.
fn binary_labels(at: &Path, limit: &Limit) -> Result<csv::CsvRows<i64>> {
    let mut archive = Archive::open(at, limit)?;
    let array = archive.array("node_label")?;
    let width = match array.shape[..] {
        [_] => 1,
        [_, width] => width,
        _ => {
            let reason = format!("expected (vertices, labels), got {:?}", array.shape);
            return Err(bad(&archive.file, "node_label", reason, AGAIN));
        }
    };
    limit.take(
        2 * at.metadata().map_or(0, |m| m.len()),
        &archive.file,
        "labels",
    )?;
    let values = if array.is_float() {
        let floats = array.into_floats().into_iter().enumerate();
        let label = |(k, x): (usize, f32)| {
            csv::whole(f64::from(x)).ok_or_else(|| {
                let reason = format!("{x} is not a class");
                bad(&archive.file, format!("node_label[{k}]"), reason, AGAIN)
            })
        };
        floats.map(label).collect::<Result<_>>()?
    } else {
        array.into_ints()?
    };
    Ok(csv::CsvRows {
        file: archive.file,
        width,
        values,
    })
}

/// The count in a file, of the only graph.
fn count(at: &Path, limit: &Limit) -> Result<usize> {
    let counts = csv::rows::<i64>(at, limit)?;
    one(&counts.file, "count", &counts.values)
}

fn one(file: &str, place: &str, counts: &[i64]) -> Result<usize> {
    match counts[..] {
        [count] if (0..i64::from(u32::MAX)).contains(&count) => Ok(count as usize),
        [count] => {
            let reason = format!("{count} is outside 0..4294967295");
            Err(bad(file, place, reason, AGAIN))
        }
        _ => {
            let reason = format!("lists {} graphs", counts.len());
            let help = "only data sets of one graph are read (ogbn- and ogbl-)";
            Err(bad(file, place, reason, help))
        }
    }
}

/// Both ends of `declared` edges, each below the number of vertices on its side.
fn edges(at: &Path, declared: usize, n: [usize; 2], limit: &Limit) -> Result<[Vec<u32>; 2]> {
    let edges = csv::rows::<u32>(at, limit)?;
    edges.columns(2)?;
    if edges.n() != declared {
        let reason = format!("expected {declared} edges, got {}", edges.n());
        return Err(bad(&edges.file, "lines", reason, AGAIN));
    }
    let end = |k: usize| {
        let ids = edges.values[k.min(edges.values.len())..].iter().step_by(2);
        let place = ["source", "target"][k];
        check::edges(&edges.file, place, ids.map(|&v| i64::from(v)), n[k])
    };
    Ok([end(0)?, end(1)?])
}

/// One row of features for each of `n` vertices.
fn features(at: &Path, n: usize, limit: &Limit) -> Result<Mat> {
    let x = csv::rows::<f32>(at, limit)?;
    check::length(&x.file, "features", n, x.n())?;
    let x = Mat::from_shape_vec((n, x.width), x.values);
    Ok(x.expect("rows of equal width"))
}
