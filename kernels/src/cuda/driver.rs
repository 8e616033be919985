//! The seam between launches and whoever executes them: a GPU, or the host shim.

use super::Error;
use std::any::Any;
use std::ffi::c_void;

/// One argument of a kernel. The driver checks neither number nor types; [`super::ops`] is the one
/// place that writes them, and the shim counts them.
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// An address on the device (0 is the null pointer) or another 64-bit word.
    U64(u64),
    /// A 32-bit word.
    U32(u32),
    /// A float.
    F32(f32),
}

/// One launch: blocks in up to three dimensions, threads of a block in one.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Number of blocks.
    pub grid: [u32; 3],
    /// Threads of a block: a multiple of 32.
    pub threads: u32,
    /// Arguments, in order.
    pub args: &'a [Arg],
}

/// A dense product of row-major matrices: `out = op(a) · op(b) + beta · out`, with `op(a): [m, k]`,
/// `op(b): [k, n]`, `out: [m, n]`.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    /// Whether `a` is stored as `[k, m]`.
    pub ta: bool,
    /// Whether `b` is stored as `[n, k]`.
    pub tb: bool,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Inner dimension.
    pub k: usize,
    /// Address of `a`.
    pub a: u64,
    /// Address of `b`.
    pub b: u64,
    /// Factor of what is there; with 0 it is not read.
    pub beta: f32,
    /// Address of the result.
    pub out: u64,
}

/// A moment on the device's stream.
pub type Mark = Box<dyn Any + Send + Sync>;

/// Executes launches in order, on one stream, and copies beside them on another. Memory is addresses;
/// [`super::Device`] owns it.
///
/// Calls return before the device is done, except those that bring something back.
pub trait Driver: Send + Sync {
    /// What a person calls the device.
    fn name(&self) -> &str;

    /// Whether memory is worth keeping for the next owner; a driver that watches over it says no.
    fn keeps_memory(&self) -> bool {
        true
    }

    /// Bytes that could be allocated now; none where the driver does not know.
    ///
    /// # Errors
    /// When the device failed.
    fn free_bytes(&self) -> Result<Option<usize>, Error> {
        Ok(None)
    }

    /// Memory, its content unspecified, aligned for every vector.
    ///
    /// # Errors
    /// When there is not as much.
    fn alloc(&self, bytes: usize) -> Result<u64, Error>;

    /// Gives memory back, once everything before is done.
    ///
    /// # Safety
    /// `at` comes from `alloc` and is not used again.
    unsafe fn free(&self, at: u64);

    /// Lets the device read memory of the host's where it lies: its address there.
    ///
    /// # Errors
    /// When the device refuses.
    /// # Safety
    /// The memory stays as it is until [`Driver::unmap`], and no kernel writes it.
    unsafe fn map(&self, host: &[u8]) -> Result<u64, Error>;

    /// Ends that, once everything before is done.
    ///
    /// # Safety
    /// `host` is the beginning of what was mapped, and the device reads it no more.
    unsafe fn unmap(&self, host: *const u8);

    /// Copies to the device; `from` may change after the call.
    ///
    /// # Errors
    /// When the device failed.
    /// # Safety
    /// `to` has room for `from`.
    unsafe fn upload(&self, from: &[u8], to: u64) -> Result<(), Error>;

    /// Copies to the device beside what it does, once everything that was asked for before `behind` is done;
    /// `from` may change after the call. The marks are of the copy's beginning and end, and what comes to `to`
    /// is there for whatever is asked for behind [`Driver::wait_for`] its end.
    ///
    /// # Errors
    /// When the device failed, or `behind` is a mark of another driver.
    /// # Safety
    /// `to` has room for `from`, and stays until the copy's end was waited for.
    unsafe fn upload_beside(&self, from: &[u8], to: u64, behind: &Mark)
    -> Result<[Mark; 2], Error>;

    /// Whatever is asked for from now on is done after what `mark` stands for; returns at once.
    ///
    /// # Errors
    /// When the device failed, or it is a mark of another driver.
    fn wait_for(&self, mark: &Mark) -> Result<(), Error>;

    /// Copies from the device, after everything before is done.
    ///
    /// # Errors
    /// When the device failed, also in an earlier launch.
    /// # Safety
    /// `from` has as many bytes as `to`.
    unsafe fn download(&self, from: u64, to: &mut [u8]) -> Result<(), Error>;

    /// Copies within the device.
    ///
    /// # Errors
    /// When the device failed.
    /// # Safety
    /// Both have `bytes` bytes and do not overlap.
    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error>;

    /// Fills memory with zeros.
    ///
    /// # Errors
    /// When the device failed.
    /// # Safety
    /// `to` has `bytes` bytes.
    unsafe fn zero(&self, to: u64, bytes: usize) -> Result<(), Error>;

    /// Runs a kernel.
    ///
    /// # Errors
    /// When there is none of this name, or the device refused the launch.
    /// # Safety
    /// The arguments are those of the kernel, and the memory they name is as large as it expects.
    unsafe fn launch(&self, launch: Launch<'_>) -> Result<(), Error>;

    /// Runs a dense product.
    ///
    /// # Errors
    /// When the device failed.
    /// # Safety
    /// The addresses hold matrices of the named shapes; the result overlaps neither operand.
    unsafe fn gemm(&self, gemm: Gemm) -> Result<(), Error>;

    /// Marks this moment of the stream, without waiting.
    ///
    /// # Errors
    /// When the device failed.
    fn mark(&self) -> Result<Mark, Error>;

    /// Nanoseconds of device time between two marks, waiting for the second.
    ///
    /// # Errors
    /// When the device failed.
    fn between(&self, from: &Mark, to: &Mark) -> Result<u64, Error>;

    /// Whether what a mark stands for is done, without waiting.
    ///
    /// # Errors
    /// When the device failed, or it is a mark of another driver.
    fn is_done(&self, mark: &Mark) -> Result<bool, Error>;

    /// Waits until everything is done.
    ///
    /// # Errors
    /// When something was not.
    fn finish(&self) -> Result<(), Error>;

    /// The same device with streams of its own.
    ///
    /// # Errors
    /// When there is none.
    fn another(&self) -> Result<Box<dyn Driver>, Error>;

    /// A stream of its own, for messages.
    ///
    /// # Errors
    /// When there is none.
    fn side(&self) -> Result<Box<dyn Side>, Error>;
}

/// A stream beside the one that works, of the same device: what is asked for on it is done in order, and
/// beside everything else. Marks of both are understood by both.
pub trait Side: Send + Sync {
    /// The stream itself, as libraries take it.
    fn stream(&self) -> *mut c_void;

    /// Makes the device that of this thread, as a library's calls need.
    ///
    /// # Errors
    /// When the device failed.
    fn here(&self) -> Result<(), Error>;

    /// Whatever is asked for here from now on is done after what `mark` stands for; returns at once.
    ///
    /// # Errors
    /// When the device failed, or it is a mark of another driver.
    fn wait_for(&self, mark: &Mark) -> Result<(), Error>;

    /// Marks this moment, without waiting.
    ///
    /// # Errors
    /// When the device failed.
    fn mark(&self) -> Result<Mark, Error>;

    /// Copies within the device.
    ///
    /// # Errors
    /// When the device failed.
    /// # Safety
    /// Both have `bytes` bytes, do not overlap, and stay until this is done.
    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error>;

    /// Runs a kernel.
    ///
    /// # Errors
    /// As [`Driver::launch`].
    /// # Safety
    /// As [`Driver::launch`], and the memory stays until this is done.
    unsafe fn launch(&self, launch: Launch<'_>) -> Result<(), Error>;
}
