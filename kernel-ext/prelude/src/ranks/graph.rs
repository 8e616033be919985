//! A rank's part of the graph.

use gnn_core::dataset::{self, Dataset};
use gnn_core::model::ModelKind;
use gnn_core::partition::{LocalPart, Method, Request as CutRequest};

use super::Request;

/// A rank's part of a cut graph, with the data set it is of.
pub struct Part {
    /// The whole data set.
    pub data: Dataset,
    /// The owner of every vertex.
    pub owner: Vec<u32>,
    /// What this rank owns, what it reads of others, and its edges.
    pub part: LocalPart,
}

impl Part {
    /// Loads and cuts. Every rank comes to the same cut.
    pub(super) fn load(request: &Request, rank: usize, size: usize) -> launcher::Result<Part> {
        let data = dataset::load(&request.data, request.seed)?;
        let method = Method::parse(&request.partition)?;
        let asked = CutRequest::of(method, &data, size, request.seed);
        let owner = asked.cut(Some(&launcher::partition::cache()))?.owner;
        let whole = data.graph.propagation(ModelKind::Gcn.propagation());
        let part = LocalPart::new(&whole, &owner, rank, size)?;
        Ok(Part { data, owner, part })
    }

    /// How many vertices this rank owns, and how many of others it reads.
    pub fn counts(&self) -> (usize, usize) {
        (self.part.own.len(), self.part.halo.len())
    }

    /// The vertices this rank owns, by global id.
    pub fn own(&self) -> &[u32] {
        &self.part.own
    }

    /// The vertices of other ranks that it reads, by global id, those of one owner together.
    pub fn halo(&self) -> &[u32] {
        &self.part.halo
    }

    /// Where the edges into a vertex come from, by global id.
    pub fn neighbours(&self, vertex: u32) -> &[u32] {
        let graph = self.data.graph.csr();
        &graph.indices[graph.span(vertex as usize)]
    }

    /// Who owns a vertex.
    pub fn owner_of(&self, vertex: u32) -> usize {
        self.owner[vertex as usize] as usize
    }

    /// In-edges of own vertices, and how many of them come from other ranks' vertices.
    pub fn edges(&self) -> (usize, usize) {
        let me = self.part.rank as usize;
        let sources = self.own().iter().flat_map(|&v| self.neighbours(v));
        sources.fold((0, 0), |(all, cut), &s| {
            (all + 1, cut + usize::from(self.owner_of(s) != me))
        })
    }
}
