//! Everything that some vertices read in so many hops.

use super::view::cut;
use crate::Result;
use crate::graph::Block;

/// The in-closure of some vertices.
#[derive(Debug, Clone)]
pub struct Closure {
    /// Global ids: the vertices themselves, then those one hop up, and so on; by id within a hop.
    pub ids: Vec<u32>,
    /// How many are up to so many hops away: `[hops + 1]`.
    pub within: Vec<usize>,
    /// All in-edges of those closer than the last hop, `[n, n]` in the order of `ids`; the rows of
    /// the last hop are empty.
    pub block: Block,
}

impl Closure {
    /// The closure of `own` over `hops` hops of `full: [n, n]`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the block that is cut does not hold together.
    ///
    /// # Panics
    /// When a vertex is not of the block.
    pub fn new(full: &Block, own: Vec<u32>, hops: usize) -> Result<Closure> {
        let a = full.csr();
        let mut known = vec![false; full.n_src];
        own.iter().for_each(|&v| known[v as usize] = true);
        let (mut ids, mut within) = (own, Vec::with_capacity(hops + 1));
        let mut begins = 0;
        within.push(ids.len());
        for _ in 0..hops {
            let mut next = Vec::new();
            for &v in &ids[begins..] {
                for &s in &a.indices[a.span(v as usize)] {
                    if !std::mem::replace(&mut known[s as usize], true) {
                        next.push(s);
                    }
                }
            }
            next.sort_unstable();
            begins = ids.len();
            ids.extend(next);
            within.push(ids.len());
        }
        let mut local = vec![u32::MAX; full.n_src];
        for (k, &v) in ids.iter().enumerate() {
            local[v as usize] = k as u32;
        }
        let complete = if hops == 0 { 0 } else { within[hops - 1] };
        let n = ids.len();
        let block = cut(full, &ids[..complete], &local, (n, n))?;
        Ok(Closure { ids, within, block })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0 ← 1 ← 2 ← 3, and 1 reads itself.
    #[test]
    fn a_closure_grows_hop_by_hop_and_its_last_hop_reads_nothing() {
        let full = Block::new(4, 4, vec![0, 1, 3, 4, 4], vec![1, 1, 2, 3], None).expect("whole");
        let closure = Closure::new(&full, vec![0], 2).expect("cuts");
        assert_eq!(
            (&closure.ids[..], &closure.within[..]),
            (&[0, 1, 2][..], &[1, 2, 3][..])
        );
        assert_eq!(closure.block.csr().indptr, [0, 1, 3, 3]);
        assert_eq!(closure.block.csr().indices, [1, 1, 2]);
        let none = Closure::new(&full, Vec::new(), 3).expect("cuts");
        assert_eq!((none.ids.len(), &none.within[..]), (0, &[0; 4][..]));
        let alone = Closure::new(&full, vec![2, 1], 0).expect("cuts");
        assert_eq!((alone.block.n_edges(), alone.block.n_dst), (0, 2));
    }
}
