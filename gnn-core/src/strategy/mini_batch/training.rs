//! Who trains on what: vertices, or edges where links are to be predicted.

use super::Settings;
use crate::ctx::Ctx;
use crate::feed::{EdgeSeeds, Numbers, PairsOf, SeedChoice, Seeds, number_of_ids};
use crate::sample::{Nearby, Negative, TrainEdges};
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
        let first = |k: u32| match links.pairing {
            None => number[links.train[k as usize][0] as usize],
            Some(_) => number[k as usize],
        };
        let mut order = match links.pairing {
            None => (0..links.train.len() as u32).collect(),
            Some(_) => links.seeds(),
        };
        order.sort_by_key(|&k| first(k));
        let seeds = seeds_of(&order.iter().map(|&k| first(k)).collect::<Vec<_>>());
        let k = links.negatives as u32;
        let negative = match settings.links.in_batch {
            true => Negative::InBatch(k),
            false => Negative::Uniform(k),
        };
        let n = setup.data.n();
        let pairs = match links.pairing {
            None => PairsOf::Edges(TrainEdges::new(n, links.train.clone(), negative, seed)),
            Some(pairing) => PairsOf::Vertices(Nearby::new(n, links, pairing, seed)),
        };
        let edges = EdgeSeeds {
            pairs,
            mine: order[seeds.run()].to_vec(),
            numbers: Arc::new(number),
            exclude: settings.links.exclude,
        };
        let mut labels = Rows::of(&setup.data, &[]);
        let positives = links.pairing.map_or(1, |pairing| pairing.positives());
        labels.train_total = positives * (1 + links.negatives);
        Training {
            seeds: Arc::new(seeds),
            labels: Arc::new(labels),
            links: Some(Arc::new(edges)),
        }
    }
}
