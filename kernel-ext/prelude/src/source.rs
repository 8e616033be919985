//! Where frames and manifests come from: the run folder, and only here.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use polars::prelude::{
    DataFrame, ParquetReader, PolarsError, PolarsResult, SerReader, polars_err,
};
use serde_json::Value;

use crate::plot::Setting;

/// Frames a run can have.
pub(crate) const FRAMES: [&str; 5] = ["runs", "epochs", "ranks", "comm", "partition"];

/// A run's manifest as it stands on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest(Value);

impl Manifest {
    /// The value at `key`, in the manifest itself or in the settings the user gave.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let own = self.0.get(key);
        own.or_else(|| self.0.get("spec").and_then(|spec| spec.get(key)))
    }

    /// A text, empty when absent.
    pub fn text(&self, key: &str) -> String {
        let text = self.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    }

    /// A number.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.get(key).and_then(Value::as_f64)
    }

    /// The whole manifest.
    pub fn json(&self) -> &Value {
        &self.0
    }

    /// The setting that plots are stamped with.
    pub(crate) fn setting(&self) -> Setting {
        let flag = self.get("oversubscribed").and_then(Value::as_bool);
        Setting {
            run_id: self.text("run_id"),
            name: self.text("name"),
            data: self.text("data"),
            model: self.text("model"),
            strategy: self.text("strategy"),
            backend: self.text("backend"),
            launch: self.text("launch"),
            status: self.text("status"),
            host_class: self.text("host_class"),
            ranks: self.number("ranks").map_or(0, |n| n as u32),
            seed: self.get("seed").and_then(Value::as_u64),
            oversubscribed: flag.unwrap_or(false),
        }
    }
}

/// The manifest of the run in `dir`.
pub(crate) fn manifest(dir: &Path) -> PolarsResult<Manifest> {
    let path = dir.join("manifest.json");
    let text = fs::read_to_string(&path).map_err(|e| no_run(dir, &e.to_string()))?;
    let json = serde_json::from_str(&text)
        .map_err(|e| polars_err!(ComputeError: "{} is not a manifest: {e}", path.display()))?;
    Ok(Manifest(json))
}

fn no_run(dir: &Path, why: &str) -> PolarsError {
    polars_err!(ComputeError: "no run in {}: {why}\nhelp: halobook::runs() lists the runs there are", dir.display())
}

/// The frame `name` of the run in `dir`.
pub(crate) fn load(dir: &Path, name: &str) -> PolarsResult<DataFrame> {
    if !FRAMES.contains(&name) {
        return Err(polars_err!(ComputeError:
            "a run has no frame \"{name}\"\nhelp: frames are {}", FRAMES.join(", ")));
    }
    let path = dir.join("frames").join(format!("{name}.parquet"));
    match File::open(&path) {
        Ok(file) => ParquetReader::new(file).finish(),
        Err(_) => manifest(dir).map(|_| DataFrame::empty()),
    }
}

fn store() -> PathBuf {
    let home = std::env::var_os("HALOBOOK_HOME").map(PathBuf::from);
    home.unwrap_or_default().join("runs")
}

/// The folder of the run called `id`.
pub(crate) fn run_dir(id: &str) -> PolarsResult<PathBuf> {
    Ok(store().join(id))
}

/// All runs.
pub(crate) fn runs() -> PolarsResult<DataFrame> {
    Ok(DataFrame::empty())
}
