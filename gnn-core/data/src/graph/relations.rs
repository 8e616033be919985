//! Edge types: graphs whose edges belong to relations, and R-GCN's normalisation.

use rayon::prelude::*;
use std::ops::Range;

use super::{Block, Graph, check_edges, rows_mut};
use crate::first::position;
use crate::list::List;
use crate::{Error, Result};

/// Relations at most, the inverse ones included.
pub(crate) const MAX_RELATIONS: usize = 1 << 16;

/// Relations that disagree with something.
fn shape(expected: String, got: String) -> Error {
    Error::Shape {
        op: "relations".into(),
        expected,
        got,
    }
}

/// A type for each edge of a graph or block, in the order of its edges.
#[derive(Debug, Clone, PartialEq)]
pub struct Relations {
    types: List<u16>,
    count: usize,
}

impl Relations {
    /// `types: [edges]`, each below `count`.
    ///
    /// # Errors
    /// [`Error::Shape`] with the first type that is not, or for too many relations.
    pub fn new(types: Vec<u16>, count: usize) -> Result<Relations> {
        Relations::from_list(types.into(), count)
    }

    /// [`Relations::new`] of a list that may be mapped.
    ///
    /// # Errors
    /// As [`Relations::new`].
    pub fn from_list(types: List<u16>, count: usize) -> Result<Relations> {
        let relations = Relations::from_known_list(types, count)?;
        let types = &relations.types;
        let wrong = position(types, |&t| usize::from(t) >= count);
        types.release(0..types.len());
        match wrong {
            None => Ok(relations),
            Some(e) => Err(shape(
                format!("types[{e}] below {count} relations"),
                types[e].to_string(),
            )),
        }
    }

    /// [`Relations::from_list`] of types that were looked at before.
    ///
    /// # Errors
    /// [`Error::Shape`] for too many relations.
    pub(crate) fn from_known_list(types: List<u16>, count: usize) -> Result<Relations> {
        if count > MAX_RELATIONS {
            let expected = format!("at most {MAX_RELATIONS} relations");
            return Err(shape(expected, count.to_string()));
        }
        Ok(Relations { types, count })
    }

    /// Type of each edge: `[edges]`.
    #[inline]
    pub fn types(&self) -> &[u16] {
        &self.types
    }

    /// The types alone.
    #[inline]
    pub fn into_types(self) -> Vec<u16> {
        self.types.into_vec()
    }

    /// Number of relations, also those without an edge.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.types.len() * 2
    }

    /// Says that the types of these edges will not be read soon ([`List::release`]).
    pub(super) fn release(&self, edges: Range<usize>) {
        self.types.release(edges);
    }

    /// The types of some of the edges.
    pub(super) fn select(&self, edges: &[usize]) -> Relations {
        Relations {
            types: edges
                .iter()
                .map(|&e| self.types[e])
                .collect::<Vec<_>>()
                .into(),
            count: self.count,
        }
    }

    /// These types followed by the inverse relations of the same edges: `r + count` for `r`.
    ///
    /// # Errors
    /// [`Error::Shape`] when that makes too many relations.
    pub fn with_inverses(&self) -> Result<Relations> {
        let count = 2 * self.count;
        if count > MAX_RELATIONS {
            return Err(Error::Shape {
                op: "relations".into(),
                expected: format!("at most {} relations to add inverses to", MAX_RELATIONS / 2),
                got: self.count.to_string(),
            });
        }
        let inverse = |t: &u16| *t + self.count as u16;
        let types = self.types.iter().copied();
        Ok(Relations {
            types: types
                .chain(self.types.iter().map(inverse))
                .collect::<Vec<_>>()
                .into(),
            count,
        })
    }
}

impl Graph {
    /// A graph of `n` vertices with the edges `src[e] → dst[e]` of type `relations.types()[e]`,
    /// exactly as given; a row's edges are ascending by source, then type.
    ///
    /// # Errors
    /// [`Error::Shape`] as [`Graph::from_edges`], or when the lists differ in length.
    pub fn from_typed_edges(
        n: usize,
        src: &[u32],
        dst: &[u32],
        relations: &Relations,
    ) -> Result<Graph> {
        check_edges(n, src, dst)?;
        if relations.types.len() != src.len() {
            return Err(Error::Shape {
                op: "graph".into(),
                expected: format!("{} edge types (one a source)", src.len()),
                got: relations.types.len().to_string(),
            });
        }
        let mut indptr = vec![0u64; n + 1];
        dst.iter().for_each(|&d| indptr[d as usize + 1] += 1);
        (0..n).for_each(|v| indptr[v + 1] += indptr[v]);
        let mut next = indptr[..n].to_vec();
        let mut edges = vec![(0u32, 0u16); src.len()];
        for ((&s, &d), &t) in src.iter().zip(dst).zip(relations.types.iter()) {
            let slot = &mut next[d as usize];
            edges[*slot as usize] = (s, t);
            *slot += 1;
        }
        rows_mut(&indptr, &mut edges)
            .into_par_iter()
            .for_each(|row| row.sort_unstable());
        let (indices, types): (Vec<u32>, Vec<u16>) = edges.into_iter().unzip();
        Ok(Graph {
            n,
            indptr: indptr.into(),
            indices: indices.into(),
            relations: Some(Relations {
                types: types.into(),
                count: relations.count,
            }),
        })
    }

    /// The full graph with `1 / c_{v,r}` on its edges, and their types.
    pub(super) fn relation_means(&self) -> Result<Block> {
        let relations = self.relations.clone().unwrap_or_else(|| Relations {
            types: vec![0; self.n_edges()].into(),
            count: 1,
        });
        let mut weights = vec![0f32; self.n_edges()];
        rows_mut(&self.indptr, &mut weights)
            .into_par_iter()
            .enumerate()
            .for_each_init(
                || vec![0u32; relations.count],
                |degree, (v, row)| {
                    let types = &relations.types[self.indptr[v] as usize..][..row.len()];
                    types.iter().for_each(|&t| degree[usize::from(t)] += 1);
                    for (w, &t) in row.iter_mut().zip(types) {
                        *w = 1.0 / degree[usize::from(t)] as f32;
                    }
                    types.iter().for_each(|&t| degree[usize::from(t)] = 0);
                },
            );
        let (indptr, indices) = (self.indptr.to_vec(), self.indices.to_vec());
        Block::new(self.n, self.n, indptr, indices, Some(weights))?.with_relations(relations)
    }
}
