//! DistDGL: mini-batches whose neighbourhoods their owners draw.
//!
//! # Paper
//! Zheng et al., "DistDGL: Distributed Graph Neural Network Training for Billion-Scale Graphs", IA³
//! 2020, <https://arxiv.org/abs/2010.05337>; §§ 3.2 to 3.5.
//! # Idea
//! Vertices are cut so that few edges cross, every rank stores the features and in-edges of its own, and
//! whoever owns a vertex draws its neighbours. A rank trains on seeds of its own: it asks the owners
//! hop by hop, pulls the features it has not, and steps with the sum of all ranks' gradients. Batches
//! are made ahead, beside the training.
//! # Differs
//! A rank's server, its makers of batches and its trainer are threads of one process, not processes
//! that share memory. Draws depend on seed, epoch, step, layer and vertex alone, so that any number
//! of ranks draws the same. A first layer that reads only aggregates of features sums them where they
//! lie: features of the rank's own vertices are never copied.
//! # Measured
//! GraphSAGE, fan-outs 10 and 25, 1000 seeds a rank and step, width 128, two cores of a shared x86-64
//! machine with AVX-512 (siblings of one core, by how they slow each other), beside the peers in one
//! sitting, 22 November 2026; medians of an epoch in ms:
//!
//! | graph | 1 rank, 2 threads, `prefetch = 0` / `2` | DGL GraphBolt, 2 threads | 2 MPI ranks | DistDGL, 2 trainers, shared storage |
//! |---|---|---|---|---|
//! | R-MAT 16 | 82 / 80 | 188 | 99 | 172 |
//! | R-MAT 18 | 492 / 450 | 1015 | 522 | 907 |
//!
//! Training waited for less than 1 % of the time in which batches were made, with `prefetch = 2`.
//! # Not done
//! Learnt vertex embeddings and edge features; fan-outs by type of edges as a knob; a
//! prediction of memory. Every rank keeps the data set's id of every vertex, and a word or two a vertex
//! for numbering batches.
//! # Exact when
//! `fanout = all` and `batch = 0`: every step reads whole neighbourhoods of all training vertices. For
//! links also `exclude = false`: full-graph training reads the edges it asks about.

use super::full_graph::shape_of;
use super::halo::Halo;
use super::mini_batch::{MiniBatch, Whole};
use super::neighbours::OverBlock;
use super::ordered::Ordered;
use super::{Built, Determinism, Entry, Exact, Knob, Rows, Setup};
use crate::ctx::Ctx;
use crate::dataset::{Dataset, Features};
use crate::error::{Error, Result};
use crate::feed::{
    Cache, EdgeSeeds, Maker, Prefetched, Reach, Room, RowData, SERVER, Seeds, Server, Shard, Wants,
    cut, number_of_ids, presample,
};
use crate::graph::Block;
use crate::head::Head;
use crate::model::{AggregateFirst, Input, Model, ModelKind, Shape, SparseInput};
use crate::partition::LocalPart;
use crate::record::RankFacts;
use crate::sample::{Compact, FanOut, Negative, Sampler, TrainEdges};
use crate::spec::{RunSpec, Value};
use kernels::Par;
use std::rc::Rc;
use std::sync::Arc;

/// What the knobs say, read.
struct Settings {
    fan_outs: Vec<FanOut>,
    batch: usize,
    prefetch: usize,
    workers: usize,
}

impl Settings {
    fn of(spec: &RunSpec) -> Result<Settings> {
        let knobs = &spec.knobs;
        let wrong = |reason: String| {
            Error::Spec {
            key: "fanout".into(),
            reason,
            help: "write one number for all layers, or one a layer in the order in which they run, as \
                   in fanout = \"10,25\"; all takes every in-neighbour"
                .into(),
        }
        };
        let written = knobs.written("fanout");
        let one = |word: &str| match word.trim() {
            "all" => Ok(FanOut::All),
            word => word
                .parse()
                .map(FanOut::Of)
                .map_err(|_| wrong(format!("'{word}' is no number"))),
        };
        let mut fan_outs = written.split(',').map(one).collect::<Result<Vec<_>>>()?;
        if fan_outs.len() == 1 {
            fan_outs = vec![fan_outs[0].clone(); spec.layers];
        }
        if fan_outs.len() != spec.layers {
            let (has, layers) = (fan_outs.len(), spec.layers);
            return Err(wrong(format!("{has} fan-outs for {layers} layers")));
        }
        let prefetch = knobs.count("prefetch");
        Ok(Settings {
            fan_outs,
            batch: knobs.count("batch"),
            prefetch,
            workers: knobs.count("workers").clamp(1, prefetch.max(1)),
        })
    }
}

/// What the sampler draws from: a rank's part, with randomness by the data set's ids.
fn sampler(
    setup: &Setup,
    cx: &Ctx,
    block: Arc<Block>,
    fan_outs: Vec<FanOut>,
    ids: Vec<u32>,
) -> Result<Sampler> {
    let spec = &cx.plan.spec;
    let by_degree = spec.knobs.word("bias") == "degree";
    let bias = by_degree.then(|| {
        let degree = |&c: &u32| setup.data.graph.in_degree(ids[c as usize] as usize) as f32;
        block.csr().indices.iter().map(degree).collect::<Vec<f32>>()
    });
    let mut sampler = Sampler::new(block, fan_outs, spec.seed).with_ids(ids)?;
    if spec.model == ModelKind::Gat {
        // Softmax is over what was drawn.
        sampler = sampler.unweighted();
    }
    if spec.knobs.flag("replace") {
        sampler = sampler.with_replacement();
    }
    match bias {
        Some(bias) => sampler.with_bias(bias),
        None => Ok(sampler),
    }
}

/// Feature rows of some vertices, for all threads of the rank.
fn rows_of(data: &Dataset, ids: &[u32]) -> RowData {
    match data.features.select_rows(ids) {
        Features::Dense(x) => RowData::Dense(Arc::new(x)),
        Features::Sparse(x) => RowData::Sparse(Arc::new(x)),
        Features::Mapped { .. } => unreachable!("selected rows are in memory"),
    }
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let settings = Settings::of(&cx.plan.spec)?;
    let ordered = Ordered::of(&setup, cx);
    let (me, ranks) = (cx.rank(), cx.size());
    let parts = cut(&ordered.whole, &ordered.owner, ordered.ids(), (me, ranks))?;
    let part_row = (ranks > 1).then(|| ordered.part_row(&setup, cx));
    let LocalPart {
        own,
        n_interior,
        halo,
        halo_ptr,
        block,
        send,
        ..
    } = parts.local;
    let (own, halo) = (ordered.vertices(&own), ordered.vertices(&halo));
    drop(ordered);
    let numbers = parts.numbers;
    let column_ids = [&own[..], &halo[..]].concat();
    // What is drawn from, and what evaluation runs on.
    let block = Arc::new(block);
    let typed = block.n_relations();

    // Who trains on what.
    let rows = Rows::of(&setup.data, &own);
    let seed = cx.plan.spec.seed;
    let seeds_of = |train: &[u32]| Seeds::new(train, &numbers.first, me, settings.batch, seed);
    let (seeds, labels, links) = match &setup.data.links {
        None => {
            let train = numbers.ids.iter().zip(0u32..);
            let train = train.filter(|&(&v, _)| setup.data.train[v as usize]);
            let seeds = seeds_of(&train.map(|(_, number)| number).collect::<Vec<_>>());
            let ids = seeds.mine().iter().map(|&k| numbers.ids[k as usize]);
            let labels = Rows::of(&setup.data, &ids.collect::<Vec<_>>());
            (seeds, labels, None)
        }
        Some(links) => {
            let number = Arc::new(number_of_ids(&numbers.ids));
            let first = |e: u32| number[links.train[e as usize][0] as usize];
            let mut order: Vec<u32> = (0..links.train.len() as u32).collect();
            order.sort_by_key(|&e| first(e));
            let seeds = seeds_of(&order.iter().map(|&e| first(e)).collect::<Vec<_>>());
            let k = links.negatives as u32;
            let negative = match cx.plan.spec.knobs.word("negative") {
                "in-batch" => Negative::InBatch(k),
                _ => Negative::Uniform(k),
            };
            let train = links.train.clone();
            let edges = EdgeSeeds {
                edges: TrainEdges::new(setup.data.n(), train, negative, seed),
                mine: order[seeds.run()].to_vec(),
                numbers: number,
                exclude: cx.plan.spec.knobs.flag("exclude"),
            };
            let mut labels = Rows::of(&setup.data, &[]);
            // Terms of the loss for each edge.
            labels.train_total = 1 + links.negatives;
            (seeds, labels, Some(Arc::new(edges)))
        }
    };

    let shape = Shape {
        aggregate_first: AggregateFirst::Always,
        ..shape_of(&setup, cx)
    };
    let model = Model::new(&cx.plan.spec, cx.backend.as_ref(), shape);
    let data = rows_of(&setup.data, &own);
    let kind = model.kind();
    let dense = matches!(data, RowData::Dense(_));
    let wants = Wants {
        layers: model.layers(),
        in_place: dense && model.aggregates_features() && cx.plan.spec.dropout == 0.0,
        own: kind == ModelKind::Sage,
        edge_places: kind == ModelKind::Gat,
    };
    let sampler = sampler(
        &setup,
        cx,
        Arc::clone(&block),
        settings.fan_outs,
        column_ids.clone(),
    )?;
    let shard = Arc::new(Shard::new(
        me,
        Arc::clone(&numbers),
        sampler,
        parts.columns,
        typed,
    ));
    let room = Room::read(&cx.plan.spec.knobs.written("cache"))?;
    // Numbers of others by degree, descending; none where an epoch is drawn to know.
    let by_degree = (cx.plan.spec.knobs.word("cache_by") == "degree").then(|| {
        let (_, degrees) = setup.data.graph.sorted_by_degree();
        let degree = |number: &u32| degrees[numbers.ids[*number as usize] as usize];
        let others = (0..numbers.ids.len() as u32).filter(|&v| numbers.owner(v) != me);
        let mut others: Vec<u32> = others.collect();
        others.sort_by_key(|v| std::cmp::Reverse(degree(v)));
        others
    });
    drop(setup);

    // Everything that runs beside the training.
    let post = cx.post.clone().filter(|_| ranks > 1);
    let server = match &post {
        Some(post) => Some(Server::start(post, Arc::clone(&shard), data.clone())?),
        None => None,
    };
    let (seeds, labels) = (Arc::new(seeds), Arc::new(labels));
    let threads = if settings.prefetch == 0 {
        cx.plan.threads
    } else {
        1
    };
    let mut makers = Vec::with_capacity(settings.workers);
    for worker in 0..settings.workers as u32 {
        let mailbox = post.as_ref().map(|p| p.open(SERVER + 1 + worker));
        makers.push(Maker {
            reach: Reach {
                shard: Arc::clone(&shard),
                rows: data.clone(),
                cache: Arc::new(Cache::none(&data)),
                mailbox: mailbox.transpose()?,
                par: Arc::new(Par::new(threads)),
                wait_ns: 0,
            },
            seeds: Arc::clone(&seeds),
            labels: Arc::clone(&labels),
            links: links.clone(),
            wants,
            compact: Compact::default(),
            order: None,
            touched: Vec::new(),
        });
    }
    let hot = room.rows(&data);
    if ranks > 1 && hot > 0 {
        let maker = &mut makers[0];
        let mut wanted = match by_degree {
            Some(numbers) => numbers,
            None => presample(maker, 0)?,
        };
        wanted.truncate(hot);
        let cache = Arc::new(Cache::of(&wanted, maker.reach.fetch(&wanted)?));
        cx.caches(cache.rows.bytes() as u64);
        for maker in &mut makers {
            maker.reach.cache = Arc::clone(&cache);
        }
    }
    let cache = Arc::clone(&makers[0].reach.cache);
    let store = match &data {
        RowData::Dense(x) => Input::Dense(Rc::new(cx.backend.share(x))),
        RowData::Sparse(x) => Input::Sparse(SparseInput::new(kernels::CsrBuf::clone(x))),
    };
    let rows_at = (store.clone(), &*cache);
    let feed = Prefetched::new(
        makers,
        settings.prefetch,
        seeds.batches(),
        rows_at,
        (post, server),
        cx,
    );
    let halo_nodes = halo.len();
    let read: Vec<usize> = halo_ptr.windows(2).map(|w| w[1] - w[0]).collect();
    let evaluation = Whole {
        aggregate: OverBlock::new(Halo::new(send, read, true), block, n_interior, column_ids),
        input: store,
        ids: own.into(),
    };
    let head = Head::of(&rows, cx, model.layers())?;
    let facts = RankFacts {
        rank: me as u32,
        owned_nodes: rows.ids.len() as u64,
        halo_nodes: halo_nodes as u64,
        train_nodes: rows.train_count() as u64,
        ..RankFacts::default()
    };
    let training = MiniBatch::new(feed, model, head, evaluation, cx);
    let predicted = training.predict(cx);
    Ok(Built {
        strategy: Box::new(training),
        rows,
        facts,
        predicted,
        part: part_row,
    })
}

fn is_count(v: &Value) -> bool {
    matches!(v, Value::Int(i) if *i >= 0)
}

fn is_fan_out(v: &Value) -> bool {
    let one = |word: &str| word.trim() == "all" || word.trim().parse::<u32>().is_ok();
    match v {
        Value::Int(_) => is_count(v),
        Value::Str(text) => text.split(',').all(one),
        _ => false,
    }
}

const KNOBS: &[Knob] = &[
    Knob {
        name: "fanout",
        default: "10,25",
        doc: "in-neighbours drawn of a vertex: a number for all layers, or one a layer in the order in \
              which they run (the last is of the seeds), or all",
        check: is_fan_out,
    },
    Knob {
        name: "batch",
        default: "1000",
        doc: "seeds of a rank in one step; 0 for all of them",
        check: is_count,
    },
    Knob {
        name: "replace",
        default: "false",
        doc: "draw with replacement: the same in-neighbour may be drawn several times",
        check: |v| matches!(v, Value::Bool(_)),
    },
    Knob {
        name: "bias",
        default: "uniform",
        doc: "how likely an in-neighbour is drawn: uniform, or degree for in proportion to its in-degree",
        check: |v| matches!(v, Value::Str(s) if s == "uniform" || s == "degree"),
    },
    Knob {
        name: "negative",
        default: "uniform",
        doc: "for links, pairs without an edge beside each: uniform, both ends anywhere, or in-batch, with \
              ends of other edges of the batch",
        check: |v| matches!(v, Value::Str(s) if s == "uniform" || s == "in-batch"),
    },
    Knob {
        name: "exclude",
        default: "true",
        doc: "for links, draw as if the graph did not have the edges that a batch asks about",
        check: |v| matches!(v, Value::Bool(_)),
    },
    Knob {
        name: "prefetch",
        default: "2",
        doc: "batches made ahead in the background; 0 makes each when it is needed, with all threads",
        check: is_count,
    },
    Knob {
        name: "cache",
        default: "0",
        doc: "feature rows of other ranks that a rank keeps copies of: rows, or megabytes as in 64MB",
        check: Room::is_one,
    },
    Knob {
        name: "cache_by",
        default: "degree",
        doc: "which rows are kept: those of the highest degree, or with presample those that an epoch \
              drawn before the first one reads most often",
        check: |v| matches!(v, Value::Str(s) if s == "degree" || s == "presample"),
    },
    Knob {
        name: "workers",
        default: "1",
        doc: "threads of a rank that make batches in turns, at most as many as prefetch",
        check: |v| matches!(v, Value::Int(i) if *i >= 1),
    },
];

fn refuse(spec: &RunSpec) -> Result<()> {
    let unsupported = |what: &str, reason: &str, help: &str| {
        Err(Error::Unsupported {
            what: format!("{what} with strategy distdgl"),
            reason: reason.into(),
            help: help.into(),
        })
    };
    if spec.decoupled {
        return unsupported(
            "decoupled = true",
            "it draws a neighbourhood for every layer, and dense layers read none",
            "set decoupled = false, or use neutrontp",
        );
    }
    Settings::of(spec).map(|_| ())
}

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "distdgl",
    paper: "https://arxiv.org/abs/2010.05337",
    summary: "mini-batches; neighbours drawn by their owners, features pulled, made ahead",
    models: &[
        ModelKind::Gcn,
        ModelKind::Sage,
        ModelKind::Gat,
        ModelKind::Rgcn,
    ],
    ranks: (1, usize::MAX),
    knobs: KNOBS,
    exact: Exact::With(&[("fanout", "all"), ("batch", "0"), ("exclude", "false")]),
    determinism: Determinism::SameRanks,
    cut: true,
    background: true,
    resumes: true,
    settle: |_| Ok(()),
    refuse,
    build,
};
