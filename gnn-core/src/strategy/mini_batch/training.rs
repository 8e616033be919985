//! Who trains on what: vertices, or edges where links are to be predicted.

use super::Settings;
use crate::ctx::Ctx;
use crate::feed::{EdgeSeeds, Numbers, SeedChoice, Seeds, number_of_ids};
use crate::sample::{Negative, TrainEdges};
use crate::strategy::{Rows, Setup};
use std::sync::Arc;

/// Who trains on what.
pub(super) struct Training {
    pub(super) seeds: Arc<Seeds>,
    /// Of the seeds; for links, none, beside how many terms of the loss an edge has.
    pub(super) labels: Arc<Rows>,
    pub(super) links: Option<Arc<EdgeSeeds>>,
}

impl Training {
    pub(super) fn of(setup: &Setup, cx: &Ctx, numbers: &Numbers, settings: &Settings) -> Training {
        let seed = cx.plan.spec.seed;
        let choice = SeedChoice {
            by: settings.seeds,
            rank: cx.rank(),
            trainers: settings.trainers,
            batch: settings.neighbours.batch,
            seed,
        };
        let seeds_of = |train: &[u32]| Seeds::new(train, &numbers.first, choice);
        let Some(links) = &setup.data.links else {
            let train = numbers.ids.iter().zip(0u32..);
            let train = train.filter(|&(&v, _)| setup.data.train[v as usize]);
            let seeds = seeds_of(&train.map(|(_, number)| number).collect::<Vec<_>>());
            let ids = seeds.mine().iter().map(|&k| numbers.ids[k as usize]);
            let labels = Rows::of(&setup.data, &ids.collect::<Vec<_>>());
            return Training {
                seeds: Arc::new(seeds),
                labels: Arc::new(labels),
                links: None,
            };
        };
        // An edge goes where its first end does.
        let number = number_of_ids(&numbers.ids);
        let first = |e: u32| number[links.train[e as usize][0] as usize];
        let mut order: Vec<u32> = (0..links.train.len() as u32).collect();
        order.sort_by_key(|&e| first(e));
        let seeds = seeds_of(&order.iter().map(|&e| first(e)).collect::<Vec<_>>());
        let k = links.negatives as u32;
        let negative = match settings.links.in_batch {
            true => Negative::InBatch(k),
            false => Negative::Uniform(k),
        };
        let edges = EdgeSeeds {
            edges: TrainEdges::new(setup.data.n(), links.train.clone(), negative, seed),
            mine: order[seeds.run()].to_vec(),
            numbers: Arc::new(number),
            exclude: settings.links.exclude,
        };
        let mut labels = Rows::of(&setup.data, &[]);
        labels.train_total = 1 + links.negatives;
        Training {
            seeds: Arc::new(seeds),
            labels: Arc::new(labels),
            links: Some(Arc::new(edges)),
        }
    }
}
