//! `halobook worker`: what a rank executes.

use super::Program;
use super::words::Words;
use crate::rank_error::{self, Kind};
use crate::{Error, Result, sys};
use gnn_core::backend::lack_of_memory;
use gnn_core::plan::Plan;
use gnn_core::record::state;
use gnn_core::{World, work};
use std::path::{Path, PathBuf};

/// Exit status of a rank that panicked.
const PANICKED: i32 = 101;

/// Runs this process's rank or ranks. A failure is written into the run folder, and the process
/// ends at once: clean-up in a library would wait for ranks that are still at work.
pub fn worker(words: &[String], program: &Program) -> Result<i32> {
    sys::keep_freed_memory();
    let words = Words::sort(words, &[], &["run-dir"])?;
    words.names([])?;
    let run_dir = words.value("run-dir").map(PathBuf::from).ok_or_else(|| {
        Error::refused(
            "worker needs --run-dir",
            "ranks are started by `halobook train`",
        )
    })?;
    let path = run_dir.join("plan.json");
    let bytes = std::fs::read(&path).map_err(Error::io(&path))?;
    let plan: Plan =
        serde_json::from_slice(&bytes).map_err(|source| Error::Json { path, source })?;
    let told = if plan.in_process {
        Some(0)
    } else {
        rank_from_starter()
    };
    let under_slurm = std::env::var_os("SLURM_STEP_ID").is_some();
    if !under_slurm {
        sys::die_with_parent();
    }
    let rank = told.unwrap_or(0);
    let log = run_dir.join(format!("logs/rank-{rank}.log"));
    sys::redirect_output(&log).map_err(Error::io(&log))?;
    report_panics(&run_dir, &plan, rank);
    match run(&plan, &run_dir, program) {
        Ok(()) => Ok(0),
        Err(error) => {
            let rank = if plan.in_process {
                rank_error::busy_rank(&run_dir, plan.spec.ranks as u32)
            } else {
                rank
            };
            let kind = match error {
                gnn_core::Error::Comm { .. } => Kind::Peer,
                _ => Kind::Error,
            };
            eprintln!("error: {error}\nhelp: {}", error.help());
            if let Err(problem) = rank_error::write(&run_dir, rank, kind, &error.to_string()) {
                eprintln!("error: {problem}");
            }
            sys::exit_now(1)
        }
    }
}

/// The rank that the starter gave this process, before MPI is initialised.
fn rank_from_starter() -> Option<u32> {
    [
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "SLURM_PROCID",
    ]
    .iter()
    .find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// From now on a panic anywhere writes the rank's last words and ends the process.
fn report_panics(run_dir: &Path, plan: &Plan, rank: u32) {
    let (run_dir, ranks, in_process) =
        (run_dir.to_owned(), plan.spec.ranks as u32, plan.in_process);
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let of_thread = || {
            let thread = std::thread::current();
            thread.name()?.strip_prefix("rank-")?.parse::<u32>().ok()
        };
        let rank = if in_process {
            of_thread().unwrap_or_else(|| rank_error::busy_rank(&run_dir, ranks))
        } else {
            rank
        };
        // A device without memory is no fault of the program.
        if let Some(error) = lack_of_memory(info.payload()) {
            let at = state::read(&run_dir.join(format!("state/rank-{rank}")));
            let layer = at.map_or(String::new(), |at| format!("layer {}, ", at.layer));
            let said = format!("{layer}{error}");
            eprintln!("error: {said}\nhelp: {}", error.help());
            let _ = rank_error::write(&run_dir, rank, Kind::Error, &said);
            sys::exit_now(1)
        }
        let text = info.payload_as_str().unwrap_or("a panic without a message");
        let place = info.location().map_or(String::new(), |at| {
            format!(" ({}:{})", at.file(), at.line())
        });
        // Whether or not they can be written: the log has them, and the process must end.
        let _ = rank_error::write(&run_dir, rank, Kind::Panic, &format!("{text}{place}"));
        print(info);
        sys::exit_now(PANICKED)
    }));
}

fn run(plan: &Plan, run_dir: &Path, program: &Program) -> gnn_core::Result<()> {
    let world = if plan.in_process {
        World::Threads(plan.spec.ranks)
    } else {
        mpi_world(plan, program)?
    };
    let outcome = work(plan, run_dir, world, program.strategies)?;
    println!("{} of {} epochs", outcome.epochs_done, plan.spec.epochs);
    Ok(())
}

fn mpi_world(plan: &Plan, program: &Program) -> gnn_core::Result<World> {
    let Some(mpi) = program.mpi else {
        return Err(gnn_core::Error::Unsupported {
            what: "launch mpi".into(),
            reason: "this program was built without MPI".into(),
            help: "build halobook with the feature mpi, or use --launch threads".into(),
        });
    };
    let transport = (mpi.init)()?;
    let (size, ranks) = (transport.size(), plan.spec.ranks);
    if size != ranks {
        return Err(gnn_core::Error::Unsupported {
            what: format!("a world of {size} ranks where {ranks} were started"),
            reason: format!(
                "this program speaks {}, and the starter another MPI",
                (mpi.name)()
            ),
            help: "build halobook with the MPI whose mpirun comes first on the search path".into(),
        });
    }
    Ok(World::Transport(Box::new(held::Held::new(transport))))
}

/// A transport whose abort only marks it, so that the error that led to it can be written first.
mod held {
    use gnn_core::Result;
    use gnn_core::comm::{Handle, Progress, Transport, WayOut, Words};
    use std::ops::Range;

    /// See the module.
    pub struct Held {
        inner: Option<Box<dyn Transport>>,
        aborted: bool,
    }

    impl Held {
        /// Holds a transport.
        pub fn new(inner: Box<dyn Transport>) -> Held {
            Held {
                inner: Some(inner),
                aborted: false,
            }
        }

        fn held(&mut self) -> &mut dyn Transport {
            self.inner.as_deref_mut().expect("only drop takes it")
        }
    }

    impl Transport for Held {
        fn rank(&self) -> usize {
            self.inner.as_deref().expect("only drop takes it").rank()
        }
        fn size(&self) -> usize {
            self.inner.as_deref().expect("only drop takes it").size()
        }
        fn post_send(&mut self, to: usize, tag: u16, words: Words) -> Result<()> {
            self.held().post_send(to, tag, words)
        }
        fn post_recv(&mut self, from: usize, tag: u16, len: usize) -> Result<Handle> {
            self.held().post_recv(from, tag, len)
        }
        fn poll(&mut self, handle: Handle) -> Result<Progress> {
            self.held().poll(handle)
        }
        fn way_out(&self) -> Option<WayOut> {
            self.inner.as_deref().and_then(Transport::way_out)
        }
        fn travelled(&self, handle: Handle) -> Option<Range<u64>> {
            self.inner.as_deref().and_then(|t| t.travelled(handle))
        }
        fn forget(&mut self, handle: Handle) {
            self.held().forget(handle);
        }
        fn wait(&mut self, at_most: std::time::Duration) -> bool {
            self.held().wait(at_most)
        }
        fn take(&mut self, handle: Handle) -> Result<Words> {
            self.held().take(handle)
        }
        fn drain(&mut self) -> Result<()> {
            self.held().drain()
        }
        fn abort(&mut self, _code: i32) {
            self.aborted = true;
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            // Ending MPI waits for all ranks: an aborted one leaves that to the process's end.
            if self.aborted {
                std::mem::forget(self.inner.take());
            }
        }
    }
}
