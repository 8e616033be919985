//! Copies of rows that are wanted soon, made by a thread of the host beside whatever is computed meanwhile.
//!
//! They wait in matrices of their own, not in a buffer's places: those are read until the batch before is done.
//! Each is made before it is known when it will be there, so that it counts as the device's from then on.
//!
//! To a device that is apart from the host the thread brings rows together in a block on the host, which then
//! crosses beside the device's work: before the rank waits for that the next time ([`Stage::send`]), or else
//! when the rows are wanted.

use crate::backend::{Backend, Kept, Mat};
use crate::ctx::Ctx;
use crate::record::Route;
use kernels::cuda::{Device, Mark};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// Which rows of a matrix.
#[derive(Debug, Clone)]
pub(super) enum Rows {
    List(Kept<u32>),
    Range(Range<usize>),
}

impl Rows {
    /// How many.
    pub(super) fn len(&self) -> usize {
        match self {
            Rows::List(rows) => rows.len(),
            Rows::Range(rows) => rows.len(),
        }
    }

    /// Whether both are the same list, or the same rows that follow each other.
    fn is(&self, other: &Rows) -> bool {
        match (self, other) {
            (Rows::List(a), Rows::List(b)) => std::ptr::eq(&raw const a[..], &raw const b[..]),
            (Rows::Range(a), Rows::Range(b)) => a == b,
            _ => false,
        }
    }
}

/// Some rows of a matrix, and where they are written.
struct Job {
    x: Arc<kernels::Mat>,
    rows: Rows,
    to: kernels::Mat,
}

/// What the thread has done, in the order of the jobs.
struct Done {
    to: kernels::Mat,
    /// Nanoseconds that it took.
    ns: u64,
}

/// Rows that were asked for.
struct Promised {
    x: *const kernels::Mat,
    rows: Rows,
    /// Where they come to, on the device.
    to: Mat,
    /// Where they are brought together, if that is elsewhere.
    block: Option<Block>,
    /// Nanoseconds that it took; none while the thread has the elements of the one or the other.
    ns: Option<u64>,
}

/// Rows on the host that cross to a device apart.
struct Block {
    rows: Mat,
    /// What the device had been asked for when `to` was made: others may have read the same memory until then.
    behind: Mark,
    /// Beginning and end of the copy, once it is on its way.
    sent: Option<[Mark; 2]>,
}

impl Promised {
    /// The matrix that the thread writes.
    fn written(&mut self) -> &mut Mat {
        match &mut self.block {
            Some(block) => &mut block.rows,
            None => &mut self.to,
        }
    }

    /// Sends what was brought together, if it has to cross and is not on its way.
    fn send(&mut self, device: &Device) {
        if let Some(block) = self.block.as_mut().filter(|b| b.sent.is_none()) {
            let (from, to) = (block.rows.as_slice(), self.to.buf_mut());
            block.sent = Some(device.upload_beside(from, to, &block.behind));
        }
    }
}

struct Worker {
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// None where the system has no thread for it.
    fn start() -> Option<Worker> {
        let (jobs, wanted) = channel::<Job>();
        let (tell, done) = channel();
        let work = move || {
            for job in wanted {
                if tell.send(job.carried_out()).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("copies".into());
        Some(Worker {
            jobs: Some(jobs),
            done,
            thread: Some(thread.spawn(work).ok()?),
        })
    }

    /// The next job that is done.
    ///
    /// # Panics
    /// With what the thread has panicked with.
    fn wait(&mut self) -> Done {
        match self.done.recv() {
            Ok(done) => done,
            Err(_) => {
                let thread = self.thread.take().map(JoinHandle::join);
                match thread {
                    Some(Err(panic)) => std::panic::resume_unwind(panic),
                    _ => unreachable!("it works until this is dropped"),
                }
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Job {
    fn carried_out(self) -> Done {
        let start = Instant::now();
        let Job { x, rows, mut to } = self;
        let d = x.ncols();
        let from = x.as_slice().expect("rows behind each other");
        let out = to.as_slice_mut().expect("rows behind each other");
        match rows {
            Rows::Range(rows) => out.copy_from_slice(&from[rows.start * d..rows.end * d]),
            Rows::List(rows) if d > 0 => {
                for (to, &row) in out.chunks_exact_mut(d).zip(rows.iter()) {
                    to.copy_from_slice(&from[row as usize * d..][..d]);
                }
            }
            Rows::List(_) => (),
        }
        // Whoever gets the rows may change what they were copied from.
        drop(x);
        Done {
            to,
            ns: start.elapsed().as_nanos() as u64,
        }
    }
}

/// The thread, and what it was asked for.
#[derive(Default)]
pub(super) struct Stage {
    worker: RefCell<Option<Worker>>,
    promised: RefCell<VecDeque<Promised>>,
    /// Nanoseconds of copying for which nobody waited.
    hidden: Cell<u64>,
    /// To a device apart: beginning and end of copies, and moments before and behind which the device waited.
    crossed: RefCell<Vec<[Mark; 4]>>,
}

impl Stage {
    /// Asks for rows of `x: [n, d]`, which nobody changes before they are taken; they come to the device, by way
    /// of `host` where that is apart. Nothing happens where `x` cannot be read by another thread.
    pub(super) fn ask(&self, cx: &Ctx, host: Option<&dyn Backend>, x: &Mat, rows: Rows) {
        let Some(elements) = x.shared_elements() else {
            return;
        };
        let (n, d) = (rows.len(), x.ncols());
        let apart = host.zip(cx.backend.memory());
        let mut promised = Promised {
            x: Arc::as_ptr(elements),
            rows,
            to: cx.backend.fresh(n, d),
            block: apart.map(|(host, device)| Block {
                rows: host.fresh(n, d),
                behind: device.mark(),
                sent: None,
            }),
            ns: Some(0),
        };
        // Without elements nothing is to be done.
        if let Some(lent) = promised.written().lend() {
            let job = Job {
                x: Arc::clone(elements),
                rows: promised.rows.clone(),
                to: lent,
            };
            let mut worker = self.worker.borrow_mut();
            if worker.is_none() {
                *worker = Worker::start();
            }
            match worker.as_ref().and_then(|worker| worker.jobs.as_ref()) {
                Some(jobs) => {
                    // A thread that is gone is missed by whoever waits for it.
                    let _ = jobs.send(job);
                    promised.ns = None;
                }
                None => promised.written().have_back(job.carried_out().to),
            }
        }
        self.promised.borrow_mut().push_back(promised);
    }

    /// Sends what was asked for to a device apart, beside what it does: called before the rank waits for that.
    pub(super) fn send(&self, cx: &Ctx) {
        let Some(device) = cx.backend.memory() else {
            return;
        };
        let mut promised = self.promised.borrow_mut();
        for promised in promised.iter_mut() {
            self.wait(cx, promised);
            promised.send(device);
        }
    }

    /// Waits until the thread is done with rows that it was asked for in turn.
    fn wait(&self, cx: &Ctx, promised: &mut Promised) {
        if promised.ns.is_some() {
            return;
        }
        let start = Instant::now();
        let mut worker = self.worker.borrow_mut();
        let worker = worker.as_mut().expect("it was asked");
        let wait = || worker.wait();
        let Done { to, ns } = cx.meter().copying_by_hand(Route::HostToDevice, 0, wait);
        promised.written().have_back(to);
        promised.ns = Some(ns);
        let waited = start.elapsed().as_nanos() as u64;
        self.hidden
            .set(self.hidden.get() + ns.saturating_sub(waited));
    }

    /// Rows of `x` that were asked for, when they are there; their bytes count as copied then, and the time
    /// is that of waiting.
    pub(super) fn take(&self, cx: &Ctx, x: &Mat, rows: &Rows) -> Option<Mat> {
        let of = Arc::as_ptr(x.shared_elements()?);
        let mut promised = self.promised.borrow_mut();
        let is_it = |promised: &Promised| promised.x == of && promised.rows.is(rows);
        let found = promised.iter().position(is_it)?;
        for earlier in promised.iter_mut().take(found + 1) {
            self.wait(cx, earlier);
        }
        let mut taken = promised.remove(found)?;
        let bytes = 4 * (rows.len() * x.ncols()) as u64;
        cx.meter().copying(Route::HostToDevice, bytes, || ());
        if let Some(device) = cx.backend.memory() {
            taken.send(device);
        }
        if let (Some(device), Some(block)) = (cx.backend.memory(), taken.block)
            && let Some([begun, ended]) = block.sent
        {
            let before = device.mark();
            device.wait_for(&ended);
            let crossed = [begun, ended, before, device.mark()];
            self.crossed.borrow_mut().push(crossed);
        }
        Some(taken.to)
    }

    /// Whether something was asked for and not taken.
    pub(super) fn is_waiting(&self) -> bool {
        !self.promised.borrow().is_empty()
    }

    /// Nanoseconds of copying for which nobody waited, since the last call. Waits for the device.
    pub(super) fn take_hidden(&self, cx: &Ctx) -> u64 {
        let crossed = self.crossed.take();
        let device = cx.backend.memory();
        let hidden = crossed.iter().zip(device.iter().cycle());
        let hidden = hidden.map(|([begun, ended, before, behind], device)| {
            let copied = device.between(begun, ended);
            copied.saturating_sub(device.between(before, behind))
        });
        self.hidden.take() + hidden.sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Cpu, Cuda, Metered};
    use crate::spec::RunSpec;
    use crate::testing::{shim, world, world_on};
    use std::rc::Rc;

    /// On the host, and on the host shim as a device apart: whose copies are made as late as can be, so that
    /// rows that were not waited for are no numbers.
    #[test]
    fn rows_are_those_that_were_asked_for_whatever_the_order_in_which_they_are_taken() {
        let spec = RunSpec::default();
        world(&spec, 1, |cx, _| check(cx, None));
        if let Some(device) = shim() {
            let open = |meter| {
                let device = Cuda::new(Arc::clone(&device));
                Box::new(Metered::new(device, meter)) as Box<dyn Backend>
            };
            for sent in [false, true] {
                world_on(&spec, 1, open, |cx, _| {
                    let host = Metered::new(Cpu::new(1), Rc::clone(cx.meter()));
                    check(cx, Some((&host, sent)));
                });
            }
        }
    }

    /// `apart` is what works on the host beside a device, and whether blocks are sent before they are wanted.
    fn check(cx: &Ctx, apart: Option<(&dyn Backend, bool)>) {
        let stage = Stage::default();
        let of =
            |k: usize| kernels::Mat::from_shape_fn((9, 3), |(r, c)| (100 * k + 3 * r + c) as f32);
        let mut x = [0, 1].map(|k| Mat::shared(Arc::new(of(k))));
        let list = Rows::List(vec![7, 0, 7, 4].into());
        let wanted = [
            (0, list.clone(), vec![7, 0, 7, 4]),
            (1, Rows::Range(2..5), vec![2, 3, 4]),
            (1, list.clone(), vec![7, 0, 7, 4]),
            (0, Rows::Range(3..4), vec![3]),
        ];
        for (k, rows, _) in &wanted {
            stage.ask(cx, apart.map(|(host, _)| host), &x[*k], rows.clone());
        }
        if apart.is_some_and(|(_, sent)| sent) {
            stage.send(cx);
        }
        assert!(
            stage.take(cx, &x[0], &Rows::Range(2..5)).is_none(),
            "never asked for"
        );
        for at in [2, 0, 3, 1] {
            let (k, rows, expected) = &wanted[at];
            let got = stage.take(cx, &x[*k], rows).expect("asked for");
            let all = of(*k);
            let expected: Vec<f32> = expected.iter().flat_map(|&r| all.row(r).to_vec()).collect();
            let got = cx.backend.download(&got);
            assert_eq!(got.as_slice(), Some(&expected[..]), "{at}");
            assert!(stage.take(cx, &x[*k], rows).is_none(), "taken before");
        }
        assert!(!stage.is_waiting());
        stage.take_hidden(cx);
        // What was copied from can be changed then.
        x[0].host_mut().fill(0.0);
    }
}
