//! Whether a graph already is what edge options would make of it, found without making it.

use super::{EdgeOptions, Graph, SelfLoops};

impl Graph {
    /// Whether [`Graph::from_edges`] with `options` would make this very graph of its own edges. Reads every
    /// edge once, and takes 8 bytes a vertex where both directions are asked for.
    pub fn is_already(&self, options: EdgeOptions) -> bool {
        let mut unread = Unread {
            graph: self,
            next: match options.symmetrise {
                true => self.indptr()[..self.n()].to_vec(),
                false => Vec::new(),
            },
        };
        (0..self.n()).all(|v| {
            let row = self.neighbours(v);
            let mut pairs = row.windows(2);
            let loops = row.iter().filter(|&&s| s as usize == v).count();
            pairs.all(|pair| pair[0] < pair[1] || (!options.dedup && pair[0] == pair[1]))
                && match options.self_loops {
                    SelfLoops::Keep => true,
                    SelfLoops::Drop => loops == 0,
                    SelfLoops::Add => loops == 1,
                }
                && match (options.symmetrise, options.dedup) {
                    (false, _) => true,
                    // A second direction is a second edge.
                    (true, false) => loops == row.len(),
                    (true, true) => row.iter().all(|&s| unread.takes(s as usize, v)),
                }
        })
    }
}

/// Where each row of a graph was read up to. Rows ascend, so reading the vertices in order meets every row's
/// sources in order: in a symmetric graph each is the next unread one of its own row.
struct Unread<'a> {
    graph: &'a Graph,
    next: Vec<u64>,
}

impl Unread<'_> {
    /// Whether the next source of `row` is `v`, which is then read.
    fn takes(&mut self, row: usize, v: usize) -> bool {
        let slot = &mut self.next[row];
        let end = self.graph.indptr()[row + 1];
        let unread = (*slot < end).then(|| self.graph.indices()[*slot as usize] as usize);
        *slot += 1;
        unread == Some(v)
    }
}
