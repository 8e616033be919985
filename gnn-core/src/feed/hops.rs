//! A mini-batch as layers run on it.

use crate::backend::{Kept, Mat, Write};
use crate::ctx::Ctx;
use crate::dataset::Rows;
use crate::error::{Error, Result};
use crate::graph::{Block, Relations};
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

    /// Drops the columns for which `keep: [columns]` is false, with their edges. With `rescale`, what is
    /// left of a row's edges counts for all it had: weights are multiplied by edges before over edges after.
    ///
    /// # Errors
    /// [`Error::Shape`] for a list of another length, or that drops one of the layer's own rows.
    pub fn keep_columns(&mut self, keep: &[bool], rescale: bool) -> Result<()> {
        let block = self.block();
        let rows = block.n_dst;
        if keep.len() != block.n_src || keep[..rows.min(keep.len())].contains(&false) {
            return Err(Error::Shape {
                op: "columns of a layer".into(),
                expected: format!("{} of which the first {rows} are kept", block.n_src),
                got: format!(
                    "{} with {}",
                    keep.len(),
                    keep.iter().filter(|k| **k).count()
                ),
            });
        }
        let mut count = 0;
        let place = keep.iter().map(|&kept| {
            count += u32::from(kept);
            kept.then(|| count - 1)
        });
        let place: Vec<Option<u32>> = place.collect();
        let a = block.csr();
        let types = block.types();
        let (mut indptr, mut indices) = (vec![0u64], Vec::with_capacity(a.n_edges()));
        let mut weights = (a.weights.is_some() || rescale).then(Vec::new);
        let mut kept_types = types.map(|_| Vec::new());
        for r in 0..rows {
            let (span, first) = (a.span(r), indices.len());
            for e in span.clone() {
                let Some(column) = place[a.indices[e] as usize] else {
                    continue;
                };
                indices.push(column);
                if let Some(weights) = &mut weights {
                    weights.push(a.weight(e));
                }
                if let (Some(to), Some(from)) = (&mut kept_types, types) {
                    to.push(from[e]);
                }
            }
            let left = indices.len() - first;
            if let Some(weights) = weights.as_mut().filter(|_| rescale && left < span.len()) {
                let factor = span.len() as f32 / left as f32;
                weights[first..].iter_mut().for_each(|w| *w *= factor);
            }
            indptr.push(indices.len() as u64);
        }
        let less = Block::brief(rows, count as usize, indptr, indices, weights)?;
        let less = match kept_types {
            Some(types) => less.with_relations(Relations::new(types, block.n_relations())?)?,
            None => less,
        };
        self.block = Some(less);
        let ids = self.columns.iter().zip(keep).filter(|(_, keep)| **keep);
        self.columns = ids.map(|(&id, _)| id).collect::<Vec<_>>().into();
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(weights: Option<Vec<f32>>) -> LayerBlock {
        let block = Block::new(2, 5, vec![0, 3, 5], vec![2, 3, 4, 4, 0], weights).expect("valid");
        let types = Relations::new(vec![0, 1, 2, 0, 1], 3).expect("three");
        LayerBlock {
            block: Some(block.with_relations(types).expect("one an edge")),
            rows: vec![10, 11].into(),
            columns: vec![10, 11, 12, 13, 14].into(),
        }
    }

    #[test]
    fn dropped_columns_take_their_edges_with_them() {
        let mut of = layer(Some(vec![1.0, 2.0, 4.0, 8.0, 16.0]));
        of.keep_columns(&[true, true, true, false, true], false)
            .expect("its rows are kept");
        let (block, a) = (of.block(), of.block().csr());
        assert_eq!((a.indptr, a.indices), (&[0, 2, 4][..], &[2, 3, 3, 0][..]));
        assert_eq!(a.weights, Some(&[1.0, 4.0, 8.0, 16.0][..]));
        assert_eq!(block.types().map(|t| t.to_vec()), Some(vec![0, 2, 0, 1]));
        assert_eq!(
            (block.n_relations(), &of.columns[..]),
            (3, &[10, 11, 12, 14][..])
        );
    }

    #[test]
    fn what_is_left_counts_for_all_that_was_there() {
        let mut of = layer(None);
        of.keep_columns(&[true, true, true, false, false], true)
            .expect("its rows are kept");
        let a = of.block().csr();
        assert_eq!((a.indptr, a.indices), (&[0, 1, 2][..], &[2, 0][..]));
        assert_eq!(a.weights, Some(&[3.0, 2.0][..]));
        // A row that loses all has nothing.
        let mut of = layer(None);
        of.keep_columns(&[true, true, false, false, false], true)
            .expect("its rows are kept");
        assert_eq!(of.block().csr().indptr, [0, 0, 1]);
    }

    #[test]
    fn a_layers_own_rows_stay() {
        for keep in [&[true, false, true, true, true][..], &[true; 4]] {
            let e = layer(None).keep_columns(keep, false).expect_err("refused");
            assert!(e.to_string().contains("columns of a layer"), "{e}");
        }
    }
}
