//! Buffers against sets: what lies where while batches go by, by plain sets of vertices.

use super::*;
use crate::model::ModelKind;
use crate::rng;
use crate::testing::random_dataset;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const LADDER: [Dedup; 3] = [Dedup::None, Dedup::Peer, Dedup::Reuse];

/// A drawn number below `of` for each vertex.
fn drawn(n: usize, of: usize, seed: u64) -> Vec<u32> {
    (0..n)
        .map(|v| rng::below(seed, v as u64, of as u64) as u32)
        .collect()
}

/// `N_ij` as a set.
fn sources(levels: &TwoLevels<'_>, device: usize, batch: usize) -> BTreeSet<u32> {
    let mut all = BTreeSet::new();
    for v in 0..levels.device.len() {
        if (levels.device[v] as usize, levels.batch[v] as usize) == (device, batch) {
            all.extend(&levels.whole.indices[levels.whole.span(v)]);
            if levels.reads_own {
                all.insert(v as u32);
            }
        }
    }
    all
}

/// The buffers of all devices, while batches go by in an order: which vertex each place has.
struct Buffers<'a> {
    levels: TwoLevels<'a>,
    of: Vec<Batches>,
    at: Vec<BTreeMap<u32, u32>>,
    dedup: Dedup,
}

impl Buffers<'_> {
    /// Moves rows into a batch; `up` from the one before it, else from the one behind.
    fn enter(&mut self, j: usize, up: bool) {
        let moves = |batch: &Batch| -> (Vec<u32>, Vec<u32>) {
            let moves = if up { &batch.up } else { &batch.down };
            (moves.load.to_vec(), moves.load_at.to_vec())
        };
        let devices = self.levels.devices;
        for i in 0..devices {
            let (rows, places) = moves(&self.of[i].all[j]);
            assert_eq!(rows.len(), places.len());
            for (row, place) in rows.into_iter().zip(places) {
                self.at[i].insert(place, self.of[i].own[row as usize]);
            }
        }
        for to in 0..devices {
            for from in (0..devices).filter(|&from| from != to) {
                let sends = if up {
                    &self.of[from].all[j].up
                } else {
                    &self.of[from].all[j].down
                };
                let gets = if up {
                    &self.of[to].all[j].up
                } else {
                    &self.of[to].all[j].down
                };
                let (sent, at) = (&sends.send[to], &gets.fetch_at[from]);
                assert_eq!(sent.len(), at.len(), "both sides agree");
                for (&sent, &at) in sent.iter().zip(at.iter()) {
                    let v = match self.dedup {
                        Dedup::None => self.of[from].own[sent as usize],
                        _ => self.at[from][&sent],
                    };
                    self.at[to].insert(at, v);
                }
            }
        }
    }

    /// Asserts that every edge of a batch reads the vertex that it should.
    fn assert_read(&self, j: usize) {
        for (i, buffer) in self.at.iter().enumerate() {
            let batch = &self.of[i].all[j];
            let a = batch.edges.view();
            for (row, &v) in self.of[i].own[batch.own.clone()].iter().enumerate() {
                let near = a.indices[a.span(row)].iter().map(|place| buffer[place]);
                let want = self.levels.whole.span(v as usize);
                let want = self.levels.whole.indices[want].iter().copied();
                assert!(near.eq(want), "vertex {v} in batch {j}");
            }
            let columns = batch
                .columns
                .numbers
                .iter()
                .zip(batch.columns.places.iter());
            let read = sources(&self.levels, i, j);
            for (v, place) in columns.filter(|(v, _)| read.contains(v)) {
                assert_eq!(buffer[place], *v);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_edge_reads_its_source_both_ways(
        n in 1usize..60, degree in 0usize..6, devices in 1usize..5, batches in 1usize..7,
        reads_own: bool, seed: u64,
    ) {
        let data = random_dataset(n, n * degree, 2, 2, false, seed);
        let block = data.graph.propagation(ModelKind::Gcn.propagation());
        let (device, batch) = (drawn(n, devices, seed), drawn(n, batches, seed ^ 1));
        let levels = TwoLevels {
            whole: block.csr(),
            device: &device,
            batch: &batch,
            devices,
            batches,
            reads_own,
        };
        let all = |j: usize| -> BTreeSet<u32> {
            (0..devices).flat_map(|i| sources(&levels, i, j)).collect()
        };
        let count = |sets: Vec<usize>| sets.iter().sum::<usize>() as u64;
        let pairs = (0..devices).flat_map(|i| (0..batches).map(move |j| (i, j)));
        let original = count(pairs.map(|(i, j)| sources(&levels, i, j).len()).collect());
        let peer = count((0..batches).map(|j| all(j).len()).collect());
        let new = |j: usize| match j {
            0 => all(0).len(),
            _ => all(j).difference(&all(j - 1)).count(),
        };
        let reused = count((0..batches).map(new).collect());
        for dedup in LADDER {
            let of: Vec<Batches> = (0..devices).map(|i| Batches::new(&levels, i, dedup)).collect();
            for one in &of {
                let v = one.volumes;
                prop_assert_eq!((v.original, v.peer, v.reused), (original, peer, reused));
                // Nothing leaves a buffer and comes back to another place in it meanwhile.
                prop_assert!(one.places <= n);
            }
            let loaded: u64 = of.iter().map(|b| b.volumes.loaded).sum();
            let fetched: u64 = of.iter().map(|b| b.volumes.fetched).sum();
            match dedup {
                Dedup::None => prop_assert_eq!(loaded + fetched, original),
                Dedup::Peer => prop_assert_eq!(loaded, peer),
                Dedup::Reuse => prop_assert_eq!(loaded, reused),
            }
            let at = vec![BTreeMap::new(); devices];
            let mut buffers = Buffers { levels, of, at, dedup };
            for j in 0..batches {
                buffers.enter(j, true);
                buffers.assert_read(j);
            }
            buffers.at.iter_mut().for_each(BTreeMap::clear);
            for j in (0..batches).rev() {
                buffers.enter(j, false);
                buffers.assert_read(j);
            }
        }
    }

    /// Going back, each place is cleared for every stay of a row in it but that of the last batch, and what
    /// leaves is what entered forward.
    #[test]
    fn gradients_are_whole_when_they_leave(
        n in 1usize..40, degree in 0usize..5, devices in 1usize..4, batches in 1usize..6, seed: u64,
    ) {
        let data = random_dataset(n, n * degree, 2, 2, false, seed);
        let block = data.graph.propagation(ModelKind::Sage.propagation());
        let (device, batch) = (drawn(n, devices, seed), drawn(n, batches, seed ^ 1));
        let levels = TwoLevels {
            whole: block.csr(),
            device: &device,
            batch: &batch,
            devices,
            batches,
            reads_own: false,
        };
        let mut want = vec![0u64; n];
        block.csr().indices.iter().for_each(|&c| want[c as usize] += 1);
        for dedup in LADDER {
            prop_assert_eq!(&gathered(&levels, dedup, false), &want, "{:?}", dedup);
        }
    }
}

/// Algorithm 1's order, in which Algorithm 3 spills what the batch before has not yet added to.
#[test]
fn going_back_in_ascending_order_loses_gradients() {
    let data = random_dataset(40, 200, 2, 2, false, 7);
    let block = data.graph.propagation(ModelKind::Sage.propagation());
    let (device, batch) = (drawn(40, 2, 7), drawn(40, 4, 8));
    let levels = TwoLevels {
        whole: block.csr(),
        device: &device,
        batch: &batch,
        devices: 2,
        batches: 4,
        reads_own: false,
    };
    let mut want = vec![0u64; 40];
    let read = block.csr().indices;
    read.iter().for_each(|&c| want[c as usize] += 1);
    let lost = |dedup, ascending| {
        let got = gathered(&levels, dedup, ascending);
        got.iter()
            .zip(&want)
            .filter(|(got, want)| got < want)
            .count()
    };
    assert_eq!(lost(Dedup::Reuse, false), 0);
    assert!(lost(Dedup::Reuse, true) > 0);
}

/// How often each vertex is read, counted as gradients are: into places, cleared and spilled.
fn gathered(levels: &TwoLevels<'_>, dedup: Dedup, ascending: bool) -> Vec<u64> {
    let devices = levels.devices;
    let of: Vec<Batches> = (0..devices)
        .map(|i| Batches::new(levels, i, dedup))
        .collect();
    let mut host = vec![0u64; levels.device.len()];
    let mut buffer: Vec<Vec<u64>> = of.iter().map(|b| vec![0; b.places]).collect();
    let mut order: Vec<usize> = (0..levels.batches).collect();
    if !ascending {
        order.reverse();
    }
    for j in order {
        for (i, one) in of.iter().enumerate() {
            let batch = &one.all[j];
            batch.clear.iter().for_each(|&p| buffer[i][p as usize] = 0);
            let read = batch.edges.view().indices;
            read.iter().for_each(|&p| buffer[i][p as usize] += 1);
        }
        for from in 0..devices {
            for to in (0..devices).filter(|&to| to != from) {
                let places = of[from].all[j].up.fetch_at[to].iter();
                for (&p, &row) in places.zip(of[to].all[j].up.send[from].iter()) {
                    let g = buffer[from][p as usize];
                    match dedup {
                        Dedup::None => host[of[to].own[row as usize] as usize] += g,
                        _ => buffer[to][row as usize] += g,
                    }
                }
            }
        }
        for (i, one) in of.iter().enumerate() {
            let up = &one.all[j].up;
            for (&row, &p) in up.load.iter().zip(up.load_at.iter()) {
                host[one.own[row as usize] as usize] += buffer[i][p as usize];
            }
        }
    }
    host
}
