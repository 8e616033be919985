//! Laws of the second level of a cut, for every partitioner.

use super::*;
use crate::partition::digest::of_request;

fn both<'a>(method: &str, graph: &'a Graph, parts: Parts, seed: u64) -> Request<'a> {
    ask(method, graph, parts.count, seed).nested(parts.nested)
}

/// The same of vertices of which something is known.
fn known<'a>(of: Request<'a>, masks: &'a [Vec<bool>; 3], types: &'a [u16]) -> Request<'a> {
    Request {
        train: &masks[0],
        val: &masks[1],
        test: &masks[2],
        node_types: types,
        ..of
    }
}

/// The edges within one part, its vertices numbered in ascending order.
fn within(graph: &Graph, members: &[u32]) -> Graph {
    let local = |v: u32| members.binary_search(&v).ok().map(|k| k as u32);
    let ends = members.iter().flat_map(|&v| {
        let near = graph.neighbours(v as usize).iter();
        near.filter_map(move |&s| Some((local(s)?, local(v)?)))
    });
    let (src, dst): (Vec<u32>, Vec<u32>) = ends.unzip();
    Graph::from_edges(members.len(), &src, &dst, EdgeOptions::AS_IS).expect("of the part")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn each_part_is_cut_as_if_it_were_alone(g in graphs(), count in 1usize..5, each in 2usize..4, seed: u64) {
        let labels: Vec<u64> = (0..g.n() as u64).map(|v| crate::rng::below(seed, v, 4)).collect();
        let masks = [0, 1, 2].map(|k| labels.iter().map(|&l| l == k).collect::<Vec<bool>>());
        let types: Vec<u16> = labels.iter().map(|&l| (l % 2) as u16).collect();
        for method in EVERY {
            let whole = known(ask(method, &g, count, seed), &masks, &types);
            let first = whole.assign().expect(method);
            let cut = whole.nested(Nested::Again(each)).assign_nested().expect(method);
            prop_assert_eq!(&cut.owner, &first, "{}: the first level is what it was", method);
            let place = cut.nested.expect("two levels");
            for part in 0..count as u32 {
                let members: Vec<u32> = (0..g.n() as u32).filter(|&v| cut.owner[v as usize] == part).collect();
                let of_part: Vec<u32> = members.iter().map(|&v| place[v as usize]).collect();
                prop_assert!(of_part.iter().all(|&p| (p as usize) < each));
                if members.is_empty() {
                    continue;
                }
                let graph = within(&g, &members);
                let own = |mask: &Vec<bool>| members.iter().map(|&v| mask[v as usize]).collect();
                let masks: [Vec<bool>; 3] = masks.each_ref().map(own);
                let types: Vec<u16> = members.iter().map(|&v| types[v as usize]).collect();
                let alone = known(ask(method, &graph, each, seed), &masks, &types).assign().expect(method);
                prop_assert_eq!(of_part, alone, "{}", method);
            }
        }
    }

    #[test]
    fn ranges_ascend_and_share_in_edges(g in graphs(), count in 1usize..5, each in 1usize..5, seed: u64) {
        let parts = Parts::of(count).each(Nested::Ranges(each));
        let cut = both("hash", &g, parts, seed).cut(None).expect("cuts");
        let place = cut.nested.expect("two levels");
        let heaviest = (0..g.n()).map(|v| g.in_degree(v)).max().unwrap_or(0);
        for part in 0..count as u32 {
            let members: Vec<usize> = (0..g.n()).filter(|&v| cut.owner[v] == part).collect();
            prop_assert!(members.iter().map(|&v| place[v]).is_sorted());
            let all: usize = members.iter().map(|&v| g.in_degree(v)).sum();
            for range in 0..each as u32 {
                let own = members.iter().filter(|&&v| place[v] == range);
                let edges: usize = own.map(|&v| g.in_degree(v)).sum();
                prop_assert!(edges <= all / each + heaviest + 1);
            }
        }
    }
}

#[test]
fn both_levels_are_kept_and_found_by_their_content() {
    let data = crate::load::load("rmat:scale=9,edge-factor=6,feat=1", 1).expect("built in");
    let dir = tempfile::tempdir().expect("temporary folder");
    let cache = Cache::new(dir.path());
    let wanted = [
        Nested::No,
        Nested::Again(2),
        Nested::Again(3),
        Nested::Ranges(2),
    ];
    let request = |nested| {
        let method = Method::parse("metis").expect("known");
        Request::of(method, &data, 4, 7).nested(nested)
    };
    let made = wanted.map(|nested| request(nested).cut(Some(&cache)).expect("cuts"));
    assert!(made.iter().all(|cut| !cut.cached), "each is another cut");
    for (nested, cut) in wanted.into_iter().zip(made) {
        let again = request(nested).cut(Some(&cache)).expect("cuts");
        assert!(again.cached && again.need == cut.need && again.each == nested.count());
        assert_eq!((again.owner, again.nested), (cut.owner, cut.nested));
    }
    // Before there was a second level, a cut had the name that it has without one.
    let plain = of_request(&request(Nested::No)).hex();
    let others = [Nested::Again(1), Nested::Ranges(1)].map(|n| of_request(&request(n)).hex());
    assert!(!others.contains(&plain));
}

#[test]
fn what_cannot_be_cut_twice_is_refused_before_it_is_tried() {
    let data = crate::load::load("rmat:scale=10,edge-factor=8,feat=1", 1).expect("built in");
    let method = || Method::parse("metis:thin=never").expect("known");
    let of = |nested| Request::of(method(), &data, 4, 1).nested(nested);
    let (one, two) = (of(Nested::No).need(), of(Nested::Again(2)).need());
    let (one, two) = (one.expect("foreseen"), two.expect("foreseen"));
    assert!(two.bytes >= one.bytes && two.ms > one.ms, "{one:?} {two:?}");
    let limits = Limits {
        bytes: Some(two.bytes / 2),
        ms: None,
    };
    let refused = of(Nested::Again(2)).within(limits).cut(None);
    let text = refused.expect_err("too much").to_string();
    assert!(
        text.contains("into 4 parts, each cut again into 2 of"),
        "{text}"
    );
    let none = of(Nested::Again(0)).cut(None).expect_err("no parts");
    assert!(none.to_string().contains("got 4 times 0"), "{none}");
}

/// A cut of every chunk has many more copies than one of the whole graph into as many parts: what GNNPipe's
/// hybrid sends within a chunk depends on which it is.
#[test]
fn a_report_says_what_the_second_level_costs() {
    let data = crate::load::load("sbm:nodes=600,classes=4,degree=8,feat=1", 1).expect("built in");
    let method = || Method::parse("metis").expect("known");
    let cut = Request::of(method(), &data, 6, 1)
        .nested(Nested::Again(2))
        .cut(None)
        .expect("cuts");
    let masks = Masks {
        train: &data.train,
        val: &data.val,
        test: &data.test,
    };
    let facts = facts(data.graph.csr(), &cut.owner, 6, masks, 0);
    let report = Report::of("sbm", &data, &cut, &facts, None, 1);
    let second = report.nested.expect("two levels");
    // The same by sets.
    let place = cut.nested.as_ref().expect("two levels");
    let at = |v: u32| (cut.owner[v as usize], place[v as usize]);
    let (mut copies, mut within, mut across) = (std::collections::BTreeSet::new(), 0, 0);
    for v in 0..data.n() as u32 {
        for &s in data.graph.neighbours(v as usize) {
            if at(s).0 == at(v).0 {
                within += 1;
                if at(s) != at(v) {
                    across += 1;
                    copies.insert((at(v), s));
                }
            }
        }
    }
    assert_eq!(second.each, 2);
    assert_eq!(second.alpha, copies.len() as f64 / 600.0);
    assert_eq!(second.cut_share, f64::from(across) / f64::from(within));
    assert!(
        second.node_balance >= 1.0 && second.node_balance < 1.5,
        "{second:?}"
    );
}
