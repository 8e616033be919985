//! What is trained on, in numbers, and what a request may want of it.

use crate::error::{Error, Result};
use gnn_core::dataset::Dataset;
use gnn_core::partition::{self, Parts, TypeFacts};
use gnn_core::spec::RunSpec;
use gnn_core::strategy::Entry;
use serde::Serialize;

/// Parts at most where some may be empty and there are fewer vertices.
const EMPTY: usize = 1024;

/// What is trained on, in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DataFacts {
    /// Name.
    pub name: String,
    /// Vertices.
    pub nodes: usize,
    /// Edges.
    pub edges: usize,
    /// Features of a vertex.
    pub features: usize,
    /// Classes.
    pub classes: usize,
    /// Training vertices.
    pub train_nodes: usize,
    /// Whether it was generated.
    pub synthetic: bool,
    /// Types of vertices and edges, in one part; empty where it has none.
    pub types: Vec<TypeFacts>,
}

impl DataFacts {
    pub(super) fn of(data: &Dataset) -> DataFacts {
        DataFacts {
            name: data.name.clone(),
            nodes: data.n(),
            edges: data.graph.n_edges(),
            features: data.features.dim(),
            classes: data.n_classes,
            train_nodes: data.train.iter().filter(|&&t| t).count(),
            synthetic: data.synthetic,
            types: partition::types(data, &vec![0; data.n()], 1),
        }
    }

    /// There are vertices for every rank.
    pub(super) fn check_ranks(&self, spec: &RunSpec) -> Result<()> {
        if spec.ranks > self.nodes {
            return Err(Error::refused(
                format!(
                    "ranks: {} ranks for the {} vertices of {}",
                    spec.ranks, self.nodes, self.name
                ),
                format!(
                    "use at most {} ranks (-n), or a larger data set",
                    self.nodes
                ),
            ));
        }
        Ok(())
    }

    /// There are vertices for every part that its strategy wants.
    pub(super) fn check_parts(
        &self,
        parts: Option<Parts>,
        entry: &Entry,
        spec: &RunSpec,
    ) -> Result<()> {
        let Some(parts) = parts else { return Ok(()) };
        let wanted = format!("partition: strategy {} cuts into {parts}", spec.strategy);
        if parts.total() == 0 {
            return Err(Error::refused(
                format!("{wanted}, which are none"),
                "set what it cuts into to at least 1",
            ));
        }
        let most = match entry.empty_parts {
            true => self.nodes.max(EMPTY),
            false => self.nodes,
        };
        if parts.total() > most {
            return Err(Error::refused(
                format!("{wanted}, and {} has {} vertices", self.name, self.nodes),
                format!("ask for at most {most} parts in all, or a larger data set"),
            ));
        }
        Ok(())
    }
}

/// There is something to validate on, for a run that stops by it.
pub(super) fn check_patience(spec: &RunSpec, data: &Dataset) -> Result<()> {
    let links = data.links.as_ref().is_some_and(|l| !l.val.is_empty());
    if spec.patience > 0 && !links && !data.val.contains(&true) {
        return Err(Error::refused(
            format!("patience: {} has nothing to validate on", data.name),
            "set patience = 0, or choose a split with validation vertices",
        ));
    }
    Ok(())
}
