//! Edges held out for link prediction.
//!
//! The pairs that validate and test leave the graph, in both directions and every relation, so that
//! what is left can carry messages without giving them away. As many pairs without an edge are
//! drawn beside them.
//!
//! # Paper
//! Kipf & Welling, "Variational Graph Auto-Encoders", 2016, section 3 (85 % of the undirected edges
//! to train on, 5 % and 10 % held out), <https://arxiv.org/abs/1611.07308>.

use std::collections::HashSet;
use std::path::Path;

use crate::Result;
use crate::dataset::archive::Archive;
use crate::dataset::{Dataset, Limit, Pairing, Task, bad};
use crate::graph::Graph;
use crate::rng::{self, Purpose};

/// Two vertices.
pub type Pair = [u32; 2];

/// Pairs for link prediction; of an undirected edge one direction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Links {
    /// Edges that are trained on.
    pub train: Vec<Pair>,
    /// Edges that choose the epoch.
    pub val: Vec<Pair>,
    /// Edges that only report.
    pub test: Vec<Pair>,
    /// Pairs without an edge, beside `val`.
    pub val_neg: Vec<Pair>,
    /// Pairs without an edge, beside `test`.
    pub test_neg: Vec<Pair>,
    /// Pairs without an edge that every epoch draws for each one that is trained on.
    pub negatives: usize,
    /// Where vertices are trained on and not edges: what is drawn for each.
    pub pairing: Option<Pairing>,
}

impl Links {
    /// The vertices that are trained on where edges are not: those with a neighbour, ascending.
    pub fn seeds(&self) -> Vec<u32> {
        let joins = self.train.iter().filter(|[u, v]| u != v);
        let mut seeds: Vec<u32> = joins.flatten().copied().collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds
    }

    /// Terms of the loss in an epoch: pairs that are trained on, and those beside them.
    pub fn terms(&self) -> usize {
        let positives = match self.pairing {
            None => self.train.len(),
            Some(pairing) => self.seeds().len() * pairing.positives(),
        };
        positives * (1 + self.negatives)
    }

    /// The edges that are held out, the smaller vertex first.
    fn held(&self) -> HashSet<Pair> {
        let edges = self.val.iter().chain(&self.test);
        edges.map(|&p| sorted(p)).collect()
    }
}

/// Shares of the edges that validate and test.
const SHARES: [f64; 2] = [0.05, 0.10];

/// Draws of a pair without an edge before the graph counts as too dense.
const ATTEMPTS: u64 = 1000;

/// Makes link prediction the task of `data`, with the pairs of the file `given` or, without one, a
/// split that depends on the graph alone. Reading the file stays within `limit`.
pub(crate) fn hold_out(
    data: &mut Dataset,
    given: Option<&Path>,
    negatives: usize,
    limit: &Limit,
) -> Result<()> {
    let mut links = match given {
        Some(path) => read(path, &data.graph, limit)?,
        None => draw(&data.name, &data.graph)?,
    };
    links.negatives = negatives;
    let held = links.held();
    data.graph = data.graph.filtered(|s, d| !held.contains(&sorted([s, d])));
    data.links = Some(links);
    data.task = Task::LinkPrediction;
    Ok(())
}

/// The pair with the smaller vertex first: what it is without direction.
fn sorted([u, v]: Pair) -> Pair {
    [u.min(v), u.max(v)]
}

/// Whether the graph has an edge between them in either direction.
fn joined(graph: &Graph, [u, v]: Pair) -> bool {
    let has = |s: u32, d: u32| graph.neighbours(d as usize).binary_search(&s).is_ok();
    has(u, v) || has(v, u)
}

fn draw(name: &str, graph: &Graph) -> Result<Links> {
    let mut pairs: Vec<Pair> = (0..graph.n() as u32)
        .flat_map(|v| graph.neighbours(v as usize).iter().map(move |&u| [u, v]))
        .filter(|[u, v]| u != v)
        .map(sorted)
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    // The split belongs to the data, not to a run: it does not depend on a seed.
    rng::shuffle(rng::key(0, 0, Purpose::Split, 1), &mut pairs);
    let share = |part: f64| ((pairs.len() as f64 * part).round() as usize).max(1);
    let [val, test] = SHARES.map(share);
    if pairs.len() <= val + test {
        return Err(bad(
            name,
            "edges",
            format!("{} undirected edges are too few", pairs.len()),
            "link prediction holds out some edges; give a graph with more of them",
        ));
    }
    let mut seen = HashSet::new();
    let [val_neg, test_neg] = negatives(name, graph, [val, test], &mut seen)?;
    let test_pairs = pairs.split_off(pairs.len() - test);
    let val_pairs = pairs.split_off(pairs.len() - val);
    Ok(Links {
        train: pairs,
        val: val_pairs,
        test: test_pairs,
        val_neg,
        test_neg,
        negatives: 1,
        pairing: None,
    })
}

/// A given split of a graph that has the training edges alone; pairs without an edge are drawn
/// beside those that validate and test.
pub(crate) fn given(
    name: &str,
    graph: &Graph,
    [train, val, test]: [Vec<Pair>; 3],
) -> Result<Links> {
    let held = val.iter().chain(&test);
    let mut seen = held.map(|&p| sorted(p)).collect();
    let counts = [val.len(), test.len()];
    let [val_neg, test_neg] = negatives(name, graph, counts, &mut seen)?;
    Ok(Links {
        train,
        val,
        test,
        val_neg,
        test_neg,
        negatives: 1,
        pairing: None,
    })
}

/// Pairs of two vertices that no edge joins and that are not in `seen`, without repeats.
fn negatives(
    name: &str,
    graph: &Graph,
    counts: [usize; 2],
    seen: &mut HashSet<Pair>,
) -> Result<[Vec<Pair>; 2]> {
    let mut without = |count: usize, layer: u64| -> Result<Vec<Pair>> {
        let key = rng::key(0, 0, Purpose::Split, layer);
        (0..count as u64)
            .map(|e| {
                (0..ATTEMPTS)
                    .map(|k| random_pair(key, e * ATTEMPTS + k, graph.n()))
                    .map(sorted)
                    .find(|&p| p[0] != p[1] && !joined(graph, p) && seen.insert(p))
                    .ok_or_else(|| {
                        bad(
                            name,
                            "edges",
                            "hardly any two vertices are without an edge",
                            "link prediction needs pairs that are not joined; give a sparser graph",
                        )
                    })
            })
            .collect()
    };
    Ok([without(counts[0], 2)?, without(counts[1], 3)?])
}

/// Two of `n` vertices, perhaps the same one, for `counter` under `key`.
#[inline]
pub fn random_pair(key: u64, counter: u64, n: usize) -> Pair {
    [0, 1].map(|k| rng::below(key, 2 * counter + k, n as u64) as u32)
}

fn read(path: &Path, graph: &Graph, limit: &Limit) -> Result<Links> {
    let mut archive = Archive::open(path, limit)?;
    let mut list = |name: &str, edges: Option<bool>| -> Result<Vec<Pair>> {
        let array = archive.array(name)?;
        array.expect_dims(2)?;
        let file = archive.file.as_str();
        if array.shape[1] != 2 || array.shape[0] == 0 {
            let reason = format!("expected some pairs, got the shape {:?}", array.shape);
            return Err(bad(file, name, reason, "save one pair of vertices a row"));
        }
        let n = graph.n() as i64;
        let mut pairs = Vec::new();
        for (k, pair) in array.into_ints()?.chunks_exact(2).enumerate() {
            let place = format!("{name}[{k}]");
            if let Some(v) = pair.iter().find(|v| !(0..n).contains(v)) {
                let reason = format!("vertex {v} is outside 0..{n}");
                return Err(bad(file, place, reason, "number the vertices from 0"));
            }
            let pair = [pair[0] as u32, pair[1] as u32];
            if let Some(expected) = edges
                && joined(graph, pair) != expected
            {
                let is = if expected { "no edge" } else { "an edge" };
                let reason = format!("{} and {} have {is} in the graph", pair[0], pair[1]);
                let help = "training pairs are edges of the graph, negative ones are not";
                return Err(bad(file, place, reason, help));
            }
            pairs.push(pair);
        }
        Ok(pairs)
    };
    let links = Links {
        train: list("train_pos", Some(true))?,
        val: list("val_pos", None)?,
        test: list("test_pos", None)?,
        val_neg: list("val_neg", Some(false))?,
        test_neg: list("test_neg", Some(false))?,
        negatives: 1,
        pairing: None,
    };
    let held = links.held();
    match links.train.iter().position(|&p| held.contains(&sorted(p))) {
        None => Ok(links),
        Some(k) => Err(bad(
            &archive.file,
            format!("train_pos[{k}]"),
            "is also held out",
            "put every pair into at most one of training, validation and test",
        )),
    }
}
