//! What a batch is made of, before anything is known of it: operators, and what each of them reads.
//!
//! ```text
//! supervised                  seed ─▶ neighbourhood L-1 ─▶ … ─▶ neighbourhood 0 ─▶ features ─▶ end
//!
//! unsupervised       ┌▶ positive ─┐
//!               seed ┤            ├▶ pairs, neighbourhood L-1 ─▶ … as above
//!                    └▶ negative ─┘
//! ```
//!
//! Rows that any of them finds are read by every hop below and by the features. A layer's block is made once
//! its hop and the block above are whole.
//!
//! # Paper
//! ByteGNN (§ 4.2.1, Fig. 9): the graph is built once, and each batch expands it into instances.
//! # Differs
//! Blocks are made beside the features (the paper collects both in the end); pairs of the whole batch are put
//! together, which numbers its seeds.

use super::operator::{self, Operator};

/// An operator's place in the graph.
pub(super) type Place = usize;

/// The graph of operators.
pub(super) struct Logical {
    nodes: Vec<Node>,
    layers: usize,
    pairing: Option<Pairing>,
}

struct Node {
    operator: Box<dyn Operator>,
    /// Places of those whose results it reads.
    reads: Vec<Place>,
}

/// Places of the operators that pair seeds with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pairing {
    pub(super) positive: Place,
    pub(super) negative: Place,
    /// Where all pairs of a batch are put together.
    pub(super) all: Place,
}

/// What decides which operators there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    pub(super) layers: usize,
    /// Seeds are edges or have others beside them, instead of being the rows themselves.
    pub(super) pairs: bool,
    /// What the first layer draws is read.
    pub(super) features: bool,
    /// What other layers draw is read as well, and the seeds.
    pub(super) rows_too: bool,
}

impl Logical {
    /// Where every graph begins.
    pub(super) const SEED: Place = 0;

    /// The operators of a batch.
    pub(super) fn new(parts: Parts) -> Logical {
        let mut all = Logical {
            nodes: Vec::new(),
            layers: parts.layers,
            pairing: None,
        };
        let seed = all.add(Box::new(operator::Seed), Vec::new());
        let mut rows = vec![seed];
        if parts.pairs {
            let positive = all.add(Box::new(operator::Positive), vec![seed]);
            let negative = all.add(Box::new(operator::Negative), vec![seed]);
            let both = all.add(Box::new(operator::Pairs), vec![positive, negative]);
            rows = vec![positive, negative, both];
            all.pairing = Some(Pairing {
                positive,
                negative,
                all: both,
            });
        }
        for layer in (0..parts.layers).rev() {
            let found = rows.clone();
            rows.push(all.add(Box::new(operator::Neighbourhood(layer)), found));
        }
        let mut above = *rows
            .iter()
            .rev()
            .nth(parts.layers)
            .expect("seeds come first");
        for layer in (0..parts.layers).rev() {
            let reads = vec![above, all.hop(layer)];
            above = all.add(Box::new(operator::Block(layer)), reads);
        }
        let read = match (parts.features, parts.rows_too) {
            (false, _) => Vec::new(),
            (true, false) => vec![all.hop(0)],
            (true, true) => rows,
        };
        let features = all.add(Box::new(operator::Features), read);
        all.add(Box::new(operator::End), vec![above, features]);
        all
    }

    fn add(&mut self, operator: Box<dyn Operator>, reads: Vec<Place>) -> Place {
        self.nodes.push(Node { operator, reads });
        self.nodes.len() - 1
    }

    /// What is done at a place.
    pub(super) fn operator(&self, at: Place) -> &dyn Operator {
        &*self.nodes[at].operator
    }

    /// Whether `reader` reads what `found` finds.
    pub(super) fn reads(&self, reader: Place, found: Place) -> bool {
        self.nodes[reader].reads.contains(&found)
    }

    /// What pairs seeds with others, where that is done.
    pub(super) fn pairing(&self) -> Option<Pairing> {
        self.pairing
    }

    /// What draws a layer's hop.
    pub(super) fn hop(&self, layer: usize) -> Place {
        let first = self.pairing.map_or(Logical::SEED, |pairing| pairing.all) + 1;
        first + self.layers - 1 - layer
    }

    /// What makes a layer's block.
    pub(super) fn block(&self, layer: usize) -> Place {
        self.hop(layer) + self.layers
    }

    /// What fetches features.
    pub(super) fn features(&self) -> Place {
        self.nodes.len() - 2
    }

    /// What ends the batch.
    pub(super) fn end(&self) -> Place {
        self.nodes.len() - 1
    }

    /// The last layer whose hop reads what is found at a place, as every one below does; none where none does.
    pub(super) fn highest_hop(&self, found: Place) -> Option<usize> {
        (0..self.layers)
            .rev()
            .find(|&layer| self.reads(self.hop(layer), found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each operator with those that it reads.
    fn text(parts: Parts) -> String {
        let all = Logical::new(parts);
        let name = |at: Place| {
            let operator = all.operator(at);
            match operator.layer() {
                Some(layer) => format!("{} {layer}", operator.name()),
                None => operator.name().to_string(),
            }
        };
        let line = |at: Place| {
            let reads = (0..at).filter(|&k| all.reads(at, k)).map(name);
            format!("{}: {}", name(at), reads.collect::<Vec<_>>().join(", "))
        };
        let lines: Vec<String> = (0..all.nodes.len()).map(line).collect();
        lines.join("\n")
    }

    #[test]
    fn the_graphs_are_those_of_the_paper() {
        let parts = Parts {
            layers: 2,
            pairs: false,
            features: true,
            rows_too: true,
        };
        let supervised = "\
seed: 
neighbourhood 1: seed
neighbourhood 0: seed, neighbourhood 1
block 1: seed, neighbourhood 1
block 0: neighbourhood 0, block 1
features: seed, neighbourhood 1, neighbourhood 0
end: block 0, features";
        assert_eq!(text(parts), supervised);
        let unsupervised = "\
seed: 
positive: seed
negative: seed
pairs: positive, negative
neighbourhood 1: positive, negative, pairs
neighbourhood 0: positive, negative, pairs, neighbourhood 1
block 1: pairs, neighbourhood 1
block 0: neighbourhood 0, block 1
features: neighbourhood 0
end: block 0, features";
        let parts = Parts {
            pairs: true,
            rows_too: false,
            ..parts
        };
        assert_eq!(text(parts), unsupervised);
    }

    #[test]
    fn places_are_where_they_are_said_to_be() {
        for (layers, pairs) in [(1, false), (3, false), (1, true), (4, true)] {
            let all = Logical::new(Parts {
                layers,
                pairs,
                features: true,
                rows_too: true,
            });
            let is = |at: Place, name: &str, layer| {
                let operator = all.operator(at);
                assert_eq!((operator.name(), operator.layer()), (name, layer));
            };
            is(Logical::SEED, "seed", None);
            for layer in 0..layers {
                is(all.hop(layer), "neighbourhood", Some(layer));
                is(all.block(layer), "block", Some(layer));
                assert_eq!(all.highest_hop(all.hop(layer)), layer.checked_sub(1));
            }
            is(all.features(), "features", None);
            is(all.end(), "end", None);
            assert_eq!(all.pairing().is_some(), pairs);
            if let Some(pairing) = all.pairing() {
                is(pairing.positive, "positive", None);
                is(pairing.negative, "negative", None);
                is(pairing.all, "pairs", None);
                assert_eq!(all.highest_hop(pairing.positive), Some(layers - 1));
            }
        }
    }
}
