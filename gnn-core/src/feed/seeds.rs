//! Which vertices a rank trains on, and in which batch of an epoch.
//!
//! # Paper
//! DistDGL § 4.1.5: the training set is split evenly by number, and each run of numbers goes to the rank
//! that owns most of it; so all ranks have as many batches of about as many seeds, at the price of a
//! few seeds that others own.

use crate::rng::{self, Purpose};
use kernels::par::split_rows;
use std::ops::Range;

/// The training vertices of one rank, and how many all have.
#[derive(Debug, Clone)]
pub(crate) struct Seeds {
    /// This rank's, by number.
    mine: Vec<u32>,
    /// Where they are among all.
    run: Range<usize>,
    /// How many each rank has.
    counts: Vec<usize>,
    batches: usize,
    seed: u64,
}

impl Seeds {
    /// The seeds of `rank`. `train` are the numbers of all training vertices, ascending; rank `r` owns
    /// the numbers from `first[r]` to `first[r + 1]`. A batch has `batch` seeds a rank at most; 0 means
    /// all.
    pub(crate) fn new(train: &[u32], first: &[u32], rank: usize, batch: usize, seed: u64) -> Seeds {
        let ranks = first.len() - 1;
        let bounds = split_rows(train.len(), ranks);
        let runs: Vec<Range<usize>> = bounds.windows(2).map(|b| b[0]..b[1]).collect();
        let of_rank = assign(&runs, train, first);
        let counts: Vec<usize> = of_rank.iter().map(|&k| runs[k].len()).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        let batch = if batch == 0 { most.max(1) } else { batch };
        Seeds {
            mine: train[runs[of_rank[rank]].clone()].to_vec(),
            run: runs[of_rank[rank]].clone(),
            batches: most.div_ceil(batch).max(1),
            counts,
            seed,
        }
    }

    /// This rank's, by number.
    pub(crate) fn mine(&self) -> &[u32] {
        &self.mine
    }

    /// Where they are among all that were given.
    pub(crate) fn run(&self) -> Range<usize> {
        self.run.clone()
    }

    /// Batches in an epoch; one where there is nothing to train on.
    pub(crate) fn batches(&self) -> u64 {
        self.batches as u64
    }

    /// The places in [`Seeds::mine`] in the order of an epoch.
    pub(crate) fn order(&self, epoch: u64) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.mine.len() as u32).collect();
        if self.batches > 1 {
            rng::shuffle(rng::key(self.seed, epoch, Purpose::Shuffle, 0), &mut order);
        }
        order
    }

    /// Which places of an epoch's order are batch `step` of this rank.
    pub(crate) fn of_batch(&self, step: u64) -> Range<usize> {
        self.part(self.mine.len(), step)
    }

    /// Seeds of all ranks in batch `step`.
    pub(crate) fn total(&self, step: u64) -> usize {
        self.counts.iter().map(|&n| self.part(n, step).len()).sum()
    }

    fn part(&self, n: usize, step: u64) -> Range<usize> {
        let bound = |k: usize| n * k / self.batches;
        bound(step as usize)..bound(step as usize + 1)
    }
}

/// By rank, the run it gets: pairs in descending order of how many of the run's vertices the rank owns.
fn assign(runs: &[Range<usize>], train: &[u32], first: &[u32]) -> Vec<usize> {
    let ranks = runs.len();
    let mut pairs = Vec::with_capacity(ranks * ranks);
    for (k, run) in runs.iter().enumerate() {
        let below = |v: u32| run.start + train[run.clone()].partition_point(|&t| t < v);
        for (r, bounds) in first.windows(2).enumerate() {
            let owned = below(bounds[1]) - below(bounds[0]);
            pairs.push((std::cmp::Reverse(owned), k, r));
        }
    }
    pairs.sort_unstable();
    let (mut of_rank, mut taken) = (vec![usize::MAX; ranks], vec![false; ranks]);
    for (_, k, r) in pairs {
        if of_rank[r] == usize::MAX && !taken[k] {
            of_rank[r] = k;
            taken[k] = true;
        }
    }
    of_rank
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_training_vertex_is_in_one_batch_of_one_rank(
            owned in prop::collection::vec(0u32..40, 1..5), modulo in 1u32..5, batch in 0usize..20, epoch: u64,
        ) {
            let mut first = vec![0];
            owned.iter().for_each(|n| first.push(first.last().expect("not empty") + n));
            let n = first[owned.len()];
            let train: Vec<u32> = (0..n).filter(|v| v % modulo == 0).collect();
            let all: Vec<Seeds> =
                (0..owned.len()).map(|r| Seeds::new(&train, &first, r, batch, 3)).collect();
            let mut seen = Vec::new();
            for step in 0..all[0].batches() {
                let mut total = 0;
                for seeds in &all {
                    prop_assert_eq!(seeds.batches(), all[0].batches());
                    let order = seeds.order(epoch);
                    let run = seeds.of_batch(step);
                    total += run.len();
                    prop_assert!(batch == 0 || run.len() <= batch);
                    seen.extend(order[run].iter().map(|&k| seeds.mine()[k as usize]));
                }
                prop_assert_eq!(total, all[0].total(step));
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, train);
            let sizes: Vec<usize> = all.iter().map(|s| s.mine().len()).collect();
            prop_assert!(sizes.iter().max().unwrap_or(&0) - sizes.iter().min().unwrap_or(&0) <= 1);
        }
    }

    #[test]
    fn runs_go_to_the_rank_that_owns_most_of_them() {
        // Rank 0 owns no training vertex, rank 1 most.
        let train: Vec<u32> = (10..40).collect();
        let first = [0, 10, 34, 40];
        let owned = |r: usize| {
            let seeds = Seeds::new(&train, &first, r, 0, 0);
            let mine = |v: &&u32| (first[r]..first[r + 1]).contains(v);
            (seeds.mine().len(), seeds.mine().iter().filter(mine).count())
        };
        assert_eq!([owned(0), owned(1), owned(2)], [(10, 0), (10, 10), (10, 6)]);
    }
}
