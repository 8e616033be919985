//! CUDA twins of the kernels: their sources, a compiler for them, and two drivers that run them.
//!
//! The `.cu` files in `kernels/cuda`, one a family, are compiled at run time: by NVRTC for a GPU
//! ([`nvrtc`], [`Nvidia`]), or by a C++ compiler against a small shim that runs them on the CPU
//! ([`Shim`]), so that the ordinary tests execute the very source that a GPU will. Above the
//! [`Driver`] there is one code path: [`Device`] owns memory, [`ops`] says how each kernel is
//! launched.
//!
//! Results are deterministic: no float atomics, and every sum in an order that depends on shapes
//! only. They differ from the CPU kernels' in the last bits (fused multiply-add, other orders),
//! except dropout, whose bits are equal.
//!
//! Launches are asynchronous on one stream, so a fault of the device shows at a later call. A device
//! that fails ends the rank: operations panic with what the driver said. Where memory runs out the panic's payload
//! is the [`Error`] itself, so that whoever has a hook, or catches it, can tell a lack from a fault.
//!
//! # Not done
//! cuSPARSE, which was measured against these only by way of PyG.
//!
//! Unsafe: libraries loaded at run time, and device addresses.
#![allow(unsafe_code)]

mod cache;
mod cxx;
mod device;
mod driver;
mod error;
pub mod fit;
mod memory;
#[cfg(feature = "cuda")]
pub mod nccl;
#[cfg(feature = "cuda")]
mod nvidia;
pub mod nvrtc;
pub mod ops;
#[cfg(feature = "cuda")]
mod queue;
mod shim;
mod source;
mod sparse;
mod stand_in;
#[cfg(test)]
mod tests;

pub use device::{Buf, Device, Plain};
pub use driver::{Arg, Driver, Gemm, Launch, Mark, Side};
pub use error::Error;
pub use memory::{GRAIN, room};
#[cfg(feature = "cuda")]
pub use nvidia::Nvidia;
#[cfg(feature = "cuda")]
pub use queue::{Flight, Landed, Queue};
pub use shim::Shim;
pub use source::{FAMILIES, Family};
pub use sparse::{Moves, Pieces, SparseNeed, SparseOn};

/// How many GPUs there are, with all that training on one needs: driver, cuBLAS, NVRTC. Starts
/// nothing on them. `HALOBOOK_CUDA=shim:4` lets the host stand in for four ([`Shim`]).
///
/// # Errors
/// [`Error::Missing`] with what is not there and what to do.
pub fn gpus() -> Result<usize, Error> {
    if let Some(stand_in) = stand_in::StandIn::asked()? {
        return Ok(stand_in.devices);
    }
    #[cfg(feature = "cuda")]
    return Nvidia::count().and_then(|n| nvrtc::Nvrtc::find().map(|_| n));
    #[cfg(not(feature = "cuda"))]
    Err(WITHOUT)
}

/// Whether the host stands in for GPUs (`HALOBOOK_CUDA`).
pub fn stands_in() -> bool {
    matches!(stand_in::StandIn::asked(), Ok(Some(_)))
}

/// Opens GPU `ordinal`.
///
/// # Errors
/// [`Error::Missing`] when something is not there; nothing has been started then.
pub fn open(ordinal: usize) -> Result<std::sync::Arc<Device>, Error> {
    if let Some(stand_in) = stand_in::StandIn::asked()? {
        return stand_in.open(ordinal);
    }
    #[cfg(feature = "cuda")]
    return Ok(Device::new(Box::new(Nvidia::open(ordinal)?)));
    #[cfg(not(feature = "cuda"))]
    {
        let _ = ordinal;
        Err(WITHOUT)
    }
}

#[cfg(not(feature = "cuda"))]
const WITHOUT: Error = Error::Missing {
    what: "no CUDA in this build",
    reason: String::new(),
};
