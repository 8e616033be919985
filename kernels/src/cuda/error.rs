//! What can go wrong between here and a device.

/// A device, a compiler or a library that did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A part that is not on this machine. Nothing has started.
    #[error("{what}: {reason}")]
    Missing {
        /// What is missing, as `no NVIDIA driver found`.
        what: &'static str,
        /// What was tried, and what to do.
        reason: String,
    },
    /// Sources that a compiler refused; its words.
    #[error("{compiler} refused the kernels:\n{log}")]
    Compile {
        /// The compiler.
        compiler: String,
        /// Its output.
        log: String,
    },
    /// More memory than there is, or than a limit leaves.
    #[error("no memory for {asked} bytes: {free} of {limit} are free")]
    Memory {
        /// Bytes that were asked for.
        asked: usize,
        /// Bytes that could be had.
        free: usize,
        /// Bytes that there are, or may be used.
        limit: usize,
    },
    /// A call that a driver or library refused.
    #[error("{op}: {reason}")]
    Call {
        /// The operation.
        op: String,
        /// What the driver said.
        reason: String,
    },
}

impl Error {
    pub(super) fn no_such_gpu(ordinal: usize, count: usize) -> Error {
        Error::Missing {
            what: "no such GPU",
            reason: format!("expected one of {count}, got number {ordinal}"),
        }
    }

    pub(super) fn call(op: impl Into<String>, reason: impl std::fmt::Display) -> Error {
        Error::Call {
            op: op.into(),
            reason: reason.to_string(),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Error {
        Error::call("the cache of compiled kernels", e)
    }
}
