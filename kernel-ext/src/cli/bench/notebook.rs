//! `halobook bench notebook`: the cell path timed by a Jupyter client.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// What times it, in a Python that has `jupyter_client`.
const SCRIPT: &str = include_str!("notebook.py");

/// Times the kernel `--kernel` (halobook), with `--against` another one by turns; without `--json` the object
/// at the end is left out.
///
/// # Errors
/// A wrong flag, a Python without `jupyter_client`, a cell that fails.
pub fn notebook(words: &[String]) -> Result<ExitCode> {
    let (mut kernel, mut against) = ("halobook".to_owned(), String::new());
    let (mut rounds, mut json, mut python) = (3usize, false, None);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--json" => json = true,
            "--kernel" => kernel = value()?.clone(),
            "--against" => against = value()?.clone(),
            "--rounds" => rounds = value()?.parse().context("--rounds takes a number")?,
            "--python" => python = Some(PathBuf::from(value()?)),
            other => bail!(
                "bench notebook has no flag {other}; it has --kernel, --against, --rounds, --python, --json"
            ),
        }
    }
    ensure!(rounds > 0, "--rounds takes a number from 1 on");
    let python = python.unwrap_or_else(project_python);
    let output = Command::new(&python)
        .args(["-c", SCRIPT, &kernel, &against, &rounds.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{} cannot be started", python.display()))?;
    ensure!(
        output.status.success(),
        "{} ended with {}; it needs jupyter_client (--python names another one)",
        python.display(),
        output.status
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().collect();
    let shown = if json {
        &lines[..]
    } else {
        &lines[..lines.len().saturating_sub(1)]
    };
    shown.iter().for_each(|line| println!("{line}"));
    Ok(ExitCode::SUCCESS)
}

/// The Python of the project that we are in, else the first on the search path.
pub(super) fn project_python() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    let own = here
        .ancestors()
        .map(|dir| dir.join(".halobook/venv/bin/python"))
        .find(|python| python.exists());
    own.unwrap_or_else(|| Path::new("python3").to_owned())
}
