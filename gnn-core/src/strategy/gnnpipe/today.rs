//! The edges over which chunks read and give back in one epoch: its order of chunks decides which rows are
//! this epoch's, and which gradients are there.
//!
//! Made anew where the order or the halves of the [history](super::history) change: one pass over the edges,
//! once an epoch, for all layers.

use super::chunk::Chunks;
use crate::backend::Sparse;
use kernels::{Csr, CsrBuf};
use std::ops::Range;

/// What an epoch's edges depend on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reads {
    /// Chunks as they go forward.
    pub(super) order: Vec<usize>,
    /// Where fresh and frozen rows begin; none where they lie in one place.
    pub(super) halves: Option<[usize; 2]>,
    /// Whether chunks that have not gone back yet give gradients too.
    pub(super) all_gradients: bool,
}

/// The edges of an epoch, by chunk.
pub(super) struct Today {
    reads: Reads,
    edges: Vec<Edges>,
    stale_rows: u64,
}

struct Edges {
    /// In-edges over fresh and frozen rows; none where they are the chunk's.
    forward: Option<Sparse>,
    /// Out-edges to rows that have gone back; none where they are the chunk's.
    backward: Option<Sparse>,
    stale: u64,
}

impl Today {
    /// Of an epoch that reads so.
    pub(super) fn new(chunks: &Chunks, reads: Reads) -> Today {
        let mut place = vec![0; chunks.all.len()];
        for (at, &chunk) in reads.order.iter().enumerate() {
            place[chunk] = at as u32;
        }
        // When the chunk of each source, and of each own row, has its turn.
        let spread = |of: fn(&super::chunk::Chunk) -> &Range<usize>| {
            let turns = chunks.all.iter().zip(&place);
            let each = turns.flat_map(move |(chunk, &at)| of(chunk).clone().map(move |_| at));
            each.collect::<Vec<u32>>()
        };
        let (source, own) = (spread(|chunk| &chunk.seen), spread(|chunk| &chunk.own));
        let (mut stale_rows, mut seen_by) = (0, vec![usize::MAX; source.len()]);
        let each = chunks.all.iter().zip(&place).enumerate();
        let edges = each.map(|(number, (chunk, &at))| {
            let is_fresh = |c: u32| source[c as usize] <= at;
            let csr = chunk.edges.view();
            let forward = reads.halves.map(|[fresh, frozen]| {
                let start = |c: u32| if is_fresh(c) { fresh } else { frozen };
                let moved = csr.indices.iter().map(|&c| c + start(c) as u32);
                Sparse::new(CsrBuf {
                    indptr: csr.indptr.to_vec(),
                    indices: moved.collect(),
                    weights: csr.weights.map(<[f32]>::to_vec),
                    n_cols: 2 * csr.n_cols,
                })
            });
            let backward = (!reads.all_gradients)
                .then(|| Sparse::new(kept(chunk.edges_t.view(), |r| own[r as usize] >= at)));
            let old = csr.indices.iter().filter(|&&c| !is_fresh(c));
            let mut stale = 0;
            for &c in old {
                stale += 1;
                let last = std::mem::replace(&mut seen_by[c as usize], number);
                stale_rows += u64::from(last != number);
            }
            Edges {
                forward,
                backward,
                stale,
            }
        });
        let edges = edges.collect();
        Today {
            reads,
            edges,
            stale_rows,
        }
    }

    /// Whether an epoch reads as this one does.
    pub(super) fn is(&self, reads: &Reads) -> bool {
        self.reads == *reads
    }

    /// The in-edges of a chunk.
    pub(super) fn forward(&self, chunk: usize) -> Option<&Sparse> {
        self.edges[chunk].forward.as_ref()
    }

    /// Its out-edges to rows whose gradients are there.
    pub(super) fn backward(&self, chunk: usize) -> Option<&Sparse> {
        self.edges[chunk].backward.as_ref()
    }

    /// Historical rows that all chunks read, each once for every chunk that does.
    pub(super) fn stale_rows(&self) -> u64 {
        self.stale_rows
    }

    /// How many of its in-edges come from chunks that have not come yet.
    pub(super) fn stale(&self, chunk: usize) -> u64 {
        self.edges[chunk].stale
    }
}

/// The edges of `a` whose columns are to be kept.
fn kept(a: Csr<'_>, keep: impl Fn(u32) -> bool) -> CsrBuf {
    let mut out = CsrBuf {
        weights: a.weights.map(|_| Vec::new()),
        ..CsrBuf::empty(a.n_cols)
    };
    for row in 0..a.rows() {
        for e in a.span(row).filter(|&e| keep(a.indices[e])) {
            out.indices.push(a.indices[e]);
            if let (Some(to), Some(from)) = (&mut out.weights, a.weights) {
                to.push(from[e]);
            }
        }
        out.indptr.push(out.indices.len() as u64);
    }
    out
}
