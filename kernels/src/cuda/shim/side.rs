//! A stream beside the one that works, on the host: a thread that does one thing after the other.
//!
//! A library that is given the stream finds a function there that hands over work ([`Stream`]): so does
//! the one that speaks NCCL's interface in tests (`kernels/cuda/nccl_shim.cpp`).

use super::kernels::Kernels;
use crate::cuda::{Arg, Error, Launch, Mark, Side};
use std::ffi::c_void;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

type Job = Box<dyn FnOnce() + Send>;

/// A mark: the nanosecond at which the thread came to it, once it has.
#[derive(Clone, Default)]
pub(super) struct Moment(Arc<(Mutex<Option<u64>>, Condvar)>);

impl Moment {
    fn at(&self) -> MutexGuard<'_, Option<u64>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_done(&self) -> bool {
        self.at().is_some()
    }

    /// Waits until the thread has come to it, or never will.
    pub(super) fn wait(&self) -> u64 {
        let mut at = self.at();
        loop {
            if let Some(at) = *at {
                return at;
            }
            at = self.0.1.wait(at).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Sets a moment, at the latest when the thread is gone.
struct Set {
    moment: Moment,
    start: Instant,
}

impl Drop for Set {
    fn drop(&mut self) {
        *self.moment.at() = Some(self.start.elapsed().as_nanos() as u64);
        self.moment.0.1.notify_all();
    }
}

/// What a library sees of the stream.
#[repr(C)]
struct Stream {
    enqueue: unsafe extern "C" fn(*const Stream, unsafe extern "C" fn(*mut c_void), *mut c_void),
    jobs: Mutex<Option<Sender<Job>>>,
}

/// An address that goes to the thread.
struct Sent(*mut c_void);
// SAFETY: the library says that its work may be done by another thread.
unsafe impl Send for Sent {}

impl Sent {
    fn get(self) -> *mut c_void {
        self.0
    }
}

impl Stream {
    fn push(&self, job: Job) {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        // The thread takes jobs for as long as there is somebody to give them.
        let _ = jobs.as_ref().map(|jobs| jobs.send(job));
    }
}

unsafe extern "C" fn enqueue(
    stream: *const Stream,
    run: unsafe extern "C" fn(*mut c_void),
    with: *mut c_void,
) {
    let with = Sent(with);
    // SAFETY: the address is what `OnSide::stream` gave, whose owner is there until the library is done.
    let stream = unsafe { &*stream };
    // SAFETY: the library's promise: `run` may be called with `with`, once, by any thread.
    stream.push(Box::new(move || unsafe { run(with.get()) }));
}

/// A stream for messages.
pub(super) struct OnSide {
    stream: Box<Stream>,
    kernels: Arc<Kernels>,
    start: Instant,
    thread: Option<JoinHandle<()>>,
}

impl OnSide {
    /// Whose marks count from `start`.
    pub(super) fn new(kernels: Arc<Kernels>, start: Instant) -> OnSide {
        let (jobs, todo) = channel::<Job>();
        let work = move || todo.into_iter().for_each(|job| job());
        OnSide {
            stream: Box::new(Stream {
                enqueue,
                jobs: Mutex::new(Some(jobs)),
            }),
            kernels,
            start,
            thread: Some(std::thread::spawn(work)),
        }
    }
}

impl Side for OnSide {
    fn stream(&self) -> *mut c_void {
        std::ptr::from_ref(self.stream.as_ref()).cast_mut().cast()
    }

    fn here(&self) -> Result<(), Error> {
        Ok(())
    }

    fn wait_for(&self, mark: &Mark) -> Result<(), Error> {
        // What works on the host is done when it returns.
        if let Some(moment) = mark.downcast_ref::<Moment>().cloned() {
            self.stream.push(Box::new(move || {
                moment.wait();
            }));
        }
        Ok(())
    }

    fn mark(&self) -> Result<Mark, Error> {
        let moment = Moment::default();
        let set = Set {
            moment: moment.clone(),
            start: self.start,
        };
        self.stream.push(Box::new(move || drop(set)));
        Ok(Box::new(moment))
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's.
        let job = move || unsafe {
            std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes);
        };
        self.stream.push(Box::new(job));
        Ok(())
    }

    unsafe fn launch(&self, launch: Launch<'_>) -> Result<(), Error> {
        let kernels = Arc::clone(&self.kernels);
        let Launch {
            kernel,
            grid,
            threads,
            args,
        } = launch;
        let args: Vec<Arg> = args.to_vec();
        self.stream.push(Box::new(move || {
            let launch = Launch {
                kernel,
                grid,
                threads,
                args: &args,
            };
            // SAFETY: the caller's.
            if let Err(e) = unsafe { kernels.run(launch) } {
                panic!("{e}");
            }
        }));
        Ok(())
    }
}

impl Drop for OnSide {
    fn drop(&mut self) {
        let jobs = self.stream.jobs.get_mut();
        *jobs.unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(thread) = self.thread.take() {
            // It has said on standard error why it panicked.
            let _ = thread.join();
        }
    }
}
