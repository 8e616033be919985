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

impl std::fmt::Display for ModelKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
