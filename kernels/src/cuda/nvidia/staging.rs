//! Large copies between a GPU and ordinary memory of the host.
//!
//! A GPU reads and writes by itself only memory that stays where it is (pinned). Otherwise the driver
//! copies through such memory of its own, with one thread; here several threads do, each with blocks of
//! its own, so that one is filled while the GPU reads another.

use super::failed;
use crate::cuda::Error;
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a block, and of what is copied at once.
const PIECE: usize = 2 << 20;

/// Smaller copies are left to the driver.
const LEAST: usize = 1 << 20;

/// Blocks of a thread.
const BLOCKS: usize = 2;

/// Threads at most: more do not make a bus faster.
const MOST_THREADS: usize = 6;

/// A block of pinned memory.
struct Block {
    at: *mut u8,
    /// When the GPU has read or written what was asked for last.
    done: CudaEvent,
}

// SAFETY: the memory is the block's own, and pinned memory may be used by any thread.
unsafe impl Send for Block {}

impl Block {
    fn new(context: &Arc<CudaContext>) -> Result<Block, Error> {
        let done = context.new_event(None).map_err(failed("mark"))?;
        // SAFETY: `new_event` has bound the context to this thread.
        let at = unsafe { result::malloc_host(PIECE, 0) }.map_err(failed("pinned memory"))?;
        Ok(Block {
            at: at.cast(),
            done,
        })
    }

    /// Waits until the GPU needs it no more, and gives its first `len` bytes.
    fn ready(&mut self, len: usize) -> Result<&mut [u8], Error> {
        self.done
            .synchronize()
            .map_err(failed("waiting for the GPU"))?;
        assert!(len <= PIECE, "staging: {len} bytes in a block of {PIECE}");
        // SAFETY: `PIECE` bytes were allocated at `at`, which only this block has; the GPU is done with them.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.at, len) })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // Errors are those of earlier work, or the process ends and the driver with it.
        let _ = self.done.synchronize();
        // SAFETY: made by `malloc_host`, and the GPU is done with it.
        let _ = unsafe { result::free_host(self.at.cast()) };
    }
}

/// Pinned blocks, kept for the next copy, and how many threads use them.
pub(super) struct Staging {
    context: Arc<CudaContext>,
    threads: usize,
    idle: Mutex<Vec<Block>>,
}

impl Staging {
    pub(super) fn new(context: Arc<CudaContext>) -> Staging {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Staging {
            context,
            threads: (cores / 2).clamp(1, MOST_THREADS),
            idle: Mutex::default(),
        }
    }

    /// Copies `from` to the GPU's `to`, in the order of `stream`; returns when `from` has been read.
    ///
    /// # Safety
    /// `to` is the address of as many bytes there.
    pub(super) unsafe fn upload(
        &self,
        from: &[u8],
        to: u64,
        stream: &CudaStream,
    ) -> Result<(), Error> {
        if from.len() < LEAST {
            // SAFETY: the caller's. From pageable memory the call returns when `from` has been read.
            return unsafe { result::memcpy_htod_async(to, from, stream.cu_stream()) }
                .map_err(failed("upload"));
        }
        let pieces: Vec<&[u8]> = from.chunks(PIECE).collect();
        let next = AtomicUsize::new(0);
        self.on_threads(pieces.len(), |blocks| {
            for turn in 0.. {
                let k = next.fetch_add(1, Ordering::Relaxed);
                let Some(piece) = pieces.get(k) else { break };
                let block = &mut blocks[turn % BLOCKS];
                let room = block.ready(piece.len())?;
                room.copy_from_slice(piece);
                let at = to + (k * PIECE) as u64;
                // SAFETY: the caller's; the block is written again only when `done` is.
                unsafe { result::memcpy_htod_async(at, room, stream.cu_stream()) }
                    .map_err(failed("upload"))?;
                block.done.record(stream).map_err(failed("mark"))?;
            }
            Ok(())
        })
    }

    /// Copies from the GPU's `from` once what `stream` does before is done; returns when `to` is written.
    ///
    /// # Safety
    /// `from` is the address of as many bytes there.
    pub(super) unsafe fn download(
        &self,
        from: u64,
        to: &mut [u8],
        stream: &CudaStream,
    ) -> Result<(), Error> {
        if to.len() < LEAST {
            // SAFETY: the caller's; `to` is borrowed until the stream is done.
            unsafe { result::memcpy_dtoh_async(to, from, stream.cu_stream()) }
                .map_err(failed("download"))?;
            return stream.synchronize().map_err(failed("waiting for the GPU"));
        }
        let count = to.len().div_ceil(PIECE);
        let pieces = Mutex::new(to.chunks_mut(PIECE).enumerate());
        let take = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
        self.on_threads(count, |blocks| {
            // A piece on its way for each block, the oldest first.
            let mut coming: [Option<&mut [u8]>; BLOCKS] = [const { None }; BLOCKS];
            for turn in 0.. {
                let (block, slot) = (&mut blocks[turn % BLOCKS], &mut coming[turn % BLOCKS]);
                if let Some(piece) = slot.take() {
                    let room = block.ready(piece.len())?;
                    piece.copy_from_slice(room);
                }
                if let Some((k, piece)) = take() {
                    let room = block.ready(piece.len())?;
                    // SAFETY: the caller's; the block is read only when `done` is.
                    unsafe {
                        let at = from + (k * PIECE) as u64;
                        result::memcpy_dtoh_async(room, at, stream.cu_stream())
                    }
                    .map_err(failed("download"))?;
                    block.done.record(stream).map_err(failed("mark"))?;
                    *slot = Some(piece);
                } else if coming.iter().all(Option::is_none) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Copies `from` to `to`, both on the host, with as many threads as a large copy needs.
    pub(super) fn fill(&self, from: &[u8], to: &mut [u8]) {
        let threads = self.threads_for(from.len().div_ceil(PIECE));
        let each = from.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let mut parts = to.chunks_mut(each).zip(from.chunks(each));
            let own = parts.next();
            for (to, from) in parts {
                scope.spawn(|| to.copy_from_slice(from));
            }
            if let Some((to, from)) = own {
                to.copy_from_slice(from);
            }
        });
    }

    fn threads_for(&self, pieces: usize) -> usize {
        self.threads.min(pieces).max(1)
    }

    /// Runs `f` on as many threads as `pieces` ask for, this one among them, each with its own blocks.
    fn on_threads(
        &self,
        pieces: usize,
        f: impl Fn(&mut [Block; BLOCKS]) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let one = || {
            self.context
                .bind_to_thread()
                .map_err(failed("reaching the GPU"))?;
            let mut blocks = [self.block()?, self.block()?];
            let done = f(&mut blocks);
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.extend(blocks);
            done
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads_for(pieces))
                .map(|_| scope.spawn(one))
                .collect();
            let own = one();
            let lost = |_| Err(Error::call("copies", "a thread panicked"));
            let all = others.into_iter().map(|t| t.join().unwrap_or_else(lost));
            all.fold(own, Result::and)
        })
    }

    fn block(&self) -> Result<Block, Error> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // The one that was used longest ago is most likely done.
        match idle.is_empty() {
            true => Block::new(&self.context),
            false => Ok(idle.remove(0)),
        }
    }
}
