//! Installs and removes the kernelspec.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::cli::Options;

const DEFAULT_NAME: &str = "halobook";

/// Writes `kernel.json` into the kernelspec folder, and says where.
///
/// # Errors
/// When no place was named, or it cannot be written.
pub fn install(options: &Options) -> Result<ExitCode> {
    let folder = folder(options)?;
    let program = std::env::current_exe()?.canonicalize()?;
    let mut env = serde_json::Map::new();
    let prepared = options
        .prepared
        .clone()
        .or_else(crate::cell::scratch::find_prepared);
    if let Some(prepared) = prepared {
        let prepared = std::path::absolute(prepared)?;
        env.insert(
            crate::cell::PREPARED_ENV.to_owned(),
            json!(prepared.to_string_lossy()),
        );
    }
    let spec = json!({
        "argv": [program.to_string_lossy(), "run", "{connection_file}"],
        "display_name": "Halobook (Rust)",
        "language": "rust",
        "interrupt_mode": "message",
        "env": env,
        "metadata": { "debugger": false },
    });
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let file = folder.join("kernel.json");
    fs::write(&file, format!("{spec:#}\n"))
        .with_context(|| format!("cannot write {}", file.display()))?;
    println!("installed {}", file.display());
    Ok(ExitCode::SUCCESS)
}

/// Removes the kernelspec folder; it is no error when there is none.
///
/// # Errors
/// When no place was named, or the folder cannot be removed.
pub fn uninstall(options: &Options) -> Result<ExitCode> {
    let folder = folder(options)?;
    if folder.join("kernel.json").exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
        println!("removed {}", folder.display());
    } else {
        println!("nothing to remove at {}", folder.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn folder(options: &Options) -> Result<PathBuf> {
    let jupyter = match (&options.prefix, options.user) {
        (Some(prefix), false) => std::path::absolute(prefix)?.join("share/jupyter"),
        (None, true) => jupyter_zmq_client::dirs::user_data_dir()?,
        (Some(_), true) => bail!("`--user` and `--prefix` exclude each other"),
        (None, false) => bail!("say where: `--user` or `--prefix DIR`"),
    };
    let name = options.name.as_deref().unwrap_or(DEFAULT_NAME);
    Ok(jupyter.join("kernels").join(name))
}
