//! Kernels that a C++ compiler has made, and how one is run.

use crate::cuda::{Arg, Error, Launch};
use libloading::{Library, Symbol};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// The library of all kernels.
pub(super) struct Kernels {
    pub(super) library: Library,
    /// Starts blocks and threads from the last.
    pub(super) reverse: bool,
}

impl Kernels {
    /// Runs a kernel.
    ///
    /// # Safety
    /// As [`crate::cuda::Driver::launch`].
    pub(super) unsafe fn run(&self, launch: Launch<'_>) -> Result<(), Error> {
        let op = |reason: String| Error::call(launch.kernel, reason);
        let (run, count) = (
            format!("shim_{}\0", launch.kernel),
            format!("shim_args_{}\0", launch.kernel),
        );
        type Run =
            unsafe extern "C" fn(*const c_uint, c_uint, *mut *mut c_void, c_int) -> *const c_char;
        // SAFETY: SHIM_EXPORT gives every kernel these two functions with these types.
        let (run, count) = unsafe {
            let run: Symbol<Run> = self
                .library
                .get(run.as_bytes())
                .map_err(|e| op(e.to_string()))?;
            let count: Symbol<unsafe extern "C" fn() -> c_uint> = self
                .library
                .get(count.as_bytes())
                .map_err(|e| op(e.to_string()))?;
            (run, count() as usize)
        };
        if count != launch.args.len() {
            return Err(op(format!(
                "takes {count} arguments, got {}",
                launch.args.len()
            )));
        }
        let mut words: Vec<u64> = launch.args.iter().map(|a| a.bits()).collect();
        let mut args: Vec<*mut c_void> = words
            .iter_mut()
            .map(|w| std::ptr::from_mut(w).cast())
            .collect();
        let grid = launch.grid;
        if grid.contains(&0) {
            return Err(op(format!("a grid of {grid:?}")));
        }
        // SAFETY: as many arguments as the kernel has, each readable as any type of up to eight
        // bytes; that they are right is the caller's.
        let fault = unsafe {
            run(
                grid.as_ptr(),
                launch.threads,
                args.as_mut_ptr(),
                c_int::from(self.reverse),
            )
        };
        if fault.is_null() {
            return Ok(());
        }
        // SAFETY: faults are literals in the library.
        Err(op(unsafe { CStr::from_ptr(fault) }
            .to_string_lossy()
            .into_owned()))
    }
}

impl Arg {
    /// The argument in the first bytes of a word (little-endian).
    fn bits(self) -> u64 {
        match self {
            Arg::U64(x) => x,
            Arg::U32(x) => u64::from(x),
            Arg::F32(x) => u64::from(x.to_bits()),
        }
    }
}
