//! What a layer reads, on the device: rows as they come, or sums of them where they lie.

use super::collect::{MadeInput, Rows, Source};
use super::rows::RowData;
use crate::backend::{Corner, Kept, Mat, Picked, Sparse, Write};
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
        MadeInput::Placed(places, fetched) => {
            let fetched = cx.backend.share(dense(&fetched));
            Input::Dense(Rc::new(lies.gathered(cx, &places, &fetched)))
        }
    }
}

impl Lies<'_> {
    fn store(&self) -> &Mat {
        let store = self.store.dense();
        store.expect("only dense rows stay where they lie")
    }

    /// The matrix that a source's rows are of.
    fn of<'m>(&'m self, source: Source, fetched: &'m Mat) -> &'m Mat {
        match source {
            Source::Store => self.store(),
            Source::Cache => self.cached.expect("rows come from a cache"),
            Source::Fetched => fetched,
        }
    }

    /// Rows from wherever they lie, on the device.
    fn gathered(&self, cx: &Ctx, places: &[(u32, u32)], fetched: &Mat) -> Mat {
        let d = self.store().ncols();
        let mut out = cx.backend.fresh(places.len(), d);
        for source in [Source::Store, Source::Cache, Source::Fetched] {
            let mine = places.iter().zip(0..).filter(|(p, _)| p.0 == source as u32);
            let (from, to): (Vec<u32>, Vec<u32>) = mine.map(|(p, k)| (p.1, k)).unzip();
            if to.is_empty() {
                continue;
            }
            let (from, to) = (Kept::from(from), Kept::from(to));
            let corner = |rows| Corner {
                rows: Picked::List(rows),
                col: 0,
            };
            let x = self.of(source, fetched);
            cx.backend
                .copy_block(x, corner(&from), (to.len(), d), &mut out, corner(&to));
        }
        out
    }
}

fn dense(rows: &RowData) -> &Arc<kernels::Mat> {
    match rows {
        RowData::Dense(x) => x,
        RowData::Sparse(_) => unreachable!("only dense rows stay where they lie"),
    }
}

/// The aggregate of rows where they lie, beside the destinations' own.
fn aggregated(
    cx: &mut Ctx,
    lies: Lies<'_>,
    parts: &[(Source, Sparse)],
    fetched: &RowData,
    own: Option<Rows>,
) -> Input {
    let rows = parts.first().map_or(0, |p| p.1.rows());
    let fetched = cx.backend.share(dense(fetched));
    let mut ax = cx.backend.fresh(rows, lies.store().ncols());
    let mut write = Write::Set;
    for (source, a) in parts {
        let x = lies.of(*source, &fetched);
        cx.backend.spmm(a, 0..rows, x, write, &mut ax);
        write = Write::Add;
    }
    let ax = Rc::new(ax);
    let x = match own {
        Some(Rows::There(own)) => Rc::new(cx.backend.share(dense(&own))),
        Some(Rows::Placed(places)) => Rc::new(lies.gathered(cx, &places, &fetched)),
        None => Rc::clone(&ax),
    };
    Input::Aggregated { x, ax }
}
