//! Laws of every partitioner and of the local parts. They do not judge the quality of a cut, apart
//! from one planted graph.

use proptest::prelude::*;

use super::*;
use crate::graph::{Block, EdgeOptions, Graph, Propagation, Relations};

mod balances;
mod nested;

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

/// Every partitioner, with those knobs that change what it does.
const EVERY: [&str; 18] = [
    "metis",
    "metis:objective=volume,balance=vertices",
    "metis:balance=train+edges",
    "metis:balance=vertices+val+test,slack=0.1",
    "metis:balance=types+type-edges",
    "metis:thin=coarse",
    "metis:passes=1,starts=1,balance=train+edges",
    "metis:thin=input,passes=3",
    "chunk",
    "chunk:by=edges",
    "hash",
    "random",
    "ldg",
    "ldg:order=natural,slack=0",
    "fennel",
    "bytegnn",
    "bytegnn:hops=1,blocks=0,alpha=1,beta=0,gamma=0",
    "hongtu:chunks=2",
];

fn ask<'a>(method: &str, graph: &'a Graph, parts: usize, seed: u64) -> Request<'a> {
    Request::new(Method::parse(method).expect("known"), graph, parts, seed)
}

/// The balance that a method's documentation states, where it states one.
fn check_bound(request: &Request, owner: &[u32]) {
    let (g, parts) = (request.graph, request.parts);
    let (n, label) = (g.n(), request.method.label());
    let load = |weight: &dyn Fn(usize) -> usize| -> Vec<usize> {
        let mut load = vec![0; parts];
        (0..n).for_each(|v| load[owner[v] as usize] += weight(v));
        load
    };
    let nodes = load(&|_| 1);
    let largest = nodes.iter().copied().max().unwrap_or(0);
    match request.method.entry.name {
        "chunk" if label == "chunk" => assert!(largest <= n.div_ceil(parts)),
        "chunk" => {
            let heaviest = (0..n).map(|v| g.in_degree(v)).max().unwrap_or(0);
            let edges = load(&|v| g.in_degree(v));
            assert!(
                edges
                    .iter()
                    .all(|&e| e <= g.n_edges() / parts + heaviest + 1)
            );
        }
        "random" => assert!(largest <= n.div_ceil(parts)),
        "ldg" | "fennel" => {
            let share = (1.0 + request.number("slack")) * n as f64 / parts as f64;
            assert!(largest <= share.ceil() as usize, "{label}: {nodes:?}");
        }
        "metis" | "hongtu" if !label.contains("balance") && n > 0 && parts < n => {
            let simple = undirected::undirected(g).expect("valid");
            let mean = simple.n_edges() / n + 1;
            let work = load(&|v| simple.in_degree(v) + mean);
            let heaviest = (0..n)
                .map(|v| simple.in_degree(v) + mean)
                .max()
                .unwrap_or(0);
            let most = 1.03 * work.iter().sum::<usize>() as f64 / parts as f64;
            assert!(
                work.iter().all(|&w| w as f64 <= most + heaviest as f64),
                "{label}: {work:?}"
            );
        }
        _ => {}
    }
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
    let masks = Masks {
        train: &train,
        val: &train,
        test: &train,
    };
    let all = facts(full.csr(), owner, parts, masks, 8);
    assert_eq!(all.sum(|f| f.edges), full.n_edges() as u64);
    let halo: usize = locals.iter().map(|l| l.halo.len()).sum();
    assert!((all.alpha() * owner.len() as f64 - halo as f64).abs() < 1e-6);
    for (f, l) in all.parts.iter().zip(&locals) {
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
        assert_eq!((f.val_nodes, f.test_nodes), (f.train_nodes, f.train_nodes));
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
        let labels: Vec<u64> = (0..g.n() as u64).map(|v| crate::rng::below(seed, v, 4)).collect();
        let mask = |k: u64| labels.iter().map(|&l| l == k).collect::<Vec<bool>>();
        let (train, val, test) = (mask(0), mask(1), mask(2));
        let types: Vec<u16> = labels.iter().map(|&l| (l % 2) as u16).collect();
        for method in EVERY {
            let request = Request {
                train: &train,
                val: &val,
                test: &test,
                node_types: &types,
                ..ask(method, &g, parts, seed)
            };
            let owner = request.assign().expect("any graph can be cut");
            prop_assert_eq!(owner.len(), g.n());
            prop_assert!(owner.iter().all(|&p| (p as usize) < parts));
            let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
            let again = alone.install(|| request.assign()).expect("again");
            prop_assert_eq!(&owner, &again, "{}: the same on one thread", method);
            prop_assert!(parts > 1 || owner.iter().all(|&p| p == 0));
            check_bound(&request, &owner);
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
    let d = crate::load::load("karate", 0).expect("built in");
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
fn threads_that_ask_for_the_same_cut_make_it_once() {
    let d = crate::load::load("rmat:scale=11", 3).expect("built in");
    let dir = tempfile::tempdir().expect("temporary folder");
    let cache = Cache::new(dir.path().join("cuts"));
    let ask = |seed: u64| {
        let method = Method::parse("metis").expect("known");
        Request::of(method, &d, 4, seed)
            .cut(Some(&cache))
            .expect("cuts")
    };
    let cuts: Vec<Cut> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| ask(1))).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("cuts"))
            .collect()
    });
    assert_eq!(cuts.iter().filter(|c| !c.cached).count(), 1, "made once");
    assert!(
        cuts.iter()
            .all(|c| c.owner == cuts[0].owner && c.ms == cuts[0].ms)
    );
    assert!(!ask(2).cached, "another seed is another cut");
    let method = Method::parse("metis:slack=0.1").expect("known");
    let other = Request::of(method, &d, 4, 1)
        .cut(Some(&cache))
        .expect("cuts");
    assert!(!other.cached, "another knob is another cut");
    // Somebody's disk went bad.
    for entry in std::fs::read_dir(cache.folder()).expect("lists").flatten() {
        if entry.path().extension().is_some_and(|e| e == "cut") {
            std::fs::write(entry.path(), "half a").expect("writes");
        }
    }
    let again = ask(1);
    assert!(
        !again.cached && again.owner == cuts[0].owner,
        "made again, the same"
    );
    assert!(ask(1).cached);
    // A folder that cannot be made costs the cache, not the cut.
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("writes");
    let method = Method::parse("chunk").expect("known");
    let nowhere = Cache::new(file.join("cuts"));
    let cut = Request::of(method, &d, 4, 1)
        .cut(Some(&nowhere))
        .expect("cuts");
    assert!(cut.cache_failed.is_some());
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
    let refused = |e: &PartitionerEntry| ask(e.name, &g, 0, 0).assign().is_err();
    assert!(PARTITIONERS.iter().all(refused));
    let masked = Request {
        train: &[true],
        ..ask("chunk", &g, 2, 0)
    };
    assert!(masked.assign().is_err(), "a mask of one vertex for three");
}

#[test]
fn methods_are_read_and_written_with_their_knobs() {
    for (text, label) in [
        ("metis", "metis"),
        (
            " metis : balance = train+edges , slack=0.03",
            "metis:balance=train+edges",
        ),
        ("fennel:gamma=1.25", "fennel:gamma=1.25"),
        ("bytegnn:hops=3,alpha=1", "bytegnn:alpha=1,hops=3"),
    ] {
        let method = Method::parse(text).expect("known");
        assert_eq!(method.label(), label);
        let again = Method::parse(label).expect("its own label");
        assert_eq!(again.knobs, method.knobs);
    }
    for (text, label) in [
        ("bytegnn", "bytegnn:hops=3"),
        ("bytegnn:hops=1", "bytegnn:hops=1"),
        ("metis:starts=auto", "metis:starts=auto"),
    ] {
        let method = Method::parse(text).expect("known").for_layers(3);
        assert_eq!(method.label(), label, "of a model of three layers");
    }
    for (text, says) in [
        ("metis:balance=trian", "balance: trian is not a value"),
        ("ldg:balance=train", "balance with partitioner ldg"),
        ("metis:slak=1", "did you mean 'slack'"),
        ("chunk:by", "expected knob=value"),
        ("hongtu:chunks=0", "chunks: 0 is not"),
    ] {
        let e = Method::parse(text).expect_err("wrong");
        assert!(e.to_string().contains(says), "{e}");
        assert!(!e.help().is_empty());
    }
    for entry in PARTITIONERS {
        for knob in entry.knobs {
            let default = crate::knobs::Value::from_word(knob.default);
            assert!((knob.check)(&default), "{} {}", entry.name, knob.name);
        }
    }
    let g = Graph::from_edges(3, &[0], &[1], EdgeOptions::SIMPLE).expect("valid");
    let e = ask("metis:balance=train", &g, 2, 0)
        .assign()
        .expect_err("no masks");
    assert!(e.to_string().contains("balance of train"), "{e}");
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
