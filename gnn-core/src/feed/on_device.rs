//! What a layer reads, on the device: rows as they come, or sums of them where they lie.

use super::collect::{MadeInput, Source};
use super::rows::RowData;
use crate::backend::{Mat, Sparse, Write};
use crate::ctx::Ctx;
use crate::model::{Input, SparseInput};
use std::rc::Rc;
use std::sync::Arc;

/// Rows on a rank's device: its own, and those of others that it keeps.
#[derive(Clone, Copy)]
pub(super) struct Lies<'a> {
    pub(super) store: &'a Input,
    pub(super) cached: Option<&'a Mat>,
}

/// What a layer reads, on the device.
pub(super) fn on_device(cx: &mut Ctx, made: MadeInput, lies: Lies<'_>) -> Input {
    match made {
        MadeInput::Nothing => unreachable!("something is read"),
        MadeInput::Rows(RowData::Dense(x), _) => {
            // Nobody else has them, as a rule, so that they may be changed where they are.
            let x = match Arc::try_unwrap(x) {
                Ok(x) => cx.backend.upload(x),
                Err(x) => cx.backend.share(&x),
            };
            Input::Dense(Rc::new(x))
        }
        MadeInput::Rows(RowData::Sparse(x), transposed) => {
            let rows = Arc::try_unwrap(x).unwrap_or_else(|x| kernels::CsrBuf::clone(&x));
            Input::Sparse(SparseInput::brief(rows, transposed))
        }
        MadeInput::InPlace(parts, fetched, own) => aggregated(cx, lies, &parts, &fetched, own),
    }
}

/// The aggregate of rows where they lie, beside the destinations' own.
fn aggregated(
    cx: &mut Ctx,
    lies: Lies<'_>,
    parts: &[(Source, Sparse)],
    fetched: &RowData,
    own: Option<RowData>,
) -> Input {
    let store = lies
        .store
        .dense()
        .expect("only dense rows are summed in place");
    let on_device = |rows: &RowData| match rows {
        RowData::Dense(x) => cx.backend.share(x),
        RowData::Sparse(_) => unreachable!("only dense rows are summed in place"),
    };
    let rows = parts.first().map_or(0, |p| p.1.rows());
    let mut ax = cx.backend.fresh(rows, store.ncols());
    let mut write = Write::Set;
    for (source, a) in parts {
        let here;
        let x: &Mat = match source {
            Source::Store => store,
            Source::Cache => lies.cached.expect("rows come from a cache"),
            Source::Fetched => {
                here = on_device(fetched);
                &here
            }
        };
        cx.backend.spmm(a, 0..rows, x, write, &mut ax);
        write = Write::Add;
    }
    let ax = Rc::new(ax);
    let x = match own {
        Some(own) => Rc::new(on_device(&own)),
        None => Rc::clone(&ax),
    };
    Input::Aggregated { x, ax }
}
