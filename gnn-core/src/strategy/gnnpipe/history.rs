//! Historical rows: what a chunk reads of chunks that come after it.
//!
//! Of each layer but the first, a rank keeps the rows of all its sources twice, one copy below the other:
//! a *fresh* half, into which every chunk writes its rows before it aggregates, and a *frozen* one, which is
//! the version that epochs read where chunks have not come yet. Where the fresh half becomes the next
//! version, the halves change places, and nothing is copied. Where a version is never older than an epoch
//! (`freeze = 1`) there is one half: rows that are not written over yet are those of the epoch before.
//!
//! The gradients of aggregates are kept beside them: each chunk that goes back writes its own.

use crate::backend::Mat;
use crate::checkpoint::State;
use crate::ctx::Ctx;
use crate::error::Result;
use std::collections::BTreeMap;

/// Of one layer.
struct Kept {
    /// `[n_sources, d]` for each half.
    rows: Mat,
    /// Of what this rank's rows aggregate: `[n_own, d]`.
    gradients: Mat,
}

/// Of all layers.
pub(super) struct History {
    layers: BTreeMap<usize, Kept>,
    /// Rows of a half.
    sources: usize,
    /// Epochs that read the same version.
    freeze: u64,
    /// Whether gradients of the epoch before stand in for those that are not there yet.
    gradients: bool,
    /// The half that is written.
    fresh: usize,
    /// When the version that is read was made; none at the first weights.
    made: Option<u64>,
}

impl History {
    /// Of no layer yet: the first version is still to be made.
    pub(super) fn new(sources: usize, freeze: u64, gradients: bool) -> History {
        History {
            layers: BTreeMap::new(),
            sources,
            freeze,
            gradients,
            fresh: 0,
            made: None,
        }
    }

    /// Whether gradients of the epoch before are read.
    pub(super) fn has_gradients(&self) -> bool {
        self.gradients
    }

    /// Where the half that is written begins and that which is read; none where there is one.
    pub(super) fn halves(&self) -> Option<[usize; 2]> {
        let half = |k: usize| k * self.sources;
        (self.freeze > 1).then(|| [half(self.fresh), half(1 - self.fresh)])
    }

    /// The first version of a layer, `rows: [n_sources, d]`, for a rank with `n_own` rows.
    pub(super) fn first(&mut self, cx: &Ctx, layer: usize, rows: Mat, n_own: usize) {
        let (n, d) = rows.dim();
        let rows = match self.halves() {
            None => rows,
            Some([_, frozen]) => {
                let mut halves = cx.backend.zeros(2 * n, d);
                cx.backend.copy_rows(&rows, 0, n, &mut halves, frozen);
                halves
            }
        };
        let gradients = cx.backend.zeros(n_own, d);
        self.layers.insert(layer, Kept { rows, gradients });
    }

    /// Epochs since the version that this epoch reads was made; the first, at the first weights, counts
    /// as made before the first epoch.
    pub(super) fn age(&self, epoch: u64) -> u64 {
        self.made.map_or(epoch + 1, |made| epoch - made)
    }

    /// Whether what an epoch makes is the version of the next ones.
    pub(super) fn renews(&self, epoch: u64) -> bool {
        (epoch + 1).is_multiple_of(self.freeze)
    }

    /// How far a layer's version is from what this epoch has made, relative to that; none where only one
    /// of them is kept.
    pub(super) fn drift(&self, cx: &Ctx, layer: usize) -> Option<f64> {
        let ([fresh, frozen], rows) = (self.halves()?, &self.layers.get(&layer)?.rows);
        let half = |start: usize| cx.backend.rows(rows, start..start + self.sources);
        let (now, mut apart) = (half(fresh), half(frozen));
        cx.backend.axpby(1.0, &now, -1.0, &mut apart);
        let (apart, size) = (cx.norm(&apart), cx.norm(&now));
        (size > 0.0).then(|| apart / size)
    }

    /// An epoch ends: what it made is the version of the next ones, if that is their turn.
    pub(super) fn end(&mut self, cx: &Ctx) {
        if self.renews(cx.epoch) {
            self.made = Some(cx.epoch);
            self.fresh = 1 - self.fresh;
        }
        cx.caches(self.bytes());
    }

    /// A layer's rows, and where this epoch's begin among them.
    ///
    /// # Panics
    /// When its first version was not made.
    pub(super) fn rows(&mut self, layer: usize) -> (&mut Mat, usize) {
        let start = self.halves().map_or(0, |[fresh, _]| fresh);
        (&mut self.of(layer).rows, start)
    }

    /// A layer's gradients.
    ///
    /// # Panics
    /// As [`History::rows`].
    pub(super) fn gradients(&mut self, layer: usize) -> &mut Mat {
        &mut self.of(layer).gradients
    }

    fn of(&mut self, layer: usize) -> &mut Kept {
        let kept = self.layers.get_mut(&layer);
        kept.expect("set-up makes the first version of every layer that aggregates")
    }

    /// Layers that have historical rows.
    pub(super) fn layers(&self) -> impl Iterator<Item = usize> {
        self.layers.keys().copied()
    }

    /// Bytes of everything that is kept over epochs.
    pub(super) fn bytes(&self) -> u64 {
        let of = |kept: &Kept| kept.rows.len() + kept.gradients.len();
        self.layers.values().map(|kept| 4 * of(kept) as u64).sum()
    }

    /// Adds what the next epoch begins with. Rows that it writes over before they are read are left out.
    pub(super) fn save(&self, cx: &Ctx, own: &mut State) {
        let backend = cx.backend.as_ref();
        for (layer, kept) in &self.layers {
            let name = format!("history/{layer}");
            match self.halves() {
                None => own.put(name, backend, &kept.rows),
                Some([_, frozen]) => {
                    let version = cx.backend.rows(&kept.rows, frozen..frozen + self.sources);
                    own.put(name, backend, &version);
                }
            }
            if self.gradients {
                let name = format!("history_gradients/{layer}");
                own.put(name, backend, &kept.gradients);
            }
        }
    }

    /// Takes it back; `epoch` is the next one.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when a layer is missing or of another shape.
    pub(super) fn restore(&mut self, cx: &Ctx, epoch: u64, own: &mut State) -> Result<()> {
        let backend = cx.backend.as_ref();
        let halves = self.halves();
        for (layer, kept) in &mut self.layers {
            let name = format!("history/{layer}");
            match halves {
                None => own.take_into(&name, backend, &mut kept.rows)?,
                Some([_, frozen]) => {
                    let mut version = backend.zeros(self.sources, kept.rows.ncols());
                    own.take_into(&name, backend, &mut version)?;
                    backend.copy_rows(&version, 0, self.sources, &mut kept.rows, frozen);
                }
            }
            if self.gradients {
                let name = format!("history_gradients/{layer}");
                own.take_into(&name, backend, &mut kept.gradients)?;
            }
        }
        self.made = (epoch / self.freeze * self.freeze).checked_sub(1);
        Ok(())
    }
}
