//! Graphs: in-edges by destination, and the weighted blocks that models propagate over.

mod block;
mod build;
mod community;
mod form;
mod order;
mod relations;
mod row;

pub use block::Block;
pub use community::Communities;
pub use relations::Relations;
pub use row::{RowMut, WeightedRows};

use rayon::prelude::*;

use crate::list::List;
use crate::{Error, Result};

/// What to do with edges from a vertex to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfLoops {
    /// Leave them as they are.
    Keep,
    /// Remove them.
    Drop,
    /// Give every vertex exactly one.
    Add,
}

/// How a list of edges becomes a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeOptions {
    /// Also store every edge in the other direction.
    pub symmetrise: bool,
    /// Store repeated edges once.
    pub dedup: bool,
    /// Edges from a vertex to itself.
    pub self_loops: SelfLoops,
}

impl EdgeOptions {
    /// The edges exactly as given.
    pub const AS_IS: EdgeOptions = EdgeOptions {
        symmetrise: false,
        dedup: false,
        self_loops: SelfLoops::Keep,
    };
    /// A simple undirected graph: both directions, no repeats, no self loops.
    pub const SIMPLE: EdgeOptions = EdgeOptions {
        symmetrise: true,
        dedup: true,
        self_loops: SelfLoops::Drop,
    };
}

/// How features propagate along in-edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Symmetric normalisation with self loops: every vertex gets exactly one self loop, and an
    /// edge weighs `1 / sqrt(d_dst · d_src)` with in-degrees that include it.
    ///
    /// # Paper
    /// Kipf, Welling, "Semi-Supervised Classification with Graph Convolutional Networks",
    /// ICLR 2017, section 2, <https://arxiv.org/abs/1609.02907>.
    GcnSym,
    /// Mean over in-neighbours; a vertex without any gets zeros.
    Mean,
    /// Sum over in-neighbours.
    Sum,
    /// Edges without weights and exactly one self loop a vertex, for models that weigh edges
    /// themselves.
    Loops,
    /// Mean over the in-neighbours of each relation: an edge of relation `r` into `v` weighs
    /// `1 / c_{v,r}`, one over the in-edges of `v` in that relation. The block carries edge types;
    /// a graph without any has one relation.
    ///
    /// # Paper
    /// Schlichtkrull et al., "Modeling Relational Data with Graph Convolutional Networks",
    /// ESWC 2018, eq. 2, <https://arxiv.org/abs/1703.06103>.
    RelationMean,
}

impl Propagation {
    /// Whether every vertex gets exactly one edge to itself, whatever the graph has.
    #[inline]
    pub fn adds_loops(self) -> bool {
        matches!(self, Propagation::GcnSym | Propagation::Loops)
    }
}

/// A directed graph of `n` vertices, stored by in-edges; a row's sources are ascending. Edges may
/// have types (relations); two vertices may then be joined by an edge of each.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    n: usize,
    indptr: List<u64>,
    indices: List<u32>,
    relations: Option<Relations>,
}

impl Graph {
    /// A graph of `n` vertices with the edges `src[e] → dst[e]`.
    ///
    /// # Errors
    /// [`Error::Shape`] when the lists differ in length, `n` does not fit into 32 bits, or an edge
    /// leaves the graph.
    pub fn from_edges(n: usize, src: &[u32], dst: &[u32], options: EdgeOptions) -> Result<Graph> {
        check_edges(n, src, dst)?;
        let (indptr, indices) = build::rows(n, src, dst, options);
        Ok(Graph {
            n,
            indptr: indptr.into(),
            indices: indices.into(),
            relations: None,
        })
    }

    /// A graph of `n` vertices from its own arrays: where each vertex's in-edges start `[n + 1]`,
    /// their sources `[edges]`, ascending within a vertex, and their types. Everything that code
    /// relies on is looked at once, in parallel; only the order within a vertex is not.
    ///
    /// # Errors
    /// [`Error::Shape`] with the first disagreement.
    pub fn from_lists(
        n: usize,
        indptr: List<u64>,
        indices: List<u32>,
        relations: Option<Relations>,
    ) -> Result<Graph> {
        check_lengths(n, &indptr, &indices, relations.as_ref())?;
        // Whole pieces in loops that vectorise; only a piece that is wrong is searched.
        const PIECE: usize = 1 << 16;
        let rows = (0..n).into_par_iter().step_by(PIECE);
        let falls = rows.find_map_first(|first| {
            let piece = &indptr[first..=(first + PIECE).min(n)];
            let wrong = |any: bool, (a, b): (&u64, &u64)| any | (a > b);
            let pairs = piece.iter().zip(&piece[1..]);
            let any = pairs.clone().fold(false, wrong);
            any.then(|| pairs.clone().position(|(a, b)| a > b))?
                .map(|at| first + at)
        });
        if let Some(v) = falls {
            let (a, b) = (indptr[v], indptr[v + 1]);
            return Err(shape(format!("indptr[{}] >= {a}", v + 1), b.to_string()));
        }
        // `n` was compared with the largest id above.
        let end = n as u32;
        let outside = (0..indices.len()).into_par_iter().step_by(PIECE);
        let outside = outside.find_map_first(|first| {
            let range = first..(first + PIECE).min(indices.len());
            let piece = &indices[range.clone()];
            let found = leaves(piece, end).then(|| piece.iter().copied().find(|&s| s >= end));
            indices.release(range);
            found.flatten()
        });
        indptr.release(0..n + 1);
        if let Some(v) = outside {
            return Err(shape(format!("sources below {n}"), v.to_string()));
        }
        Ok(Graph {
            n,
            indptr,
            indices,
            relations,
        })
    }

    /// [`Graph::from_lists`] of arrays whose elements were looked at before: nothing but their lengths
    /// and ends is, and kernels rely on the rest.
    ///
    /// # Errors
    /// [`Error::Shape`] with lengths and ends that disagree.
    pub(crate) fn from_known_lists(
        n: usize,
        indptr: List<u64>,
        indices: List<u32>,
        relations: Option<Relations>,
    ) -> Result<Graph> {
        check_lengths(n, &indptr, &indices, relations.as_ref())?;
        Ok(Graph {
            n,
            indptr,
            indices,
            relations,
        })
    }

    /// Number of vertices.
    #[inline]
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of directed edges.
    #[inline]
    pub fn n_edges(&self) -> usize {
        self.indices.len()
    }

    /// Where each vertex's in-edges start: `[n + 1]`.
    #[inline]
    pub fn indptr(&self) -> &[u64] {
        &self.indptr
    }

    /// Source of each in-edge: `[edges]`.
    #[inline]
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// Number of in-edges of `v`.
    #[inline]
    pub fn in_degree(&self, v: usize) -> usize {
        (self.indptr[v + 1] - self.indptr[v]) as usize
    }

    /// Sources of the in-edges of `v`, ascending.
    #[inline]
    pub fn neighbours(&self, v: usize) -> &[u32] {
        &self.indices[self.indptr[v] as usize..self.indptr[v + 1] as usize]
    }

    /// The in-edges as a sparse matrix without weights: `[n, n]`.
    #[inline]
    pub fn csr(&self) -> kernels::Csr<'_> {
        kernels::Csr {
            indptr: &self.indptr,
            indices: &self.indices,
            weights: None,
            n_cols: self.n,
        }
    }

    /// Types of the edges, where they have any.
    #[inline]
    pub fn relations(&self) -> Option<&Relations> {
        self.relations.as_ref()
    }

    /// The graph with only the edges `source → destination` that `keep` accepts.
    pub fn filtered(&self, keep: impl Fn(u32, u32) -> bool) -> Graph {
        let mut indptr = Vec::with_capacity(self.n + 1);
        let mut kept = Vec::new();
        indptr.push(0);
        for v in 0..self.n {
            let span = self.indptr[v] as usize..self.indptr[v + 1] as usize;
            kept.extend(span.filter(|&e| keep(self.indices[e], v as u32)));
            indptr.push(kept.len() as u64);
        }
        Graph {
            n: self.n,
            indptr: indptr.into(),
            indices: kept
                .iter()
                .map(|&e| self.indices[e])
                .collect::<Vec<_>>()
                .into(),
            relations: self.relations.as_ref().map(|r| r.select(&kept)),
        }
    }

    /// Whether every edge has its reverse.
    pub fn is_symmetric(&self) -> bool {
        (0..self.n).all(|v| {
            self.neighbours(v).iter().all(|&s| {
                self.neighbours(s as usize)
                    .binary_search(&(v as u32))
                    .is_ok()
            })
        })
    }

    /// The full graph as one block with the weights of `how`.
    pub fn propagation(&self, how: Propagation) -> Block {
        let made = match how {
            Propagation::Sum => Block::new(
                self.n,
                self.n,
                self.indptr.to_vec(),
                self.indices.to_vec(),
                None,
            ),
            Propagation::Mean => {
                let mut weights = vec![0f32; self.indices.len()];
                rows_mut(&self.indptr, &mut weights)
                    .into_par_iter()
                    .for_each(|row| {
                        let w = 1.0 / row.len() as f32;
                        row.fill(w);
                    });
                Block::new(
                    self.n,
                    self.n,
                    self.indptr.to_vec(),
                    self.indices.to_vec(),
                    Some(weights),
                )
            }
            Propagation::Loops => {
                let (indptr, indices) = self.with_self_loops();
                Block::new(self.n, self.n, indptr, indices, None)
            }
            Propagation::GcnSym => {
                let (indptr, indices) = self.with_self_loops();
                let scale: Vec<f32> = indptr
                    .windows(2)
                    .map(|w| 1.0 / ((w[1] - w[0]) as f64).sqrt() as f32)
                    .collect();
                let mut weights = vec![0f32; indices.len()];
                rows_mut(&indptr, &mut weights)
                    .into_par_iter()
                    .enumerate()
                    .for_each(|(v, row)| {
                        let sources = &indices[indptr[v] as usize..];
                        for (w, &s) in row.iter_mut().zip(sources) {
                            *w = scale[v] * scale[s as usize];
                        }
                    });
                Block::new(self.n, self.n, indptr, indices, Some(weights))
            }
            Propagation::RelationMean => self.relation_means(),
        };
        made.expect("the graph's own arrays were checked when it was made")
    }

    /// The in-edges with exactly one self loop a vertex, in its place among ascending sources.
    fn with_self_loops(&self) -> (Vec<u64>, Vec<u32>) {
        let mut indptr = Vec::with_capacity(self.n + 1);
        let mut indices = Vec::with_capacity(self.indices.len() + self.n);
        indptr.push(0);
        for v in 0..self.n {
            let own = v as u32;
            let row = self.neighbours(v);
            let at = row.partition_point(|&s| s < own);
            indices.extend_from_slice(&row[..at]);
            indices.push(own);
            indices.extend(row[at..].iter().filter(|&&s| s != own));
            indptr.push(indices.len() as u64);
        }
        (indptr, indices)
    }
}

/// Whether any of `list` is not below `end`.
fn leaves(list: &[u32], end: u32) -> bool {
    if end > 1 << 31 {
        return list.iter().fold(false, |any, &v| any | (v >= end));
    }
    // The sign bits of `v` and `v - end` say it, and every processor has what finds them: not all can
    // compare vectors of unsigned numbers.
    let (mut some, mut all) = (0u32, !0u32);
    for &v in list {
        some |= v;
        all &= v.wrapping_sub(end);
    }
    some >> 31 == 1 || all >> 31 == 0
}

/// A graph whose parts disagree.
fn shape(expected: String, got: String) -> Error {
    Error::Shape {
        op: "graph".into(),
        expected,
        got,
    }
}

/// What of a graph's arrays is known without a look at their elements: `indptr` `[n + 1]`, `indices`
/// `[edges]`.
fn check_lengths(
    n: usize,
    indptr: &[u64],
    indices: &[u32],
    relations: Option<&Relations>,
) -> Result<()> {
    if n > u32::MAX as usize || indptr.len() != n + 1 {
        let expected = format!("{n} + 1 row starts");
        return Err(shape(expected, indptr.len().to_string()));
    }
    if (indptr[0], indptr[n]) != (0, indices.len() as u64) {
        let expected = format!("row starts from 0 to {}", indices.len());
        return Err(shape(expected, format!("{} to {}", indptr[0], indptr[n])));
    }
    match relations.map(|r| r.types().len()) {
        Some(types) if types != indices.len() => {
            let expected = format!("{} edge types", indices.len());
            Err(shape(expected, types.to_string()))
        }
        _ => Ok(()),
    }
}

fn check_edges(n: usize, src: &[u32], dst: &[u32]) -> Result<()> {
    let err = |expected: String, got: String| Err(shape(expected, got));
    if n > u32::MAX as usize {
        return err(format!("at most {} vertices", u32::MAX), n.to_string());
    }
    if src.len() != dst.len() {
        return err(
            format!("{} destinations (one a source)", src.len()),
            dst.len().to_string(),
        );
    }
    // Without asking after every edge whether another thread has found one that is wrong.
    let end = n as u32;
    let outside = |list: &[u32]| list.par_chunks(1 << 16).any(|piece| leaves(piece, end));
    if let Some(e) = [src, dst]
        .into_iter()
        .filter(|list| outside(list))
        .find_map(|list| list.iter().position(|&v| v >= end))
    {
        return err(
            format!("edge {e} within {n} vertices"),
            format!("{} -> {}", src[e], dst[e]),
        );
    }
    Ok(())
}

/// One disjoint slice of `data` a row.
pub fn rows_mut<'a, T>(indptr: &[u64], data: &'a mut [T]) -> Vec<&'a mut [T]> {
    let mut rest = data;
    indptr
        .windows(2)
        .map(|w| {
            let (row, tail) = std::mem::take(&mut rest).split_at_mut((w[1] - w[0]) as usize);
            rest = tail;
            row
        })
        .collect()
}

#[cfg(test)]
mod tests;
