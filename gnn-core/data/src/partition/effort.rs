//! What METIS takes, foreseen from the levels that it will make of a graph.
//!
//! # Where the time goes
//! Every level is matched and contracted (each edge once, its other end read anywhere among the level's
//! vertices), and on the way back each vertex that has neighbours in other parts is held, with the edges
//! to each of those parts, in a list that refinement searches and changes. So the terms are, summed over the
//! levels ([`Levels`]): edges; edges times how much longer than in the nearest cache a read among the level's
//! vertices takes; parts near a vertex, the same way. The coarsest level is cut in two, again and again. Each
//! further balance adds to the last two, and something for every part.
//!
//! METIS that drops edges sorts the edges of each coarse vertex to find the lightest that may stay, which is
//! the largest term then; each level keeps about as many edges a vertex as its vertices had.
//!
//! # Measured
//! What the constants were fitted to: `notebooks/measured/cuts.md`.

use crate::partition::coarsening::Levels;
use crate::partition::pace::Pace;

/// What is cut into what.
#[derive(Clone, Copy)]
pub(super) struct Task {
    pub parts: f64,
    pub constraints: f64,
}

/// Bytes of a vertex in the arrays that edges lead into while a level is made, and of one that has
/// neighbours in other parts and of each of these parts while it is refined.
const MADE: f64 = 16.0;
const REFINED: [f64; 2] = [64.0, 8.0];

/// Sums over levels of what is reached through edges, and of what through the parts near a vertex, in
/// nanoseconds beyond the nearest cache.
fn far(pace: &Pace, nodes: &[f64], edges: &[f64], near: &[f64]) -> [f64; 2] {
    let made = nodes.iter().zip(edges);
    let made = made.map(|(n, e)| e * pace.beyond(MADE * n)).sum();
    let refined = nodes.iter().zip(near);
    let refined = refined.map(|(n, q)| q * pace.beyond(REFINED[0] * n + REFINED[1] * q));
    [made, refined.sum()]
}

/// A machine's pace for a graph of these levels.
fn pace(levels: &Levels) -> Pace {
    let near = levels.near.first().copied().unwrap_or(0.0);
    Pace::measured(REFINED[0] * levels.nodes[0] + REFINED[1] * near)
}

fn sum(of: &[f64]) -> f64 {
    of.iter().sum()
}

fn last(of: &[f64]) -> f64 {
    of.last().copied().unwrap_or(0.0)
}

/// Milliseconds without dropped edges.
pub(super) fn whole_ms(levels: &Levels, task: Task) -> f64 {
    let pace = pace(levels);
    let (edges, near) = (sum(&levels.edges), sum(&levels.near));
    let [made, refined] = far(&pace, &levels.nodes, &levels.edges, &levels.near);
    let more = task.constraints - 1.0;
    let computed = 12.3 * edges
        + 81.8 * near
        + 4.3 * last(&levels.edges) * task.parts.log2()
        + more * (0.824e6 * task.parts + 31.1 * near + 80.7 * sum(&levels.nodes));
    (computed * pace.near + 26.3 * made + 2.45 * refined) / 1e6
}

/// Milliseconds when edges are dropped while coarsening; with `left`, the input is thinned to that share of its
/// edges first.
pub(super) fn thinned_ms(levels: &Levels, left: Option<f64>, task: Task) -> f64 {
    let pace = pace(levels);
    let share = left.unwrap_or(1.0);
    let thinning = left.map_or(0.0, |_| 6.8 * levels.edges[0]);
    let given: Vec<f64> = levels.edges.iter().map(|e| e * share).collect();
    let nodes = &levels.nodes;
    let mut edges = vec![given[0]];
    let mut sorted = 0.0;
    for l in 1..given.len() {
        let before = edges[l - 1];
        // What contraction leaves is sorted vertex by vertex, then as many as a vertex had before stay.
        let found = given[l].min(before);
        sorted += found * (1.0 + found / nodes[l].max(1.0)).log2();
        edges.push(given[l].min(before * nodes[l] / nodes[l - 1].max(1.0)));
    }
    let near = levels.near.iter().zip(&edges);
    let near: Vec<f64> = near.map(|(q, e)| q.min(*e)).collect();
    let [made, refined] = far(&pace, nodes, &edges, &near);
    let (nodes, near) = (sum(nodes), sum(&near));
    let more = task.constraints - 1.0;
    let computed = thinning
        + 124.6 * nodes
        + 10.55 * sorted
        + 63.0 * near
        + 21.3 * last(&edges) * task.parts.log2()
        + more * (0.269e6 * task.parts + 22.0 * near + 12.6 * nodes);
    (computed * pace.near + 43.7 * made + 1.68 * refined) / 1e6
}
