//! Copies of rows that are wanted soon, made by a thread of the host beside whatever is computed meanwhile.
//!
//! They wait in matrices of their own, not in a buffer's places: those are read until the batch before is done.
//! Each is made before it is known when it will be there, so that it counts as the device's from then on.

use crate::backend::{Backend, Kept, Mat};
use crate::record::{Meter, Route};
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
    /// Where they come to: without elements while the thread has them.
    to: Mat,
    /// Nanoseconds that it took; none until they are there.
    ns: Option<u64>,
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
}

impl Stage {
    /// Asks for rows of `x: [n, d]`, which nobody changes before they are taken; they come to `home`'s
    /// memory. Nothing happens where `x` cannot be read by another thread.
    pub(super) fn ask(&self, home: &dyn Backend, x: &Mat, rows: Rows) {
        let Some(elements) = x.shared_elements() else {
            return;
        };
        let mut to = home.fresh(rows.len(), x.ncols());
        let mut worker = self.worker.borrow_mut();
        let mut ns = Some(0);
        // Without elements nothing is to be done.
        if let Some(lent) = to.lend() {
            if worker.is_none() {
                *worker = Worker::start();
            }
            let job = Job {
                x: Arc::clone(elements),
                rows: rows.clone(),
                to: lent,
            };
            match worker.as_ref().and_then(|worker| worker.jobs.as_ref()) {
                Some(jobs) => {
                    // A thread that is gone is missed by whoever waits for it.
                    let _ = jobs.send(job);
                    ns = None;
                }
                None => to.have_back(job.carried_out().to),
            }
        }
        let x = Arc::as_ptr(elements);
        self.promised
            .borrow_mut()
            .push_back(Promised { x, rows, to, ns });
    }

    /// Rows of `x` that were asked for, when they are there; their bytes count as copied then, and the time
    /// is that of waiting.
    pub(super) fn take(&self, meter: &Meter, x: &Mat, rows: &Rows) -> Option<Mat> {
        let of = Arc::as_ptr(x.shared_elements()?);
        let mut promised = self.promised.borrow_mut();
        let is_it = |promised: &Promised| promised.x == of && promised.rows.is(rows);
        let found = promised.iter().position(is_it)?;
        let bytes = 4 * (rows.len() * x.ncols()) as u64;
        let start = Instant::now();
        let mut worker = self.worker.borrow_mut();
        meter.copying_by_hand(Route::HostToDevice, bytes, || {
            for earlier in promised.iter_mut().take(found + 1) {
                if earlier.ns.is_some() {
                    continue;
                }
                let worker = worker.as_mut().expect("it was asked");
                let Done { to, ns } = worker.wait();
                earlier.to.have_back(to);
                earlier.ns = Some(ns);
            }
        });
        let waited = start.elapsed().as_nanos() as u64;
        let taken = promised.remove(found)?;
        let hidden = taken.ns.unwrap_or(0).saturating_sub(waited);
        self.hidden.set(self.hidden.get() + hidden);
        Some(taken.to)
    }

    /// Whether something was asked for and not taken.
    pub(super) fn is_waiting(&self) -> bool {
        !self.promised.borrow().is_empty()
    }

    /// Nanoseconds of copying for which nobody waited, since the last call.
    pub(super) fn take_hidden(&self) -> u64 {
        self.hidden.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Cpu;

    #[test]
    fn rows_are_those_that_were_asked_for_whatever_the_order_in_which_they_are_taken() {
        let (home, meter, stage) = (Cpu::new(1), Meter::new(None), Stage::default());
        let of =
            |k: usize| kernels::Mat::from_shape_fn((9, 3), |(r, c)| (100 * k + 3 * r + c) as f32);
        let x = [0, 1].map(|k| Mat::shared(Arc::new(of(k))));
        let list = Rows::List(vec![7, 0, 7, 4].into());
        let wanted = [
            (0, list.clone(), vec![7, 0, 7, 4]),
            (1, Rows::Range(2..5), vec![2, 3, 4]),
            (1, list.clone(), vec![7, 0, 7, 4]),
            (0, Rows::Range(3..3), vec![]),
        ];
        for (k, rows, _) in &wanted {
            stage.ask(&home, &x[*k], rows.clone());
        }
        assert!(
            stage.take(&meter, &x[0], &Rows::Range(2..5)).is_none(),
            "never asked for"
        );
        for at in [2, 0, 3, 1] {
            let (k, rows, expected) = &wanted[at];
            let got = stage.take(&meter, &x[*k], rows).expect("asked for");
            let all = of(*k);
            let expected: Vec<f32> = expected.iter().flat_map(|&r| all.row(r).to_vec()).collect();
            assert_eq!(got.as_slice(), expected, "{at}");
            assert!(stage.take(&meter, &x[*k], rows).is_none(), "taken before");
        }
        assert!(!stage.is_waiting());
        // What was copied from can be changed then.
        let mut x = x;
        x[0].host_mut().fill(0.0);
    }
}
