//! The closed forms of what full-graph strategies send.

use super::{Trained, random_owner, spec, train};
use crate::dataset::Dataset;
use crate::model::ModelKind;
use crate::partition;
use crate::record::Direction;
use crate::spec::RunSpec;
use crate::strategy::find;
use crate::testing::{random_dataset, with_relations};
use std::sync::Arc;

/// Layer, and the widths that travel forward and backward.
type Travelling = [(u16, u64, u64); 2];

/// Of two layers of 8 between 6 features and 3 classes. The first layer's input needs no gradient.
fn travelling(model: ModelKind) -> Travelling {
    match model {
        // 6 to 8 aggregates first; 8 to 3 aggregates last.
        ModelKind::Gcn | ModelKind::Sage => [(0, 6, 0), (1, 3, 3)],
        // What is narrower of the input and the hidden layer of the MLP, which is 8 wide.
        ModelKind::Gin => [(0, 6, 0), (1, 8, 8)],
        // Eight heads of 8, then one of 3; projected rows travel.
        ModelKind::Gat => [(0, 64, 64), (1, 3, 3)],
        // As GCN where there is one relation.
        ModelKind::Rgcn => [(0, 6, 0), (1, 3, 3)],
        // Between two dense layers.
        ModelKind::Gcnii | ModelKind::Resgcn => [(1, 8, 8), (2, 8, 8)],
    }
}

/// The closed form of SYSTEMS: each way and layer `4 · width · Σ_i |B_i|`, with the boundary sets
/// counted here from the graph alone, for every partitioner.
#[test]
fn halo_bytes_equal_the_closed_form_for_every_partitioner() {
    let data = Arc::new(random_dataset(90, 400, 6, 3, false, 4));
    let entry = find("halo").expect("registered");
    for &model in entry.models {
        let spec = spec(entry, model, 2, 8);
        assert_halo(&spec, &data, travelling(model));
    }
}

/// The narrower of the input and of all relations' or bases' products travels, whichever it is in each
/// of two layers of 9 between 6 features and 3 classes; products of sparse features always, whose
/// gradients come back.
#[test]
fn of_several_relations_the_narrower_side_travels() {
    let dense = random_dataset(90, 400, 6, 3, false, 4);
    let sparse = random_dataset(90, 400, 6, 3, true, 4);
    let cases = [
        (&dense, 2, 0, [(0, 6, 0), (1, 6, 6)]),
        (&dense, 5, 0, [(0, 6, 0), (1, 9, 9)]),
        (&dense, 5, 2, [(0, 6, 0), (1, 6, 6)]),
        (&dense, 5, 4, [(0, 6, 0), (1, 9, 9)]),
        (&sparse, 5, 0, [(0, 45, 45), (1, 9, 9)]),
        (&sparse, 5, 2, [(0, 18, 18), (1, 6, 6)]),
    ];
    let entry = find("halo").expect("registered");
    for (data, relations, bases, widths) in cases {
        let data = Arc::new(with_relations(data.clone(), relations, 3));
        let mut spec = spec(entry, ModelKind::Rgcn, 2, 9);
        spec.bases = bases;
        assert_halo(&spec, &data, widths);
    }
}

/// Asserts what `halo` sends, for every partitioner.
fn assert_halo(spec: &RunSpec, data: &Arc<Dataset>, widths: Travelling) {
    let entry = find("halo").expect("registered");
    let block = data.graph.propagation(spec.model.propagation());
    for partitioner in partition::PARTITIONERS {
        for ranks in 2..=4 {
            let method = partition::Method::parse(partitioner.name).expect("registered");
            let request = partition::Request::of(method, data, ranks, 1);
            let owner = request.assign().expect("assigns");
            let mut boundary = std::collections::BTreeSet::new();
            for v in 0..block.n_dst {
                for &s in &block.csr().indices[block.csr().span(v)] {
                    if owner[s as usize] != owner[v] {
                        boundary.insert((owner[v], s));
                    }
                }
            }
            let trained = train(entry, spec, data, Some(owner), ranks);
            trained
                .iter()
                .for_each(|r| r.assert_predicted(&format!("{spec:?}")));
            assert_travelled(spec.model, widths, &trained, boundary.len() as u64);
        }
    }
}

/// Asserts that in the first epoch `rows` rows travelled each way and layer, all ranks together, and that
/// the last epoch counts those of both layers as fresh.
fn assert_travelled(model: ModelKind, widths: Travelling, trained: &[Trained], rows: u64) {
    let sent = |layer: u16, direction: Direction| -> u64 {
        let lanes = trained.iter().flat_map(|r| &r.sent[0]);
        lanes
            .filter(|(lane, _)| (lane.0, lane.1) == (layer, direction))
            .map(|(_, b)| b)
            .sum()
    };
    let read = trained.iter().map(|r| r.work.halo_fresh).sum::<u64>();
    assert_eq!(read, 2 * rows, "{model}");
    assert!(trained.iter().all(|r| r.work.halo_reused == 0), "{model}");
    for (layer, forward, backward) in widths {
        let both = [
            (Direction::Forward, forward),
            (Direction::Backward, backward),
        ];
        for (direction, width) in both {
            assert_eq!(sent(layer, direction), 4 * width * rows, "{model}");
        }
    }
}

/// Blocks of more than 8 kB go around the ring: a rank sends to the next alone, all but what that one owns.
#[test]
fn long_broadcasts_leave_every_rank_once() {
    let (n, ranks) = (900, 4);
    let data = Arc::new(random_dataset(n, 2000, 20, 16, false, 4));
    let entry = find("broadcast").expect("registered");
    let owner = random_owner(n, ranks, false, 5);
    let rows = |rank| owner.iter().filter(|&&r| r == rank as u32).count();
    let spec = spec(entry, ModelKind::Gcn, 2, 18);
    let trained = train(entry, &spec, &data, Some(owner.clone()), ranks);
    for (rank, one) in trained.iter().enumerate() {
        let next = (rank + 1) % ranks;
        for (layer, direction, width) in [
            (0, Direction::Forward, 18),
            (1, Direction::Forward, 16),
            (1, Direction::Backward, 16),
        ] {
            let of = |(lane, bytes): (&(u16, Direction, u32), &u64)| {
                ((lane.0, lane.1) == (layer, direction)).then_some((lane.2 as usize, *bytes))
            };
            let sent: Vec<(usize, u64)> = one.sent[0].iter().filter_map(of).collect();
            assert_eq!(sent, [(next, (4 * width * (n - rows(next))) as u64)]);
        }
    }
}

/// The closed form of CAGNET 1D: each way and layer `4 · width · Σ_j (N − 1) · |V_j|`, whoever owns
/// what, a rank without rows included.
#[test]
fn broadcast_bytes_equal_the_closed_form() {
    let n = 90;
    let data = Arc::new(random_dataset(n, 400, 6, 3, false, 4));
    let entry = find("broadcast").expect("registered");
    for &model in entry.models {
        let spec = spec(entry, model, 2, 8);
        for ranks in 1..=4 {
            for empty in [false, true] {
                let owner = random_owner(n, ranks, empty, 5);
                let trained = train(entry, &spec, &data, Some(owner), ranks);
                let rows = ((ranks - 1) * n) as u64;
                assert_travelled(model, travelling(model), &trained, rows);
            }
        }
    }
}
