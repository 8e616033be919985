//! Sparse matrices and lists of rows on a device, and how their work is cut.

use super::{Arg, Buf, Device};
use crate::Csr;
use std::ops::Range;
use std::sync::Arc;

/// Edges of a piece: a warp works through them one after another, so a hub row costs as long as
/// this many, however large it is.
const PIECE: u32 = 512;

/// How the rows of a sparse matrix become items of work: rows with more than [`Pieces::piece`]
/// edges are cut. Depends on the matrix only, so that results do.
#[derive(Debug)]
pub struct Pieces {
    /// Edges of an item at most.
    pub piece: u32,
    /// Row of each piece, ascending; the same on the device.
    rows: Vec<u32>,
    on_rows: Buf<u32>,
    /// First edge of each piece.
    first: Buf<u64>,
    /// Rows that were cut, and where their pieces begin `[long rows + 1]`; the same on the device.
    long: Vec<u32>,
    long_first: Vec<u32>,
    on_long: Buf<u32>,
    on_long_first: Buf<u32>,
}

impl Pieces {
    fn new(device: &Arc<Device>, indptr: &[u64], piece: u32) -> Pieces {
        let (mut rows, mut first) = (Vec::new(), Vec::new());
        let (mut long, mut long_first) = (Vec::new(), vec![0u32]);
        for (r, span) in indptr.windows(2).enumerate() {
            if span[1] - span[0] <= u64::from(piece) {
                continue;
            }
            for e in (span[0]..span[1]).step_by(piece as usize) {
                rows.push(r as u32);
                first.push(e);
            }
            long.push(r as u32);
            long_first.push(rows.len() as u32);
        }
        Pieces {
            piece,
            on_rows: device.upload(&rows),
            first: device.upload(&first),
            on_long: device.upload(&long),
            on_long_first: device.upload(&long_first),
            rows,
            long,
            long_first,
        }
    }
}

/// Bytes that a sparse matrix takes on a device, row after row: for somebody who has to know before.
#[derive(Clone, Copy, Debug)]
pub struct SparseNeed {
    kept: bool,
    weighted: bool,
    /// Rows, edges, pieces, long rows.
    rows: usize,
    edges: usize,
    pieces: usize,
    long: usize,
}

impl SparseNeed {
    /// Of no rows; `kept` as the driver's [`super::Driver::keeps_memory`].
    pub fn new(kept: bool, weighted: bool) -> SparseNeed {
        SparseNeed {
            kept,
            weighted,
            rows: 0,
            edges: 0,
            pieces: 0,
            long: 0,
        }
    }

    /// Of the rows of `a`.
    pub fn of(kept: bool, a: Csr<'_>) -> SparseNeed {
        let mut need = SparseNeed::new(kept, a.weights.is_some());
        for span in a.indptr.windows(2) {
            need.add((span[1] - span[0]) as usize);
        }
        need
    }

    /// One row more, with so many edges.
    pub fn add(&mut self, edges: usize) {
        self.rows += 1;
        self.edges += edges;
        if edges > PIECE as usize {
            self.pieces += edges.div_ceil(PIECE as usize);
            self.long += 1;
        }
    }

    /// Its buffers, by bytes.
    fn buffers(&self) -> [usize; 7] {
        let edge = 4 * self.edges;
        [
            8 * (self.rows + 1),
            edge,
            if self.weighted { edge } else { 0 },
            4 * self.pieces,
            8 * self.pieces,
            4 * self.long,
            4 * (self.long + 1),
        ]
    }

    /// Bytes of the matrix alone: where rows begin, columns, values.
    pub fn lists(&self) -> usize {
        self.buffers()[..3].iter().sum()
    }

    /// Bytes that are copied to the device.
    pub fn copied(&self) -> usize {
        self.buffers().iter().sum()
    }

    /// Bytes that it takes there, and with them what a product with rows of `d` columns takes beside.
    pub fn room(&self, d: usize) -> usize {
        let room = |bytes| super::room(self.kept, bytes);
        let buffers = self.buffers();
        let unweighted = usize::from(!self.weighted);
        // Without values there is no buffer for them.
        let own: usize = buffers.into_iter().map(room).sum();
        own - unweighted * room(0) + room(4 * self.pieces * d)
    }
}

/// The items of a range of rows.
pub(super) struct Items {
    pub rows: Range<usize>,
    /// Pieces, among all of the matrix.
    pub pieces: Range<usize>,
    /// Long rows, among all of the matrix.
    pub long: Range<usize>,
}

impl Items {
    /// Blocks that hold them, a warp an item.
    pub fn blocks(&self) -> usize {
        (self.pieces.len() + self.rows.len()).div_ceil(super::ops::WARPS)
    }
}

/// A sparse matrix `[rows, n_cols]` on a device.
#[derive(Debug)]
pub struct SparseOn {
    indptr: Buf<u64>,
    indices: Buf<u32>,
    weights: Option<Buf<f32>>,
    rows: usize,
    n_cols: usize,
    pieces: Pieces,
}

impl SparseOn {
    /// `a` on the device. The caller has checked it ([`Csr::check`]).
    pub fn new(device: &Arc<Device>, a: Csr<'_>) -> SparseOn {
        SparseOn::with_pieces(device, a, PIECE)
    }

    /// With pieces of another length, for tests.
    pub(super) fn with_pieces(device: &Arc<Device>, a: Csr<'_>, piece: u32) -> SparseOn {
        SparseOn {
            indptr: device.upload(a.indptr),
            indices: device.upload(a.indices),
            weights: a.weights.map(|w| device.upload(w)),
            rows: a.rows(),
            n_cols: a.n_cols,
            pieces: Pieces::new(device, a.indptr, piece),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn n_cols(&self) -> usize {
        self.n_cols
    }

    /// Number of stored elements.
    pub fn n_edges(&self) -> usize {
        self.indices.len()
    }

    /// The values, if they are not all 1.
    pub fn weights(&self) -> Option<&Buf<f32>> {
        self.weights.as_ref()
    }

    /// The device it is on.
    pub fn device(&self) -> &Arc<Device> {
        self.indptr.device()
    }

    pub(super) fn indices(&self) -> &Buf<u32> {
        &self.indices
    }

    pub(super) fn indptr(&self) -> &Buf<u64> {
        &self.indptr
    }

    /// The items of `rows`.
    ///
    /// # Panics
    /// When `rows` exceeds the matrix.
    pub(super) fn items(&self, op: &str, rows: Range<usize>) -> Items {
        assert!(
            rows.start <= rows.end && rows.end <= self.rows,
            "{op}: expected rows within {}, got {rows:?}",
            self.rows
        );
        let before = |list: &[u32], row: usize| list.partition_point(|&r| (r as usize) < row);
        let (p, l) = (&self.pieces.rows, &self.pieces.long);
        Items {
            pieces: before(p, rows.start)..before(p, rows.end),
            long: before(l, rows.start)..before(l, rows.end),
            rows,
        }
    }

    /// The arguments CSR_ARGS of every kernel over items.
    pub(super) fn args(&self, items: &Items) -> [Arg; 8] {
        let p = &self.pieces;
        [
            self.indptr.arg(),
            self.indices.arg(),
            Arg::U32(items.rows.start as u32),
            Arg::U32(items.rows.len() as u32),
            Arg::U32(p.piece),
            Arg::U32(items.pieces.len() as u32),
            Arg::U64(p.on_rows.at(items.pieces.start)),
            Arg::U64(p.first.at(items.pieces.start)),
        ]
    }

    /// Long rows of `items`, where their pieces begin, and the first piece.
    pub(super) fn long_args(&self, items: &Items) -> [Arg; 3] {
        let p = &self.pieces;
        [
            Arg::U64(p.on_long.at(items.long.start)),
            Arg::U64(p.on_long_first.at(items.long.start)),
            Arg::U32(p.long_first[items.long.start]),
        ]
    }
}

/// Rows `idx: [m]` of a matrix, as a device adds to them.
#[derive(Debug)]
pub struct Moves {
    /// One more than the largest row.
    pub(super) bound: usize,
    /// Distinct rows, ascending.
    pub(super) targets: Buf<u32>,
    /// Where each one's places begin: `[targets + 1]`.
    pub(super) first: Buf<u32>,
    /// Places in the list by row, ascending within one.
    pub(super) places: Buf<u32>,
}

impl Moves {
    /// The list on the device.
    pub fn new(device: &Arc<Device>, rows: &[u32]) -> Moves {
        let mut places: Vec<u32> = (0..rows.len() as u32).collect();
        places.sort_by_key(|&i| rows[i as usize]); // stable, so ascending within a row
        let (mut targets, mut first) = (Vec::new(), Vec::new());
        for (k, &i) in places.iter().enumerate() {
            let row = rows[i as usize];
            if targets.last() != Some(&row) {
                targets.push(row);
                first.push(k as u32);
            }
        }
        first.push(places.len() as u32);
        Moves {
            bound: targets.last().map_or(0, |&r| r as usize + 1),
            targets: device.upload(&targets),
            first: device.upload(&first),
            places: device.upload(&places),
        }
    }

    /// Distinct rows.
    pub(super) fn targets(&self) -> usize {
        self.targets.len()
    }

    /// Distinct rows, where the places of each begin, the places, and how many rows there are.
    pub(super) fn by_target(&self) -> [Arg; 4] {
        let [targets, first, places] = [&self.targets, &self.first, &self.places].map(Buf::arg);
        [targets, first, places, Arg::U64(self.targets.len() as u64)]
    }

    /// How many rows the list has.
    pub(super) fn rows(&self) -> usize {
        self.places.len()
    }
}
