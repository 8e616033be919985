//! The code that keeps a session's variables, compiled once for all cells.
//!
//! evcxr writes its store of variables into every cell, where a hash map is compiled anew each time: half
//! of a small cell's library, which stays loaded as long as the session. Here that map is a type of a
//! small library of its own with the same layout, so cells with the one and with the other share a store.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::shim::path_flag;

/// The library's name.
const NAME: &str = "halobook_variables";

/// The whole source of the library. Nothing in it is generic, so that nothing of it is compiled in a cell.
pub const SOURCE: &str = r#"use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::{Drain, Entry};
use std::mem::ManuallyDrop;

pub type Value = Box<dyn Any + 'static>;

#[repr(transparent)]
pub struct Variables(ManuallyDrop<HashMap<String, Value>>);

impl Variables {
    #[inline(never)]
    pub fn new() -> Variables {
        Variables(ManuallyDrop::new(HashMap::new()))
    }
    #[inline(never)]
    pub fn insert(&mut self, name: String, value: Value) -> Option<Value> {
        self.0.insert(name, value)
    }
    #[inline(never)]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
    #[inline(never)]
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }
    #[inline(never)]
    pub fn entry(&mut self, name: String) -> Entry<'_, String, Value> {
        self.0.entry(name)
    }
    #[inline(never)]
    pub fn drain(&mut self) -> Drain<'_, String, Value> {
        self.0.drain()
    }
    #[inline(never)]
    pub fn extend(&mut self, others: Drain<'_, String, Value>) {
        self.0.extend(others)
    }
}

impl Drop for Variables {
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: nothing uses the map after its owner's end.
        unsafe { ManuallyDrop::drop(&mut self.0) }
    }
}
"#;

/// What evcxr writes, and what stands there instead.
const LINES: [(&str, &str); 2] = [
    (
        "    variables: std::collections::HashMap<String, Box<dyn std::any::Any + 'static>>,",
        "    variables: halobook_variables::Variables,",
    ),
    (
        "            variables: std::collections::HashMap::new(),",
        "            variables: halobook_variables::Variables::new(),",
    ),
];

/// A cell's source with the map of the library. `None` where evcxr writes another one.
pub fn shared(source: &str) -> Option<String> {
    let mut text = source.to_owned();
    for (written, instead) in LINES {
        let at = text.find(written)?;
        text.replace_range(at..at + written.len(), instead);
    }
    Some(text)
}

/// Compiles the library into `folder`.
///
/// # Errors
/// When the compiler fails.
pub fn make(rustc: &Path, folder: &Path) -> Result<PathBuf> {
    let source = folder.join("variables.rs");
    std::fs::write(&source, SOURCE)?;
    let ran = Command::new(rustc)
        .args(["--crate-name", NAME, "--edition", "2024"])
        .args(["--crate-type", "dylib", "-Cprefer-dynamic", "-Copt-level=2"])
        .args(["-Cstrip=debuginfo", "-Clink-arg=-Wl,-Bsymbolic"])
        .arg("--out-dir")
        .arg(folder)
        .arg(&source)
        .output()
        .with_context(|| format!("cannot start {}", rustc.display()))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(
        ran.status.success(),
        "the library of variables: {}",
        said.trim()
    );
    Ok(folder.join(format!("lib{NAME}.so")))
}

/// Has a cell linked with the library.
pub fn link(library: &Path, rustc: &mut Command) {
    let folder = library.parent().unwrap_or(Path::new("."));
    rustc
        .arg(path_flag(&format!("--extern={NAME}="), library))
        .arg(path_flag("-Clink-arg=-Wl,-rpath,", folder));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_that_evcxr_writes_is_known() {
        let cell = format!(
            "use x;\nmod evcxr_internal_runtime {{\n{}\n{}\n}}\nlet map = std::collections::HashMap::new();",
            LINES[0].0, LINES[1].0
        );
        let shared = shared(&cell).expect("known");
        assert_eq!(shared.lines().count(), cell.lines().count());
        assert_eq!(shared.matches("halobook_variables::").count(), 2);
        assert!(shared.contains("let map = std::collections::HashMap::new();"));
        assert_eq!(super::shared("fn main() {}"), None);
    }
}
