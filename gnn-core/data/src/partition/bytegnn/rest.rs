//! Vertices that no block reaches.

use super::{NONE, Reverse};
use crate::graph::Graph;
use std::collections::VecDeque;

/// Gives each vertex without a part the one that has most of its neighbours, less so the fuller that is; from
/// those that have a part outwards, and from the lowest where that ends.
pub(super) fn rest((graph, reverse): (&Graph, &Reverse), owner: &mut [u32], parts: usize) {
    let mut size = vec![0usize; parts];
    let placed = owner.iter().filter(|&&p| p != NONE);
    placed.for_each(|&p| size[p as usize] += 1);
    if size.iter().sum::<usize>() == owner.len() {
        return;
    }
    let most = owner.len().div_ceil(parts);
    let there = |v: &u32| owner[*v as usize] != NONE;
    let mut waiting: VecDeque<u32> = (0..owner.len() as u32).filter(there).collect();
    let mut near = vec![0usize; parts];
    let mut lowest = 0;
    loop {
        let v = match waiting.pop_front() {
            Some(v) => v,
            None => {
                while lowest < owner.len() && owner[lowest] != NONE {
                    lowest += 1;
                }
                if lowest == owner.len() {
                    return;
                }
                lowest as u32
            }
        };
        let mut give = |v: u32, owner: &mut [u32]| {
            let others = || reverse.both(graph, v).map(|s| owner[s as usize]);
            let parts_near = || others().filter(|&p| p != NONE);
            parts_near().for_each(|p| near[p as usize] += 1);
            let score = |p: u32| {
                let full = size[p as usize] as f64 / most as f64;
                near[p as usize] as f64 * (1.0 - full)
            };
            let best = parts_near().filter(|&p| size[p as usize] < most);
            let best = best.max_by(|&p, &q| score(p).total_cmp(&score(q)).then(q.cmp(&p)));
            let emptiest = || (0..parts as u32).min_by_key(|&p| size[p as usize]);
            let part = best.or_else(emptiest).expect("at least one part");
            for p in others().filter(|&p| p != NONE).collect::<Vec<_>>() {
                near[p as usize] = 0;
            }
            size[part as usize] += 1;
            owner[v as usize] = part;
        };
        if owner[v as usize] == NONE {
            give(v, owner);
        }
        for s in reverse.both(graph, v) {
            if owner[s as usize] == NONE {
                give(s, owner);
                waiting.push_back(s);
            }
        }
    }
}
