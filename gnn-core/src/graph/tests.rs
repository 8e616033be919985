//! Graphs against a set of edges; normalisation against its definition.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn edges() -> impl Strategy<Value = (usize, Vec<(u32, u32)>)> {
    (1usize..30).prop_flat_map(|n| {
        (
            Just(n),
            prop::collection::vec((0..n as u32, 0..n as u32), 0..120),
        )
    })
}

fn build(n: usize, edges: &[(u32, u32)], options: EdgeOptions) -> Graph {
    let (src, dst): (Vec<u32>, Vec<u32>) = edges.iter().copied().unzip();
    Graph::from_edges(n, &src, &dst, options).expect("edges within the graph")
}

proptest! {
    #[test]
    fn options_do_what_they_say((n, list) in edges(), symmetrise: bool, dedup: bool, loops in 0..3) {
        let self_loops = [SelfLoops::Keep, SelfLoops::Drop, SelfLoops::Add][loops as usize];
        let g = build(n, &list, EdgeOptions { symmetrise, dedup, self_loops });
        let mut want: Vec<(u32, u32)> = list.clone();
        if symmetrise {
            want.extend(list.iter().filter(|(s, d)| s != d).map(|&(s, d)| (d, s)));
        }
        if self_loops != SelfLoops::Keep {
            want.retain(|(s, d)| s != d);
        }
        if self_loops == SelfLoops::Add {
            want.extend((0..n as u32).map(|v| (v, v)));
        }
        if dedup {
            want = want.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        }
        want.sort_unstable();
        let mut got: Vec<(u32, u32)> =
            (0..n).flat_map(|v| g.neighbours(v).iter().map(move |&s| (s, v as u32))).collect();
        got.sort_unstable();
        prop_assert_eq!(got, want);
        prop_assert!((0..n).all(|v| g.neighbours(v).is_sorted()));
        prop_assert_eq!(g.out_degrees().iter().map(|&d| d as usize).sum::<usize>(), g.n_edges());
        if symmetrise {
            prop_assert!(g.is_symmetric());
        }
    }

    #[test]
    fn gcn_weights_follow_the_definition((n, list) in edges()) {
        let g = build(n, &list, EdgeOptions { dedup: true, ..EdgeOptions::AS_IS });
        let b = g.propagation(Propagation::GcnSym);
        let degree = |v: usize| 1.0 + list.iter().copied().collect::<BTreeSet<_>>().iter()
            .filter(|(s, d)| *d as usize == v && s != d).count() as f32;
        for v in 0..n {
            let row = b.csr().span(v);
            prop_assert_eq!(row.len() as f32, degree(v));
            for e in row {
                let want = 1.0 / (degree(v) * degree(b.indices[e] as usize)).sqrt();
                prop_assert!((b.csr().weight(e) - want).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn mean_rows_sum_to_one((n, list) in edges()) {
        let g = build(n, &list, EdgeOptions::AS_IS);
        let b = g.propagation(Propagation::Mean);
        for v in 0..n {
            let sum: f32 = b.csr().span(v).map(|e| b.csr().weight(e)).sum();
            let expected = if g.in_degree(v) == 0 { 0.0 } else { 1.0 };
            prop_assert!((sum - expected).abs() < 1e-5);
        }
    }
}

#[test]
fn edges_that_leave_the_graph_are_refused() {
    let e = Graph::from_edges(3, &[0, 1], &[1, 3], EdgeOptions::AS_IS).unwrap_err();
    assert_eq!(
        e.to_string(),
        "graph: expected edge 1 within 3 vertices, got 1 -> 3"
    );
    let e = Graph::from_edges(3, &[0, 1], &[1], EdgeOptions::AS_IS).unwrap_err();
    assert_eq!(
        e.to_string(),
        "graph: expected 2 destinations (one a source), got 1"
    );
}

#[test]
fn an_empty_graph_is_a_graph() {
    let g = Graph::from_edges(0, &[], &[], EdgeOptions::SIMPLE).expect("no edges");
    assert_eq!((g.n(), g.n_edges()), (0, 0));
    for how in [Propagation::GcnSym, Propagation::Mean, Propagation::Sum] {
        assert_eq!(g.propagation(how).n_edges(), 0);
    }
}
