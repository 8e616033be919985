//! Step 2: blocks go to parts (Algorithm 2).

use super::{Labels, NONE, Reverse, members};
use crate::partition::Request;

/// The part of each vertex that is in a block; [`NONE`] for the others.
pub(super) fn place(
    request: &Request,
    reverse: &Reverse,
    labels: &Labels,
    block: &[u32],
) -> Vec<u32> {
    let (graph, parts) = (request.graph, request.parts);
    let weight = weights(
        ["alpha", "beta", "gamma"].map(|k| request.number(k)),
        labels.totals,
    );
    let share = labels.totals.map(|t| t as f64 / parts as f64);
    let members = members(block);
    let held = |b: &[u32]| {
        let mut held = [0usize; 3];
        for &v in b {
            let k = usize::from(labels.of[v as usize]);
            if k < 3 {
                held[k] += 1;
            }
        }
        held
    };
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&b| {
        let most = held(&members[b]).into_iter().max().unwrap_or(0);
        (std::cmp::Reverse((most, members[b].len())), b)
    });
    let mut owner = vec![NONE; graph.n()];
    let mut size = vec![0usize; parts];
    let mut has = vec![[0usize; 3]; parts];
    let mut cross = vec![0u64; parts];
    for b in order {
        cross.fill(0);
        for s in members[b].iter().flat_map(|&v| reverse.both(graph, v)) {
            if owner[s as usize] != NONE {
                cross[owner[s as usize] as usize] += 1;
            }
        }
        let room = |p: usize| {
            let load = |k: usize| match share[k] {
                0.0 => 0.0,
                share => weight[k] * has[p][k] as f64 / share,
            };
            1.0 - load(0) - load(1) - load(2)
        };
        let score = |p: usize| cross[p] as f64 / size[p].max(1) as f64 * room(p);
        let best = (0..parts)
            .max_by(|&p, &q| {
                score(p)
                    .total_cmp(&score(q))
                    .then(room(p).total_cmp(&room(q)))
                    .then(size[q].cmp(&size[p]))
                    .then(q.cmp(&p))
            })
            .expect("at least one part");
        members[b]
            .iter()
            .for_each(|&v| owner[v as usize] = best as u32);
        size[best] += members[b].len();
        let held = held(&members[b]);
        (0..3).for_each(|k| has[best][k] += held[k]);
    }
    owner
}

/// Weights as shares of their sum, those of empty sets left out.
pub(super) fn weights(of: [f64; 3], totals: [usize; 3]) -> [f64; 3] {
    let there = |k: usize| if totals[k] > 0 { of[k] } else { 0.0 };
    let there = [0, 1, 2].map(there);
    match there.iter().sum::<f64>() {
        0.0 => there,
        sum => there.map(|weight| weight / sum),
    }
}
