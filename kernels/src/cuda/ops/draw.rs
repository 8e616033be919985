//! Neighbours that are drawn where the graph lies: `draw.cu`.
//!
//! Uniform draws only, with or without putting back. Which edges those are is defined by
//! [`crate::hash`] and Floyd's algorithm, so that a sampler of the host's that does the same draws the same.

use super::{THREADS, optional};
use crate::cuda::{Arg, Buf, Device};
use crate::{Csr, expect_eq};
use std::sync::Arc;

/// In-edges on a device, to be drawn from.
#[derive(Debug)]
pub struct DrawnFrom {
    indptr: Buf<u64>,
    indices: Buf<u32>,
    weights: Option<Buf<f32>>,
    types: Option<Buf<u16>>,
    ids: Option<Buf<u32>>,
}

/// What a hop draws of each row.
#[derive(Debug, Clone, Copy)]
pub struct DrawHow {
    /// At most so many; all where absent.
    pub k: Option<u32>,
    /// An edge may be drawn more than once: as many as are asked for.
    pub replace: bool,
    /// Edges count for the inverse of their probability.
    pub weigh: bool,
    /// What randomness is made of, with the row's id.
    pub key: u64,
}

/// What was drawn, row by row.
#[derive(Debug, PartialEq)]
pub struct DrawnEdges {
    /// Where each row's edges start: `[rows + 1]`.
    pub indptr: Vec<u64>,
    /// Their sources: `[edges]`.
    pub sources: Vec<u32>,
    /// What they count for; 1 when absent.
    pub weights: Option<Vec<f32>>,
    /// Their types, where the graph has any.
    pub types: Option<Vec<u16>>,
}

impl DrawnFrom {
    /// The in-edges `a`, with their types, on `device`; `ids` are the rows' in what randomness is made of, where
    /// they have others.
    ///
    /// # Panics
    /// When shapes disagree, or the device has not as much memory.
    pub fn new(
        device: &Arc<Device>,
        a: Csr<'_>,
        types: Option<&[u16]>,
        ids: Option<&[u32]>,
    ) -> DrawnFrom {
        let edges = a.indices.len();
        expect_eq("draw", "types", edges, types.map_or(edges, <[u16]>::len));
        let rows = a.indptr.len() - 1;
        let named = ids.map(|ids| &ids[..rows]);
        DrawnFrom {
            indptr: device.upload(a.indptr),
            indices: device.upload(a.indices),
            weights: a.weights.map(|w| device.upload(w)),
            types: types.map(|t| device.upload(t)),
            ids: named.map(|ids| device.upload(ids)),
        }
    }

    /// The in-edges of `rows` that `how` draws, in the host's memory.
    ///
    /// # Panics
    /// For a row that is none, or when the device fails.
    pub fn draw(&self, rows: &[u32], how: DrawHow) -> DrawnEdges {
        let device = self.indptr.device();
        let bound = self.indptr.len() - 1;
        if let Some(v) = rows.iter().find(|&&v| v as usize >= bound) {
            panic!("draw: expected rows below {bound}, got {v}");
        }
        let (n, over) = (rows.len(), device.upload(rows));
        let hop = [
            self.indptr.arg(),
            over.arg(),
            Arg::U64(n as u64),
            Arg::U32(how.k.unwrap_or(u32::MAX)),
            Arg::U32(u32::from(how.replace)),
        ];
        let with = |more: &[Arg]| [&hop[..], more].concat();
        let blocks = |n: usize| [n.div_ceil(THREADS as usize), 1, 1];
        let ends = device.fresh::<u64>(n + 1);
        // SAFETY: draw_count's and draw_ends' arguments; rows were checked above.
        unsafe {
            device.launch("draw_count", blocks(n), &with(&[ends.arg()]));
            device.launch("draw_ends", [1, 1, 1], &[Arg::U64(n as u64), ends.arg()]);
        }
        let indptr = ends.download();
        let edges = indptr[n] as usize;
        let picked = device.fresh::<u32>(edges);
        let sources = device.fresh::<u32>(edges);
        let weighs = self.weights.is_some() || (how.weigh && how.k.is_some());
        let counts = weighs.then(|| device.fresh::<f32>(edges));
        let kinds = self.types.as_ref().map(|_| device.fresh::<u16>(edges));
        let pick = [
            Arg::U64(how.key),
            optional(self.ids.as_ref()),
            ends.arg(),
            picked.arg(),
        ];
        let fill = [
            Arg::U32(u32::from(how.weigh)),
            ends.arg(),
            Arg::U64(edges as u64),
            picked.arg(),
            self.indices.arg(),
            optional(self.weights.as_ref()),
            optional(self.types.as_ref()),
            sources.arg(),
            optional(counts.as_ref()),
            optional(kinds.as_ref()),
        ];
        // SAFETY: draw_pick's and draw_fill's arguments; every buffer has an element for each edge.
        unsafe {
            device.launch("draw_pick", blocks(n), &with(&pick));
            device.launch("draw_fill", blocks(edges), &with(&fill));
        }
        DrawnEdges {
            indptr,
            sources: sources.download(),
            weights: counts.map(|c| c.download()),
            types: kinds.map(|t| t.download()),
        }
    }
}
