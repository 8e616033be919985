//! The driver that runs the kernels on the CPU: for tests, on machines without a GPU.
//!
//! A C++ compiler builds the `.cu` files with `kernels/cuda/shim.hpp` in front into a library, which
//! is kept by the hash of all of them. Device memory is host memory between guards: a kernel that
//! writes past its end is found when the memory is given back, one that reads what nobody wrote
//! meets NaN.

mod kernels;
mod side;

use self::kernels::Kernels;
use self::side::{Moment, OnSide};
use super::source::{FAMILIES, SHIM};
use super::{Driver, Error, Gemm, Launch, Mark, Side, cxx};
use libloading::Library;
use std::alloc::Layout;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Bytes of a guard on each side, and the alignment of memory.
const GUARD: usize = 256;

/// What guards are filled with.
const PATTERN: u8 = 0xa5;

/// The host shim.
pub struct Shim {
    kernels: Arc<Kernels>,
    /// Sizes of what was allocated, by whatever has this memory.
    sizes: Arc<Mutex<HashMap<u64, usize>>>,
    /// Memory of the host's that kernels may read, by its first byte.
    mapped: Mutex<HashMap<usize, usize>>,
    /// Bytes that can be allocated; as many as the host has where none are named.
    memory: Option<usize>,
    /// Copies that were asked for beside the work, each with its end: as late as can be, they are made when
    /// somebody waits for them, so that whoever forgets to meets NaN.
    beside: Mutex<Vec<Beside>>,
    start: Instant,
}

/// Bytes on their way to an address.
struct Beside {
    end: u64,
    bytes: Vec<u8>,
    to: u64,
}

impl Shim {
    /// Compiles the kernels (once for each version of them, some ten seconds) and loads them.
    /// `reverse` lets blocks and threads run from the last: results must be the same.
    ///
    /// # Errors
    /// [`Error::Missing`] without a C++ compiler, [`Error::Compile`] when it refuses the kernels.
    pub fn open(reverse: bool) -> Result<Shim, Error> {
        // Two tests that begin at the same time compile once.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let path = cxx::library("shim", &program(), FLAGS)?;
        // SAFETY: the library was built from the sources in this crate, into a folder that only
        // this user writes to; it has no initialisers.
        let library =
            unsafe { Library::new(&path) }.map_err(|e| Error::call("loading the host shim", e))?;
        Ok(Shim {
            kernels: Arc::new(Kernels { library, reverse }),
            sizes: Arc::default(),
            mapped: Mutex::default(),
            memory: None,
            beside: Mutex::default(),
            start: Instant::now(),
        })
    }

    /// The same with so many bytes of memory.
    pub fn of_memory(self, bytes: usize) -> Shim {
        Shim {
            memory: Some(bytes),
            ..self
        }
    }

    /// What is left of its memory where it is limited.
    fn free(&self, sizes: &HashMap<u64, usize>) -> Option<usize> {
        let used = sizes.values().sum();
        self.memory.map(|all| all.saturating_sub(used))
    }
}

const FLAGS: &str = "-std=c++17 -O1 -shared -fPIC -U_FORTIFY_SOURCE -Wno-unknown-pragmas";

/// One translation unit of all families, each in a namespace of its own.
fn program() -> String {
    let mut text = SHIM.to_string();
    for family in FAMILIES {
        let name = format!("family_{}", family.name);
        text += &format!("\nnamespace {name} {{\n{}\n}}\n", family.program());
        for kernel in family.kernels {
            text += &format!("SHIM_EXPORT({name}, {kernel})\n");
        }
    }
    text
}

/// The nanosecond that a mark of this driver is, waiting for one of a side.
fn moment(mark: &Mark) -> Result<u64, Error> {
    if let Some(moment) = mark.downcast_ref::<Moment>() {
        return Ok(moment.wait());
    }
    let at = mark.downcast_ref::<u64>().copied();
    at.ok_or_else(|| Error::call("mark", "a mark of another driver"))
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes + 2 * GUARD, GUARD).expect("a size that memory can have")
}

impl Driver for Shim {
    fn name(&self) -> &str {
        "host shim"
    }

    fn keeps_memory(&self) -> bool {
        false
    }

    fn free_bytes(&self) -> Result<Option<usize>, Error> {
        let sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.free(&sizes))
    }

    fn alloc(&self, bytes: usize) -> Result<u64, Error> {
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((limit, free)) = self.memory.zip(self.free(&sizes))
            && free < bytes
        {
            let asked = bytes;
            return Err(Error::Memory { asked, free, limit });
        }
        // SAFETY: the size is not zero.
        let at = unsafe { std::alloc::alloc(layout(bytes)) };
        if at.is_null() {
            return Err(Error::call("alloc", format!("no memory for {bytes} bytes")));
        }
        // SAFETY: `at` has `bytes` bytes and a guard on each side.
        unsafe {
            at.write_bytes(PATTERN, bytes + 2 * GUARD);
            at.add(GUARD).write_bytes(0xff, bytes);
        }
        let at = at as u64 + GUARD as u64;
        sizes.insert(at, bytes);
        Ok(at)
    }

    unsafe fn free(&self, at: u64) {
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = sizes.remove(&at).expect("memory that was allocated here");
        drop(sizes);
        let base = (at - GUARD as u64) as *mut u8;
        // SAFETY: `alloc` made it with both guards; the caller does not use it again.
        let intact = unsafe {
            let guards = [base, base.add(GUARD + bytes)];
            let intact = guards.iter().all(|&g| {
                std::slice::from_raw_parts(g, GUARD)
                    .iter()
                    .all(|&b| b == PATTERN)
            });
            std::alloc::dealloc(base, layout(bytes));
            intact
        };
        // Not while another panic unwinds, whose message matters more.
        if !intact && !std::thread::panicking() {
            panic!("a kernel wrote outside {bytes} bytes of memory");
        }
    }

    unsafe fn map(&self, host: &[u8]) -> Result<u64, Error> {
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        let at = host.as_ptr() as usize;
        // As a GPU's driver does.
        if mapped.insert(at, host.len()).is_some() {
            return Err(Error::call("map", "this memory was mapped before"));
        }
        Ok(at as u64)
    }

    unsafe fn unmap(&self, host: *const u8) {
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = mapped.remove(&(host as usize));
        assert!(
            gone.is_some() || std::thread::panicking(),
            "unmap: what was mapped"
        );
    }

    unsafe fn upload(&self, from: &[u8], to: u64) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to as *mut u8, from.len()) };
        Ok(())
    }

    unsafe fn upload_beside(
        &self,
        from: &[u8],
        to: u64,
        behind: &Mark,
    ) -> Result<[Mark; 2], Error> {
        let begun = moment(behind)?.max(self.start.elapsed().as_nanos() as u64);
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        // Ends differ.
        let last = beside.last().map_or(0, |copy| copy.end);
        let end = begun.max(last) + 1;
        let bytes = from.to_vec();
        beside.push(Beside { end, bytes, to });
        Ok([Box::new(begun), Box::new(end)])
    }

    fn wait_for(&self, mark: &Mark) -> Result<(), Error> {
        let until = moment(mark)?;
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        for copy in beside.extract_if(.., |copy| copy.end <= until) {
            // SAFETY: whoever asked for it keeps the memory until now.
            unsafe { self.upload(&copy.bytes, copy.to) }?;
        }
        Ok(())
    }

    unsafe fn download(&self, from: u64, to: &mut [u8]) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
        Ok(())
    }

    unsafe fn zero(&self, to: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { (to as *mut u8).write_bytes(0, bytes) };
        Ok(())
    }

    unsafe fn launch(&self, launch: Launch<'_>) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.kernels.run(launch) }
    }

    unsafe fn gemm(&self, p: Gemm) -> Result<(), Error> {
        let Gemm {
            ta, tb, m, n, k, ..
        } = p;
        let (a, b, out) = (p.a as *const f32, p.b as *const f32, p.out as *mut f32);
        for i in 0..m {
            for j in 0..n {
                let mut sum = 0.0;
                for l in 0..k {
                    let at = if ta { l * m + i } else { i * k + l };
                    let bt = if tb { j * k + l } else { l * n + j };
                    // SAFETY: within the shapes that the caller vouches for.
                    sum += unsafe { *a.add(at) * *b.add(bt) };
                }
                // SAFETY: as above.
                unsafe {
                    let to = out.add(i * n + j);
                    *to = if p.beta == 0.0 {
                        sum
                    } else {
                        sum + p.beta * *to
                    };
                }
            }
        }
        Ok(())
    }

    fn mark(&self) -> Result<Mark, Error> {
        Ok(Box::new(self.start.elapsed().as_nanos() as u64))
    }

    fn between(&self, from: &Mark, to: &Mark) -> Result<u64, Error> {
        Ok(moment(to)?.saturating_sub(moment(from)?))
    }

    fn finish(&self) -> Result<(), Error> {
        Ok(())
    }

    fn is_done(&self, mark: &Mark) -> Result<bool, Error> {
        Ok(mark.downcast_ref::<Moment>().is_none_or(Moment::is_done))
    }

    fn another(&self) -> Result<Box<dyn Driver>, Error> {
        Ok(Box::new(Shim {
            kernels: Arc::clone(&self.kernels),
            sizes: Arc::clone(&self.sizes),
            mapped: Mutex::default(),
            memory: self.memory,
            beside: Mutex::default(),
            start: self.start,
        }))
    }

    fn side(&self) -> Result<Box<dyn Side>, Error> {
        Ok(Box::new(OnSide::new(Arc::clone(&self.kernels), self.start)))
    }
}
