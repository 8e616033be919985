//! A library with NCCL's interface whose messages pass through the host: for tests, beside
//! [`Shim`](crate::cuda::Shim).

use crate::cuda::{Error, cache};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::path::Path;
use std::process::Command;
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
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let name = format!("nccl-{}.so", cache::key(&[&compiler, SOURCE, FLAGS]));
    let path = cache::file(&name, |to| compile(&compiler, to))?;
    // SAFETY: built from the source in this crate, into a folder that only this user writes to.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
    let library = library.map_err(|e| Error::call("loading the shim of NCCL", e))?;
    // It stays for as long as the process.
    std::mem::forget(library);
    *loaded = true;
    Ok(())
}

fn compile(compiler: &str, to: &Path) -> Result<(), Error> {
    let source = to.with_extension("cpp");
    std::fs::write(&source, SOURCE)?;
    let mut call = Command::new(compiler);
    call.args(FLAGS.split_whitespace())
        .arg("-o")
        .arg(to)
        .arg(&source);
    let ended = call.output();
    let _ = std::fs::remove_file(&source);
    let output = ended.map_err(|e| Error::Missing {
        what: "no C++ compiler",
        reason: format!("{compiler}: {e}; install one, or name it in CXX"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Compile {
        compiler: compiler.into(),
        log: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
