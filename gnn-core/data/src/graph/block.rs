//! The block: the one data shape that layers run on.

use crate::Result;
use crate::graph::Relations;
use crate::kept::{Kept, Sparse};
use kernels::{Csr, CsrBuf};
use std::sync::OnceLock;

/// A bipartite graph of `n_dst` rows by `n_src` columns, stored by in-edges. The full graph, a
/// partition with its halo, a chunk and a sampled hop are all blocks.
#[derive(Debug, Clone)]
pub struct Block {
    /// Rows: vertices that are computed.
    pub n_dst: usize,
    /// Columns: vertices that are read.
    pub n_src: usize,
    /// In-edges by row, with their weights.
    edges: Sparse,
    /// Type of each in-edge and number of types, where they have any.
    types: Option<(Kept<u16>, usize)>,
    /// Types in the order of the transposed, made when first asked for.
    types_t: OnceLock<Kept<u16>>,
    /// The transposed, made when first asked for; `None` inside when it equals the block.
    transposed: OnceLock<Option<Sparse>>,
    /// Where each in-edge is in the transposed, made when first asked for.
    t_of: OnceLock<Kept<u32>>,
    /// The edges by source and relation, and their transposed, made when first asked for.
    by_relation: OnceLock<Box<[Sparse; 2]>>,
    /// The edges within each relation, and their transposed, made when first asked for.
    within_relations: OnceLock<Box<[Sparse; 2]>>,
    /// The edges by destination and relation, and their transposed, made when first asked for.
    to_relations: OnceLock<Box<[Sparse; 2]>>,
}

impl Block {
    /// A block from its arrays, checked once so that kernels need not: where each row's in-edges
    /// start `[n_dst + 1]`, the source of each, below `n_src` `[edges]`, and its weight `[edges]`
    /// (all are 1 when absent).
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
        let csr = CsrBuf {
            indptr,
            indices,
            weights,
            n_cols: n_src,
        };
        csr.view().check()?;
        Ok(Block {
            n_dst,
            n_src,
            edges: Sparse::new(csr),
            types: None,
            types_t: OnceLock::new(),
            transposed: OnceLock::new(),
            t_of: OnceLock::new(),
            by_relation: OnceLock::new(),
            within_relations: OnceLock::new(),
            to_relations: OnceLock::new(),
        })
    }

    /// [`Block::new`] for a block that is used once, forward only.
    ///
    /// # Errors
    /// As [`Block::new`].
    pub fn once(
        n_dst: usize,
        n_src: usize,
        indptr: Vec<u64>,
        indices: Vec<u32>,
        weights: Option<Vec<f32>>,
    ) -> Result<Block> {
        let mut block = Block::new(n_dst, n_src, indptr, indices, weights)?;
        block.edges = Sparse::brief(block.edges.into_csr());
        Ok(block)
    }

    /// [`Block::once`] with its transposed: a batch's.
    ///
    /// # Errors
    /// As [`Block::new`].
    pub fn brief(
        n_dst: usize,
        n_src: usize,
        indptr: Vec<u64>,
        indices: Vec<u32>,
        weights: Option<Vec<f32>>,
    ) -> Result<Block> {
        let mut block = Block::once(n_dst, n_src, indptr, indices, weights)?;
        let transposed = Sparse::brief(block.csr().transpose());
        block.transposed = OnceLock::from(Some(transposed));
        Ok(block)
    }

    /// The in-edges as a sparse matrix `[n_dst, n_src]`.
    #[inline]
    pub fn edges(&self) -> &Sparse {
        &self.edges
    }

    /// The in-edges' arrays.
    #[inline]
    pub fn csr(&self) -> Csr<'_> {
        self.edges.view()
    }

    /// The transposed matrix `[n_src, n_dst]` with its weights, for backward. Made at the first
    /// call and kept; a symmetric block is its own transposed and keeps no second copy.
    #[inline]
    pub fn edges_t(&self) -> &Sparse {
        let made = self.transposed.get_or_init(|| {
            let a = self.csr();
            (!a.is_symmetric()).then(|| Sparse::new(a.transpose()))
        });
        made.as_ref().unwrap_or(&self.edges)
    }

    /// The block with a type for each of its in-edges.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when there are more or fewer types than edges.
    pub fn with_relations(mut self, relations: Relations) -> Result<Block> {
        let count = relations.count();
        let types = relations.into_types();
        if types.len() != self.n_edges() {
            return Err(crate::Error::Shape {
                op: "block".into(),
                expected: format!("{} edge types", self.n_edges()),
                got: types.len().to_string(),
            });
        }
        self.types = Some((types.into(), count));
        self.types_t = OnceLock::new();
        self.by_relation = OnceLock::new();
        self.within_relations = OnceLock::new();
        self.to_relations = OnceLock::new();
        Ok(self)
    }

    /// Where each in-edge is in [`Block::edges_t`]: `[edges]`. Made at the first call and kept.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for 2³² edges or more.
    pub fn t_of(&self) -> Result<&Kept<u32>> {
        if let Some(made) = self.t_of.get() {
            return Ok(made);
        }
        let made = self.csr().transpose_map()?;
        Ok(self.t_of.get_or_init(|| made.into()))
    }

    /// Number of relations that the edges belong to; 0 without types.
    #[inline]
    pub fn n_relations(&self) -> usize {
        self.types.as_ref().map_or(0, |t| t.1)
    }

    /// Type of each in-edge, below [`Block::n_relations`], where they have any: `[edges]`.
    #[inline]
    pub fn types(&self) -> Option<&Kept<u16>> {
        self.types.as_ref().map(|t| &t.0)
    }

    /// Type of each edge in the order of [`Block::edges_t`], where edges have types: `[edges]`.
    /// Made at the first call and kept.
    #[inline]
    pub fn types_t(&self) -> Option<&Kept<u16>> {
        let types = self.types()?;
        let made = self.types_t.get_or_init(|| {
            // The same stable order as `Csr::transpose`, which also fits a block that is its own
            // transposed: an edge and its reverse may have different types.
            let mut next = self.edges_t().view().indptr.to_vec();
            let mut out = vec![0; types.len()];
            for (&s, &t) in self.csr().indices.iter().zip(types.iter()) {
                let slot = &mut next[s as usize];
                out[*slot as usize] = t;
                *slot += 1;
            }
            out.into()
        });
        Some(made)
    }

    /// The edges over columns `source · relations + relation`, and their transposed:
    /// `[n_dst, n_src · relations]`, for rows that are different to each relation. Made at the
    /// first call and kept.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when edges have no types, or there are 2³² columns or more.
    pub fn by_relation(&self) -> Result<&[Sparse; 2]> {
        if let Some(made) = self.by_relation.get() {
            return Ok(made);
        }
        let csr = self.with_types(self.csr(), self.types())?;
        let transposed = csr.view().transpose();
        let made = Box::new([Sparse::new(csr), Sparse::new(transposed)]);
        Ok(self.by_relation.get_or_init(|| made))
    }

    /// The edges to rows `destination · relations + relation`, and their transposed:
    /// `[n_dst · relations, n_src]`, for what every relation sums apart. Made at the first call and
    /// kept.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when edges have no types, or there would be 2³² rows or more.
    pub fn to_relations(&self) -> Result<&[Sparse; 2]> {
        if let Some(made) = self.to_relations.get() {
            return Ok(made);
        }
        let csr = self.with_types(self.edges_t().view(), self.types_t())?;
        let transposed = csr.view().transpose();
        let made = Box::new([Sparse::new(transposed), Sparse::new(csr)]);
        Ok(self.to_relations.get_or_init(|| made))
    }

    /// `a` over columns `column · relations + relation`; `types` has each of its edges' relation.
    fn with_types(&self, a: Csr<'_>, types: Option<&Kept<u16>>) -> Result<CsrBuf> {
        let relations = self.n_relations();
        let n_cols = a.n_cols * relations;
        let types = types.filter(|_| u32::try_from(n_cols).is_ok());
        let types = types.ok_or_else(|| crate::Error::Shape {
            op: "block by relation".into(),
            expected: "typed edges, and vertices times relations below 2³²".into(),
            got: format!("{} vertices, {relations} relations", a.n_cols),
        })?;
        let pairs = a.indices.iter().zip(types.iter());
        Ok(CsrBuf {
            indptr: a.indptr.to_vec(),
            indices: pairs
                .map(|(&v, &t)| v * relations as u32 + u32::from(t))
                .collect(),
            weights: a.weights.map(<[f32]>::to_vec),
            n_cols,
        })
    }

    /// The edges from `source · relations + relation` to `destination · relations + relation`, and
    /// their transposed: `[n_dst · relations, n_src · relations]`, for rows that each relation
    /// propagates apart. Made at the first call and kept.
    ///
    /// # Errors
    /// As [`Block::by_relation`].
    pub fn within_relations(&self) -> Result<&[Sparse; 2]> {
        if let Some(made) = self.within_relations.get() {
            return Ok(made);
        }
        let [columns, _] = self.by_relation()?;
        let (a, relations) = (columns.view(), self.n_relations());
        let types = self.types().expect("by_relation asks for them");
        let mut order: Vec<usize> = (0..a.n_edges()).collect();
        let mut indptr = Vec::with_capacity(self.n_dst * relations + 1);
        indptr.push(0);
        for v in 0..self.n_dst {
            let row = &mut order[a.span(v)];
            row.sort_by_key(|&e| types[e]);
            for r in 0..relations {
                let upto = row.partition_point(|&e| usize::from(types[e]) <= r);
                indptr.push(a.indptr[v] + upto as u64);
            }
        }
        let csr = CsrBuf {
            indptr,
            indices: order.iter().map(|&e| a.indices[e]).collect(),
            weights: a.weights.map(|w| order.iter().map(|&e| w[e]).collect()),
            n_cols: a.n_cols,
        };
        let transposed = csr.view().transpose();
        let made = Box::new([Sparse::new(csr), Sparse::new(transposed)]);
        Ok(self.within_relations.get_or_init(|| made))
    }

    /// Number of in-edges.
    #[inline]
    pub fn n_edges(&self) -> usize {
        self.edges.n_edges()
    }

    /// Bytes held, the transposed included where it was made.
    pub fn bytes(&self) -> usize {
        let second = self.transposed.get().and_then(Option::as_ref);
        let types = self.types.as_ref().map_or(0, |t| t.0.len() * 2);
        let types_t = self.types_t.get().map_or(0, |t| t.len() * 2);
        let made = [
            self.by_relation.get(),
            self.within_relations.get(),
            self.to_relations.get(),
        ];
        let by_relation = made.into_iter().flatten().flat_map(|b| b.iter());
        let by_relation: usize = by_relation.map(Sparse::bytes).sum();
        let t_of = self.t_of.get().map_or(0, |t| t.len() * 4);
        self.edges.bytes() + second.map_or(0, Sparse::bytes) + types + types_t + t_of + by_relation
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
        assert_eq!(b.edges_t().view().indices, [1, 0]);
        assert_eq!(b.bytes(), before);
        let b = Block::new(2, 2, vec![0, 2, 2], vec![0, 1], Some(vec![0.5, 2.0])).expect("valid");
        assert_eq!(
            (b.edges_t().view().indptr, b.edges_t().view().weights),
            (&[0, 1, 2][..], Some(&[0.5, 2.0][..]))
        );
        assert!(b.bytes() > before);
    }
}
