//! What can go wrong outside the core, each with what to do about it.

use polars::error::PolarsError;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the launcher.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request that was refused before anything started.
    #[error("{what}")]
    Refused {
        /// What is wrong, one line.
        what: String,
        /// What to do, one line.
        help: String,
    },
    /// A run that would need more memory than there is, refused before anything started.
    #[error("HaloPlanRefused: {what}")]
    PlanRefused {
        /// Who needs how much, one line.
        what: String,
        /// What to do, one line.
        help: String,
    },
    /// Something that lies elsewhere and could not be reached.
    #[error("{what}")]
    Unreachable {
        /// What could not be reached and why, one line.
        what: String,
        /// What to do instead, one line.
        help: String,
    },
    /// An error of the core.
    #[error("{0}")]
    Core(#[from] gnn_core::Error),
    /// A file or folder.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of a run folder that is not the JSON it should be.
    #[error("{}: not what Halobook writes ({source})", path.display())]
    Json {
        /// Which one.
        path: PathBuf,
        /// Where it stops making sense.
        source: serde_json::Error,
    },
    /// A frame that could not be made, read or written.
    #[error("frame {frame}: {source}")]
    Frame {
        /// Name of the frame.
        frame: String,
        /// Why.
        source: PolarsError,
    },
    /// A row whose parts do not add up to its wall time.
    #[error(
        "ranks row of rank {rank} in epoch {epoch}: wall_ms is {wall_ms}, but compute + copy + \
         exposed transfer + wait + other is {sum_ms}"
    )]
    Identity {
        /// Rank of the row.
        rank: u32,
        /// Epoch of the row.
        epoch: u32,
        /// Wall time in the row.
        wall_ms: f64,
        /// Sum of the parts in the row.
        sum_ms: f64,
    },
}

/// What to do about a full disk.
pub const MAKE_ROOM: &str = "free some disk space, or name a folder on another disk: HALOBOOK_HOME";

impl Error {
    /// A refusal.
    pub fn refused(what: impl Into<String>, help: impl Into<String>) -> Error {
        Error::Refused {
            what: what.into(),
            help: help.into(),
        }
    }

    /// Names the file of an input or output error.
    pub fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| Error::Io { path, source }
    }

    /// Names the frame of a Polars error.
    pub fn frame(frame: &str) -> impl FnOnce(PolarsError) -> Error + use<> {
        let frame = frame.to_owned();
        move |source| Error::Frame { frame, source }
    }

    /// One line: what to do.
    pub fn help(&self) -> String {
        match self {
            Error::Refused { help, .. }
            | Error::PlanRefused { help, .. }
            | Error::Unreachable { help, .. } => help.clone(),
            Error::Core(error) => error.help(),
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                MAKE_ROOM.into()
            }
            Error::Io { .. } => "check that the path exists and may be read and written".into(),
            Error::Json { .. } => "the run folder was damaged; run it again".into(),
            Error::Frame { .. } => {
                "the table may be damaged or of another program: copy or write it again".into()
            }
            Error::Identity { .. } => {
                "this is a fault of Halobook: please report the run's rows folder".into()
            }
        }
    }
}
