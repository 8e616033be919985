//! Which vertices a rank trains on, and in which batch of an epoch.
//!
//! Two policies: runs of equal length, and every rank its own vertices.
//!
//! # Paper
//! DistDGL § 4.1.5: the training set is split evenly by number, and each run of numbers goes to the
//! rank that owns most of it; so all ranks have as many batches of about as many seeds, at the price of
//! a few seeds that others own. Of a rank's run, each of its trainers takes as many, at random, anew in
//! every epoch: a step has one batch a trainer. DistGNN-MB (Md et al., 2022) trains every vertex where
//! it lies; all ranks take as many steps as the one with most seeds.

use crate::rng::{self, Purpose};
use kernels::par::split_rows;
use std::ops::Range;

/// Who trains on which vertices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeedsBy {
    /// Runs of equal length, each by the rank that owns most of it.
    Share,
    /// Every rank's own by itself.
    Owner,
}

/// Whose seeds, and how they are taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeedChoice {
    pub(crate) by: SeedsBy,
    pub(crate) rank: usize,
    /// Trainers of a rank, at least one: batches of a step.
    pub(crate) trainers: usize,
    /// Seeds of a batch at most; 0 means all of a trainer's.
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
    trainers: usize,
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
        let trainers = choice.trainers;
        let of_step = match choice.batch {
            0 => most.max(1),
            batch => batch * trainers,
        };
        let run = runs[of_rank[choice.rank]].clone();
        Seeds {
            mine: train[run.clone()].to_vec(),
            run,
            batches: most.div_ceil(of_step).max(1) * trainers,
            counts,
            trainers,
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

    /// Batches of a rank in an epoch; one a trainer where there is nothing to train on.
    pub(crate) fn batches(&self) -> u64 {
        self.batches as u64
    }

    /// Batches of a rank in one step.
    pub(crate) fn trainers(&self) -> u64 {
        self.trainers as u64
    }

    /// The places in [`Seeds::mine`] in the order of an epoch.
    pub(crate) fn order(&self, epoch: u64) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.mine.len() as u32).collect();
        if self.batches > 1 {
            rng::shuffle(rng::key(self.seed, epoch, Purpose::Shuffle, 0), &mut order);
        }
        order
    }

    /// Which places of an epoch's order are batch `k` of this rank.
    pub(crate) fn of_batch(&self, k: u64) -> Range<usize> {
        self.part(self.mine.len(), k as usize..k as usize + 1)
    }

    /// Seeds of all trainers of all ranks in the step of batch `k`.
    pub(crate) fn total(&self, k: u64) -> usize {
        let first = k as usize / self.trainers * self.trainers;
        let step = first..first + self.trainers;
        let of = |&n: &usize| self.part(n, step.clone()).len();
        self.counts.iter().map(of).sum()
    }

    /// Which of `n` places are some batches.
    fn part(&self, n: usize, batches: Range<usize>) -> Range<usize> {
        let bound = |k: usize| n * k / self.batches;
        bound(batches.start)..bound(batches.end)
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
            trainers: 1,
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

    /// Two ranks of two trainers take the steps of four ranks of one, each with as many seeds.
    #[test]
    fn trainers_of_a_rank_share_its_run_evenly() {
        let (train, first): (Vec<u32>, [u32; 3]) = ((0..103).collect(), [0, 60, 103]);
        for (batch, steps) in [(10, 3), (0, 1), (100, 1)] {
            let of = |rank| {
                let by = SeedsBy::Share;
                let choice = SeedChoice {
                    by,
                    rank,
                    trainers: 2,
                    batch,
                    seed: 3,
                };
                Seeds::new(&train, &first, choice)
            };
            let ranks = [of(0), of(1)];
            for seeds in &ranks {
                assert_eq!((seeds.batches(), seeds.trainers()), (2 * steps, 2));
                let lens: Vec<usize> = (0..2 * steps).map(|k| seeds.of_batch(k).len()).collect();
                let (least, most) = (lens.iter().min(), lens.iter().max());
                assert!(most.zip(least).is_some_and(|(m, l)| m - l <= 1), "{lens:?}");
                assert_eq!(lens.iter().sum::<usize>(), seeds.mine().len());
                assert!(batch == 0 || most <= Some(&batch));
            }
            let mut all = 0;
            for step in 0..steps {
                let of_step = |k: u64| ranks.iter().map(move |s| s.of_batch(2 * step + k).len());
                let expected: usize = of_step(0).chain(of_step(1)).sum();
                for k in [2 * step, 2 * step + 1] {
                    assert!(ranks.iter().all(|s| s.total(k) == expected));
                }
                all += expected;
            }
            assert_eq!(all, train.len());
        }
    }
}
