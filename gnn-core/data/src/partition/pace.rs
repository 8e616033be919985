//! How fast this machine is at what partitioners do, measured in some milliseconds.
//!
//! Two machines differ by one factor in what METIS computes, and by others in how long a random read takes
//! in each of their caches. The first is the time of METIS itself on a small graph, the second that of reads
//! and writes among more and more bytes.

use std::sync::PoisonError;

use metis::Idx;
use metis::option::{NIter, Seed};

use crate::clock::thread_cpu_ns;
use crate::partition::metis::{NIPARTS, ONE_AT_A_TIME};
use crate::rng::{self, Purpose};

/// The best of so many tries counts: what others do only adds.
const TRIES: usize = 5;

/// Bytes of the smallest and the largest memory that is read.
const SMALLEST: f64 = 65_536.0;
const LARGEST: f64 = 67_108_864.0;

/// Nanoseconds of [`cut_ns`] on the machine that METIS's constants are of.
const UNIT: f64 = 2.5e6;

/// What was measured.
pub(super) struct Pace {
    /// How many times as long METIS takes here, in the nearest cache, as on the machine that its constants are of.
    pub near: f64,
    /// Nanoseconds of a random read and write among 2¹⁶ bytes, and twice, four times ... as many.
    access: Vec<f64>,
}

impl Pace {
    /// Measures, for memory of up to that many bytes.
    pub fn measured(bytes: f64) -> Pace {
        let doublings = (bytes.clamp(SMALLEST, LARGEST) / SMALLEST).log2().ceil();
        let sizes = 2 + doublings as usize;
        let mut words = vec![1u32; (SMALLEST as usize / 4) << (sizes - 1)];
        let mut access = vec![f64::INFINITY; sizes];
        // All sizes by turns, so that the tries of each lie apart: others come and go.
        for _ in 0..TRIES {
            for (k, best) in access.iter_mut().enumerate() {
                let some = &mut words[..(SMALLEST as usize / 4) << k];
                *best = best.min(access_ns(some));
            }
        }
        Pace {
            near: cut_ns() / UNIT,
            access,
        }
    }

    /// Nanoseconds that a random access among so many bytes takes beyond one in the nearest cache.
    pub fn beyond(&self, bytes: f64) -> f64 {
        let last = self.access.len() - 1;
        let at = (bytes.max(1.0) / SMALLEST).log2().clamp(0.0, last as f64);
        let below = (at as usize).min(last - 1);
        let [low, high] = [self.access[below], self.access[below + 1]];
        (low + (high - low) * (at - below as f64) - self.access[0]).max(0.0)
    }
}

/// Processor time of METIS on a graph that fits into the nearest cache: a ring whose vertices know the four
/// after them and four anywhere.
fn cut_ns() -> f64 {
    let n = 1024u32;
    let key = rng::key(1, 0, Purpose::Partition, 7);
    let other = |v: u32, k: u32| match k {
        0..4 => (v + k + 1) % n,
        _ => rng::below(key, u64::from(8 * v + k), u64::from(n)) as u32,
    };
    let mut rows = vec![Vec::new(); n as usize];
    for (v, k) in (0..n).flat_map(|v| (0..8).map(move |k| (v, k))) {
        let s = other(v, k);
        if s != v {
            rows[v as usize].push(s as Idx);
            rows[s as usize].push(v as Idx);
        }
    }
    let (mut xadj, mut adjncy) = (vec![0 as Idx], Vec::new());
    for row in &mut rows {
        row.sort_unstable();
        row.dedup();
        adjncy.extend_from_slice(row);
        xadj.push(adjncy.len() as Idx);
    }
    let mut options = [-1 as Idx; metis::NOPTIONS];
    options[NIPARTS] = 1;
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut part = vec![0 as Idx; n as usize];
    let tries = (0..TRIES).map(|_| {
        let began = thread_cpu_ns();
        if let Ok(graph) = metis::Graph::new(1, 8, &xadj, &adjncy) {
            let graph = graph.set_options(&options).set_option(NIter(3));
            // What it says does not matter, only how long it takes.
            let _ = graph.set_option(Seed(1)).part_kway(&mut part);
        }
        (thread_cpu_ns() - began) as f64
    });
    let took = tries.fold(f64::INFINITY, f64::min);
    drop(guard);
    took
}

/// Processor time of a random read and write among these words, which were all touched just before.
fn access_ns(words: &mut [u32]) -> f64 {
    words.fill(1);
    const STEPS: u64 = 1 << 16;
    let most = words.len() as u64;
    let key = rng::key(1, 0, Purpose::Partition, 5);
    let began = thread_cpu_ns();
    for step in 0..STEPS {
        let at = rng::below(key, step, most) as usize;
        let from = rng::below(key, step ^ 0x5555_5555, most) as usize;
        words[at] = words[at].wrapping_add(words[from]);
    }
    std::hint::black_box(&words);
    (thread_cpu_ns() - began) as f64 / STEPS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_two_measurements_is_between_them_and_nothing_is_negative() {
        let pace = Pace {
            near: 1.0,
            access: vec![2.0, 1.5, 4.0, 20.0],
        };
        let at = |k: f64| pace.beyond(SMALLEST * k);
        assert_eq!([at(0.0), at(1.0), at(2.0)], [0.0; 3]);
        assert_eq!([at(4.0), at(8.0), at(1000.0)], [2.0, 18.0, 18.0]);
        assert!((at(6.0) - 11.36).abs() < 0.01, "{}", at(6.0));
    }

    #[test]
    fn a_machine_has_a_pace() {
        let pace = Pace::measured(1e6);
        assert!(pace.near > 0.0 && pace.access.iter().all(|&ns| ns > 0.0));
        assert!(pace.access.len() >= 2);
    }
}
