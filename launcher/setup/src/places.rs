//! Where things lie: the tree, the build, and the two folders that set-up writes to.

use crate::flow::Stop;
use std::path::{Path, PathBuf};

/// The folders of this clone. All paths are absolute.
#[derive(Clone, Debug)]
pub struct Places {
    /// The root of the workspace.
    pub root: PathBuf,
    /// Where the release binaries lie; it follows `CARGO_TARGET_DIR`.
    pub bin: PathBuf,
    /// The target folder.
    pub target: PathBuf,
}

impl Places {
    /// Finds the places from the environment that cargo gave this process.
    ///
    /// # Errors
    /// When no `Cargo.toml` with a `[workspace]` lies above.
    pub fn find() -> Result<Self, Stop> {
        let start = std::env::var_os("CARGO_MANIFEST_DIR")
            .map(PathBuf::from)
            .or_else(|| std::env::current_dir().ok())
            .unwrap_or_default();
        let root = start
            .ancestors()
            .find(|dir| is_workspace(dir))
            .ok_or_else(|| {
                Stop::by_hand(
                    "this is not run from inside the project".into(),
                    "change into the clone and call `cargo quickstart` there".into(),
                )
            })?
            .to_path_buf();
        let exe = std::env::current_exe().map_err(|e| Stop::io("own path", &e))?;
        let bin = exe.parent().unwrap_or(&root).to_path_buf();
        let target = bin.parent().unwrap_or(&bin).to_path_buf();
        Ok(Self { root, bin, target })
    }

    /// A release binary of this workspace.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// The project-local folder of the Jupyter environment and of what quickstart makes.
    pub fn local(&self) -> PathBuf {
        self.root.join(".halobook")
    }

    /// The Jupyter environment.
    pub fn venv(&self) -> PathBuf {
        self.local().join("venv")
    }

    /// Full logs of the steps.
    pub fn logs(&self) -> PathBuf {
        self.target.join("verify")
    }

    /// `path` as it reads from the root, for messages.
    pub fn show<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

fn is_workspace(dir: &Path) -> bool {
    std::fs::read_to_string(dir.join("Cargo.toml"))
        .is_ok_and(|text| text.lines().any(|line| line.trim() == "[workspace]"))
}
