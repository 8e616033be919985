//! A mini-batch as layers run on it.

use crate::backend::{Kept, Mat, Write};
use crate::ctx::Ctx;
use crate::dataset::Rows;
use crate::error::Result;
use crate::graph::Block;
use crate::head::PairBatch;
use crate::model::{Aggregate, At, Edges, Input};
use crate::record::Direction;

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
}

impl LayerBlock {
    /// Of a layer that does not run.
    pub(super) fn none() -> LayerBlock {
        LayerBlock {
            block: None,
            rows: Kept::default(),
            columns: Kept::default(),
        }
    }

    fn block(&self) -> &Block {
        let block = self.block.as_ref();
        block.expect("only a first layer whose aggregate is known has none")
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
        let block = self.layers[at.layer].block();
        let a = match at.direction {
            Direction::Backward => block.edges_t(),
            _ => block.edges(),
        };
        let mut out = cx.backend.fresh(a.rows(), x.ncols());
        cx.backend.spmm(a, 0..a.rows(), x, Write::Set, &mut out);
        cx.comm.poll()?;
        Ok(out)
    }
}
