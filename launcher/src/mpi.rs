//! Which MPI there is, and how it is asked to start ranks.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// A family of MPI libraries, as far as starting ranks differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Open MPI.
    OpenMpi,
    /// MPICH and what is derived from it (Hydra).
    Mpich,
}

/// An MPI found on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mpi {
    /// Its starter.
    pub mpirun: PathBuf,
    /// Family.
    pub family: Family,
    /// Version, as it says.
    pub version: String,
}

impl std::fmt::Display for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let family = match self.family {
            Family::OpenMpi => "Open MPI",
            Family::Mpich => "MPICH",
        };
        write!(f, "{family} {}", self.version)
    }
}

/// What in the environment says that MPI's ranks are on other hosts, or how they are to speak.
const LEADS_AWAY: [&str; 4] = [
    "OMPI_MCA_btl",
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
    "HYDRA_HOST_FILE",
];

/// Whether the environment says that ranks are on other hosts, or how they are to speak.
fn leads_away() -> bool {
    LEADS_AWAY
        .iter()
        .any(|name| std::env::var_os(name).is_some())
}

/// The library that keeps ports to this host, where it is beside this program.
pub fn loopback() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let library = program.with_file_name("libhalobook_loopback.so");
    // What it is named in is a list that knows no quotes.
    let listed = !library.to_string_lossy().contains([' ', ':']);
    (listed && library.is_file()).then_some(library)
}

/// Has the starter and the ranks of one host listen to this host only, whatever address they ask for. Where
/// the library that does it is not beside this program, their ports are open to other hosts.
pub fn keep_within_host(command: &mut Command) {
    const NAME: &str = "LD_PRELOAD";
    let Some(library) = loopback().filter(|_| !leads_away()) else {
        return;
    };
    let mut all = library.into_os_string();
    if let Some(others) = std::env::var_os(NAME).filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    command.env(NAME, all);
}

/// A program on the search path.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

impl Mpi {
    /// The MPI whose starter comes first on the search path (`$HALOBOOK_MPIRUN` goes before).
    pub fn find() -> Option<Mpi> {
        let named = std::env::var_os("HALOBOOK_MPIRUN").map(PathBuf::from);
        let mpirun = named
            .or_else(|| on_path("mpirun"))
            .or_else(|| on_path("mpiexec"))?;
        let output = Command::new(&mpirun).arg("--version").output().ok()?;
        let (family, version) = identify(&String::from_utf8_lossy(&output.stdout))?;
        Some(Mpi {
            mpirun,
            family,
            version,
        })
    }

    /// Open MPI's ways from rank to rank of one host.
    fn within_a_host(&self) -> &'static str {
        let major = self
            .version
            .split('.')
            .next()
            .and_then(|major| major.parse::<u32>().ok());
        match major {
            Some(5..) => "self,sm",
            _ => "self,vader",
        }
    }

    /// The command line that starts `ranks` copies of what follows it.
    pub fn command(&self, ranks: usize, oversubscribed: bool) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.mpirun.clone().into()];
        let mut add = |more: &[&str]| words.extend(more.iter().map(OsString::from));
        match self.family {
            Family::OpenMpi => {
                add(&[
                    "-n",
                    &ranks.to_string(),
                    "--bind-to",
                    "none",
                    "--oversubscribe",
                ]);
                // When a rank dies the others are ended without a second's pause in between.
                add(&["--mca", "odls_base_sigkill_timeout", "0"]);
                // Bus error, arithmetic error, segmentation fault: a stack of addresses is worth
                // printing. An abort has said why; the stack would push that out of the log's end.
                add(&["--mca", "opal_signal", "7,8,11"]);
                // Ranks of one host share memory; a port of theirs would be open to everybody.
                if !leads_away() {
                    add(&["--mca", "btl", self.within_a_host()]);
                }
                if crate::sys::is_root() {
                    add(&["--allow-run-as-root"]);
                }
                if oversubscribed {
                    // Ranks that share a core must give it up while they wait.
                    add(&["--mca", "mpi_yield_when_idle", "1"]);
                }
            }
            Family::Mpich => add(&["-n", &ranks.to_string(), "-bind-to", "none"]),
        }
        words
    }
}

/// Family and version out of `mpirun --version`.
fn identify(text: &str) -> Option<(Family, String)> {
    let first = text.lines().next().unwrap_or_default();
    if first.contains("Open MPI") || first.contains("OpenRTE") {
        let version = first.split_whitespace().last()?;
        return Some((Family::OpenMpi, version.to_owned()));
    }
    if text.contains("HYDRA") || text.contains("MPICH") || text.contains("Intel(R) MPI") {
        let version = text.lines().find_map(|l| l.trim().strip_prefix("Version:"));
        return Some((Family::Mpich, version.unwrap_or("?").trim().to_owned()));
    }
    None
}

/// What an MPI starter said about the process that ended its job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// The rank, when it is named.
    pub rank: Option<u32>,
    /// The process, when it is named.
    pub pid: Option<u32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its exit status.
    pub status: Option<i32>,
}

/// The number after the last occurrence of `before`.
fn number_after(text: &str, before: &str) -> Option<i32> {
    let (_, after) = text.rsplit_once(before)?;
    let digits: String = after
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// Reads what `mpirun` wrote when a job ended badly; `None` when it names nobody.
pub fn read_verdict(output: &str) -> Option<Verdict> {
    // Messages are wrapped at arbitrary places, so they are read as one line.
    let text = output.split_whitespace().collect::<Vec<_>>().join(" ");
    let unsigned = |before: &str| number_after(&text, before).and_then(|n| u32::try_from(n).ok());
    if text.contains("noticed that process rank") {
        return Some(Verdict {
            rank: unsigned("noticed that process rank"),
            pid: unsigned("with PID").filter(|pid| *pid != 0),
            signal: number_after(&text, "exited on signal"),
            status: None,
        });
    }
    if text.contains("MPI_ABORT was invoked on rank") {
        return Some(Verdict {
            rank: unsigned("MPI_ABORT was invoked on rank"),
            status: number_after(&text, "with errorcode"),
            ..Verdict::default()
        });
    }
    if text.contains("Process name: [[") {
        let (_, after) = text.rsplit_once("Process name: [[")?;
        let rank = after
            .split_once("],")?
            .1
            .split(']')
            .next()?
            .trim()
            .parse()
            .ok();
        return Some(Verdict {
            rank,
            status: number_after(&text, "Exit code:"),
            ..Verdict::default()
        });
    }
    if text.contains("BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES") {
        let code = number_after(&text, "EXIT CODE:");
        let signal = number_after(&text, "(signal").or(code.filter(|c| *c < 32 && *c != 1));
        return Some(Verdict {
            rank: unsigned("RANK"),
            pid: unsigned("= PID").or(unsigned("KILLED BY SIGNAL")),
            signal,
            status: code.filter(|_| signal.is_none()),
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_and_versions_are_told_apart() {
        let open =
            "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n";
        assert_eq!(identify(open), Some((Family::OpenMpi, "4.1.4".into())));
        let mpich = "HYDRA build details:\n    Version:                                 4.0.2\n    Release Date: x\n";
        assert_eq!(identify(mpich), Some((Family::Mpich, "4.0.2".into())));
        assert_eq!(identify("something else"), None);
    }

    #[test]
    fn oversubscribed_ranks_yield() {
        let mpi = Mpi {
            mpirun: "mpirun".into(),
            family: Family::OpenMpi,
            version: "4".into(),
        };
        let line = mpi.command(4, true).join(&OsString::from(" "));
        let line = line.to_string_lossy();
        assert!(
            line.starts_with("mpirun -n 4") && line.contains("mpi_yield_when_idle 1"),
            "{line}"
        );
        let line = mpi.command(2, false).join(&OsString::from(" "));
        assert!(!line.to_string_lossy().contains("mpi_yield_when_idle"));
    }

    #[test]
    fn open_mpi_names_the_rank_and_its_signal() {
        let text = "--------\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job has been aborted.\n-----\nmpirun noticed that process rank 1 with PID 0 on node box exited\non signal 9 (Killed).\n";
        let verdict = read_verdict(text).expect("a verdict");
        assert_eq!(
            (verdict.rank, verdict.signal, verdict.pid),
            (Some(1), Some(9), None)
        );
    }

    #[test]
    fn open_mpi_names_the_rank_and_its_exit_status() {
        let text = "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[37482,1],2]\n  Exit code:    101\n";
        let verdict = read_verdict(text).expect("a verdict");
        assert_eq!((verdict.rank, verdict.status), (Some(2), Some(101)));
        let text =
            "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 7.";
        let verdict = read_verdict(text).expect("a verdict");
        assert_eq!((verdict.rank, verdict.status), (Some(3), Some(7)));
    }

    #[test]
    fn mpich_names_the_process_and_its_signal() {
        let text = "=====\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 4242 RUNNING AT box\n=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\n=====\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n";
        let verdict = read_verdict(text).expect("a verdict");
        assert_eq!(
            (verdict.pid, verdict.signal, verdict.rank),
            (Some(4242), Some(9), None)
        );
        let text = "= BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n= PID 17 RUNNING AT box\n= EXIT CODE: 101\n";
        let verdict = read_verdict(text).expect("a verdict");
        assert_eq!(
            (verdict.pid, verdict.signal, verdict.status),
            (Some(17), None, Some(101))
        );
    }

    #[test]
    fn silence_is_no_verdict() {
        assert_eq!(read_verdict("epoch 3\n"), None);
    }
}
