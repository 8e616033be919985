//! DistGNN-MB: batches of a rank's own vertices, with historical embeddings for those of other ranks.
//!
//! # Paper
//! Md et al., "DistGNN-MB: Distributed Large-Scale Graph Neural Network Training on x86 via Minibatch Sampling",
//! 2022, <https://arxiv.org/abs/2211.06385>; § 3.2 (HEC, AEP), Algorithms 1 and 2.
//! # Idea
//! A rank trains its own vertices and draws neighbours from its own part: nobody is asked for anything while a
//! batch is made. Vertices of other ranks (halo) are leaves. What layer l reads of them comes out of a cache that
//! the layer has ([`hec`]): in every step, ranks push the rows that their batches compute to the peers that read
//! those vertices ([`readers`], at most `nc` a peer and layer), which store them `d` steps later
//! ([`exchange`]), when they have long arrived. A row is kept for `ls` steps; a cache has `cs` lines. A vertex in
//! no cache is dropped from the batch with its edges ([`caches`]). Gradients are summed over all ranks in every
//! step; none flows into rows of a cache, while weights' gradients include them.
//! # Differs
//! What is left of a row's edges counts for all that were drawn ([`caches`]); the paper does not say.
//! Features are pushed without dropout and get it where they are read, once, with the mask of their vertex and
//! epoch. Cached rows of later layers have their dropout from where they were made. Lookups happen while
//! a batch is drawn, after the stores of the step, so that dropped vertices are in no list; what is found is what
//! Algorithm 2 finds. GAT is ours, not the paper's Eq. 2, which has bias and ReLU before the coefficients: what
//! is cached is the layer's input (f), which current weights project. Ranks that read nothing of each other send no letters.
//! Features are sent once to a peer that has a line for each vertex that it reads; later a word says that they are new
//! again, and all else goes as if they had travelled. With
//! `on_miss = fetch`, a vertex in no cache is drawn at its owner and its features are fetched, as `distdgl` does:
//! no edge is lost. With `cache`, the first layer has copies of features that are chosen before the first step
//! (by degree, by what an epoch would read, or by inclusion probability) in the place of its historical cache.
//! # Measured
//! Epochs beside `distdgl`: `notebooks/measured/distgnn-mb.md`.
//! # Not done
//! Links: an edge's other end may lie elsewhere. Embeddings of vertices. Several trainers a rank.
//! # Exact when
//! One rank, or `on_miss = fetch` without lines (`cs = 0`): then batches are those of `distdgl` for the same seeds,
//! which are `single` with `fanout = all` and `batch = 0`.

mod caches;
mod exchange;
mod feed;
mod frames;
mod hec;
mod kept;
mod lines;
mod order;
mod readers;
mod timed;

use super::mini_batch::{
    self, Base, CACHE, CacheSettings, DEVICE, Foreseen, GRADIENTS, LinkSettings, NEIGHBOURS,
    NeighbourSettings, Settings, StepRow, is_flag, of_request,
};
use super::{Built, Determinism, Entry, Exact, Knob, Setup};
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::feed::{BatchRow, Halo, HopRow, Maker, RowData, SeedsBy, SharedHistory};
use crate::model::ModelKind;
use crate::record::Holds;
use crate::record::frame::FrameRow;
use crate::spec::{RunSpec, TaskKind, Value};
use caches::{Caches, LayerCache, Miss};
use exchange::Exchange;
use feed::{Pushes, Pushing};
use frames::HecRow;
use hec::{Hec, Room};
use kernels::{Mat, Par};
use readers::Readers;
use std::sync::{Arc, Mutex};

pub use timed::{CacheCase, CacheTimes};

fn is_count(v: &Value) -> bool {
    matches!(v, Value::Int(i) if *i >= 0)
}

/// What is kept of other ranks, and what they are told.
const HISTORY: [Knob; 8] = [
    Knob {
        name: "cs",
        default: "1000000",
        doc: "lines of a layer's historical cache",
        check: is_count,
    },
    Knob {
        name: "ls",
        default: "2",
        doc: "steps for which a row is kept after the one that stores it",
        check: is_count,
    },
    Knob {
        name: "nc",
        default: "2000",
        doc: "rows of a layer that a rank pushes to one peer in one step, at most: drawn by degree where there are more",
        check: is_count,
    },
    Knob {
        name: "d",
        default: "1",
        doc: "steps until a row that was pushed is stored and read, at least 1",
        check: is_count,
    },
    Knob {
        name: "persistent",
        default: "true",
        doc: "caches stay from epoch to epoch; false clears them as one begins",
        check: is_flag,
    },
    Knob {
        name: "age_features",
        default: "true",
        doc: "features in the first layer's cache get too old like other rows; false keeps them as long as there is \
              room",
        check: is_flag,
    },
    Knob {
        name: "on_miss",
        default: "drop",
        doc: "a vertex of another rank that is in no cache: drop takes it out of the batch, fetch has its owner draw \
              its neighbours or give its features",
        check: |v| matches!(v, Value::Str(s) if s == "drop" || s == "fetch"),
    },
    Knob {
        name: "drift",
        default: "false",
        doc: "compare the rows in the caches with exact ones when an epoch ends, which makes it as much longer as an \
              evaluation takes",
        check: is_flag,
    },
];

fn fetches(spec: &RunSpec) -> bool {
    spec.knobs.word("on_miss") == "fetch"
}

/// Rows are stored `d` steps later, and none is on its way when an epoch ends.
fn notes(spec: &RunSpec, most_trained: usize) -> Vec<String> {
    let (batch, d) = (spec.knobs.count("batch"), spec.knobs.count("d"));
    let steps = most_trained.div_ceil(if batch == 0 {
        most_trained.max(1)
    } else {
        batch
    });
    let never = spec.ranks > 1 && d >= steps;
    let text = format!(
        "nothing that is pushed is ever stored: an epoch has {steps} step(s), and d = {d}. Smaller batches make more"
    );
    never.then_some(text).into_iter().collect()
}

/// What the knobs say, read.
fn settings(spec: &RunSpec) -> Result<Settings> {
    // One rank has all it reads.
    let local = spec.ranks > 1 && !fetches(spec);
    Ok(Settings {
        neighbours: NeighbourSettings::of(spec)?,
        links: LinkSettings::of(spec),
        cache: CacheSettings::of(spec)?,
        seeds: SeedsBy::Owner,
        halo: if local { Halo::Leaves } else { Halo::Drawn },
        trainers: 1,
        learning: None,
        ..Settings::of(spec)?
    })
}

fn refuse(spec: &RunSpec) -> Result<()> {
    let unsupported = |what: &str, reason: &str, help: &str| {
        Err(Error::Unsupported {
            what: format!("{what} with strategy {}", spec.strategy),
            reason: reason.into(),
            help: help.into(),
        })
    };
    if spec.knobs.count("d") == 0 {
        return unsupported(
            "d = 0",
            "a step would wait for rows that its peers push later in the same step",
            "set d = 1 or more",
        );
    }
    if spec.task != TaskKind::Node {
        return unsupported(
            "links",
            "a rank trains what lies with it, and an edge's other end may lie elsewhere",
            "use distdgl or bytegnn",
        );
    }
    settings(spec)?.refuse(spec)
}

/// How much a layer's cache holds, of so many vertices that it may read.
fn room(spec: &RunSpec, layer: usize, halo: usize) -> Room {
    let ages = layer > 0 || spec.knobs.flag("age_features");
    Room {
        lines: spec.knobs.count("cs").min(halo),
        life: match ages {
            true => spec.knobs.count("ls") as u64,
            false => u64::MAX,
        },
        // Only features never change.
        all: layer == 0 && spec.knobs.count("cs") >= halo,
    }
}

/// A first layer's cache that is filled now with the copies that `maker` has, and takes their place.
fn fixed(maker: &mut Maker, like: &RowData, n: usize, par: &Par) -> LayerCache {
    let reach = &mut maker.collector.reach;
    let numbers = reach.cache.numbers();
    let room = Room {
        lines: numbers.len(),
        life: u64::MAX,
        all: false,
    };
    let mut hec = Hec::new(n, like, room);
    hec.store(0, &numbers, &reach.cache.rows, par);
    reach.cache = Arc::new(crate::feed::Cache::none(like));
    LayerCache::new(hec, true)
}

/// Bytes of caches, of who reads whom, and of letters on their way, which are made of features and hidden rows.
fn history(cx: &Ctx, base: &Base) -> usize {
    let (spec, ranks) = (&cx.plan.spec, cx.size());
    if ranks == 1 {
        return 0;
    }
    let own = base.part.own.len();
    let (n, halo) = (base.part.numbers.ids.len(), base.part.columns.len() - own);
    let most = spec.knobs.count("nc").min(own);
    let of_layer = |layer: usize| {
        let width = match layer {
            0 => base.data.width(),
            _ => base.model.layer(layer - 1).d_out(),
        };
        let letter = 4 * (1 + (width + 1) * most);
        // Sent and not gone, and come and not stored.
        let letters = 2 * (spec.knobs.count("d") + 1) * (ranks - 1) * letter;
        Hec::needs(n, width, room(spec, layer, halo).lines) + letters
    };
    let layers: usize = (0..base.model.layers()).map(of_layer).sum();
    layers + 8 * own + 2 * halo
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let spec = &cx.plan.spec;
    let (settings, seed, threads) = (settings(spec)?, spec.seed, cx.plan.threads);
    let base = Base::of(&setup, cx, settings)?;
    let memory = Foreseen::of(&setup, cx, &base).map(|foreseen| {
        Holds::from(Foreseen {
            history: history(cx, &base),
            ..foreseen
        })
    });
    drop(setup);
    let rows = base.part.block.csr();
    let in_degree = |r: usize| rows.span(r).len() as u32;
    let degrees: Vec<u32> = (0..base.part.own.len()).map(in_degree).collect();
    let halo = base.part.columns[base.part.own.len()..].to_vec();
    let mut beside = base.start(cx)?;
    let mut makers = beside.makers(cx)?;
    let (number, mailbox) = beside.mailbox()?;
    let Some(mailbox) = mailbox else {
        let feed = beside.prefetched(makers, None, cx)?;
        return beside.finish(cx, Box::new(feed), of_request, memory);
    };

    let (numbers, model) = (Arc::clone(beside.numbers()), beside.model());
    let (layers, n) = (model.layers(), numbers.ids.len());
    let mut halo_of = vec![Vec::new(); cx.size()];
    for v in &halo {
        let owner = numbers.owner(*v);
        halo_of[owner].push(v - numbers.first[owner]);
    }
    let keeps = room(&cx.plan.spec, 0, halo.len()).all;
    let (exchange, wanted) = Exchange::new(mailbox, (number, layers), halo_of, keeps)?;
    let hidden = |layer: usize| {
        let width = model.layer(layer - 1).d_out();
        RowData::Dense(Arc::new(Mat::zeros((0, width))))
    };
    let features = beside.features().clone();
    let likes = (0..layers).map(|layer| match layer {
        0 => features.none(),
        layer => hidden(layer),
    });
    let likes: Vec<RowData> = likes.collect();
    let par = Par::new(threads);
    let spec = &cx.plan.spec;
    let of_layer = |(layer, like): (usize, &RowData)| {
        let room = room(spec, layer, halo.len());
        LayerCache::new(Hec::new(n, like, room), false)
    };
    let mut caches: Vec<LayerCache> = likes.iter().enumerate().map(of_layer).collect();
    if makers[0].collector.reach.cache.rows.len() > 0 {
        caches[0] = fixed(&mut makers[0], &likes[0], n, &par);
    }
    let miss = match fetches(spec) {
        true => Miss::Fetch,
        false => Miss::Drop {
            rescale: !spec.model.attends(),
        },
    };
    let caches = Arc::new(Mutex::new(Caches::new(numbers.of(cx.rank()), miss, caches)));
    let history: SharedHistory = caches.clone();
    makers[0].collector.history = Some(history);
    let pushes = Pushes {
        delay: spec.knobs.count("d") as u64,
        most: spec.knobs.count("nc"),
        persistent: spec.knobs.flag("persistent"),
        any: spec.knobs.count("nc") > 0 && spec.knobs.count("cs") > 0,
    };
    let feed = Pushing {
        batches: beside.prefetched(makers, None, cx)?,
        caches,
        exchange,
        readers: Readers::new(degrees, &wanted, seed),
        features,
        likes,
        numbers,
        pushes,
        par,
        step: 0,
        drift: spec.knobs.flag("drift"),
        errors: Vec::new(),
    };
    beside.finish(cx, Box::new(feed), of_request, memory)
}

const KNOBS: &[Knob] =
    &mini_batch::splice::<17>(&[&NEIGHBOURS, &HISTORY, &CACHE, &DEVICE, &GRADIENTS]);

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "distgnn-mb",
    paper: "https://arxiv.org/abs/2211.06385",
    summary: "mini-batches of own vertices; rows of others come from caches that peers fill as they train",
    models: &[
        ModelKind::Gcn,
        ModelKind::Sage,
        ModelKind::Gat,
        ModelKind::Rgcn,
    ],
    knobs: KNOBS,
    exact: Exact::With(&[
        ("fanout", "all"),
        ("batch", "0"),
        ("on_miss", "fetch"),
        ("cs", "0"),
    ]),
    frames: &[
        BatchRow::FRAME,
        HopRow::FRAME,
        StepRow::FRAME,
        HecRow::FRAME,
    ],
    partition: "metis:balance=train+edges",
    determinism: |_| Determinism::SameRanks,
    background: true,
    resumes: true,
    refuse,
    notes,
    build,
    ..Entry::BASE
};

#[cfg(test)]
mod tests;
