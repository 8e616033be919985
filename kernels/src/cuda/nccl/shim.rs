//! A library with NCCL's interface whose messages pass through the host: for tests, beside
//! [`Shim`](crate::cuda::Shim).

use crate::cuda::{Error, cxx};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::sync::{Mutex, PoisonError};

const SOURCE: &str = include_str!("../../../cuda/nccl_shim.cpp");

/// Its name is NCCL's own: whoever loads that by name, once this is loaded, gets this.
const FLAGS: &str = "-std=c++17 -O1 -shared -fPIC -pthread -Wl,-soname,libnccl.so";

/// Makes this process's NCCL the one whose messages pass through the host. Compiled once a version, kept
/// with the kernels.
///
/// # Errors
/// [`Error::Missing`] without a C++ compiler, [`Error::Compile`] when it refuses the source.
pub fn load_shim() -> Result<(), Error> {
    static LOADED: Mutex<bool> = Mutex::new(false);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if *loaded {
        return Ok(());
    }
    let path = cxx::library("nccl", SOURCE, FLAGS)?;
    // SAFETY: built from the source in this crate, into a folder that only this user writes to.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
    let library = library.map_err(|e| Error::call("loading the shim of NCCL", e))?;
    // It stays for as long as the process.
    std::mem::forget(library);
    *loaded = true;
    Ok(())
}
