//! The models by name; what each is, [`crate::model`] says.

use serde::{Deserialize, Serialize};

/// A model a run can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// Graph convolution, symmetric normalisation with self loops.
    Gcn,
    /// GraphSAGE with mean aggregation.
    Sage,
    /// Graph isomorphism network, ε learnt.
    Gin,
    /// Graph attention, multi-head.
    Gat,
    /// Relational graph convolution with basis decomposition.
    Rgcn,
    /// GCN with initial residual and identity mapping.
    Gcnii,
    /// GCN in pre-activation residual blocks with LayerNorm.
    Resgcn,
}

impl ModelKind {
    /// Every model.
    pub const ALL: &'static [ModelKind] = &[
        ModelKind::Gcn,
        ModelKind::Sage,
        ModelKind::Gin,
        ModelKind::Gat,
        ModelKind::Rgcn,
        ModelKind::Gcnii,
        ModelKind::Resgcn,
    ];
    /// Their names, in the same order.
    pub const NAMES: &'static [&'static str] =
        &["gcn", "sage", "gin", "gat", "rgcn", "gcnii", "resgcn"];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ModelKind::Gcn => "gcn",
            ModelKind::Sage => "sage",
            ModelKind::Gin => "gin",
            ModelKind::Gat => "gat",
            ModelKind::Rgcn => "rgcn",
            ModelKind::Gcnii => "gcnii",
            ModelKind::Resgcn => "resgcn",
        }
    }

    /// The model of that name.
    pub fn from_name(name: &str) -> Option<ModelKind> {
        Self::ALL.iter().copied().find(|m| m.name() == name)
    }
}

impl std::fmt::Display for ModelKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
