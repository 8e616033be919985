//! Planted partition (stochastic block model): classes that are communities.
//!
//! # Paper
//! Condon, Karp, "Algorithms for Graph Partitioning on the Planted Partition Model", Random
//! Structures & Algorithms 18(2), 2001.

use rayon::prelude::*;

use super::sizes::{Sizes, others};
use super::{CLASSES, FEAT, Key, Keys, TEST, TRAIN, VAL, check_size, masks, normal_features};
use crate::Result;
use crate::dataset::{About, Dataset, Features, Task};
use crate::graph::{EdgeOptions, Graph};
use crate::rng::{self, Purpose};

/// `homophily` is the share of edges within a class; `signal` the size of a class's mean feature
/// vector relative to the noise of one feature; with `multilabel` every vertex is in two classes
/// (perhaps twice the same), joined to members of either, with the features of both.
const KEYS: [Key; 10] = [
    Key::count("nodes", 1000, 1, 1 << 31),
    CLASSES,
    FEAT,
    Key::number("degree", 10.0, 0.0, 1e6),
    Key::number("homophily", 0.8, 0.0, 1.0),
    Key::number("signal", 1.0, 0.0, 1e3),
    Key::flag("multilabel"),
    TRAIN,
    VAL,
    TEST,
];

/// The size of `nodes=…,…`, and its parts of it.
pub(super) fn sizes(spec: &str) -> Option<Sizes> {
    let keys = Keys::parse("sbm", &KEYS, spec).ok()?;
    let nodes = keys.number("nodes");
    let others = others(spec, "nodes");
    Some(Sizes {
        edges: nodes * keys.number("degree"),
        elements: nodes * keys.number("feat"),
        least: (4.0 * keys.number("degree")).max(16.0 * keys.number("classes")) / nodes,
        part: Box::new(move |share| format!("sbm:nodes={}{others}", (share * nodes).round())),
    })
}

/// `n · degree / 2` undirected edges between random vertices, of which self loops and repeats are
/// dropped. Features are a class mean plus standard normal noise.
pub(super) fn make(name: &str, spec: &str, seed: u64) -> Result<Dataset> {
    let keys = Keys::parse("sbm", &KEYS, spec)?;
    let (n, k, d) = (
        keys.count("nodes"),
        keys.count("classes"),
        keys.count("feat"),
    );
    let m = (n as f64 * keys.number("degree") / 2.0).round();
    check_size(&keys, n as f64, 2.0 * m)?;
    let key = rng::key(seed, 0, Purpose::Labels, 0);
    let labels: Vec<i32> = (0..n as u64)
        .into_par_iter()
        .map(|v| rng::below(key, v, k as u64) as i32)
        .collect();
    // Classes of each vertex: `[n · each]`.
    let multi = keys.flag("multilabel");
    let each = 1 + usize::from(multi);
    let second = rng::key(seed, 0, Purpose::Labels, 1);
    let classes: Vec<u32> = (0..n * each)
        .map(|i| match (i / each, i % each) {
            (v, 0) => labels[v] as u32,
            (v, _) => rng::below(second, v as u64, k as u64) as u32,
        })
        .collect();
    let planted = Planted::new(&classes, each, k);
    let (src, dst) = planted.edges(m as u64, keys.number("homophily"), seed);
    let means = rng::key(seed, 0, Purpose::Features, 1);
    let scale = keys.number("signal") as f32 / (d as f32).sqrt();
    let means: Vec<f32> = (0..(k * d) as u64)
        .map(|c| rng::normal(means, c) * scale)
        .collect();
    let features = normal_features(n, d, seed, |v, x| {
        for &c in &classes[v * each..][..each] {
            let mean = &means[c as usize * d..][..d];
            x.iter_mut().zip(mean).for_each(|(x, s)| *x += s);
        }
    });
    let multi_labels = multi.then(|| {
        let mut out = vec![0; n * k];
        for (i, &c) in classes.iter().enumerate() {
            out[i / each * k + c as usize] = 1;
        }
        out
    });
    // Which classes a vertex has is in `multi_labels`; here only that they are known.
    let labels = if multi { vec![0; n] } else { labels };
    let [train, val, test] = masks(&keys, n, seed);
    Ok(Dataset {
        name: name.into(),
        graph: Graph::from_edges(n, &src, &dst, EdgeOptions::SIMPLE)?,
        features: Features::Dense(features),
        labels,
        n_classes: k,
        train,
        val,
        test,
        synthetic: true,
        task: if multi {
            Task::MultiLabel
        } else {
            Task::NodeClassification
        },
        multi_labels,
        node_types: None,
        links: None,
        about: About::default(),
    })
}

/// Vertices by class.
struct Planted<'a> {
    classes: &'a [u32],
    /// Classes of a vertex.
    each: usize,
    /// Where each class starts among the members.
    start: Vec<u64>,
    /// Members of the classes one after the other; a vertex is there once a class of it.
    members: Vec<u32>,
}

impl Planted<'_> {
    /// Members of `count` classes, from the `each` classes of every vertex in turn.
    fn new(classes: &[u32], each: usize, count: usize) -> Planted<'_> {
        let mut start = vec![0u64; count + 1];
        classes.iter().for_each(|&c| start[c as usize + 1] += 1);
        (0..count).for_each(|c| start[c + 1] += start[c]);
        let mut members = vec![0u32; classes.len()];
        let mut next = start.clone();
        for (i, &c) in classes.iter().enumerate() {
            members[next[c as usize] as usize] = (i / each) as u32;
            next[c as usize] += 1;
        }
        Planted {
            classes,
            each,
            start,
            members,
        }
    }

    /// `m` random edges, a share `homophily` of them within a class.
    fn edges(&self, m: u64, homophily: f64, seed: u64) -> (Vec<u32>, Vec<u32>) {
        let total = self.members.len() as u64;
        let keys = [0, 1, 2].map(|layer| rng::key(seed, 0, Purpose::Graph, layer));
        (0..m)
            .into_par_iter()
            .map(|e| {
                let i = rng::below(keys[0], e, total) as usize;
                let class = self.classes[i] as usize;
                let (first, end) = (self.start[class], self.start[class + 1]);
                let others = total - (end - first);
                let inside = others == 0 || rng::uniform_f64(keys[1], e) < homophily;
                let at = if inside {
                    first + rng::below(keys[2], e, end - first)
                } else {
                    let k = rng::below(keys[2], e, others);
                    if k < first { k } else { k + (end - first) }
                };
                ((i / self.each) as u32, self.members[at as usize])
            })
            .unzip()
    }
}
