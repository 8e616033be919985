//! A rank's part of the graph for mini-batches: what is drawn from and evaluated on.
//!
//! It is made straight from the graph and its owners, one row after the other. Where the graph lies in a
//! mapped file, what was read of it does not stay in the rank's memory.

use super::Settings;
use super::training::Training;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::feed::{DrawnHow, Halo, Numbers, Ownership, cut, inclusion};
use crate::graph::{Block, WeightedRows};
use crate::partition::Masks;
use crate::record::rows::PartRow;
use crate::sample::Sampler;
use crate::strategy::Setup;
use crate::strategy::ordered::{order, row_bytes, row_of};
use std::sync::Arc;

/// A rank's part of the graph.
pub(in crate::strategy) struct Part {
    /// The data set's ids of its own vertices, and how many of others it reads.
    pub(in crate::strategy) own: Vec<u32>,
    pub(in crate::strategy) halo_nodes: usize,
    /// Its in-edges: what is drawn from, and what evaluation runs on.
    pub(in crate::strategy) block: Arc<Block>,
    /// The number and the id of each of the block's columns.
    pub(in crate::strategy) columns: Vec<u32>,
    pub(in crate::strategy) column_ids: Vec<u32>,
    pub(in crate::strategy) numbers: Arc<Numbers>,
    pub(in crate::strategy) row: Option<PartRow>,
}

impl Part {
    pub(in crate::strategy) fn of(setup: &Setup, cx: &Ctx) -> Result<Part> {
        let (data, spec) = (&setup.data, &cx.plan.spec);
        let ids = order(&data.graph, spec).map(|(_, ids)| ids);
        let rows = WeightedRows::new(&data.graph, ids.as_deref(), spec.model.propagation());
        let by = Ownership {
            owner: setup.owner.as_deref().map(|owner| &owner[..]),
            rank: cx.rank(),
            ranks: cx.size(),
        };
        let part = cut(&rows, ids.as_deref(), by)?;
        let masks = Masks {
            train: &data.train,
            val: &data.val,
            test: &data.test,
        };
        let row = || row_of(&part.facts(by, masks, row_bytes(data)), cx);
        let row = (cx.size() > 1).then(row);
        let column_ids = [&part.own[..], &part.halo].concat();
        Ok(Part {
            own: part.own,
            halo_nodes: part.halo.len(),
            block: Arc::new(part.block),
            columns: part.columns,
            column_ids,
            numbers: part.numbers,
            row,
        })
    }

    /// What is drawn from: this part, with randomness by the data set's ids.
    pub(in crate::strategy) fn sampler(
        &self,
        setup: &Setup,
        cx: &Ctx,
        settings: &Settings,
    ) -> Result<Sampler> {
        let (spec, ids) = (&cx.plan.spec, &self.column_ids);
        let sampler = Sampler::new(
            Arc::clone(&self.block),
            settings.neighbours.fan_outs.clone(),
            spec.seed,
        );
        let mut sampler = sampler.with_ids(ids.clone())?;
        if spec.model.attends() {
            // Softmax is over what was drawn.
            sampler = sampler.unweighted();
        }
        if settings.neighbours.replace {
            sampler = sampler.with_replacement();
        }
        let in_degree = |id: u32| setup.data.graph.in_degree(id as usize);
        if let Some(rule) = &settings.neighbours.rule {
            let degrees = ids.iter().map(|&id| in_degree(id) as u32).collect();
            return sampler.with_rule(Arc::clone(rule), degrees);
        }
        if !settings.neighbours.by_degree {
            return Ok(sampler);
        }
        let degree = |&c: &u32| in_degree(ids[c as usize]) as f32;
        sampler.with_bias(self.block.csr().indices.iter().map(degree).collect())
    }

    /// By the data set's ids, whose in-edges a batch of this rank's draws; none for everybody's.
    pub(super) fn drawing(&self, halo: Halo) -> Option<Vec<bool>> {
        (halo == Halo::Leaves).then(|| {
            let mut own = vec![false; self.numbers.ids.len()];
            self.own.iter().for_each(|&v| own[v as usize] = true);
            own
        })
    }

    /// The numbers of others' vertices by degree, descending.
    pub(in crate::strategy) fn others_by_degree(&self, setup: &Setup, me: usize) -> Vec<u32> {
        let (_, degrees) = setup.data.graph.sorted_by_degree();
        let numbers = &self.numbers;
        let degree = |number: &u32| degrees[numbers.ids[*number as usize] as usize];
        let others = (0..numbers.ids.len() as u32).filter(|&v| numbers.owner(v) != me);
        let mut others: Vec<u32> = others.collect();
        others.sort_by_key(|v| std::cmp::Reverse(degree(v)));
        others
    }

    /// The numbers of others' vertices that a batch of this rank's may read, the likeliest first. Where links
    /// are learnt, seeds are the first ends of pairs.
    pub(super) fn others_by_inclusion(
        &self,
        setup: &Setup,
        cx: &Ctx,
        settings: &Settings,
        training: &Training,
    ) -> Vec<u32> {
        let (graph, numbers) = (&setup.data.graph, &self.numbers);
        let drawn = &settings.neighbours;
        let by = self.drawing(settings.halo);
        let how = DrawnHow {
            fan_outs: &drawn.fan_outs,
            replace: drawn.replace,
            by_degree: drawn.by_degree,
            loops: cx.plan.spec.model.propagation().adds_loops(),
            by: by.as_deref(),
        };
        let seeds = &training.seeds;
        let likely = 1.0 / seeds.batches() as f64;
        let seeds = seeds.mine().iter();
        let seeds: Vec<_> = seeds.map(|&k| (numbers.ids[k as usize], likely)).collect();
        let read = inclusion(graph, how, &seeds);
        let of = |v: &u32| read[numbers.ids[*v as usize] as usize];
        let all = 0..numbers.ids.len() as u32;
        let others = all.filter(|v| numbers.owner(*v) != cx.rank() && of(v) > 0.0);
        let mut others: Vec<u32> = others.collect();
        others.sort_by(|a, b| of(b).total_cmp(&of(a)));
        others
    }
}
