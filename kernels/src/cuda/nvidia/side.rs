//! A stream of a GPU beside the one that works, and how a kernel is run on either.

use super::{Kernels, event, failed};
use crate::cuda::{Arg, Error, Launch, Mark, Side};
use cudarc::driver::{CudaContext, CudaStream, LaunchConfig, PushKernelArg, result, sys};
use std::ffi::c_void;
use std::sync::Arc;

/// Runs a kernel on `stream`.
///
/// # Safety
/// As [`super::super::Driver::launch`].
pub(super) unsafe fn run(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    launch: Launch<'_>,
) -> Result<(), Error> {
    let Some(function) = kernels.get(launch.kernel) else {
        return Err(Error::call(launch.kernel, "no such kernel"));
    };
    let mut call = stream.launch_builder(function);
    for arg in launch.args {
        match arg {
            Arg::U64(x) => call.arg(x),
            Arg::U32(x) => call.arg(x),
            Arg::F32(x) => call.arg(x),
        };
    }
    let [x, y, z] = launch.grid;
    let shape = LaunchConfig {
        grid_dim: (x, y, z),
        block_dim: (launch.threads, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the caller's.
    let launched = unsafe { call.launch(shape) };
    launched.map(|_| ()).map_err(failed(launch.kernel))
}

/// A stream for messages.
pub(super) struct OnSide {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    kernels: Arc<Kernels>,
}

impl OnSide {
    pub(super) fn new(
        context: Arc<CudaContext>,
        stream: Arc<CudaStream>,
        kernels: Arc<Kernels>,
    ) -> OnSide {
        OnSide {
            context,
            stream,
            kernels,
        }
    }
}

impl Side for OnSide {
    fn stream(&self) -> *mut c_void {
        self.stream.cu_stream().cast()
    }

    fn here(&self) -> Result<(), Error> {
        self.context
            .bind_to_thread()
            .map_err(failed("reaching the GPU"))
    }

    fn wait_for(&self, mark: &Mark) -> Result<(), Error> {
        self.stream.wait(event(mark)?).map_err(failed("messages"))
    }

    fn mark(&self) -> Result<Mark, Error> {
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let event = self.stream.record_event(timed).map_err(failed("mark"))?;
        Ok(Box::new(event))
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        self.here()?;
        // SAFETY: the caller's.
        unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream.cu_stream()) }
            .map_err(failed("copy"))
    }

    unsafe fn launch(&self, launch: Launch<'_>) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { run(&self.kernels, &self.stream, launch) }
    }
}
