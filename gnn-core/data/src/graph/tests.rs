//! Graphs against a set of edges; normalisation against its definition.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::relations::MAX_RELATIONS as MAX;
use super::*;

fn edges() -> impl Strategy<Value = (usize, Vec<(u32, u32)>)> {
    (1usize..30).prop_flat_map(|n| {
        (
            Just(n),
            prop::collection::vec((0..n as u32, 0..n as u32), 0..120),
        )
    })
}

fn options() -> impl Strategy<Value = EdgeOptions> {
    (any::<bool>(), any::<bool>(), 0usize..3).prop_map(|(symmetrise, dedup, loops)| EdgeOptions {
        symmetrise,
        dedup,
        self_loops: [SelfLoops::Keep, SelfLoops::Drop, SelfLoops::Add][loops],
    })
}

fn build(n: usize, edges: &[(u32, u32)], options: EdgeOptions) -> Graph {
    let (src, dst): (Vec<u32>, Vec<u32>) = edges.iter().copied().unzip();
    Graph::from_edges(n, &src, &dst, options).expect("edges within the graph")
}

proptest! {
    #[test]
    fn options_do_what_they_say((n, list) in edges(), asked in options()) {
        let EdgeOptions { symmetrise, dedup, self_loops } = asked;
        let g = build(n, &list, asked);
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
        if symmetrise {
            prop_assert!(g.is_symmetric());
        }
    }

    #[test]
    fn what_a_graph_already_is_would_change_nothing((n, list) in edges(), made in options(), asked in options()) {
        let g = build(n, &list, made);
        let own: Vec<(u32, u32)> =
            (0..n).flat_map(|v| g.neighbours(v).iter().map(move |&s| (s, v as u32))).collect();
        prop_assert_eq!(g.is_already(asked), build(n, &own, asked) == g);
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
                let want = 1.0 / (degree(v) * degree(b.csr().indices[e] as usize)).sqrt();
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

proptest! {
    #[test]
    fn typed_edges_are_kept_and_normalised_by_relation(
        (n, list) in edges(), count in 1usize..5, seed: u64,
    ) {
        let types: Vec<u16> = (0..list.len() as u64)
            .map(|e| crate::rng::below(seed, e, count as u64) as u16)
            .collect();
        let (src, dst): (Vec<u32>, Vec<u32>) = list.iter().copied().unzip();
        let relations = Relations::new(types.clone(), count).expect("types below count");
        let g = Graph::from_typed_edges(n, &src, &dst, &relations).expect("edges in range");
        let mut want: Vec<_> = (0..list.len()).map(|e| (dst[e], src[e], types[e])).collect();
        want.sort_unstable();
        let b = g.propagation(Propagation::RelationMean);
        let row_of = |e: usize| b.csr().indptr.partition_point(|&p| p <= e as u64) as u32 - 1;
        let of = b.types().expect("typed");
        let got: Vec<_> = (0..b.n_edges()).map(|e| (row_of(e), b.csr().indices[e], of[e])).collect();
        prop_assert_eq!(&got, &want);
        for (e, &(d, _, t)) in got.iter().enumerate() {
            let degree = want.iter().filter(|x| (x.0, x.2) == (d, t)).count();
            prop_assert!((b.csr().weight(e) - 1.0 / degree as f32).abs() < 1e-7);
        }
        // The transposed carries the same (destination, source, type, weight) edges.
        let (t, types_t) = (b.edges_t().view(), b.types_t().expect("typed"));
        let mut back: Vec<_> = (0..n)
            .flat_map(|s| t.span(s).map(move |e| (e, s as u32)))
            .map(|(e, s)| (t.indices[e], s, types_t[e], t.weight(e).to_bits()))
            .collect();
        back.sort_unstable();
        let mut forth: Vec<_> = got
            .iter()
            .enumerate()
            .map(|(e, &(d, s, t))| (d, s, t, b.csr().weight(e).to_bits()))
            .collect();
        forth.sort_unstable();
        prop_assert_eq!(&back, &forth);
        // So do the edges into rows of a relation each, and their transposed.
        let [into, into_t] = b.to_relations().expect("few enough rows");
        let (a, back) = (into.view(), into_t.view().transpose());
        prop_assert_eq!((a.indptr, a.indices), (&back.indptr[..], &back.indices[..]));
        let mut apart: Vec<_> = (0..n * count)
            .flat_map(|r| a.span(r).map(move |e| (e, (r / count) as u32, (r % count) as u16)))
            .map(|(e, d, t)| (d, a.indices[e], t, a.weight(e).to_bits()))
            .collect();
        apart.sort_unstable();
        prop_assert_eq!(apart, forth);
    }
}

#[test]
fn a_graph_without_types_has_one_relation() {
    let g = Graph::from_edges(3, &[0, 1, 2], &[1, 2, 1], EdgeOptions::AS_IS).expect("valid");
    let (means, typed) = (
        g.propagation(Propagation::Mean),
        g.propagation(Propagation::RelationMean),
    );
    assert_eq!(means.csr().weights, typed.csr().weights);
    let types = typed.types().expect("typed");
    assert_eq!((typed.n_relations(), &types[..]), (1, &[0u16; 3][..]));
    assert!(means.types().is_none() && means.types_t().is_none());
}

/// A symmetric block is its own transposed, but an edge and its reverse differ in type.
#[test]
fn a_symmetric_block_keeps_the_types_of_its_edges_when_transposed() {
    let forward = Relations::new(vec![0], 1).expect("one edge");
    let both = forward.with_inverses().expect("two relations");
    let g = Graph::from_typed_edges(2, &[0, 1], &[1, 0], &both).expect("valid");
    let b = g.propagation(Propagation::RelationMean);
    assert_eq!(b.edges_t().view().indices, b.csr().indices);
    assert_eq!(b.types().expect("typed")[..], [1, 0]);
    assert_eq!(b.types_t().expect("typed")[..], [0, 1]);
}

#[test]
fn wrong_types_are_refused() {
    let e = Relations::new(vec![0, 3], 3).unwrap_err().to_string();
    assert_eq!(e, "relations: expected types[1] below 3 relations, got 3");
    assert!(Relations::new(Vec::new(), MAX + 1).is_err());
    let many = Relations::new(Vec::new(), MAX).expect("as many as fit");
    assert!(many.with_inverses().is_err());
    let one = Relations::new(vec![0], 1).expect("one edge");
    let e = Graph::from_typed_edges(3, &[0, 1], &[1, 2], &one).unwrap_err();
    assert_eq!(
        e.to_string(),
        "graph: expected 2 edge types (one a source), got 1"
    );
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
    for how in [
        Propagation::GcnSym,
        Propagation::Mean,
        Propagation::Sum,
        Propagation::RelationMean,
    ] {
        assert_eq!(g.propagation(how).n_edges(), 0);
    }
}

/// So many edges that they are gathered in several rounds of several buckets.
#[test]
fn long_lists_become_the_same_rows_as_sorting_makes() {
    let (n, count) = (3000u64, 1_300_000u64);
    let draw = |k: u64| crate::rng::below(5, k, n) as u32;
    // Low ids are drawn more often, and there are repeats and self loops.
    let end = |k: u64| draw(2 * k).min(draw(2 * k + 1));
    let src: Vec<u32> = (0..count).map(end).collect();
    let dst: Vec<u32> = (count..2 * count).map(end).collect();
    for (symmetrise, dedup, self_loops) in [
        (true, true, SelfLoops::Drop),
        (true, false, SelfLoops::Add),
        (false, false, SelfLoops::Keep),
    ] {
        let options = EdgeOptions {
            symmetrise,
            dedup,
            self_loops,
        };
        let got = Graph::from_edges(n as usize, &src, &dst, options).expect("in range");
        let mut want: Vec<(u32, u32)> = Vec::new();
        for (&s, &d) in src.iter().zip(&dst) {
            if s != d || self_loops == SelfLoops::Keep {
                want.push((d, s));
            }
            if s != d && symmetrise {
                want.push((s, d));
            }
        }
        if self_loops == SelfLoops::Add {
            want.extend((0..n as u32).map(|v| (v, v)));
        }
        want.sort_unstable();
        if dedup {
            want.dedup();
        }
        assert_eq!(got.n_edges(), want.len());
        let rows =
            (0..n as u32).flat_map(|v| got.neighbours(v as usize).iter().map(move |&s| (v, s)));
        assert!(rows.eq(want));
    }
}

#[test]
fn an_id_outside_is_seen_whatever_the_bound() {
    for end in [
        1u32,
        7,
        1 << 16,
        (1 << 31) - 1,
        1 << 31,
        (1 << 31) + 1,
        u32::MAX,
    ] {
        let inside = [0, end / 2, end - 1];
        assert!(!leaves(&inside, end), "{end}");
        for outside in [end, end.saturating_add(1), u32::MAX, end | 1 << 31] {
            for at in 0..4 {
                let mut list = inside.to_vec();
                list.insert(at, outside);
                assert_eq!(leaves(&list, end), outside >= end, "{outside} of {end}");
            }
        }
    }
    assert!(!leaves(&[], 3));
}
