//! The driver of NVIDIA's GPUs: cudarc for the driver and cuBLAS, loaded at run time; kernels by
//! NVRTC for this very GPU, kept on disk.

mod side;
mod staging;

use self::side::{OnSide, run};
use self::staging::Staging;
use super::fit::Parts;
use super::nvrtc::Nvrtc;
use super::source::FAMILIES;
use super::{Driver, Error, Gemm, Launch, Mark, Side, cache};
use cudarc::cublas::{CudaBlas, result as cublas, sys as blas};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaStream, PinnedHostSlice, result, sys,
};
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

/// One GPU. Holding it is the proof that there is a driver: nothing else makes one.
pub struct Nvidia {
    name: String,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// What copies go on that are made beside the work.
    beside: Arc<CudaStream>,
    pinned: Mutex<Vec<Pinned>>,
    staging: Staging,
    kernels: Arc<Kernels>,
    /// For dense products, once there are any.
    blas: Mutex<Option<CudaBlas>>,
}

/// Kernels by name.
type Kernels = HashMap<&'static str, CudaFunction>;

/// Host memory that the GPU reads by itself.
struct Pinned {
    bytes: PinnedHostSlice<u8>,
    /// When what was copied last out of it has been read.
    read: CudaEvent,
}

fn failed<E: std::fmt::Debug>(op: &'static str) -> impl FnOnce(E) -> Error {
    move |e| Error::call(op, format!("{e:?}"))
}

impl Nvidia {
    /// How many GPUs the driver shows.
    ///
    /// # Errors
    /// [`Error::Missing`] without a driver, a GPU or cuBLAS.
    pub fn count() -> Result<usize, Error> {
        probe()?;
        let missing = |reason: String| Error::Missing {
            what: "the NVIDIA driver finds no GPU",
            reason,
        };
        match CudaContext::device_count() {
            Ok(0) => Err(missing("train with `backend = cpu`".into())),
            Ok(n) => Ok(n as usize),
            Err(e) => Err(missing(format!("{e:?}"))),
        }
    }

    /// Opens GPU `ordinal` and compiles the kernels for it (the first time on this machine).
    ///
    /// # Errors
    /// [`Error::Missing`] when the driver, a GPU, cuBLAS or NVRTC is not there; nothing has been
    /// started then.
    pub fn open(ordinal: usize) -> Result<Nvidia, Error> {
        let count = Nvidia::count()?;
        if ordinal >= count {
            return Err(Error::no_such_gpu(ordinal, count));
        }
        let context = CudaContext::new(ordinal).map_err(failed("opening the GPU"))?;
        let (major, minor) = context
            .compute_capability()
            .map_err(failed("asking the GPU"))?;
        let kernels = Arc::new(load(&context, (major * 10 + minor) as u32)?);
        let name = context.name().map_err(failed("asking the GPU"))?;
        let opened = Nvidia::over(context, kernels, name)?;
        // Whoever opens a GPU hears now whether it can multiply.
        let products = opened.products()?;
        *opened.blas.lock().unwrap_or_else(PoisonError::into_inner) = Some(products);
        Ok(opened)
    }

    /// With streams of its own.
    fn over(
        context: Arc<CudaContext>,
        kernels: Arc<Kernels>,
        name: String,
    ) -> Result<Nvidia, Error> {
        let stream = context.new_stream().map_err(failed("making a stream"))?;
        let beside = context.new_stream().map_err(failed("making a stream"))?;
        Ok(Nvidia {
            name,
            staging: Staging::new(Arc::clone(&context)),
            context,
            stream,
            beside,
            pinned: Mutex::default(),
            kernels,
            blas: Mutex::default(),
        })
    }

    /// cuBLAS on its stream.
    fn products(&self) -> Result<CudaBlas, Error> {
        let handle = CudaBlas::new(Arc::clone(&self.stream)).map_err(failed("cuBLAS"))?;
        // Full f32 products: TensorFloat-32, which rounds operands to ten bits, stays off.
        // SAFETY: the handle was made one line above.
        unsafe {
            blas::cublasSetMathMode(*handle.handle(), blas::cublasMath_t::CUBLAS_DEFAULT_MATH)
        }
        .result()
        .map_err(failed("cuBLAS"))?;
        Ok(handle)
    }

    /// Pinned memory of at least `bytes` bytes that nobody reads any more, among `all` or new.
    fn pinned<'a>(&self, all: &'a mut Vec<Pinned>, bytes: usize) -> Result<&'a mut Pinned, Error> {
        let free = |p: &Pinned| p.bytes.len() >= bytes && p.read.is_complete();
        if let Some(k) = all.iter().position(free) {
            return Ok(&mut all[k]);
        }
        let room = bytes.next_power_of_two();
        // SAFETY: bytes are written before they are read.
        let made = unsafe { self.context.alloc_pinned::<u8>(room) };
        let read = self.beside.record_event(None);
        all.push(Pinned {
            bytes: made.map_err(failed("pinned memory"))?,
            read: read.map_err(failed("mark"))?,
        });
        Ok(all.last_mut().expect("pushed one line above"))
    }

    /// Makes the GPU that of this thread, as every call needs.
    fn here(&self) -> Result<(), Error> {
        self.context
            .bind_to_thread()
            .map_err(failed("reaching the GPU"))
    }
}

/// The event that a mark of this driver is.
fn event(mark: &Mark) -> Result<&CudaEvent, Error> {
    let event = mark.downcast_ref::<CudaEvent>();
    event.ok_or_else(|| Error::call("wait", "a mark of another driver"))
}

/// Looks for the libraries: cudarc panics where one is missing.
fn probe() -> Result<(), Error> {
    // SAFETY: loads NVIDIA's own library if there is one.
    let driver = unsafe { cudarc::driver::sys::is_culib_present() };
    if !driver {
        return Err(Error::Missing {
            what: "no NVIDIA driver found",
            reason: "libcuda.so.1 cannot be loaded. Train with `backend = cpu`, or run on a machine \
                     with an NVIDIA GPU and its driver (inside a container: started with access to it)"
                .into(),
        });
    }
    // SAFETY: as above.
    let products = unsafe { cudarc::cublas::sys::is_culib_present() };
    if !products {
        return Err(Error::Missing {
            what: "no cuBLAS found",
            reason: "neither libcublas.so nor libcublas.so.12 can be loaded. Install CUDA's libraries (the \
                     package nvidia-cublas-cu12 has it) and put their folder into LD_LIBRARY_PATH"
                .into(),
        });
    }
    result::init().map_err(|e| Error::Missing {
        what: "the NVIDIA driver does not start",
        reason: format!("{e:?}"),
    })
}

/// What fits or does not: driver, cuBLAS and GPUs, as far as they are there.
pub(super) fn parts() -> Parts {
    let mut parts = Parts::default();
    let version = |v: c_int| (v as u32 / 1000, v as u32 % 1000 / 10);
    // SAFETY: loads NVIDIA's own library if there is one; both out-pointers are valid for the calls.
    unsafe {
        let mut found: c_int = 0;
        if sys::is_culib_present() && sys::cuDriverGetVersion(&mut found).result().is_ok() {
            parts.driver = Some(version(found));
        }
        if blas::is_culib_present() {
            let number = |which| {
                let mut found: c_int = 0;
                let asked = blas::cublasGetProperty(which, &mut found).result();
                asked.ok().map(|()| found as u32)
            };
            use blas::libraryPropertyType::{MAJOR_VERSION, MINOR_VERSION};
            parts.cublas = number(MAJOR_VERSION).zip(number(MINOR_VERSION));
        }
    }
    if parts.driver.is_some() && result::init().is_ok() {
        use sys::CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        };
        let sm = |k| {
            let device = result::device::get(k).ok()?;
            // SAFETY: the device was found one line above.
            let number = |what| unsafe { result::device::get_attribute(device, what) }.ok();
            Some((number(MAJOR)? * 10 + number(MINOR)?) as u32)
        };
        let count = result::device::get_count().unwrap_or(0);
        parts.gpus = (0..count).filter_map(sm).collect();
    }
    parts
}

/// Every kernel, compiled for `sm`.
fn load(context: &Arc<CudaContext>, sm: u32) -> Result<Kernels, Error> {
    let mut compiler = None;
    let mut kernels = HashMap::new();
    for family in FAMILIES {
        let key = cache::key(&[&family.program()]);
        let name = format!("{}-sm_{sm}-{key}.cubin", family.name);
        let path = cache::file(&name, |to| -> Result<(), Error> {
            if compiler.is_none() {
                let found = Nvrtc::find()?;
                let target = found.target(sm)?;
                compiler = Some((found, target));
            }
            let (compiler, target) = compiler.as_ref().expect("set above");
            Ok(std::fs::write(to, compiler.compile(family, *target)?)?)
        })?;
        // Whether a GPU's own code or a text: the driver sees which it is.
        let code = cudarc::nvrtc::Ptx::from_binary(std::fs::read(path)?);
        let module = context
            .load_module(code)
            .map_err(failed("loading kernels"))?;
        for &kernel in family.kernels {
            let function = module.load_function(kernel);
            kernels.insert(kernel, function.map_err(failed("loading kernels"))?);
        }
    }
    Ok(kernels)
}

impl Driver for Nvidia {
    fn name(&self) -> &str {
        &self.name
    }

    fn free_bytes(&self) -> Result<Option<usize>, Error> {
        let info = self.context.mem_get_info();
        let (free, _) = info.map_err(failed("asking the GPU"))?;
        Ok(Some(free))
    }

    fn alloc(&self, bytes: usize) -> Result<u64, Error> {
        self.here()?;
        // SAFETY: the size is not zero, and the memory is read only after it was written.
        let at = unsafe { result::malloc_sync(bytes) };
        at.map_err(|e| match (e.0, self.context.mem_get_info()) {
            (sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY, Ok((free, limit))) => Error::Memory {
                asked: bytes,
                free,
                limit,
            },
            _ => Error::call(format!("alloc of {bytes} bytes"), format!("{e:?}")),
        })
    }

    unsafe fn free(&self, at: u64) {
        // An error here is one of an earlier launch, which the next call reports; or the process
        // ends and the driver with it.
        if self.here().is_ok() {
            let _ = self.stream.synchronize();
            // SAFETY: the caller's; the stream is done with it.
            let _ = unsafe { result::free_sync(at) };
        }
    }

    unsafe fn map(&self, host: &[u8]) -> Result<u64, Error> {
        self.here()?;
        let at = host.as_ptr().cast_mut().cast();
        let flags = sys::CU_MEMHOSTREGISTER_DEVICEMAP | sys::CU_MEMHOSTREGISTER_PORTABLE;
        // SAFETY: the memory is there, and the caller keeps it; the out-pointer is valid for the call.
        unsafe {
            sys::cuMemHostRegister_v2(at, host.len(), flags)
                .result()
                .map_err(failed("pinning the host's memory"))?;
            let mut there = 0;
            let asked = sys::cuMemHostGetDevicePointer_v2(&mut there, at, 0).result();
            asked.map_err(failed("mapping the host's memory"))?;
            Ok(there)
        }
    }

    unsafe fn unmap(&self, host: *const u8) {
        // Errors are those of earlier work, or the process ends and the driver with it.
        if self.here().is_ok() {
            let _ = self.stream.synchronize();
            // SAFETY: the caller's; the stream is done with it.
            let _ = unsafe { sys::cuMemHostUnregister(host.cast_mut().cast()) };
        }
    }

    unsafe fn upload(&self, from: &[u8], to: u64) -> Result<(), Error> {
        self.here()?;
        // SAFETY: the caller's.
        unsafe { self.staging.upload(from, to, &self.stream) }
    }

    unsafe fn upload_beside(
        &self,
        from: &[u8],
        to: u64,
        behind: &Mark,
    ) -> Result<[Mark; 2], Error> {
        self.here()?;
        let mut all = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        let pinned = self.pinned(&mut all, from.len())?;
        let block = pinned.bytes.as_mut_slice();
        let block = &mut block.map_err(failed("pinned memory"))?[..from.len()];
        self.staging.fill(from, block);
        self.beside
            .wait(event(behind)?)
            .map_err(failed("copies beside"))?;
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let mark = || self.beside.record_event(timed).map_err(failed("mark"));
        let begun = mark()?;
        // SAFETY: the caller's; `block` is written again only when the event behind it is done.
        unsafe { result::memcpy_htod_async(to, block, self.beside.cu_stream()) }
            .map_err(failed("copies beside"))?;
        let (read, ended) = (mark()?, mark()?);
        pinned.read = read;
        Ok([Box::new(begun), Box::new(ended)])
    }

    fn wait_for(&self, mark: &Mark) -> Result<(), Error> {
        self.stream
            .wait(event(mark)?)
            .map_err(failed("copies beside"))
    }

    unsafe fn download(&self, from: u64, to: &mut [u8]) -> Result<(), Error> {
        self.here()?;
        // SAFETY: the caller's.
        unsafe { self.staging.download(from, to, &self.stream) }
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        self.here()?;
        // SAFETY: the caller's.
        unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream.cu_stream()) }
            .map_err(failed("copy"))
    }

    unsafe fn zero(&self, to: u64, bytes: usize) -> Result<(), Error> {
        self.here()?;
        // SAFETY: the caller's.
        unsafe { result::memset_d8_async(to, 0, bytes, self.stream.cu_stream()) }
            .map_err(failed("zero"))
    }

    unsafe fn launch(&self, launch: Launch<'_>) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { run(&self.kernels, &self.stream, launch) }
    }

    unsafe fn gemm(&self, p: Gemm) -> Result<(), Error> {
        self.here()?;
        let mut handle = self.blas.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = match &mut *handle {
            Some(handle) => handle,
            none => none.insert(self.products()?),
        };
        let size = |n: usize| {
            c_int::try_from(n).map_err(|_| Error::call("gemm", format!("a side of {n} elements")))
        };
        let (m, n, k) = (size(p.m)?, size(p.n)?, size(p.k)?);
        let op = |t| match t {
            true => blas::cublasOperation_t::CUBLAS_OP_T,
            false => blas::cublasOperation_t::CUBLAS_OP_N,
        };
        let (lda, ldb) = (if p.ta { m } else { k }, if p.tb { k } else { n });
        let one = 1.0f32;
        // cuBLAS reads columns: our row-major out = a · b is its outᵀ = bᵀ · aᵀ.
        // SAFETY: the caller's shapes and addresses; both factors outlive the call.
        unsafe {
            cublas::sgemm(
                *handle.handle(),
                op(p.tb),
                op(p.ta),
                n,
                m,
                k,
                &one,
                p.b as *const f32,
                ldb.max(1),
                p.a as *const f32,
                lda.max(1),
                &p.beta,
                p.out as *mut f32,
                n.max(1),
            )
        }
        .map_err(failed("gemm"))
    }

    fn mark(&self) -> Result<Mark, Error> {
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let event = self.stream.record_event(timed).map_err(failed("mark"))?;
        Ok(Box::new(event))
    }

    fn between(&self, from: &Mark, to: &Mark) -> Result<u64, Error> {
        let (Some(from), Some(to)) = (
            from.downcast_ref::<CudaEvent>(),
            to.downcast_ref::<CudaEvent>(),
        ) else {
            return Err(Error::call("between", "marks of another driver"));
        };
        // `elapsed_ms` waits for both.
        let ms = from.elapsed_ms(to).map_err(failed("between"))?;
        Ok((f64::from(ms) * 1e6) as u64)
    }

    fn finish(&self) -> Result<(), Error> {
        self.stream
            .synchronize()
            .map_err(failed("waiting for the GPU"))
    }

    fn is_done(&self, mark: &Mark) -> Result<bool, Error> {
        Ok(event(mark)?.is_complete())
    }

    fn another(&self) -> Result<Box<dyn Driver>, Error> {
        let (context, kernels) = (Arc::clone(&self.context), Arc::clone(&self.kernels));
        Ok(Box::new(Nvidia::over(context, kernels, self.name.clone())?))
    }

    fn side(&self) -> Result<Box<dyn Side>, Error> {
        let stream = self.context.new_stream();
        Ok(Box::new(OnSide::new(
            Arc::clone(&self.context),
            stream.map_err(failed("making a stream"))?,
            Arc::clone(&self.kernels),
        )))
    }
}
