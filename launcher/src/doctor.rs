//! What this machine has and lacks.

use crate::host::Host;
use crate::mpi::{Mpi, loopback, on_path};
use crate::store;
use kernels::cuda::fit::{Clash, Parts};
use kernels::cuda::nccl;
use serde::Serialize;
use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How much something matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// There.
    Ok,
    /// Not there, and only some things need it.
    Optional,
    /// Two parts that are there, and do not fit.
    Clash,
    /// Not there, and needed.
    Missing,
}

/// One thing that was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// What.
    pub name: &'static str,
    /// Whether it is there.
    pub verdict: Verdict,
    /// What was found, or what is missing without it.
    pub found: String,
    /// What to do, when it is not there.
    pub help: Option<Cow<'static, str>>,
}

/// Everything that was looked for. Its `Display` is a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The things.
    pub items: Vec<Item>,
    /// Whether nothing needed is missing.
    pub ok: bool,
}

fn item(
    name: &'static str,
    found: Option<String>,
    otherwise: (Verdict, &str, &'static str),
) -> Item {
    match found {
        Some(found) => Item {
            name,
            verdict: Verdict::Ok,
            found,
            help: None,
        },
        None => Item {
            name,
            verdict: otherwise.0,
            found: otherwise.1.into(),
            help: Some(otherwise.2.into()),
        },
    }
}

/// The first line that a program prints.
fn says(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(on_path(program)?)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .next()
        .map(|line| line.trim().to_owned())
        .filter(|l| !l.is_empty())
}

/// Looks at this machine. Of libraries only those of a GPU are loaded, to ask their versions: what else is found by its
/// file may still not work.
pub fn report() -> Report {
    use Verdict::{Missing, Optional};
    let host = Host::this();
    let parts = Parts::found();
    let mut items = vec![
        item("processor", Some(host.class()), (Missing, "", "")),
        item(
            "run store",
            writable(&store::home()),
            (
                Missing,
                "cannot be written",
                "set HALOBOOK_HOME to a folder that can be",
            ),
        ),
        item(
            "Rust",
            says("rustc", &["--version"]),
            (
                Optional,
                "not found: notebook cells in Rust need it",
                "install it from https://rustup.rs",
            ),
        ),
        item(
            "MPI",
            Mpi::find().map(|mpi| format!("{mpi} ({})", mpi.mpirun.display())),
            (
                Optional,
                "not found: ranks run as threads of one process",
                "Debian: apt-get install openmpi-bin libopenmpi-dev",
            ),
        ),
        item(
            "MPI's ports",
            loopback().map(|_| "open to this host only".to_owned()),
            (
                Optional,
                "open to other hosts while ranks of mpirun train",
                "build with cargo build --release --workspace, in a folder without blanks and colons",
            ),
        ),
        item(
            "Slurm",
            on_path("srun").map(|path| path.display().to_string()),
            (
                Optional,
                "not found: --launch slurm is not possible",
                "needed on a cluster only",
            ),
        ),
        item(
            "CUDA",
            cuda(&parts),
            (
                Optional,
                "not found: the CPU is used",
                "needed with an NVIDIA GPU only",
            ),
        ),
        item(
            "NVRTC",
            // The search of whoever loads it, which knows the wheel that set-up installs.
            (kernels::cuda::nvrtc::file().or_else(|| library("libnvrtc.so.1")))
                .map(|path| path.display().to_string()),
            (
                Optional,
                "not found: the CUDA kernels cannot be compiled",
                "`cargo quickstart` installs it, or name it in HALOBOOK_NVRTC",
            ),
        ),
        item(
            "Python",
            says("python3", &["--version"]),
            (
                Optional,
                "not found: JupyterLab needs it",
                "Debian: apt-get install python3 python3-venv",
            ),
        ),
        item(
            "Jupyter",
            jupyter(),
            (
                Optional,
                "not found",
                "`cargo quickstart` installs it, or: pip install jupyterlab",
            ),
        ),
        item(
            "kernelspec",
            kernelspec().map(|path| path.display().to_string()),
            (
                Optional,
                "halobook is not installed as a Jupyter kernel",
                "`cargo quickstart`, or: halobook-kernel install --prefix DIR",
            ),
        ),
    ];
    let behind = after_cuda(&items);
    items.splice(behind, clashes(&parts));
    let ok = items.iter().all(|item| item.verdict != Missing);
    Report { items, ok }
}

/// The folder, when a file can be made in it.
fn writable(folder: &Path) -> Option<String> {
    std::fs::create_dir_all(folder).ok()?;
    let probe = folder.join(format!(".probe-{}", std::process::id()));
    std::fs::write(&probe, b"").ok()?;
    std::fs::remove_file(&probe).ok()?;
    Some(folder.display().to_string())
}

/// A library whose name begins so, where the system's loader looks.
fn library(begin: &str) -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> = std::env::var_os("LD_LIBRARY_PATH")
        .map(|paths| std::env::split_paths(&paths).collect())
        .unwrap_or_default();
    let usual = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/cuda/lib64",
    ];
    folders.extend(usual.map(PathBuf::from));
    folders.iter().find_map(|folder| {
        let mut files = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
        let named = |f: &std::fs::DirEntry| f.file_name().to_string_lossy().starts_with(begin);
        files.find(named).map(|f| f.path())
    })
}

fn cuda(parts: &Parts) -> Option<String> {
    if kernels::cuda::stands_in() {
        return Some("the host stands in for GPUs (HALOBOOK_CUDA)".into());
    }
    let driver = library("libcuda.so")?.display().to_string();
    let driver = match parts.driver {
        Some(_) => format!("{driver} ({parts})"),
        None => driver,
    };
    Some(match (nccl::version(), library("libnccl.so")) {
        (Ok(version), _) => format!("{driver}, NCCL {}", nccl::written(version)),
        (Err(e), Some(there)) => format!("{driver}; {} is not used: {e}", there.display()),
        (Err(_), None) => driver,
    })
}

/// Where the pairs that do not fit are shown: behind the last of the parts.
fn after_cuda(items: &[Item]) -> Range<usize> {
    let last = items.iter().rposition(|item| item.name == "NVRTC");
    let at = last.map_or(items.len(), |last| last + 1);
    at..at
}

/// A row for each pair of a GPU's parts that do not fit.
fn clashes(parts: &Parts) -> Vec<Item> {
    let of = |clash: Clash| Item {
        name: "CUDA's parts",
        verdict: Verdict::Clash,
        found: format!("do not fit: {}", clash.what),
        help: Some(format!("install {}", clash.install).into()),
    };
    parts.clashes().into_iter().map(of).collect()
}

/// The environment that belongs to a project, wherever in it we are.
fn project_environments() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .iter()
        .filter_map(|name| std::env::var_os(name).map(PathBuf::from))
        .collect();
    if let Ok(here) = std::env::current_dir() {
        let own = |dir: &Path| [dir.join(".halobook/venv"), dir.join(".venv")];
        folders.extend(here.ancestors().take(6).flat_map(own));
    }
    folders
}

fn jupyter() -> Option<String> {
    let own = project_environments()
        .into_iter()
        .map(|env| env.join("bin/jupyter"));
    own.filter(|file| file.is_file())
        .chain(on_path("jupyter"))
        .next()
        .map(|path| path.display().to_string())
}

fn kernelspec() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let mut folders: Vec<PathBuf> = project_environments()
        .into_iter()
        .map(|env| env.join("share/jupyter"))
        .collect();
    if let Some(paths) = std::env::var_os("JUPYTER_PATH") {
        folders.extend(std::env::split_paths(&paths));
    }
    folders.extend(variable("XDG_DATA_HOME").map(|data| data.join("jupyter")));
    folders.extend(variable("HOME").map(|home| home.join(".local/share/jupyter")));
    folders.extend(variable("HOME").map(|home| home.join("Library/Jupyter")));
    folders.extend(["/usr/local/share/jupyter", "/usr/share/jupyter"].map(PathBuf::from));
    let spec = |folder: PathBuf| folder.join("kernels/halobook/kernel.json");
    folders.into_iter().map(spec).find(|file| file.is_file())
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for item in &self.items {
            let mark = match item.verdict {
                Verdict::Ok => "ok",
                Verdict::Optional => "-",
                Verdict::Clash => "CLASH",
                Verdict::Missing => "MISSING",
            };
            writeln!(f, "{mark:<8} {:<11} {}", item.name, item.found)?;
            if let Some(help) = &item.help {
                writeln!(f, "{:<20} {help}", "")?;
            }
        }
        let end = if self.ok {
            "everything needed is there"
        } else {
            "something needed is missing"
        };
        write!(f, "{end}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_that_set_up_makes_is_the_project_s() {
        let here = std::env::current_dir().expect("a folder");
        let all = project_environments();
        assert!(all.contains(&here.join(".halobook/venv")), "{all:?}");
        let nvrtc = |i: &Item| i.name == "NVRTC";
        let found = report().items.into_iter().find(nvrtc).expect("looked for");
        let there = kernels::cuda::nvrtc::file().is_some();
        assert!(!there || found.verdict == Verdict::Ok, "{found:?}");
    }

    #[test]
    fn parts_of_a_gpu_that_do_not_fit_are_rows_behind_the_parts() {
        let parts = Parts {
            driver: Some((12, 4)),
            cublas: Some((13, 0)),
            ..Parts::default()
        };
        let mut items = report().items;
        let behind = after_cuda(&items);
        items.splice(behind, clashes(&parts));
        let at = items.iter().position(|i| i.name == "NVRTC").expect("there");
        let text = Report { items, ok: false };
        let row = &text.items[at + 1];
        assert_eq!(row.verdict, Verdict::Clash);
        assert!(row.found.contains("cuBLAS is of CUDA 13.0"), "{row:?}");
        assert!(
            text.to_string()
                .contains("install the package nvidia-cublas-cu12"),
            "{text}"
        );
    }

    #[test]
    fn a_report_is_a_table_and_an_object() {
        let missing = item("thing", None, (Verdict::Missing, "not found", "get one"));
        let there = item("other", Some("1.0".into()), (Verdict::Missing, "", ""));
        let report = Report {
            items: vec![missing, there],
            ok: false,
        };
        let text = report.to_string();
        assert!(
            text.contains("MISSING  thing") && text.contains("get one"),
            "{text}"
        );
        let value = serde_json::to_value(&report).expect("plain data");
        assert_eq!(value["items"][1]["verdict"], "ok");
    }
}
