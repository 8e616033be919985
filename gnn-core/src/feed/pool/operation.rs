//! What there is to do for batches, and in which order.

use super::dag::Dag;
use super::logical::Place;
use crate::comm::Words;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// An operation of a batch, which a thread can do without waiting.
pub(super) struct Operation {
    pub(super) dag: Arc<Dag>,
    /// What it is expected to touch, in words.
    pub(super) cost: u64,
    /// The operator, and the number of the instance.
    pub(super) what: (Place, usize),
    /// What the owner of its rows has answered, if that was asked.
    pub(super) came: Option<Words>,
}

/// Operations that wait for a thread.
#[derive(Default)]
pub(super) struct Operations {
    heap: BinaryHeap<Reverse<Waiting>>,
    count: u64,
    pub(super) closed: bool,
}

/// Ordered by its key alone: the batch, the cost, and when it came.
struct Waiting {
    key: [u64; 3],
    operation: Operation,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.key == other.key
    }
}

impl Eq for Waiting {}

impl Operations {
    /// Adds one; `fine`: ordered by batch and cost.
    pub(super) fn push(&mut self, operation: Operation, fine: bool) {
        self.count += 1;
        let key = match fine {
            true => [operation.dag.number, operation.cost, self.count],
            false => [0, 0, self.count],
        };
        self.heap.push(Reverse(Waiting { key, operation }));
    }

    /// Takes the first one.
    pub(super) fn pop(&mut self) -> Option<Operation> {
        self.heap.pop().map(|Reverse(first)| first.operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_batch_comes_first_and_then_what_is_cheapest() {
        let of = |fine: bool| {
            let mut all = Operations::default();
            for (number, cost) in [(4, 1), (3, 9), (3, 2), (5, 0), (3, 2)] {
                let dag = Arc::new(Dag::new(number, (0, number)));
                let (what, came) = ((0, 0), None);
                all.push(
                    Operation {
                        dag,
                        cost,
                        what,
                        came,
                    },
                    fine,
                );
            }
            let next = || all.pop().map(|o| (o.dag.number, o.cost));
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        assert_eq!(of(true), [(3, 2), (3, 2), (3, 9), (4, 1), (5, 0)]);
        assert_eq!(of(false), [(4, 1), (3, 9), (3, 2), (5, 0), (3, 2)]);
    }
}
