//! Copies of host data on the device: made at first use, kept with their owners.

use super::Cuda;
use crate::backend::{Kept, Sparse};
use kernels::cuda::ops::ByType;
use kernels::cuda::{Buf, Device, Moves, Plain, SparseOn};
use std::sync::{Arc, OnceLock};

/// A list of ids or rows, in the forms that kernels read.
#[derive(Default)]
struct ListOn {
    ids: OnceLock<Buf<u32>>,
    moves: OnceLock<Moves>,
    /// One more than the largest.
    bound: OnceLock<usize>,
}

/// A sparse matrix, in the forms that kernels read.
struct MatrixOn {
    on: SparseOn,
    columns: OnceLock<Moves>,
}

/// Relations of edges, in the forms that kernels read.
#[derive(Default)]
struct RelationsOn {
    types: OnceLock<Buf<u16>>,
    by: OnceLock<ByType>,
}

impl Cuda {
    /// What `make` copies to the device. It is waited for, once, since the owner may lend it to a
    /// rank with another stream.
    fn keep<T>(&self, make: impl FnOnce(&Arc<Device>) -> T) -> T {
        let copy = make(&self.device);
        self.device.finish();
        copy
    }

    pub(super) fn labels<'a, T: Plain + Send + Sync>(&self, labels: &'a Kept<T>) -> &'a Buf<T> {
        labels
            .slot()
            .get_or_init(|| self.keep(|device| device.upload(labels)))
    }

    pub(super) fn mask<'a>(&self, mask: &'a Kept<bool>) -> &'a Buf<u8> {
        let bytes = || mask.iter().map(|&m| u8::from(m)).collect::<Vec<_>>();
        mask.slot()
            .get_or_init(|| self.keep(|device| device.upload(&bytes())))
    }

    fn matrix<'a>(&self, a: &'a Sparse) -> &'a MatrixOn {
        a.slot().get_or_init(|| MatrixOn {
            on: self.keep(|device| SparseOn::new(device, a.view())),
            columns: OnceLock::new(),
        })
    }

    pub(super) fn sparse<'a>(&self, a: &'a Sparse) -> &'a SparseOn {
        &self.matrix(a).on
    }

    /// The columns of the edges of `a`, to be added to.
    pub(super) fn columns<'a>(&self, a: &'a Sparse) -> &'a Moves {
        let columns = || self.keep(|device| Moves::new(device, a.view().indices));
        self.matrix(a).columns.get_or_init(columns)
    }

    pub(super) fn ids<'a>(&self, list: &'a Kept<u32>) -> &'a Buf<u32> {
        let on: &ListOn = list.slot().get_or_init(ListOn::default);
        on.ids
            .get_or_init(|| self.keep(|device| device.upload(list)))
    }

    /// One more than the largest of the list, found once.
    pub(super) fn bound(&self, list: &Kept<u32>) -> usize {
        let on: &ListOn = list.slot().get_or_init(ListOn::default);
        let bound = || list.iter().max().map_or(0, |&v| v as usize + 1);
        *on.bound.get_or_init(bound)
    }

    pub(super) fn moves<'a>(&self, list: &'a Kept<u32>) -> &'a Moves {
        let on: &ListOn = list.slot().get_or_init(ListOn::default);
        on.moves
            .get_or_init(|| self.keep(|device| Moves::new(device, list)))
    }

    pub(super) fn relations<'a>(&self, types: &'a Kept<u16>) -> &'a Buf<u16> {
        let on: &RelationsOn = types.slot().get_or_init(RelationsOn::default);
        on.types
            .get_or_init(|| self.keep(|device| device.upload(types)))
    }

    /// The edges of `a` in the order of their relations, `count` of them.
    pub(super) fn by_relation<'a>(
        &self,
        a: &Sparse,
        types: &'a Kept<u16>,
        count: usize,
    ) -> &'a ByType {
        let on: &RelationsOn = types.slot().get_or_init(RelationsOn::default);
        on.by
            .get_or_init(|| self.keep(|device| ByType::new(device, a.view(), types, count)))
    }
}
