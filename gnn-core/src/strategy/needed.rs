//! Only the rows that the loss depends on.
//!
//! The last layer's output is read at training vertices alone, the layer before at these and their
//! sources, and so on back to the features. Training on blocks cut to those rows gives the loss and
//! the gradients of the whole graph, since everything left out is multiplied by zero. Vertices are
//! numbered so that the rows of every layer are the first ones of the layer below; the sources of a
//! row keep their order, and so its sum its bits. Evaluation runs on the whole graph.

use crate::backend::Mat;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::graph::Block;
use crate::model::{Aggregate, At};
use crate::record::Direction;

/// Which rows each layer needs.
pub(super) struct Needed {
    /// All vertices, those needed by later layers first.
    pub(super) order: Vec<u32>,
    /// `rows[l]` rows of the input of layer `l`, and at the end of the last one's output.
    pub(super) rows: Vec<usize>,
}

impl Needed {
    /// What the loss of the training vertices reads of `layers` layers over `block: [n, n]`.
    pub(super) fn of(block: &Block, train: &[bool], layers: usize) -> Needed {
        let a = block.csr();
        let mut reached = train.to_vec();
        let mut order: Vec<u32> = (0..train.len() as u32)
            .filter(|&v| train[v as usize])
            .collect();
        let mut rows = vec![order.len()];
        let mut from = 0;
        for _ in 0..layers {
            let known = order.len();
            for k in from..known {
                for &s in &a.indices[a.span(order[k] as usize)] {
                    if !std::mem::replace(&mut reached[s as usize], true) {
                        order.push(s);
                    }
                }
            }
            // Neighbours in the graph stay near each other in memory.
            order[known..].sort_unstable();
            from = known;
            rows.push(order.len());
        }
        rows.reverse();
        order.extend((0..train.len() as u32).filter(|&v| !reached[v as usize]));
        Needed { order, rows }
    }
}

/// Aggregation over one block a layer, and over the whole graph for evaluation.
pub(super) struct OverNeeded {
    layers: Vec<Block>,
    whole: Block,
}

impl OverNeeded {
    /// `block: [n, n]` renumbered and cut as `needed` says. The first layer's sources are all
    /// vertices, so that its input is the features as they are.
    ///
    /// # Errors
    /// None for a square block; what [`Block::new`] refuses.
    pub(super) fn new(block: &Block, needed: &Needed) -> Result<OverNeeded> {
        let n = needed.order.len();
        let mut place = vec![0u32; n];
        for (k, &v) in needed.order.iter().enumerate() {
            place[v as usize] = k as u32;
        }
        let cut = |rows: usize, n_src: usize| {
            let a = block.csr();
            let mut indptr = vec![0u64];
            let (mut indices, mut weights) = (Vec::new(), a.weights.map(|_| Vec::new()));
            for &v in &needed.order[..rows] {
                let span = a.span(v as usize);
                indices.extend(a.indices[span.clone()].iter().map(|&s| place[s as usize]));
                if let (Some(to), Some(from)) = (&mut weights, a.weights) {
                    to.extend_from_slice(&from[span]);
                }
                indptr.push(indices.len() as u64);
            }
            Block::new(rows, n_src, indptr, indices, weights)
        };
        let layers = (1..needed.rows.len())
            .map(|l| cut(needed.rows[l], if l == 1 { n } else { needed.rows[l - 1] }))
            .collect::<Result<_>>()?;
        let whole = cut(n, n)?;
        Ok(OverNeeded { layers, whole })
    }
}

impl Aggregate for OverNeeded {
    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let a = match at.direction {
            Direction::Eval => self.whole.edges(),
            Direction::Backward => self.layers[at.layer].edges_t(),
            _ => self.layers[at.layer].edges(),
        };
        let mut out = cx.backend.fresh(a.rows(), x.ncols());
        cx.backend.spmm(a, 0..a.rows(), x, &mut out);
        Ok(out)
    }
}
