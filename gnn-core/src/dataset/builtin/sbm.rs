//! Planted partition (stochastic block model): classes that are communities.
//!
//! # Paper
//! Condon, Karp, "Algorithms for Graph Partitioning on the Planted Partition Model", Random
//! Structures & Algorithms 18(2), 2001.

use rayon::prelude::*;

use super::{CLASSES, FEAT, Key, Keys, TEST, TRAIN, VAL, check_size, masks, normal_features};
use crate::Result;
use crate::dataset::{Dataset, Features, Task};
use crate::graph::{EdgeOptions, Graph};
use crate::rng::{self, Purpose};

/// `homophily` is the share of edges within a class; `signal` the size of a class's mean feature
/// vector relative to the noise of one feature.
const KEYS: [Key; 9] = [
    Key::count("nodes", 1000, 1, 1 << 31),
    CLASSES,
    FEAT,
    Key::number("degree", 10.0, 0.0, 1e6),
    Key::number("homophily", 0.8, 0.0, 1.0),
    Key::number("signal", 1.0, 0.0, 1e3),
    TRAIN,
    VAL,
    TEST,
];

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
    let (src, dst) = edges(&labels, k, m as u64, keys.number("homophily"), seed);
    let means = rng::key(seed, 0, Purpose::Features, 1);
    let scale = keys.number("signal") as f32 / (d as f32).sqrt();
    let means: Vec<f32> = (0..(k * d) as u64)
        .map(|c| rng::normal(means, c) * scale)
        .collect();
    let features = normal_features(n, d, seed, |v| &means[labels[v] as usize * d..][..d]);
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
        task: Task::NodeClassification,
    })
}

/// `m` random edges, a share `homophily` of them within a class.
fn edges(
    labels: &[i32],
    classes: usize,
    m: u64,
    homophily: f64,
    seed: u64,
) -> (Vec<u32>, Vec<u32>) {
    let n = labels.len() as u64;
    // Vertices by class, and where each class starts.
    let mut start = vec![0u64; classes + 1];
    labels.iter().for_each(|&c| start[c as usize + 1] += 1);
    (0..classes).for_each(|c| start[c + 1] += start[c]);
    let mut members = vec![0u32; labels.len()];
    let mut next = start.clone();
    for (v, &c) in labels.iter().enumerate() {
        members[next[c as usize] as usize] = v as u32;
        next[c as usize] += 1;
    }
    let keys = [0, 1, 2].map(|layer| rng::key(seed, 0, Purpose::Graph, layer));
    (0..m)
        .into_par_iter()
        .map(|e| {
            let s = rng::below(keys[0], e, n);
            let class = labels[s as usize] as usize;
            let (first, end) = (start[class], start[class + 1]);
            let others = n - (end - first);
            let inside = others == 0 || rng::uniform_f64(keys[1], e) < homophily;
            let at = if inside {
                first + rng::below(keys[2], e, end - first)
            } else {
                let k = rng::below(keys[2], e, others);
                if k < first { k } else { k + (end - first) }
            };
            (s as u32, members[at as usize])
        })
        .unzip()
}
