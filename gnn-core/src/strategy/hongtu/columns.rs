//! A batch as a block, for layers that read the rows at the other ends of their edges.

use super::batches::Batch;
use super::trainer::Columns;
use crate::backend::Kept;
use crate::error::Result;
use crate::graph::{Block, Relations};
use crate::model::Input;
use crate::strategy::ordered::Ordered;

/// Makes rows of features.
pub(super) type RowsOf<'a> = dyn Fn(&[u32]) -> Input + 'a;

/// A batch whose destinations are vertices `own`, by number. `features` makes the rows of columns that
/// have no place in a buffer.
///
/// # Errors
/// As [`Block::new`].
pub(super) fn columns_of(
    ordered: &Ordered,
    own: &[u32],
    batch: &Batch,
    features: Option<&RowsOf<'_>>,
) -> Result<Columns> {
    let numbers = &batch.columns.numbers;
    let mut column_of = vec![0u32; ordered.ids().len()];
    for (column, &v) in numbers.iter().enumerate() {
        column_of[v as usize] = column as u32;
    }
    let a = ordered.whole.csr();
    let (mut indptr, mut indices) = (vec![0u64], Vec::new());
    let mut weights = a.weights.map(|_| Vec::new());
    let types = ordered.whole.types();
    let mut kinds = types.map(|_| Vec::new());
    for &v in own {
        let span = a.span(v as usize);
        let near = a.indices[span.clone()].iter();
        indices.extend(near.map(|&c| column_of[c as usize]));
        if let (Some(to), Some(from)) = (&mut weights, a.weights) {
            to.extend_from_slice(&from[span.clone()]);
        }
        if let (Some(to), Some(from)) = (&mut kinds, types) {
            to.extend_from_slice(&from[span]);
        }
        indptr.push(indices.len() as u64);
    }
    let block = Block::new(own.len(), numbers.len(), indptr, indices, weights)?;
    let block = match kinds {
        Some(kinds) => block.with_relations(Relations::new(kinds, ordered.whole.n_relations())?)?,
        None => block,
    };
    let ids = ordered.vertices(numbers);
    Ok(Columns {
        block,
        features: features.map(|of| of(&ids)),
        ids: Kept::from(ids),
    })
}
