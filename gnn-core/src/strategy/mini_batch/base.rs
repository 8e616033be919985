//! What a strategy of this family builds itself from: everything that is known of a rank before its first
//! letter, then what runs beside the training ([`Beside`]).
//!
//! ```text
//! Base::of(setup, settings) ─▶ bytes foreseen ─▶ setup is let go ─▶ start ─▶ makers ─▶ a feed ─▶ finish
//! ```

use super::Settings;
use super::beside::Beside;
use super::part::Part;
use super::settings::{CacheBy, FeaturesOn};
use super::training::Training;
use crate::comm::Post;
use crate::ctx::Ctx;
use crate::dataset::{Dataset, Features};
use crate::error::{Error, Result};
use crate::feed::{Hidden, Pieces, RowData, SERVER, Served, Server, Shard, Table, Wants};
use crate::model::{AggregateFirst, Input, Model, Shape};
use crate::record::RankFacts;
use crate::sample::Sampler;
use crate::strategy::full_graph::shape_of;
use crate::strategy::{Rows, Setup};
use std::rc::Rc;
use std::sync::Arc;

/// A rank's part, its seeds, its features and the model.
pub(in crate::strategy) struct Base {
    pub(super) settings: Settings,
    pub(in crate::strategy) part: Part,
    pub(super) training: Training,
    pub(in crate::strategy) model: Model,
    pub(super) wants: Wants,
    /// Its own rows, and whether its device reads them in the host's memory.
    pub(in crate::strategy) data: RowData,
    mapped: bool,
    /// How its rows are taken in pieces for evaluation.
    pub(super) pieces: Pieces,
    /// Rows of others that are kept, and those that are wanted most, by number, if they are known.
    pub(super) hot: usize,
    pub(super) wanted: Option<Vec<u32>>,
    sampler: Sampler,
    rows: Rows,
}

impl Base {
    /// What is known of a rank before its first letter.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for owners or fan-outs that do not fit the graph.
    pub(in crate::strategy) fn of(setup: &Setup, cx: &Ctx, settings: Settings) -> Result<Base> {
        let part = Part::of(setup, cx)?;
        let training = Training::of(setup, cx, &part.numbers, &settings);
        let rows = Rows::of(&setup.data, &part.own);
        let model = model(setup, cx, &settings);
        let data = match learns_alone(&settings) {
            true => RowData::Dense(Arc::default()),
            false => rows_of(&setup.data, &part.own),
        };
        let mapped = is_mapped(cx, &settings, &data);
        let wants = wants(cx, &settings, &model, (&data, mapped));
        let mut sampler = part.sampler(setup, cx, &settings)?;
        sampler.check_types()?;
        if let Some(device) = cx.backend.memory().filter(|_| settings.device.draws) {
            let beside = device.another().map_err(|e| refused("draw_on", &e))?;
            sampler = sampler.on_device(&beside);
        }
        let hot = match cx.size() > 1 && wants.features {
            true => settings.cache.room.rows(&data),
            false => 0,
        };
        let wanted = match settings.cache.by {
            _ if hot == 0 => None,
            CacheBy::Degree => Some(part.others_by_degree(setup, cx.rank())),
            CacheBy::Inclusion => Some(part.others_by_inclusion(setup, cx, &settings, &training)),
            CacheBy::Presample => None,
        };
        Ok(Base {
            pieces: {
                let room = mapped.then(|| room_of(cx, &data)).flatten();
                Pieces::of(&part.block, &part.columns, settings.least, room)
            },
            settings,
            part,
            training,
            model,
            wants,
            data,
            mapped,
            hot,
            wanted,
            sampler,
            rows,
        })
    }

    /// Begins to answer other ranks.
    ///
    /// # Errors
    /// [`crate::Error::Io`] when there is no thread to be had, and whatever the communicator meets.
    pub(in crate::strategy) fn start(self, cx: &Ctx) -> Result<Beside> {
        let Base { data, rows, .. } = self;
        // What only set-up reads is let go here.
        let Part {
            own,
            halo_nodes,
            block,
            columns,
            numbers,
            row,
            ..
        } = self.part;
        let (me, ranks) = (cx.rank(), cx.size());
        let typed = block.n_relations();
        let shard = Arc::new(Shard::new(me, numbers, self.sampler, columns, typed));
        let hidden = Arc::new(Hidden::default());
        let seed = cx.plan.spec.seed;
        let table = |learning| Arc::new(Table::new(learning, &own, ranks, seed));
        let table = self.settings.learning.map(table);
        let post = cx.post.clone().filter(|_| ranks > 1);
        let serve = |post: &Post| {
            let served = Served {
                shard: Arc::clone(&shard),
                rows: data.clone(),
                hidden: Arc::clone(&hidden),
                table: table.clone(),
                #[cfg(test)]
                delays: self.settings.delays,
            };
            Server::start(post, served, self.settings.turn)
        };
        let server = post.as_ref().map(serve).transpose()?;
        let store = match &data {
            RowData::Dense(x) if self.mapped => {
                let rows = cx.backend.mapped(x);
                Input::Dense(Rc::new(rows.map_err(|e| refused("features_on", &e))?))
            }
            RowData::Dense(x) => Input::Dense(Rc::new(cx.backend.share(x))),
            // Only dense rows are read where they lie.
            RowData::Sparse(_) => Input::none(cx),
        };
        let facts = RankFacts {
            rank: me as u32,
            owned_nodes: rows.ids.len() as u64,
            halo_nodes: halo_nodes as u64,
            train_nodes: rows.train_count() as u64,
            ..RankFacts::default()
        };
        Ok(Beside {
            settings: self.settings,
            training: self.training,
            model: self.model,
            wants: self.wants,
            data,
            pieces: self.pieces,
            rows,
            facts,
            block,
            row,
            hot: self.hot,
            wanted: self.wanted,
            shard,
            hidden,
            table,
            post,
            server,
            mailbox: SERVER + 1,
            store,
        })
    }
}

/// The model of a rank that trains on mini-batches.
fn model(setup: &Setup, cx: &Ctx, settings: &Settings) -> Model {
    let shape = shape_of(setup, cx);
    let features = if learns_alone(settings) {
        0
    } else {
        shape.d_in
    };
    let shape = Shape {
        aggregate_first: AggregateFirst::Always,
        d_in: features + settings.learning.map_or(0, |l| l.width),
        ..shape
    };
    Model::new(&cx.plan.spec, cx.backend.as_ref(), shape)
}

fn learns_alone(settings: &Settings) -> bool {
    settings.learning.is_some_and(|l| l.alone)
}

/// What a device cannot do that a setting asks for.
fn refused(key: &str, why: &kernels::cuda::Error) -> Error {
    Error::Spec {
        key: key.into(),
        reason: why.to_string(),
        help: format!("leave {key} out"),
    }
}

/// Whether this rank's device reads its features in the host's memory.
fn is_mapped(cx: &Ctx, settings: &Settings, data: &RowData) -> bool {
    let (Some(device), RowData::Dense(x)) = (cx.backend.memory(), data) else {
        return false;
    };
    let learnt = settings.learning.is_some();
    match settings.device.features {
        // Features are brought to what is learnt, by the host.
        _ if learnt => false,
        FeaturesOn::Device => false,
        FeaturesOn::Host => true,
        FeaturesOn::Auto => {
            let free = device.free_bytes();
            free.is_some_and(|free| 4 * x.len() > free / 4 * 3)
        }
    }
}

/// How many rows of the widest layer an eighth of what is free on the device has room for: beside what a layer reads
/// there is what it makes of it.
fn room_of(cx: &Ctx, data: &RowData) -> Option<usize> {
    let (spec, free) = (&cx.plan.spec, cx.backend.memory()?.free_bytes()?);
    let widest = data.width().max(spec.hidden * spec.heads).max(1);
    Some((free / 8 / (4 * widest)).max(1))
}

/// What the model wants of a batch.
fn wants(cx: &Ctx, settings: &Settings, model: &Model, (data, mapped): (&RowData, bool)) -> Wants {
    let kind = model.kind();
    let learnt = settings.learning.is_some();
    // Weights of a first layer over sums of features need no gradient of a feature.
    let aggregates = matches!(data, RowData::Dense(_)) && !learnt && model.aggregates_features();
    Wants {
        layers: model.layers(),
        // From the host's memory a row comes once a batch, not once an edge.
        in_place: aggregates && cx.plan.spec.dropout == 0.0 && !mapped,
        own: kind.reads_own_rows(),
        // What is learnt beside them is put to their rows first.
        by_column: matches!(data, RowData::Sparse(_)) && !learnt && {
            let (backend, d) = (&cx.backend, data.width());
            model.feature_products(d).any(|n| backend.reads_cols(d, n))
        },
        backward: Some(usize::from(aggregates)),
        leaves_apart: model.aggregates_features(),
        features: !learns_alone(settings),
        learnt,
        placed: cx.backend.memory().is_some() && matches!(data, RowData::Dense(_)) && !learnt,
    }
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
