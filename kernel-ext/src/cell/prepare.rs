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

use super::built::{Built, first_that_links, native};
use super::facts::Facts;
use super::fit::{self, Origin};
use super::{CURRENT, graph, outline, stand_in, variables};
use crate::cli::Options;

/// The whole source of a rank of a pool.
const RANKS: &str = r#"fn main() {
    match gnn_mpi::init() {
        Ok(transport) => halobook::ranks::serve(transport),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}
"#;

/// Changes when what lies in a prepared folder does.
const LAYOUT: u32 = 6;

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
    let _alone = alone(&out)?;
    let built = Built::find(&target)?;
    let toolchain = Toolchain::find()?;
    let key = key(&built, &toolchain, &workspace)?;
    let version = out.join(&key);
    if Facts::load(&version).is_ok_and(|facts| facts.dylib.exists()) {
        point_at(&out, &key)?;
        println!("prepared already ({} ms)", started.elapsed().as_millis());
        return Ok(ExitCode::SUCCESS);
    }
    fs::create_dir_all(version.join("lib"))?;
    let graph_started = Instant::now();
    graph::store(&ask_for_graph(&workspace, &toolchain)?, &version)?;
    let std = outline_std(&toolchain, &version)?;
    println!(
        "crates outlined ({} ms)",
        graph_started.elapsed().as_millis()
    );
    let link_started = Instant::now();
    let deps = keep(&built.deps, &version)?;
    let dylib = link(&built, &deps, &toolchain, &version)?;
    let stand_in = stand_in::make(&dylib, &version.join("stand-in"), &linker())?;
    let described = describe(&deps, &version)?;
    let native = native(&target);
    let variables = variables::make(&toolchain.sysroot.join("bin/rustc"), &version.join("lib"))?;
    let kept = |built: &Path| deps.join(built.file_name().unwrap_or_default());
    let link_of = |mpi: &Path| link_ranks(&dylib, mpi, &native, &deps, &toolchain, &version);
    let mpi = built.mpi.iter().map(|mpi| kept(mpi));
    let (mpi, ranks) = first_that_links(mpi, link_of)?.unzip();
    let dylib_ms = u64::try_from(link_started.elapsed().as_millis())?;
    println!("prelude linked ({dylib_ms} ms)");
    let facts = Facts {
        key: key.clone(),
        cfg: toolchain.ask(&["--print", "cfg", "-O"])?,
        target_spec: toolchain.ask(&["-Zunstable-options", "--print", "target-spec-json"])?,
        cargo_version: output(Command::new(toolchain.sysroot.join("bin/cargo")).arg("--version"))?,
        rust_version: toolchain.version.clone(),
        origin: Some(Origin {
            target,
            workspace,
            out: out.clone(),
            rlib: built.rlib.clone(),
            stamp: built.stamps[0],
            compiler: fit::compiler(&toolchain.sysroot),
        }),
        sysroot: toolchain.sysroot,
        host: toolchain.host,
        dylib,
        stand_in,
        described,
        rlib: kept(&built.rlib),
        mpi,
        native,
        std,
        variables: Some(variables),
        ranks,
        deps,
        dylib_ms,
    };
    facts.store(&version)?;
    point_at(&out, &key)?;
    tidy(&out, &key);
    println!(
        "prepared in {} ms: {}",
        started.elapsed().as_millis(),
        out.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Waits until no other process prepares here, and keeps others waiting while it lives.
fn alone(out: &Path) -> Result<fs::File> {
    fs::create_dir_all(out)?;
    let path = out.join("lock");
    let file =
        fs::File::create(&path).with_context(|| format!("{} cannot be written", path.display()))?;
    file.lock()?;
    Ok(file)
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
    built.stamps.hash(&mut hasher);
    (ROOT, RANKS, variables::SOURCE, LAYOUT).hash(&mut hasher);
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

/// Keeps the compiled crates as they are now, as hard links: a later build replaces files in
/// cargo's folder, and kernels that run by then must not notice.
fn keep(deps: &Path, version: &Path) -> Result<PathBuf> {
    let kept = version.join("deps");
    fs::create_dir_all(&kept)?;
    for entry in fs::read_dir(deps)?.flatten() {
        let name = entry.file_name();
        let text = name.to_string_lossy();
        let library = text.starts_with("lib")
            && [".rlib", ".rmeta", ".so"]
                .iter()
                .any(|end| text.ends_with(end));
        let to = kept.join(&name);
        // A build under way may take a file from under us; if it matters, linking will say so.
        if library && !to.exists() && fs::hard_link(entry.path(), &to).is_err() {
            let _ = fs::copy(entry.path(), &to);
        }
    }
    Ok(kept)
}

/// The standard library's outline, where its sources are installed.
fn outline_std(toolchain: &Toolchain, version: &Path) -> Result<Option<PathBuf>> {
    let sources = toolchain.sysroot.join("lib/rustlib/src/rust/library");
    if !sources.join("core").exists() {
        return Ok(None);
    }
    let outline = version.join("outlines/std");
    // Nothing of these is declared in the library that programs see.
    let without = [
        "alloctests",
        "benches",
        "compiler-builtins",
        "coretests",
        "examples",
        "stdarch-test",
        "tests",
    ];
    outline::folder(&sources, &outline, &without)?;
    Ok(Some(outline))
}

/// The same crates without their code, which is all that compiling a cell needs: a compiler that finds
/// both looks into the larger one.
fn describe(deps: &Path, version: &Path) -> Result<PathBuf> {
    let described = version.join("described");
    fs::create_dir_all(&described)?;
    for entry in fs::read_dir(deps)?.flatten() {
        let name = entry.file_name();
        let text = name.to_string_lossy();
        let to = described.join(&name);
        if !text.ends_with(".rlib") && !to.exists() {
            fs::hard_link(entry.path(), &to).or_else(|_| fs::copy(entry.path(), &to).map(drop))?;
        }
    }
    Ok(described)
}

/// The C compiler that links, as rustc would choose it.
fn linker() -> String {
    let named = std::env::var("CC").ok().filter(|name| !name.is_empty());
    named.unwrap_or_else(|| "cc".to_owned())
}

/// Makes `key` what the next kernel starts with.
fn point_at(out: &Path, key: &str) -> Result<()> {
    let draft = out.join(format!("current.{}", std::process::id()));
    std::os::unix::fs::symlink(key, &draft)?;
    fs::rename(&draft, out.join(CURRENT))?;
    Ok(())
}

/// Removes versions older than the last two; a kernel may still run in the one before.
fn tidy(out: &Path, key: &str) {
    let mut old: Vec<(SystemTime, PathBuf)> = fs::read_dir(out)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name() != key && entry.file_type().is_ok_and(|t| t.is_dir()))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    old.sort();
    old.pop();
    for (_, dir) in old {
        let _ = fs::remove_dir_all(dir);
    }
}

fn link(built: &Built, deps: &Path, toolchain: &Toolchain, out: &Path) -> Result<PathBuf> {
    let root = out.join("root.rs");
    fs::write(&root, ROOT)?;
    let draft = out.join("draft");
    fs::create_dir_all(&draft)?;
    let mut rlib = std::ffi::OsString::from("--extern=prelude_as_built=");
    rlib.push(deps.join(built.rlib.file_name().unwrap_or_default()));
    let mut search = std::ffi::OsString::from("-Ldependency=");
    search.push(deps);
    output(
        Command::new(toolchain.sysroot.join("bin/rustc"))
            .args(["--crate-name", "halobook", "--edition", "2024"])
            .args(["--crate-type", "dylib", "-Cprefer-dynamic", "-Copt-level=1"])
            .args(["-Cmetadata=halobook-cells", "-Cstrip=debuginfo"])
            // Its own symbols are its own: else half a million of them are looked up whenever a
            // process loads it.
            .arg("-Clink-arg=-Wl,-Bsymbolic")
            .arg(rlib)
            .arg(search)
            .arg("--out-dir")
            .arg(&draft)
            .arg(&root),
    )
    .context("the prelude cannot be linked")?;
    let dylib = out.join("lib/libhalobook.so");
    fs::rename(draft.join("libhalobook.so"), &dylib)?;
    fs::remove_dir_all(&draft)?;
    Ok(dylib)
}

/// The program of a rank that loads cells: it has the prelude from the same library as they.
fn link_ranks(
    dylib: &Path,
    mpi: &Path,
    native: &[String],
    deps: &Path,
    toolchain: &Toolchain,
    out: &Path,
) -> Result<PathBuf> {
    let main = out.join("ranks.rs");
    fs::write(&main, RANKS)?;
    let program = out.join("lib/halobook-ranks");
    let flag = |flag: &str, path: &Path| {
        let mut whole = std::ffi::OsString::from(flag);
        whole.push(path);
        whole
    };
    let std = toolchain.sysroot.join("lib/rustlib");
    let std = std.join(&toolchain.host).join("lib");
    output(
        Command::new(toolchain.sysroot.join("bin/rustc"))
            .args(["--crate-name", "halobook_ranks", "--edition", "2024"])
            .args(["--crate-type", "bin", "-Cprefer-dynamic", "-Copt-level=2"])
            .arg("-Cstrip=debuginfo")
            .arg(flag("--extern=halobook=", dylib))
            .arg(flag("--extern=gnn_mpi=", mpi))
            .arg(flag("-Ldependency=", deps))
            .args(native.iter().map(|place| format!("-L{place}")))
            .arg(flag("-Clink-arg=-Wl,-rpath,", &out.join("lib")))
            .arg(flag("-Clink-arg=-Wl,-rpath,", &std))
            .arg("-o")
            .arg(&program)
            .arg(&main),
    )
    .context("the program of a rank cannot be linked")?;
    Ok(program)
}
