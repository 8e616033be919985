//! A plan becomes processes, in a process group of their own.

use crate::error::{Error, Result};
use crate::mpi::Family;
use crate::resolve::{Resolved, Starter};
use crate::{store, sys};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Writes what ranks read: `plan.json` and, with several ranks, `part.bin`.
///
/// # Errors
/// When the run folder cannot be written.
pub fn write_plan(run_dir: &Path, resolved: &Resolved) -> Result<()> {
    let path = run_dir.join("plan.json");
    let plan = serde_json::to_vec_pretty(&resolved.plan).map_err(|source| Error::Json {
        path: path.clone(),
        source,
    })?;
    if let Some(owner) = &resolved.owner {
        let bytes: Vec<u8> = owner.iter().flat_map(|r| r.to_le_bytes()).collect();
        store::write_atomic(&run_dir.join("part.bin"), &bytes)?;
    }
    store::write_atomic(&path, &plan)
}

/// The command line that starts every rank of a run.
pub fn command_line(run_dir: &Path, resolved: &Resolved, worker: &Path) -> Vec<OsString> {
    let ranks = resolved.plan.spec.ranks;
    let mut words = match &resolved.starter {
        Starter::Threads => Vec::new(),
        Starter::Mpi(mpi) => mpi.command(ranks, resolved.plan.oversubscribed),
        Starter::Slurm => [
            "srun".to_owned(),
            format!("--ntasks={ranks}"),
            format!("--cpus-per-task={}", resolved.plan.threads),
            "--kill-on-bad-exit=1".to_owned(),
            "--label".to_owned(),
        ]
        .map(OsString::from)
        .into(),
    };
    words.extend([
        worker.into(),
        "worker".into(),
        "--run-dir".into(),
        run_dir.into(),
    ]);
    words
}

/// Starts the ranks. What the starter itself prints goes to `logs/launch.log`.
///
/// The child leads a process group, so that ending the run reaches nobody else, and it is ended by
/// the kernel when the thread that called this is: call it from the main thread.
///
/// # Errors
/// When the program cannot be started.
pub fn start(run_dir: &Path, resolved: &Resolved, worker: &Path) -> Result<Child> {
    let words = command_line(run_dir, resolved, worker);
    let log = run_dir.join("logs/launch.log");
    let out = File::create(&log).map_err(Error::io(&log))?;
    let err = out.try_clone().map_err(Error::io(&log))?;
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0);
    let threads = resolved.plan.threads.to_string();
    for name in [
        "RAYON_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
    ] {
        command.env(name, &threads);
    }
    command.env("RUST_BACKTRACE", "1");
    if let Starter::Mpi(mpi) = &resolved.starter
        && mpi.family == Family::OpenMpi
        && std::env::var_os("OMPI_MCA_orte_tmpdir_base").is_none()
    {
        // The starter's sockets have short names only in a short folder.
        command.env("OMPI_MCA_orte_tmpdir_base", short_temporary());
    }
    // mpirun is asked to end, so that it takes its ranks along; a worker is simply ended.
    let when_orphaned = if resolved.starter == Starter::Threads {
        libc::SIGKILL
    } else {
        libc::SIGTERM
    };
    sys::end_with_parent(&mut command, when_orphaned);
    command.spawn().map_err(|e| {
        Error::refused(
            format!("could not start {}: {e}", words[0].to_string_lossy()),
            "check that it is installed and may be executed; `halobook doctor` shows what was found",
        )
    })
}

/// `$TMPDIR` unless its path is too long for the name of a socket below it.
fn short_temporary() -> OsString {
    const LONGEST: usize = 40;
    let folder = std::env::temp_dir();
    if folder.as_os_str().len() <= LONGEST {
        folder.into()
    } else {
        "/tmp".into()
    }
}
