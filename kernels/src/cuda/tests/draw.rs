//! Neighbours that are drawn on the device, against the sets that the definition names. They catch draws that differ
//! from it, rows whose edges go to others, and what belongs to another edge.

use super::{few, on_every_device};
use crate::cuda::ops::{DrawHow, DrawnEdges, DrawnFrom};
use crate::{Csr, CsrBuf, hash};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn below(row: u64, c: u32, m: u32) -> u32 {
    if m < 1 << 16 {
        return ((u64::from(hash::element(row, c)) * u64::from(m)) >> 32) as u32;
    }
    let bits = hash::mix64(row.wrapping_add(u64::from(c).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    ((u128::from(bits) * u128::from(m)) >> 64) as u32
}

/// Which of a row's `d` edges are drawn, by Floyd's algorithm with a set.
fn picks(row: u64, d: u32, how: DrawHow) -> Vec<u32> {
    let Some(k) = how.k else {
        return (0..d).collect();
    };
    if how.replace {
        return (0..if d == 0 { 0 } else { k })
            .map(|c| below(row, c, d))
            .collect();
    }
    if d <= k || k == 0 {
        return (0..d.min(k)).collect();
    }
    let left = d <= 4096 && 2 * k > d;
    let first = if left { k } else { d - k };
    let mut drawn = BTreeSet::new();
    for (c, j) in (first..d).enumerate() {
        let t = below(row, c as u32, j + 1);
        drawn.insert(if drawn.contains(&t) { j } else { t });
    }
    match left {
        true => (0..d).filter(|p| !drawn.contains(p)).collect(),
        false => drawn.into_iter().collect(),
    }
}

fn reference(a: Csr<'_>, types: &[u16], ids: &[u32], rows: &[u32], how: DrawHow) -> DrawnEdges {
    let (mut indptr, mut sources, mut counts, mut kinds) = (vec![0], vec![], vec![], vec![]);
    for &v in rows {
        let span = a.span(v as usize);
        let d = span.len() as u32;
        let row = hash::row(how.key, ids[v as usize]);
        let all = how.k.is_none_or(|k| !how.replace && d <= k);
        let factor = match how.k {
            Some(k) if how.weigh && !all => d as f32 / k as f32,
            _ => 1.0,
        };
        for p in picks(row, d, how) {
            let e = span.start + p as usize;
            sources.push(a.indices[e]);
            counts.push(a.weights.map_or(factor, |w| factor * w[e]));
            kinds.push(types[e]);
        }
        indptr.push(sources.len() as u64);
    }
    let weighs = a.weights.is_some() || (how.weigh && how.k.is_some());
    DrawnEdges {
        indptr,
        sources,
        weights: weighs.then_some(counts),
        types: Some(kinds),
    }
}

/// Rows of these many edges.
fn graph(degrees: &[usize], weights: bool) -> CsrBuf {
    let mut indptr = vec![0u64];
    degrees
        .iter()
        .for_each(|d| indptr.push(indptr.last().copied().unwrap_or(0) + *d as u64));
    let edges = *indptr.last().expect("one row at least");
    CsrBuf {
        indices: (0..edges).map(|e| hash::mix64(e) as u32 % 1000).collect(),
        weights: weights.then(|| (0..edges).map(|e| e as f32 / 7.0 + 0.5).collect()),
        n_cols: 1000,
        indptr,
    }
}

fn check(degrees: &[usize], weights: bool, rows: &[u32], how: DrawHow) {
    let a = graph(degrees, weights);
    let types: Vec<u16> = (0..a.indices.len()).map(|e| (e % 5) as u16).collect();
    let ids: Vec<u32> = (0..degrees.len() as u32).map(|v| 3 * v + 1).collect();
    let want = reference(a.view(), &types, &ids, rows, how);
    on_every_device(|device| {
        let from = DrawnFrom::new(device, a.view(), Some(&types), Some(&ids));
        let got = from.draw(rows, how);
        assert_eq!(got, want, "{how:?}");
        got.sources
    });
}

#[test]
fn narrow_wide_and_huge_rows_are_drawn_by_the_definition() {
    let degrees = [0, 1, 7, 64, 65, 100, 4096, 4097, 70_000, 3];
    let rows: Vec<u32> = (0..10).chain([8, 2, 0]).collect();
    for k in [None, Some(0), Some(1), Some(10), Some(60), Some(90)] {
        for (replace, weigh) in [(false, true), (false, false), (true, true)] {
            let how = DrawHow {
                k,
                replace: replace && k.is_some(),
                weigh,
                key: 11,
            };
            check(&degrees, weigh, &rows, how);
        }
    }
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn any_rows_are_drawn_by_the_definition(
        degrees in prop::collection::vec(prop_oneof![0usize..9, 0usize..130], 1..40),
        picked in prop::collection::vec(0usize..1000, 0..600),
        k in prop_oneof![Just(None), (0u32..30).prop_map(Some)],
        replace: bool, weights: bool, weigh: bool, key: u64,
    ) {
        let rows: Vec<u32> = picked.iter().map(|p| (p % degrees.len()) as u32).collect();
        let replace = replace && k.is_some();
        check(&degrees, weights, &rows, DrawHow { k, replace, weigh, key });
    }
}
