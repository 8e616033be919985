//! Step 1: blocks of what labelled vertices read.

use super::{Labels, NONE, UNLABELLED};
use crate::graph::Graph;

/// The block of each vertex, numbered by centre in ascending order; [`NONE`] where none reaches.
pub(super) fn blocks(graph: &Graph, labels: &Labels, hops: usize) -> Vec<u32> {
    let mut block = vec![NONE; graph.n()];
    let mut edge: Vec<u32> = Vec::new();
    for (v, b) in block.iter_mut().enumerate() {
        if labels.of[v] != UNLABELLED {
            *b = edge.len() as u32;
            edge.push(v as u32);
        }
    }
    for _ in 0..hops {
        let mut next = Vec::new();
        for &v in &edge {
            for &s in graph.neighbours(v as usize) {
                if block[s as usize] == NONE {
                    block[s as usize] = block[v as usize];
                    next.push(s);
                }
            }
        }
        edge = next;
    }
    block
}
