//! What a data set says about itself: where it came from and what its parts are called.

use crate::dataset::Texts;
use crate::graph::Graph;

/// Where a data set came from and what its parts are called. Everything may be absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct About {
    /// The format that it was read from.
    pub format: &'static str,
    /// Types of vertices and edges, with counts.
    pub types: Types,
    /// Name of each class.
    pub classes: Vec<String>,
    /// What each vertex was called in the files, where that was not its number: `[n]`.
    pub ids: Option<Texts>,
    /// What reading added, changed or left out, one sentence each.
    pub notes: Vec<String>,
}

/// Types of vertices and of edges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Types {
    /// Types of vertices, in order of `Dataset::node_types`; none where vertices have no types.
    pub vertices: Vec<TypeCount>,
    /// Relations, in order of the graph's; none where edges have no types. An inverse relation
    /// that reading added is called `NAME^-1`.
    pub relations: Vec<TypeCount>,
}

/// A type and how many there are of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeCount {
    /// Name of the type; its number where the files name it not.
    pub name: String,
    /// Vertices or edges of this type.
    pub count: usize,
}

impl Types {
    /// Counts the types of `vertices` and of the edges of `graph`. Absent names become numbers;
    /// with half as many relation names as relations the others are their inverses.
    pub(super) fn count(
        vertices: Option<&[u16]>,
        vertex_names: &[String],
        graph: &Graph,
        relation_names: &[String],
    ) -> Types {
        let vertices = vertices.unwrap_or(&[]);
        let kinds = vertices.iter().max().map_or(0, |&t| usize::from(t) + 1);
        let kinds = kinds.max(vertex_names.len());
        let name = |k: usize| vertex_names.get(k).cloned().unwrap_or(k.to_string());
        let relations = graph
            .relations()
            .map_or((&[][..], 0), |r| (r.types(), r.count()));
        let given = relation_names.len();
        let relation = |k: usize| match relation_names.get(k) {
            Some(name) => name.clone(),
            None if given > 0 && k < 2 * given && relations.1 == 2 * given => {
                format!("{}^-1", relation_names[k - given])
            }
            None => k.to_string(),
        };
        Types {
            vertices: counted(vertices, kinds, name),
            relations: counted(relations.0, relations.1, relation),
        }
    }
}

fn counted(types: &[u16], kinds: usize, name: impl Fn(usize) -> String) -> Vec<TypeCount> {
    let mut counts = vec![0usize; kinds];
    types.iter().for_each(|&t| counts[usize::from(t)] += 1);
    let entry = |(k, count)| TypeCount {
        name: name(k),
        count,
    };
    counts.into_iter().enumerate().map(entry).collect()
}
