//! One device with a budget of memory, beside a host that has room for everything.
//!
//! What does not fit on a device lives on the host, in matrices of [`Ctx::backend`]. Rows that a piece
//! of work needs are copied to the device, its results copied back. Everything on the device is made
//! here, and nothing is made before its bytes were taken from the [`Budget`], so that a piece of work
//! that does not fit is refused with the name of what did not.
//!
//! | `backend` | the device | the host |
//! |---|---|---|
//! | `cpu` | an arena: a part of the host's memory, behind the budget | the same backend |
//! | `cuda` | the GPU (or whatever executes its kernels), which is told the budget too and allocates no byte above it | [`Cpu`](crate::backend::Cpu) in its place ([`Ctx::take_device`]) |
//!
//! | operation | route |
//! |---|---|
//! | [`BudgetedDevice::topology`], [`BudgetedDevice::load`], [`BudgetedDevice::load_rows`] | host to device |
//! | [`BudgetedDevice::store_rows`], [`BudgetedDevice::add_rows`] | device to host |
//! | [`BudgetedDevice::move_rows`] | within the device |
//!
//! Bytes are those of the rows and lists themselves, and times those of the copies, by route: the frame
//! `copies` ([`CopiesRow`]) of a strategy whose entry declares it. Rows that do not lie one after the other on a device of its own pass through a
//! piece of its memory, which is taken from the budget, so that one copy crosses and not one a row.
//!
//! Copies here are made where they are asked for. HongTu stages those of its next chunks beside its work, on a stream
//! of their own.

mod budget;
mod copies;
mod setting;
mod stores;
#[cfg(test)]
mod tests;

pub use budget::{Budget, Lease};
pub use copies::CopiesRow;
pub(crate) use copies::note;
pub use setting::{budget, bytes, device_mem, memory};
pub use stores::{SparseBytes, Stores};

use crate::backend::{Backend, Corner, Kept, Mat, Picked, Sparse, Write};
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::record::{Meter, Phase, Route, Stream, now_ns};
use kernels::{Csr, CsrBuf};
use std::rc::Rc;

/// What rows are that pass through the device's memory.
const PASSING: &str = "rows on their way";

/// A device with a budget.
pub struct BudgetedDevice {
    /// Where it is apart from the host.
    own: Option<Box<dyn Backend>>,
    stores: Stores,
    budget: Budget,
    meter: Rc<Meter>,
}

/// A matrix on the device, with its bytes of the budget.
pub struct Placed {
    at: Mat,
    _lease: Lease,
}

/// A sparse matrix on the device, with its bytes of the budget.
pub struct Topology {
    at: Sparse,
    _lease: Lease,
}

/// Row `from[i]` of one matrix becomes row `to[i]` of another, for `i` below `n`.
#[derive(Debug, Clone, Copy)]
pub struct Moved<'a> {
    /// Rows of the first.
    pub from: Picked<'a>,
    /// Rows of the second.
    pub to: Picked<'a>,
    /// How many.
    pub n: usize,
}

impl Moved<'_> {
    fn bytes(&self, d: usize) -> u64 {
        4 * (self.n * d) as u64
    }
}

fn corner(rows: Picked<'_>) -> Corner<'_> {
    Corner { rows, col: 0 }
}

/// Rows of a matrix on the device: a list of them is there for one copy only.
enum Places {
    From(usize),
    List {
        rows: Kept<u32>,
        _lease: Option<Lease>,
    },
}

impl Places {
    fn corner(&self) -> Corner<'_> {
        corner(match self {
            Places::From(first) => Picked::From(*first),
            Places::List { rows, .. } => Picked::List(rows),
        })
    }
}

impl BudgetedDevice {
    /// This rank's device with `bytes` bytes. A device of its own is taken out of `cx`, where the host is
    /// from now on.
    ///
    /// # Errors
    /// [`Error::Spec`] where the device has less than its budget to give.
    pub fn open(cx: &mut Ctx, bytes: u64) -> Result<BudgetedDevice> {
        let stores = Stores::of(cx.backend.as_ref(), &cx.plan.spec.backend);
        let own = cx.take_device();
        if let Some(memory) = own.as_ref().and_then(|own| own.memory()) {
            let limit = usize::try_from(bytes).unwrap_or(usize::MAX);
            memory.limit(limit).map_err(|e| Error::Spec {
                key: "device_mem".into(),
                reason: format!("{}: {e}", memory.name()),
                help: "ask for what the device has free".into(),
            })?;
        }
        let meter = Rc::clone(cx.meter());
        let budget = Budget::new(bytes, Rc::clone(&meter));
        Ok(BudgetedDevice {
            own,
            stores,
            budget,
            meter,
        })
    }

    /// Its memory.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// How it stores things.
    pub fn stores(&self) -> Stores {
        self.stores
    }

    /// What computes on it.
    pub fn backend<'a>(&'a self, cx: &'a Ctx) -> &'a dyn Backend {
        match &self.own {
            Some(own) => own.as_ref(),
            None => cx.backend.as_ref(),
        }
    }

    /// Waits for a device of its own; times of what it did are known then.
    pub fn settle(&self) {
        if let Some(own) = &self.own {
            own.settle();
        }
    }

    /// Room for `item`, a matrix `[rows, cols]` with unspecified elements.
    ///
    /// # Errors
    /// [`Error::Budget`].
    pub fn fresh(&self, cx: &Ctx, item: &str, rows: usize, cols: usize) -> Result<Placed> {
        let lease = self.budget.reserve(item, self.stores.matrix(rows, cols))?;
        let at = self.backend(cx).fresh(rows, cols);
        Ok(Placed { at, _lease: lease })
    }

    /// `item`, the sparse matrix `a`, copied to the device, with room for what products with rows of `d`
    /// columns take beside.
    ///
    /// # Errors
    /// [`Error::Budget`].
    pub fn topology(&self, cx: &Ctx, item: &str, a: Csr<'_>, d: usize) -> Result<Topology> {
        let need = self.stores.sparse(a.weights.is_some()).rows(a);
        let lease = self.budget.reserve(item, need.held(d))?;
        let at = self.meter.copying(Route::HostToDevice, need.copied(), || {
            let start = now_ns();
            // Brief: nothing is made of a matrix that is on the device for one product.
            let at = Sparse::brief(CsrBuf {
                indptr: a.indptr.to_vec(),
                indices: a.indices.to_vec(),
                weights: a.weights.map(<[f32]>::to_vec),
                n_cols: a.n_cols,
            });
            let end = now_ns();
            self.meter.computed(Stream::Host, Phase::Copy, start..end);
            self.backend(cx).prepare(&at);
            at
        });
        Ok(Topology { at, _lease: lease })
    }

    /// `item`, the rows `rows` of `x: [n, d]` on the host, one after the other on the device.
    ///
    /// # Errors
    /// [`Error::Budget`].
    pub fn load(&self, cx: &Ctx, item: &str, x: &Mat, rows: &Kept<u32>) -> Result<Placed> {
        let moved = Moved {
            from: Picked::List(rows),
            to: Picked::From(0),
            n: rows.len(),
        };
        if self.own.is_none() {
            let mut to = self.fresh(cx, item, moved.n, x.ncols())?;
            self.load_rows(cx, moved, x, &mut to)?;
            return Ok(to);
        }
        let bytes = self.stores.matrix(moved.n, x.ncols());
        let lease = self.budget.reserve(item, bytes)?;
        let at = self.cross(cx, x, moved);
        Ok(Placed { at, _lease: lease })
    }

    /// Rows of `x: [n, d]` on the host to places in `to: [m, d]` on the device, the rest of which stays.
    ///
    /// # Errors
    /// [`Error::Budget`] where there is no room for them on their way.
    pub fn load_rows(&self, cx: &Ctx, moved: Moved<'_>, x: &Mat, to: &mut Placed) -> Result<()> {
        let (n, d) = (moved.n, x.ncols());
        if self.own.is_none() {
            self.copy(cx, Route::HostToDevice, moved, (x, &mut to.at));
            return Ok(());
        }
        let places = self.places(moved.to)?;
        let _lease = self.budget.reserve(PASSING, self.stores.matrix(n, d))?;
        let there = self.cross(cx, x, moved);
        let to_rows = places.corner();
        self.backend(cx)
            .copy_block(&there, Corner::at(0), (n, d), &mut to.at, to_rows);
        Ok(())
    }

    /// Rows of `x: [m, d]` on the device to places in `to: [n, d]` on the host, the rest of which stays.
    ///
    /// # Errors
    /// As [`BudgetedDevice::load_rows`].
    pub fn store_rows(&self, cx: &Ctx, moved: Moved<'_>, x: &Placed, to: &mut Mat) -> Result<()> {
        let (n, d) = (moved.n, x.at.ncols());
        if self.own.is_none() {
            self.copy(cx, Route::DeviceToHost, moved, (&x.at, to));
            return Ok(());
        }
        let here = self.back(cx, moved, x)?;
        let (from, to_rows) = (Corner::at(0), corner(moved.to));
        cx.backend.copy_block(&here, from, (n, d), to, to_rows);
        Ok(())
    }

    /// Adds rows of `x: [m, d]` on the device to rows `rows` of `to: [n, d]` on the host, in their order:
    /// row `at[i]` to row `rows[i]`. They cross as one, and the host adds them.
    ///
    /// # Errors
    /// As [`BudgetedDevice::load_rows`].
    pub fn add_rows(
        &self,
        cx: &Ctx,
        at: Picked<'_>,
        x: &Placed,
        rows: &Kept<u32>,
        to: &mut Mat,
    ) -> Result<()> {
        let moved = Moved {
            from: at,
            to: Picked::From(0),
            n: rows.len(),
        };
        let here = self.back(cx, moved, x)?;
        cx.backend.scatter_add_rows(&here, rows, to);
        Ok(())
    }

    /// Rows of `x: [m, d]` to places in `to: [k, d]`, both on the device.
    ///
    /// # Errors
    /// [`Error::Budget`] where there is no room for the lists of them.
    pub fn move_rows(&self, cx: &Ctx, moved: Moved<'_>, x: &Placed, to: &mut Placed) -> Result<()> {
        let size = (moved.n, x.at.ncols());
        let places = [self.places(moved.from)?, self.places(moved.to)?];
        let [from, to_rows] = places.each_ref().map(Places::corner);
        self.meter
            .copying(Route::OnDevice, moved.bytes(size.1), || {
                self.backend(cx)
                    .copy_block(&x.at, from, size, &mut to.at, to_rows);
            });
        Ok(())
    }

    /// `out = a · x` on the device, `a: [m, n]`, `x: [n, d]`, `out: [m, d]`.
    pub fn spmm(&self, cx: &Ctx, a: &Topology, x: &Placed, out: &mut Placed) {
        let rows = 0..a.at.rows();
        self.backend(cx)
            .spmm(&a.at, rows, &x.at, Write::Set, &mut out.at);
    }

    /// The rows of one copy, as the device reads them: a device of its own needs the list of them.
    fn places(&self, rows: Picked<'_>) -> Result<Places> {
        let list = match rows {
            Picked::From(first) => return Ok(Places::From(first)),
            Picked::List(list) => list,
        };
        // A clone begins without a copy on the device, which goes with it.
        let rows = list.clone();
        let _lease = match &self.own {
            None => None,
            Some(_) => {
                let bytes = self.stores.matrix(rows.len(), 1);
                let lease = self.budget.reserve("places of rows", bytes)?;
                let payload = 4 * rows.len() as u64;
                self.meter.copying(Route::HostToDevice, payload, || ());
                Some(lease)
            }
        };
        Ok(Places::List { rows, _lease })
    }

    /// Copies rows between matrices of the host's memory.
    fn copy(&self, cx: &Ctx, route: Route, moved: Moved<'_>, (x, to): (&Mat, &mut Mat)) {
        let (n, d) = (moved.n, x.ncols());
        self.meter.copying(route, moved.bytes(d), || {
            let (from, to_rows) = (corner(moved.from), corner(moved.to));
            cx.backend.copy_block(x, from, (n, d), to, to_rows);
        });
    }

    /// The rows `moved.from` of `x` on a device of its own, one after the other.
    fn cross(&self, cx: &Ctx, x: &Mat, moved: Moved<'_>) -> Mat {
        let (n, d) = (moved.n, x.ncols());
        let mut packed = cx.backend.fresh(n, d);
        let from = corner(moved.from);
        cx.backend
            .copy_block(x, from, (n, d), &mut packed, Corner::at(0));
        let packed = cx.backend.take(packed);
        let route = Route::HostToDevice;
        self.meter
            .copying(route, moved.bytes(d), || self.backend(cx).upload(packed))
    }

    /// The rows `moved.from` of `x` on the host, one after the other.
    fn back(&self, cx: &Ctx, moved: Moved<'_>, x: &Placed) -> Result<Mat> {
        let (n, d) = (moved.n, x.at.ncols());
        let Some(own) = &self.own else {
            let mut here = cx.backend.fresh(n, d);
            self.copy(cx, Route::DeviceToHost, moved, (&x.at, &mut here));
            return Ok(here);
        };
        let all = matches!(moved.from, Picked::From(0)) && n == x.at.nrows();
        let download = |x: &Mat| {
            let route = Route::DeviceToHost;
            self.meter
                .copying(route, moved.bytes(d), || own.download(x))
        };
        let rows = if all {
            download(&x.at)
        } else {
            let places = self.places(moved.from)?;
            let _lease = self.budget.reserve(PASSING, self.stores.matrix(n, d))?;
            let mut packed = own.fresh(n, d);
            own.copy_block(&x.at, places.corner(), (n, d), &mut packed, Corner::at(0));
            download(&packed)
        };
        Ok(cx.backend.upload(rows))
    }
}
