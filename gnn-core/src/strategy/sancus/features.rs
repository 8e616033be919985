//! The features, where the first layer aggregates them: what never changes is sent once.

use super::cache::Cache;
use crate::backend::{Dropout, Kept, Mat, Then};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{At, dropout_key};
use crate::record::Direction;
use crate::spec::RunSpec;
use crate::strategy::full_graph::Freshness;
use crate::strategy::full_graph::block_rows::{BlockRows, Trip};
use std::rc::Rc;

/// This rank's features, and everybody else's once they have come.
pub(super) struct Features {
    own: Rc<Mat>,
    cache: Cache,
    /// Global vertex ids of every rank's rows.
    ids: Vec<Kept<u32>>,
    dropout: f32,
    seed: u64,
}

impl Features {
    /// The rows `own` of this rank; those of rank `r` are of the vertices `members[r]`.
    pub(super) fn new(own: &Rc<Mat>, members: &[Vec<u32>], spec: &RunSpec) -> Features {
        Features {
            own: Rc::clone(own),
            cache: Cache::new(members.len()),
            ids: members.iter().map(|ids| Kept::from(ids.clone())).collect(),
            dropout: spec.dropout as f32,
            seed: spec.seed,
        }
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// The product with all rows; `x` are this rank's after dropout. They travel the first time only,
    /// before dropout: others make the mask themselves. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn product(
        &mut self,
        cx: &mut Ctx,
        blocks: &BlockRows,
        at: At,
        x: &Mat,
    ) -> Result<Mat> {
        let first = self.cache.versions.iter().any(Option::is_none);
        let travels = vec![first; cx.size()];
        self.cache
            .note(cx, at, &self.own, Freshness::Input, None, 0);
        blocks.foresee(cx, at, self.own.ncols(), &travels);
        self.cache.renew(cx, &self.own, &travels, false);
        let trip = Trip {
            at,
            own: x,
            sent: &self.own,
            travels: &travels,
        };
        let (cache, ids, p) = (&mut self.cache, &self.ids, self.dropout);
        let trains = at.direction == Direction::Forward && p > 0.0;
        let key = dropout_key(self.seed, cx.epoch, at.layer);
        blocks.product(cx, &trip, &mut |cx, root, arrived| {
            let rows = cache.block(root, arrived);
            if !trains {
                return rows;
            }
            let ids = &ids[root];
            let then = Then {
                dropout: Some(Dropout { key, ids, p }),
                ..Then::default()
            };
            let mut dropped = cx.backend.copy(&rows);
            cx.backend.then(then, &mut dropped);
            Rc::new(dropped)
        })
    }
}
