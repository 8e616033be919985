//! What batches read of other ranks' vertices: a cache a layer, the edges that are dropped, and what all that
//! comes to.
//!
//! # Paper
//! DistGNN-MB § 3.2: every layer has a HEC, the features included; a miss takes the vertex out of the batch.
//! # Differs
//! What is left of a row's edges counts for all that were drawn, of each type where edges have types: weights are
//! multiplied by edges drawn over edges kept. The paper says nothing; without it, means of few would be small. A
//! row that loses all its edges reads zeros. Attention's softmax is over what is kept.

use super::hec::{Hec, Stored};
use crate::feed::{Historical, RowData};
use crate::sample::Hop;
use kernels::Par;
use std::ops::Range;

/// How far ahead of its use a vertex's place is asked for.
const AHEAD: usize = 16;

/// What becomes of a vertex that is in no cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Miss {
    /// It is dropped with its edges, and weights of the others grow where there are any.
    Drop { rescale: bool },
    /// Its owner draws its neighbours, or gives its features.
    Fetch,
}

/// The caches of a rank.
pub(super) struct Caches {
    /// The numbers of its own vertices.
    own: Range<u32>,
    miss: Miss,
    pub(super) layers: Vec<LayerCache>,
    /// The step at hand, counted over the run, and whether it looks rows up.
    now: u64,
    open: bool,
}

/// One layer's.
pub(super) struct LayerCache {
    pub(super) hec: Hec,
    /// Whether it was filled before the first step and stays so.
    pub(super) fixed: bool,
    /// Of this rank's vertices, those that the batch at hand reads, by their place here, and where they
    /// are among the rows below.
    pub(super) own: Vec<u32>,
    pub(super) places: Vec<u32>,
    /// How many rows below the batch reads, and the lines that follow.
    pub(super) below: usize,
    pub(super) lines: Vec<u32>,
    pub(super) counts: Counts,
}

/// What an epoch came to in one layer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Vertices of others looked for, each once a batch, and found.
    pub(super) lookups: u64,
    pub(super) hits: u64,
    /// Edges drawn, and those of them that were dropped.
    pub(super) edges: u64,
    pub(super) dropped: u64,
    /// Steps since the rows found were stored, all together, and at most.
    pub(super) age_sum: u64,
    pub(super) age_max: u64,
    pub(super) stored: Stored,
    pub(super) expired: u64,
    /// Rows pushed, those that were drawn against, and letters.
    pub(super) pushed: u64,
    pub(super) left_out: u64,
    pub(super) letters: u64,
    pub(super) words: u64,
    /// Time to choose and pack rows, to wait for them, and to store and read them.
    pub(super) pre_ns: u64,
    pub(super) comm_ns: u64,
    pub(super) post_ns: u64,
}

impl LayerCache {
    pub(super) fn new(hec: Hec, fixed: bool) -> LayerCache {
        LayerCache {
            hec,
            fixed,
            own: Vec::new(),
            places: Vec::new(),
            below: 0,
            lines: Vec::new(),
            counts: Counts::default(),
        }
    }
}

impl Caches {
    /// Of a rank with these numbers.
    pub(super) fn new(own: Range<u32>, miss: Miss, layers: Vec<LayerCache>) -> Caches {
        Caches {
            own,
            miss,
            layers,
            now: 0,
            open: false,
        }
    }

    /// Step `now` of the run begins, which looks rows up or not.
    pub(super) fn begin(&mut self, now: u64, open: bool) {
        (self.now, self.open) = (now, open);
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.hec.bytes()).sum()
    }

    fn is_open(&self, layer: usize) -> bool {
        self.open || self.layers[layer].fixed
    }
}

impl Historical for Caches {
    fn keep(&mut self, layer: usize, hop: &mut Hop) {
        let (open, own, now, miss) = (self.is_open(layer), self.own.clone(), self.now, self.miss);
        let LayerCache { hec, counts, .. } = &mut self.layers[layer];
        hec.begin_round();
        counts.edges += hop.sources.len() as u64;
        let sources = &hop.sources;
        let stays = sources.iter().enumerate().map(|(k, &v)| {
            if let Some(&next) = sources.get(k + AHEAD) {
                hec.prefetch(next);
            }
            if own.contains(&v) {
                return true;
            }
            if !open {
                return miss == Miss::Fetch;
            }
            let (line, first) = hec.search(v);
            counts.lookups += u64::from(first);
            if let Some(line) = line.filter(|_| first) {
                let age = now - hec.step(line);
                counts.hits += 1;
                counts.age_sum += age;
                counts.age_max = counts.age_max.max(age);
            }
            line.is_some() || miss == Miss::Fetch
        });
        let stays: Vec<bool> = stays.collect();
        let lost = stays.iter().filter(|stays| !**stays).count();
        counts.dropped += lost as u64;
        if lost > 0 {
            drop_edges(hop, &stays, miss == Miss::Drop { rescale: true });
        }
    }

    fn has(&self, layer: usize, number: u32) -> bool {
        self.is_open(layer) && self.layers[layer].hec.find(number).is_some()
    }

    fn reads(&mut self, layer: usize, below: &[u32], leaves: &[u32]) {
        let of = &mut self.layers[layer];
        of.below = below.len();
        of.own.clear();
        of.places.clear();
        for (&v, place) in below.iter().zip(0..) {
            if self.own.contains(&v) {
                of.own.push(v - self.own.start);
                of.places.push(place);
            }
        }
        let line = |v: &u32| of.hec.find(*v).expect("leaves are there");
        of.lines = leaves.iter().map(line).collect();
    }

    fn features(&mut self, numbers: &[u32], par: &Par) -> RowData {
        let hec = &self.layers[0].hec;
        let line = |v: &u32| hec.find(*v).expect("they are there");
        let lines: Vec<u32> = numbers.iter().map(line).collect();
        hec.load(&lines, par)
    }
}

/// Drops the edges of `hop` that are not `kept`; with `rescale`, those that are left count for all.
fn drop_edges(hop: &mut Hop, kept: &[bool], rescale: bool) {
    if rescale && hop.weights.is_none() {
        hop.weights = Some(vec![1.0; kept.len()]);
    }
    let Hop {
        indptr,
        sources,
        weights,
        types,
    } = hop;
    let kinds = types.as_ref().map_or(1, |types| {
        types.iter().max().map_or(1, |&t| usize::from(t) + 1)
    });
    // By type, a row's edges before and after.
    let mut sums = vec![[0u32; 2]; kinds];
    let (mut from, mut to) = (0, 0);
    for end in &mut indptr[1..] {
        let (span, first) = (from..*end as usize, to);
        from = span.end;
        let whole = kept[span.clone()].iter().all(|kept| *kept);
        for e in span.clone() {
            let kind = types.as_ref().map_or(0, |types| usize::from(types[e]));
            sums[kind][0] += 1;
            if !kept[e] {
                continue;
            }
            sums[kind][1] += 1;
            sources[to] = sources[e];
            if let Some(weights) = weights {
                weights[to] = weights[e];
            }
            if let Some(types) = types {
                types[to] = types[e];
            }
            to += 1;
        }
        *end = to as u64;
        if let Some(weights) = weights.as_mut().filter(|_| rescale && !whole) {
            for (k, weight) in weights[first..to].iter_mut().enumerate() {
                let kind = types
                    .as_ref()
                    .map_or(0, |types| usize::from(types[first + k]));
                let [all, left] = sums[kind];
                *weight *= all as f32 / left as f32;
            }
        }
        sums.fill([0; 2]);
    }
    sources.truncate(to);
    weights.iter_mut().for_each(|weights| weights.truncate(to));
    types.iter_mut().for_each(|types| types.truncate(to));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(weights: Option<Vec<f32>>, types: Option<Vec<u16>>) -> Hop {
        Hop {
            indptr: vec![0, 3, 5, 6],
            sources: vec![2, 3, 4, 4, 0, 4],
            weights,
            types,
        }
    }

    const KEPT: [bool; 6] = [true, true, false, false, true, false];

    #[test]
    fn dropped_edges_are_gone_from_every_list() {
        let weights = vec![1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
        let mut of = hop(Some(weights), Some(vec![0, 1, 2, 0, 1, 1]));
        drop_edges(&mut of, &KEPT, false);
        let expected = Hop {
            indptr: vec![0, 2, 3, 3],
            sources: vec![2, 3, 0],
            weights: Some(vec![1.0, 2.0, 16.0]),
            types: Some(vec![0, 1, 1]),
        };
        assert_eq!(of, expected);
    }

    #[test]
    fn what_is_left_of_a_row_counts_for_all_of_it() {
        let mut of = hop(None, None);
        drop_edges(&mut of, &KEPT, true);
        assert_eq!(of.weights, Some(vec![1.5, 1.5, 2.0]));
        // Of each type by itself.
        let mut of = hop(Some(vec![1.0; 6]), Some(vec![0, 1, 1, 0, 0, 1]));
        drop_edges(&mut of, &KEPT, true);
        assert_eq!(of.weights, Some(vec![1.0, 2.0, 2.0]));
    }
}
