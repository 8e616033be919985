//! Rows whose edges are not all alike: by type, or without some.

use super::FanOut;
use super::draw::Draw;
use super::hop::{Edges, Rule};
use kernels::hash::join;

/// The edges of one row that may be drawn, in groups that are drawn from apart.
#[derive(Default)]
pub(super) struct Among {
    /// Positions in the row, group by group, ascending in each.
    positions: Vec<u32>,
    /// Where each group ends.
    ends: Vec<usize>,
    picked: Vec<u32>,
    factors: Vec<f32>,
    bias: Vec<f32>,
}

impl Among {
    /// Lists the edges of row `v`; false where they are one group of all, which needs no list.
    #[inline]
    pub(super) fn list(&mut self, edges: &Edges<'_>, fan_out: &FanOut, v: u32) -> bool {
        let without = edges.without.map(|w| w.of(edges.id(v)));
        let without = without.unwrap_or_default();
        let by_type = matches!(fan_out, FanOut::PerType(_));
        if without.is_empty() && !by_type {
            return false;
        }
        self.fill(edges, by_type, v, without);
        true
    }

    fn fill(&mut self, edges: &Edges<'_>, by_type: bool, v: u32, without: &[[u32; 2]]) {
        let span = edges.a.span(v as usize);
        let sources = &edges.a.indices[span.clone()];
        let gone = |p: u32| {
            let source = edges.id(sources[p as usize]);
            without
                .binary_search_by_key(&source, |pair| pair[1])
                .is_ok()
        };
        self.positions.clear();
        let all = 0..sources.len() as u32;
        self.positions
            .extend(all.filter(|&p| without.is_empty() || !gone(p)));
        self.ends.clear();
        match edges.types.filter(|_| by_type) {
            None => self.ends.push(self.positions.len()),
            Some(types) => {
                let types = &types[span];
                // Stable, so that positions ascend within a type.
                self.positions.sort_by_key(|&p| types[p as usize]);
                let upto = |r| {
                    self.positions
                        .partition_point(|&p| usize::from(types[p as usize]) <= r)
                };
                self.ends.extend((0..edges.relations).map(upto));
            }
        }
    }

    /// Each group with its number, how many are drawn of it (all when absent), and its positions.
    pub(super) fn groups(
        &self,
        fan_out: &FanOut,
    ) -> impl Iterator<Item = (usize, Option<u32>, &[u32])> {
        let mut start = 0;
        self.ends.iter().enumerate().map(move |(g, &end)| {
            let group = &self.positions[start..end];
            start = end;
            (g, fan_out.of(g), group)
        })
    }

    /// Draws from each group in turn; `draw` then has the picks of all, as positions in the row.
    pub(super) fn draw(&mut self, draw: &mut Draw, rule: Rule<'_>, key: u64, bias: Option<&[f32]>) {
        let (mut picked, mut factors) = (
            std::mem::take(&mut self.picked),
            std::mem::take(&mut self.factors),
        );
        let mut own = std::mem::take(&mut self.bias);
        picked.clear();
        factors.clear();
        for (g, k, group) in self.groups(rule.fan_out) {
            // A row without some of its edges draws as if it never had them.
            let key = match rule.fan_out {
                FanOut::PerType(_) => join(key, g as u64),
                _ => key,
            };
            let bias = bias.map(|bias| {
                own.clear();
                own.extend(group.iter().map(|&p| bias[p as usize]));
                &own[..]
            });
            draw.draw(key, group.len(), k.map(|k| k as usize), bias, rule.replace);
            picked.extend(draw.picked.iter().map(|&p| group[p as usize]));
            match draw.factors.is_empty() {
                true => factors.resize(picked.len(), draw.factor),
                false => factors.extend(&draw.factors),
            }
        }
        // Their memory is used again for the next row.
        std::mem::swap(&mut draw.picked, &mut picked);
        std::mem::swap(&mut draw.factors, &mut factors);
        (self.picked, self.factors, self.bias) = (picked, factors, own);
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::{Block, Propagation};
    use crate::sample::{Compact, FanOut, Sampler};
    use crate::testing::{random_dataset, with_relations};
    use kernels::par::Par;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn typed(n: usize, edges: usize, relations: usize, seed: u64) -> Block {
        let data = with_relations(random_dataset(n, edges, 1, 2, false, seed), relations, seed);
        data.graph.propagation(Propagation::RelationMean)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn each_type_gives_its_number_and_a_relation_mean_stays_one(
            n in 1usize..120, degree in 0usize..12, each in prop::collection::vec(0u32..4, 1..5),
            replace: bool, biased: bool, seed: u64,
        ) {
            let graph = Arc::new(typed(n, n * degree, each.len(), seed));
            let (a, types) = (graph.csr(), graph.types().expect("typed"));
            let mut sampler = Sampler::new(Arc::clone(&graph), vec![FanOut::PerType(each.clone())], seed);
            if replace { sampler = sampler.with_replacement(); }
            if biased { sampler = sampler.with_bias(vec![2.5; a.n_edges()]).expect("one an edge"); }
            let seeds: Vec<u32> = (0..n as u32).rev().collect();
            let of = |threads| sampler.batch((1, 2), &seeds, &Par::new(threads), &mut Compact::default());
            let batch = of(1).expect("vertices");
            let b = batch.blocks[0].csr();
            let more = of(3).expect("vertices");
            prop_assert_eq!(b.indices, more.blocks[0].csr().indices);
            let drawn = batch.blocks[0].types().expect("typed");
            for (r, &v) in seeds.iter().enumerate() {
                let all = a.span(v as usize);
                for (t, &k) in each.iter().enumerate() {
                    let t = t as u16;
                    let sources = |a: kernels::Csr<'_>, span: std::ops::Range<usize>, types: &[u16], ids: Option<&[u32]>| -> Vec<u32> {
                        let of = span.filter(|&e| types[e] == t);
                        of.map(|e| ids.map_or(a.indices[e], |ids| ids[a.indices[e] as usize])).collect()
                    };
                    let there = sources(a, all.clone(), types, None);
                    let got = sources(b, b.span(r), drawn, Some(&batch.inputs));
                    let expected = match replace {
                        true if there.is_empty() => 0,
                        true => k as usize,
                        false => there.len().min(k as usize),
                    };
                    prop_assert_eq!(got.len(), expected);
                    prop_assert!(got.iter().all(|s| there.contains(s)));
                    // Weights of the whole are 1 / their number, so that those drawn sum to 1.
                    let sum: f32 = b.span(r).filter(|&e| drawn[e] == t).map(|e| b.weight(e)).sum();
                    if !biased && expected > 0 {
                        prop_assert!((sum - 1.0).abs() < 1e-5, "{}", sum);
                    }
                }
            }
        }
    }

    /// Each edge of a type comes as often as the others of its type.
    #[test]
    fn draws_of_a_type_are_uniform() {
        // One row with twelve edges: 7 of type 0, 5 of type 1.
        let types: Vec<u16> = (0..12).map(|e| u16::from(e % 5 > 2 || e == 11)).collect();
        let ones = types.iter().filter(|t| **t == 1).count();
        assert_eq!(ones, 5);
        let relations = crate::graph::Relations::new(types.clone(), 2).expect("two");
        let block = Block::new(1, 13, vec![0, 12], (1..13).collect(), None).expect("fits");
        let block = Arc::new(block.with_relations(relations).expect("one an edge"));
        let sampler = Sampler::new(block, vec![FanOut::PerType(vec![3, 2])], 5);
        let mut counts = [0u64; 12];
        for batch in 0..20_000 {
            let hop = sampler.draw(0, (0, batch), &[0], &Par::new(1));
            hop.sources
                .iter()
                .for_each(|&s| counts[s as usize - 1] += 1);
            let weights = hop.weights.expect("estimates");
            assert!(weights[..3].iter().all(|w| (w - 7.0 / 3.0).abs() < 1e-6));
            assert!(weights[3..].iter().all(|w| (w - 2.5).abs() < 1e-6));
        }
        for (t, share) in [(0, 3.0 / 7.0), (1, 0.4)] {
            let mean = 20_000.0 * share;
            let of = types.iter().zip(counts).filter(|(of, _)| **of == t);
            let sum: f64 = of.map(|(_, c)| (c as f64 - mean).powi(2) / mean).sum();
            // 0.1 % of independent counts have more than 22.5 with 6 degrees of freedom; these are drawn
            // without replacement and spread less.
            assert!(sum < 22.5, "{t}: {counts:?}");
        }
    }

    #[test]
    fn fan_outs_for_other_types_are_refused_with_words() {
        let par = Par::new(1);
        let graph = Arc::new(typed(10, 30, 3, 1));
        for each in [vec![1; 2], vec![1; 4]] {
            let sampler = Sampler::new(Arc::clone(&graph), vec![FanOut::PerType(each)], 1);
            let e = sampler.batch((0, 0), &[1], &par, &mut Compact::default());
            let e = e.expect_err("three types").to_string();
            assert!(e.contains("3 numbers"), "{e}");
        }
        let plain = Block::new(2, 2, vec![0, 1, 1], vec![1], None).expect("fits");
        let sampler = Sampler::new(Arc::new(plain), vec![FanOut::PerType(vec![])], 1);
        let e = sampler.batch((0, 0), &[0], &par, &mut Compact::default());
        let e = e.expect_err("no types").to_string();
        assert!(e.contains("edges with types"), "{e}");
    }
}
