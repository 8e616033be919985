//! What METIS refines, foreseen: how many vertices of each level have neighbours in other parts, and in
//! how many.
//!
//! Refinement works on the border between parts alone, so a graph of communities takes a fraction of
//! what one without takes. The border is that of METIS's own parts of the coarsest level, made of a
//! sample of the edges; its vertices are counted in a sample of those of every level.

use kernels::hash::mix64;
use metis::Idx;
use metis::option::{NIter, Seed};
use rayon::prelude::*;

use super::coarsening::Clusters;
use super::metis::{NIPARTS, ONE_AT_A_TIME};
use crate::graph::Graph;
use std::sync::PoisonError;

/// Edges of the coarsest level that its parts are made of, and of each level that are looked at; about.
const EDGES: usize = 1 << 16;

/// Some vertices of a level.
pub(super) struct Sampled {
    /// Vertices of the graph that each is made of.
    members: Vec<Vec<u32>>,
    /// Vertices of the level.
    count: usize,
}

impl Sampled {
    pub fn of(clusters: &Clusters) -> Sampled {
        let count = clusters.count();
        let (mut members, mut edges) = (Vec::new(), 0);
        // Each drawn vertex of the graph stands for its cluster; large ones come no more often than others.
        for draw in 0..count as u64 {
            let a = (mix64(draw) % count as u64) as u32;
            let of = clusters.members(a).to_vec();
            let degree = |&v: &u32| clusters.graph.in_degree(v as usize);
            edges += of.iter().map(degree).sum::<usize>();
            members.push(of);
            if edges >= EDGES {
                break;
            }
        }
        Sampled { members, count }
    }

    /// Other parts that the level's vertices have neighbours in, summed, and how many vertices have any.
    pub fn count(&self, graph: &Graph, owner: &[u32], parts: usize) -> (f64, f64) {
        let mut met = vec![usize::MAX; parts];
        let (mut near, mut border) = (0, 0);
        for (k, members) in self.members.iter().enumerate() {
            let before = near;
            let own = members.first().map_or(0, |&v| owner[v as usize]);
            met[own as usize] = k;
            for &v in members {
                for &s in graph.neighbours(v as usize) {
                    let p = owner[s as usize] as usize;
                    near += usize::from(met[p] != k);
                    met[p] = k;
                }
            }
            border += usize::from(near > before);
        }
        let all = self.count as f64 / self.members.len().max(1) as f64;
        (near as f64 * all, border as f64 * all)
    }
}

/// The part of each vertex of the graph, if the clusters are cut by some of the edges between them: `[n]`.
pub(super) fn parted(clusters: &Clusters, parts: usize) -> Vec<u32> {
    let (graph, count) = (clusters.graph, clusters.count());
    let bits = (graph.n_edges() / 2 / EDGES).max(1).ilog2();
    let drawn = |v: u32, s: u32| {
        let key = u64::from(v) << 32 | u64::from(s);
        v < s && (bits == 0 || mix64(key) >> (64 - bits) == 0)
    };
    let row = |v: u32| {
        let a = clusters.of[v as usize];
        let ends = graph
            .neighbours(v as usize)
            .iter()
            .filter(move |&&s| drawn(v, s));
        let ends = ends
            .map(|&s| clusters.of[s as usize])
            .filter(move |&b| a != b);
        ends.flat_map(move |b| {
            [
                u64::from(a) << 32 | u64::from(b),
                u64::from(b) << 32 | u64::from(a),
            ]
        })
    };
    let mut pairs: Vec<u64> = (0..graph.n() as u32)
        .into_par_iter()
        .flat_map_iter(row)
        .collect();
    pairs.par_sort_unstable();
    let (mut xadj, mut adjncy, mut weights) = (vec![0 as Idx; count + 1], Vec::new(), Vec::new());
    for same in pairs.chunk_by(|a, b| a == b) {
        xadj[(same[0] >> 32) as usize + 1] += 1;
        adjncy.push(same[0] as u32 as Idx);
        weights.push(same.len() as Idx);
    }
    (0..count).for_each(|a| xadj[a + 1] += xadj[a]);
    let total: u64 = clusters.weight.iter().sum();
    let scale = (f64::from(Idx::MAX) / 4.0 / total.max(1) as f64).min(1.0);
    let heavy: Vec<Idx> = clusters
        .weight
        .iter()
        .map(|&w| (w as f64 * scale) as Idx + 1)
        .collect();
    let mut part = vec![0 as Idx; count];
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut options = [-1 as Idx; metis::NOPTIONS];
    options[NIPARTS] = 1;
    let cut = |part: &mut [Idx]| {
        let metis = metis::Graph::new(1, parts as Idx, &xadj, &adjncy).ok()?;
        let metis = metis.set_vwgt(&heavy).set_adjwgt(&weights);
        let metis = metis.set_options(&options).set_option(NIter(3));
        metis.set_option(Seed(1)).part_kway(part).ok()
    };
    let known = parts < count && cut(&mut part).is_some();
    drop(guard);
    if !known {
        // As if nobody knew of any community.
        part = (0..count)
            .map(|a| (mix64(a as u64) % parts as u64) as Idx)
            .collect();
    }
    clusters
        .of
        .iter()
        .map(|&a| part[a as usize] as u32)
        .collect()
}
