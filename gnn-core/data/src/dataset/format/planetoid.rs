//! Planetoid's files `ind.NAME.{x, y, tx, ty, allx, ally, graph, test.index}`.
//!
//! Python 2 pickles of NumPy arrays, SciPy matrices and a dictionary of neighbour lists, read as
//! data ([`super::pickle`]). As the published loaders do, edges are made symmetric, repeats and self
//! loops are dropped, the first vertices are trained on (as many as `y` has rows), the next 500
//! validate and those of `test.index` test. Where the test vertices have gaps in their numbers
//! (Citeseer), the vertices in between exist without features and without a label.
//!
//! # Paper
//! Yang, Cohen, Salakhutdinov, "Revisiting Semi-Supervised Learning with Graph Embeddings",
//! ICML 2016, <https://arxiv.org/abs/1603.08861>.

use std::path::{Path, PathBuf};

use kernels::CsrBuf;

use super::Ask;
use super::pickle::{self, Pickle, Value};
use crate::Result;
use crate::dataset::source::{self, Lines};
use crate::dataset::{Dataset, Features, Limit, bad, check, split};
use crate::graph::{EdgeOptions, Graph};

/// Vertices that validate, after those that are trained on.
const VALIDATE: usize = 500;

/// The common start `…/ind.NAME.` of the files of the data set that `path` belongs to.
fn stem(path: &Path) -> (PathBuf, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_prefix("ind.").unwrap_or(&name);
    let name = name
        .strip_suffix(".test.index")
        .or_else(|| Some(name.rsplit_once('.')?.0));
    let name = name.unwrap_or("").to_owned();
    (path.with_file_name(format!("ind.{name}.")), name)
}

/// Loads the data set that the file `at` belongs to.
pub(super) fn load(ask: &Ask, at: &Path) -> Result<Dataset> {
    split::only_standard(ask.split, "a Planetoid data set")?;
    let limit = ask.limit;
    let (stem, name) = stem(at);
    let part = |ending: &str| PathBuf::from(format!("{}{ending}", stem.display()));
    let test = test_index(&part("test.index"), limit)?;
    let known = PickledRows::read(&part("allx"), limit)?;
    let tested = PickledRows::read(&part("tx"), limit)?;
    let classes_known = one_hot(&part("ally"), limit)?;
    let classes_tested = one_hot(&part("ty"), limit)?;
    let trained = one_hot(&part("y"), limit)?.0.len();
    let file = part("test.index").display().to_string();
    let help = "the eight files belong together; download them again";
    let fail = |place: &str, reason: String| Err(bad(&file, place, reason, help));
    if test.is_empty() || tested.n() != test.len() || classes_tested.0.len() != test.len() {
        let reason = format!(
            "{} test vertices, but tx has {} rows and ty {}",
            test.len(),
            tested.n(),
            classes_tested.0.len()
        );
        return fail("rows", reason);
    }
    if classes_known.0.len() != known.n() || trained > known.n() || known.cols != tested.cols {
        let reason = format!(
            "allx is {} x {}, ally has {} rows, y {trained}, tx {} columns",
            known.n(),
            known.cols,
            classes_known.0.len(),
            tested.cols
        );
        return fail("rows", reason);
    }
    let n = known.n().max(test.iter().max().map_or(0, |&v| v + 1));
    if let Some(&v) = test.iter().find(|&&v| v < known.n()) {
        let reason = format!("vertex {v} is also among the {} of allx", known.n());
        return fail("vertex", reason);
    }
    let edges = Edges::read(&part("graph"), n, limit)?;
    limit.graph(n as u64, 2 * edges.src.len() as u64, &file)?;
    let graph = Graph::from_edges(n, &edges.src, &edges.dst, EdgeOptions::SIMPLE)?;

    let mut row_of = vec![None; n];
    for (k, &v) in test.iter().enumerate() {
        if row_of[v].replace(k).is_some() {
            return fail("vertex", format!("vertex {v} is there twice"));
        }
    }
    let classes = classes_known.1.max(classes_tested.1);
    let mut labels: Vec<i64> = classes_known.0;
    labels.resize(n, -1);
    for (v, row) in row_of.iter().enumerate() {
        if let Some(k) = row {
            labels[v] = classes_tested.0[*k];
        }
    }
    let (labels, n_classes) = check::labels(&file, &labels, Some(classes))?;
    let labelled = |v: usize| labels[v] >= 0;
    let [train, val] = [0..trained, trained..trained + VALIDATE].map(|part| {
        let end = known.n();
        (0..n)
            .map(|v| part.contains(&v) && v < end && labelled(v))
            .collect()
    });
    let mut dataset = Dataset::unlabelled(name, graph);
    dataset.test = row_of
        .iter()
        .enumerate()
        .map(|(v, r)| r.is_some() && labelled(v))
        .collect();
    (dataset.train, dataset.val) = (train, val);
    let gaps = row_of[known.n()..].iter().filter(|r| r.is_none()).count();
    dataset.features = Features::Sparse(known.with(&tested, &row_of));
    (dataset.labels, dataset.n_classes) = (labels, n_classes);
    dataset.about.format = "Planetoid";
    if gaps > 0 {
        let note =
            format!("{gaps} vertices between the test vertices have no features and no label");
        dataset.about.notes.push(note);
    }
    Ok(dataset)
}

/// The numbers of the test vertices, one a line.
fn test_index(path: &Path, limit: &Limit) -> Result<Vec<usize>> {
    let mut lines = Lines::open(path, limit)?;
    let mut out = Vec::new();
    while let Some(line) = lines.record(&['#'])? {
        // More vertices than 32 bits can number are refused before memory is asked for.
        match line.parse::<u32>() {
            Ok(v) if v < u32::MAX => out.push(v as usize),
            _ => {
                let reason = format!("{} is not a vertex number", source::shown(line));
                return Err(lines.bad(reason, "write one number a line"));
            }
        }
        limit.take(16, &lines.file, "test vertices")?;
    }
    let n = out.iter().max().map_or(0, |&v| v as u64 + 1);
    limit.graph(n, 0, &lines.file)?;
    limit.take(16 * n, &lines.file, "rows")?;
    Ok(out)
}

/// Reads a whole file and hands its pickle to `make`.
fn unpickled<T>(path: &Path, limit: &Limit, make: impl FnOnce(&Pickle) -> Result<T>) -> Result<T> {
    let file = path.display().to_string();
    let text = super::whole(path, limit)?;
    make(&pickle::read(&file, "", &text, limit)?)
}

/// Classes by row of a one-hot array, -1 for a row of zeros; and the number of columns.
fn one_hot(path: &Path, limit: &Limit) -> Result<(Vec<i64>, usize)> {
    unpickled(path, limit, |pickle| {
        let array = pickle.array(pickle.root(), "labels", limit)?;
        array.expect_dims(2)?;
        let (rows, cols) = (array.shape[0], array.shape[1]);
        if cols == 0 || cols as i64 > check::MAX_CLASSES {
            return Err(pickle.bad("labels", format!("has {cols} columns, one a class")));
        }
        let flat = array.into_ints()?;
        limit.take(8 * rows as u64, pickle.file, "labels")?;
        let class = |row: &[i64]| row.iter().position(|&x| x != 0).map_or(-1, |c| c as i64);
        Ok((flat.chunks_exact(cols).map(class).collect(), cols))
    })
}

/// Sparse rows of features.
struct PickledRows {
    indptr: Vec<u64>,
    indices: Vec<u32>,
    data: Vec<f32>,
    cols: usize,
}

impl PickledRows {
    fn n(&self) -> usize {
        self.indptr.len() - 1
    }

    fn read(path: &Path, limit: &Limit) -> Result<PickledRows> {
        unpickled(path, limit, |pickle| {
            let state = pickle.rows(pickle.root(), "features")?;
            let array = |name: &str| {
                let id = pickle.item(state, name);
                let id = id.ok_or_else(|| pickle.bad(name, "is missing"))?;
                pickle.array(id, name, limit)
            };
            let shape = pickle.item(state, "_shape").and_then(|id| pickle.list(id));
            let shape: Vec<i64> = shape
                .unwrap_or(&[])
                .iter()
                .filter_map(|&id| pickle.whole(id))
                .collect();
            let raw = super::Csr {
                indptr: array("indptr")?.into_ints()?,
                indices: array("indices")?.into_ints()?,
                shape,
            };
            let data = array("data")?.into_floats();
            let [indptr, indices] = ["indptr", "indices"];
            let x = raw.checked(pickle.file, [indptr, indices, "_shape"])?;
            if data.len() != x.indices.len() {
                let reason = format!(
                    "expected {} elements like indices, got {}",
                    x.indices.len(),
                    data.len()
                );
                return Err(pickle.bad("data", reason));
            }
            Ok(PickledRows {
                indptr: x.indptr,
                indices: x.indices,
                data,
                cols: x.n_cols,
            })
        })
    }

    /// These rows, then for each further vertex its row of `tested`, if it has one.
    fn with(self, tested: &PickledRows, row_of: &[Option<usize>]) -> CsrBuf {
        let known = self.n();
        let PickledRows {
            mut indptr,
            mut indices,
            mut data,
            cols,
        } = self;
        for row in &row_of[known..] {
            if let Some(k) = row {
                let span = tested.indptr[*k] as usize..tested.indptr[k + 1] as usize;
                indices.extend_from_slice(&tested.indices[span.clone()]);
                data.extend_from_slice(&tested.data[span]);
            }
            indptr.push(indices.len() as u64);
        }
        CsrBuf {
            indptr,
            indices,
            weights: Some(data),
            n_cols: cols,
        }
    }
}

/// Both ends of every edge.
struct Edges {
    src: Vec<u32>,
    dst: Vec<u32>,
}

impl Edges {
    /// A dictionary from a vertex to the list of its neighbours.
    fn read(path: &Path, n: usize, limit: &Limit) -> Result<Edges> {
        unpickled(path, limit, |pickle| {
            let Value::Dict(pairs) = pickle.get(pickle.root()) else {
                return Err(pickle.bad("graph", "is not a dictionary of neighbour lists"));
            };
            let end = |id| match pickle.whole(id) {
                Some(v) if (0..n as i64).contains(&v) => Ok(v as u32),
                Some(v) => Err(pickle.bad(format!("vertex {v}"), format!("is outside 0..{n}"))),
                None => Err(pickle.bad("graph", "holds something else than vertex numbers")),
            };
            let mut edges = Edges {
                src: Vec::new(),
                dst: Vec::new(),
            };
            for &(v, list) in pairs {
                let v = end(v)?;
                let place = format!("vertex {v}");
                let list = pickle.list(list);
                let list = list.ok_or_else(|| pickle.bad(&place, "has no list of neighbours"))?;
                // One list may be the neighbours of many vertices.
                limit.take(16 * list.len() as u64, pickle.file, "edges")?;
                for &u in list {
                    edges.src.push(v);
                    edges.dst.push(end(u)?);
                }
            }
            Ok(edges)
        })
    }
}
