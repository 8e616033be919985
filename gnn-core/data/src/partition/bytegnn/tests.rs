//! The published steps, and what the mended ones owe.

use super::*;
use crate::graph::{EdgeOptions, Graph};
use crate::partition::Method;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Figure 10 of the paper in small: A and B are labelled, each at the end of a path, and the
/// paths are joined far from both.
#[test]
fn what_a_labelled_vertex_reads_stays_with_it() {
    let src: Vec<u32> = (0..9).collect();
    let dst: Vec<u32> = (1..10).collect();
    let g = Graph::from_edges(10, &src, &dst, EdgeOptions::SIMPLE).expect("valid");
    let train: Vec<bool> = (0..10).map(|v| v == 0 || v == 9).collect();
    let method = Method::parse("bytegnn:hops=2,blocks=0").expect("known");
    let request = Request {
        train: &train,
        ..Request::new(method, &g, 2, 0)
    };
    let owner = request.assign().expect("cuts");
    assert_eq!(owner[..3], [owner[0]; 3]);
    assert_eq!(owner[7..], [owner[9]; 3]);
    assert_ne!(owner[0], owner[9], "one training vertex a part");
    assert_eq!(owner.iter().filter(|&&p| p == 0).count(), 5);
}

#[test]
fn the_weighted_load_stays_below_one_and_a_block() {
    let d = crate::load::load("sbm:nodes=2000,classes=4,degree=8", 1).expect("built in");
    for text in ["bytegnn", "bytegnn:blocks=4", "bytegnn:blocks=0,hops=1"] {
        let method = Method::parse(text).expect("known");
        let request = Request::of(method, &d, 5, 1);
        let owner = request.assign().expect("cuts");
        let masks = [&d.train, &d.val, &d.test];
        let per_part = request.number("blocks") as usize;
        let largest = 2000usize.checked_div(5 * per_part).unwrap_or(1) as f64;
        for p in 0..5 {
            let load: f64 = masks
                .iter()
                .map(|mask| {
                    let all = mask.iter().filter(|&&m| m).count() as f64;
                    let here = (0..2000).filter(|&v| mask[v] && owner[v] == p).count() as f64;
                    here / (all / 5.0) / 3.0
                })
                .sum();
            let smallest = masks.iter().map(|m| m.iter().filter(|&&x| x).count()).min();
            let block = largest / (smallest.expect("three masks") as f64 / 5.0) / 3.0;
            assert!(load <= 1.0 + block + 1e-9, "{text}: part {p} has {load}");
        }
    }
}

/// Algorithm 2 as it is printed, with sets, and equal scores decided as documented.
fn literal(request: &Request, labels: &Labels, blocks: &[Vec<u32>]) -> Vec<BTreeSet<u32>> {
    let graph = request.graph;
    let given = ["alpha", "beta", "gamma"].map(|k| request.number(k));
    let sum: f64 = (0..3)
        .filter(|&k| labels.totals[k] > 0)
        .map(|k| given[k])
        .sum();
    let count = |set: &BTreeSet<u32>, k: usize| {
        let of = |v: &&u32| usize::from(labels.of[**v as usize]) == k;
        set.iter().filter(of).count()
    };
    let mut order: Vec<&Vec<u32>> = blocks.iter().collect();
    order.sort_by_key(|block| {
        let set: BTreeSet<u32> = block.iter().copied().collect();
        let most = (0..3).map(|k| count(&set, k)).max();
        std::cmp::Reverse((most, block.len()))
    });
    let mut parts = vec![BTreeSet::new(); request.parts];
    for block in order {
        let scores = parts.iter().map(|part: &BTreeSet<u32>| {
            let edges = (0..graph.n() as u32).flat_map(|d| {
                let near = graph.neighbours(d as usize).iter();
                near.map(move |&s| (s, d))
            });
            // An edge that is there in both directions is one connection, which sampling may read twice.
            let cross = edges.filter(|(s, d)| {
                let between = |a: &u32, b: &u32| block.contains(a) && part.contains(b);
                between(s, d) || between(d, s)
            });
            let simple = graph.is_already(EdgeOptions::SIMPLE);
            let cross = cross.count() / if simple { 2 } else { 1 };
            let ce = cross as f64 / part.len().max(1) as f64;
            let bs = (0..3).fold(1.0, |bs, k| match labels.totals[k] {
                0 => bs,
                total => {
                    let expected = total as f64 / request.parts as f64;
                    let weight = if sum > 0.0 { given[k] / sum } else { 0.0 };
                    bs - weight * count(part, k) as f64 / expected
                }
            });
            (ce * bs, bs, part.len())
        });
        let scores: Vec<(f64, f64, usize)> = scores.collect();
        let best = (0..request.parts)
            .max_by(|&p, &q| {
                let (a, b) = (scores[p], scores[q]);
                a.0.total_cmp(&b.0)
                    .then(a.1.total_cmp(&b.1))
                    .then(b.2.cmp(&a.2))
                    .then(q.cmp(&p))
            })
            .expect("parts");
        parts[best].extend(block);
    }
    parts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn blocks_go_where_algorithm_2_says(
        n in 1usize..24,
        edges in prop::collection::vec((0u32..24, 0u32..24), 0..60),
        kinds in prop::collection::vec(0u8..5, 24),
        simple in any::<bool>(),
        parts in 2usize..5,
        weights in prop::sample::select(vec!["", ",alpha=1", ",alpha=0,beta=0,gamma=0", ",alpha=2,gamma=0.5"]),
    ) {
        let inside = edges.iter().map(|&(s, d)| (s % n as u32, d % n as u32));
        let (src, dst): (Vec<u32>, Vec<u32>) = inside.unzip();
        let options = if simple { EdgeOptions::SIMPLE } else { EdgeOptions::AS_IS };
        let graph = Graph::from_edges(n, &src, &dst, options).expect("in range");
        let mask = |k: u8| kinds[..n].iter().map(|&of| of == k).collect::<Vec<bool>>();
        let masks = [0, 1, 2].map(mask);
        let method = Method::parse(&format!("bytegnn:hops=1{weights}")).expect("known");
        let request = Request {
            train: &masks[0],
            val: &masks[1],
            test: &masks[2],
            ..Request::new(method, &graph, parts, 0)
        };
        let labels = Labels::of(&request);
        let block = blocks(&graph, &labels, 1);
        let expected = literal(&request, &labels, &members(&block));
        let got = place(&request, &Reverse::of(&graph), &labels, &block);
        for (p, part) in expected.iter().enumerate() {
            let got = (0..n as u32).filter(|&v| got[v as usize] == p as u32);
            prop_assert_eq!(&got.collect::<BTreeSet<u32>>(), part, "part {}", p);
        }
        let whole = request.assign().expect("cuts");
        prop_assert!(whole.iter().all(|&p| (p as usize) < parts));
    }
}

#[test]
fn weights_are_shares_of_the_sets_that_have_vertices() {
    assert_eq!(
        place::weights([1.0, 1.0, 2.0], [5, 5, 5]),
        [0.25, 0.25, 0.5]
    );
    assert_eq!(
        place::weights([1.0, 1.0, 2.0], [5, 0, 5]),
        [1.0 / 3.0, 0.0, 2.0 / 3.0]
    );
    assert_eq!(place::weights([1.0, 0.0, 0.0], [0, 5, 5]), [0.0; 3]);
}

/// Edges of everything that was joined before count, in both directions.
#[test]
fn what_was_joined_to_a_block_is_joined_with_it() {
    // One edge from block 0 to block 1; then both together have two into block 2, and one into block 3.
    let (src, dst) = ([0, 0, 1, 0], [1, 2, 3, 4]);
    let graph = Graph::from_edges(6, &src, &dst, EdgeOptions::AS_IS).expect("valid");
    let mut block = vec![0, 1, 2, 2, 3, 3];
    merge((&graph, &Reverse::of(&graph)), &mut block, 4);
    assert_eq!(block, [0, 0, 0, 0, 1, 1]);
}

#[test]
fn vertices_that_nobody_reads_go_with_their_neighbours() {
    // Two paths of eight, labelled at their first ends, and one hop of blocks.
    let path = |first: u32| (first..first + 7).map(move |v| (v, v + 1));
    let (src, dst): (Vec<u32>, Vec<u32>) = path(0).chain(path(8)).unzip();
    let graph = Graph::from_edges(16, &src, &dst, EdgeOptions::SIMPLE).expect("valid");
    let train: Vec<bool> = (0..16).map(|v| v % 8 == 0).collect();
    let method = Method::parse("bytegnn:hops=1").expect("known");
    let request = Request {
        train: &train,
        ..Request::new(method, &graph, 2, 0)
    };
    let owner = request.assign().expect("cuts");
    assert_eq!(owner[..8], [owner[0]; 8]);
    assert_eq!(owner[8..], [owner[8]; 8]);
    assert_ne!(owner[0], owner[8]);
}
