//! `halobook-kernel prepare`: what set-up does once so that no kernel start has to.
//!
//! The prelude was compiled, with all of polars, by the ordinary release build. Here that
//! compiled library is linked into one dynamic library: rustc reads the finished code and calls
//! the linker, nothing is compiled a second time. What rust-analyzer will ask is asked of cargo
//! once and kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::facts::Facts;
use super::graph;
use crate::cli::Options;

/// The whole source of the library: everything the prelude has, under the prelude's name.
const ROOT: &str = "pub use prelude_as_built::*;\n";

/// Prepares, or says that everything is prepared already.
///
/// # Errors
/// When the release build is missing or a tool fails.
pub fn main(options: &Options) -> Result<ExitCode> {
    let started = Instant::now();
    let target = match &options.target_dir {
        Some(dir) => std::path::absolute(dir)?,
        None => bail!("say where the release build is: `--target-dir DIR`"),
    };
    let out = match &options.out {
        Some(dir) => std::path::absolute(dir)?,
        None => target.join("prepared"),
    };
    let workspace = match &options.workspace {
        Some(dir) => std::path::absolute(dir)?,
        None => find_workspace()?,
    };
    let built = Built::find(&target)?;
    let toolchain = Toolchain::find()?;
    let key = key(&built, &toolchain, &workspace)?;
    if Facts::load(&out).is_ok_and(|facts| facts.key == key && facts.dylib.exists()) {
        println!("prepared already ({} ms)", started.elapsed().as_millis());
        return Ok(ExitCode::SUCCESS);
    }
    fs::create_dir_all(out.join("lib"))?;
    let graph_started = Instant::now();
    graph::store(&ask_for_graph(&workspace, &toolchain)?, &out)?;
    println!(
        "crate graph trimmed ({} ms)",
        graph_started.elapsed().as_millis()
    );
    let link_started = Instant::now();
    let dylib = link(&built, &toolchain, &out)?;
    let dylib_ms = u64::try_from(link_started.elapsed().as_millis())?;
    println!("prelude linked ({dylib_ms} ms)");
    let facts = Facts {
        key,
        cfg: toolchain.ask(&["--print", "cfg", "-O"])?,
        target_spec: toolchain.ask(&["-Zunstable-options", "--print", "target-spec-json"])?,
        cargo_version: output(Command::new(toolchain.sysroot.join("bin/cargo")).arg("--version"))?,
        rust_version: toolchain.version.clone(),
        sysroot: toolchain.sysroot,
        host: toolchain.host,
        dylib,
        deps: built.deps,
        dylib_ms,
    };
    facts.store(&out)?;
    println!(
        "prepared in {} ms: {}",
        started.elapsed().as_millis(),
        out.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// What the release build left.
struct Built {
    deps: PathBuf,
    rlib: PathBuf,
    stamp: (u64, u128),
}

impl Built {
    /// Finds the prelude's latest library. Which of its crates' files belong to it is written
    /// inside it, so older files beside them do no harm.
    fn find(target: &Path) -> Result<Built> {
        let deps = target.join("release/deps");
        let mut found: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&deps)
            .with_context(|| format!("there is no release build at {}", target.display()))?
        {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("libhalobook-") && name.ends_with(".rlib") {
                let facts = entry.metadata()?;
                found.push((facts.modified()?, facts.len(), entry.path()));
            }
        }
        found.sort();
        let (modified, len, rlib) = found
            .pop()
            .context("the prelude is not built; run `cargo build --release --workspace` first")?;
        let nanos = modified.duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
        Ok(Built {
            deps,
            rlib,
            stamp: (len, nanos),
        })
    }
}

/// The toolchain in use, past any proxy.
struct Toolchain {
    sysroot: PathBuf,
    host: String,
    version: String,
    verbose: String,
}

impl Toolchain {
    fn find() -> Result<Toolchain> {
        let sysroot = PathBuf::from(output(Command::new("rustc").args(["--print", "sysroot"]))?);
        let verbose = output(Command::new(sysroot.join("bin/rustc")).arg("-vV"))?;
        let line = |name: &str| {
            verbose
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(|value| value.trim().to_owned())
                .with_context(|| format!("rustc does not say its `{name}`"))
        };
        Ok(Toolchain {
            host: line("host:")?,
            version: line("release:")?,
            sysroot,
            verbose,
        })
    }

    fn ask(&self, args: &[&str]) -> Result<String> {
        // One of the questions is only answered by a compiler that may use unstable options.
        output(
            Command::new(self.sysroot.join("bin/rustc"))
                .env("RUSTC_BOOTSTRAP", "1")
                .args(args),
        )
    }
}

fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    ensure!(
        output.status.success(),
        "{:?} failed: {}",
        command.get_program(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// A text that differs when the prepared folder would.
fn key(built: &Built, toolchain: &Toolchain, workspace: &Path) -> Result<String> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    fs::read(workspace.join("Cargo.lock"))
        .context("the workspace has no Cargo.lock")?
        .hash(&mut hasher);
    toolchain.verbose.hash(&mut hasher);
    built.rlib.hash(&mut hasher);
    built.stamp.hash(&mut hasher);
    ROOT.hash(&mut hasher);
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

fn find_workspace() -> Result<PathBuf> {
    let here = std::env::current_dir()?;
    here.ancestors()
        .find(|dir| dir.join("Cargo.lock").exists() && dir.join("kernel-ext").exists())
        .map(Path::to_owned)
        .context("not inside the workspace; say where it is: `--workspace DIR`")
}

fn ask_for_graph(workspace: &Path, toolchain: &Toolchain) -> Result<Value> {
    let mut command = Command::new(toolchain.sysroot.join("bin/cargo"));
    command
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform",
        ])
        .arg(&toolchain.host)
        .current_dir(workspace);
    let answer = output(command.arg("--offline")).or_else(|_| {
        // Packages for other platforms need not have been downloaded; ask with the network.
        let mut command = Command::new(toolchain.sysroot.join("bin/cargo"));
        command
            .args(["metadata", "--format-version=1", "--filter-platform"])
            .arg(&toolchain.host)
            .current_dir(workspace);
        output(&mut command)
    })?;
    Ok(serde_json::from_str(&answer)?)
}

fn link(built: &Built, toolchain: &Toolchain, out: &Path) -> Result<PathBuf> {
    let root = out.join("root.rs");
    fs::write(&root, ROOT)?;
    let draft = out.join("draft");
    fs::create_dir_all(&draft)?;
    let mut rlib = std::ffi::OsString::from("--extern=prelude_as_built=");
    rlib.push(&built.rlib);
    let mut deps = std::ffi::OsString::from("-Ldependency=");
    deps.push(&built.deps);
    output(
        Command::new(toolchain.sysroot.join("bin/rustc"))
            .args(["--crate-name", "halobook", "--edition", "2024"])
            .args(["--crate-type", "dylib", "-Cprefer-dynamic", "-Copt-level=1"])
            .args(["-Cmetadata=halobook-cells", "-Cstrip=debuginfo"])
            .arg(rlib)
            .arg(deps)
            .arg("--out-dir")
            .arg(&draft)
            .arg(&root),
    )
    .context("the prelude cannot be linked")?;
    // Renamed into place: a running kernel keeps the file it has open.
    let dylib = out.join("lib/libhalobook.so");
    fs::rename(draft.join("libhalobook.so"), &dylib)?;
    fs::remove_dir_all(&draft)?;
    Ok(dylib)
}
