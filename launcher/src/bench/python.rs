//! A Python with PyTorch, and perhaps PyTorch Geometric or DGL: what it has, and its answers.

use crate::error::{Error, Result};
use crate::sys;
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What runs there.
const SCRIPT: &str = concat!(include_str!("batches.py"), include_str!("peers.py"));

/// Names a list of Pythons, separated as a search path is, where none is on the command line.
pub const PEERS: &str = "HALOBOOK_PEERS";

/// Their fastest setting: the C library's allocator keeps what is freed, in large pages.
const ALLOCATOR: [(&str, &str); 4] = [
    ("MALLOC_MMAP_MAX_", "0"),
    ("MALLOC_TRIM_THRESHOLD_", "1099511627776"),
    ("MALLOC_TOP_PAD_", "268435456"),
    sys::LARGE_PAGES,
];

/// A Python and the versions of what it has.
#[derive(Debug, Clone)]
pub struct Python {
    /// The program.
    pub path: PathBuf,
    /// Version of PyTorch.
    pub torch: String,
    /// Version of PyTorch Geometric.
    pub pyg: Option<String>,
    /// Version of DGL.
    pub dgl: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Silence {
    /// The process reported an error or ended without an answer; its last words.
    Failed(String),
    /// It was ended after so many seconds.
    TooLong(u64),
    /// The user asked to stop.
    Interrupted,
}

impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Silence::Failed(words) => f.write_str(words),
            Silence::TooLong(seconds) => write!(f, "no answer within {seconds} s"),
            Silence::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// The Pythons to compare with: those named, else those of [`PEERS`].
///
/// # Errors
/// [`Error::Refused`] when there are none, or one of them lacks PyTorch.
pub fn named(paths: &[PathBuf]) -> Result<Vec<Python>> {
    let from_environment = || {
        let list = std::env::var_os(PEERS).unwrap_or_default();
        std::env::split_paths(&list)
            .filter(|p| !p.as_os_str().is_empty())
            .collect::<Vec<_>>()
    };
    let paths = if paths.is_empty() {
        from_environment()
    } else {
        paths.to_vec()
    };
    if paths.is_empty() {
        return Err(Error::refused(
            "against python: no Python was named",
            format!("write --python PATH (repeat it for several), or set {PEERS}=PATH:PATH"),
        ));
    }
    paths.iter().map(|path| Python::look(path)).collect()
}

impl Python {
    /// Asks a Python what it has.
    ///
    /// # Errors
    /// [`Error::Refused`] when it does not start, or lacks PyTorch or NumPy.
    pub fn look(path: &Path) -> Result<Python> {
        let found = ask(path, &["probe"], Duration::from_secs(180)).map_err(|silence| {
            Error::refused(
                format!("python: {}: {silence}", path.display()),
                "name a Python program, as in --python venv/bin/python",
            )
        })?;
        let version = |name: &str| found[name].as_str().map(str::to_owned);
        let needed = |name: &str| {
            version(name).ok_or_else(|| {
                let why = found[format!("{name}_error")].as_str().unwrap_or("unknown");
                Error::refused(
                    format!("python: {} has no {name} ({why})", path.display()),
                    format!("{} -m pip install {name}", path.display()),
                )
            })
        };
        needed("numpy")?;
        Ok(Python {
            path: path.to_owned(),
            torch: needed("torch")?,
            pyg: version("torch_geometric"),
            dgl: version("dgl"),
        })
    }

    /// Has the script answer a request: `mode` is `epoch`, `ops` or `sample`; `folder` takes the request's
    /// file.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn ask(
        &self,
        mode: &str,
        request: &Value,
        folder: &Path,
        limit: Duration,
    ) -> std::result::Result<Value, Silence> {
        let file = folder.join("request.json");
        std::fs::write(&file, request.to_string())
            .map_err(|e| Silence::Failed(format!("{}: {e}", file.display())))?;
        ask(&self.path, &[mode, &file.to_string_lossy()], limit)
    }
}

/// The newest of some versions such as `2.2.1+cu121`: numbers compared as numbers.
pub fn newest(pythons: &[Python], version: impl Fn(&Python) -> Option<&str>) -> Option<&Python> {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|c: char| !c.is_ascii_digit())
            .map_while(|part| part.parse().ok())
            .collect()
    };
    pythons
        .iter()
        .filter_map(|p| Some((numbers(version(p)?), p)))
        .max_by(|a, b| a.0.cmp(&b.0))
        .map(|(_, p)| p)
}

/// Runs the script and reads the object on its last line.
fn ask(python: &Path, words: &[&str], limit: Duration) -> std::result::Result<Value, Silence> {
    let failed = |what: String| Silence::Failed(what);
    let mut command = Command::new(python);
    command
        .args(["-c", SCRIPT])
        .args(words)
        .envs(ALLOCATOR)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    sys::end_with_parent(&mut command, libc::SIGKILL);
    let mut child = command
        .spawn()
        .map_err(|e| failed(format!("could not start: {e}")))?;
    // Both pipes are drained while it runs, or it would wait for us when one is full.
    let drain = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                // What arrived before an error is still its words.
                let _ = pipe.read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = drain(child.stdout.take().map(|p| Box::new(p) as _));
    let err = drain(child.stderr.take().map(|p| Box::new(p) as _));
    let begun = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(_)) => break None,
            Ok(None) if sys::interrupts() > 0 => break Some(Silence::Interrupted),
            Ok(None) if begun.elapsed() > limit => {
                break Some(Silence::TooLong(limit.as_secs()));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(e) => break Some(failed(e.to_string())),
        }
    };
    if let Some(silence) = ended {
        // It may have ended by itself meanwhile; waiting takes it off the system's list either way.
        let _ = child.kill();
        let _ = child.wait();
        return Err(silence);
    }
    let (out, err) = (
        out.join().unwrap_or_default(),
        err.join().unwrap_or_default(),
    );
    let answer = last_line(&out).and_then(|line| serde_json::from_str::<Value>(line).ok());
    let answer = answer.filter(Value::is_object).ok_or_else(|| {
        let words = last_line(&err).or(last_line(&out));
        failed(words.unwrap_or("ended without an answer").to_owned())
    })?;
    match answer["error"].as_str() {
        Some(error) => Err(failed(error.to_owned())),
        None => Ok(answer),
    }
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that stands for Python: a shell that is given the script and ignores it.
    fn fake(body: &str) -> (tempfile::TempDir, PathBuf) {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("python");
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("a program");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
        (dir, path)
    }

    #[test]
    fn a_python_says_what_it_has() {
        let (_dir, path) =
            fake(r#"echo noise; echo '{"numpy": "1.26", "torch": "2.10.0+cpu", "dgl": null}'"#);
        let python = Python::look(&path).expect("has torch");
        assert_eq!(python.torch, "2.10.0+cpu");
        assert!(python.dgl.is_none() && python.pyg.is_none());
        let older = Python {
            torch: "2.9.1".into(),
            ..python.clone()
        };
        let both = [python, older];
        let best = newest(&both, |p| Some(&p.torch)).expect("two");
        assert_eq!(best.torch, "2.10.0+cpu");
        assert!(newest(&both, |p| p.dgl.as_deref()).is_none());
    }

    #[test]
    fn a_python_without_torch_and_no_python_are_refused() {
        let (_dir, path) =
            fake(r#"echo '{"numpy": "1", "torch": null, "torch_error": "ModuleNotFoundError"}'"#);
        let error = Python::look(&path).expect_err("no torch");
        assert!(error.to_string().contains("has no torch"), "{error}");
        assert!(error.help().contains("pip install torch"));
        let (_dir, path) = fake("echo 'it broke' >&2; exit 3");
        let error = Python::look(&path).expect_err("no answer").to_string();
        assert!(error.contains("it broke"), "{error}");
        let error = Python::look(Path::new("/nowhere/python")).expect_err("no program");
        assert!(error.to_string().contains("could not start"), "{error}");
    }

    #[test]
    fn answers_come_from_the_last_line_errors_too_and_silence_ends() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let ask = |body: &str, seconds: f64| {
            let (_dir, path) = fake(body);
            let python = Python {
                path,
                torch: String::new(),
                pyg: None,
                dgl: None,
            };
            let request = serde_json::json!({});
            python.ask(
                "epoch",
                &request,
                dir.path(),
                Duration::from_secs_f64(seconds),
            )
        };
        assert_eq!(
            ask(r#"echo one; echo '{"ms": [1]}'"#, 20.0).expect("fine")["ms"][0],
            1
        );
        assert_eq!(
            ask(r#"echo '{"error": "out of memory"}'"#, 20.0),
            Err(Silence::Failed("out of memory".into()))
        );
        assert_eq!(ask("exec sleep 20", 0.1), Err(Silence::TooLong(0)));
    }
}
