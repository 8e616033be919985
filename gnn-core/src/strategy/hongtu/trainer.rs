//! One rank's training: layer by layer, and batch by batch in each.

use super::batches::{Batch, Batches};
use super::dedup::Dedup;
use super::disk::Round;
use super::frames;
use super::host::{Host, OnHost};
use super::need::{self, Need};
use super::remember::Remember;
use super::tier::Tier;
use super::topology::{self, Lists, Room};
use crate::backend::{Kept, Mat};
use crate::checkpoint::Snapshot;
use crate::comm::{Label, Message};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::graph::Block;
use crate::head::Head;
use crate::model::{Beside, Flow, Grad, Input, Model, Optimiser, Shape, Tape, Weights};
use crate::record::{Direction, Holds, Pass, PredictedLane};
use crate::strategy::reduce::Reduction;
use crate::strategy::{Rows, Strategy};
use std::rc::Rc;

/// What a layer reads of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    /// Its own rows, and no others.
    Own,
    /// An aggregate of its input with fixed weights, and its own rows if it wants them.
    Places,
    /// An aggregate of a product of its input, and its own rows.
    Product,
    /// The rows at the other ends of its edges.
    Columns,
}

impl Reads {
    /// Whether it multiplies by edges from places in a buffer.
    pub(super) fn in_places(self) -> bool {
        matches!(self, Reads::Places | Reads::Product)
    }
}

/// A batch's edges with the rows that they read, for layers that read those.
pub(super) struct Columns {
    /// `[n, columns]`, destinations first.
    pub(super) block: Block,
    /// Global vertex ids of the columns.
    pub(super) ids: Kept<u32>,
    /// Their rows of sparse features, where the first layer reads such.
    pub(super) features: Option<Input>,
}

/// What one layer has made of a batch.
pub(super) struct Passed {
    /// What it passed on, behind activation and dropout.
    pub(super) y: Input,
    pub(super) tape: Tape,
}

/// A rank's training.
pub(super) struct HongTu {
    pub(super) model: Model,
    pub(super) head: Head,
    pub(super) reduction: Reduction,
    pub(super) optimiser: Optimiser,
    pub(super) batches: Batches,
    /// Of each batch, where layers read columns.
    pub(super) columns: Vec<Columns>,
    /// Of each batch, sparse features of its own rows, where the first layer reads only those.
    pub(super) sparse: Vec<Input>,
    /// By layer.
    pub(super) reads: Vec<Reads>,
    /// Columns of each layer's input, and of the output.
    pub(super) widths: Vec<usize>,
    pub(super) dedup: Dedup,
    /// How long it took to make chunks and to put them into their order, now or earlier, ms.
    pub(super) reorganise_ms: f64,
    /// By layer.
    pub(super) remembers: Vec<Remember>,
    pub(super) tier: Tier,
    pub(super) host: Host,
    /// Bytes of the device; 0 is no limit.
    pub(super) budget: u64,
    /// Whether lists of all chunks stay on the device.
    pub(super) pinned: bool,
    /// Lists of all chunks where they lie behind the host.
    pub(super) lists: Option<Lists>,
    /// Room on the device for lists that come and go.
    pub(super) room: Room,
    /// Bytes of the lists of each chunk, for as long as they are used.
    pub(super) list_bytes: Vec<u64>,
    /// Of all, with what is made of those that stay.
    pub(super) pinned_bytes: u64,
    /// By layer and batch, what stays on the device.
    pub(super) passed: Vec<Vec<Option<Passed>>>,
    /// Of each batch.
    pub(super) of_batches: Vec<Rows>,
    /// Global vertex ids of this rank's rows, and of each batch's.
    pub(super) ids: Kept<u32>,
    pub(super) ids_of: Vec<Kept<u32>>,
}

impl HongTu {
    pub(super) fn batch(&self, j: usize) -> &Batch {
        &self.batches.all[j]
    }

    /// Whether anybody wants the gradient of a layer's input.
    pub(super) fn wanted(&self, layer: usize) -> bool {
        layer > 0
    }

    /// Whether backward loads the rows that a layer reads of others once more.
    pub(super) fn loads_again(&self, layer: usize) -> bool {
        self.remembers[layer] == Remember::Nothing && self.reads[layer] != Reads::Product
    }

    /// Columns of the rows that a layer reads of others.
    pub(super) fn read_width(&self, layer: usize) -> usize {
        let product = || self.model.product_width(layer, self.own_is_sparse(layer));
        match self.reads[layer] {
            Reads::Product => product().expect("a layer that multiplies first"),
            _ => self.widths[layer],
        }
    }

    /// Bytes that leave this rank in an epoch.
    pub(super) fn predict(&self, cx: &Ctx) -> Vec<(PredictedLane, u64)> {
        let mut lanes = self.reduction.predict(cx);
        for (layer, &reads) in self.reads.iter().enumerate() {
            if reads == Reads::Own || self.reads_sparse(layer) {
                continue;
            }
            // Forward, and once more where nothing is kept; gradients go the other way.
            let again = self.loads_again(layer);
            for dst in (0..cx.size()).filter(|&dst| dst != cx.rank()) {
                let rows = |of: &dyn Fn(&Batch) -> usize| -> usize {
                    self.batches.all.iter().map(of).sum()
                };
                let mut ways = vec![(Direction::Forward, rows(&|b| b.up.send[dst].len()))];
                if again {
                    ways[0].1 += rows(&|b| b.down.send[dst].len());
                }
                if self.wanted(layer) || reads == Reads::Product {
                    ways.push((Direction::Backward, rows(&|b| b.up.fetch_at[dst].len())));
                }
                for (direction, rows) in ways.into_iter().filter(|(_, rows)| *rows > 0) {
                    let bytes = 4 * (rows * self.read_width(layer)) as u64;
                    lanes.push(((layer as u16, direction, dst as u32), bytes));
                }
            }
        }
        lanes
    }

    /// Rows to other devices, and those that they have for this one.
    pub(super) fn exchange(
        cx: &mut Ctx,
        (layer, direction): (usize, Direction),
        send: Vec<Message>,
        lens: &[usize],
    ) -> Result<Vec<Message>> {
        let layer = layer as u16;
        let ticket = cx
            .comm
            .post_all_to_all_v(Label { layer, direction }, send, lens)?;
        cx.comm.finish(ticket)
    }

    /// The initial residual on the host, if a layer reads it.
    pub(super) fn residual_of(&self, layer: usize) -> Option<&OnHost> {
        let reads = self.model.layer(layer).beside() == Beside::ReadsResidual;
        self.host.residual[0].as_ref().filter(|_| reads)
    }

    /// What passes beside the rows into a layer.
    pub(super) fn residual(&self, cx: &Ctx, layer: usize, j: usize) -> Result<Option<Mat>> {
        let own = self.batch(j).own.clone();
        self.residual_of(layer)
            .map(|rows| self.tier.load_range(cx, rows, own))
            .transpose()
    }

    /// Gradients of a layer's input begin: all zero, but where each row is `stored` before it is read.
    pub(super) fn begin_gradients(&mut self, cx: &Ctx, layer: usize, stored: bool) {
        let (mut room, used) = self.host.room(layer, self.widths[layer]);
        if let (true, OnHost::Whole(x)) = (used, &mut room)
            && cx.backend.keeps_elements()
        {
            match stored {
                false => self.tier.clear(cx, x),
                // Nobody relies on what it held.
                true if cfg!(test) => x.host_mut().fill(f32::NAN),
                true => (),
            }
        }
        self.host.gradients[layer] = Some(room);
    }

    /// The loss of a batch whose `logits` are there; its gradients lie on the host then.
    fn loss(&mut self, cx: &mut Ctx, j: usize, logits: &Mat) -> Result<f64> {
        let mut g = cx.backend.fresh(logits.nrows(), logits.ncols());
        let none = Weights::new();
        let (loss, _) = self
            .head
            .loss(cx, &self.of_batches[j], &none, logits, &mut g)?;
        let layers = self.model.layers();
        let first = self.batch(j).own.start;
        let to = self.host.gradients(layers);
        self.tier.store(cx, &g, to, first)?;
        Ok(loss)
    }

    /// The same on this rank's device, with the weights that a request begins with; it was made elsewhere.
    pub(super) fn on_device(self, cx: &Ctx, shape: Shape, pinned: bool, host: Host) -> HongTu {
        let spec = &cx.plan.spec;
        let model = Model::new(spec, cx.backend.as_ref(), shape);
        HongTu {
            reduction: Reduction::new(&model.weights, cx),
            optimiser: Optimiser::new(spec, &model, cx.backend.as_ref()),
            model,
            tier: Tier::new(cx, self.tier.overlaps()),
            host,
            pinned,
            ..self
        }
    }

    /// Bytes on the host beside rows and gradients of layers: what is known of vertices, which rows move, and
    /// edges that are not on the device, unless they lie behind.
    pub(super) fn on_host(&self, behind: bool) -> u64 {
        let moved: usize = self.batches.all.iter().map(Batch::listed).sum();
        let edges: u64 = match self.pinned || behind {
            true => 0,
            false => self.list_bytes.iter().sum(),
        };
        let of_columns = self.columns.iter().filter_map(|c| c.features.as_ref());
        let sparse = self.sparse.iter().chain(of_columns).map(Input::bytes);
        // Numbers and ids, of all and of each batch; labels and masks, in three places; logits.
        let vertex = 12 + 3 * 11 + 4 * self.widths[self.widths.len() - 1];
        edges + (moved + sparse.sum::<usize>() + vertex * self.ids.len()) as u64
    }

    /// What this rank's process holds.
    pub(super) fn holds(&self, cx: &Ctx, need: Need) -> Holds {
        let weights = Optimiser::bytes(&cx.plan.spec, self.model.parameters());
        let [features, inputs @ ..] = &self.host.inputs[..] else {
            unreachable!("a model has layers")
        };
        // Those on the device as well.
        let graph = self.on_host(self.lists.is_some()) + self.lists_on_device();
        let (features, offloaded) = match self.host.pages() {
            None => {
                let kept = inputs.iter().chain(self.host.aggregates.iter().flatten());
                let rows: usize = kept.map(|x| 4 * x.len()).sum();
                let beside = (0..self.model.layers()).map(|l| self.model.layer(l).beside());
                let residual = beside.map(|beside| match beside {
                    Beside::BeginsResidual(d) => 8 * self.host.n * d,
                    _ => 0,
                });
                let residual: usize = residual.sum();
                let gradients = 4 * self.host.n * columns_of_rooms(&self.widths);
                (4 * features.len(), rows + residual + gradients)
            }
            Some(pages) => (0, pages.room() as usize),
        };
        Holds {
            graph: graph as usize,
            features,
            activations: (need.matrices as usize).saturating_sub(weights),
            offloaded,
            parameters: weights,
            ..Holds::default()
        }
    }

    /// Bytes of lists that are on the device at one moment.
    pub(super) fn lists_on_device(&self) -> u64 {
        match self.pinned {
            true => self.pinned_bytes,
            false => self.list_bytes.iter().copied().max().unwrap_or(0),
        }
    }

    /// Tells what the device has held, and that it held no more than it may.
    ///
    /// # Errors
    /// [`Error::Budget`] otherwise.
    pub(super) fn check(&self, cx: &Ctx) -> Result<()> {
        need::check(cx, self.lists_on_device(), self.budget)
    }

    /// An epoch and an evaluation of which nobody wants to know anything.
    pub(super) fn pass(&mut self, cx: &mut Ctx) -> Result<()> {
        self.train(cx)?;
        self.reduction.collect(cx)?;
        self.step(cx);
        self.begin(Round::Evaluation)?;
        self.forward(cx, false, &mut |_, _, _, _| Ok(()))?;
        cx.pass(Pass::Setup);
        Ok(())
    }

    /// Says what begins, where blocks of rows are read ahead.
    fn begin(&self, round: Round) -> Result<()> {
        self.host.pages().map_or(Ok(()), |pages| pages.begin(round))
    }

    fn step(&mut self, cx: &Ctx) {
        self.optimiser
            .step(cx, &mut self.model.weights, self.reduction.gradients());
    }

    /// Forward, loss and backward; the weights' gradients are on their way then.
    fn train(&mut self, cx: &mut Ctx) -> Result<f64> {
        self.begin(Round::Training)?;
        self.reduction.begin(cx);
        let layers = self.model.layers();
        self.begin_gradients(cx, layers, true);
        let mut loss = 0.0;
        self.forward(cx, true, &mut |this, cx, j, output| {
            loss += this.loss(cx, j, output)?;
            Ok(())
        })?;
        self.backward(cx)?;
        debug_assert!(!self.tier.is_ahead(), "copies were made for nobody");
        Ok(loss)
    }
}

/// Columns of all rooms for gradients, of layers' inputs and of the output: two layers have theirs at once, and a
/// room is kept for later ones of its width.
fn columns_of_rooms(widths: &[usize]) -> usize {
    let (mut idle, mut all) = (Vec::new(), 0);
    let mut held = None;
    for &width in widths[1..].iter().rev() {
        match idle.iter().position(|&room| room == width) {
            Some(k) => drop(idle.swap_remove(k)),
            None => all += width,
        }
        idle.extend(held.replace(width));
    }
    all
}

/// Bytes of the lists of all chunks, with what was made of them.
pub(super) fn bytes_pinned(made: &HongTu) -> u64 {
    let of_batch = |batch: &Batch| batch.edges.bytes() + batch.edges_t.bytes();
    let places = made.reads.iter().any(|r| r.in_places());
    let batches = made.batches.all.iter().filter(|_| places).map(of_batch);
    let columns = made.columns.iter().map(|c| topology::block_bytes(&c.block));
    batches.sum::<usize>() as u64 + columns.sum::<u64>()
}

/// Bytes of the lists of each chunk on the device, with those of a buffer's `places` or without.
pub(super) fn bytes_of_lists(batches: &Batches, columns: &[Columns], places: bool) -> Vec<u64> {
    let of_batch = |batch: &Batch| match places {
        true => topology::bytes(&batch.edges) + topology::bytes(&batch.edges_t),
        false => 0,
    };
    let mut lists: Vec<u64> = batches.all.iter().map(of_batch).collect();
    for (list, columns) in lists.iter_mut().zip(columns) {
        *list += topology::block_bytes(&columns.block);
    }
    lists
}

/// Global vertex ids of the rows of a batch in which a layer may drop elements: `own`, or its columns'.
pub(super) fn drop_ids<'a>(
    model: &Model,
    layer: usize,
    columns: Option<&'a Columns>,
    own: &'a Kept<u32>,
) -> &'a Kept<u32> {
    let of_columns = columns.filter(|_| model.drops_inside(layer));
    of_columns.map_or(own, |columns| &columns.ids)
}

/// A gradient and that of the residual beside it.
pub(super) fn grad_of(g: Mat, h0: Option<Mat>) -> Grad {
    let mut grad = Grad::from(g);
    grad.h0 = h0;
    grad
}

/// Where a chunk's edges are between uses.
pub(super) fn kept_of(pinned: bool, lists: Option<&Lists>) -> topology::Kept<'_> {
    match lists {
        _ if pinned => topology::Kept::Device,
        Some(lists) => topology::Kept::Disk(lists),
        None => topology::Kept::Host,
    }
}

/// A flow with the residual beside it.
pub(super) fn flow_of(x: Input, h0: Option<Mat>) -> Flow {
    let mut flow = Flow::from(x);
    flow.h0 = h0.map(Rc::new);
    flow
}

impl Strategy for HongTu {
    fn epoch(&mut self, cx: &mut Ctx) -> Result<f64> {
        let loss = self.train(cx)?;
        cx.pass(Pass::Optim);
        self.reduction.collect(cx)?;
        self.step(cx);
        cx.backend.settle();
        frames::note(cx, self);
        Ok(loss)
    }

    fn logits(&mut self, cx: &mut Ctx) -> Result<kernels::Mat> {
        let width = self.widths[self.model.layers()];
        let mut all = OnHost::Whole(super::host::zeros(self.host.n, width));
        self.begin(Round::Evaluation)?;
        self.forward(cx, false, &mut |this, cx, j, output| {
            let first = this.batch(j).own.start;
            this.tier.store(cx, output, &mut all, first)
        })?;
        match all {
            OnHost::Whole(all) => Ok(all.into_host()),
            OnHost::Paged(_) => unreachable!("made above"),
        }
    }

    fn gradients(&self) -> Vec<&Mat> {
        self.reduction.gradients().iter().flatten().collect()
    }

    fn save(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        if cx.rank() == 0 {
            let backend = cx.backend.as_ref();
            self.model.save(backend, &mut snapshot.shared);
            self.optimiser.save(backend, &mut snapshot.shared);
        }
        Ok(())
    }

    fn restore(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        let backend = cx.backend.as_ref();
        self.model.restore(backend, &mut snapshot.shared)?;
        self.optimiser.restore(backend, &mut snapshot.shared)
    }
}

#[cfg(test)]
mod tests {
    use super::columns_of_rooms;

    #[test]
    fn rooms_are_kept_for_later_layers_of_their_width() {
        assert_eq!(columns_of_rooms(&[100, 8]), 8);
        assert_eq!(columns_of_rooms(&[100, 64, 64, 64, 8]), 8 + 64 + 64);
        assert_eq!(columns_of_rooms(&[100, 32, 64, 8]), 8 + 64 + 32);
        assert_eq!(columns_of_rooms(&[8, 8, 8, 8, 8]), 8 + 8);
    }
}
