//! What strategies that train on mini-batches ask of a model before it is built, beside [`Facts`].

#[cfg(doc)]
use super::Facts;
use super::ModelKind;

impl ModelKind {
    /// Whether attention says what an edge counts for: weights then go by the edges that are there, so that
    /// those that were drawn estimate no sum, and backward looks edges up in the transposed.
    pub fn attends(self) -> bool {
        self == ModelKind::Gat
    }

    /// Whether a layer reads the input of its own rows beside the aggregate of their neighbours'.
    pub fn reads_own_rows(self) -> bool {
        match self {
            ModelKind::Sage | ModelKind::Gin | ModelKind::Rgcn | ModelKind::Resgcn => true,
            ModelKind::Gcn | ModelKind::Gat | ModelKind::Gcnii => false,
        }
    }
}
