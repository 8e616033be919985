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

/// In-edges that are drawn of a vertex by layer, the first layer first. All of them would be most of a dense graph for
/// every batch.
pub const FAN_OUTS: [&str; 3] = ["5,5", "10,25", "15,10,5"];

/// Seeds of a batch.
pub const BATCHES: [usize; 3] = [128, 1000, 4000];

/// Models that mini-batches are mapped for.
const BATCH_MODELS: usize = 3;

/// What is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Epochs over whole graphs.
    Whole,
    /// Epochs of mini-batches, by `distdgl`, each made when it is asked for.
    Batches,
}

/// One case, as places in these lists; threads are a place in the list that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Of what.
    pub kind: Kind,
    /// Graph.
    pub graph: usize,
    /// Features.
    pub features: usize,
    /// Hidden columns.
    pub hidden: usize,
    /// Layers; for mini-batches fan-outs, of which there are as many.
    pub depth: usize,
    /// Model.
    pub model: usize,
    /// Seeds of a batch.
    pub batch: usize,
    /// Threads.
    pub threads: usize,
}

impl Case {
    /// Its settings as keys of a request, without data.
    pub fn pairs(&self) -> String {
        let model = MODELS[self.model];
        let hidden = HIDDEN[self.hidden];
        // Heads share the columns, as they are joined.
        let (hidden, heads) = match model {
            "gat" => (hidden / 8, "; heads = 8"),
            _ => (hidden, ""),
        };
        let own = format!("model = {model}; hidden = {hidden}{heads}");
        match self.kind {
            Kind::Whole => format!("{own}; layers = {}", LAYERS[self.depth]),
            Kind::Batches => {
                let fan_outs = FAN_OUTS[self.depth];
                let layers = fan_outs.split(',').count();
                format!(
                    "{own}; layers = {layers}; strategy = distdgl; prefetch = 0; fanout = \"{fan_outs}\"; batch = {}",
                    BATCHES[self.batch]
                )
            }
        }
    }

    /// Its features in words.
    pub fn features(&self) -> String {
        let (columns, sparse) = FEATURES[self.features];
        format!("{columns}{}", if sparse { " sparse" } else { "" })
    }

    /// Its layers in words, or its fan-outs and seeds.
    pub fn depth(&self) -> String {
        match self.kind {
            Kind::Whole => LAYERS[self.depth].to_string(),
            Kind::Batches => format!("{} of {}", FAN_OUTS[self.depth], BATCHES[self.batch]),
        }
    }
}

/// `n` cases, ordered by their data so that graphs are read once; all for as many as there are or more.
pub fn cases(kind: Kind, n: usize, threads: usize, seed: u64) -> Vec<Case> {
    let [depths, models, batches] = match kind {
        Kind::Whole => [LAYERS.len(), MODELS.len(), 1],
        Kind::Batches => [FAN_OUTS.len(), BATCH_MODELS, BATCHES.len()],
    };
    let sizes = [
        GRAPHS.len(),
        FEATURES.len(),
        HIDDEN.len(),
        depths,
        models,
        threads,
        batches,
    ];
    let all: usize = sizes.iter().product();
    let case = |at: [usize; 7]| {
        let [graph, features, hidden, depth, model, threads, batch] = at;
        Case {
            kind,
            graph,
            features,
            hidden,
            depth,
            model,
            batch,
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
        let cases = |n, threads, seed| cases(Kind::Whole, n, threads, seed);
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
            kind: Kind::Whole,
            graph: 0,
            features,
            hidden: 1,
            depth: 0,
            model: 2,
            batch: 0,
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
            "model = gat; hidden = 8; heads = 8; layers = 2"
        );
    }

    #[test]
    fn mini_batches_are_requests_of_distdgl() {
        let made = cases(Kind::Batches, 24, 1, 1);
        assert!(made.len() > 20 && made.iter().all(|case| case.model < BATCH_MODELS));
        let all = cases(Kind::Batches, usize::MAX, 1, 1);
        assert_eq!(all.len(), 5 * 5 * 4 * 3 * 3 * 3);
        for case in &all {
            let pairs = crate::request::parse_body(&case.pairs()).expect("pairs");
            let spec = crate::request::parse_pairs(gnn_core::strategy::STRATEGIES, pairs);
            assert_eq!(spec.expect("a request").strategy, "distdgl");
        }
    }
}
