//! Step one: what the machine has, and `apt-get install` for what it lacks.

use crate::exec;
use crate::flow::{Step, Stop};
use crate::parts::{PARTS, Part};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Finds every part, installs the missing ones where that is possible, and says what was found.
///
/// # Errors
/// Exit status 2 when something is missing that cannot be installed from here.
pub fn provide(step: &mut Step) -> Result<(), Stop> {
    let missing = look(step);
    if missing.is_empty() {
        step.unchanged();
        return Ok(());
    }
    let packages = packages(&missing);
    let by_hand = format!(
        "as root: apt-get update && apt-get install -y {}   (on other systems: what brings {}), then run the same command again",
        packages.join(" "),
        names(&missing)
    );
    install(step, &packages, &are(&missing), &by_hand)?;
    let still = look(step);
    if still.is_empty() {
        Ok(())
    } else {
        let why = format!(
            "{} missing although the packages are installed",
            are(&still)
        );
        Err(Stop::by_hand(why, by_hand))
    }
}

/// Has apt-get install `packages`, since `what is` missing; `by_hand` is what to do where it cannot.
///
/// # Errors
/// Exit status 2 when they cannot be installed from here.
pub fn install(
    step: &mut Step,
    packages: &[&str],
    what_is: &str,
    by_hand: &str,
) -> Result<(), Stop> {
    let refuse = |why: &str| {
        let wrong = format!("{why}, and {what_is} missing");
        Err(Stop::by_hand(wrong, by_hand.into()))
    };
    if std::env::var_os("HALOBOOK_NO_INSTALL").is_some() {
        return refuse("HALOBOOK_NO_INSTALL is set");
    }
    if exec::output("apt-get", &["--version"]).is_none() {
        return refuse("this machine has no apt-get");
    }
    let Some(root) = Root::find() else {
        return refuse("this user is not root and has no sudo");
    };
    step.note(format!("installing {}", packages.join(" ")));
    // Stale lists are no failure: the install below is the one that decides.
    let _ = step.try_run(&mut root.apt(&["update"]))?;
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(packages);
    let (log, ended) = step.try_run(&mut root.apt(&install))?;
    match ended {
        exec::Ended::Failed(status) => {
            step.note(exec::tail(&log, 15));
            refuse(&format!(
                "apt-get {status} (no network, or no such package?)"
            ))
        }
        _ => Ok(()),
    }
}

/// The Debian packages of parts, each once.
fn packages(parts: &[&Part]) -> Vec<&'static str> {
    let mut all: Vec<&str> = Vec::new();
    for package in parts.iter().flat_map(|part| part.apt) {
        if !all.contains(package) {
            all.push(package);
        }
    }
    all
}

fn are(parts: &[&Part]) -> String {
    let verb = if parts.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names(parts))
}

fn names(parts: &[&Part]) -> String {
    let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
    names.join(", ")
}

/// Prints what is there and returns what is not.
fn look(step: &Step) -> Vec<&'static Part> {
    let mut missing = Vec::new();
    // A part of the toolchain has a step of its own: rustup brings it, not apt-get.
    let ours = |part: &&Part| !part.optional && part.name != crate::toolchain::PART;
    for part in PARTS.iter().filter(ours) {
        match probe(part.name).and_then(|look| look()) {
            Some(text) => step.note(format!(
                "{:<12} {}",
                part.name,
                text.lines().next().unwrap_or("").trim()
            )),
            None => {
                step.note(format!("{:<12} missing ({})", part.name, part.why));
                missing.push(part);
            }
        }
    }
    missing
}

/// What finds a part and describes it.
type Probe = fn() -> Option<String>;

/// The probe of a part by its name.
fn probe(part: &str) -> Option<Probe> {
    Some(match part {
        "Rust" => || exec::output("rustc", &["--version"]),
        "C compiler" => || compiler(None, &["cc", "gcc", "clang"]),
        // The one that the kernels' tests call; clang and gcc come without it on some systems.
        "C++ compiler" => || compiler(std::env::var("CXX").ok(), &["c++"]),
        "MPI" => mpi,
        "libclang" => libclang,
        "Python" => || crate::python::find().map(|python| python.describe()),
        _ => return None,
    })
}

/// The chosen compiler, or else the first of the usual names that answers.
fn compiler(chosen: Option<String>, usual: &[&str]) -> Option<String> {
    let says = |name: &str| exec::output(name, &["--version"]);
    match chosen {
        Some(name) => says(&name),
        None => usual.iter().find_map(|name| says(name)),
    }
}

/// An MPI is there when its compiler wrapper, its header and its launcher are: Debian has the
/// wrapper in one package and the header in another.
fn mpi() -> Option<String> {
    let launcher = ["mpirun", "mpiexec"]
        .iter()
        .find_map(|name| exec::output(name, &["--version"]))?;
    let wrapper = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".into());
    let shown = exec::output(wrapper, &["-show"])
        .or_else(|| exec::output("pkg-config", &["--cflags", "ompi"]))
        .or_else(|| exec::output("pkg-config", &["--cflags", "mpich"]))?;
    let folders = shown
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("-I"));
    let mut usual = folders.chain(["/usr/include", "/usr/local/include"]);
    let header = usual.find(|folder| Path::new(folder).join("mpi.h").is_file())?;
    let version = launcher.lines().next().unwrap_or("MPI").to_string();
    Some(format!("{version}, header in {header}"))
}

/// libclang is there when the library and its own headers (`stddef.h`) are.
fn libclang() -> Option<String> {
    let library = library_folders().into_iter().find_map(|folder| {
        std::fs::read_dir(&folder)
            .ok()?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("libclang.so")
                    || (name.starts_with("libclang-")
                        && name.contains(".so")
                        && !name.contains("cpp"))
            })
    })?;
    let headers = exec::output("clang", &["-print-resource-dir"])
        .map(|folder| PathBuf::from(folder.trim()))
        .filter(|folder| folder.join("include/stddef.h").is_file())
        .or_else(|| resource_folder(&library))?;
    Some(format!(
        "{}, headers in {}",
        library.display(),
        headers.display()
    ))
}

/// Where bindgen looks too: `LIBCLANG_PATH`, `llvm-config`, then the usual folders.
fn library_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    folders.extend(std::env::var_os("LIBCLANG_PATH").map(PathBuf::from));
    if let Some(folder) = exec::output("llvm-config", &["--libdir"]) {
        folders.push(folder.trim().into());
    }
    folders.extend(std::env::var_os("CONDA_PREFIX").map(|prefix| Path::new(&prefix).join("lib")));
    folders.extend(llvm_folders());
    for folder in [
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib64",
        "/usr/local/lib",
        "/lib",
    ] {
        folders.push(folder.into());
    }
    let multiarch = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    folders.extend(
        multiarch
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().contains("-linux-gnu")),
    );
    folders
}

/// `/usr/lib/llvm-N/lib`, newest first.
fn llvm_folders() -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix("llvm-")?.parse().ok()?;
            Some((version, entry.path().join("lib")))
        })
        .collect();
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    found.into_iter().map(|(_, path)| path).collect()
}

/// `…/lib/clang/N`, seen from a libclang.
fn resource_folder(library: &Path) -> Option<PathBuf> {
    let beside = std::fs::canonicalize(library).ok()?.parent()?.join("clang");
    let roots = [beside, "/usr/lib/clang".into()].into_iter().chain(
        llvm_folders()
            .into_iter()
            .map(|folder| folder.join("clang")),
    );
    roots
        .flat_map(|root| std::fs::read_dir(root).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .find(|folder| folder.join("include/stddef.h").is_file())
}

/// How this user becomes root.
enum Root {
    Already,
    Sudo,
}

impl Root {
    fn find() -> Option<Self> {
        use std::io::IsTerminal as _;
        use std::os::unix::fs::MetadataExt as _;
        if std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0) {
            return Some(Self::Already);
        }
        let silent = exec::output("sudo", &["-n", "true"]).is_some();
        // With a terminal, sudo can ask there even though our own input is not one.
        let asks =
            std::io::stderr().is_terminal() && exec::output("sudo", &["--version"]).is_some();
        (silent || asks).then_some(Self::Sudo)
    }

    fn apt(&self, args: &[&str]) -> Command {
        let mut command = match self {
            Self::Already => Command::new("env"),
            Self::Sudo => {
                let mut command = Command::new("sudo");
                command.arg("env");
                command
            }
        };
        command
            .arg("DEBIAN_FRONTEND=noninteractive")
            .arg("apt-get")
            .args(args);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_that_debian_brings_has_a_probe() {
        let brought = PARTS.iter().filter(|part| !part.apt.is_empty());
        let without: Vec<&str> = brought
            .map(|part| part.name)
            .filter(|name| probe(name).is_none())
            .collect();
        assert_eq!(without, Vec::<&str>::new());
    }

    #[test]
    fn a_compiler_of_c_is_none_of_cpp() {
        let absent = "no-such-compiler-anywhere";
        assert_eq!(compiler(None, &[absent]), None);
        assert_eq!(
            compiler(Some(absent.into()), &["cc"]),
            None,
            "the chosen one counts"
        );
        assert_eq!(
            compiler(None, &[absent, "cc"]),
            compiler(Some("cc".into()), &[])
        );
    }

    #[test]
    fn two_missing_compilers_are_one_package() {
        let compilers = |part: &&Part| part.name.ends_with("compiler");
        let missing: Vec<&Part> = PARTS.iter().filter(compilers).collect();
        assert_eq!(
            (missing.len(), packages(&missing)),
            (2, vec!["build-essential"])
        );
    }
}
