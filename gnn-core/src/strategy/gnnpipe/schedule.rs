//! When a rank computes which of its layers on which chunk.
//!
//! # Interleaving
//! With `interleave` = v every rank has v *pieces* of consecutive layers, and chunks go through all ranks v
//! times. A rank takes as many chunks through its first piece as there are stages, then the same through its
//! second, and so on: when it has done its first, that chunk comes round again. Filling takes the time of
//! `S - 1` pieces of a v-th of the layers, so that the bubble is a v-th.
//!
//! # The bubble
//! With S stages, K chunks, and times of forward F, of backward's input gradients B and of its weight
//! gradients W for a chunk in one stage, a rank that waits for nothing but its neighbours idles for
//! `(S - 1)(F + B + W) / v`; where weight gradients wait until the input's have gone on, W drops out of it.
//!
//! 1F1B (`schedule = 1f1b`, refused) would have a rank go back with a chunk before all have gone
//! forward. Chunks go back in the reverse order, so that the first to go back is the last to go forward.

use crate::rng::{self, Purpose};

/// The order in which chunks go forward in an epoch, the same on every rank.
pub(super) fn order(seed: u64, epoch: u64, chunks: usize, shuffle: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..chunks).collect();
    if shuffle {
        rng::shuffle(rng::key(seed, epoch, Purpose::Shuffle, 0), &mut order);
    }
    order
}

/// What a rank computes forward, one after the other: its piece, and the chunk's place in the epoch's order.
/// Backward is the reverse.
pub(super) fn turns(chunks: usize, stages: usize, pieces: usize) -> Vec<(usize, usize)> {
    let starts = (0..chunks).step_by(if pieces == 1 { chunks.max(1) } else { stages });
    let rounds = starts.flat_map(|first| {
        let last = match pieces {
            1 => chunks,
            _ => chunks.min(first + stages),
        };
        (0..pieces).flat_map(move |piece| (first..last).map(move |place| (piece, place)))
    });
    rounds.collect()
}

/// The share of an epoch in which a rank idles because chunks are not there yet or have gone, for parts of
/// backward's time `[input, weights]` where forward's is 1.
pub(super) fn bubble(
    (stages, chunks, pieces): (usize, usize, usize),
    [input, weights]: [f64; 2],
    split: bool,
) -> f64 {
    let fill = if split { 0.0 } else { weights };
    let idle = (stages - 1) as f64 * (1.0 + input + fill) / pieces as f64;
    let busy = chunks as f64 * (1.0 + input + weights);
    idle / (idle + busy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of all ranks, each taking one unit of time: when each begins, or none where they wait for
    /// each other.
    fn simulated(stages: usize, chunks: usize, pieces: usize) -> Option<(usize, usize)> {
        let turns = turns(chunks, stages, pieces);
        let mut end = vec![vec![None; chunks]; stages * pieces];
        let (mut next, mut free) = (vec![0; stages], vec![0; stages]);
        let mut left = turns.len() * stages;
        while left > 0 {
            let before = left;
            for rank in 0..stages {
                let Some(&(piece, place)) = turns.get(next[rank]) else {
                    continue;
                };
                let at = piece * stages + rank;
                let ready = match at {
                    0 => Some(0),
                    _ => end[at - 1][place],
                };
                let Some(ready) = ready else { continue };
                let done = ready.max(free[rank]) + 1;
                (end[at][place], free[rank]) = (Some(done), done);
                next[rank] += 1;
                left -= 1;
            }
            if before == left {
                return None;
            }
        }
        Some((turns.len(), free.into_iter().max().unwrap_or(0)))
    }

    #[test]
    fn ranks_never_wait_for_each_other_for_ever_and_idle_as_long_as_is_said() {
        for stages in 1..5 {
            for pieces in 1..4 {
                for chunks in 1..13 {
                    let (busy, took) = simulated(stages, chunks, pieces).expect("ends");
                    assert_eq!(busy, chunks * pieces);
                    if chunks % stages == 0 || pieces == 1 {
                        let what = format!("{stages} stages, {chunks} chunks, {pieces} pieces");
                        assert_eq!(took, busy + stages - 1, "{what}");
                        let said = bubble((stages, chunks, pieces), [0.0; 2], false);
                        let share = 1.0 - busy as f64 / took as f64;
                        assert!((said - share).abs() < 1e-9, "{what}: {said}, {share}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_bubble_of_the_paper() {
        let bubble = bubble((8, 32, 1), [1.0, 1.0], false);
        assert!((bubble - 7.0 / 39.0).abs() < 1e-9);
    }
}
