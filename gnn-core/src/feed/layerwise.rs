//! The outputs of all of a rank's vertices, from whole neighbourhoods: layer by layer, and a piece of the
//! vertices at a time, which pulls the rows that it reads as a batch does.
//!
//! # Paper
//! DistDGL evaluates in this way, and before it GraphSAGE (Hamilton et al., 2017): every vertex is computed
//! once a layer, instead of once for each batch that reads it.
//!
//! Beside the graph there are the rows of two layers of this rank's vertices, those of others that most
//! edges read, fetched once a layer, and one piece. Others' rows that several pieces read, but are not among
//! those, are fetched for each.

use super::cache::Cache;
use super::collect::{Collector, MadeInput, Wants};
use super::on_device::{Lies, on_device};
use super::pieces::Pieces;
use super::reach::Reach;
use super::rows::RowData;
use super::{Feed, Hidden, Hops, LayerBlock};
use crate::backend::{Kept, Mat};
use crate::comm::Post;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::graph::Block;
use crate::model::{Flow, Input, Model};
use crate::record::give_back;
use crate::sample::Hop;
use ndarray::s;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of a layer's rows that are worth giving back to the system after an evaluation.
const LARGE: usize = 16 << 20;

/// Computes them.
pub(crate) struct Layerwise {
    collector: Collector,
    /// This rank's in-edges, and how they are taken in pieces.
    block: Arc<Block>,
    pieces: Pieces,
    /// What each layer has made, for others to read.
    hidden: Arc<Hidden>,
    /// Features of this rank's vertices, and the same on its device.
    features: RowData,
    store: Input,
}

/// What a layer has made.
enum Out {
    Device(Mat),
    Host(kernels::Mat),
}

impl Out {
    fn of(cx: &Ctx, host: bool, (rows, cols): (usize, usize)) -> Out {
        match host {
            true => Out::Host(kernels::Mat::zeros((rows, cols))),
            false => Out::Device(cx.backend.fresh(rows, cols)),
        }
    }
}

impl Layerwise {
    /// Over the vertices of `block`, whose pieces `pieces` are; `reach` is the training thread's own and has
    /// their features, as `store` has.
    pub(crate) fn new(
        reach: Reach,
        block: Arc<Block>,
        pieces: Pieces,
        hidden: Arc<Hidden>,
        store: Input,
    ) -> Layerwise {
        let wants = Wants {
            layers: 1,
            in_place: false,
            own: false,
            by_column: false,
            backward: None,
            leaves_apart: false,
            features: true,
            learnt: false,
            // What a layer reads is often what the one before has made, and is there for one layer.
            placed: false,
        };
        Layerwise {
            features: reach.rows.clone(),
            collector: Collector::new(reach, wants),
            block,
            pieces,
            hidden,
            store,
        }
    }

    /// The output of `model` without dropout, `[owned, d_out]`, from the features, or from `input` instead
    /// where it is given; `shown` sees what each layer reads. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn output(
        &mut self,
        cx: &mut Ctx,
        model: &Model,
        input: Option<kernels::Mat>,
        mut shown: Option<&mut dyn Feed>,
    ) -> Result<Mat> {
        self.collector.reach.counted = Post::SETUP;
        let (mut rows, mut store, mut made) = (self.features.clone(), self.store.clone(), false);
        if let Some(input) = input {
            (rows, store) = self.publish(cx, 0, Arc::new(input))?;
            made = true;
        }
        let (layers, mut most) = (model.layers(), 0);
        for layer in 0..layers {
            self.collector.reach.rows = rows;
            self.collector.reach.hidden = made.then_some(layer);
            if let Some(feed) = shown.as_deref_mut().filter(|_| layer > 0) {
                let reach = &mut self.collector.reach;
                feed.compare(layer, &mut |numbers| match reach.fetch(numbers)? {
                    RowData::Dense(rows) => Ok(rows),
                    RowData::Sparse(_) => unreachable!("layers make dense rows"),
                })?;
            }
            let out = self.layer(cx, model, layer, &store)?;
            if layer + 1 == layers {
                // Others may still be reading what this layer read.
                self.meet(cx)?;
                self.hidden.keep(layers);
                self.collector.reach.rows = self.features.none();
                self.collector.reach.cache = Arc::new(Cache::none(&self.features));
                drop(store);
                if most > LARGE {
                    // A rank keeps what it frees, and training takes smaller pieces out of it.
                    give_back();
                }
                return Ok(match out {
                    Out::Device(out) => out,
                    Out::Host(out) => cx.backend.upload(out),
                });
            }
            drop(store);
            let out = Arc::new(match out {
                Out::Device(out) => cx.backend.take(out),
                Out::Host(out) => out,
            });
            most = most.max(4 * out.len());
            (rows, store) = self.publish(cx, layer + 1, out)?;
            made = true;
        }
        unreachable!("a model has layers")
    }

    /// Lets others read what layer `layer` reads, once all ranks have got there.
    fn publish(
        &self,
        cx: &mut Ctx,
        layer: usize,
        x: Arc<kernels::Mat>,
    ) -> Result<(RowData, Input)> {
        let store = Input::Dense(Rc::new(self.there(cx, &x)?));
        let rows = RowData::Dense(x);
        self.hidden.put(layer, rows.clone());
        self.meet(cx)?;
        self.hidden.keep(layer);
        Ok((rows, store))
    }

    /// Rows for the device to read: there, or in the host's memory, as features are.
    fn there(&self, cx: &Ctx, x: &Arc<kernels::Mat>) -> Result<Mat> {
        match self.is_mapped() {
            false => Ok(cx.backend.share(x)),
            true => cx.backend.mapped(x).map_err(|e| Error::Unsupported {
                what: "rows in the host's memory".into(),
                reason: e.to_string(),
                help: "set features_on = device".into(),
            }),
        }
    }

    /// Whether rows of layers stay in the host's memory, as features do, since they do not fit on the device.
    fn is_mapped(&self) -> bool {
        self.store.dense().is_some_and(|x| x.is_mapped())
    }

    fn meet(&self, cx: &mut Ctx) -> Result<()> {
        if cx.size() > 1 {
            cx.comm.agree(&[0.0])?;
        }
        Ok(())
    }

    /// What a layer makes of all of this rank's vertices, out of `store` and others' rows.
    fn layer(&mut self, cx: &mut Ctx, model: &Model, layer: usize, store: &Input) -> Result<Out> {
        let dense = matches!(self.collector.reach.rows, RowData::Dense(_));
        // From the host's memory a row comes once a piece, not once an edge.
        let mapped = self.is_mapped();
        let sums = model.layer(layer).aggregates_features();
        self.collector.wants.in_place = dense && sums && !mapped;
        self.collector.wants.own = model.kind().reads_own_rows();
        let kept = self.collector.reach.fetch(&self.pieces.kept)?;
        let cached = match &kept {
            RowData::Dense(x) if x.nrows() > 0 => Some(self.there(cx, x)?),
            _ => None,
        };
        self.collector.reach.cache = Arc::new(Cache::of(&self.pieces.kept, kept));
        let mut out: Option<Out> = None;
        for k in 1..self.pieces.bounds.len() {
            let rows = self.pieces.bounds[k - 1]..self.pieces.bounds[k];
            let (input, mut hops, ids) = self.piece(layer, rows.clone())?;
            let lies = Lies {
                store,
                cached: cached.as_ref(),
            };
            let flow = Flow::from(on_device(cx, input, lies));
            let (over, hops) = (layer..layer + 1, &mut hops);
            let (made, _) = model.forward_layers(cx, hops, over, flow, &ids, false)?;
            let made = made.x.into_mat();
            if rows.len() == self.block.n_dst {
                return Ok(Out::Device(made));
            }
            let shape = (self.block.n_dst, made.ncols());
            match out.get_or_insert_with(|| Out::of(cx, mapped, shape)) {
                Out::Device(out) => cx.backend.copy_rows(&made, 0, rows.len(), out, rows.start),
                Out::Host(out) => {
                    let made = cx.backend.take(made);
                    out.slice_mut(s![rows, ..]).assign(&made);
                }
            }
        }
        Ok(out.expect("there is at least one piece"))
    }

    /// What layer `layer` reads for some rows, and the data set's ids of those.
    fn piece(&mut self, layer: usize, rows: Range<usize>) -> Result<(MadeInput, Hops, Kept<u32>)> {
        let hop = self.hop(rows.clone());
        let shard = Arc::clone(&self.collector.reach.shard);
        let first = shard.numbers.first[shard.rank];
        let numbers: Vec<u32> = rows.map(|r| first + r as u32).collect();
        let ids = |numbers: &[u32]| -> Kept<u32> {
            let ids = numbers.iter().map(|&v| shard.numbers.ids[v as usize]);
            ids.collect::<Vec<_>>().into()
        };
        let own = ids(&numbers);
        // Only this layer runs.
        let mut layers: Vec<LayerBlock> = (0..=layer).map(|_| LayerBlock::none()).collect();
        layers[layer].rows = own.clone();
        let (at, stats) = ((Post::SETUP, layer as u64), &mut super::Stats::new(1));
        let collector = &mut self.collector;
        let reading = if collector.wants.in_place {
            collector.in_place(hop, &numbers, None, stats)
        } else {
            let made = collector.block(layer, hop, &numbers)?;
            layers[layer].block = Some(made.block);
            layers[layer].columns = ids(&made.columns);
            collector.rows_of(&made.columns, stats)
        };
        let mut collecting = collector.fetch(at, reading)?;
        let input = collector.finish(&mut collecting)?;
        let inputs = layers[layer].columns.clone();
        Ok((input, Hops { inputs, layers }, own))
    }

    /// All in-edges of some rows, as if they had been drawn.
    fn hop(&self, rows: Range<usize>) -> Hop {
        let a = self.block.csr();
        let (from, to) = (a.indptr[rows.start], a.indptr[rows.end]);
        let edges = from as usize..to as usize;
        let mut sources = a.indices[edges.clone()].to_vec();
        self.collector.reach.shard.name(&mut sources);
        Hop {
            indptr: a.indptr[rows.start..=rows.end]
                .iter()
                .map(|e| e - from)
                .collect(),
            sources,
            weights: a.weights.map(|w| w[edges.clone()].to_vec()),
            types: self.block.types().map(|t| t[edges].to_vec()),
        }
    }
}
