//! How mini-batch training is set up on a rank: its part of the graph, its seeds, and the threads that
//! make batches.

use super::MiniBatch;
use super::foreseen::{Foreseen, Known};
use super::part::Part;
use crate::comm::Post;
use crate::ctx::Ctx;
use crate::dataset::{Dataset, Features};
use crate::error::Result;
use crate::feed::{
    Cache, Collector, EdgeSeeds, Hidden, Layerwise, Learning, Learnt, Maker, Numbers, Pieces,
    Prefetched, Reach, Room, RowData, SERVER, Seeds, Served, Server, Shard, Table, Wants,
    number_of_ids, presample,
};
use crate::head::Head;
use crate::model::{AggregateFirst, Input, Model, ModelKind, Shape};
use crate::record::{Holds, RankFacts};
use crate::sample::{FanOut, Negative, TrainEdges};
use crate::strategy::full_graph::shape_of;
use crate::strategy::{Built, Rows, Setup};
use kernels::Par;
use std::rc::Rc;
use std::sync::Arc;

/// How batches are drawn and made.
pub(in crate::strategy) struct Settings {
    /// By layer.
    pub(in crate::strategy) fan_outs: Vec<FanOut>,
    /// Seeds of a rank in one step; 0 for all.
    pub(in crate::strategy) batch: usize,
    /// Batches made ahead, and by how many threads.
    pub(in crate::strategy) prefetch: usize,
    pub(in crate::strategy) workers: usize,
    /// Rows of others that are kept, by degree or by an epoch drawn before.
    pub(in crate::strategy) cache: Room,
    pub(in crate::strategy) presampled: bool,
    /// In-neighbours are drawn in proportion to their degree.
    pub(in crate::strategy) by_degree: bool,
    pub(in crate::strategy) replace: bool,
    /// For links: negatives from the same batch, and blocks without its edges.
    pub(in crate::strategy) in_batch: bool,
    pub(in crate::strategy) exclude: bool,
    /// What is learnt of vertices.
    pub(in crate::strategy) learning: Option<Learning>,
    /// Evaluation takes no fewer rows apart.
    pub(in crate::strategy) least: usize,
}

/// Who trains on what.
struct Training {
    seeds: Arc<Seeds>,
    /// Of the seeds; for links, none, beside how many terms of the loss an edge has.
    labels: Arc<Rows>,
    links: Option<Arc<EdgeSeeds>>,
}

impl Training {
    fn of(setup: &Setup, cx: &Ctx, numbers: &Numbers, settings: &Settings) -> Training {
        let (me, seed) = (cx.rank(), cx.plan.spec.seed);
        let seeds_of = |train: &[u32]| Seeds::new(train, &numbers.first, me, settings.batch, seed);
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
        let negative = match settings.in_batch {
            true => Negative::InBatch(k),
            false => Negative::Uniform(k),
        };
        let edges = EdgeSeeds {
            edges: TrainEdges::new(setup.data.n(), links.train.clone(), negative, seed),
            mine: order[seeds.run()].to_vec(),
            numbers: Arc::new(number),
            exclude: settings.exclude,
        };
        let mut labels = Rows::of(&setup.data, &[]);
        labels.train_total = 1 + links.negatives;
        Training {
            seeds: Arc::new(seeds),
            labels: Arc::new(labels),
            links: Some(Arc::new(edges)),
        }
    }

    /// One maker for each thread that makes batches.
    fn makers(
        &self,
        cx: &Ctx,
        settings: &Settings,
        (shard, data, wants): (&Arc<Shard>, &RowData, Wants),
        post: Option<&Post>,
    ) -> Result<Vec<Maker>> {
        let threads = match settings.prefetch {
            0 => cx.plan.threads,
            _ => 1,
        };
        let maker = |worker: u32| {
            let reach = reach(shard, data, (post, 1 + worker), threads)?;
            Ok(Maker {
                collector: Collector::new(reach, wants),
                seeds: Arc::clone(&self.seeds),
                labels: Arc::clone(&self.labels),
                links: self.links.clone(),
                order: None,
            })
        };
        (0..settings.workers as u32).map(maker).collect()
    }
}

/// What a thread reaches that has mailbox `number` after the server's; `rows` are this rank's.
fn reach(
    shard: &Arc<Shard>,
    rows: &RowData,
    (post, number): (Option<&Post>, u32),
    threads: usize,
) -> Result<Reach> {
    let mailbox = post.map(|p| p.open(SERVER + number)).transpose()?;
    Ok(Reach {
        shard: Arc::clone(shard),
        rows: rows.clone(),
        hidden: None,
        cache: Arc::new(Cache::none(rows)),
        mailbox,
        par: Arc::new(Par::new(threads)),
        epoch: Post::SETUP,
        wait_ns: 0,
    })
}

/// Feature rows of some vertices, for all threads of the rank.
fn rows_of(data: &Dataset, ids: &[u32]) -> RowData {
    match data.features.select_rows(ids) {
        Features::Dense(x) => RowData::Dense(Arc::new(x)),
        Features::Sparse(x) => RowData::Sparse(Arc::new(x)),
        Features::Mapped { .. } | Features::Identity(_) => {
            unreachable!("selected rows are in memory")
        }
    }
}

/// Keeps the rows of others that come first in `wanted`, or that the batches of an epoch read most often.
fn fill_cache(makers: &mut [Maker], rows: usize, wanted: Option<Vec<u32>>, cx: &Ctx) -> Result<()> {
    let first = &mut makers[0];
    let mut wanted = match wanted {
        Some(wanted) => wanted,
        None => presample(first, 0)?,
    };
    wanted.truncate(rows);
    let rows = first.collector.reach.fetch(&wanted)?;
    let cache = Arc::new(Cache::of(&wanted, rows));
    cx.caches(cache.rows.bytes() as u64);
    for maker in makers {
        maker.collector.reach.cache = Arc::clone(&cache);
    }
    Ok(())
}

/// Mini-batch training as `settings` say, ready to run. Collective.
///
/// # Errors
/// Whatever the communicator meets; [`crate::Error::Io`] when there is no thread to be had.
pub(in crate::strategy) fn build(setup: Setup, cx: &mut Ctx, settings: Settings) -> Result<Built> {
    let (me, ranks) = (cx.rank(), cx.size());
    let part = Part::of(&setup, cx)?;
    let training = Training::of(&setup, cx, &part.numbers, &settings);
    let rows = Rows::of(&setup.data, &part.own);
    let learning = settings.learning;
    let learns_alone = learning.is_some_and(|l| l.alone);
    let shape = shape_of(&setup, cx);
    let features = if learns_alone { 0 } else { shape.d_in };
    let shape = Shape {
        aggregate_first: AggregateFirst::Always,
        d_in: features + learning.map_or(0, |l| l.width),
        ..shape
    };
    let model = Model::new(&cx.plan.spec, cx.backend.as_ref(), shape);
    let data = match learns_alone {
        true => RowData::Dense(Arc::default()),
        false => rows_of(&setup.data, &part.own),
    };
    let dense = matches!(data, RowData::Dense(_));
    let wants = Wants {
        layers: model.layers(),
        in_place: dense
            && learning.is_none()
            && model.aggregates_features()
            && cx.plan.spec.dropout == 0.0,
        own: model.kind() == ModelKind::Sage,
        trains: true,
        edge_places: model.kind() == ModelKind::Gat,
        features: !learns_alone,
        learnt: learning.is_some(),
    };
    let sampler = part.sampler(&setup, cx, &settings)?;
    sampler.check_types()?;
    let hot = if ranks > 1 && wants.features {
        settings.cache.rows(&data)
    } else {
        0
    };
    let by_degree = hot > 0 && !settings.presampled;
    let wanted = by_degree.then(|| part.others_by_degree(&setup, me));
    let pieces = Pieces::of(&part.block, &part.columns, settings.least);
    let known = Known {
        part: &part,
        pieces: &pieces,
        seeds: &training.seeds,
        settings: &settings,
        wants,
        model: &model,
        features: data.bytes(),
        hot,
        wanted: wanted.as_deref(),
    };
    let foreseen = Foreseen::of(&setup, cx, &known);
    drop(setup);

    // Everything that runs beside the training.
    let Part {
        own,
        halo_nodes,
        block,
        columns,
        numbers,
        row,
        ..
    } = part;
    let typed = block.n_relations();
    let hidden = Arc::new(Hidden::default());
    let shard = Arc::new(Shard::new(me, numbers, sampler, columns, typed));
    let post = cx.post.clone().filter(|_| ranks > 1);
    let server = post.as_ref();
    let seed = cx.plan.spec.seed;
    let table = learning.map(|l| Arc::new(Table::new(l, &own, ranks, seed)));
    let served = || Served {
        shard: Arc::clone(&shard),
        rows: data.clone(),
        hidden: Arc::clone(&hidden),
        table: table.clone(),
    };
    let server = server.map(|post| Server::start(post, served()));
    let server = server.transpose()?;
    let mut makers = training.makers(cx, &settings, (&shard, &data, wants), post.as_ref())?;
    if hot > 0 {
        fill_cache(&mut makers, hot, wanted, cx)?;
    }
    let store = match &data {
        RowData::Dense(x) => Input::Dense(Rc::new(cx.backend.share(x))),
        // Only dense rows are read where they lie.
        RowData::Sparse(_) => Input::none(cx),
    };
    let cache = Arc::clone(&makers[0].collector.reach.cache);
    let batches = training.seeds.batches();
    let learnt = |table| -> Result<Learnt> {
        let like = RowData::Dense(Arc::new(kernels::Mat::zeros((0, shape.d_in - features))));
        let mailbox = 2 + settings.workers as u32;
        let reach = reach(&shard, &like, (post.as_ref(), mailbox), cx.plan.threads)?;
        Ok(Learnt::new(reach, table, data.clone(), batches))
    };
    let mailbox = 1 + settings.workers as u32;
    let all = reach(&shard, &data, (post.as_ref(), mailbox), cx.plan.threads)?;
    let evaluation = Layerwise::new(all, block, pieces, hidden, store.clone());
    let lies = (store, &*cache, table.map(learnt).transpose()?);
    let feed = Prefetched::new(makers, settings.prefetch, batches, lies, (post, server), cx);
    let head = Head::of(&rows, cx, model.layers())?;
    let facts = RankFacts {
        rank: me as u32,
        owned_nodes: rows.ids.len() as u64,
        halo_nodes: halo_nodes as u64,
        train_nodes: rows.train_count() as u64,
        memory: foreseen.map(Holds::from),
        ..RankFacts::default()
    };
    let strategy = MiniBatch::new(feed, model, head, evaluation, cx);
    let predicted = strategy.predict(cx);
    Ok(Built {
        strategy: Box::new(strategy),
        rows,
        facts,
        predicted,
        part: row,
    })
}
