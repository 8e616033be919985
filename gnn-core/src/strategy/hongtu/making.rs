//! How a training is made: in as few chunks as fit, with as much kept as fits, on the device and the host that a
//! request has.

use super::batches::{Batch, Batches, TwoLevels};
use super::columns::{RowsOf, columns_of};
use super::disk::{Pages, Use, rows_of_block};
use super::host::{Cuts, Host, OnHost, Place, mat};
use super::need::{self, Need};
use super::remember::Remember;
use super::setting::How;
use super::tier::Tier;
use super::topology::{Lists, Room};
use super::trainer::{HongTu, Reads, bytes_of_lists};
use crate::ctx::Ctx;
use crate::dataset::Features;
use crate::error::{Error, Result};
use crate::head::Head;
use crate::model::{Input, Model, Optimiser, Shape, SparseInput};
use crate::partition::{Batched, Cache};
use crate::spec::{FeatureStorage, RunSpec};
use crate::strategy::ordered::Ordered;
use crate::strategy::reduce::Reduction;
use crate::strategy::{Rows, Setup};
use kernels::Par;
use std::rc::Rc;
use std::sync::Arc;

/// What a layer reads of a batch.
fn reads_of(model: &Model, layer: usize, sparse: bool) -> Reads {
    let (of, sparse) = (model.layer(layer), sparse && layer == 0);
    match of.facts() {
        None => Reads::Own,
        _ if model.product_width(layer, sparse).is_some() => Reads::Product,
        // Sparse rows are multiplied before they are aggregated, which would fill them in.
        Some(facts) if facts.edge_parameters || sparse => Reads::Columns,
        Some(_) if of.aggregates_its_input() => Reads::Places,
        Some(_) => Reads::Columns,
    }
}

/// What is known before the number of chunks is.
pub(super) struct Making<'a> {
    pub(super) setup: &'a Setup,
    pub(super) ordered: &'a Ordered,
    pub(super) spec: &'a RunSpec,
    pub(super) shape: Shape,
    pub(super) how: How,
}

impl Making<'_> {
    /// The batch of each vertex, by number, and how long it took to find out, ms.
    fn batches(&self, cx: &Ctx, chunks: usize) -> (Vec<u32>, f64) {
        let data = &self.setup.data;
        let all_one = || Arc::new(vec![0; data.n()]);
        let owner = self.setup.owner.clone().unwrap_or_else(all_one);
        let (shape, cache) = ([cx.size(), chunks], cx.plan.cuts.as_ref().map(Cache::new));
        let rates = self.how.reorganise.as_ref();
        let batched = Batched::of(&data.graph, &owner, shape, rates, cache.as_ref());
        let of = |&v: &u32| batched.batch[v as usize];
        let by_number = self.ordered.ids().iter().map(of).collect();
        (by_number, batched.ms)
    }

    /// The training of this rank, in so many chunks.
    fn training(&self, cx: &mut Ctx, chunks: usize) -> Result<HongTu> {
        let (ordered, spec, data) = (self.ordered, self.spec, &self.setup.data);
        let (me, devices) = (cx.rank(), cx.size());
        let (batch, reorganise_ms) = self.batches(cx, chunks);
        let model = Model::new(spec, cx.backend.as_ref(), self.shape);
        let layers = model.layers();
        let sparse = self.sparse();
        let reads: Vec<Reads> = (0..layers).map(|l| reads_of(&model, l, sparse)).collect();
        let How {
            dedup, remembers, ..
        } = self.how;
        let levels = TwoLevels {
            whole: ordered.whole.csr(),
            device: &ordered.owner,
            batch: &batch,
            devices,
            batches: chunks,
            reads_own: reads.contains(&Reads::Columns) && model.kind().reads_own_rows(),
        };
        let mut batches = Batches::new(&levels, me, dedup);
        let own = ordered.vertices(&batches.own);
        let sparse_rows = |ids: &[u32]| match data.features.select_rows(ids) {
            Features::Sparse(x) => Input::Sparse(SparseInput::new(x)),
            _ => unreachable!("asked only where features are sparse"),
        };
        let mut columns = Vec::new();
        if reads.contains(&Reads::Columns) {
            let features: Option<&RowsOf<'_>> = match reads[0] {
                Reads::Columns if sparse => Some(&sparse_rows),
                _ => None,
            };
            for batch in &batches.all {
                let own = &batches.own[batch.own.clone()];
                columns.push(columns_of(ordered, own, batch, features)?);
            }
        }
        let ids_of: Vec<&[u32]> = batches.all.iter().map(|b| &own[b.own.clone()]).collect();
        let own_sparse = sparse && matches!(reads[0], Reads::Own | Reads::Product);
        let remember = |(layer, &reads): (usize, &Reads)| match reads {
            Reads::Places if model.reads_aggregate(layer) => remembers[0],
            // The same on all ranks.
            Reads::Places if self.how.chooses => {
                let (rows, edges) = (data.n() as u64, ordered.whole.csr().n_edges() as u64);
                Remember::cheapest(rows, batches.volumes.reused, edges)
            }
            Reads::Places => remembers[1],
            _ => remembers[2],
        };
        let remembers: Vec<Remember> = reads.iter().enumerate().map(remember).collect();
        let mut widths = vec![self.shape.d_in];
        widths.extend((0..layers).map(|l| model.layer(l).d_out()));
        let rows = Rows::of(data, &own);
        let place = self.noting(cx, &batches);
        let list_bytes = bytes_of_lists(&batches, &columns, reads.iter().any(|r| r.in_places()));
        let lists: u64 = list_bytes.iter().sum();
        if self.how.budget > 0 && lists > self.how.budget / 2 {
            // What would be made of them does not fit.
            batches.all.iter_mut().for_each(Batch::brief);
        }
        Ok(HongTu {
            head: Head::of(&rows, cx, layers)?,
            reduction: Reduction::new(&model.weights, cx),
            optimiser: Optimiser::new(spec, &model, cx.backend.as_ref()),
            sparse: ids_of
                .iter()
                .filter(|_| own_sparse)
                .map(|ids| sparse_rows(ids))
                .collect(),
            of_batches: ids_of.iter().map(|ids| Rows::of(data, ids)).collect(),
            passed: (0..layers)
                .map(|_| batches.all.iter().map(|_| None).collect())
                .collect(),
            host: self.host(place, own.len(), (&widths, &remembers)),
            ids_of: ids_of.iter().map(|ids| ids.to_vec().into()).collect(),
            ids: own.into(),
            tier: Tier::new(cx, self.how.overlap),
            budget: 0,
            pinned: true,
            lists: None,
            room: Room::default(),
            pinned_bytes: 0,
            list_bytes,
            model,
            columns,
            reads,
            widths,
            dedup,
            reorganise_ms,
            remembers,
            batches,
        })
    }

    /// Whether rows of features are sparse.
    fn sparse(&self) -> bool {
        let none = self.setup.data.features.select_rows(&[]);
        matches!(none, Features::Sparse(_))
    }

    /// Where rows lie while nothing is computed: in blocks whose order is noted, if there is a disk.
    fn noting(&self, cx: &Ctx, batches: &Batches) -> Place {
        match self.how.host {
            0 => Place::Memory,
            bytes => {
                let batches = batches.all.iter().map(|batch| batch.own.clone()).collect();
                let cuts = Cuts { batches, bytes };
                Place::Disk(Rc::new(Pages::noting(cx.meter())), Rc::new(cuts))
            }
        }
    }

    /// Room for rows of all layers, of `n` vertices.
    fn host(&self, place: Place, n: usize, (widths, remembers): (&[usize], &[Remember])) -> Host {
        let kept = remembers.iter().map(|r| r.has_aggregate());
        let kept: Vec<bool> = kept.collect();
        // Sparse ones lie with the batches.
        Host::new((place, n), self.sparse(), &widths[..kept.len()], &kept)
    }

    /// Dense features of some vertices.
    fn features(&self, ids: &[u32]) -> kernels::Mat {
        match self.setup.data.features.select_rows(ids) {
            Features::Dense(mut x) => {
                if self.spec.feature_storage == FeatureStorage::Bf16 {
                    kernels::spmm_bf16::round_in_place(&Par::new(1), &mut x);
                }
                x
            }
            _ => kernels::Mat::zeros((0, 0)),
        }
    }

    /// The training in as few chunks as fit into the device, or in as many as are asked for, and what it
    /// needs there.
    pub(super) fn fitting(&self, cx: &mut Ctx) -> Result<(HongTu, Need)> {
        let mut tried = |chunks: usize| need::of(cx, |cx| self.training(cx, chunks));
        let fits = |need: &Need| need.fits(self.how.budget).is_some();
        let refused = |need: Need, chunks: usize| Err(need.refused(chunks, self.how.budget));
        if let Some(chunks) = self.how.chunks {
            let (made, need) = tried(chunks)?;
            return match fits(&need) {
                true => Ok((made, need)),
                false => refused(need, chunks),
            };
        }
        // Of more chunks than vertices some are empty.
        let most = self.setup.data.n().max(1);
        let (mut less, mut chunks) = (0, 1);
        // One training at a time: its edges are as many as the graph's.
        let mut found = loop {
            let (made, need) = tried(chunks)?;
            if fits(&need) {
                break Some((made, need));
            }
            if chunks >= most {
                return refused(need, chunks);
            }
            (less, chunks) = (chunks, (2 * chunks).min(most));
        };
        while less + 1 < chunks {
            let middle = (less + chunks) / 2;
            found = None;
            let (made, need) = tried(middle)?;
            match fits(&need) {
                true => (chunks, found) = (middle, Some((made, need))),
                false => less = middle,
            }
        }
        match found {
            Some(found) => Ok(found),
            None => tried(chunks),
        }
    }

    /// The same with all that backward reads kept of as many layers as the device has room for, from the last
    /// on, which backward comes to first.
    pub(super) fn richest(&self, cx: &mut Ctx, fitting: (HongTu, Need)) -> Result<(HongTu, Need)> {
        let (mut made, mut need) = fitting;
        for layer in (0..made.remembers.len()).rev() {
            let before = std::mem::replace(&mut made.remembers[layer], Remember::All);
            let (again, with) = need::of(cx, |cx| Ok(self.again(cx, made, None)))?;
            made = again;
            match with.fits(self.how.budget).is_some() {
                true => need = with,
                false => made.remembers[layer] = before,
            }
        }
        Ok((made, need))
    }

    /// The same once more, on rows in another place, or in blocks whose order is noted.
    fn again(&self, cx: &Ctx, made: HongTu, place: Option<(Place, Need)>) -> HongTu {
        let (place, pinned) = match place {
            Some((place, need)) => (place, need.fits(self.how.budget) == Some(true)),
            None => (self.noting(cx, &made.batches), true),
        };
        let of_layers = (&made.widths[..], &made.remembers[..]);
        let host = self.host(place, made.ids.len(), of_layers);
        let mut made = made;
        if !pinned {
            made.batches.all.iter_mut().for_each(Batch::brief);
        }
        made.on_device(cx, self.shape, pinned, host)
    }

    /// The training as it was found to fit, with the rows that it begins with.
    pub(super) fn placed(&self, cx: &mut Ctx, made: HongTu, need: Need) -> Result<HongTu> {
        let with = |place: Place| Some((place, need));
        let mut made = match self.how.host {
            0 => self.again(cx, made, with(Place::Memory)),
            bytes => self.behind(cx, made, need, bytes)?,
        };
        made.budget = self.how.budget;
        if made.budget > 0 {
            let lists = made.lists_on_device();
            cx.backend.limit(made.budget.saturating_sub(lists));
        }
        self.fill(cx, &mut made)?;
        Ok(made)
    }

    /// The same in so many bytes of the host's memory, the rest on a disk.
    fn behind(&self, cx: &mut Ctx, made: HongTu, need: Need, bytes: u64) -> Result<HongTu> {
        // Once more, for the order in which blocks are touched when lists come and go with their chunks.
        let (made, _) = need::of(cx, |cx| {
            let place = self.noting(cx, &made.batches);
            let mut made = self.again(cx, made, Some((place, need)));
            made.lists = self.lists(&made, bytes);
            Ok(made)
        })?;
        let Place::Disk(noted, cuts) = &made.host.place else {
            unreachable!("a disk was asked for");
        };
        let (cuts, all) = (Rc::clone(cuts), noted.most());
        let fixed = made.on_host(made.lists.is_some());
        if fixed + all <= bytes && made.lists.is_none() {
            return Ok(self.again(cx, made, Some((Place::Memory, need))));
        }
        let Some(room) = bytes.checked_sub(fixed) else {
            return Err(Error::Budget {
                of: "host",
                item: "lists of what moves, and what is known of vertices".into(),
                asked: fixed,
                free: bytes,
                budget: bytes,
            });
        };
        let computes = cx.backend.keeps_elements();
        let folder = computes.then(|| cx.scratch.clone());
        let pages = Rc::new(noted.known(room, folder.as_deref())?);
        let lists = made.lists.is_some();
        let place = Place::Disk(pages, cuts);
        let mut made = self.again(cx, made, Some((place, need)));
        made.lists = None;
        if lists {
            let lists = self.lists(&made, bytes).expect("as before");
            for (j, batch) in made.batches.all.iter_mut().enumerate() {
                lists.take(j, batch)?;
            }
            made.lists = Some(lists);
        }
        Ok(made)
    }

    /// Edges of all chunks in blocks, where they come and go with their chunks.
    fn lists(&self, made: &HongTu, bytes: u64) -> Option<Lists> {
        let pages = made.host.pages()?;
        let come_and_go = !made.pinned && made.reads.iter().any(|r| r.in_places());
        come_and_go.then(|| Lists::new(pages, &made.batches.all, rows_of_block(bytes, 1)))
    }

    /// Dense features come to where they lie.
    fn fill(&self, cx: &Ctx, made: &mut HongTu) -> Result<()> {
        if self.sparse() {
            return Ok(());
        }
        let features = &mut made.host.inputs[0];
        match features {
            OnHost::Whole(x) => *x = mat(self.features(&made.ids)),
            OnHost::Paged(x) => x.each_in(0..made.ids.len(), Use::Write, |block, rows| {
                if cx.backend.keeps_elements() {
                    block.host_mut().assign(&self.features(&made.ids[rows]));
                }
            })?,
        }
        Ok(())
    }
}
