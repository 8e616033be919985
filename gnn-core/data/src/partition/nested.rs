//! The second level of a cut: every part cut again.
//!
//! # Paper
//! By the same method: GNNPipe's hybrid (§3.5), in which the ranks of a stage share each chunk. Into
//! ranges: HongTu (§4.1), in which a device goes through its vertices in chunks.

use super::cut::Labels;
use super::facts::by_owner;
use super::hongtu::ranges;
use super::need::Need;
use super::{Nested, Request};
use crate::Result;
use crate::graph::{EdgeOptions, Graph};
use std::ops::Range;

/// A part by itself.
struct Part {
    /// Edges within it.
    graph: Graph,
    /// What is known of its vertices.
    masks: [Vec<bool>; 3],
    types: Vec<u16>,
}

impl Part {
    /// Of the vertices `members`, ascending; `local` is room for the number of every vertex.
    fn of(request: &Request, owner: &[u32], members: &[u32], local: &mut [u32]) -> Result<Part> {
        for (k, &v) in members.iter().enumerate() {
            local[v as usize] = k as u32;
        }
        let (mut src, mut dst) = (Vec::new(), Vec::new());
        for (k, &v) in members.iter().enumerate() {
            let near = request.graph.neighbours(v as usize).iter();
            let near = near.filter(|&&s| owner[s as usize] == owner[v as usize]);
            src.extend(near.map(|&s| local[s as usize]));
            dst.resize(src.len(), k as u32);
        }
        let pick = |mask: &[bool]| -> Vec<bool> {
            let of = |&v: &u32| mask[v as usize];
            members
                .iter()
                .filter(|_| !mask.is_empty())
                .map(of)
                .collect()
        };
        let known = !request.node_types.is_empty();
        let types = members.iter().filter(|_| known);
        Ok(Part {
            graph: Graph::from_edges(members.len(), &src, &dst, EdgeOptions::AS_IS)?,
            masks: [request.train, request.val, request.test].map(pick),
            types: types.map(|&v| request.node_types[v as usize]).collect(),
        })
    }

    /// The same request for this part, into `parts`.
    fn request<'a>(&'a self, of: &Request, parts: usize) -> Request<'a> {
        let [train, val, test] = &self.masks;
        Request {
            train,
            val,
            test,
            node_types: &self.types,
            limits: of.limits,
            ..Request::new(of.method.clone(), &self.graph, parts, of.seed)
        }
    }
}

/// Where each part's vertices are in an order by part.
fn spans(order: &[u32], owner: &[u32], parts: usize) -> Vec<Range<usize>> {
    let mut start = 0;
    let span = |part: usize| {
        let rest = &order[start..];
        let n = rest.partition_point(|&v| owner[v as usize] as usize <= part);
        start += n;
        start - n..start
    };
    (0..parts).map(span).collect()
}

impl Request<'_> {
    /// Both levels. Parts of the second level may be empty, as parts may.
    ///
    /// # Errors
    /// As [`Request::assign`].
    pub(super) fn assign_nested(&self) -> Result<Labels> {
        let owner = self.assign()?;
        let n = owner.len();
        let place = match self.nested {
            Nested::No => return Ok(Labels::flat(owner)),
            Nested::Again(parts) => {
                let order = by_owner(&owner, self.parts);
                let (mut place, mut local) = (vec![0; n], vec![0; n]);
                for span in spans(&order, &owner, self.parts) {
                    let members = &order[span];
                    // Nothing is known of the vertices of an empty part, which methods may ask for.
                    if members.is_empty() {
                        continue;
                    }
                    let part = Part::of(self, &owner, members, &mut local)?;
                    let inner = part.request(self, parts).assign()?;
                    for (&v, p) in members.iter().zip(inner) {
                        place[v as usize] = p;
                    }
                }
                place
            }
            Nested::Ranges(count) => {
                let mut place = vec![0; n];
                for part in ranges(self.graph, &owner, self.parts, count) {
                    for (k, range) in part.iter().enumerate() {
                        range.iter().for_each(|&v| place[v as usize] = k as u32);
                    }
                }
                place
            }
        };
        Ok(Labels {
            owner,
            nested: Some(place),
        })
    }

    /// What both levels need. Of the second, time is that of one cut of the whole graph into as many
    /// parts, of which edges between parts are spared: half of them, on the way from none (parts are
    /// communities) to all but one in `parts` (they are random). Memory is a part's share of such a cut.
    pub(super) fn foreseen_nested(&self) -> Need {
        let first = self.foreseen();
        let n = self.graph.n() as f64;
        let lists = 12.0 * n;
        match self.nested {
            Nested::No => first,
            Nested::Ranges(_) => Need {
                bytes: first.bytes.max((lists + 8.0 * n) as u64),
                ms: first.ms + 2e-5 * n,
            },
            Nested::Again(parts) => {
                let again = Request {
                    parts,
                    nested: Nested::No,
                    ..self.clone()
                };
                let again = again.foreseen();
                let share = 1.0 / self.parts as f64;
                let within = (1.0 + share) / 2.0;
                let edges = 12.0 * self.graph.n_edges() as f64 * within * share;
                let second = lists + edges + again.bytes as f64 * within * share;
                Need {
                    bytes: first.bytes.max(second as u64),
                    ms: first.ms + again.ms * within,
                }
            }
        }
    }
}
