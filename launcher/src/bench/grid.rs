//! A map of epochs over graphs, features, widths, depths and models: which cases, and on what data.
//!
//! All of them are thousands. A sample takes of each setting every value about equally often, in an order that
//! depends on the seed only; the same numbers choose the same cases on every machine.

use crate::error::Result;
use gnn_core::dataset::{self, Dataset, Features};
use gnn_core::rng::{self, Purpose};
use kernels::{CsrBuf, Mat};
use std::sync::Arc;

/// Graphs; features are put in the place of their own.
pub const GRAPHS: [(&str, &str); 5] = [
    ("R-MAT", "rmat:scale=15,edge-factor=16,classes=16"),
    (
        "planted",
        "sbm:nodes=50000,classes=16,degree=16,homophily=0.5",
    ),
    ("like Flickr", "like:flickr"),
    ("like Reddit", "like:reddit,scale=0.1"),
    ("like products", "like:ogbn-products,scale=0.02"),
];

/// Columns of features, and whether rows are sparse.
pub const FEATURES: [(usize, bool); 5] = [
    (16, false),
    (100, false),
    (500, false),
    (602, false),
    (1433, true),
];

/// Elements of a sparse row that are not zero, as Cora's 18 words.
const WORDS: usize = 18;

/// Columns of hidden layers.
pub const HIDDEN: [usize; 4] = [16, 64, 256, 512];

/// Layers.
pub const LAYERS: [usize; 3] = [2, 3, 5];

/// Models.
pub const MODELS: [&str; 5] = ["gcn", "sage", "gat", "gin", "gcnii"];

/// One case, as places in these lists; threads are a place in the list that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Graph.
    pub graph: usize,
    /// Features.
    pub features: usize,
    /// Hidden columns.
    pub hidden: usize,
    /// Layers.
    pub layers: usize,
    /// Model.
    pub model: usize,
    /// Threads.
    pub threads: usize,
}

impl Case {
    /// Its settings as keys of a request, without data.
    pub fn pairs(&self) -> String {
        let (model, layers) = (MODELS[self.model], LAYERS[self.layers]);
        let hidden = HIDDEN[self.hidden];
        // Heads share the columns, as they are joined.
        let (hidden, heads) = match model {
            "gat" => (hidden / 8, "; heads = 8"),
            _ => (hidden, ""),
        };
        format!("model = {model}; layers = {layers}; hidden = {hidden}{heads}")
    }

    /// Its features in words.
    pub fn features(&self) -> String {
        let (columns, sparse) = FEATURES[self.features];
        format!("{columns}{}", if sparse { " sparse" } else { "" })
    }
}

/// `n` cases, ordered by their data so that graphs are read once; all for as many as there are or more.
pub fn cases(n: usize, threads: usize, seed: u64) -> Vec<Case> {
    let sizes = [
        GRAPHS.len(),
        FEATURES.len(),
        HIDDEN.len(),
        LAYERS.len(),
        MODELS.len(),
        threads,
    ];
    let all: usize = sizes.iter().product();
    let case = |at: [usize; 6]| {
        let [graph, features, hidden, layers, model, threads] = at;
        Case {
            graph,
            features,
            hidden,
            layers,
            model,
            threads,
        }
    };
    let mut cases: Vec<Case> = if n >= all {
        let at = |mut k: usize| {
            sizes.map(|size| {
                let place = k % size;
                k /= size;
                place
            })
        };
        (0..all).map(|k| case(at(k))).collect()
    } else {
        // Every setting goes round its values in an order of its own.
        let columns: Vec<Vec<usize>> = (0..sizes.len())
            .map(|setting| {
                let mut column: Vec<usize> = (0..n).map(|k| k % sizes[setting]).collect();
                rng::shuffle(
                    rng::key(seed, 0, Purpose::Split, setting as u64),
                    &mut column,
                );
                column
            })
            .collect();
        (0..n)
            .map(|k| case(std::array::from_fn(|setting| columns[setting][k])))
            .collect()
    };
    cases.sort();
    cases.dedup();
    cases
}

/// The graph of a case with its own labels, and features of the case's width.
///
/// # Errors
/// What making the graph reports.
pub fn graph(case: &Case) -> Result<Dataset> {
    Ok(dataset::load(GRAPHS[case.graph].1, 1)?)
}

/// The same graph with the features of a case.
pub fn with_features(graph: &Dataset, case: &Case) -> Arc<Dataset> {
    let (columns, sparse) = FEATURES[case.features];
    let n = graph.n();
    let key = rng::key(1, 0, Purpose::Features, columns as u64);
    let features = if sparse {
        let word = |k: usize| rng::below(key, k as u64, columns as u64) as u32;
        let mut x = CsrBuf::empty(columns);
        for v in 0..n {
            let mut row: Vec<u32> = (v * WORDS..(v + 1) * WORDS).map(word).collect();
            row.sort_unstable();
            row.dedup();
            x.indices.extend(row);
            x.indptr.push(x.indices.len() as u64);
        }
        Features::Sparse(x)
    } else {
        let value = |(v, c): (usize, usize)| rng::uniform_f32(key, (v * columns + c) as u64) - 0.5;
        Features::Dense(Mat::from_shape_fn((n, columns), value))
    };
    Arc::new(Dataset {
        features,
        ..graph.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_sample_is_even_and_repeatable() {
        let made = cases(60, 2, 7);
        assert_eq!(made, cases(60, 2, 7));
        assert!(made.len() > 55, "few are alike: {}", made.len());
        let mut models: BTreeMap<usize, usize> = BTreeMap::new();
        made.iter()
            .for_each(|case| *models.entry(case.model).or_default() += 1);
        assert!(models.values().all(|&n| n >= 9), "{models:?}");
        assert_ne!(made, cases(60, 2, 8));
        assert_eq!(cases(usize::MAX, 1, 0).len(), 5 * 5 * 4 * 3 * 5);
    }

    #[test]
    fn features_take_the_place_of_a_graphs_own() {
        let graph = dataset::load("karate", 0).expect("built in");
        let case = |features| Case {
            graph: 0,
            features,
            hidden: 1,
            layers: 0,
            model: 2,
            threads: 0,
        };
        let dense = with_features(&graph, &case(1));
        assert_eq!((dense.features.n(), dense.features.dim()), (34, 100));
        dense.check_values().expect("sound");
        let sparse = with_features(&graph, &case(4));
        assert_eq!((sparse.features.n(), sparse.features.dim()), (34, 1433));
        sparse.check_values().expect("sound");
        assert_eq!(
            case(1).pairs(),
            "model = gat; layers = 2; hidden = 8; heads = 8"
        );
    }
}
