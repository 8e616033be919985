//! A device: a driver, and what is made in the memory that was taken from it.

use super::memory::Memory;
use super::{Arg, Driver, Error, Gemm, Launch, Mark};
use crate::Mat;
use std::marker::PhantomData;
use std::sync::Arc;

/// Numbers that are the same bytes on host and device.
///
/// # Safety
/// Without padding, and any bytes are a value.
pub unsafe trait Plain: Copy + 'static {}
// SAFETY: numbers of the machine.
unsafe impl Plain for f32 {}
// SAFETY: as above.
unsafe impl Plain for f64 {}
// SAFETY: as above.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for half::bf16 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}

/// A device that executes [`super::ops`].
///
/// Memory that a [`Buf`] gives back is kept and handed out again: work is done in order on one
/// stream, so nobody still reads it when the next owner writes. Copies beside that stream begin behind it, and
/// it goes on behind them ([`Device::upload_beside`]).
pub struct Device {
    driver: Box<dyn Driver>,
    memory: Memory,
}

impl Device {
    /// A device over `driver`.
    pub fn new(driver: Box<dyn Driver>) -> Arc<Device> {
        Arc::new(Device {
            driver,
            memory: Memory::default(),
        })
    }

    /// The same device with a stream and memory of its own: what is asked for there is done beside what is asked
    /// for here.
    ///
    /// # Errors
    /// When the device failed.
    pub fn another(&self) -> Result<Arc<Device>, Error> {
        self.driver.another().map(Device::new)
    }

    /// From now on no more than `bytes` are taken from the driver at once, idle memory included: what
    /// would exceed them is refused. What was taken before counts.
    ///
    /// # Errors
    /// [`Error::Memory`] where the driver has less to give, or more is in use already.
    pub fn limit(&self, bytes: usize) -> Result<(), Error> {
        self.memory.limit(self.driver.as_ref(), bytes)
    }

    /// Whether its memory is kept for the next owner, and comes in multiples of [`super::GRAIN`].
    pub fn keeps_memory(&self) -> bool {
        self.driver.keeps_memory()
    }

    /// Bytes that could be taken from the driver now, where it knows.
    pub fn free_bytes(&self) -> Option<usize> {
        self.driver.free_bytes().ok().flatten()
    }

    /// Bytes that a buffer of `bytes` takes.
    pub fn room(&self, bytes: usize) -> usize {
        super::memory::room(self.driver.keeps_memory(), bytes)
    }

    /// Bytes in use now.
    pub fn used_bytes(&self) -> usize {
        self.memory.used()
    }

    /// Bytes that nobody uses now and that are kept for the next owner.
    pub fn idle_bytes(&self) -> usize {
        self.memory.idle()
    }

    /// The most bytes that were ever in use at once.
    pub fn most_bytes(&self) -> usize {
        self.memory.most()
    }

    /// What a person calls it.
    pub fn name(&self) -> &str {
        self.driver.name()
    }

    /// Memory for `len` numbers, its content unspecified.
    ///
    /// # Panics
    /// Where there is not as much, with the [`Error`] as payload; [`Device::try_fresh`] says so instead.
    pub fn fresh<T: Plain>(self: &Arc<Self>, len: usize) -> Buf<T> {
        self.must(self.try_fresh(len))
    }

    /// [`Device::fresh`], for somebody who can do without.
    ///
    /// # Errors
    /// [`Error::Memory`] or what the driver said, where there is not as much.
    pub fn try_fresh<T: Plain>(self: &Arc<Self>, len: usize) -> Result<Buf<T>, Error> {
        let bytes = len * size_of::<T>();
        let (at, bytes) = self.memory.take(self.driver.as_ref(), bytes)?;
        Ok(Buf {
            device: Arc::clone(self),
            at,
            bytes,
            len,
            host: None,
            plain: PhantomData,
        })
    }

    /// The elements of `x` where they lie, in the host's memory, which the device reads from now on by itself:
    /// they take none of its own. Kernels may only read them.
    ///
    /// # Errors
    /// When the device refuses.
    ///
    /// # Panics
    /// For a matrix that is not in standard layout.
    pub fn mapped(self: &Arc<Self>, x: &Arc<Mat>) -> Result<Buf<f32>, Error> {
        let elements = x.as_slice().expect("mapped: a matrix in standard layout");
        // SAFETY: floats have no padding.
        let bytes = unsafe { bytes_of(elements) };
        let at = match bytes.is_empty() {
            true => 0,
            // SAFETY: the matrix stays where it is for as long as the buffer has it, which reads it only.
            false => unsafe { self.driver.map(bytes) }?,
        };
        Ok(Buf {
            device: Arc::clone(self),
            at,
            bytes: 0,
            len: elements.len(),
            host: Some(Arc::clone(x)),
            plain: PhantomData,
        })
    }

    /// `from` on the device.
    pub fn upload<T: Plain>(self: &Arc<Self>, from: &[T]) -> Buf<T> {
        let to = self.fresh(from.len());
        // SAFETY: `T: Plain` has no padding.
        let bytes = unsafe { bytes_of(from) };
        // SAFETY: `to` has room for as many.
        self.must(unsafe { self.driver.upload(bytes, to.at) });
        to
    }

    /// Copies `from` to `to` beside whatever the device does, once what was asked for before `behind` is done.
    /// The marks are of the copy's beginning and end: `to` may be read, written or let go only behind
    /// [`Device::wait_for`] the end.
    ///
    /// # Panics
    /// When they have different lengths, or the device fails.
    pub fn upload_beside<T: Plain>(&self, from: &[T], to: &mut Buf<T>, behind: &Mark) -> [Mark; 2] {
        assert_eq!(from.len(), to.len(), "upload_beside: elements");
        // SAFETY: `T: Plain` has no padding.
        let bytes = unsafe { bytes_of(from) };
        // SAFETY: `to` has as many bytes, and its owner was told to keep it.
        self.must(unsafe { self.driver.upload_beside(bytes, to.at, behind) })
    }

    /// Whatever is asked for from now on is done after what `mark` stands for; returns at once.
    pub fn wait_for(&self, mark: &Mark) {
        self.must(self.driver.wait_for(mark));
    }

    /// [`Device::wait_for`], for somebody who can do without.
    #[cfg(feature = "cuda")]
    pub(super) fn try_wait_for(&self, mark: &Mark) -> Result<(), Error> {
        self.driver.wait_for(mark)
    }

    /// Whether what a mark stands for is done, without waiting.
    #[cfg(feature = "cuda")]
    pub(super) fn is_done(&self, mark: &Mark) -> Result<bool, Error> {
        self.driver.is_done(mark)
    }

    /// A stream of its own, for messages.
    #[cfg(feature = "cuda")]
    pub(super) fn side(&self) -> Result<Box<dyn super::Side>, Error> {
        self.driver.side()
    }

    /// Zeros.
    pub fn zeros<T: Plain>(self: &Arc<Self>, len: usize) -> Buf<T> {
        let to = self.fresh::<T>(len);
        // SAFETY: `to` has as many bytes.
        self.must(unsafe { self.driver.zero(to.at, len * size_of::<T>()) });
        to
    }

    /// Runs a kernel.
    ///
    /// # Panics
    /// When the device fails.
    /// # Safety
    /// As [`Driver::launch`].
    pub(super) unsafe fn launch(&self, kernel: &'static str, grid: [usize; 3], args: &[Arg]) {
        if grid.contains(&0) {
            return;
        }
        let grid = grid.map(|g| u32::try_from(g).expect("fewer blocks than 2³²"));
        let launch = Launch {
            kernel,
            grid,
            threads: super::ops::THREADS,
            args,
        };
        // SAFETY: the caller's.
        self.must(unsafe { self.driver.launch(launch) });
    }

    /// Runs a dense product.
    ///
    /// # Safety
    /// As [`Driver::gemm`].
    pub(super) unsafe fn gemm(&self, gemm: Gemm) {
        // SAFETY: the caller's.
        self.must(unsafe { self.driver.gemm(gemm) });
    }

    /// Marks this moment of the stream, without waiting.
    pub fn mark(&self) -> Mark {
        self.must(self.driver.mark())
    }

    /// Nanoseconds of device time between two marks, waiting for the second.
    pub fn between(&self, from: &Mark, to: &Mark) -> u64 {
        self.must(self.driver.between(from, to))
    }

    /// Waits until everything is done.
    pub fn finish(&self) {
        self.must(self.driver.finish());
    }

    /// What the device answered. A device that fails ends the rank, as a lack of memory does; that is no fault
    /// of the program, and told apart by its payload.
    fn must<T>(&self, answer: Result<T, Error>) -> T {
        answer.unwrap_or_else(|e| match e {
            Error::Memory { .. } => std::panic::panic_any(e),
            e => panic!("{}: {e}", self.name()),
        })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.memory.trim(self.driver.as_ref());
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device {}", self.name())
    }
}

/// Memory on a device, for `len` numbers; or the host's, which the device reads.
pub struct Buf<T: Plain> {
    device: Arc<Device>,
    at: u64,
    /// What was taken.
    bytes: usize,
    len: usize,
    /// Whose elements these are, where they lie in the host's memory.
    host: Option<Arc<Mat>>,
    plain: PhantomData<T>,
}

impl<T: Plain> Buf<T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the device's memory it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it lies in the host's memory, so that nobody may write it.
    pub fn is_mapped(&self) -> bool {
        self.host.is_some()
    }

    /// Where it is, for a kernel.
    pub(super) fn arg(&self) -> Arg {
        Arg::U64(self.at)
    }

    /// Address of element `first`.
    pub(super) fn at(&self, first: usize) -> u64 {
        debug_assert!(first <= self.len);
        self.at + (first * size_of::<T>()) as u64
    }

    /// The device it is on.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Its content, once everything before is done.
    pub fn download(&self) -> Vec<T> {
        let mut to: Vec<T> = Vec::with_capacity(self.len);
        // SAFETY: the capacity is `len`; any bytes are a `T`, and the driver writes all of them
        // before the length says so.
        unsafe {
            let bytes = std::slice::from_raw_parts_mut(
                to.as_mut_ptr().cast::<u8>(),
                self.len * size_of::<T>(),
            );
            self.device
                .must(self.device.driver.download(self.at, bytes));
            to.set_len(self.len);
        }
        to
    }

    /// Copies `n` elements of `from`, beginning with `first`, to elements `to..` of this.
    ///
    /// # Panics
    /// When either has fewer.
    pub fn copy_from(&mut self, to: usize, from: &Buf<T>, first: usize, n: usize) {
        assert!(
            first + n <= from.len,
            "copy: elements {first}.. of {}",
            from.len
        );
        assert!(
            to + n <= self.len && !self.is_mapped(),
            "copy: to elements {to}.. of {}",
            self.len
        );
        let bytes = n * size_of::<T>();
        if bytes > 0 {
            let driver = &self.device.driver;
            // SAFETY: both ranges were checked above, and two buffers never overlap.
            self.device
                .must(unsafe { driver.copy(from.at(first), self.at(to), bytes) });
        }
    }

    /// The first `len` elements, without moving them.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn truncate(mut self, len: usize) -> Buf<T> {
        assert!(len <= self.len, "truncate: {len} of {} elements", self.len);
        self.len = len;
        self
    }
}

impl<T: Plain> Drop for Buf<T> {
    fn drop(&mut self) {
        let (device, taken) = (&self.device, (self.at, self.bytes));
        if let Some(host) = &self.host {
            if let Some(elements) = host.as_slice().filter(|elements| !elements.is_empty()) {
                // SAFETY: `Device::mapped` has mapped them, and nobody reads them there any more.
                unsafe { device.driver.unmap(elements.as_ptr().cast()) };
            }
            return;
        }
        // SAFETY: it was taken from this memory, and its owner is gone.
        unsafe { device.memory.put(device.driver.as_ref(), taken) };
    }
}

impl<T: Plain> std::fmt::Debug for Buf<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf of {} on {}", self.len, self.device.name())
    }
}

/// The bytes of `x`.
///
/// # Safety
/// `T` has no padding.
unsafe fn bytes_of<T: Plain>(x: &[T]) -> &[u8] {
    // SAFETY: the same memory; every byte of it is initialised.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), size_of_val(x)) }
}
