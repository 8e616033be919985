//! ByteGNN's partitioner: blocks of what labelled vertices read, spread by their labels.

mod blocks;
mod merge;
mod place;
mod rest;
mod reverse;
#[cfg(test)]
mod tests;

use crate::Result;
use crate::knobs::{Knob, Value};
use crate::partition::request::{FOLLOWS, allowed};
use crate::partition::{Partitioner, PartitionerEntry, Request};
use blocks::blocks;
use merge::merge;
use place::place;
use rest::rest;
use reverse::Reverse;

/// Two steps. *Blocks*: every training, validation and test vertex is the centre of a block; a
/// breadth-first search of `hops` rounds from all centres at once, along in-edges since those are
/// what sampling reads, gives every other vertex to the block that reaches it first (the lower
/// centre of equal ones). *Assignment* (Algorithm 2): blocks in descending order of their largest
/// count of training, validation or test vertices, then of all their vertices, go to the part with
/// the highest `CE · BS`: cross edges between block and part over the part's vertices, times
/// `1 − α·train/C_train − β·val/C_val − γ·test/C_test` with the part's counts over its equal share.
///
/// `α`, `β` and `γ` are taken as shares of their sum over the sets that have vertices. So a part whose weighted
/// load has reached 1 is never chosen while another has room, and no part's weighted load is above 1 and that
/// of the largest block; with larger weights `BS` would be negative, and the part with the *fewest* cross edges
/// the best.
///
/// # Paper
/// Zheng et al., "ByteGNN: Efficient Graph Neural Network Training at Large Scale", PVLDB 15(6),
/// 2022, <https://doi.org/10.14778/3514061.3514069>.
///
/// # Differs
/// Algorithm 2 does not say how equal scores are decided (all are 0 for the first block): here by
/// the balance score, then fewer vertices, then the lower part. Vertices that no block reaches, which no
/// sample of `hops` layers reads, go one after the other, from those that have been placed outwards, to the
/// part with most of their neighbours, less so the fuller it is (as with `ldg`). Without any labelled
/// vertex, all are centres and count as training.
///
/// As every centre keeps its own block, a block has exactly one labelled vertex. With `blocks = k`, which is not
/// in the paper, blocks are first merged along the most cross edges while they stay below
/// `n / (parts · k)` vertices, which cuts fewer edges of large blocks and balances labels less well.
pub struct ByteGnn;

const SHARE: &str = "0.3333333333333333";

/// The registry entry.
pub(super) const ENTRY: PartitionerEntry = PartitionerEntry {
    name: "bytegnn",
    about: "K-hop blocks around labelled vertices, balanced by train, val and test (ByteGNN)",
    knobs: &[
        Knob {
            name: "hops",
            default: FOLLOWS,
            doc: "hops of a block: a number, or layers for as many as the model that will sample has, 2 without one",
            check: |v| matches!(v, Value::Str(word) if word == FOLLOWS) || allowed::positive(v),
        },
        Knob {
            name: "alpha",
            default: SHARE,
            doc: "weight of the balance of training vertices, beside the other two",
            check: allowed::amount,
        },
        Knob {
            name: "beta",
            default: SHARE,
            doc: "weight of the balance of validation vertices, beside the other two",
            check: allowed::amount,
        },
        Knob {
            name: "gamma",
            default: SHARE,
            doc: "weight of the balance of test vertices, beside the other two",
            check: allowed::amount,
        },
        Knob {
            name: "blocks",
            default: "0",
            doc: "blocks a part that merging leaves at least; 0 merges nothing, as in the paper",
            check: |v| matches!(v, Value::Int(0..=0xffff_ffff)),
        },
    ],
    partitioner: &ByteGnn,
};

/// No block, or no part.
const NONE: u32 = u32::MAX;

/// Hops where no model is known.
const HOPS: usize = 2;

impl Partitioner for ByteGnn {
    fn assign(&self, request: &Request) -> Result<Vec<u32>> {
        let labels = Labels::of(request);
        let graph = request.graph;
        let hops = match request.word("hops") {
            FOLLOWS => HOPS,
            _ => request.number("hops") as usize,
        };
        let reverse = Reverse::of(graph);
        let mut block = blocks(graph, &labels, hops);
        let per_part = request.number("blocks") as usize;
        if per_part > 0 {
            let most = graph.n() / (request.parts * per_part);
            merge((graph, &reverse), &mut block, most);
        }
        let mut owner = place(request, &reverse, &labels, &block);
        rest((graph, &reverse), &mut owner, request.parts);
        Ok(owner)
    }
}

/// Which labelled set each vertex is in: 0 training, 1 validation, 2 test.
struct Labels {
    of: Vec<u8>,
    totals: [usize; 3],
}

const UNLABELLED: u8 = 3;

impl Labels {
    fn of(request: &Request) -> Labels {
        let n = request.graph.n();
        let masks = [request.train, request.val, request.test];
        let is = |mask: &[bool], v: usize| mask.get(v).copied().unwrap_or(false);
        let kind = |v: usize| masks.iter().position(|m| is(m, v));
        let mut of: Vec<u8> = (0..n)
            .map(|v| kind(v).map_or(UNLABELLED, |k| k as u8))
            .collect();
        if of.iter().all(|&k| k == UNLABELLED) {
            of.fill(0);
        }
        let mut totals = [0; 3];
        for &k in of.iter().filter(|&&k| k != UNLABELLED) {
            totals[usize::from(k)] += 1;
        }
        Labels { of, totals }
    }
}

/// The vertices of each block.
fn members(block: &[u32]) -> Vec<Vec<u32>> {
    let count = block
        .iter()
        .filter(|&&b| b != NONE)
        .max()
        .map_or(0, |&b| b + 1);
    let mut members = vec![Vec::new(); count as usize];
    for (v, &b) in block.iter().enumerate().filter(|(_, b)| **b != NONE) {
        members[b as usize].push(v as u32);
    }
    members
}
