//! A mini-batch as layers run on it.

use crate::backend::{Kept, Mat, Sparse, Write};
use crate::ctx::Ctx;
use crate::dataset::Rows;
use crate::error::Result;
use crate::graph::Block;
use crate::head::PairBatch;
use crate::model::{Aggregate, At, Edges, Input};
use crate::record::Direction;
use std::sync::Arc;

/// A mini-batch, ready to be trained on.
pub struct Batch {
    /// Its number in the epoch.
    pub step: u64,
    /// What the first layer reads: the rows of [`Hops::inputs`].
    pub input: Input,
    /// The blocks.
    pub hops: Hops,
    /// The seeds with their labels; `train_total` counts the terms of the loss of all ranks in this step.
    pub rows: Rows,
    /// Where links are predicted, pairs of seeds.
    pub pairs: Option<PairBatch>,
}

/// How the layers of a batch reach other vertices.
pub struct Hops {
    /// The data set's ids of the rows of the input; none for an input whose aggregate is known.
    pub inputs: Kept<u32>,
    /// By layer.
    pub layers: Vec<LayerBlock>,
}

/// One layer's block. The rows of a layer are the first columns of the next one's; behind them that one may
/// have more, of vertices that nothing in the batch computes.
pub struct LayerBlock {
    /// None for a first layer whose aggregate is known.
    pub block: Option<Block>,
    /// The data set's ids of what the layer makes.
    pub rows: Kept<u32>,
    /// Those of what it reads: its rows come first. None without a block.
    pub columns: Kept<u32>,
    /// What it sums beside them.
    pub leaves: Option<Leaves>,
}

/// Edges of a layer that only sums, to vertices that nothing in the batch computes: they are in no column.
pub struct Leaves {
    /// By row of the layer, over rows that come from elsewhere.
    pub edges: Sparse,
    /// Those rows, once they are there: `[leaves, d]`.
    pub rows: Option<Arc<kernels::Mat>>,
}

impl LayerBlock {
    /// Of a layer that does not run.
    pub(super) fn none() -> LayerBlock {
        LayerBlock {
            block: None,
            rows: Kept::default(),
            columns: Kept::default(),
            leaves: None,
        }
    }
}

impl Aggregate for Hops {
    fn edges(&mut self, at: At) -> Option<Edges<'_>> {
        let layer = &self.layers[at.layer];
        let block = layer.block.as_ref()?;
        Some(Edges {
            block,
            n_interior: block.n_dst,
            ids: &layer.columns,
            neighbours: None,
        })
    }

    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let LayerBlock { block, leaves, .. } = &self.layers[at.layer];
        let block = block.as_ref();
        let block = block.expect("only a first layer whose aggregate is known has none");
        let a = match at.direction {
            Direction::Backward => block.edges_t(),
            _ => block.edges(),
        };
        let mut out = cx.backend.fresh(a.rows(), x.ncols());
        cx.backend.spmm(a, 0..a.rows(), x, Write::Set, &mut out);
        let leaves = leaves
            .as_ref()
            .filter(|_| at.direction != Direction::Backward);
        if let Some(Leaves { edges, rows }) = leaves {
            let rows = rows.as_ref();
            let rows = rows.expect("leaves have rows before a layer runs");
            let rows = cx.backend.share(rows);
            cx.backend
                .spmm(edges, 0..a.rows(), &rows, Write::Add, &mut out);
        }
        cx.comm.poll()?;
        Ok(out)
    }
}
