//! A file of this run, and the thread that reads and writes it.
//!
//! The file has no name: it is gone with the process, however that ends.

use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// What the thread is to do, one job after the other.
pub(super) enum Job {
    /// Fills `buffer` from byte `at` on.
    Read {
        block: u32,
        at: u64,
        buffer: Vec<f32>,
    },
    /// Writes `buffer` from byte `at` on.
    Write { at: u64, buffer: Vec<f32> },
}

/// What it has done.
pub(super) struct Done {
    /// The block that was read; none for one that was written.
    pub(super) block: Option<u32>,
    pub(super) buffer: Vec<f32>,
    /// Nanoseconds that it took.
    pub(super) ns: u64,
    result: io::Result<()>,
}

/// The file and its thread.
pub(super) struct Scratch {
    folder: PathBuf,
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl Scratch {
    /// A file of `bytes` bytes in a folder, all of which the disk has room for.
    ///
    /// # Errors
    /// [`Error::Io`] where it has not.
    pub(super) fn create(folder: &Path, bytes: u64) -> Result<Scratch> {
        let io = |e: io::Error| Error::io(folder, e);
        let file = tempfile::tempfile_in(folder).map_err(io)?;
        reserve(&file, bytes).map_err(io)?;
        let (jobs, wanted) = channel();
        let (tell, done) = channel();
        let work = move || {
            for job in wanted {
                if tell.send(carry_out(&file, job)).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("disk".into()).spawn(work);
        Ok(Scratch {
            folder: folder.to_owned(),
            jobs: Some(jobs),
            done,
            thread: Some(thread.map_err(io)?),
        })
    }

    /// Asks for something.
    pub(super) fn ask(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("taken when this is dropped");
        // A thread that is gone has told why, or will be missed by whoever waits.
        let _ = jobs.send(job);
    }

    /// The next thing that is done; waits for it.
    ///
    /// # Errors
    /// [`Error::Io`] of what could not be done.
    pub(super) fn wait(&self) -> Result<Done> {
        let gone = |_| io::Error::other("the thread that reads and writes is gone");
        let done = self.done.recv().map_err(gone);
        self.checked(done.map_err(|e| Error::io(&self.folder, e))?)
    }

    /// The next thing that is done, if there is one by now.
    ///
    /// # Errors
    /// As [`Scratch::wait`].
    pub(super) fn poll(&self) -> Result<Option<Done>> {
        let done = self.done.try_recv().ok();
        done.map(|done| self.checked(done)).transpose()
    }

    fn checked(&self, mut done: Done) -> Result<Done> {
        match std::mem::replace(&mut done.result, Ok(())) {
            Ok(()) => Ok(done),
            Err(e) => Err(Error::io(&self.folder, e)),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes room on the disk now, so that a full one is found before training.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    match fallocate(file, FallocateFlags::empty(), 0, bytes.max(1)) {
        Ok(()) => Ok(()),
        // A file system that cannot promise room: it is taken as it is needed.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(bytes),
        Err(e) => Err(e.into()),
    }
}

fn carry_out(file: &File, job: Job) -> Done {
    let start = Instant::now();
    let (block, buffer, result) = match job {
        Job::Read {
            block,
            at,
            mut buffer,
        } => {
            let result = file.read_exact_at(bytemuck::cast_slice_mut(&mut buffer), at);
            (Some(block), buffer, result)
        }
        Job::Write { at, buffer } => {
            let result = file.write_all_at(bytemuck::cast_slice(&buffer), at);
            (None, buffer, result)
        }
    };
    Done {
        block,
        buffer,
        ns: start.elapsed().as_nanos() as u64,
        result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_fails_says_where() {
        let folder = tempfile::tempdir().expect("a folder");
        let scratch = Scratch::create(folder.path(), 64).expect("room");
        assert!(folder.path().read_dir().expect("there").next().is_none());
        let write = |at, x: f32| {
            let buffer = vec![x; 4];
            scratch.ask(Job::Write { at, buffer });
        };
        write(0, 1.0);
        write(16, 2.0);
        write(0, 3.0);
        for (block, at) in [(7, 0), (8, 16)] {
            let buffer = vec![0.0; 4];
            scratch.ask(Job::Read { block, at, buffer });
        }
        for _ in 0..3 {
            assert_eq!(scratch.wait().expect("written").block, None);
        }
        for (block, x) in [(7, 3.0), (8, 2.0)] {
            let done = scratch.wait().expect("read");
            assert_eq!((done.block, done.buffer), (Some(block), vec![x; 4]));
        }
        let buffer = vec![0.0; 4];
        let (block, at) = (9, 56);
        scratch.ask(Job::Read { block, at, buffer });
        assert!(matches!(scratch.wait(), Err(Error::Io { path, .. }) if path == folder.path()));
        // More than any disk has.
        assert!(Scratch::create(folder.path(), 1 << 62).is_err());
    }
}
