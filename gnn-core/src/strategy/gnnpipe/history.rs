//! Historical rows: what a chunk reads of chunks that come after it.
//!
//! Of each layer but the first, a rank keeps one matrix with a row for each of its sources. An epoch
//! begins with the historical rows in it; each chunk writes its own over them before it aggregates. So
//! whoever reads finds this epoch's rows of the chunks that went before, and historical ones of the others.
//!
//! The gradients of aggregates are kept likewise: an epoch begins with zeros, and each chunk that goes back
//! writes its own, so that chunks which have not yet gone back give nothing.

use crate::backend::Mat;
use crate::checkpoint::State;
use crate::ctx::Ctx;
use crate::error::Result;
use std::collections::BTreeMap;

/// Of one layer.
struct Kept {
    /// What is read: `[n_sources, d]`.
    rows: Mat,
    /// The version that epochs begin with, where that is not the one just made.
    frozen: Option<Mat>,
    /// Of what this rank's rows aggregate: `[n_own, d]`.
    gradients: Mat,
}

/// Of all layers.
pub(super) struct History {
    layers: BTreeMap<usize, Kept>,
    /// Epochs that read the same version.
    freeze: u64,
    /// Whether gradients of the epoch before stand in for those that are not there yet.
    gradients: bool,
}

impl History {
    /// Of no layer yet: the first version is still to be made.
    pub(super) fn new(freeze: u64, gradients: bool) -> History {
        let layers = BTreeMap::new();
        History {
            layers,
            freeze,
            gradients,
        }
    }

    /// The first version of a layer, for a rank with `n_own` rows.
    pub(super) fn first(&mut self, cx: &Ctx, layer: usize, rows: Mat, n_own: usize) {
        let frozen = (self.freeze > 1).then(|| cx.backend.copy(&rows));
        let gradients = cx.backend.zeros(n_own, rows.ncols());
        let kept = Kept {
            rows,
            frozen,
            gradients,
        };
        self.layers.insert(layer, kept);
    }

    /// An epoch begins.
    pub(super) fn begin(&mut self, cx: &Ctx) {
        for kept in self.layers.values_mut() {
            if let Some(frozen) = &kept.frozen {
                let n = frozen.nrows();
                cx.backend.copy_rows(frozen, 0, n, &mut kept.rows, 0);
            }
            if !self.gradients {
                let (n, d) = kept.gradients.dim();
                kept.gradients = cx.backend.zeros(n, d);
            }
        }
        cx.caches(self.bytes());
    }

    /// An epoch ends: what it made is the version of the next ones, if that is their turn.
    pub(super) fn end(&mut self, cx: &Ctx) {
        if !(cx.epoch + 1).is_multiple_of(self.freeze) {
            return;
        }
        for kept in self.layers.values_mut() {
            if let Some(frozen) = &mut kept.frozen {
                std::mem::swap(frozen, &mut kept.rows);
            }
        }
    }

    /// A layer's rows.
    ///
    /// # Panics
    /// When its first version was not made.
    pub(super) fn rows(&mut self, layer: usize) -> &mut Mat {
        &mut self.of(layer).rows
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
    pub(super) fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Bytes of everything that is kept over epochs.
    fn bytes(&self) -> u64 {
        let of = |kept: &Kept| {
            let frozen = kept.frozen.as_ref().map_or(0, Mat::len);
            kept.rows.len() + frozen + kept.gradients.len()
        };
        self.layers.values().map(|kept| 4 * of(kept) as u64).sum()
    }

    /// Adds what the next epoch begins with. Rows that it writes over before they are read are left out.
    pub(super) fn save(&self, cx: &Ctx, own: &mut State) {
        for (layer, kept) in &self.layers {
            let rows = kept.frozen.as_ref().unwrap_or(&kept.rows);
            own.put(format!("history/{layer}"), cx.backend.as_ref(), rows);
            if self.gradients {
                let name = format!("history_gradients/{layer}");
                own.put(name, cx.backend.as_ref(), &kept.gradients);
            }
        }
    }

    /// Takes it back.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when a layer is missing or of another shape.
    pub(super) fn restore(&mut self, cx: &Ctx, own: &mut State) -> Result<()> {
        let backend = cx.backend.as_ref();
        for (layer, kept) in &mut self.layers {
            let rows = kept.frozen.as_mut().unwrap_or(&mut kept.rows);
            own.take_into(&format!("history/{layer}"), backend, rows)?;
            if self.gradients {
                let name = format!("history_gradients/{layer}");
                own.take_into(&name, backend, &mut kept.gradients)?;
            }
        }
        Ok(())
    }
}
