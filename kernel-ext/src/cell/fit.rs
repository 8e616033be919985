//! Whether what set-up prepared still fits: the toolchain it was made with, and the build it was made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::facts::Facts;

/// What a prepared folder was made of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Origin {
    /// Cargo's target folder.
    pub target: PathBuf,
    /// The workspace.
    pub workspace: PathBuf,
    /// Where the prepared versions lie.
    pub out: PathBuf,
    /// The prelude's library there.
    pub rlib: PathBuf,
    /// Its length and time.
    pub stamp: Stamp,
    /// The compiler.
    pub compiler: Option<String>,
}

/// Length and time of a file, in nanoseconds.
pub type Stamp = (u64, u128);

/// The stamp of a file; none where there is none.
pub fn stamp(file: &Path) -> Option<Stamp> {
    let facts = fs::metadata(file).ok()?;
    let modified = facts.modified().ok()?;
    let nanos = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some((facts.len(), nanos.as_nanos()))
}

/// The compiler of a toolchain: the name of its main library has a hash of it.
pub fn compiler(sysroot: &Path) -> Option<String> {
    let entries = fs::read_dir(sysroot.join("lib")).ok()?;
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with("librustc_driver"))
        .min()
}

/// How what is prepared stands to what is there now.
#[derive(Debug, PartialEq, Eq)]
enum Fit {
    /// It can be used.
    Fits,
    /// It can be made anew from what is there; why it has to be.
    Anew(&'static str),
    /// It cannot be used, for this reason.
    Useless(String),
}

fn fit(facts: &Facts) -> Fit {
    // Nothing is known of what earlier versions prepared.
    let Some(origin) = &facts.origin else {
        return Fit::Fits;
    };
    let now = compiler(&facts.sysroot);
    if now.is_none() || now != origin.compiler {
        let before = &facts.rust_version;
        return Fit::Useless(format!(
            "the Rust toolchain has changed since Halobook was set up (with Rust {before})"
        ));
    }
    if !facts.dylib.exists() {
        return Fit::Anew("a part of it is gone");
    }
    match stamp(&origin.rlib) {
        Some(now) if now != origin.stamp => Fit::Anew("Halobook was built again since"),
        _ => Fit::Fits,
    }
}

/// What a kernel is to start with.
#[derive(Debug, Default)]
pub struct Ready {
    /// The version of the prepared folder; without one cells run on plain evcxr and know no prelude.
    pub version: Option<PathBuf>,
    /// What the user of the kernel should know, with the first cell.
    pub note: Option<String>,
}

/// What is prepared, made anew where it no longer fits and that can be done. `version` finds what to
/// start with.
pub fn ready(version: impl Fn() -> Option<PathBuf>) -> Ready {
    let Some(dir) = version() else {
        return Ready::default();
    };
    let Ok(facts) = Facts::load(&dir) else {
        return Ready {
            version: None,
            note: Some(unprepared(&format!(
                "nothing is prepared at {}",
                dir.display()
            ))),
        };
    };
    let why = match fit(&facts) {
        Fit::Fits => {
            return Ready {
                version: Some(dir),
                note: None,
            };
        }
        Fit::Useless(why) => {
            return Ready {
                version: None,
                note: Some(unprepared(&why)),
            };
        }
        Fit::Anew(why) => why,
    };
    let out_of_date = |version, error: &str| Ready {
        version,
        note: Some(format!(
            "note: what is prepared is out of date ({why}) and cannot be made anew: {error}\n\
             help: run `cargo quickstart`, then start the kernel again"
        )),
    };
    let usable = || facts.dylib.exists().then(|| dir.clone());
    let Some(origin) = &facts.origin else {
        return out_of_date(usable(), "nobody knows what it was made of");
    };
    if let Some(error) = failed_before(origin) {
        return out_of_date(usable(), &error);
    }
    let began = Instant::now();
    eprintln!("halobook-kernel: what is prepared is out of date ({why}); making it anew");
    match renew(origin) {
        Ok(()) => Ready {
            version: version(),
            note: Some(format!(
                "note: what is prepared was out of date ({why}); it was made anew in {:.1} s",
                began.elapsed().as_secs_f64()
            )),
        },
        Err(error) => {
            // The next kernel need not wait for the same. A folder that cannot be written forgets it.
            let failure = Failure {
                stamp: stamp(&origin.rlib),
                error,
            };
            if let Ok(text) = serde_json::to_vec(&failure) {
                let _ = fs::write(origin.out.join(FAILED), text);
            }
            out_of_date(usable(), &failure.error)
        }
    }
}

/// A build of which nothing could be prepared, half of one for example.
#[derive(Serialize, Deserialize)]
struct Failure {
    stamp: Option<Stamp>,
    error: String,
}

/// The file of the last [`Failure`], beside the prepared versions.
const FAILED: &str = "failed.json";

/// Why nothing could be prepared of the very build that is there now, if that was tried.
fn failed_before(origin: &Origin) -> Option<String> {
    let text = fs::read(origin.out.join(FAILED)).ok()?;
    let failure: Failure = serde_json::from_slice(&text).ok()?;
    (failure.stamp == stamp(&origin.rlib)).then_some(failure.error)
}

fn unprepared(why: &str) -> String {
    format!(
        "note: {why}; frames, runs and plots are not known to Rust cells, magics are\n\
         help: run `cargo quickstart`, then start the kernel again"
    )
}

/// `halobook-kernel prepare` from the same build.
fn renew(origin: &Origin) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let ran = Command::new(program)
        .arg("prepare")
        .arg("--target-dir")
        .arg(&origin.target)
        .arg("--out")
        .arg(&origin.out)
        .arg("--workspace")
        .arg(&origin.workspace)
        .stdin(Stdio::null())
        .output();
    let ran = ran.map_err(|e| e.to_string())?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    let first = said.lines().next().unwrap_or("it says nothing");
    Err(first.trim_start_matches("error: ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Facts of a folder made up for a test: a toolchain, a build and what was prepared of them.
    fn facts(root: &Path) -> Facts {
        let sysroot = root.join("toolchain");
        fs::create_dir_all(sysroot.join("lib")).expect("folder");
        fs::write(sysroot.join("lib/librustc_driver-1.so"), "").expect("file");
        let (rlib, dylib) = (root.join("libhalobook.rlib"), root.join("libhalobook.so"));
        fs::write(&rlib, "built").expect("file");
        fs::write(&dylib, "linked").expect("file");
        let mut facts: Facts = serde_json::from_value(serde_json::json!({
            "key": "", "sysroot": sysroot, "host": "", "cargo_version": "", "rust_version": "1.2.3",
            "dylib": dylib, "stand_in": "", "described": "", "deps": "", "rlib": "", "mpi": null,
            "ranks": null, "std": null, "native": [], "cfg": "", "target_spec": "", "dylib_ms": 0,
        }))
        .expect("facts");
        assert_eq!(fit(&facts), Fit::Fits, "of an earlier version");
        facts.origin = Some(Origin {
            target: root.to_owned(),
            workspace: root.to_owned(),
            out: root.to_owned(),
            stamp: stamp(&rlib).expect("it is there"),
            rlib,
            compiler: compiler(&sysroot),
        });
        facts
    }

    #[test]
    fn another_toolchain_another_build_and_a_missing_part_are_seen() {
        let root = std::env::temp_dir().join(format!("halobook-fit-{}", std::process::id()));
        let facts = facts(&root);
        assert_eq!(fit(&facts), Fit::Fits);
        fs::write(root.join("libhalobook.rlib"), "built again").expect("file");
        assert_eq!(fit(&facts), Fit::Anew("Halobook was built again since"));
        let origin = facts.origin.as_ref().expect("it is known");
        let failure = Failure {
            stamp: stamp(&origin.rlib),
            error: "half a build".to_owned(),
        };
        let text = serde_json::to_vec(&failure).expect("plain words");
        fs::write(root.join(FAILED), text).expect("file");
        assert_eq!(failed_before(origin).as_deref(), Some("half a build"));
        fs::write(root.join("libhalobook.rlib"), "built a third time").expect("file");
        assert_eq!(failed_before(origin), None, "another build is tried");
        fs::remove_file(root.join("libhalobook.rlib")).expect("file");
        assert_eq!(
            fit(&facts),
            Fit::Fits,
            "whoever removes a build keeps what is prepared"
        );
        fs::remove_file(&facts.dylib).expect("file");
        assert_eq!(fit(&facts), Fit::Anew("a part of it is gone"));
        let lib = facts.sysroot.join("lib");
        fs::rename(
            lib.join("librustc_driver-1.so"),
            lib.join("librustc_driver-2.so"),
        )
        .expect("file");
        let Fit::Useless(why) = fit(&facts) else {
            panic!("it was made with another compiler");
        };
        assert!(why.contains("1.2.3"), "{why}");
        fs::remove_dir_all(&root).expect("folder");
    }
}
