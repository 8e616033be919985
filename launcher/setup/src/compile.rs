//! Building: the workspace, the prelude that cells use, and a clean environment for cargo.

use crate::flow::{Step, Stop};
use crate::places::Places;
use std::process::Command;

/// Cargo, as this process was called by it, without what `cargo run` left in the environment.
///
/// Left in place, those variables would make build scripts run again (and with them everything
/// that depends on them) whenever quickstart and a plain `cargo build` take turns.
pub fn cargo(places: &Places) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(&places.root);
    clean(&mut command);
    command.env("CARGO_TERM_COLOR", "never");
    command
}

/// Takes out of a command's environment what `cargo run` put into ours.
pub fn clean(command: &mut Command) {
    const OURS: [&str; 5] = [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_NAME",
        "CARGO_PRIMARY_PACKAGE",
    ];
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if OURS.iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(&*name);
        }
    }
    if let Some(paths) = std::env::var_os("LD_LIBRARY_PATH") {
        let added = |path: &std::path::Path| {
            path.ends_with("release")
                || path.ends_with("deps")
                || path.ends_with("x86_64-unknown-linux-gnu/lib")
                || path.to_string_lossy().contains("/toolchains/")
        };
        let kept: Vec<_> = std::env::split_paths(&paths)
            .filter(|path| !added(path))
            .collect();
        match std::env::join_paths(&kept) {
            Ok(joined) if !kept.is_empty() => command.env("LD_LIBRARY_PATH", joined),
            _ => command.env_remove("LD_LIBRARY_PATH"),
        };
    }
}

/// `cargo build --release` of everything that is run. Cargo itself knows what is unchanged.
///
/// The selection is the whole workspace, as in `cargo test --workspace`: features are unified over
/// the selected packages, so a narrower one would compile heavy dependencies a second time.
///
/// # Errors
/// When cargo fails.
pub fn workspace(step: &mut Step, places: &Places) -> Result<(), Stop> {
    let mut build = cargo(places);
    let log = step.run(build.args(["build", "--release", "--workspace"]))?;
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let compiled = text
        .lines()
        .filter(|line| line.trim_start().starts_with("Compiling"))
        .count();
    if compiled == 0 {
        step.unchanged();
    } else {
        step.note(format!("{compiled} crates compiled"));
    }
    Ok(())
}

/// `halobook-kernel prepare`: the prebuilt prelude and what kernels start from. It knows itself
/// whether anything has changed.
///
/// # Errors
/// When it fails.
pub fn prelude(step: &mut Step, places: &Places) -> Result<(), Stop> {
    let mut prepare = Command::new(places.binary("halobook-kernel"));
    prepare.current_dir(&places.root);
    clean(&mut prepare);
    let log = step.run(
        prepare
            .arg("prepare")
            .arg("--target-dir")
            .arg(&places.target),
    )?;
    let last = crate::exec::tail(&log, 1);
    if last.starts_with("prepared already") {
        step.unchanged();
    }
    step.note(last);
    Ok(())
}

/// Installs the kernelspec `halobook` into the Jupyter environment.
///
/// # Errors
/// When the kernel binary fails.
pub fn kernelspec(step: &mut Step, places: &Places) -> Result<(), Stop> {
    let mut install = Command::new(places.binary("halobook-kernel"));
    install.current_dir(&places.root);
    clean(&mut install);
    step.run(install.arg("install").arg("--prefix").arg(places.venv()))?;
    Ok(())
}
