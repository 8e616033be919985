//! What matrices without elements would have taken, and what was asked to be computed of them.

use super::super::shelf::Shelf;
use super::super::{Kept, Sparse};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// What was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Asked {
    /// Operations of dense products, and of sparse ones that stand for a dense layer.
    pub flops: f64,
    /// Bytes that everything else reads and writes, aggregation and its edges apart.
    pub moved: f64,
}

/// The books of one rank: buffers as the host's pool would keep them, and lists that were read.
#[derive(Debug, Default)]
pub struct Ledger {
    shelf: RefCell<Shelf<usize>>,
    /// Elements of buffers on their way to another rank, and of those and all others at the fullest
    /// moment.
    away: Cell<usize>,
    /// Whether messages have come in since the last one left.
    arriving: Cell<bool>,
    most: Cell<usize>,
    /// Bytes of matrices beside the pool.
    apart: Cell<usize>,
    /// Bytes of sparse matrices and lists of the graph, by where they lie.
    lists: RefCell<HashMap<usize, usize>>,
    /// Of sparse features.
    inputs: RefCell<HashMap<usize, usize>>,
    /// Bytes of the matrices that there are.
    live: Cell<usize>,
    asked: Cell<Asked>,
}

/// A matrix's place in the books, given back when it is gone.
#[derive(Debug)]
pub(in super::super) struct Claim {
    ledger: Rc<Ledger>,
    /// Elements of its buffer; of none, bytes beside the pool.
    capacity: usize,
    apart: usize,
    /// Bytes of an element.
    pub(in super::super) element: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let ledger = &self.ledger;
        ledger.apart.set(ledger.apart.get() - self.apart);
        let own = 4 * self.capacity + self.apart;
        ledger.live.set(ledger.live.get() - own);
        ledger.shelf.borrow_mut().put(self.capacity);
    }
}

impl Claim {
    /// The buffer leaves with a message.
    pub(super) fn leaves(mut self) {
        let (ledger, capacity) = (&self.ledger, std::mem::take(&mut self.capacity));
        ledger.shelf.borrow_mut().lose(capacity);
        let before = match ledger.arriving.replace(false) {
            true => 0,
            false => ledger.away.get(),
        };
        ledger.away.set(before + capacity);
        ledger.live.set(ledger.live.get() - 4 * capacity);
    }
}

impl Ledger {
    /// The most bytes that buffers had, idle ones and messages on their way included.
    pub fn most_bytes(&self) -> usize {
        4 * self.most.get() + self.apart.get()
    }

    /// Bytes of the sparse matrices and lists that were read, each once.
    pub fn list_bytes(&self) -> usize {
        self.lists.borrow().values().sum()
    }

    /// Bytes of sparse features that were read.
    pub fn input_bytes(&self) -> usize {
        self.inputs.borrow().values().sum()
    }

    /// Bytes of the matrices that there are.
    pub fn live_bytes(&self) -> usize {
        self.live.get()
    }

    /// All that was asked since the last call.
    pub fn take_asked(&self) -> Asked {
        self.asked.take()
    }

    /// A buffer of so many elements is in use.
    fn lend(&self, elements: usize) {
        let mut shelf = self.shelf.borrow_mut();
        shelf.lend(elements);
        let now = shelf.room() + self.away.get();
        self.most.set(self.most.get().max(now));
    }

    fn claim(self: &Rc<Self>, capacity: usize, apart: usize) -> Claim {
        self.apart.set(self.apart.get() + apart);
        self.live.set(self.live.get() + 4 * capacity + apart);
        Claim {
            ledger: Rc::clone(self),
            capacity,
            apart,
            element: if apart > 0 { 2 } else { 4 },
        }
    }

    /// A buffer of `len` elements, taken as the host's pool takes them.
    pub(super) fn fresh(self: &Rc<Self>, len: usize) -> Claim {
        let mut shelf = self.shelf.borrow_mut();
        let kept = shelf.take(len);
        let capacity = kept.unwrap_or_else(|| shelf.new_room(len));
        drop(shelf);
        self.lend(capacity);
        self.claim(capacity, 0)
    }

    /// A buffer that came from elsewhere, such as a message.
    pub(super) fn adopt(self: &Rc<Self>, len: usize) -> Claim {
        // What came in existed before it was taken, about as much as had been sent.
        self.arriving.set(true);
        self.away.set(self.away.get().saturating_sub(len));
        self.lend(len);
        self.claim(len, 0)
    }

    /// A matrix of so many bytes that no buffer of the pool holds.
    pub(super) fn beside(self: &Rc<Self>, bytes: usize) -> Claim {
        self.claim(0, bytes)
    }

    pub(super) fn flops(&self, flops: f64) {
        let mut asked = self.asked.get();
        asked.flops += flops;
        self.asked.set(asked);
    }

    /// So many elements were read or written.
    pub(super) fn moved(&self, elements: usize) {
        let mut asked = self.asked.get();
        asked.moved += 4.0 * elements as f64;
        self.asked.set(asked);
    }

    pub(super) fn sparse(&self, a: &Sparse) {
        let place = std::ptr::from_ref(a) as usize;
        self.lists.borrow_mut().insert(place, a.bytes());
    }

    /// Sparse rows of features, or columns.
    pub(super) fn input(&self, a: &Sparse) {
        let place = std::ptr::from_ref(a) as usize;
        self.inputs.borrow_mut().insert(place, a.bytes());
    }

    pub(super) fn list<T>(&self, list: &Kept<T>) {
        let bytes = std::mem::size_of_val(&list[..]);
        if bytes > 0 {
            self.lists
                .borrow_mut()
                .insert(list.as_ptr() as usize, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_messages_and_what_lies_beside_them_are_counted() {
        let ledger = Rc::new(Ledger::default());
        let (a, b) = (ledger.fresh(100), ledger.fresh(50));
        drop(a);
        let c = ledger.fresh(60);
        assert_eq!((ledger.most_bytes(), ledger.live_bytes()), (600, 600));
        drop((b, c));
        let d = ledger.fresh(400);
        assert_eq!(ledger.most_bytes(), 4 * 550);
        d.leaves();
        // It is on its way, and takes as much as before.
        let e = ledger.adopt(10);
        assert_eq!(ledger.most_bytes(), 4 * 550);
        drop(e);
        let f = ledger.beside(8);
        assert_eq!(ledger.most_bytes(), 4 * 550 + 8);
        assert_eq!((f.element, ledger.live_bytes()), (2, 8));
    }
}
