//! Types of vertices and edges in a cut: how many of each are in which part.

use serde::{Deserialize, Serialize};

use crate::dataset::{Dataset, TypeCount};

/// What a type is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TypeOf {
    /// Vertices.
    Nodes,
    /// In-edges, which belong to their destination's part.
    Edges,
}

impl TypeOf {
    /// The word used in frames.
    pub fn label(self) -> &'static str {
        match self {
            TypeOf::Nodes => "nodes",
            TypeOf::Edges => "edges",
        }
    }
}

/// Vertices or in-edges of one type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeFacts {
    /// What it is a type of.
    pub of: TypeOf,
    /// Name of the type; its number where it has none.
    pub name: String,
    /// How many there are in each part: `[parts]`.
    pub parts: Vec<u64>,
}

impl TypeFacts {
    /// How many there are in all.
    pub fn count(&self) -> u64 {
        self.parts.iter().sum()
    }

    /// The largest part's over an equal share; 1 where there are none.
    pub fn balance(&self) -> f64 {
        let largest = self.parts.iter().max().copied().unwrap_or(0);
        match self.count() {
            0 => 1.0,
            sum => largest as f64 * self.parts.len() as f64 / sum as f64,
        }
    }
}

/// The types of vertices, then those of edges, of a data set cut by `owner: [n]`; empty where it has
/// neither.
pub fn types(data: &Dataset, owner: &[u32], parts: usize) -> Vec<TypeFacts> {
    let mut all = Vec::new();
    if let Some(types) = &data.node_types {
        let kinds = types.iter().max().map_or(0, |&t| usize::from(t) + 1);
        let pairs = types.iter().zip(owner).map(|(&t, &p)| (t, p));
        let named = &data.about.types.vertices;
        all.extend(counted(TypeOf::Nodes, kinds, named, parts, pairs));
    }
    if let Some(relations) = data.graph.relations() {
        let indptr = data.graph.indptr();
        let row = |v: usize| &relations.types()[indptr[v] as usize..indptr[v + 1] as usize];
        let pairs = (0..data.n()).flat_map(|v| row(v).iter().map(move |&t| (t, owner[v])));
        let named = &data.about.types.relations;
        all.extend(counted(
            TypeOf::Edges,
            relations.count(),
            named,
            parts,
            pairs,
        ));
    }
    all
}

fn counted(
    of: TypeOf,
    kinds: usize,
    named: &[TypeCount],
    parts: usize,
    pairs: impl Iterator<Item = (u16, u32)>,
) -> Vec<TypeFacts> {
    let kinds = kinds.max(named.len());
    let mut counts = vec![vec![0u64; parts]; kinds];
    pairs.for_each(|(t, part)| counts[usize::from(t)][part as usize] += 1);
    let name = |t: usize| named.get(t).map_or(t.to_string(), |n| n.name.clone());
    let facts = counts.into_iter().enumerate().map(|(t, parts)| TypeFacts {
        of,
        name: name(t),
        parts,
    });
    facts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{random_dataset, with_relations};

    #[test]
    fn every_vertex_and_edge_is_counted_once_in_its_part() {
        let mut data = with_relations(random_dataset(60, 240, 4, 2, false, 7), 3, 1);
        assert!(types(&random_dataset(9, 20, 4, 2, false, 7), &[0; 9], 1).is_empty());
        let n = data.n();
        data.node_types = Some((0..n).map(|v| (v % 2) as u16).collect());
        let name = |name: &str| TypeCount {
            name: name.into(),
            count: 0,
        };
        data.about.types.vertices = vec![name("author"), name("paper"), name("venue")];
        let owner: Vec<u32> = (0..n as u32).map(|v| v % 4).collect();
        let all = types(&data, &owner, 4);
        let nodes: Vec<_> = all.iter().filter(|t| t.of == TypeOf::Nodes).collect();
        assert_eq!(nodes.len(), 3, "also the type that no vertex has");
        assert_eq!(nodes[0].name, "author");
        // Even vertices are in even parts.
        assert_eq!(nodes[0].parts[1], 0);
        assert_eq!((nodes[2].count(), nodes[2].balance()), (0, 1.0));
        assert_eq!(nodes[0].balance(), nodes[0].parts[0] as f64 * 4.0 / 30.0);
        let sum = |of: TypeOf| -> u64 {
            let some = all.iter().filter(|t| t.of == of);
            some.map(TypeFacts::count).sum()
        };
        assert_eq!(sum(TypeOf::Nodes), n as u64);
        assert_eq!(sum(TypeOf::Edges), data.graph.n_edges() as u64);
        let relations = data.graph.relations().expect("typed");
        let last = all.last().expect("relations");
        assert_eq!(last.name, (relations.count() - 1).to_string());
    }
}
