//! Where a loss began that is no finite number: the layer, and the largest norm before it.
//!
//! Looking at every layer's output would cost a pass over the rows in every epoch. So only the weights'
//! gradients are looked at, which are small; the weights before the first step with one that is not finite
//! are kept, and when the run ends for it the layers go forward once more with those.

use crate::backend::{Backend, Mat};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

/// Weights by layer and tensor.
type Weights = Vec<Vec<Mat>>;

/// What a rank keeps for the day its loss is no number.
#[derive(Default)]
pub(crate) struct Watch {
    before: OnceCell<Before>,
    seen: RefCell<Option<Seen>>,
}

struct Before {
    weights: Rc<Weights>,
    /// The layer of the gradient that backward makes first of those that are not finite.
    layer: usize,
}

/// What one rank saw of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Seen {
    /// The first layer whose output had an element that is no finite number.
    pub(crate) layer: Option<usize>,
    /// The largest Euclidean norm of a row before that layer, and whose output it was in: none means the features.
    pub(crate) largest: (f64, Option<usize>),
}

impl Seen {
    /// Takes what `rows` of a layer's output, or of the features, have.
    fn take(&mut self, layer: Option<usize>, x: &kernels::Mat) {
        let mut largest = 0.0f64;
        for row in x.rows() {
            let norm = row
                .iter()
                .map(|&x| f64::from(x).powi(2))
                .sum::<f64>()
                .sqrt();
            if !norm.is_finite() {
                let at = layer.unwrap_or(0);
                self.layer = Some(self.layer.map_or(at, |known| known.min(at)));
                return;
            }
            largest = largest.max(norm);
        }
        let is_before = self.layer.is_none_or(|bad| layer < Some(bad));
        if is_before && largest > self.largest.0 {
            self.largest = (largest, layer);
        }
    }
}

fn is_finite(x: &Mat) -> bool {
    let Some(x) = x.host_elements() else {
        return true;
    };
    const EXPONENT: u32 = 0x7f80_0000;
    // No early end: this way it runs at the speed of memory.
    !x.iter()
        .fold(false, |bad, x| bad | (x.to_bits() & EXPONENT == EXPONENT))
}

impl Watch {
    /// Looks at the gradients of a step of all weights of a rank before it is made. On a device, which would
    /// have to be waited for, it does not.
    pub(crate) fn step(&self, backend: &dyn Backend, weights: &[Vec<Mat>], gradients: &[Vec<Mat>]) {
        if self.before.get().is_some() || !backend.keeps_elements() {
            return;
        }
        let bad = |layer: &Vec<Mat>| !layer.iter().all(is_finite);
        let Some(layer) = gradients.iter().rposition(bad) else {
            return;
        };
        let copy = |layer: &Vec<Mat>| layer.iter().map(|w| backend.copy(w)).collect();
        self.before.get_or_init(|| Before {
            weights: Rc::new(weights.iter().map(copy).collect()),
            layer,
        });
    }

    /// The layer whose gradient was the first that is not finite.
    pub(crate) fn gradient(&self) -> Option<usize> {
        self.before.get().map(|before| before.layer)
    }

    /// From now on forward is looked at.
    pub(crate) fn begin(&self) {
        *self.seen.borrow_mut() = Some(Seen::default());
    }

    /// What was seen since then.
    pub(crate) fn end(&self) -> Seen {
        self.seen.borrow_mut().take().unwrap_or_default()
    }

    /// The weights to go forward with while it is looked at, where they are not a model's own any more.
    pub(crate) fn weights(&self) -> Option<Rc<Weights>> {
        self.seen.borrow().as_ref()?;
        self.before.get().map(|before| Rc::clone(&before.weights))
    }

    /// Looks at a layer's output, or at the features, if that is what is being done.
    pub(crate) fn look(&self, backend: &dyn Backend, layer: Option<usize>, x: Option<&Mat>) {
        if let (Some(seen), Some(x)) = (self.seen.borrow_mut().as_mut(), x) {
            seen.take(layer, &backend.download(x));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_layer_and_the_largest_norm_before_it_are_kept_in_any_order() {
        let rows = |x: f32| kernels::Mat::from_elem((2, 4), x);
        let mut seen = Seen::default();
        // Chunks of vertices and stages of layers come in any order.
        for (layer, x) in [
            (None, 1.0),
            (Some(2), f32::NAN),
            (Some(0), 3.0),
            (Some(1), f32::INFINITY),
        ] {
            seen.take(layer, &rows(x));
        }
        seen.take(Some(2), &rows(1e9));
        assert_eq!(seen.layer, Some(1));
        assert_eq!(seen.largest, (6.0, Some(0)));
    }

    #[test]
    fn a_norm_may_be_larger_than_what_f32_can_hold() {
        let mut seen = Seen::default();
        seen.take(None, &kernels::Mat::from_elem((1, 9), 3e38));
        assert_eq!((seen.layer, seen.largest.1), (None, None));
        assert!((seen.largest.0 / 9e38 - 1.0).abs() < 1e-6);
    }
}
