//! What lies on the host: rows of this rank's vertices, batch by batch.
//!
//! With a disk behind it ([`super::disk`])
//! the host has what is read next.

use super::disk::{Key, PagedRows, Pages, cut, rows_of_block};
use crate::backend::Mat;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Where rows lie.
#[derive(Clone)]
pub(super) enum Place {
    /// In the host's memory.
    Memory,
    /// In the host's memory and on a disk.
    Disk(Rc<Pages>, Rc<Cuts>),
}

/// How rows are cut into blocks.
pub(super) struct Cuts {
    /// Rows of each batch, which a block does not go beyond.
    pub(super) batches: Vec<Range<usize>>,
    /// Bytes of all blocks that are in memory.
    pub(super) bytes: u64,
}

/// Rows of this rank's vertices, `[n, d]`.
pub(super) enum OnHost {
    /// All of them in one place.
    Whole(Mat),
    /// Some in memory, the others on a disk.
    Paged(PagedRows),
}

impl OnHost {
    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        match self {
            OnHost::Whole(x) => x.len(),
            OnHost::Paged(x) => x.len(),
        }
    }

    /// Number of columns.
    pub(super) fn ncols(&self) -> usize {
        match self {
            OnHost::Whole(x) => x.ncols(),
            OnHost::Paged(x) => x.ncols(),
        }
    }
}

/// Rows of this rank's vertices.
pub(super) struct Host {
    /// How many.
    pub(super) n: usize,
    pub(super) place: Place,
    /// The input of each layer, `[n, d]`; without rows where that is sparse.
    pub(super) inputs: Vec<OnHost>,
    /// What each layer aggregates, `[n, d]`, where it is kept for the way back.
    pub(super) aggregates: Vec<Option<OnHost>>,
    /// Products of one layer's input, or their gradients, while they are wanted.
    pub(super) products: Option<OnHost>,
    /// Gradients of each layer's input, and of the last one's output: `[n, d]` while they are wanted.
    pub(super) gradients: Vec<Option<OnHost>>,
    /// The initial residual and its gradients, for models that have one.
    pub(super) residual: [Option<OnHost>; 2],
    /// What gradients have left, for others as large: giving it back to the system costs page faults.
    idle: Vec<Mat>,
}

/// A matrix on the host, which copies of rows are made of beside what is computed.
pub(super) fn mat(elements: kernels::Mat) -> Mat {
    Mat::shared(Arc::new(elements))
}

/// `[n, d]` of zeros on the host, which take no memory until they are written.
pub(super) fn zeros(n: usize, d: usize) -> Mat {
    mat(kernels::Mat::zeros((n, d)))
}

impl Host {
    /// Room for the inputs of all layers, but for features that are `sparse`; `widths` has
    /// the columns of every layer's input, `kept` whether its aggregate is.
    pub(super) fn new(
        (place, n): (Place, usize),
        sparse: bool,
        widths: &[usize],
        kept: &[bool],
    ) -> Host {
        let mut host = Host {
            n,
            place,
            inputs: Vec::new(),
            aggregates: Vec::new(),
            products: None,
            gradients: (0..=widths.len()).map(|_| None).collect(),
            residual: [None, None],
            idle: Vec::new(),
        };
        let features = match sparse {
            false => host.zeros(Key::Input(0), widths[0]),
            true => OnHost::Whole(zeros(0, 0)),
        };
        let others = widths.iter().enumerate().skip(1);
        let others = others.map(|(l, &d)| host.zeros(Key::Input(l), d));
        let inputs = [features].into_iter().chain(others).collect();
        let aggregates = widths.iter().zip(kept).enumerate();
        let aggregates = aggregates
            .map(|(l, (&d, &kept))| kept.then(|| host.zeros(Key::Aggregate(l), d)))
            .collect();
        (host.aggregates, host.inputs) = (aggregates, inputs);
        host
    }

    /// The blocks of rows, where there is a disk.
    pub(super) fn pages(&self) -> Option<&Rc<Pages>> {
        match &self.place {
            Place::Disk(pages, _) => Some(pages),
            _ => None,
        }
    }

    /// `[n, d]` of zeros.
    pub(super) fn zeros(&self, key: Key, d: usize) -> OnHost {
        match &self.place {
            Place::Memory => OnHost::Whole(zeros(self.n, d)),
            Place::Disk(pages, cuts) => {
                let rows = rows_of_block(cuts.bytes, d);
                let starts = cut(cuts.batches.iter().cloned(), rows);
                OnHost::Paged(PagedRows::new(pages, key, d, &starts))
            }
        }
    }

    /// Room for gradients of a layer's input, `[n, d]`, and whether it holds something else as yet; otherwise it
    /// is all zero.
    pub(super) fn room(&mut self, layer: usize, d: usize) -> (OnHost, bool) {
        let fits = |x: &Mat| x.dim() == (self.n, d);
        let found = self.idle.iter().position(fits);
        match (found, &self.place) {
            (Some(k), Place::Memory) => (OnHost::Whole(self.idle.swap_remove(k)), true),
            _ => (self.zeros(Key::Gradient(layer), d), false),
        }
    }

    /// Gradients of a layer's input are read no more.
    pub(super) fn end_gradients(&mut self, layer: usize) {
        if let Some(OnHost::Whole(room)) = self.gradients[layer].take() {
            self.idle.push(room);
        }
    }

    /// Gradients of a layer's input, which have begun.
    pub(super) fn gradients(&mut self, layer: usize) -> &mut OnHost {
        let of = self.gradients[layer].as_mut();
        of.expect("begun when the layer behind it went back")
    }

    /// The initial residual, or with `1` its gradients; zero until they are written.
    pub(super) fn residual(&mut self, which: usize, d: usize) -> &mut OnHost {
        if self.residual[which].is_none() {
            self.residual[which] = Some(self.zeros(Key::Residual(which), d));
        }
        self.residual[which].as_mut().expect("made above")
    }
}
