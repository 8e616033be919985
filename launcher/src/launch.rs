//! A plan becomes processes, in a process group of their own.

use crate::error::{Error, Result};
use crate::manifest::{Manifest, Status};
use crate::mpi::{Family, keep_within_host};
use crate::resolve::{Resolved, Starter};
use crate::{partition, store, sys};
use gnn_core::PART_FILES;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Writes what ranks read, `plan.json` and, where vertices are cut, [`PART_FILES`]; and what frames and the plot
/// of the cut read, `foreseen.json` and `partition.json`.
///
/// # Errors
/// When the run folder cannot be written.
pub fn write_plan(run_dir: &Path, resolved: &Resolved) -> Result<()> {
    let path = run_dir.join("plan.json");
    let plan = serde_json::to_vec_pretty(&resolved.plan).map_err(|source| Error::Json {
        path: path.clone(),
        source,
    })?;
    for (name, level) in PART_FILES.iter().zip([&resolved.owner, &resolved.nested]) {
        let Some(level) = level else { continue };
        let bytes: Vec<u8> = level.iter().flat_map(|p| p.to_le_bytes()).collect();
        store::write_atomic(&run_dir.join(name), &bytes)?;
    }
    if !resolved.foreseen.is_empty() {
        crate::forecast::write_foreseen(run_dir, &resolved.foreseen)?;
    }
    if let Some(report) = &resolved.report {
        partition::write_report(&run_dir.join("partition.json"), report)?;
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

/// Folders in which an MPI keeps sockets and shared memory while a run lasts. They are the run's
/// own and go with it: a starter that is killed leaves nothing behind.
#[derive(Debug, Default)]
pub struct Scratch {
    folders: Vec<PathBuf>,
}

impl Scratch {
    /// Makes the folder `halobook-ID` below `parent`; `None` when that cannot be written.
    fn folder(&mut self, parent: &Path, run_dir: &Path) -> Option<PathBuf> {
        sweep(parent, run_dir.parent()?);
        let id = run_dir.file_name().unwrap_or_default().to_string_lossy();
        let folder = parent.join(format!("halobook-{id}"));
        std::fs::create_dir(&folder).ok()?;
        self.folders.push(folder.clone());
        Some(folder)
    }

    /// Tells Open MPI to use folders of this run. Not under Slurm, where ranks may be on machines
    /// that lack them.
    fn give_to_open_mpi(&mut self, command: &mut Command, run_dir: &Path) {
        if std::env::var_os("SLURM_JOB_ID").is_some() {
            return;
        }
        if let Some(folder) = self.folder(&short_temporary(), run_dir) {
            command.env("OMPI_MCA_orte_tmpdir_base", folder);
        }
        if let Some(folder) = self.folder(Path::new("/dev/shm"), run_dir) {
            for transport in ["vader", "sm"] {
                command.env(
                    format!("OMPI_MCA_btl_{transport}_backing_directory"),
                    &folder,
                );
            }
        }
    }
}

/// Removes the scratch folders below `parent` of runs in `runs` that have ended: their supervisor
/// was killed before it could.
fn sweep(parent: &Path, runs: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.filter_map(|entry| entry.ok()) {
        let name = entry.file_name();
        let Some(id) = name
            .to_str()
            .and_then(|name| name.strip_prefix("halobook-"))
        else {
            continue;
        };
        if Manifest::read(&runs.join(id)).is_ok_and(|m| m.status != Status::Running) {
            // Left for the next run if it cannot be removed now.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for folder in &self.folders {
            // What cannot be removed is for the system's own cleaning of temporary files.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Starts the ranks. What the starter itself prints goes to `logs/launch.log`.
///
/// The child leads a process group, so that ending the run reaches nobody else, and it is ended by
/// the kernel when the thread that called this is: call it from the main thread. The scratch
/// folders are to be kept until the child has ended.
///
/// # Errors
/// When the program cannot be started.
pub fn start(run_dir: &Path, resolved: &Resolved, worker: &Path) -> Result<(Child, Scratch)> {
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
    // Rows are read at random all over large arrays. What the user has set stays.
    if std::env::var_os(sys::LARGE_PAGES.0).is_none() {
        command.env(sys::LARGE_PAGES.0, sys::LARGE_PAGES.1);
    }
    if matches!(&resolved.starter, Starter::Mpi(_)) {
        keep_within_host(&mut command);
    }
    let mut scratch = Scratch::default();
    if matches!(&resolved.starter, Starter::Mpi(mpi) if mpi.family == Family::OpenMpi) {
        scratch.give_to_open_mpi(&mut command, run_dir);
    }
    // mpirun is asked to end, so that it takes its ranks along; a worker is simply ended.
    let when_orphaned = if resolved.starter == Starter::Threads {
        libc::SIGKILL
    } else {
        libc::SIGTERM
    };
    sys::end_with_parent(&mut command, when_orphaned);
    let child = command.spawn().map_err(|e| {
        Error::refused(
            format!("could not start {}: {e}", words[0].to_string_lossy()),
            "check that it is installed and may be executed; `halobook doctor` shows what was found",
        )
    })?;
    Ok((child, scratch))
}

/// `$TMPDIR` unless its path is too long for the name of a socket below it.
fn short_temporary() -> PathBuf {
    const LONGEST: usize = 40;
    let folder = std::env::temp_dir();
    if folder.as_os_str().len() <= LONGEST {
        folder
    } else {
        "/tmp".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_folders_go_with_the_run() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let mut scratch = Scratch::default();
        let folder = scratch
            .folder(dir.path(), Path::new("runs/some-id"))
            .expect("a folder");
        assert!(folder.ends_with("halobook-some-id") && folder.is_dir());
        assert!(
            scratch
                .folder(dir.path(), Path::new("runs/some-id"))
                .is_none(),
            "not ours"
        );
        std::fs::write(folder.join("segment"), b"x").expect("a file in it");
        drop(scratch);
        assert!(!folder.exists() && dir.path().exists());
    }

    #[test]
    fn folders_of_ended_runs_are_swept_and_no_others() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let runs = dir.path().join("runs");
        for (id, status) in [("ended", Status::Failed), ("lives", Status::Running)] {
            std::fs::create_dir_all(runs.join(id)).expect("folder");
            let mut manifest = crate::manifest::tests::sample(id);
            manifest.status = status;
            manifest.write(&runs.join(id)).expect("manifest");
        }
        for name in [
            "halobook-ended",
            "halobook-lives",
            "halobook-stranger",
            "other",
        ] {
            std::fs::create_dir(dir.path().join(name)).expect("folder");
        }
        sweep(dir.path(), &runs);
        let left = |name: &str| dir.path().join(name).exists();
        assert!(!left("halobook-ended") && left("halobook-lives"));
        assert!(left("halobook-stranger") && left("other"));
    }
}
