//! Rounds of propagation without weights of their own, behind a stack of dense layers.
//!
//! # Paper
//! "Decoupled" in NeutronTP (PVLDB 18(2), 2024), section 4.1; APPNP without teleport (Gasteiger et al.,
//! ICLR 2019, <https://arxiv.org/abs/1810.05997>) for GCN.

use super::layer::{self, After, Facts, Flow, Grad, Layer, Saved, Tensor, Weights, Widths};
use super::site::Site;
use crate::backend::{Backend, Then};
use crate::error::Result;

const EPS: usize = 0;

/// What a round does with rows and their aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// `Y = Â X`.
    Gcn,
    /// `Y = (X + mean X) / 2`: own and neighbours' rows weigh the same.
    Sage,
    /// `Y = (1 + ε) X + A X`, ε learnt.
    Gin,
}

/// One round on rows of one width.
pub(super) struct Round {
    pub(super) rule: Rule,
    pub(super) width: usize,
}

impl Round {
    /// Factors of rows and aggregate; `w` are the round's tensors.
    fn factors(&self, backend: &dyn Backend, w: &Weights) -> (f32, f32) {
        match self.rule {
            Rule::Gcn => (0.0, 1.0),
            Rule::Sage => (0.5, 0.5),
            Rule::Gin => (1.0 + backend.download(&w[EPS])[[0, 0]], 1.0),
        }
    }
}

impl Layer for Round {
    fn d_out(&self) -> usize {
        self.width
    }

    fn facts(&self) -> Option<Facts> {
        Some(Facts::FIXED_WEIGHTS)
    }

    fn round(&self, backend: &dyn Backend, w: &Weights) -> Option<layer::Round> {
        let (own, others) = self.factors(backend, w);
        let learns = self.rule == Rule::Gin;
        Some(layer::Round::Sum {
            own,
            others,
            learns,
        })
    }

    fn tensors(&self) -> Vec<Tensor> {
        match self.rule {
            Rule::Gin => vec![Tensor::row("eps", 1, 0.0)],
            _ => Vec::new(),
        }
    }

    fn widths(&self, _sparse_input: bool, _input_gradient: bool) -> Widths {
        Widths::both(self.width)
    }

    fn forward(&self, mut site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let x = flow.x.dense().expect("follows a dense layer");
        let (own, others) = self.factors(site.cx.backend.as_ref(), site.w);
        let mut y = site.aggregate(x)?;
        if self.rule != Rule::Gcn {
            y = site.axpby(own, x, others, y);
        }
        site.cx.backend.then(after.then(), &mut y);
        let saved = match self.rule {
            Rule::Gin => Saved::input(flow.x.clone()),
            _ => Saved::default(),
        };
        Ok((flow.with(y), saved))
    }

    fn backward(
        &self,
        mut site: Site<'_>,
        saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let g = grad.g;
        let (own, others) = self.factors(site.cx.backend.as_ref(), site.w);
        let mut weights = Weights::new();
        if self.rule == Rule::Gin {
            let x = saved.x().dense().expect("checked in forward");
            weights.push(site.dot(&g, x));
        }
        let mut gx = site.aggregate(&g)?;
        if self.rule != Rule::Gcn {
            gx = site.axpby(own, &g, others, gx);
        }
        if let Some(then) = input {
            site.cx.backend.then(then, &mut gx);
        }
        Ok((weights, Some(gx.into())))
    }
}
