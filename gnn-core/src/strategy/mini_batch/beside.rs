//! A rank with everything that runs beside its training, of which a strategy makes its feed.

use super::laps::Laps;
use super::training::Training;
use super::{BatchTraining, GradientSync, Settings};
use crate::comm::{Mailbox, Post};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::feed::{
    Cache, Collector, Desk, Feed, Halo, Hidden, Launching, Layerwise, Learnt, Maker, Numbers,
    Pieces, Prefetched, Reach, RowData, Server, Shard, Table, Wants, presample,
};
use crate::graph::Block;
use crate::head::Head;
use crate::model::{Input, Model};
use crate::record::rows::PartRow;
use crate::record::{Holds, RankFacts};
use crate::strategy::{Built, Rows};
use kernels::Par;
use std::sync::Arc;

/// A rank with everything that runs beside its training.
pub(in crate::strategy) struct Beside {
    pub(super) settings: Settings,
    pub(super) training: Training,
    pub(super) model: Model,
    pub(super) wants: Wants,
    pub(super) data: RowData,
    pub(super) pieces: Pieces,
    pub(super) rows: Rows,
    pub(super) facts: RankFacts,
    pub(super) block: Arc<Block>,
    pub(super) row: Option<PartRow>,
    pub(super) hot: usize,
    pub(super) wanted: Option<Vec<u32>>,
    pub(super) shard: Arc<Shard>,
    pub(super) hidden: Arc<Hidden>,
    pub(super) table: Option<Arc<Table>>,
    pub(super) post: Option<Post>,
    pub(super) server: Option<Server>,
    /// The next mailbox of this rank that nobody has opened.
    pub(super) mailbox: u32,
    /// Its own rows on its device.
    pub(super) store: Input,
}

impl Beside {
    /// One maker for each thread that makes batches, with copies of others' rows where settings ask for them.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(in crate::strategy) fn makers(&mut self, cx: &Ctx) -> Result<Vec<Maker>> {
        let threads = match self.settings.background {
            true => 1,
            false => cx.plan.threads,
        };
        let mut makers = Vec::with_capacity(self.settings.workers);
        for _ in 0..self.settings.workers {
            let reach = self.reach(self.data.clone(), cx.par(threads))?;
            makers.push(Maker {
                collector: Collector::new(reach, self.wants),
                seeds: Arc::clone(&self.training.seeds),
                labels: Arc::clone(&self.training.labels),
                links: self.training.links.clone(),
                grain: self.settings.grain,
                order: None,
            });
        }
        if self.hot > 0 {
            self.fill_cache(&mut makers, cx)?;
        }
        Ok(makers)
    }

    /// Keeps the rows of others that are wanted most, or that the batches of an epoch read most often.
    fn fill_cache(&mut self, makers: &mut [Maker], cx: &Ctx) -> Result<()> {
        let first = &mut makers[0];
        let mut wanted = match self.wanted.take() {
            Some(wanted) => wanted,
            None => presample(first, 0)?,
        };
        wanted.truncate(self.hot);
        let rows = first.collector.reach.fetch(&wanted)?;
        let cache = Arc::new(Cache::of(&wanted, rows));
        cx.caches(cache.rows.bytes() as u64);
        for maker in makers {
            maker.collector.reach.cache = Arc::clone(&cache);
        }
        Ok(())
    }

    /// The feed of batches that `makers` make: ahead as `launching` says, or else when they are asked for.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(in crate::strategy) fn prefetched(
        &mut self,
        makers: Vec<Maker>,
        launching: Option<Launching>,
        cx: &Ctx,
    ) -> Result<Prefetched> {
        let cache = Arc::clone(&makers[0].collector.reach.cache);
        let batches = self.training.seeds.batches();
        let learnt = match self.table.take() {
            Some(table) => {
                let width = table.learning().width;
                let like = RowData::Dense(Arc::new(kernels::Mat::zeros((0, width))));
                let reach = self.reach(like, cx.par(cx.plan.threads))?;
                Some(Learnt::new(reach, table, self.data.clone(), batches))
            }
            None => None,
        };
        let lies = (self.store.clone(), &*cache, learnt);
        let post = self.post.clone();
        Ok(Prefetched::new(makers, launching, batches, lies, post, cx))
    }

    /// A mailbox that nobody else has, with its number, which is the same on every rank; none for one rank.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when the rank is ending.
    pub(in crate::strategy) fn mailbox(&mut self) -> Result<(u32, Option<Mailbox>)> {
        let number = self.mailbox;
        self.mailbox += 1;
        let mailbox = self.post.as_ref().map(|p| p.open(number)).transpose()?;
        Ok((number, mailbox))
    }

    /// Feature rows of this rank's vertices.
    pub(in crate::strategy) fn features(&self) -> &RowData {
        &self.data
    }

    /// How all ranks number the vertices.
    pub(in crate::strategy) fn numbers(&self) -> &Arc<Numbers> {
        &self.shard.numbers
    }

    /// What is trained.
    pub(in crate::strategy) fn model(&self) -> &Model {
        &self.model
    }

    /// What a thread with a mailbox of its own reaches; `rows` are this rank's.
    fn reach(&mut self, rows: RowData, par: Par) -> Result<Reach> {
        let (_, mailbox) = self.mailbox()?;
        Ok(Reach {
            shard: Arc::clone(&self.shard),
            cache: Arc::new(Cache::none(&rows)),
            rows,
            hidden: None,
            desk: mailbox.map(Desk::new),
            par: Arc::new(par),
            halo: self.settings.halo,
            counted: Post::SETUP,
        })
    }

    /// The strategy that trains on `feed`, with gradients as `sync` sums them; `memory` is what was foreseen.
    /// Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(in crate::strategy) fn finish(
        mut self,
        cx: &mut Ctx,
        feed: Box<dyn Feed>,
        sync: impl FnOnce(&Model, &Ctx) -> Box<dyn GradientSync>,
        memory: Option<Holds>,
    ) -> Result<Built> {
        // Evaluation reads whole neighbourhoods, whoever owns them.
        let mut reach = self.reach(self.data.clone(), cx.par(cx.plan.threads))?;
        reach.halo = Halo::Drawn;
        let evaluation = Layerwise::new(reach, self.block, self.pieces, self.hidden, self.store);
        let mut model = self.model;
        model.input_gradient = feed.learns();
        let head = Head::of(&self.rows, cx, model.layers())?;
        // The head's weights are trained like those of one more layer.
        let own = head.init(cx, model.layers());
        if !own.is_empty() {
            model.weights.push(own);
        }
        let strategy = BatchTraining {
            trainers: self.training.seeds.trainers(),
            laps: Laps::default(),
            feed,
            sync: sync(&model, cx),
            model,
            head,
            evaluation,
            _server: self.server,
        };
        let predicted = strategy.predict(cx);
        let facts = RankFacts {
            memory,
            ..self.facts
        };
        Ok(Built {
            strategy: Box::new(strategy),
            rows: self.rows,
            facts,
            predicted,
            part: self.row,
        })
    }
}
