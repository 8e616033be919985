//! Data sets: a graph with features, labels and masks, from built-in generators or files.
//!
//! | module | one idea |
//! |---|---|
//! | `load` | a name, a specification or a path becomes a [`Dataset`] |
//! | `builtin` | karate club, planted partition and R-MAT, without any file |
//! | `npz`, `archive`, `npy` | the project's arrays, and readers of the two formats, with limits |
//! | `limit` | how much memory reading may take |
//! | `source`, `texts` | lines of a text file, compressed or not; strings and numbers for them |
//! | `tables` | a data set from tables of edges and vertices, whoever read them |
//! | `typed`, `about` | graphs with relations; what a data set and its parts are called |
//! | `split` | masks by the name of a split |
//! | `links` | edges held out for link prediction |
//! | `folder`, `table` | a plain folder of edges, features and labels |
//! | `format` | published formats, one file each |
//! | `meta` | what a data set says about itself in `meta.json` |
//! | `check` | what every data set must fulfil before training |
//!
//! # Formats
//! A path names a file or a folder; the names of the files say which format it is. Text files may be
//! plain, gzip or Zstandard. Edges that a format stores in one direction get the other one too,
//! unless `meta.json` beside the files says `"directed": true`; repeats and self loops are dropped.
//! Typed edges stay as they are and get inverse relations. Nothing in a file is ever executed, and
//! nothing that it declares makes reading take more memory than there is ([`Limit`]).
//!
//! | format | looked for | directions added | split |
//! |---|---|---|---|
//! | Halobook | `graph.npz` | none; inverse relations | `standard`, numbers, names |
//! | Planetoid | `ind.NAME.{x, y, tx, ty, allx, ally, graph, test.index}` | yes | Planetoid's |
//! | gnn-benchmark | `.npz` with `adj_indptr` | yes | 60/20/20 % at random |
//! | heterophilous-graphs | `.npz` with `node_features` | yes | numbers, 0 is `standard` |
//! | Geom-GCN | `*out1_graph_edges.txt`, `*out1_node_feature_label.txt`, `*_split_*.npz` | yes | numbers, the first is `standard` |
//! | MUSAE | `NAME_edges.csv`, `NAME_target.csv`, `NAME_features.json` | yes | 60/20/20 % at random |
//! | OGB, node | `raw/edge.csv.gz` or `raw/data.npz`, … | yes | `split/NAME` |
//! | OGB, link | the same, and `split/NAME/*.pt` | yes | `split/NAME`, pairs |
//! | OGB, heterogeneous | `raw/triplet-type-list.csv.gz`, … | inverse relations | `split/NAME` |
//! | RDF | `*.nt`, `*.nt.gz`, `*trainingSet*`, `*testSet*` | inverse relations | the tables'; a fifth of the training part validates; `full` |
//! | OpenKE | `train2id.txt`, `valid2id.txt`, `test2id.txt`, … | inverse relations | pairs |
//! | Matrix Market | `*.mtx` | yes | none |
//! | edge list | `*.txt`, `.csv`, `.tsv`, `.el`, `.edges`, …, or `.npy` of pairs | yes | none |
//! | plain folder | `edges.*` with `labels.*` or `features.*` | yes | `train.*`, `val.*`, `test.*`, or at random |
//! | tables | [`Dataset::from_tables`], from Parquet and Arrow for instance | as asked | a column, or at random |
//!
//! Data without classes serves link prediction and partitioning. Where vertices have names instead
//! of numbers these are in [`About::ids`]; types and relations with their counts in [`About::types`].
//!
//! # Folders
//! A folder with `graph.npz` holds NumPy arrays:
//!
//! | array | content |
//! |---|---|
//! | `edge_src`, `edge_dst` `[E]` | ends of every edge, both directions stored |
//! | `label` `[N]`, or `[N, C]` | class, -1 unlabelled; or 0 and 1 for each of several classes; may be absent where `meta.json` says `num_nodes` |
//! | `train_mask`, `val_mask`, `test_mask` `[N]` | the standard split |
//! | `train_masks`, … `[S, N]`, `train_mask_NAME`, … `[N]` | further splits, by number and by name |
//! | `feat` `[N, F]` | features; or compressed rows in `feat_indptr` `[N + 1]`, `feat_indices`, `feat_data`, `feat_shape` `[2]`; or none (one-hot) |
//! | `edge_type` `[E]` | relations; inverse ones are added unless every edge has its reverse, or `meta.json` says `"directed": true` |
//! | `edge_split` `[E]` | 0, 1 and 2: edges that are trained on, and those that validate and test link prediction and leave the graph |
//! | `node_type` `[N]` | types of vertices, kept; `meta.json` may name them (`node_types`, `edge_types`, `class_names`) |
//!
//! PyG's and DGL's names are read as well: `edge_index` `[2, E]` or `src` and `dst`, `x`, `y`, `labels`.
//!
//! Beside it may be `link_split.npz` with `train_pos`, `val_pos`, `test_pos`, `val_neg`, `test_neg`
//! `[M, 2]`: pairs of vertices for link prediction (otherwise 85/5/10 % of the undirected edges).
//!
//! A plain folder holds one file of each kind; text files have one record a line, separated by
//! comma, semicolon, tab or space, with `#` comments and an optional header line. They end in
//! `.csv`, `.txt` or `.tsv`, and may be packed (`.gz`, `.zst`).
//!
//! | file | content |
//! |---|---|
//! | `edges.csv`, `edges.txt` or `edges.npy` `[E, 2]` | source and destination, from 0; both directions are stored unless `meta.json` says `"directed": true`; repeats and self loops are dropped |
//! | `labels.csv`, `labels.txt` or `labels.npy` `[N]` | one class a line in order of vertices, or `vertex,class`; -1 or absent is unlabelled; optional beside features |
//! | `features.csv` or `features.npy` `[N, F]` | one vertex a line; optional (one-hot) |
//! | `train.csv`, `val.csv`, `test.csv` (or `.txt`), or `masks.npy` `[3, N]` | vertex ids, one a line; optional (60/20/20 at random of the labelled vertices) |
//! | `meta.json` | optional: `directed`, `num_classes`, `num_nodes` |
//!
//! Or it holds `edges.csv` and `nodes.csv`, a vertex a line, whose first line names the columns: `id`, `label` (or `y`),
//! `split` (or `train_mask`, `val_mask`, `test_mask`), and a feature each.
//!
//! Vertices may have names instead of numbers: then `edges` has two names a line, `labels` a name and
//! a class, the parts a name a line, and there are no features.

mod about;
mod archive;
pub(crate) mod builtin;
pub(crate) mod check;
mod folder;
pub(crate) mod format;
mod karate;
mod limit;
pub(crate) mod links;
mod meta;
mod npy;
mod npz;
mod regular;
mod rows;
mod source;
mod spec;
pub(crate) mod split;
mod table;
mod tables;
mod texts;
mod typed;

pub use about::{About, TypeCount, Types};
pub use builtin::Sizes;
pub use builtin::like::names as look_alikes;
pub use limit::Limit;
pub use links::random_pair;
pub use links::{Links, Pair};
pub(crate) use npy::Head as NpyHead;
pub use rows::Rows;
pub use spec::{DataSpec, FeatureNorm, FeatureStorage, Pairing, TaskKind};
pub use split::{STANDARD, random as random_split};
pub use tables::{Column, EdgeTable, VertexTable};
pub use texts::Texts;

use kernels::{CsrBuf, Mat};
use rayon::prelude::*;

use crate::graph::Graph;
use crate::list::List;
use crate::{Error, Result};

/// Elements that are copied out of a mapped file before it is let go: what lies between them in the file
/// is read as well.
const AT_ONCE: usize = 1 << 17;

/// Input features of all vertices.
#[derive(Debug, Clone, PartialEq)]
pub enum Features {
    /// `[n, d]`, every element stored.
    Dense(Mat),
    /// `[n, d]`, only the elements that are not zero.
    Sparse(CsrBuf),
    /// `[n, d]`, every element in a mapped file; [`Features::select_rows`] and
    /// [`Features::into_memory`] copy what is needed.
    Mapped {
        /// The rows, one after another: `[n · dim]`.
        values: List<f32>,
        /// Number of columns, at least 1.
        dim: usize,
    },
    /// `[n, n]`, vertex `v` has a one in column `v` and nothing is stored: of a graph that comes without
    /// features. [`Features::select_rows`] and [`Features::into_memory`] make rows of it.
    Identity(usize),
}

impl Features {
    /// Number of vertices.
    pub fn n(&self) -> usize {
        match self {
            Features::Dense(x) => x.nrows(),
            Features::Sparse(x) => x.rows(),
            Features::Mapped { values, dim } => values.len() / dim,
            Features::Identity(n) => *n,
        }
    }

    /// Number of features of a vertex.
    pub fn dim(&self) -> usize {
        match self {
            Features::Dense(x) => x.ncols(),
            Features::Sparse(x) => x.n_cols,
            Features::Mapped { dim, .. } => *dim,
            Features::Identity(n) => *n,
        }
    }

    /// Bytes in this process's memory, once they are there.
    pub fn bytes(&self) -> usize {
        match self {
            Features::Dense(x) => x.len() * 4,
            Features::Sparse(x) => x.bytes(),
            Features::Mapped { values, .. } => values.len() * 4,
            Features::Identity(n) => 8 * (n + 1) + 4 * n,
        }
    }

    /// Whether only the elements that are not zero are stored.
    pub fn is_sparse(&self) -> bool {
        matches!(self, Features::Sparse(_) | Features::Identity(_))
    }

    /// Divides every row by its sum; rows that sum to zero stay as they are.
    pub fn row_normalise(&mut self) {
        let scale = |row: &mut [f32]| {
            let sum: f64 = row.iter().map(|&x| f64::from(x)).sum();
            if sum != 0.0 {
                row.iter_mut()
                    .for_each(|x| *x = (f64::from(*x) / sum) as f32);
            }
        };
        if matches!(self, Features::Mapped { .. }) {
            *self = std::mem::replace(self, Features::Identity(0)).into_memory();
        }
        match self {
            Features::Mapped { .. } => unreachable!("they were copied into memory above"),
            Features::Identity(_) => {}
            Features::Dense(x) => {
                let d = x.ncols().max(1);
                if let Some(flat) = x.as_slice_mut() {
                    flat.par_chunks_mut(d).for_each(scale);
                }
            }
            Features::Sparse(x) => {
                let edges = x.indices.len();
                let weights = x.weights.get_or_insert_with(|| vec![1.0; edges]);
                for w in x.indptr.windows(2) {
                    scale(&mut weights[w[0] as usize..w[1] as usize]);
                }
            }
        }
    }

    /// Stores every element where a quarter of them or more are not zero and all of them take a
    /// gigabyte at most. On Amazon Computers, where it is 35 %, GraphSAGE's epochs took 0.7 of the time on
    /// the whole graph and 0.2 to 0.4 in batches, which copy and transpose what they read (two cores of a
    /// shared x86-64 machine, by turns, 22 November 2026).
    pub fn densify(&mut self) {
        const AT_MOST: usize = 1 << 30;
        let Features::Sparse(x) = self else { return };
        let all = x.rows() * x.n_cols;
        if 4 * x.indices.len() < all || 4 * all > AT_MOST {
            return;
        }
        let mut dense = Mat::zeros((x.rows(), x.n_cols));
        for (v, mut row) in dense.rows_mut().into_iter().enumerate() {
            for e in x.view().span(v) {
                row[x.indices[e] as usize] += x.weights.as_ref().map_or(1.0, |w| w[e]);
            }
        }
        *self = Features::Dense(dense);
    }

    /// The rows `ids`, in that order.
    ///
    /// # Panics
    /// When an id is not below [`Features::n`].
    pub fn select_rows(&self, ids: &[u32]) -> Features {
        match self {
            Features::Dense(x) => {
                let mut out = Mat::zeros((ids.len(), x.ncols()));
                for (mut to, &v) in out.rows_mut().into_iter().zip(ids) {
                    to.assign(&x.row(v as usize));
                }
                Features::Dense(out)
            }
            Features::Sparse(x) => {
                let mut out = CsrBuf {
                    weights: x.weights.as_ref().map(|_| Vec::new()),
                    ..CsrBuf::empty(x.n_cols)
                };
                for &v in ids {
                    let span = x.view().span(v as usize);
                    out.indices.extend_from_slice(&x.indices[span.clone()]);
                    if let (Some(to), Some(from)) = (&mut out.weights, &x.weights) {
                        to.extend_from_slice(&from[span]);
                    }
                    out.indptr.push(out.indices.len() as u64);
                }
                Features::Sparse(out)
            }
            Features::Identity(n) => {
                assert!(ids.iter().all(|&v| (v as usize) < *n), "an id beyond {n}");
                Features::Sparse(ones(ids.to_vec(), *n))
            }
            Features::Mapped { values, dim } => {
                let mut out = vec![0f32; ids.len() * dim];
                let rows = ids.iter().zip(out.chunks_exact_mut(*dim));
                // In the order of the file, so that what was read of it can be let go.
                let mut rows: Vec<(&u32, &mut [f32])> = rows.collect();
                rows.sort_unstable_by_key(|row| row.0);
                rows.par_chunks_mut(AT_ONCE.div_ceil(*dim))
                    .for_each(|rows| {
                        for (v, to) in rows.iter_mut() {
                            to.copy_from_slice(&values[**v as usize * dim..][..*dim]);
                        }
                        let ends = rows.first().zip(rows.last());
                        let (first, last) = ends.map_or((0, 0), |(a, b)| (*a.0, *b.0 + 1));
                        values.release(first as usize * dim..last as usize * dim);
                    });
                let x = Mat::from_shape_vec((ids.len(), *dim), out);
                Features::Dense(x.expect("one row an id was made"))
            }
        }
    }

    /// The same features in this process's memory.
    pub fn into_memory(self) -> Features {
        match self {
            Features::Mapped { values, dim } => {
                let n = values.len() / dim;
                let values: Vec<f32> = values.par_iter().copied().collect();
                let x = Mat::from_shape_vec((n, dim), values);
                Features::Dense(x.expect("mapped features are whole rows"))
            }
            Features::Identity(n) => Features::Sparse(ones((0..n as u32).collect(), n)),
            other => other,
        }
    }

    /// All elements row by row, where every one is stored: `[n · d]`.
    pub fn dense(&self) -> Option<&[f32]> {
        match self {
            Features::Dense(x) => x.as_slice(),
            Features::Mapped { values, .. } => Some(values),
            Features::Sparse(_) | Features::Identity(_) => None,
        }
    }
}

/// Rows of which each has a one in its column and nothing else: `[columns.len(), n]`.
fn ones(columns: Vec<u32>, n: usize) -> CsrBuf {
    CsrBuf {
        indptr: (0..=columns.len() as u64).collect(),
        indices: columns,
        weights: None,
        n_cols: n,
    }
}

/// What is to be learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// One class a vertex.
    NodeClassification,
    /// Any number of classes a vertex.
    MultiLabel,
    /// Which vertices are joined by an edge.
    LinkPrediction,
}

/// A graph with everything that is needed to train on it.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Name as it is shown.
    pub name: String,
    /// The graph.
    pub graph: Graph,
    /// Input features: `[n, d]`.
    pub features: Features,
    /// Class of each vertex, -1 where unknown: `[n]`. With several labels a vertex: 0 where they
    /// are known.
    pub labels: Vec<i32>,
    /// Number of classes.
    pub n_classes: usize,
    /// Vertices whose labels are trained on: `[n]`.
    pub train: Vec<bool>,
    /// Vertices that choose the best epoch: `[n]`.
    pub val: Vec<bool>,
    /// Vertices that only report: `[n]`.
    pub test: Vec<bool>,
    /// Whether the data was generated.
    pub synthetic: bool,
    /// What is to be learned.
    pub task: Task,
    /// 1 for each class of a vertex that may have several, else 0: `[n · n_classes]`.
    pub multi_labels: Option<Vec<u8>>,
    /// Type of each vertex, where they have any: `[n]`.
    pub node_types: Option<Vec<u16>>,
    /// Edges held out for link prediction; then `graph` has only the others.
    pub links: Option<Links>,
    /// Where it came from, and the names of its types, classes and vertices.
    pub about: About,
}

impl Dataset {
    /// A graph alone: one-hot features, no classes, no split. Readers fill in what there is.
    pub fn unlabelled(name: impl Into<String>, graph: Graph) -> Dataset {
        let n = graph.n();
        Dataset {
            name: name.into(),
            features: Features::Identity(n),
            graph,
            labels: vec![-1; n],
            n_classes: 0,
            train: vec![false; n],
            val: vec![false; n],
            test: vec![false; n],
            synthetic: false,
            task: Task::NodeClassification,
            multi_labels: None,
            node_types: None,
            links: None,
            about: About::default(),
        }
    }

    /// Number of vertices.
    pub fn n(&self) -> usize {
        self.graph.n()
    }

    /// Checks what training relies on: sizes agree, features are finite, labels are classes, masks
    /// are disjoint and labelled. The readers call it; call it again after changing a field.
    ///
    /// # Errors
    /// [`Error::Data`] naming the array, the index and the value.
    pub fn check(&self) -> Result<()> {
        check::dataset(self, &self.name)
    }

    /// [`Dataset::check`] for data that need not have anything to train on.
    ///
    /// # Errors
    /// As [`Dataset::check`].
    pub fn check_values(&self) -> Result<()> {
        check::values(self, &self.name)
    }
}

/// [`Error::Data`] from its four parts.
pub(crate) fn bad(
    file: &str,
    place: impl Into<String>,
    reason: impl Into<String>,
    help: impl Into<String>,
) -> Error {
    Error::Data {
        file: file.into(),
        place: one_line(place.into()),
        reason: one_line(reason.into()),
        help: one_line(help.into()),
    }
}

/// The text with its control characters as escapes: files decide what some messages say.
fn one_line(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    let shown = |c: char| {
        if c.is_control() {
            c.escape_default().to_string()
        } else {
            c.into()
        }
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests;
