//! The one table of what Halobook needs from a machine.
//!
//! The set-up step reads it, and a test holds `environment.yml` (the same parts for conda users)
//! against it, so that the two cannot drift apart.

/// One part of the machine.
pub struct Part {
    /// What a person calls it.
    pub name: &'static str,
    /// What it is for.
    pub why: &'static str,
    /// Debian packages that bring it; empty when set-up does not install it.
    pub apt: &'static [&'static str],
    /// The lines of `environment.yml` that bring it, as `name` or `name=version`.
    pub conda: &'static [&'static str],
    /// Not needed to build or to pass the tests.
    pub optional: bool,
}

/// Every part. `system.rs` has the probe of each one with Debian packages, by name.
pub const PARTS: &[Part] = &[
    Part {
        name: "Rust",
        why: "the compiler, also at run time: cells are compiled",
        apt: &[],
        conda: &["rust>=1.95"],
        optional: false,
    },
    Part {
        name: crate::toolchain::PART,
        why: "notebooks infer types from the standard library's sources",
        apt: &[],
        conda: &["rust-src"],
        optional: false,
    },
    Part {
        name: "C compiler",
        why: "links Rust; compiles METIS and MPI's glue",
        apt: &["build-essential"],
        conda: &["c-compiler"],
        optional: false,
    },
    Part {
        name: "C++ compiler",
        why: "runs the CUDA kernels on the processor in tests",
        apt: &["build-essential"],
        conda: &["cxx-compiler"],
        optional: false,
    },
    Part {
        name: "MPI",
        why: "one process a rank",
        apt: &["libopenmpi-dev", "openmpi-bin"],
        conda: &["openmpi"],
        optional: false,
    },
    Part {
        name: "libclang",
        why: "reads MPI's header while building",
        apt: &["libclang-dev"],
        conda: &["libclang", "clang"],
        optional: false,
    },
    Part {
        name: "Python",
        why: "Jupyter runs on it (3.11 or newer)",
        apt: &["python3", "python3-pip", "python3-venv"],
        conda: &["python>=3.11", "pip"],
        optional: false,
    },
    Part {
        name: "NVRTC",
        why: "compiles the CUDA kernels at run time",
        apt: &[],
        conda: &["cuda-nvrtc=12.8"],
        optional: true,
    },
    Part {
        name: "NCCL",
        why: "collectives between GPUs",
        apt: &[],
        conda: &["nccl"],
        optional: true,
    },
];

/// The oldest Python that set-up accepts.
pub const PYTHON: (u32, u32) = (3, 11);

/// Python packages of the project-local Jupyter environment, pinned; `environment.yml` repeats
/// them as `name=version`.
pub const JUPYTER: &[(&str, &str)] = &[
    ("jupyterlab", "4.6.6"),
    ("notebook", "7.6.5"),
    ("nbclient", "0.11.0"),
    ("nbconvert", "7.17.2"),
    ("jupyter_kernel_test", "0.7.0"),
];

/// The compiler of the CUDA kernels as a Python package, pinned: it compiles them on machines
/// without a GPU too. CUDA 13 no longer knows sm_70. `environment.yml` has the same version.
pub const NVRTC: (&str, &str) = ("nvidia-cuda-nvrtc-cu12", "12.8.93");
