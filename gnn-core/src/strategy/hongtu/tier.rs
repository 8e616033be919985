//! Between the host and the device: rows that are loaded, stored, and added up on the host.
//!
//! The device is [`Ctx::backend`], where layers run. Where that is the host's own memory, rows go straight
//! from one matrix to the other; to a device apart they cross as one block, which it then spreads.

use super::disk::Use;
use super::host::OnHost;
use super::stage::{Rows, Stage};
use crate::backend::{Backend, Corner, Cpu, Kept, Mat, Metered, Picked};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::record::Route;
use kernels::Par;
use std::cell::OnceCell;
use std::ops::Range;
use std::rc::Rc;

/// The way between them.
pub(super) struct Tier {
    /// What works on the host where the device is apart from it.
    apart: Option<Box<dyn Backend>>,
    /// Copies that are made ahead.
    stage: Option<Stage>,
    /// What works on the host's rows where those are not the device's, made at first use.
    par: OnceCell<Par>,
}

/// Rows that follow each other from one on, or a list of them.
fn corner(rows: Picked<'_>) -> Corner<'_> {
    Corner { rows, col: 0 }
}

fn bytes(n: usize, d: usize) -> u64 {
    4 * (n * d) as u64
}

impl Tier {
    /// Between this rank's host and its device, with copies that are made ahead or without.
    pub(super) fn new(cx: &Ctx, overlap: bool) -> Tier {
        let host = || {
            let host = Metered::new(Cpu::new(cx.plan.threads), Rc::clone(cx.meter()));
            Box::new(host) as Box<dyn Backend>
        };
        Tier {
            apart: cx.backend.memory().map(|_| host()),
            stage: overlap.then(Stage::default),
            par: OnceCell::new(),
        }
    }

    fn par(&self, cx: &Ctx) -> &Par {
        self.par.get_or_init(|| cx.par(cx.plan.threads))
    }

    /// Sets rows on the host to zero.
    pub(super) fn clear(&self, cx: &Ctx, x: &mut Mat) {
        let (par, d) = (self.par(cx), x.ncols());
        cx.meter().copying_by_hand(Route::OnHost, 0, || {
            par.rows_mut(x.as_slice_mut(), d, |_, rows| rows.fill(0.0));
        });
    }

    /// Whether copies are made ahead.
    pub(super) fn overlaps(&self) -> bool {
        self.stage.is_some()
    }

    /// Nanoseconds of copies that were made ahead for which nobody waited, since the last call.
    pub(super) fn take_hidden(&self, cx: &Ctx) -> u64 {
        let stage = self.stage.as_ref();
        stage.map_or(0, |stage| stage.take_hidden(cx))
    }

    /// Whether copies were made ahead that nobody took.
    pub(super) fn is_ahead(&self) -> bool {
        self.stage.as_ref().is_some_and(Stage::is_waiting)
    }

    /// Rows of the host that will be loaded before anybody changes them: they are copied beside whatever is
    /// computed until then. Those with a disk behind them are read ahead from that instead.
    pub(super) fn ahead(&self, cx: &Ctx, x: &OnHost, rows: Rows) {
        if let (Some(stage), OnHost::Whole(x)) = (&self.stage, x)
            && rows.len() > 0
        {
            stage.ask(cx, self.apart.as_deref(), x, rows);
        }
    }

    /// What was copied ahead, on the device.
    fn ready(&self, cx: &Ctx, x: &Mat, rows: &Rows) -> Option<Mat> {
        self.stage.as_ref()?.take(cx, x, rows)
    }

    /// Some rows of `x: [n, d]` on the host to places in `to: [m, d]` on the device.
    ///
    /// # Errors
    /// What a disk behind the host meets; so of all others.
    pub(super) fn load(
        &self,
        cx: &Ctx,
        (x, rows): (&OnHost, &Kept<u32>),
        to: &mut Mat,
        at: &Kept<u32>,
    ) -> Result<()> {
        let (from, to_places) = (Picked::List(rows), Picked::List(at));
        let x = match x {
            OnHost::Whole(x) => {
                let Some(ready) = self.ready(cx, x, &Rows::List(rows.clone())) else {
                    self.to_device(cx, (x, from), rows.len(), to, to_places);
                    return Ok(());
                };
                let (size, moved) = (ready.dim(), bytes(rows.len(), x.ncols()));
                cx.meter().copying(Route::OnDevice, moved, || {
                    cx.backend
                        .copy_block(&ready, Corner::at(0), size, to, corner(to_places));
                });
                return Ok(());
            }
            OnHost::Paged(x) => x,
        };
        x.each(rows, Use::Read, |block, first, part| {
            let places = at[part.clone()].to_vec().into();
            let rows = within(&rows[part], first);
            let from = (&*block, Picked::List(&rows));
            self.to_device(cx, from, rows.len(), to, Picked::List(&places));
        })
    }

    /// Rows that follow each other on the host, as a matrix on the device.
    ///
    /// # Errors
    /// As [`Tier::load`].
    pub(super) fn load_range(&self, cx: &Ctx, x: &OnHost, rows: Range<usize>) -> Result<Mat> {
        if let OnHost::Whole(x) = x
            && let Some(ready) = self.ready(cx, x, &Rows::Range(rows.clone()))
        {
            return Ok(ready);
        }
        let mut to = cx.backend.fresh(rows.len(), x.ncols());
        let mut load = |x: &Mat, from: usize, n: usize, at: usize| {
            let from = (x, Picked::From(from));
            self.to_device(cx, from, n, &mut to, Picked::From(at));
        };
        match x {
            OnHost::Whole(x) => load(x, rows.start, rows.len(), 0),
            OnHost::Paged(x) => x.each_in(rows.clone(), Use::Read, |block, of| {
                load(block, 0, of.len(), of.start - rows.start);
            })?,
        }
        Ok(to)
    }

    /// Some rows of the host, as a matrix on the device.
    ///
    /// # Errors
    /// As [`Tier::load`].
    pub(super) fn load_list(&self, cx: &Ctx, x: &OnHost, rows: &Kept<u32>) -> Result<Mat> {
        if let OnHost::Whole(x) = x
            && let Some(ready) = self.ready(cx, x, &Rows::List(rows.clone()))
        {
            return Ok(ready);
        }
        let mut to = cx.backend.fresh(rows.len(), x.ncols());
        let mut load = |x: &Mat, rows: &Kept<u32>, at: usize| {
            let from = (x, Picked::List(rows));
            self.to_device(cx, from, rows.len(), &mut to, Picked::From(at));
        };
        match x {
            OnHost::Whole(x) => load(x, rows, 0),
            OnHost::Paged(x) => x.each(rows, Use::Read, |block, first, part| {
                load(block, &within(&rows[part.clone()], first), part.start);
            })?,
        }
        Ok(to)
    }

    fn to_device(
        &self,
        cx: &Ctx,
        (x, rows): (&Mat, Picked<'_>),
        n: usize,
        to: &mut Mat,
        at: Picked<'_>,
    ) {
        let (size, route) = ((n, x.ncols()), Route::HostToDevice);
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
    ///
    /// # Errors
    /// As [`Tier::load`].
    pub(super) fn store(&self, cx: &Ctx, x: &Mat, to: &mut OnHost, first: usize) -> Result<()> {
        let d = x.ncols();
        let here = self.down(cx, x);
        let store = |from: usize, n: usize, to: &mut Mat, at: usize| {
            let [from, at] = [from, at].map(|row| corner(Picked::From(row)));
            let copy = || match (&self.apart, &here) {
                (Some(host), Some(here)) => host.copy_block(here, from, (n, d), to, at),
                _ => cx.backend.copy_block(x, from, (n, d), to, at),
            };
            cx.meter().copying(Route::DeviceToHost, 0, copy);
        };
        let n = x.nrows();
        match to {
            OnHost::Whole(to) => {
                store(0, n, to, first);
                Ok(())
            }
            OnHost::Paged(to) => to.each_in(first..first + n, Use::Write, |block, of| {
                store(of.start - first, of.len(), block, 0);
            }),
        }
    }

    /// `x: [n, d]` as it comes to the host, where its bytes are counted: a copy from a device apart, which
    /// nothing else comes from.
    fn down(&self, cx: &Ctx, x: &Mat) -> Option<Mat> {
        if let Some(stage) = &self.stage {
            stage.send(cx);
        }
        let copy = || {
            let host = self.apart.as_ref()?;
            Some(host.upload(cx.backend.download(x)))
        };
        let bytes = bytes(x.nrows(), x.ncols());
        cx.meter().copying(Route::DeviceToHost, bytes, copy)
    }

    /// Adds rows at places of `x: [m, d]` on the device to rows on the host, in their order.
    ///
    /// # Errors
    /// As [`Tier::load`].
    pub(super) fn add_picked(
        &self,
        cx: &Ctx,
        (x, at): (&Mat, &Kept<u32>),
        to: &mut OnHost,
        rows: &Kept<u32>,
    ) -> Result<()> {
        let (backend, d) = (cx.backend.as_ref(), x.ncols());
        // What has no elements stands for what the request asks for.
        let on_host = backend.keeps_elements() || cx.plan.spec.backend == "cpu";
        match to {
            // One memory: straight from one matrix to the other.
            OnHost::Whole(to) if self.apart.is_none() && on_host => {
                let bytes = bytes(rows.len(), d);
                cx.meter().copying(Route::DeviceToHost, bytes, || ());
                let add = || {
                    if backend.keeps_elements() {
                        let (x, to) = ((x.host(), &at[..]), to.host_mut());
                        kernels::rows::scatter_add_picked(self.par(cx), x, rows, to);
                    }
                };
                cx.meter().copying_by_hand(Route::OnHost, bytes, add);
                Ok(())
            }
            to => {
                let mut g = backend.fresh(rows.len(), d);
                backend.gather_rows(x, at, &mut g);
                self.add(cx, g, to, rows)
            }
        }
    }

    /// Adds `x: [n, d]` on the device to rows on the host, in their order.
    ///
    /// # Errors
    /// As [`Tier::load`].
    pub(super) fn add(&self, cx: &Ctx, x: Mat, to: &mut OnHost, rows: &Kept<u32>) -> Result<()> {
        let (n, d) = x.dim();
        let to = match to {
            OnHost::Whole(to) => {
                let here = self.down(cx, &x);
                let add = || match (&self.apart, &here) {
                    (Some(host), Some(here)) => host.scatter_add_rows(here, rows, to),
                    _ => cx.backend.scatter_add_rows(&x, rows, to),
                };
                cx.meter().copying(Route::OnHost, bytes(n, d), add);
                return Ok(());
            }
            OnHost::Paged(to) => to,
        };
        let here = cx
            .meter()
            .copying(Route::DeviceToHost, bytes(n, d), || cx.backend.take(x));
        let from = here.as_slice().expect("rows behind each other");
        let (working, par) = (to.is_working(), self.par(cx));
        let added = to.each(rows, Use::Change, |block, first, part| {
            if !working {
                return;
            }
            let rows = within(&rows[part.clone()], first);
            let part = &from[part.start * d..part.end * d];
            let add = || kernels::rows::scatter_add_slice(par, part, &rows, block.host_mut());
            let bytes = 4 * part.len() as u64;
            cx.meter().copying_by_hand(Route::OnHost, bytes, add);
        });
        cx.backend.give_back(here);
        added
    }
}

/// Rows of a block that begins with row `first`.
fn within(rows: &[u32], first: u32) -> Kept<u32> {
    let rows = rows.iter().map(|&row| row - first);
    rows.collect::<Vec<_>>().into()
}
