//! What the flags of `halobook convert` ask for.

use crate::cli::words::Words;
use crate::tables;
use crate::tables::sound::Content;
use crate::{Error, Result};
use gnn_core::convert::{Ids, NpyFeatures, Options, Relabel};
use gnn_core::graph::SelfLoops;
use gnn_core::spec::bytes;
use std::path::Path;
use std::sync::Arc;

/// The options of a conversion, of an edge `list` or of a data set.
pub(super) fn options(words: &Words, list: bool) -> Result<Options> {
    let base = if list {
        Options::default()
    } else {
        Options::as_is()
    };
    let choose = |flag: &str, known: &[&str]| -> Result<Option<usize>> {
        let Some(word) = words.value(flag) else {
            return Ok(None);
        };
        let found = known.iter().position(|k| *k == word);
        found.map(Some).ok_or_else(|| {
            Error::refused(
                format!("{flag}: expected {}, got {word}", known.join(", ")),
                format!("write --{flag} {}", known[0]),
            )
        })
    };
    if words.has("dedup") && words.has("keep-duplicates") {
        return Err(Error::refused(
            "--dedup and --keep-duplicates exclude each other",
            "leave one of them out",
        ));
    }
    let own = |flag: &str| {
        let given = words.value(flag).map(Path::new);
        match given {
            Some(_) if !list => Err(Error::refused(
                format!("--{flag}: a data set has its own labels and features"),
                format!("leave --{flag} out"),
            )),
            given => Ok(given),
        }
    };
    let table = own("vertex-table")?.map(|path| {
        tables::sound::sound(path, Content::Vertices)?;
        Ok::<_, Error>(Arc::new(tables::vertices(path)?))
    });
    let table = table.transpose()?;
    let mem = words.value("mem").map_or(Ok(base.mem), size)?;
    let block = Options {
        mem,
        ..base.clone()
    }
    .block();
    let features = own("features")?.map(|path| NpyFeatures::open(path, block));
    let features = features.transpose()?.map(Arc::new);
    if features.is_some() && table.as_ref().is_some_and(|table| table.width() > 0) {
        return Err(Error::refused(
            "--features: the vertex table has features, too",
            "leave one of them out",
        ));
    }
    let loops = [SelfLoops::Drop, SelfLoops::Add, SelfLoops::Keep];
    let relabels = [Relabel::None, Relabel::Compact, Relabel::Degree];
    Ok(Options {
        mem,
        symmetrise: words.has("symmetrise"),
        dedup: words.has("dedup") || (base.dedup && !words.has("keep-duplicates")),
        self_loops: choose("self-loops", &["drop", "add", "keep"])?
            .map_or(base.self_loops, |k| loops[k]),
        induce: words.value("induce").map(ids).transpose()?,
        relabel: choose("relabel", &["none", "compact", "degree"])?
            .map_or(base.relabel, |k| relabels[k]),
        ids: match choose("ids", &["u32", "u64"])? {
            Some(1) => Ids::U64,
            _ => Ids::U32,
        },
        vertices: words.number("vertices")?,
        table,
        features,
    })
}

/// Vertex ids from a file, one a line.
fn ids(path: &str) -> Result<Vec<u64>> {
    let text = std::fs::read_to_string(path).map_err(Error::io(Path::new(path)))?;
    let lines = text.lines().map(str::trim).enumerate();
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(k, line)| {
            line.parse().map_err(|_| {
                Error::refused(
                    format!("induce: {path}: line {}: expected a vertex id", k + 1),
                    "write one vertex id a line",
                )
            })
        })
        .collect()
}

/// A number of bytes: a number, perhaps with a decimal or binary unit.
fn size(text: &str) -> Result<u64> {
    bytes(text).ok_or_else(|| {
        Error::refused(
            format!("mem: expected a size, got {text}"),
            "write --mem 1GB or --mem 500MiB",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("1GB", 1_000_000_000),
            ("1.5 MiB", 3 << 19),
            ("200", 200),
            ("64mib", 64 << 20),
        ] {
            assert_eq!(size(text).expect(text), bytes);
        }
        for text in ["", "GB", "1XB", "-1GB", "NaN"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
