//! NVIDIA's run-time compiler, loaded at run time and called directly: it needs no driver and no
//! GPU, so every machine can check that the kernels compile.
//!
//! It is looked for where `HALOBOOK_NVRTC` says (a library, or the folder it is in), then where the
//! system's loader finds it, then in the project's Python environment, where set-up puts the wheel.

use super::{Error, Family};
use libloading::{Library, Symbol};
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// The architectures that every kernel is checked for, from V100 and T4 by A100, RTX 30, L4 and H100 to
/// Blackwell's B200 and RTX 50. CUDA 13 knows them from sm_75 on ([`Nvrtc::architectures`]).
pub const ARCHITECTURES: [u32; 8] = [70, 75, 80, 86, 89, 90, 100, 120];

/// The library's names: CUDA 12 first, which knows all of [`ARCHITECTURES`].
const NAMES: [&str; 2] = ["libnvrtc.so.12", "libnvrtc.so.13"];

type Program = *mut c_void;

/// What is compiled. Its `Display` is the compiler's word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A GPU's own code (a cubin).
    Machine(u32),
    /// What the driver of a GPU that is at least as new translates (PTX).
    Portable(u32),
}

impl Target {
    /// For a GPU of architecture `sm` by a compiler that knows some, ascending: its own code, or of the newest known
    /// one what its driver translates; none where it is older than all.
    pub fn of(sm: u32, known: &[u32]) -> Option<Target> {
        let newest = *known.iter().rfind(|&&k| k <= sm)?;
        match newest == sm {
            true => Some(Target::Machine(sm)),
            false => Some(Target::Portable(newest)),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Machine(sm) => write!(f, "sm_{sm}"),
            Target::Portable(sm) => write!(f, "compute_{sm}"),
        }
    }
}

/// The compiler.
pub struct Nvrtc {
    library: Library,
    /// The part that holds its built-in functions; the compiler finds it by name once loaded.
    _builtins: Option<Library>,
    version: (i32, i32),
}

impl Nvrtc {
    /// Finds and loads the compiler.
    ///
    /// # Errors
    /// [`Error::Missing`] with all that was tried.
    pub fn find() -> Result<Nvrtc, Error> {
        let mut tried = Vec::new();
        for candidate in candidates() {
            match Nvrtc::load(&candidate) {
                Ok(found) => return Ok(found),
                Err(reason) => tried.push(format!("{}: {reason}", candidate.display())),
            }
        }
        Err(Error::Missing {
            what: "no NVRTC found",
            reason: format!(
                "it compiles the CUDA kernels. `cargo quickstart` installs it; or name the library: \
                 HALOBOOK_NVRTC=/path/to/libnvrtc.so.12 (or .13). Tried {}",
                tried.join("; ")
            ),
        })
    }

    fn load(path: &Path) -> Result<Nvrtc, String> {
        let say = |e: libloading::Error| e.to_string();
        // The compiler opens its built-ins by bare name; a library of that name that is already
        // loaded is taken, wherever it came from.
        let builtins = path.parent().and_then(|folder| {
            let of = |p: &PathBuf| {
                let name = p.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("libnvrtc-builtins.so")
            };
            let files = std::fs::read_dir(folder).ok()?;
            let mut found: Vec<PathBuf> = files.filter_map(|f| Some(f.ok()?.path())).collect();
            found.retain(of);
            found.sort();
            // SAFETY: as for the compiler below.
            unsafe { Library::new(found.pop()?).ok() }
        });
        // SAFETY: NVIDIA's library has no initialiser beyond that of its language's run time.
        let library = unsafe { Library::new(path) }.map_err(say)?;
        let mut version = (0, 0);
        {
            // SAFETY: the signature is that of nvrtc.h, unchanged since CUDA 7.
            let get: Symbol<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int> =
                unsafe { library.get(b"nvrtcVersion\0") }.map_err(say)?;
            // SAFETY: both point to an int.
            unsafe { get(&mut version.0, &mut version.1) };
        }
        Ok(Nvrtc {
            library,
            _builtins: builtins,
            version,
        })
    }

    /// Its version, as `12.8`.
    pub fn version(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// Its version as numbers.
    pub fn cuda(&self) -> (u32, u32) {
        (self.version.0 as u32, self.version.1 as u32)
    }

    /// The architectures that it compiles for, ascending.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn architectures(&self) -> Result<Vec<u32>, Error> {
        let mut len: c_int = 0;
        let count: Symbol<unsafe extern "C" fn(*mut c_int) -> c_int> =
            self.symbol("nvrtcGetNumSupportedArchs")?;
        // SAFETY: `len` is an int.
        self.check("nvrtcGetNumSupportedArchs", unsafe { count(&mut len) })?;
        let mut all: Vec<c_int> = vec![0; len as usize];
        let get: Symbol<unsafe extern "C" fn(*mut c_int) -> c_int> =
            self.symbol("nvrtcGetSupportedArchs")?;
        // SAFETY: `all` has as many as were counted.
        self.check("nvrtcGetSupportedArchs", unsafe { get(all.as_mut_ptr()) })?;
        let mut all: Vec<u32> = all.into_iter().map(|sm| sm as u32).collect();
        all.sort_unstable();
        Ok(all)
    }

    /// What it compiles for a GPU of architecture `sm`, 90 for `sm_90`.
    ///
    /// # Errors
    /// [`Error::Missing`] where it no longer knows a GPU that old.
    pub fn target(&self, sm: u32) -> Result<Target, Error> {
        let known = self.architectures()?;
        Target::of(sm, &known).ok_or_else(|| Error::Missing {
            what: "NVRTC is too new for this GPU",
            reason: format!(
                "version {} compiles for sm_{} and newer, this GPU is sm_{sm}. Install CUDA 12's (the package \
                 nvidia-cuda-nvrtc-cu12), or name it in HALOBOOK_NVRTC",
                self.version(),
                known.first().copied().unwrap_or(0),
            ),
        })
    }

    /// The code of `family` for a target.
    ///
    /// # Errors
    /// [`Error::Compile`] with the compiler's log.
    pub fn compile(&self, family: &Family, target: Target) -> Result<Vec<u8>, Error> {
        let text = CString::new(family.program()).expect("sources have no zero bytes");
        let name = CString::new(format!("{}.cu", family.name)).expect("names have no zero bytes");
        let mut program: Program = std::ptr::null_mut();
        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> c_int;
        let create: Symbol<Create> = self.symbol("nvrtcCreateProgram")?;
        let none = std::ptr::null();
        // SAFETY: both texts are terminated and outlive the call, which copies them; no headers.
        let rc = unsafe { create(&mut program, text.as_ptr(), name.as_ptr(), 0, none, none) };
        self.check("nvrtcCreateProgram", rc)?;
        let code = self.build(program, family, target);
        let destroy: Symbol<unsafe extern "C" fn(*mut Program) -> c_int> =
            self.symbol("nvrtcDestroyProgram")?;
        // SAFETY: the program was created above and is not used again.
        unsafe { destroy(&mut program) };
        code
    }

    fn build(&self, program: Program, family: &Family, to: Target) -> Result<Vec<u8>, Error> {
        let options = [
            format!("--gpu-architecture={to}"),
            "--std=c++14".into(),
            "-default-device".into(),
        ];
        let options = options.map(|o| CString::new(o).expect("options have no zero bytes"));
        let options = options.each_ref().map(|o| o.as_ptr());
        type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
        let compile: Symbol<Compile> = self.symbol("nvrtcCompileProgram")?;
        // SAFETY: `program` is alive (made by `compile`), the options are terminated texts.
        let rc = unsafe { compile(program, options.len() as c_int, options.as_ptr()) };
        if rc != 0 {
            let log = self.bytes(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")?;
            let log = String::from_utf8_lossy(&log);
            return Err(Error::Compile {
                compiler: format!("NVRTC {} ({to}, {}.cu)", self.version(), family.name),
                log: log.trim_end_matches('\0').to_string(),
            });
        }
        match to {
            Target::Machine(_) => self.bytes(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN"),
            // With the zero byte at its end, by which a driver knows a text.
            Target::Portable(_) => self.bytes(program, "nvrtcGetPTXSize", "nvrtcGetPTX"),
        }
    }

    /// What `get` writes, as long as `size` says.
    fn bytes(&self, program: Program, size: &str, get: &str) -> Result<Vec<u8>, Error> {
        let mut len = 0usize;
        let ask: Symbol<unsafe extern "C" fn(Program, *mut usize) -> c_int> = self.symbol(size)?;
        // SAFETY: `program` is alive (made by `compile`), `len` is a size_t.
        self.check(size, unsafe { ask(program, &mut len) })?;
        let mut to = vec![0u8; len];
        let get_into: Symbol<unsafe extern "C" fn(Program, *mut c_char) -> c_int> =
            self.symbol(get)?;
        // SAFETY: as above; `to` has the length that was asked for.
        self.check(get, unsafe { get_into(program, to.as_mut_ptr().cast()) })?;
        Ok(to)
    }

    fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>, Error> {
        // SAFETY: callers name the type that nvrtc.h gives this function.
        unsafe { self.library.get(name.as_bytes()) }.map_err(|e| Error::call(name, e))
    }

    fn check(&self, op: &str, rc: c_int) -> Result<(), Error> {
        match rc {
            0 => Ok(()),
            code => Err(Error::call(op, format!("NVRTC error {code}"))),
        }
    }
}

/// Where it may be, best first.
fn candidates() -> Vec<PathBuf> {
    if let Some(chosen) = std::env::var_os("HALOBOOK_NVRTC").map(PathBuf::from) {
        return match chosen.is_dir() {
            true => NAMES.map(|name| chosen.join(name)).into(),
            false => vec![chosen],
        };
    }
    let mut all = NAMES.map(PathBuf::from).to_vec();
    let mut folders = vec![PathBuf::from("/usr/local/cuda/lib64")];
    folders.extend(std::env::var_os("CONDA_PREFIX").map(|p| Path::new(&p).join("lib")));
    let mut environments: Vec<PathBuf> = std::env::var_os("VIRTUAL_ENV")
        .map(PathBuf::from)
        .into_iter()
        .collect();
    environments.extend(
        std::env::current_dir()
            .iter()
            .flat_map(|p| own_environments(p)),
    );
    environments.extend(
        std::env::current_exe()
            .iter()
            .flat_map(|p| own_environments(p)),
    );
    folders.extend(wheels(&environments));
    all.extend(
        folders
            .iter()
            .flat_map(|folder| NAMES.map(|name| folder.join(name))),
    );
    all
}

/// The library's file, found without loading it; one that only the system's loader finds is not
/// found so.
pub fn file() -> Option<PathBuf> {
    candidates()
        .into_iter()
        .find(|file| file.is_absolute() && file.is_file())
}

/// Where set-up's Python environment may be, seen from a folder or file in the project.
fn own_environments(from: &Path) -> Vec<PathBuf> {
    let ups = from.ancestors();
    ups.map(|up| up.join(".halobook/venv")).collect()
}

/// The folders of the library in the wheels of Python environments: those of CUDA 12 and of CUDA 13.
fn wheels(environments: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for environment in environments {
        let Ok(pythons) = std::fs::read_dir(environment.join("lib")) else {
            continue;
        };
        for python in pythons.filter_map(Result::ok) {
            let nvidia = python.path().join("site-packages/nvidia");
            found.extend(["cuda_nvrtc/lib", "cu13/lib"].map(|wheel| nvidia.join(wheel)));
        }
    }
    found.retain(|p| p.is_dir());
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_of_cuda_12_and_13_are_found_from_within_the_project() {
        let project = std::env::temp_dir().join(format!("halobook-nvrtc-{}", std::process::id()));
        let site = project.join(".halobook/venv/lib/python3.12/site-packages/nvidia");
        let inside = project.join("notebooks/first");
        let look = || wheels(&own_environments(&inside));
        let before = look();
        let both = ["cuda_nvrtc/lib", "cu13/lib"].map(|wheel| site.join(wheel));
        for folder in &both {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        let after = look();
        std::fs::remove_dir_all(&project).expect("made above");
        for folder in &both {
            assert!(
                !before.contains(folder) && after.contains(folder),
                "{after:?}"
            );
        }
    }
}
