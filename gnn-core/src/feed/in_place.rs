//! A first layer that reads aggregates of features alone: its in-edges by where the features lie, so that
//! they are summed there and not copied first.

use super::collect::{As, Collector, Reading, Source};
use super::stats::Stats;
use crate::sample::Hop;
use kernels::CsrBuf;

impl Collector {
    /// What the first layer's hop from `rows` reads, by where its sources lie. Rows to be fetched are those
    /// of `fetched`, which has all of them, in that order; or else in the order in which they are read.
    pub(super) fn in_place(
        &mut self,
        hop: Hop,
        rows: &[u32],
        fetched: Option<&[u32]>,
        stats: &mut Stats,
    ) -> Reading {
        let mut own_places = Vec::new();
        // Own rows that are missing.
        let mut missing = Vec::new();
        if self.wants.own {
            own_places.extend(rows.iter().map(|&v| {
                let (source, row) = self.place(v).unwrap_or_else(|| {
                    missing.push(v);
                    (Source::Fetched, missing.len() as u32 - 1)
                });
                (source as u32, row)
            }));
        }
        let mut parts = self.by_source(hop, rows.len());
        if !self.reach.shard.alone() {
            let all = self.reach.shard.numbers.ids.len();
            let fetch = &mut parts[Source::Fetched as usize];
            let edges = fetch.indices.len();
            // Those come first, unless there is an order.
            let first = match fetched {
                None => &missing,
                Some(fetched) => {
                    fetch.indices.extend_from_slice(&missing);
                    fetched
                }
            };
            let known = self.compact.number(all, first, &mut fetch.indices);
            let places = fetch.indices.split_off(edges);
            if !places.is_empty() {
                let of_fetch = own_places.iter_mut();
                let of_fetch = of_fetch.filter(|p| p.0 == Source::Fetched as u32);
                of_fetch.for_each(|p| p.1 = places[p.1 as usize]);
            }
            missing = known;
            fetch.n_cols = missing.len();
            stats.rows_remote += missing.len() as u64;
            stats.hops[0].columns += missing.len() as u64;
        }
        let own = self.wants.own.then_some(own_places);
        Reading {
            missing,
            as_what: As::InPlace(Box::new(parts), own),
        }
    }

    /// A hop of `n` rows by where its sources lie; those to be fetched keep their numbers.
    fn by_source(&self, hop: Hop, n: usize) -> [CsrBuf; 3] {
        let widths = [self.reach.rows.len(), self.reach.cache.rows.len(), 0];
        let mut parts = widths.map(|n_cols| CsrBuf {
            weights: hop.weights.as_ref().map(|_| Vec::new()),
            ..CsrBuf::empty(n_cols)
        });
        if self.reach.shard.alone() {
            parts[Source::Store as usize] = CsrBuf {
                indptr: hop.indptr,
                indices: hop.sources,
                weights: hop.weights,
                n_cols: widths[0],
            };
            return parts;
        }
        for r in 0..n {
            for e in hop.indptr[r] as usize..hop.indptr[r + 1] as usize {
                let number = hop.sources[e];
                let (source, row) = self.place(number).unwrap_or((Source::Fetched, number));
                let part = &mut parts[source as usize];
                part.indices.push(row);
                if let (Some(to), Some(from)) = (&mut part.weights, &hop.weights) {
                    to.push(from[e]);
                }
            }
            for part in &mut parts {
                part.indptr.push(part.indices.len() as u64);
            }
        }
        parts
    }

    /// Counts the rows of this rank, and those it keeps copies of, that a first layer in place reads.
    pub(super) fn count_local(&mut self, sources: &[u32], rows: &[u32], stats: &mut Stats) {
        let shard = &self.reach.shard;
        let own = shard.numbers.of(shard.rank);
        let cache = &self.reach.cache;
        let len = own.len() + cache.rows.len();
        self.touched.clear();
        self.touched.resize(len.div_ceil(64), 0);
        for &v in sources.iter().chain(rows) {
            let place = if own.contains(&v) {
                (v - own.start) as usize
            } else {
                match cache.find(v) {
                    Some(row) => own.len() + row as usize,
                    None => continue,
                }
            };
            self.touched[place / 64] |= 1 << (place % 64);
        }
        let count = |range: std::ops::Range<usize>| -> u64 {
            let bit = |k: &usize| self.touched[k / 64] >> (k % 64) & 1 == 1;
            range.filter(bit).count() as u64
        };
        let whole: u64 = self.touched.iter().map(|w| u64::from(w.count_ones())).sum();
        let cached = count(own.len()..len);
        stats.rows_local += whole - cached;
        stats.rows_cached += cached;
        stats.hops[0].columns += whole;
    }
}
