//! Small random data sets for unit tests, of this crate and, by its path, of the one above.

use crate::dataset::{About, Dataset, Features, Task};
use crate::graph::{EdgeOptions, Graph, Relations};
use crate::rng;
use kernels::Mat;

/// A random directed data set: repeated edges, self loops and isolated vertices included.
pub(crate) fn random_dataset(
    n: usize,
    edges: usize,
    d: usize,
    classes: usize,
    sparse: bool,
    seed: u64,
) -> Dataset {
    let pick = |i: u64, below: u64| rng::at(seed, i) % below;
    // The last tenth of the vertices stays isolated.
    let active = (n - n / 10).max(1) as u64;
    let ends: Vec<(u32, u32)> = (0..edges as u64)
        .map(|e| (pick(2 * e, active) as u32, pick(2 * e + 1, active) as u32))
        .collect();
    let (src, dst): (Vec<u32>, Vec<u32>) = ends.into_iter().unzip();
    let graph = Graph::from_edges(n, &src, &dst, EdgeOptions::AS_IS).expect("edges are in range");
    let value = |v: usize, c: usize| {
        let x = rng::uniform_f32(seed ^ 1, (v * d + c) as u64) * 2.0 - 1.0;
        if sparse && x < 0.4 { 0.0 } else { x }
    };
    let dense = Mat::from_shape_fn((n, d), |(v, c)| value(v, c));
    let features = if sparse {
        Features::Sparse(to_sparse(&dense))
    } else {
        Features::Dense(dense)
    };
    let role = |v: usize| pick(1_000_000 + v as u64, 4);
    Dataset {
        name: "random".into(),
        graph,
        features,
        labels: (0..n)
            .map(|v| pick(2_000_000 + v as u64, classes as u64) as i32)
            .collect(),
        n_classes: classes,
        train: (0..n).map(|v| role(v) < 2).collect(),
        val: (0..n).map(|v| role(v) == 2).collect(),
        test: (0..n).map(|v| role(v) == 3).collect(),
        synthetic: true,
        task: Task::NodeClassification,
        multi_labels: None,
        node_types: None,
        links: None,
        about: About::default(),
    }
}

/// The same data with a relation drawn for each edge.
pub(crate) fn with_relations(mut data: Dataset, count: usize, seed: u64) -> Dataset {
    let graph = &data.graph;
    let n = graph.n();
    let dst: Vec<u32> = (0..n)
        .flat_map(|v| std::iter::repeat_n(v as u32, graph.in_degree(v)))
        .collect();
    let types = (0..dst.len() as u64).map(|e| rng::below(seed, e, count as u64) as u16);
    let relations = Relations::new(types.collect(), count).expect("below their number");
    let typed = Graph::from_typed_edges(n, graph.indices(), &dst, &relations);
    data.graph = typed.expect("the graph's own edges");
    data
}

fn to_sparse(x: &Mat) -> kernels::CsrBuf {
    let mut out = kernels::CsrBuf {
        weights: Some(Vec::new()),
        ..kernels::CsrBuf::empty(x.ncols())
    };
    for row in x.rows() {
        for (c, &value) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
            out.indices.push(c as u32);
            out.weights.get_or_insert_default().push(value);
        }
        out.indptr.push(out.indices.len() as u64);
    }
    out
}
