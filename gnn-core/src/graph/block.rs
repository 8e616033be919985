//! The block: the one data shape that layers run on.

use std::sync::OnceLock;

use kernels::{Csr, CsrBuf};

use crate::Result;

/// A bipartite graph of `n_dst` rows by `n_src` columns, stored by in-edges. The full graph, a
/// partition with its halo, a chunk and a sampled hop are all blocks.
#[derive(Debug, Clone)]
pub struct Block {
    /// Rows: vertices that are computed.
    pub n_dst: usize,
    /// Columns: vertices that are read.
    pub n_src: usize,
    /// Where each row's in-edges start: `[n_dst + 1]`.
    pub indptr: Vec<u64>,
    /// Source of each in-edge, below `n_src`: `[edges]`.
    pub indices: Vec<u32>,
    /// Weight of each in-edge: `[edges]`; all are 1 when absent.
    pub weights: Option<Vec<f32>>,
    /// The transposed, made when first asked for; `None` inside when it equals the block.
    transposed: OnceLock<Option<CsrBuf>>,
}

impl Block {
    /// A block from its arrays, checked once so that kernels need not.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] with the first disagreement between the arrays.
    pub fn new(
        n_dst: usize,
        n_src: usize,
        indptr: Vec<u64>,
        indices: Vec<u32>,
        weights: Option<Vec<f32>>,
    ) -> Result<Block> {
        if indptr.len() != n_dst + 1 {
            return Err(crate::Error::Shape {
                op: "block".into(),
                expected: format!("indptr of length {}", n_dst + 1),
                got: indptr.len().to_string(),
            });
        }
        let block = Block {
            n_dst,
            n_src,
            indptr,
            indices,
            weights,
            transposed: OnceLock::new(),
        };
        block.csr().check()?;
        Ok(block)
    }

    /// The in-edges as a sparse matrix `[n_dst, n_src]`.
    pub fn csr(&self) -> Csr<'_> {
        Csr {
            indptr: &self.indptr,
            indices: &self.indices,
            weights: self.weights.as_deref(),
            n_cols: self.n_src,
        }
    }

    /// The transposed matrix `[n_src, n_dst]` with its weights, for backward. Made at the first
    /// call and kept; a symmetric block is its own transposed and keeps no second copy.
    pub fn csr_t(&self) -> Csr<'_> {
        let made = self.transposed.get_or_init(|| {
            let t = self.csr().transpose();
            let same = self.n_dst == self.n_src
                && t.indptr == self.indptr
                && t.indices == self.indices
                && t.weights == self.weights;
            (!same).then_some(t)
        });
        made.as_ref().map_or_else(|| self.csr(), CsrBuf::view)
    }

    /// Number of in-edges.
    pub fn n_edges(&self) -> usize {
        self.indices.len()
    }

    /// Bytes held, the transposed included where it was made.
    pub fn bytes(&self) -> usize {
        let own = self.indptr.len() * 8
            + self.indices.len() * 4
            + self.weights.as_ref().map_or(0, |w| w.len() * 4);
        own + self
            .transposed
            .get()
            .and_then(Option::as_ref)
            .map_or(0, CsrBuf::bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_checked_once() {
        let new = |indptr: &[u64], indices: &[u32]| {
            Block::new(2, 3, indptr.to_vec(), indices.to_vec(), None)
        };
        assert!(new(&[0, 1, 2], &[2, 0]).is_ok());
        let e = new(&[0, 1], &[2]).unwrap_err().to_string();
        assert_eq!(e, "block: expected indptr of length 3, got 2");
        let e = new(&[0, 1, 2], &[2, 3]).unwrap_err().to_string();
        assert_eq!(e, "csr: expected indices[1] below 3 columns, got 3");
    }

    #[test]
    fn a_symmetric_block_keeps_no_second_copy() {
        let b = Block::new(2, 2, vec![0, 1, 2], vec![1, 0], Some(vec![0.5, 0.5])).expect("valid");
        let before = b.bytes();
        assert_eq!(b.csr_t().indices, [1, 0]);
        assert_eq!(b.bytes(), before);
        let b = Block::new(2, 2, vec![0, 2, 2], vec![0, 1], Some(vec![0.5, 2.0])).expect("valid");
        assert_eq!(
            (b.csr_t().indptr, b.csr_t().weights),
            (&[0, 1, 2][..], Some(&[0.5, 2.0][..]))
        );
        assert!(b.bytes() > before);
    }
}
