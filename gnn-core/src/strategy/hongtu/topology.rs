//! Lists of a chunk's edges on the device: there for good, or copied for each use.

use super::batches::Batch;
use super::disk::{Key, PagedRows, Pages, Use, cut};
use crate::backend::Sparse;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::graph::Block;
use crate::record::Route;
use kernels::factor::Factor;
use kernels::{Csr, CsrBuf};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::{Deref, Range};
use std::rc::Rc;

/// Bytes of a sparse matrix' lists, with what its weights were found to be.
pub(super) fn bytes(a: &Sparse) -> u64 {
    let factor = a.factor().map_or(0, Factor::bytes);
    let a = a.view();
    (factor + 8 * a.indptr.len() + 4 * a.indices.len() + a.weights.map_or(0, |w| 4 * w.len()))
        as u64
}

/// Bytes of a block's lists, both ways.
pub(super) fn block_bytes(block: &Block) -> u64 {
    let types = block.types().map_or(0, |types| 2 * types.len());
    bytes(block.edges()) + bytes(block.edges_t()) + types as u64
}

/// Which of a chunk's matrices.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// Its in-edges.
    In,
    /// The same the other way.
    Out,
}

/// Where lists are between uses.
#[derive(Clone, Copy)]
pub(super) enum Kept<'a> {
    /// On the device.
    Device,
    /// On the host.
    Host,
    /// In blocks of which some are on a disk.
    Disk(&'a Lists),
}

/// Room on the device for lists that come and go, kept from one use to the next.
#[derive(Default)]
pub(super) struct Room(RefCell<Option<CsrBuf>>);

/// A chunk's edges on the device: those that stay there, or in room that is given back.
pub(super) struct Lent<'a> {
    edges: Option<Cow<'a, Sparse>>,
    room: &'a Room,
}

impl Deref for Lent<'_> {
    type Target = Sparse;
    fn deref(&self) -> &Sparse {
        self.edges.as_ref().expect("until it is dropped")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(Cow::Owned(edges)) = self.edges.take() {
            self.room.0.replace(Some(edges.into_csr()));
        }
    }
}

/// A chunk's edges on the device, for as long as they are used.
///
/// # Errors
/// What a disk behind the host meets.
pub(super) fn on_device<'a>(
    cx: &Ctx,
    (kept, room): (Kept<'_>, &'a Room),
    (batch, j, way): (&'a Batch, usize, Way),
) -> Result<Lent<'a>> {
    let a = match way {
        Way::In => &batch.edges,
        Way::Out => &batch.edges_t,
    };
    let lent = |edges| {
        let edges = Some(edges);
        Ok(Lent { edges, room })
    };
    let mut to = match kept {
        Kept::Device => return lent(Cow::Borrowed(a)),
        _ => room.0.take().unwrap_or_else(|| CsrBuf::empty(0)),
    };
    match kept {
        Kept::Disk(lists) => lists.read(cx, (j, way), a, &mut to)?,
        _ => copy(cx, a, &mut to),
    }
    lent(Cow::Owned(Sparse::brief_as(a, to)))
}

/// Copies lists to the device.
fn copy(cx: &Ctx, a: &Sparse, to: &mut CsrBuf) {
    let copied = || refilled(a.view(), to);
    cx.meter()
        .copying_by_hand(Route::HostToDevice, bytes(a), copied);
}

fn refilled(a: Csr<'_>, to: &mut CsrBuf) {
    fn refill<T: Copy>(to: &mut Vec<T>, from: &[T]) {
        to.clear();
        to.reserve_exact(from.len());
        to.extend_from_slice(from);
    }
    refill(&mut to.indptr, a.indptr);
    refill(&mut to.indices, a.indices);
    match a.weights {
        Some(weights) => refill(to.weights.get_or_insert_default(), weights),
        None => to.weights = None,
    }
    to.n_cols = a.n_cols;
}

/// The same of a block.
pub(super) fn block_on_device<'a>(cx: &Ctx, pinned: bool, block: &'a Block) -> Cow<'a, Block> {
    if pinned {
        return Cow::Borrowed(block);
    }
    let copy = || Cow::Owned(block.clone());
    cx.meter()
        .copying(Route::HostToDevice, block_bytes(block), copy)
}

/// One matrix' lists among all words.
struct Span {
    first: usize,
    indptr: usize,
    edges: usize,
    weighted: bool,
    n_cols: usize,
}

impl Span {
    fn new(a: &Sparse, first: usize) -> Span {
        let a = a.view();
        Span {
            first,
            indptr: a.indptr.len(),
            edges: a.indices.len(),
            weighted: a.weights.is_some(),
            n_cols: a.n_cols,
        }
    }

    fn words(&self) -> Range<usize> {
        let weights = if self.weighted { self.edges } else { 0 };
        self.first..self.first + 2 * self.indptr + self.edges + weights
    }
}

/// Edges of all chunks, as words in blocks.
pub(super) struct Lists {
    words: PagedRows,
    /// By chunk and way.
    spans: Vec<[Span; 2]>,
}

impl Lists {
    /// Room for the edges of some chunks in blocks of at most so many words.
    pub(super) fn new(pages: &Rc<Pages>, batches: &[Batch], most: usize) -> Lists {
        let mut end = 0;
        let mut span = |a: &Sparse| {
            let span = Span::new(a, end);
            end = span.words().end;
            span
        };
        let of = |batch: &Batch| [&batch.edges, &batch.edges_t].map(&mut span);
        let spans: Vec<[Span; 2]> = batches.iter().map(of).collect();
        let starts = cut(spans.iter().flatten().map(Span::words), most);
        let words = PagedRows::new(pages, Key::Edges, 1, &starts);
        Lists { words, spans }
    }

    /// Takes the edges of a chunk over, which stay with it where nothing is computed.
    ///
    /// # Errors
    /// What the disk meets.
    pub(super) fn take(&self, j: usize, batch: &mut Batch) -> Result<()> {
        let ways = [&mut batch.edges, &mut batch.edges_t];
        for (span, a) in self.spans[j].iter().zip(ways) {
            if !self.words.is_working() {
                self.words.each_in(span.words(), Use::Write, |_, _| ())?;
                continue;
            }
            let csr = a.leave();
            let mut words: Vec<f32> = Vec::with_capacity(span.words().len());
            words.extend_from_slice(bytemuck::cast_slice(&csr.indptr));
            words.extend_from_slice(bytemuck::cast_slice(&csr.indices));
            words.extend_from_slice(csr.weights.as_deref().unwrap_or(&[]));
            drop(csr);
            let first = span.first;
            self.words.each_in(span.words(), Use::Write, |block, of| {
                let of = of.start - first..of.end - first;
                block.as_slice_mut().copy_from_slice(&words[of]);
            })?;
        }
        Ok(())
    }

    /// Reads the edges of a chunk, which `a` has where nothing is computed.
    fn read(&self, cx: &Ctx, (j, way): (usize, Way), a: &Sparse, csr: &mut CsrBuf) -> Result<()> {
        let span = &self.spans[j][way as usize];
        if !self.words.is_working() {
            self.words.each_in(span.words(), Use::Read, |_, _| ())?;
            copy(cx, a, csr);
            return Ok(());
        }
        let (indptr, edges) = (span.indptr, span.edges);
        resize(&mut csr.indptr, indptr);
        resize(&mut csr.indices, edges);
        match span.weighted {
            true => resize(csr.weights.get_or_insert_default(), edges),
            false => csr.weights = None,
        }
        csr.n_cols = span.n_cols;
        self.words.each_in(span.words(), Use::Read, |block, of| {
            let words: &[u32] = bytemuck::cast_slice(block.as_slice());
            let at = of.start - span.first;
            let mut first = 0;
            let weights = csr.weights.as_deref_mut().unwrap_or(&mut []);
            let lists = [
                bytemuck::cast_slice_mut(&mut csr.indptr),
                &mut csr.indices[..],
                bytemuck::cast_slice_mut(weights),
            ];
            let spread = || {
                for list in lists {
                    overlap(words, at, list, first);
                    first += list.len();
                }
            };
            // Waiting for the disk is not copying to the device.
            let bytes = 4 * words.len() as u64;
            cx.meter()
                .copying_by_hand(Route::HostToDevice, bytes, spread);
        })
    }
}

/// A list of so many elements, whichever, in no more room than it must have.
fn resize<T: Clone + Default>(list: &mut Vec<T>, n: usize) {
    list.reserve_exact(n.saturating_sub(list.len()));
    list.resize(n, T::default());
}

/// Copies what words from `at` on have of a list that begins with word `first`.
fn overlap(words: &[u32], at: usize, list: &mut [u32], first: usize) {
    let from = at.max(first);
    let to = (at + words.len()).min(first + list.len());
    if from < to {
        list[from - first..to - first].copy_from_slice(&words[from - at..to - at]);
    }
}
