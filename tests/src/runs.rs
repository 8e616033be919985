//! Starting `halobook` as a user does, and reading back what it left.

use crate::{binaries, processes, skip};
use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A run store of one test, and the command line that uses it. Ends whatever still runs in it.
pub struct Store {
    home: tempfile::TempDir,
    count: std::cell::Cell<usize>,
    /// Variables of every command.
    variables: Vec<(&'static str, String)>,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

/// A command that runs.
pub struct Running {
    child: Child,
    started: Instant,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// When no temporary folder can be made.
    pub fn new() -> anyhow::Result<Self> {
        let home = tempfile::Builder::new()
            .prefix("halobook-test-")
            .tempdir()?;
        let count = std::cell::Cell::new(0);
        Ok(Self {
            home,
            count,
            variables: Vec::new(),
        })
    }

    /// An empty store on a machine on which the host stands in for so many GPUs; none, with a skip printed, where
    /// there is no C++ compiler. `more` follows their number.
    ///
    /// # Errors
    /// As [`Store::new`].
    pub fn with_gpus(gpus: usize, more: &str) -> anyhow::Result<Option<Self>> {
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
        if Command::new(&compiler).arg("--version").output().is_err() {
            skip::skip("nvrtc", &format!("there is no C++ compiler {compiler}"));
            return Ok(None);
        }
        let shim = ("HALOBOOK_CUDA", format!("shim:{gpus}{more}"));
        let mut store = Self::new()?;
        store.variables.push(shim);
        Ok(Some(store))
    }

    /// One more variable of every command.
    pub fn set(&mut self, name: &'static str, value: String) {
        self.variables.push((name, value));
    }

    /// Its folder, which no other process names.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Starts `halobook` with `args`, split at spaces.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(&self, args: &str) -> anyhow::Result<Running> {
        let words: Vec<&str> = args.split_whitespace().collect();
        self.start_words(&words)
    }

    /// Starts `halobook` with these words.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_words(&self, words: &[&str]) -> anyhow::Result<Running> {
        let n = self.count.get();
        self.count.set(n + 1);
        let stdout = self.home().join(format!("{n}.stdout"));
        let stderr = self.home().join(format!("{n}.stderr"));
        let child = Command::new(binaries::find("halobook"))
            .args(words)
            .current_dir(self.home())
            .env("HALOBOOK_HOME", self.home())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .spawn()?;
        Ok(Running {
            child,
            started: Instant::now(),
            stdout,
            stderr,
        })
    }

    /// Runs `halobook` to its end, within two minutes.
    ///
    /// # Errors
    /// When it does not start or end.
    pub fn halobook(&self, args: &str) -> anyhow::Result<Ended> {
        self.start(args)?.wait(Duration::from_secs(120))
    }

    /// `halobook train ARGS --json`, which must succeed; returns the object of its last line.
    ///
    /// # Errors
    /// When it fails, with what it printed.
    pub fn train(&self, args: &str) -> anyhow::Result<Value> {
        let ended = self.halobook(&format!("train {args} --json"))?;
        ensure!(ended.status.success(), "train {args}: {ended}");
        ended.json()
    }

    /// A frame's rows, as JSON objects.
    ///
    /// # Errors
    /// When `halobook frames` fails or prints something else.
    pub fn frame(&self, run: &str, frame: &str) -> anyhow::Result<Vec<Value>> {
        let ended = self.halobook(&format!("frames {run} {frame} --json"))?;
        ensure!(ended.status.success(), "frames {run} {frame}: {ended}");
        let rows = ended.stdout.lines().filter(|line| !line.trim().is_empty());
        rows.map(|line| serde_json::from_str(line).with_context(|| format!("not JSON: {line}")))
            .collect()
    }

    /// The folder of a run.
    pub fn run(&self, id: &str) -> PathBuf {
        self.home().join("runs").join(id)
    }

    /// Names of all runs, oldest first.
    pub fn runs(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.home().join("runs"));
        let mut names: Vec<String> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().join("manifest.json").is_file())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// A run's `manifest.json`.
    ///
    /// # Errors
    /// When it is not there or not whole.
    pub fn manifest(&self, id: &str) -> anyhow::Result<Value> {
        let path = self.run(id).join("manifest.json");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(serde_json::from_str(&text)?)
    }

    /// A run's events so far; a torn last line is left out.
    pub fn events(&self, id: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.run(id).join("events.jsonl")).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Waits until the newest run has `epochs` epochs and all its `ranks` are up; returns its id
    /// and the process of each rank, by rank.
    ///
    /// # Errors
    /// When `run` ends before, or after a minute.
    pub fn wait_epochs(
        &self,
        run: &mut Running,
        epochs: usize,
        ranks: usize,
    ) -> anyhow::Result<(String, Vec<u32>)> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(id) = self.runs().pop() {
                let events = self.events(&id);
                let named = |name: &str| {
                    let events = events.iter();
                    events.filter(|e| e["event"] == name).collect::<Vec<_>>()
                };
                let mut up: Vec<(u64, u32)> = named("rank_up")
                    .iter()
                    .filter_map(|e| {
                        Some((e["rank"].as_u64()?, e["pid"].as_u64()?.try_into().ok()?))
                    })
                    .collect();
                up.sort_unstable();
                if up.len() == ranks && named("epoch").len() >= epochs {
                    return Ok((id, up.into_iter().map(|(_, pid)| pid).collect()));
                }
            }
            if run.has_ended()? {
                bail!("ended before epoch {epochs}: {}", run.so_far());
            }
            ensure!(
                Instant::now() < until,
                "no epoch {epochs} in a minute: {}",
                run.so_far()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Only what names this store's folder, so only what this test started.
        for (pid, _) in processes::naming(self.home()) {
            processes::signal(pid, libc::SIGKILL);
        }
    }
}

impl Running {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// What it has printed so far.
    pub fn so_far(&self) -> String {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        format!(
            "stdout:\n{}\nstderr:\n{}",
            read(&self.stdout),
            read(&self.stderr)
        )
    }

    /// Waits for its end; past `limit` it is killed and that is an error.
    ///
    /// # Errors
    /// Past the limit.
    pub fn wait(mut self, limit: Duration) -> anyhow::Result<Ended> {
        let until = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() >= until {
                self.child.kill()?;
                self.child.wait()?;
                bail!("no end after {limit:?}: {}", self.so_far());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        Ok(Ended {
            status,
            took: self.started.elapsed(),
            stdout: std::fs::read_to_string(&self.stdout)?,
            stderr: std::fs::read_to_string(&self.stderr)?,
        })
    }
}

impl Ended {
    /// The object of the last line of standard output.
    ///
    /// # Errors
    /// When that is not one JSON object.
    pub fn json(&self) -> anyhow::Result<Value> {
        let last = self.stdout.lines().last().unwrap_or_default();
        let value: Value =
            serde_json::from_str(last).with_context(|| format!("last line of {self}"))?;
        ensure!(value.is_object(), "not an object: {last}");
        Ok(value)
    }

    /// The `error:` line and the `help:` line of standard error.
    ///
    /// # Errors
    /// When one of them is not there.
    pub fn complaint(&self) -> anyhow::Result<(&str, &str)> {
        let line = |start: &str| {
            let found = self
                .stderr
                .lines()
                .find_map(|line| line.strip_prefix(start));
            found.with_context(|| format!("no `{start}` line: {self}"))
        };
        Ok((line("error: ")?, line("help: ")?))
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(
            f,
            "{} after {:?}\nstdout:\n{}\nstderr:\n{}",
            self.status, self.took, self.stdout, self.stderr
        )
    }
}

/// A column of a frame as numbers; nulls are left out.
pub fn numbers(rows: &[Value], column: &str) -> Vec<f64> {
    rows.iter().filter_map(|row| row[column].as_f64()).collect()
}
