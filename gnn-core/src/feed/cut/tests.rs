//! A rank's part is what the whole block gives.

use super::*;
use crate::graph::Propagation;
use crate::partition::{LocalPart, facts};
use crate::rng;
use crate::testing::{random_dataset, with_relations};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// As from the whole weighted block of the renumbered graph, which the full-graph strategies cut.
    #[test]
    fn parts_are_those_of_the_whole_block(
        n in 1usize..60, degree in 0usize..6, ranks in 1usize..5, typed: bool, ordered: bool,
        empty: bool, seed: u64,
    ) {
        let mut data = random_dataset(n, n * degree, 2, 2, false, seed);
        if typed {
            data = with_relations(data, 3, seed);
        }
        let graph = &data.graph;
        let (sorted, _) = graph.sorted_by_degree();
        let ids = if ordered { sorted } else { (0..n as u32).collect() };
        let used = if empty && ranks > 1 { ranks - 1 } else { ranks } as u64;
        let owner: Vec<u32> = (0..n as u64).map(|v| rng::below(seed, v, used) as u32).collect();
        let placed: Vec<u32> = ids.iter().map(|&v| owner[v as usize]).collect();
        use Propagation::{GcnSym, Loops, Mean, RelationMean, Sum};
        for how in [GcnSym, Loops, Mean, RelationMean, Sum] {
            let whole = graph.renumbered(&ids).propagation(how);
            let order = ordered.then_some(&ids[..]);
            let rows = WeightedRows::new(graph, order, how);
            let masks = Masks { train: &data.train, val: &data.val, test: &data.test };
            let placed_masks = [masks.train, masks.val, masks.test].map(|m| {
                ids.iter().map(|&v| m[v as usize]).collect::<Vec<bool>>()
            });
            let [train, val, test] = &placed_masks;
            let expected = facts(whole.csr(), &placed, ranks, Masks { train, val, test }, 8);
            let mut before = 0;
            for rank in 0..ranks {
                let by = Ownership { owner: Some(&owner), rank, ranks };
                let part = cut(&rows, order, by).expect("a valid cut");
                let local = LocalPart::new(&whole, &placed, rank, ranks).expect("valid");
                let named = |places: &[u32]| -> Vec<u32> {
                    places.iter().map(|&k| ids[k as usize]).collect()
                };
                prop_assert_eq!(&part.own, &named(&local.own));
                prop_assert_eq!(&part.halo, &named(&local.halo));
                let (a, b) = (part.block.csr(), local.block.csr());
                prop_assert_eq!((a.indptr, a.indices, a.n_cols), (b.indptr, b.indices, b.n_cols));
                prop_assert_eq!(a.weights, b.weights);
                prop_assert_eq!(part.block.types().map(|t| &t[..]), local.block.types().map(|t| &t[..]));
                // Numbers follow each other rank by rank, and name what the columns are.
                let all = &part.numbers;
                prop_assert_eq!(all.first[rank], before);
                before += part.own.len() as u32;
                prop_assert_eq!(&all.ids[all.of(rank).start as usize..before as usize], &part.own[..]);
                let columns = part.columns.iter().map(|&c| all.ids[c as usize]);
                prop_assert!(columns.eq(part.own.iter().chain(&part.halo).copied()));
                if ranks > 1 {
                    prop_assert_eq!(part.facts(by, masks, 8), expected.clone());
                }
            }
            prop_assert_eq!(before as usize, n);
        }
    }
}

#[test]
fn owners_that_do_not_fit_are_refused() {
    let graph = random_dataset(3, 4, 1, 2, false, 1).graph;
    let rows = WeightedRows::new(&graph, None, Propagation::Sum);
    let cut_by = |owner: Option<&[u32]>, rank, ranks| {
        cut(&rows, None, Ownership { owner, rank, ranks }).map(|_| ())
    };
    assert!(cut_by(None, 0, 1).is_ok());
    assert!(cut_by(None, 0, 2).is_err());
    assert!(cut_by(Some(&[0, 1]), 0, 2).is_err());
    assert!(cut_by(Some(&[0, 1, 1]), 2, 2).is_err());
    let e = cut_by(Some(&[0, 5, 1]), 0, 2).unwrap_err().to_string();
    assert_eq!(e, "local part: expected owner[1] below 2, got 5");
}
