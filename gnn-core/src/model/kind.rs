//! The models by name.

use super::conv::Conv;
use super::gcn::Gcn;
use super::sage::Sage;
use crate::graph::Propagation;
use serde::{Deserialize, Serialize};

/// A model a run can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// Graph convolution, symmetric normalisation with self loops.
    Gcn,
    /// GraphSAGE with mean aggregation.
    Sage,
}

impl ModelKind {
    /// Every model.
    pub const ALL: &'static [ModelKind] = &[ModelKind::Gcn, ModelKind::Sage];
    /// Their names, in the same order.
    pub const NAMES: &'static [&'static str] = &["gcn", "sage"];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ModelKind::Gcn => "gcn",
            ModelKind::Sage => "sage",
        }
    }

    /// The model of that name.
    pub fn from_name(name: &str) -> Option<ModelKind> {
        Self::ALL.iter().copied().find(|m| m.name() == name)
    }

    /// How the graph's edges are weighted for it.
    pub fn propagation(self) -> Propagation {
        match self {
            ModelKind::Gcn => Propagation::GcnSym,
            ModelKind::Sage => Propagation::Mean,
        }
    }

    /// One of its layers.
    pub(super) fn conv(self, d_in: usize, d_out: usize) -> Box<dyn Conv> {
        match self {
            ModelKind::Gcn => Box::new(Gcn { d_in, d_out }),
            ModelKind::Sage => Box::new(Sage { d_in, d_out }),
        }
    }
}

impl std::fmt::Display for ModelKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
