//! What a run has kept of every vertex: the frame `embeddings`.

use crate::error::{Error, Result};
use gnn_core::embeddings::{Embeddings, SETS, path};
use polars::prelude::{Column, DataFrame, NamedFrom, Series};
use std::path::Path;

/// Its name.
pub(super) const NAME: &str = "embeddings";

/// Whether ranks of the run have written what is to be made a frame of.
pub(super) fn are_written(run_dir: &Path, ranks: u32) -> bool {
    (0..ranks as usize).all(|rank| path(run_dir, rank).exists())
}

/// One row a vertex: its class and set, where it has any, and what the model makes of it, a column each.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn frame(run_dir: &Path, ranks: u32) -> Result<DataFrame> {
    let read = |rank: u32| {
        let part = Embeddings::read(&path(run_dir, rank as usize)).map_err(Error::Core)?;
        Ok((rank, part))
    };
    let parts = (0..ranks).map(read).collect::<Result<Vec<_>>>()?;
    let mut rows: Vec<(u32, usize, usize)> = Vec::new();
    for (p, (_, part)) in parts.iter().enumerate() {
        rows.extend(part.vertices.iter().zip(0..).map(|(&v, r)| (v, p, r)));
    }
    rows.sort_unstable();
    let class = |&(_, p, r): &(u32, usize, usize)| {
        let label: i32 = parts[p].1.labels[r];
        (label >= 0).then_some(label)
    };
    let set = |&(_, p, r): &(u32, usize, usize)| {
        let set = SETS[usize::from(parts[p].1.sets[r])];
        (!set.is_empty()).then_some(set)
    };
    let vertices: Vec<u32> = rows.iter().map(|row| row.0).collect();
    let owners: Vec<u32> = rows.iter().map(|row| parts[row.1].0).collect();
    let mut columns: Vec<Column> = vec![
        Series::new("vertex".into(), vertices).into(),
        Series::new("rank".into(), owners).into(),
        Series::new("class".into(), rows.iter().map(class).collect::<Vec<_>>()).into(),
        Series::new("set".into(), rows.iter().map(set).collect::<Vec<_>>()).into(),
    ];
    let width = parts.first().map_or(0, |(_, part)| part.values.ncols());
    for c in 0..width {
        let of = rows.iter().map(|&(_, p, r)| parts[p].1.values[[r, c]]);
        let values: Vec<f32> = of.collect();
        columns.push(Series::new(format!("e{c}").into(), values).into());
    }
    DataFrame::new(rows.len(), columns).map_err(Error::frame(NAME))
}

/// Removes what the frame was made of.
pub(super) fn clear(run_dir: &Path, ranks: u32) {
    for rank in 0..ranks as usize {
        // What is left takes room, and nothing else.
        let _ = std::fs::remove_file(path(run_dir, rank));
    }
}
