//! This binary under the names `cargo` and `rustup`.
//!
//! evcxr and rust-analyzer find their tools by path, and in a kernel's environment the path
//! leads here. A cell that needs nothing beyond the prelude goes to rustc directly ([`Cell`]); questions
//! about the crate graph and the toolchain are answered from the prepared folder; everything
//! else goes to the real tool with the user's own environment.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::attempts::Cell;
use super::facts::Facts;
use super::{CARGO_HOME_ENV, PATH_ENV, PREPARED_ENV, SCRATCH_ENV, graph, scratch};

/// Plays the tool whose name this program was called by; `None` when it is called by its own.
pub fn dispatch() -> Option<ExitCode> {
    let name = std::env::args_os().next()?;
    let name = Path::new(&name).file_name()?.to_str()?.to_owned();
    let play = match name.as_str() {
        "cargo" => cargo,
        "rustup" => rustup,
        _ => return None,
    };
    Some(play().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(101)
    }))
}

/// The place we were called in.
pub(super) struct Shim {
    prepared: PathBuf,
    pub(super) facts: Facts,
    args: Vec<String>,
    /// The folder of the crate asked about.
    pub(super) root: PathBuf,
}

impl Shim {
    fn open() -> Result<Shim> {
        let prepared = PathBuf::from(
            std::env::var_os(PREPARED_ENV).context("this `cargo` only works inside a kernel")?,
        );
        let facts = Facts::load(&prepared)?;
        let args: Vec<String> = std::env::args().skip(1).collect();
        let manifest = args
            .iter()
            .position(|arg| arg == "--manifest-path")
            .and_then(|at| args.get(at + 1));
        let root = match manifest {
            Some(manifest) => Path::new(manifest)
                .parent()
                .unwrap_or(Path::new("/"))
                .to_owned(),
            None => std::env::current_dir()?,
        };
        Ok(Shim {
            prepared,
            facts,
            args,
            root,
        })
    }

    fn has(&self, word: &str) -> bool {
        self.args.iter().any(|arg| arg == word)
    }

    /// The real tool with the environment from before the kernel.
    pub(super) fn real(&self, tool: &Path) -> Command {
        let mut command = Command::new(tool);
        restore_environment(&mut command);
        command
    }

    /// Becomes the real tool.
    fn pass(&self, tool: &Path) -> Result<ExitCode> {
        let error = self.real(tool).args(&self.args).exec();
        Err(error).with_context(|| format!("cannot start {}", tool.display()))
    }
}

/// Gives `command` the environment that the kernel was started with.
pub fn restore_environment(command: &mut Command) {
    if let Some(path) = std::env::var_os(PATH_ENV) {
        command.env("PATH", path);
    }
    match std::env::var_os(CARGO_HOME_ENV) {
        Some(home) if !home.is_empty() => command.env("CARGO_HOME", home),
        Some(_) => command.env_remove("CARGO_HOME"),
        None => command,
    };
}

fn rustup() -> Result<ExitCode> {
    let shim = Shim::open()?;
    if let [which, tool] = shim.args.as_slice()
        && which == "which"
    {
        let scratch = std::env::var_os(SCRATCH_ENV).context("not inside a kernel")?;
        println!("{}", Path::new(&scratch).join("bin").join(tool).display());
        return Ok(ExitCode::SUCCESS);
    }
    // The real rustup lies in the user's own path; our folder is no longer in it.
    shim.pass(Path::new("rustup"))
}

fn cargo() -> Result<ExitCode> {
    let shim = Shim::open()?;
    let manifest = Manifest::read(&shim.root);
    if shim.has("metadata") {
        return metadata(&shim, &manifest);
    }
    if shim.has("locate-project") {
        let file = shim.root.join("Cargo.toml");
        return say(&json!({ "root": file.to_string_lossy() }).to_string());
    }
    if shim.args == ["--version"] {
        return say(shim.facts.cargo_version.trim());
    }
    if manifest.is_cell {
        if shim.has("--print") && shim.has("cfg") {
            return say(shim.facts.cfg.trim());
        }
        if shim.has("--print") && shim.has("target-spec-json") {
            return say(shim.facts.target_spec.trim());
        }
        if shim.has("config") && shim.has("get") {
            // An empty configuration: the host is the only target.
            return Ok(ExitCode::FAILURE);
        }
        let building = shim.has("build");
        if building || shim.has("check") {
            let unusual = std::env::var("RUSTFLAGS").is_ok_and(|flags| flags.contains("-Z"))
                || std::env::var_os("RUSTC_WRAPPER").is_some();
            if manifest.plain && !unusual {
                let opt_level = &manifest.opt_level;
                let shim = &shim;
                return Cell {
                    shim,
                    opt_level,
                    building,
                }
                .compile();
            }
            return build_with_dependencies(&shim);
        }
    }
    shim.pass(&shim.facts.cargo())
}

fn say(text: &str) -> Result<ExitCode> {
    println!("{text}");
    Ok(ExitCode::SUCCESS)
}

/// What matters of the manifest that evcxr wrote.
struct Manifest {
    /// It is the crate of a cell.
    is_cell: bool,
    /// It has no dependency of its own.
    plain: bool,
    opt_level: String,
}

impl Manifest {
    fn read(root: &Path) -> Manifest {
        let text = fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
        Manifest::parse(&text)
    }

    fn parse(text: &str) -> Manifest {
        let value = |key: &str| {
            text.lines().find_map(|line| {
                let (name, value) = line.split_once('=')?;
                (name.trim() == key).then(|| value.trim().trim_matches('"').to_owned())
            })
        };
        let dependencies = text
            .split_once("[dependencies]")
            .map_or("", |(_, rest)| rest);
        Manifest {
            is_cell: value("name").as_deref() == Some("ctx"),
            plain: dependencies.trim().is_empty(),
            opt_level: value("opt-level").unwrap_or_else(|| "0".to_owned()),
        }
    }
}

/// evcxr first calls `evcxr_display()` on a cell's last value and does without where that fails. Of a number
/// whose type is open, rustc says so at the number's `let` too; evcxr would take that for the cell's own
/// error and give up on `let a = 1; a`. So it is not told.
pub(super) fn own_error(message: &mut Value) {
    let lines = |span: &Value| span["text"].to_string().contains(").evcxr_display();");
    let displays = message["spans"]
        .as_array()
        .is_some_and(|all| all.iter().any(lines));
    if displays && message["code"]["code"] == "E0689" {
        message["children"] = json!([]);
    }
}

/// Waits for a compiler; an interrupt of the cell ends it, and what it has started in its group.
pub(super) fn unless_cancelled(child: &mut Child) -> Result<ExitStatus> {
    let cancel = scratch::flags().map(|flags| flags.cancel());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if cancel.as_ref().is_some_and(|flag| flag.exists()) {
            launcher::sys::signal_group(child.id(), libc::SIGTERM);
            let _ = child.kill();
            return Ok(child.wait()?);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// `flag` with a path right behind it.
pub(super) fn path_flag(flag: &str, path: &Path) -> OsString {
    let mut whole = OsString::from(flag);
    whole.push(path);
    whole
}

/// A cell with crates of the user's: cargo builds them, and the prelude is added by flags.
fn build_with_dependencies(shim: &Shim) -> Result<ExitCode> {
    let library = shim.facts.dylib.parent().unwrap_or(Path::new("."));
    let mut flags: Vec<OsString> = std::env::var("RUSTFLAGS")
        .unwrap_or_default()
        .split_whitespace()
        .map(OsString::from)
        .collect();
    flags.push(path_flag("--extern=halobook=", &shim.facts.dylib));
    flags.push(path_flag("-Ldependency=", &shim.facts.deps));
    flags.push(path_flag("-Clink-arg=-Wl,-rpath,", library));
    let mut command = shim.real(&shim.facts.cargo());
    command.args(&shim.args).env_remove("RUSTFLAGS").env(
        "CARGO_ENCODED_RUSTFLAGS",
        flags.join(std::ffi::OsStr::new("\u{1f}")),
    );
    // A group of its own, so that its compilers end with it.
    let mut child = command
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let stdout = child
        .stdout
        .take()
        .context("cargo has no standard output")?;
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(stdout).lines();
        for line in lines.map_while(Result::ok) {
            match serde_json::from_str::<Value>(&line) {
                Ok(mut wrapped) => {
                    wrapped.get_mut("message").map(own_error);
                    println!("{wrapped}");
                }
                Err(_) => println!("{line}"),
            }
        }
    });
    let status = unless_cancelled(&mut child)?;
    let _ = reader.join();
    if status.success()
        && let Some(flags) = scratch::flags()
    {
        fs::write(flags.compiled(), "")?;
    }
    Ok(ExitCode::from(if status.success() { 0 } else { 101 }))
}

fn metadata(shim: &Shim, manifest: &Manifest) -> Result<ExitCode> {
    if shim.root.starts_with(&shim.facts.sysroot) {
        // rust-analyzer then puts the standard library together without its dependencies,
        // which no signature needs.
        return Ok(ExitCode::FAILURE);
    }
    if !manifest.is_cell {
        return shim.pass(&shim.facts.cargo());
    }
    let prelude = graph::load(&shim.prepared, &shim.root)?;
    if manifest.plain {
        return say(&prelude.to_string());
    }
    let output = shim
        .real(&shim.facts.cargo())
        .args(&shim.args)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() || shim.has("--no-deps") {
        std::io::stdout().write_all(&output.stdout)?;
        return Ok(ExitCode::from(if output.status.success() {
            0
        } else {
            101
        }));
    }
    let users: Value = serde_json::from_slice(&output.stdout)?;
    say(&graph::merge(users, &prelude).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests() {
        let cell = "[package]\nname = \"ctx\"\n[profile.dev]\nopt-level = 2\n\n[dependencies]\n\n";
        let parsed = Manifest::parse(cell);
        assert!(parsed.is_cell && parsed.plain);
        assert_eq!(parsed.opt_level, "2");
        assert!(!Manifest::parse(&format!("{cell}rand = \"0.8\"\n")).plain);
        assert!(!Manifest::parse("[package]\nname = \"other\"\n").is_cell);
    }

    #[test]
    fn a_number_of_open_type_is_only_the_displays_trouble() {
        let error = |text: &str, code: &str| {
            let span = json!({ "text": [{ "text": text }] });
            json!({ "code": { "code": code }, "spans": [span], "children": [{}] })
        };
        for (text, code, left) in [
            (").evcxr_display();", "E0689", 0),
            (").evcxr_display();", "E0599", 1),
            ("x.powi(2)", "E0689", 1),
        ] {
            let mut message = error(text, code);
            own_error(&mut message);
            assert_eq!(message["children"].as_array().map(Vec::len), Some(left));
        }
    }
}
