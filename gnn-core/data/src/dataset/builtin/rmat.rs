//! R-MAT: a power-law graph by recursive quadrants.
//!
//! # Paper
//! Chakrabarti, Zhan, Faloutsos, "R-MAT: A Recursive Model for Graph Mining", SDM 2004,
//! <https://doi.org/10.1137/1.9781611972740.43>; quadrant weights and shuffled ids as in the
//! Graph500 specification.
//!
//! # Measured
//! Edges a second and peak memory: `notebooks/measured/data.md`.

use kernels::{Mat, Par, gemm};
use rayon::prelude::*;

use super::sizes::{Sizes, others};
use super::{CLASSES, FEAT, Key, Keys, TEST, TRAIN, VAL, check_size, masks, normal_features};
use crate::Result;
use crate::dataset::{About, Dataset, Features, Task};
use crate::graph::{EdgeOptions, Graph};
use crate::rng::{self, Purpose};

const KEYS: [Key; 7] = [
    Key::count("scale", 12, 1, 30),
    Key::number("edge-factor", 8.0, 0.0, 1e4),
    FEAT,
    CLASSES,
    TRAIN,
    VAL,
    TEST,
];

/// The size of `scale=…,…`, and its parts of it: halves of halves.
pub(super) fn sizes(spec: &str) -> Option<Sizes> {
    let keys = Keys::parse("rmat", &KEYS, spec).ok()?;
    let scale = keys.number("scale");
    let vertices = scale.exp2();
    let others = others(spec, "scale");
    Some(Sizes {
        edges: 2.0 * vertices * keys.number("edge-factor"),
        elements: vertices * keys.number("feat"),
        least: (8.0 * keys.number("edge-factor")).max(16.0 * keys.number("classes")) / vertices,
        part: Box::new(move |share| {
            let part = (scale + share.log2()).round().max(1.0);
            format!("rmat:scale={part}{others}")
        }),
    })
}

/// Weights of the quadrants (0,0), (0,1), (1,0) in 65536ths; the rest is (1,1).
const A: u64 = (0.57 * 65536.0) as u64;
const B: u64 = (0.19 * 65536.0) as u64;
const C: u64 = (0.19 * 65536.0) as u64;

/// `2^scale · edge-factor` drawn edges, made undirected; self loops and repeats are dropped.
/// Features are standard normal; the label is the largest of `classes` random projections of the
/// vertex's features plus the mean of its neighbours', so one propagation suffices to learn it.
pub(super) fn make(name: &str, spec: &str, seed: u64) -> Result<Dataset> {
    let keys = Keys::parse("rmat", &KEYS, spec)?;
    let scale = keys.count("scale") as u32;
    let n = 1usize << scale;
    let m = (n as f64 * keys.number("edge-factor")).round();
    check_size(&keys, n as f64, 2.0 * m)?;
    let (src, dst) = edges(scale, m as u64, seed);
    let graph = Graph::from_edges(n, &src, &dst, EdgeOptions::SIMPLE)?;
    drop((src, dst));
    let k = keys.count("classes");
    let features = normal_features(n, keys.count("feat"), seed, |_, _| ());
    let labels = labels(&graph, &features, k, seed);
    let [train, val, test] = masks(&keys, n, seed);
    Ok(Dataset {
        name: name.into(),
        graph,
        features: Features::Dense(features),
        labels,
        n_classes: k,
        train,
        val,
        test,
        synthetic: true,
        task: Task::NodeClassification,
        multi_labels: None,
        node_types: None,
        links: None,
        about: About::default(),
    })
}

/// `m` directed edges with shuffled ids.
fn edges(scale: u32, m: u64, seed: u64) -> (Vec<u32>, Vec<u32>) {
    let key = rng::key(seed, 0, Purpose::Graph, 0);
    let shuffle = Shuffle::new(scale, seed);
    let (mut src, mut dst) = (Vec::new(), Vec::new());
    // Numbers that a list may have, so that every draw has its place before it is made.
    (0..m as usize)
        .into_par_iter()
        .map(|e| {
            let e = e as u64;
            let (mut s, mut d) = (0u64, 0u64);
            let mut bits = 0;
            for level in 0..scale {
                // 16 bits a level: one draw serves four levels.
                if level % 4 == 0 {
                    bits = rng::at(key, e * 8 + u64::from(level / 4));
                }
                let u = bits & 0xffff;
                bits >>= 16;
                // Without branches, which nobody can foretell.
                let below = u64::from(u >= A + B);
                s = s << 1 | below;
                d = d << 1 | (u64::from(u >= A) ^ below ^ u64::from(u >= A + B + C));
            }
            (shuffle.apply(s), shuffle.apply(d))
        })
        .unzip_into_vecs(&mut src, &mut dst);
    (src, dst)
}

/// A random-looking bijection of `0..2^scale`, so that hubs are not the smallest ids.
pub(super) struct Shuffle {
    mask: u64,
    half: u32,
    factors: [u64; 3],
}

impl Shuffle {
    pub(super) fn new(scale: u32, seed: u64) -> Shuffle {
        let key = rng::key(seed, 0, Purpose::Shuffle, 0);
        // Odd factors are invertible modulo a power of two.
        let factors = [0, 1, 2].map(|k| rng::at(key, k) | 1);
        Shuffle {
            mask: (1 << scale) - 1,
            half: scale.div_ceil(2),
            factors,
        }
    }

    pub(super) fn apply(&self, v: u64) -> u32 {
        let mut x = v ^ (self.factors[0] >> 32 & self.mask);
        for factor in self.factors {
            x = x.wrapping_mul(factor) & self.mask;
            x ^= x >> self.half;
        }
        x as u32
    }
}

/// The class of each vertex from the features of its neighbourhood.
fn labels(graph: &Graph, x: &Mat, classes: usize, seed: u64) -> Vec<i32> {
    let key = rng::key(seed, 0, Purpose::Labels, 0);
    let w = Mat::from_shape_fn((x.ncols(), classes), |(r, c)| {
        rng::normal(key, (r * classes + c) as u64)
    });
    let mut scores = Mat::zeros((x.nrows(), classes));
    // The result does not depend on the number of threads.
    gemm::gemm_into(
        &Par::new(rayon::current_num_threads()),
        false,
        false,
        x,
        &w,
        0.0,
        &mut scores,
    );
    let scores = scores.as_slice().expect("made in one piece");
    match classes {
        // Sums that stay in registers, for the classes that are the default.
        4 => {
            let rows = scores.as_chunks::<4>().0;
            largest(graph, |v| &rows[v][..], || [0f64; 4])
        }
        k => largest(graph, |v| &scores[v * k..][..k], || vec![0f64; k]),
    }
}

/// The column of each vertex in which its own row of scores and the mean of its neighbours' are
/// largest together. `row` gives that of a vertex, `zeros` makes one of sums.
fn largest<'a, S: AsMut<[f64]> + Send>(
    graph: &Graph,
    row: impl Fn(usize) -> &'a [f32] + Sync,
    zeros: impl Fn() -> S + Sync + Send,
) -> Vec<i32> {
    let of = |sum: &mut S, v: usize| {
        let sum = sum.as_mut();
        sum.fill(0.0);
        let neighbours = graph.neighbours(v);
        for &u in neighbours {
            sum.iter_mut()
                .zip(row(u as usize))
                .for_each(|(s, &x)| *s += f64::from(x));
        }
        let mean = 1.0 / neighbours.len().max(1) as f64;
        let total = sum
            .iter()
            .zip(row(v))
            .map(|(s, &own)| s * mean + f64::from(own));
        let best = total.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        best.map_or(0, |(c, _)| c as i32)
    };
    let vertices = (0..graph.n()).into_par_iter();
    vertices.map_init(zeros, of).collect()
}
