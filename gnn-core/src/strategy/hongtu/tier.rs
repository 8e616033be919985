//! Between the host and the device: rows that are loaded, stored, and added up on the host.
//!
//! The device is [`Ctx::backend`], where layers run. Where that is the host's own memory, rows go straight
//! from one matrix to the other; to a device apart they cross as one block, which it then spreads.

use crate::backend::{Backend, Corner, Cpu, Kept, Mat, Metered, Picked};
use crate::ctx::Ctx;
use crate::record::Route;
use std::ops::Range;
use std::rc::Rc;

/// The way between them.
pub(super) struct Tier {
    /// What works on the host where the device is apart from it.
    apart: Option<Box<dyn Backend>>,
    /// Whether there is no host: all rows lie on the device.
    resident: bool,
}

/// Rows that follow each other from one on, or a list of them.
fn corner(rows: Picked<'_>) -> Corner<'_> {
    Corner { rows, col: 0 }
}

fn bytes(n: usize, d: usize) -> u64 {
    4 * (n * d) as u64
}

impl Tier {
    /// Between this rank's host and its device.
    pub(super) fn new(cx: &Ctx, resident: bool) -> Tier {
        let host = || {
            let host = Metered::new(Cpu::new(cx.plan.threads), Rc::clone(cx.meter()));
            Box::new(host) as Box<dyn Backend>
        };
        Tier {
            apart: cx.backend.memory().filter(|_| !resident).map(|_| host()),
            resident,
        }
    }

    fn route(&self, route: Route) -> Route {
        match self.resident {
            true => Route::OnDevice,
            false => route,
        }
    }

    /// Some rows of `x: [n, d]` on the host to places in `to: [m, d]` on the device.
    pub(super) fn load(
        &self,
        cx: &Ctx,
        (x, rows): (&Mat, &Kept<u32>),
        to: &mut Mat,
        at: &Kept<u32>,
    ) {
        self.to_device(
            cx,
            (x, Picked::List(rows)),
            rows.len(),
            to,
            Picked::List(at),
        );
    }

    /// Rows that follow each other on the host, as a matrix on the device.
    pub(super) fn load_range(&self, cx: &Ctx, x: &Mat, rows: Range<usize>) -> Mat {
        let mut to = cx.backend.fresh(rows.len(), x.ncols());
        let from = (x, Picked::From(rows.start));
        self.to_device(cx, from, rows.len(), &mut to, Picked::From(0));
        to
    }

    /// Some rows of the host, as a matrix on the device.
    pub(super) fn load_list(&self, cx: &Ctx, x: &Mat, rows: &Kept<u32>) -> Mat {
        let mut to = cx.backend.fresh(rows.len(), x.ncols());
        self.to_device(
            cx,
            (x, Picked::List(rows)),
            rows.len(),
            &mut to,
            Picked::From(0),
        );
        to
    }

    fn to_device(
        &self,
        cx: &Ctx,
        (x, rows): (&Mat, Picked<'_>),
        n: usize,
        to: &mut Mat,
        at: Picked<'_>,
    ) {
        let (size, route) = ((n, x.ncols()), self.route(Route::HostToDevice));
        cx.meter()
            .copying(route, bytes(n, x.ncols()), || match &self.apart {
                None => cx.backend.copy_block(x, corner(rows), size, to, corner(at)),
                Some(host) => {
                    let mut block = host.fresh(n, x.ncols());
                    host.copy_block(x, corner(rows), size, &mut block, Corner::at(0));
                    let there = cx.backend.upload(host.take(block));
                    cx.backend
                        .copy_block(&there, Corner::at(0), size, to, corner(at));
                }
            });
    }

    /// `x: [n, d]` on the device to rows on the host, which follow each other from `first` on.
    pub(super) fn store(&self, cx: &Ctx, x: &Mat, to: &mut Mat, first: usize) {
        let size = x.dim();
        let (route, at) = (self.route(Route::DeviceToHost), Picked::From(first));
        cx.meter()
            .copying(route, bytes(size.0, size.1), || match &self.apart {
                None => cx
                    .backend
                    .copy_block(x, Corner::at(0), size, to, corner(at)),
                Some(host) => {
                    let here = host.upload(cx.backend.download(x));
                    host.copy_block(&here, Corner::at(0), size, to, corner(at));
                }
            });
    }

    /// Adds `x: [n, d]` on the device to rows on the host, in their order.
    pub(super) fn add(&self, cx: &Ctx, x: &Mat, to: &mut Mat, rows: &Kept<u32>) {
        let route = self.route(Route::DeviceToHost);
        cx.meter()
            .copying(route, bytes(x.nrows(), x.ncols()), || match &self.apart {
                None => cx.backend.scatter_add_rows(x, rows, to),
                Some(host) => {
                    let here = host.upload(cx.backend.download(x));
                    host.scatter_add_rows(&here, rows, to);
                }
            });
    }
}
