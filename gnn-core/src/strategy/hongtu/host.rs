//! What lies on the host: rows of this rank's vertices, batch by batch.
//!
//! In memory, which the comparison trains in, it lies on the device.

use crate::backend::Mat;
use crate::ctx::Ctx;

/// Rows of this rank's vertices.
pub(super) struct Host {
    /// How many.
    pub(super) n: usize,
    /// Whether they are on the device.
    pub(super) resident: bool,
    /// The input of each layer, `[n, d]`; without rows where that is sparse.
    pub(super) inputs: Vec<Mat>,
    /// What each layer aggregates, `[n, d]`, where it is kept for the way back.
    pub(super) aggregates: Vec<Option<Mat>>,
    /// Gradients of each layer's input, and of the last one's output: `[n, d]` while they are wanted.
    pub(super) gradients: Vec<Option<Mat>>,
    /// The initial residual and its gradients, for models that have one.
    pub(super) residual: [Option<Mat>; 2],
}

/// `[n, d]` of zeros on the host, which take no memory until they are written.
pub(super) fn zeros(n: usize, d: usize) -> Mat {
    Mat::from_host(kernels::Mat::zeros((n, d)))
}

impl Host {
    /// Room for the inputs of all layers but the first, which is `features`; `widths` has the columns of
    /// every layer's input, `kept` whether its aggregate is.
    pub(super) fn new(
        cx: &Ctx,
        (features, resident): (kernels::Mat, bool),
        n: usize,
        widths: &[usize],
        kept: &[bool],
    ) -> Host {
        let mut host = Host {
            n,
            resident,
            inputs: Vec::new(),
            aggregates: Vec::new(),
            gradients: (0..=widths.len()).map(|_| None).collect(),
            residual: [None, None],
        };
        let inputs = widths[1..].iter().map(|&d| host.zeros(cx, d));
        let features = match resident {
            true => cx.backend.upload(features),
            false => Mat::from_host(features),
        };
        let inputs = [features].into_iter().chain(inputs).collect();
        let aggregates = widths.iter().zip(kept);
        let aggregates = aggregates.map(|(&d, &kept)| kept.then(|| host.zeros(cx, d)));
        (host.aggregates, host.inputs) = (aggregates.collect(), inputs);
        host
    }

    /// `[n, d]` of zeros.
    pub(super) fn zeros(&self, cx: &Ctx, d: usize) -> Mat {
        match self.resident {
            true => cx.backend.zeros(self.n, d),
            false => zeros(self.n, d),
        }
    }

    /// Gradients of a layer's input begin, all zero.
    pub(super) fn begin_gradients(&mut self, cx: &Ctx, layer: usize, d: usize) {
        self.gradients[layer] = Some(self.zeros(cx, d));
    }

    /// Gradients of a layer's input, which have begun.
    pub(super) fn gradients(&mut self, layer: usize) -> &mut Mat {
        let of = self.gradients[layer].as_mut();
        of.expect("begun when the layer behind it went back")
    }
}
