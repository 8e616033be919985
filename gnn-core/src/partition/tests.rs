//! Laws of every partitioner and of the local parts. They do not judge the quality of a cut, apart
//! from one planted graph.

use proptest::prelude::*;

use super::*;
use crate::graph::{Block, EdgeOptions, Propagation, Relations};

fn graphs() -> impl Strategy<Value = Graph> {
    (0usize..40).prop_flat_map(|n| {
        prop::collection::vec(
            (0..n.max(1) as u32, 0..n.max(1) as u32),
            0..if n == 0 { 1 } else { 150 },
        )
        .prop_map(move |edges| {
            let edges = if n == 0 { vec![] } else { edges };
            let (src, dst): (Vec<u32>, Vec<u32>) = edges.into_iter().unzip();
            Graph::from_edges(n, &src, &dst, EdgeOptions::AS_IS).expect("edges within the graph")
        })
    })
}

fn check_parts_of(full: &Block, owner: &[u32], parts: usize) {
    let locals: Vec<LocalPart> = (0..parts)
        .map(|r| LocalPart::new(full, owner, r, parts).expect("a valid cut"))
        .collect();
    let mut owned: Vec<u32> = locals.iter().flat_map(|l| l.own.iter().copied()).collect();
    owned.sort_unstable();
    assert_eq!(
        owned,
        (0..owner.len() as u32).collect::<Vec<_>>(),
        "every vertex owned once"
    );
    for (r, l) in locals.iter().enumerate() {
        let global: Vec<u32> = l.own.iter().chain(&l.halo).copied().collect();
        assert_eq!((l.block.n_dst, l.block.n_src), (l.own.len(), global.len()));
        for (k, &v) in l.own.iter().enumerate() {
            assert_eq!(owner[v as usize] as usize, r);
            let (here, there) = (l.block.csr().span(k), full.csr().span(v as usize));
            let sources: Vec<u32> = l.block.csr().indices[here.clone()]
                .iter()
                .map(|&s| global[s as usize])
                .collect();
            assert_eq!(
                sources,
                full.csr().indices[there.clone()],
                "every in-edge of an owned vertex is local"
            );
            assert_eq!(
                l.block.csr().weights.map(|w| &w[here]),
                full.csr().weights.map(|w| &w[there])
            );
            let types = |b: &Block, e: std::ops::Range<usize>| b.types().map(|t| t[e].to_vec());
            assert_eq!(
                types(&l.block, l.block.csr().span(k)),
                types(full, full.csr().span(v as usize))
            );
            let remote = sources.iter().any(|&s| owner[s as usize] as usize != r);
            assert_eq!(remote, l.boundary().contains(&k));
            assert_eq!(!remote, l.interior().contains(&k));
        }
        assert_eq!((l.halo_ptr[0], l.halo_ptr[parts]), (0, l.halo.len()));
        for (p, peer) in locals.iter().enumerate() {
            let stored = &l.halo[l.halo_ptr[p]..l.halo_ptr[p + 1]];
            let sent: Vec<u32> = peer.send[r].iter().map(|&k| peer.own[k as usize]).collect();
            assert_eq!(sent, stored, "halo lists of both sides agree");
            assert!(stored.is_sorted() && stored.iter().all(|&v| owner[v as usize] as usize == p));
        }
        assert!(l.send[r].is_empty() && l.recv_counts()[r] == 0);
    }
    let train: Vec<bool> = (0..owner.len()).map(|v| v % 3 == 0).collect();
    for (f, l) in facts(full, owner, parts, &train, 8).iter().zip(&locals) {
        assert_eq!(
            (f.part, f.nodes, f.halo_nodes),
            (l.rank, l.own.len() as u64, l.halo.len() as u64)
        );
        assert_eq!(f.edges, l.block.n_edges() as u64);
        let cut = l
            .block
            .csr()
            .indices
            .iter()
            .filter(|&&s| s as usize >= l.own.len())
            .count();
        assert_eq!(f.cut_edges, cut as u64);
        assert_eq!(
            f.peers as usize,
            l.recv_counts().iter().filter(|&&c| c > 0).count()
        );
        assert_eq!(
            f.train_nodes,
            l.own.iter().filter(|&&v| train[v as usize]).count() as u64
        );
        assert_eq!(f.feature_bytes, 8 * f.nodes);
        assert!((0.0..1.0).contains(&f.halo_share));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_partitioner_assigns_every_vertex_and_local_parts_agree(
        g in graphs(), parts in 1usize..7, seed: u64, gcn: bool,
    ) {
        let full = g.propagation(if gcn { Propagation::GcnSym } else { Propagation::Mean });
        for entry in PARTITIONERS {
            let owner = entry.partitioner.assign(&g, parts, seed).expect("any graph can be cut");
            prop_assert_eq!(owner.len(), g.n());
            prop_assert!(owner.iter().all(|&p| (p as usize) < parts));
            prop_assert_eq!(&owner, &entry.partitioner.assign(&g, parts, seed).expect("again"));
            check_parts_of(&full, &owner, parts);
        }
    }

    #[test]
    fn any_owner_gives_local_parts_that_agree(g in graphs(), parts in 1usize..6, seed: u64) {
        // Some parts get nothing at all.
        let key = crate::rng::key(seed, 0, crate::rng::Purpose::Partition, 1);
        let owner: Vec<u32> = (0..g.n() as u64).map(|v| (crate::rng::below(key, v, parts as u64) / 2 * 2) as u32).collect();
        check_parts_of(&g.propagation(Propagation::Sum), &owner, parts);
        check_parts_of(&g.propagation(Propagation::RelationMean), &owner, parts);
        let dst: Vec<u32> =
            (0..g.n() as u32).flat_map(|v| vec![v; g.in_degree(v as usize)]).collect();
        let types = (0..g.n_edges() as u64).map(|e| crate::rng::below(!key, e, 3) as u16).collect();
        let types = Relations::new(types, 3).expect("below three");
        let typed = Graph::from_typed_edges(g.n(), g.indices(), &dst, &types).expect("valid");
        check_parts_of(&typed.propagation(Propagation::RelationMean), &owner, parts);
    }
}

#[test]
fn one_part_is_the_whole_graph() {
    let d = crate::dataset::load("karate", 0).expect("built in");
    let full = d.graph.propagation(Propagation::GcnSym);
    let l = LocalPart::new(&full, &[0; 34], 0, 1).expect("one part");
    assert_eq!(l.own, (0..34).collect::<Vec<u32>>());
    assert_eq!((l.n_interior, l.halo.len()), (34, 0));
    assert_eq!(
        (&l.block.csr().indices, &l.block.csr().weights),
        (&full.csr().indices, &full.csr().weights)
    );
}

#[test]
fn metis_finds_planted_communities_and_balances() {
    let d = crate::dataset::load("sbm:nodes=4000,classes=4,degree=20,homophily=0.95", 3)
        .expect("built in");
    let full = d.graph.propagation(Propagation::Mean);
    let cut = |name: &str| {
        let owner = find(name)
            .expect("registered")
            .partitioner
            .assign(&d.graph, 4, 1)
            .expect("cut");
        facts(&full, &owner, 4, &d.train, 0)
    };
    let edges =
        |f: &[PartFacts]| f.iter().map(|f| f.cut_edges).sum::<u64>() as f64 / full.n_edges() as f64;
    let (metis, hash) = (cut("metis"), cut("hash"));
    assert!(
        edges(&metis) < 0.15 && edges(&hash) > 0.7,
        "{} {}",
        edges(&metis),
        edges(&hash)
    );
    for f in &metis {
        assert!((900..1100).contains(&f.nodes), "{} vertices", f.nodes);
    }
}

#[test]
fn names_are_unique_and_misspellings_are_helped() {
    let names: std::collections::BTreeSet<_> = PARTITIONERS.iter().map(|e| e.name).collect();
    assert_eq!(names.len(), PARTITIONERS.len());
    let e = find("mettis").err().expect("no such partitioner");
    assert_eq!(
        e.to_string(),
        "unknown partitioner 'mettis'; did you mean 'metis'?"
    );
    let g = Graph::from_edges(3, &[], &[], EdgeOptions::SIMPLE).expect("no edges");
    assert!(
        PARTITIONERS
            .iter()
            .all(|e| e.partitioner.assign(&g, 0, 0).is_err())
    );
}

#[test]
fn an_owner_that_does_not_fit_is_refused() {
    let full = Block::new(2, 2, vec![0, 0, 0], vec![], None).expect("valid");
    let e = LocalPart::new(&full, &[0, 5], 0, 2)
        .unwrap_err()
        .to_string();
    assert_eq!(e, "local part: expected owner[1] below 2, got 5");
    assert!(LocalPart::new(&full, &[0], 0, 1).is_err());
    assert!(LocalPart::new(&full, &[0, 0], 1, 1).is_err());
}
