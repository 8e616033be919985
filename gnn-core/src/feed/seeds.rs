//! Which vertices a rank trains on, and in which batch of an epoch.
//!
//! Two policies: runs of equal length, and every rank its own vertices.
//!
//! # Paper
//! DistDGL § 4.1.5: the training set is split evenly by number, and each run of numbers goes to the rank
//! that owns most of it; so all ranks have as many batches of about as many seeds, at the price of a
//! few seeds that others own. DistGNN-MB (Md et al., 2022) trains every vertex where it lies; all ranks
//! take as many steps as the one with most seeds.

use crate::rng::{self, Purpose};
use kernels::par::split_rows;
use std::ops::Range;

/// Who trains on which vertices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeedsBy {
    /// Runs of equal length, each by the rank that owns most of it.
    Share,
    /// Every rank's own by itself.
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "for strategies that train vertices where they lie"
        )
    )]
    Owner,
}

/// Whose seeds, and how they are taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeedChoice {
    pub(crate) by: SeedsBy,
    pub(crate) rank: usize,
    /// Seeds of a batch a rank at most; 0 means all.
    pub(crate) batch: usize,
    pub(crate) seed: u64,
}

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
    /// Some seeds out of `train`, the numbers of all training vertices, ascending; rank `r` owns the
    /// numbers from `first[r]` to `first[r + 1]`.
    pub(crate) fn new(train: &[u32], first: &[u32], choice: SeedChoice) -> Seeds {
        let ranks = first.len() - 1;
        let bounds = match choice.by {
            SeedsBy::Share => split_rows(train.len(), ranks),
            SeedsBy::Owner => {
                let below = |f: &u32| train.partition_point(|t| t < f);
                first.iter().map(below).collect()
            }
        };
        let runs: Vec<Range<usize>> = bounds.windows(2).map(|b| b[0]..b[1]).collect();
        let of_rank = match choice.by {
            SeedsBy::Share => assign(&runs, train, first),
            SeedsBy::Owner => (0..ranks).collect(),
        };
        let counts: Vec<usize> = of_rank.iter().map(|&k| runs[k].len()).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        let batch = match choice.batch {
            0 => most.max(1),
            batch => batch,
        };
        let run = runs[of_rank[choice.rank]].clone();
        Seeds {
            mine: train[run.clone()].to_vec(),
            run,
            batches: most.div_ceil(batch).max(1),
            counts,
            seed: choice.seed,
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

    fn seeds(train: &[u32], first: &[u32], by: SeedsBy, (rank, batch): (usize, usize)) -> Seeds {
        let choice = SeedChoice {
            by,
            rank,
            batch,
            seed: 3,
        };
        Seeds::new(train, first, choice)
    }

    proptest! {
        #[test]
        fn every_training_vertex_is_in_one_batch_of_one_rank(
            owned in prop::collection::vec(0u32..40, 1..5), modulo in 1u32..5, batch in 0usize..20, own: bool,
            epoch: u64,
        ) {
            let mut first = vec![0];
            owned.iter().for_each(|n| first.push(first.last().expect("not empty") + n));
            let n = first[owned.len()];
            let train: Vec<u32> = (0..n).filter(|v| v % modulo == 0).collect();
            let by = if own { SeedsBy::Owner } else { SeedsBy::Share };
            let all: Vec<Seeds> =
                (0..owned.len()).map(|r| seeds(&train, &first, by, (r, batch))).collect();
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
            prop_assert_eq!(&seen, &train);
            let sizes: Vec<usize> = all.iter().map(|s| s.mine().len()).collect();
            let (most, least) = (sizes.iter().max().unwrap_or(&0), sizes.iter().min().unwrap_or(&0));
            if !own {
                prop_assert!(most - least <= 1);
                return Ok(());
            }
            for (r, seeds) in all.iter().enumerate() {
                prop_assert!(seeds.mine().iter().all(|v| (first[r]..first[r + 1]).contains(v)));
                let names: Vec<u32> = seeds.run().map(|k| train[k]).collect();
                prop_assert_eq!(&names[..], seeds.mine());
            }
            // As many steps as the rank with most seeds has, on all ranks.
            let steps = if batch == 0 { 1 } else { most.div_ceil(batch).max(1) };
            prop_assert_eq!(all[0].batches(), steps as u64);
        }
    }

    #[test]
    fn runs_go_to_the_rank_that_owns_most_of_them() {
        // Rank 0 owns no training vertex, rank 1 most.
        let train: Vec<u32> = (10..40).collect();
        let first = [0, 10, 34, 40];
        let owned = |by: SeedsBy, r: usize| {
            let seeds = seeds(&train, &first, by, (r, 0));
            let mine = |v: &&u32| (first[r]..first[r + 1]).contains(v);
            (seeds.mine().len(), seeds.mine().iter().filter(mine).count())
        };
        let of = |by| [0, 1, 2].map(|r| owned(by, r));
        assert_eq!(of(SeedsBy::Share), [(10, 0), (10, 10), (10, 6)]);
        assert_eq!(of(SeedsBy::Owner), [(0, 0), (24, 24), (6, 6)]);
    }
}
