//! The one error type of the core: each variant carries the operation and both sides of the
//! disagreement, and [`Error::help`] says in one line what to do about it.

use std::path::PathBuf;

/// What the core's functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong in the core.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Two sizes that must agree do not.
    #[error("{op}: expected {expected}, got {got}")]
    Shape {
        /// The operation that found it.
        op: String,
        /// What would have been right.
        expected: String,
        /// What was there.
        got: String,
    },
    /// A data set is not usable.
    #[error("{file}: {place}: {reason}")]
    Data {
        /// The file, folder or specification it was read from.
        file: String,
        /// The array, line or key within it.
        place: String,
        /// What is wrong, with index and value.
        reason: String,
        /// What to do.
        help: String,
    },
    /// A name nobody knows.
    #[error("unknown {kind} '{got}'{}", nearest_text(.nearest))]
    UnknownName {
        /// What the name should have been: data set, strategy, key …
        kind: String,
        /// The name that was asked for.
        got: String,
        /// The known name that looks most like it.
        nearest: Option<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// A value of a run's specification is wrong.
    #[error("{key}: {reason}")]
    Spec {
        /// The key.
        key: String,
        /// What is wrong with its value.
        reason: String,
        /// What to do.
        help: String,
    },
    /// The budget of a device, or of a host, does not hold one more item.
    #[error("{item}: asked for {asked} bytes of the {of}, {free} of {budget} are free")]
    Budget {
        /// Whose it is: `device` or `host`.
        of: &'static str,
        /// What was to be there.
        item: String,
        /// Bytes that it takes.
        asked: u64,
        /// Bytes that are left.
        free: u64,
        /// Bytes that there are.
        budget: u64,
    },
    /// Two things that are right alone but cannot be combined, or are not built in.
    #[error("{what}: {reason}")]
    Unsupported {
        /// What was asked for.
        what: String,
        /// Why it cannot be done.
        reason: String,
        /// What to do instead.
        help: String,
    },
    /// A partitioner failed.
    #[error("partition {method}: {reason}")]
    Partition {
        /// The partitioner.
        method: String,
        /// What it reported.
        reason: String,
    },
    /// A message could not be exchanged.
    #[error("{op}{}: {reason}", peer_text(.peer))]
    Comm {
        /// The operation.
        op: String,
        /// The rank on the other side, where there is exactly one.
        peer: Option<u32>,
        /// What happened.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system reported.
        source: std::io::Error,
    },
}

fn nearest_text(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map(|n| format!("; did you mean '{n}'?"))
        .unwrap_or_default()
}

fn peer_text(peer: &Option<u32>) -> String {
    peer.map(|p| format!(" with rank {p}")).unwrap_or_default()
}

impl Error {
    /// One line that says what to do.
    pub fn help(&self) -> String {
        match self {
            Error::Shape { .. } => {
                "this is a bug in Halobook; please report it with the command".into()
            }
            Error::Data { help, .. }
            | Error::Spec { help, .. }
            | Error::Unsupported { help, .. } => help.clone(),
            Error::Budget { of: "host", .. } => {
                "use more ranks, or give each host more memory (host_mem)".into()
            }
            Error::Budget { .. } => {
                "use more chunks, more ranks, or a device with more memory (device_mem)".into()
            }
            Error::UnknownName { kind, known, .. } if known.is_empty() => {
                format!("there is no {kind} to choose from here")
            }
            Error::UnknownName { known, .. } => format!("known: {}", known.join(", ")),
            Error::Partition { .. } => "try --partition hash, or fewer ranks".into(),
            Error::Comm { .. } => "see the log of the rank that failed first".into(),
            Error::Io { path, source } => match source.kind() {
                std::io::ErrorKind::NotFound => format!("check that {} exists", path.display()),
                std::io::ErrorKind::PermissionDenied => {
                    format!("check the permissions of {}", path.display())
                }
                std::io::ErrorKind::StorageFull => "free some disk space".into(),
                _ => format!("check {}", path.display()),
            },
        }
    }

    /// An unknown name of some kind, with the nearest of the known ones.
    pub fn unknown(kind: &str, got: &str, known: &[&str]) -> Error {
        Error::UnknownName {
            kind: kind.into(),
            got: got.into(),
            nearest: nearest(got, known.iter().copied()).map(str::to_owned),
            known: known.iter().map(|&k| k.to_owned()).collect(),
        }
    }

    /// A file that could not be read or written.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Error {
        Error::Io {
            path: path.into(),
            source,
        }
    }
}

impl From<kernels::ShapeError> for Error {
    fn from(e: kernels::ShapeError) -> Error {
        Error::Shape {
            op: e.op.into(),
            expected: e.expected,
            got: e.got,
        }
    }
}

/// The known name that looks most like `got`, if any is close enough to be meant.
pub fn nearest<'a>(got: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let got = got.to_lowercase();
    known
        .into_iter()
        .map(|name| {
            let prefix = got.len() >= 2 && (name.starts_with(&got) || got.starts_with(name));
            let distance = strsim::damerau_levenshtein(&got, &name.to_lowercase());
            (if prefix { distance.min(1) } else { distance }, name)
        })
        .filter(|(distance, name)| *distance <= 1.max(got.len().max(name.len()) / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_and_far_ones_are_not() {
        let known = ["metis", "chunk", "hash"];
        assert_eq!(nearest("mettis", known), Some("metis"));
        assert_eq!(nearest("METIS", known), Some("metis"));
        assert_eq!(nearest("ha", known), Some("hash"));
        assert_eq!(nearest("spectral", known), None);
        let e = Error::unknown("partitioner", "chnuk", &known);
        assert_eq!(
            e.to_string(),
            "unknown partitioner 'chnuk'; did you mean 'chunk'?"
        );
        assert_eq!(e.help(), "known: metis, chunk, hash");
    }

    #[test]
    fn messages_carry_both_sides_on_one_line() {
        let e = Error::Shape {
            op: "spmm".into(),
            expected: "x with 2708 rows".into(),
            got: "2709".into(),
        };
        assert_eq!(e.to_string(), "spmm: expected x with 2708 rows, got 2709");
        let e = Error::Comm {
            op: "receive".into(),
            peer: Some(2),
            reason: "rank is gone".into(),
        };
        assert_eq!(e.to_string(), "receive with rank 2: rank is gone");
    }
}
