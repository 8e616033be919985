//! The order of chunks, found once for the same graph, devices and machine.

use std::time::Instant;

use crate::graph::Graph;
use crate::partition::cache::KeptCut;
use crate::partition::{Cache, Need, Throughputs, TwoLevel, digest};

/// In which batch each vertex is, and what it took to find out.
#[derive(Debug, Clone, PartialEq)]
pub struct Batched {
    /// The place of its chunk in the order of its device: `[n]`.
    pub batch: Vec<u32>,
    /// Milliseconds that it took, now or when the order was first found.
    pub ms: f64,
    /// Whether it was there already.
    pub cached: bool,
}

impl Batched {
    /// The batches of [`TwoLevel::of_chunks`], from `cache` where they are there. A cache that cannot be used
    /// costs time, no more; where nothing is reorganised, or there is one chunk, it is left alone.
    pub fn of(
        graph: &Graph,
        owner: &[u32],
        [devices, chunks]: [usize; 2],
        throughputs: Option<&Throughputs>,
        cache: Option<&Cache>,
    ) -> Batched {
        let made = || {
            let began = Instant::now();
            let two = TwoLevel::of_chunks(graph, owner.to_vec(), devices, chunks, throughputs);
            Batched {
                batch: two.chunk,
                ms: began.elapsed().as_secs_f64() * 1e3,
                cached: false,
            }
        };
        let (Some(cache), Some(throughputs), 2..) = (cache, throughputs, chunks) else {
            return made();
        };
        let key = digest::of_order(graph, owner, [devices, chunks], throughputs);
        let kept = || {
            let kept = cache.get(key, graph.n(), chunks)?;
            Some(Batched {
                batch: kept.labels,
                ms: kept.ms,
                cached: true,
            })
        };
        if let Some(kept) = kept() {
            return kept;
        }
        let lock = cache.lock(key);
        // Another rank has found it meanwhile, most likely.
        if let Some(kept) = kept() {
            return kept;
        }
        let made = made();
        let keep = KeptCut {
            labels: made.batch.clone(),
            ms: made.ms,
            peak_bytes: 0,
            need: Need::default(),
        };
        let _ = lock.and_then(|_held| cache.put(key, chunks, &keep));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_found_once_for_the_same_graph_devices_and_machine() {
        let d = crate::load::load("rmat:scale=9,edge-factor=8", 2).expect("built in");
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::new(folder.path());
        let owner: Vec<u32> = (0..d.n() as u32).map(|v| v % 2).collect();
        let t = Throughputs {
            host: 1.0,
            peer: 4.0,
            reuse: 50.0,
        };
        let of = |owner: &[u32], shape, t: Option<&Throughputs>| {
            Batched::of(&d.graph, owner, shape, t, Some(&cache))
        };
        let first = of(&owner, [2, 6], Some(&t));
        let again = of(&owner, [2, 6], Some(&t));
        assert_eq!([first.cached, again.cached], [false, true]);
        assert_eq!((&first.batch, first.ms), (&again.batch, again.ms));
        let two = TwoLevel::of_chunks(&d.graph, owner.clone(), 2, 6, Some(&t));
        assert_eq!(first.batch, two.chunk);
        // Anything else is another order.
        let other: Vec<u32> = owner.iter().map(|o| 1 - o).collect();
        let faster = Throughputs { host: 2.0, ..t };
        assert!(!of(&other, [2, 6], Some(&t)).cached);
        assert!(!of(&owner, [2, 5], Some(&t)).cached);
        assert!(!of(&owner, [2, 6], Some(&faster)).cached);
        // These are made as fast as they are named.
        for (shape, t) in [([2, 6], None), ([2, 1], Some(&t))] {
            of(&owner, shape, t);
            assert!(!of(&owner, shape, t).cached);
        }
    }
}
