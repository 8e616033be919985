//! The Python that Jupyter runs on, and the project-local environment.

use crate::exec;
use crate::flow::{Step, Stop};
use crate::parts::{JUPYTER, NVRTC, PYTHON};
use crate::places::Places;
use crate::stamp::Inputs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python that is new enough and can make an environment with pip.
pub struct Python {
    path: PathBuf,
    version: (u32, u32),
    /// It has `ensurepip`, so that an environment gets its own pip.
    ensurepip: bool,
}

impl Python {
    /// For the table of what was found.
    pub fn describe(&self) -> String {
        let (major, minor) = self.version;
        format!("{major}.{minor}, {}", self.path.display())
    }
}

/// The first fitting Python: `HALOBOOK_PYTHON`, then the usual names.
pub fn find() -> Option<Python> {
    const ASK: &str = "import sys, importlib.util as u; has = lambda m: int(u.find_spec(m) is not None); \
        print(sys.executable); print(*sys.version_info[:2], has('venv'), has('ensurepip'), has('pip'))";
    let chosen = std::env::var("HALOBOOK_PYTHON").ok();
    let names = [
        "python3",
        "python3.14",
        "python3.13",
        "python3.12",
        "python3.11",
        "python",
    ];
    let candidates: Vec<&str> = match &chosen {
        Some(one) => vec![one],
        None => names.to_vec(),
    };
    candidates.into_iter().find_map(|name| {
        let answer = exec::output(name, &["-c", ASK])?;
        let (path, facts) = answer.split_once('\n')?;
        let facts: Vec<u32> = facts
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let [major, minor, venv, ensurepip, pip] = facts[..] else {
            return None;
        };
        let fits = (major, minor) >= PYTHON && venv == 1 && (ensurepip == 1 || pip == 1);
        fits.then(|| Python {
            path: path.into(),
            version: (major, minor),
            ensurepip: ensurepip == 1,
        })
    })
}

/// `pip install` into the environment.
fn pip(python: &Python, venv: &Path) -> Command {
    let own = venv.join("bin/python");
    let mut install = match python.ensurepip {
        true => Command::new(&own),
        false => Command::new(&python.path),
    };
    install.args(["-m", "pip"]);
    if !python.ensurepip {
        install.arg("--python").arg(&own);
    }
    install.args([
        "install",
        "--progress-bar",
        "off",
        "--disable-pip-version-check",
    ]);
    install
}

/// Installs the compiler of the CUDA kernels into the environment, where it can be had. Without it
/// everything but CUDA works, so a failure is said and stops nothing.
///
/// # Errors
/// None of its own.
pub fn nvrtc(step: &mut Step, places: &Places) -> Result<(), Stop> {
    let venv = places.venv();
    if !cfg!(target_os = "linux") {
        step.note("NVIDIA has none for this system");
        step.unchanged();
        return Ok(());
    }
    let pin = format!("{}=={}", NVRTC.0, NVRTC.1);
    let stamp = places.local().join("stamps/nvrtc");
    let inputs = Inputs::default()
        .text(&pin)
        .text(&venv.to_string_lossy())
        .identity(&venv.join("pyvenv.cfg"));
    if inputs.unchanged(&stamp) {
        step.unchanged();
        return Ok(());
    }
    let Some(python) = find() else {
        return Ok(()); // the environment's own step has said so
    };
    match step.run(pip(&python, &venv).arg("--no-deps").arg(&pin)) {
        Ok(_) => {
            step.note(pin);
            inputs.keep(&stamp);
        }
        Err(stop) => step.note(format!(
            "{}; the CUDA kernels cannot be compiled until the same command is run with network, \
             or with PIP_FIND_LINKS naming a folder that has the wheel of {pin}",
            stop.wrong
        )),
    }
    Ok(())
}

/// Makes `.halobook/venv` with the pinned packages.
///
/// # Errors
/// When no Python fits, or pip cannot install.
pub fn environment(step: &mut Step, places: &Places) -> Result<(), Stop> {
    let Some(python) = find() else {
        let (major, minor) = PYTHON;
        return Err(Stop::by_hand(
            format!("no Python {major}.{minor} or newer with pip"),
            "install one, or name it: HALOBOOK_PYTHON=/path/to/python3.12 cargo quickstart".into(),
        ));
    };
    let pins: Vec<String> = JUPYTER
        .iter()
        .map(|(name, version)| format!("{name}=={version}"))
        .collect();
    let venv = places.venv();
    let stamp = places.local().join("stamps/jupyter");
    let inputs = Inputs::default()
        .text(&pins.join(" "))
        .text(&python.describe())
        .text(&venv.to_string_lossy());
    if inputs.unchanged(&stamp) && venv.join("bin/jupyter").is_file() {
        step.unchanged();
        return Ok(());
    }
    let mut make = Command::new(&python.path);
    make.args(["-m", "venv", "--clear"]);
    if !python.ensurepip {
        make.arg("--without-pip");
    }
    step.run(make.arg(&venv))?;
    let mut install = pip(&python, &venv);
    step.run(install.args(&pins)).map_err(|stop| {
        let help = format!(
            "{}; without network, put the wheels in a folder and set PIP_FIND_LINKS and PIP_NO_INDEX=1",
            stop.help
        );
        Stop { help, ..stop }
    })?;
    step.note(pins.join(" "));
    inputs.keep(&stamp);
    Ok(())
}
