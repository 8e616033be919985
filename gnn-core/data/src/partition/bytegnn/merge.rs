//! Blocks that are joined before they are assigned.

use super::{NONE, Reverse, members};
use crate::graph::Graph;
use std::collections::BTreeMap;

/// Joins blocks, small ones first, each with all that has been joined to it, to the block that it has most
/// edges with, both ways, while both together have at most `most` vertices; renumbers what is left.
pub(super) fn merge((graph, reverse): (&Graph, &Reverse), block: &mut [u32], most: usize) {
    let mut members = members(block);
    let mut into: Vec<u32> = (0..members.len() as u32).collect();
    let root = |into: &[u32], mut b: u32| {
        while into[b as usize] != b {
            b = into[b as usize];
        }
        b
    };
    let mut order: Vec<u32> = into.clone();
    order.sort_by_key(|&b| (members[b as usize].len(), b));
    let mut edges: BTreeMap<u32, usize> = BTreeMap::new();
    for &b in &order {
        let own = root(&into, b);
        edges.clear();
        let all = members[own as usize].iter();
        for other in all.flat_map(|&v| reverse.both(graph, v)) {
            if block[other as usize] == NONE {
                continue;
            }
            let other = root(&into, block[other as usize]);
            let together = members[own as usize].len() + members[other as usize].len();
            if other != own && together <= most {
                *edges.entry(other).or_default() += 1;
            }
        }
        let best = edges
            .iter()
            .max_by(|x, y| x.1.cmp(y.1).then(y.0.cmp(x.0)))
            .map(|(&other, _)| other);
        if let Some(other) = best {
            let joined = std::mem::take(&mut members[own as usize]);
            members[other as usize].extend(joined);
            into[own as usize] = other;
        }
    }
    // Roots are looked up once more and numbered in their order.
    let mut number = vec![NONE; into.len()];
    let mut count = 0;
    for b in block.iter_mut().filter(|b| **b != NONE) {
        let r = root(&into, *b) as usize;
        if number[r] == NONE {
            number[r] = count;
            count += 1;
        }
        *b = number[r];
    }
}
