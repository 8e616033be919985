//! What is exact is held against the lists themselves; what has no formula is not guessed.

use super::*;
use crate::feed::{Cache, Halo, Room, RowData, SeedsBy, Turn};
use crate::sample::FanOut;
use crate::spec::{RunSpec, Value};
use crate::strategy::mini_batch::Settings;
use crate::strategy::mini_batch::settings::{
    CacheBy, CacheSettings, DeviceSettings, FeaturesOn, LinkSettings, NeighbourSettings,
};
use crate::testing::{random_dataset, world};
use std::sync::Arc;

fn settings(workers: usize) -> Settings {
    Settings {
        trainers: 1,
        neighbours: NeighbourSettings {
            fan_outs: vec![FanOut::Of(3), FanOut::Of(4)],
            batch: 20,
            replace: false,
            by_degree: false,
            rule: None,
        },
        links: LinkSettings {
            in_batch: false,
            exclude: false,
        },
        cache: CacheSettings {
            room: Room::Rows(50),
            by: CacheBy::Degree,
        },
        seeds: SeedsBy::Share,
        halo: Halo::Drawn,
        workers,
        background: true,
        ahead: 4,
        room: None,
        grain: usize::MAX,
        turn: Turn::Arrival,
        device: DeviceSettings {
            draws: false,
            features: FeaturesOn::Auto,
        },
        learning: None,
        least: 8,
        delays: None,
    }
}

#[test]
fn what_is_exact_is_what_lists_and_tables_hold() {
    let data = Arc::new(random_dataset(300, 1500, 6, 3, false, 5));
    for (model, ranks) in [("gcn", 1), ("sage", 1), ("gcn", 3), ("sage", 2)] {
        let pairs = [("strategy", "distdgl"), ("model", model), ("dropout", "0")];
        let pairs = pairs.map(|(k, v)| (k, Value::from_word(v)));
        let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
        let owner: Vec<u32> = (0..300).map(|v| v * 7 % ranks).collect();
        let all = world(&spec, ranks as usize, |cx, _| {
            let setup = Setup::of(
                Arc::clone(&data),
                (ranks > 1).then(|| Arc::new(owner.clone())),
            );
            let base = Base::of(&setup, cx, settings(2)).expect("a valid cut");
            let foreseen = Foreseen::of(&setup, cx, &base).expect("has a formula");
            let (part, seeds) = (&base.part, &base.training.seeds);
            let lists = part.block.bytes()
                + 4 * part.column_ids.len()
                + if ranks > 1 { 4 * part.columns.len() } else { 0 }
                + 4 * base.pieces.kept.len()
                + (4 + 4 + 4 + 3) * part.own.len()
                + (4 + 4 + 4 + 3 + 2 * 4) * seeds.mine().len();
            assert_eq!(foreseen.graph, lists, "{model:?}", model = spec.model);
            assert_eq!(foreseen.numbering, 300 * (4 + 3 * 8) + 2 * 300 / 8);
            let parameters: usize = base.model.weights.iter().flatten().map(|w| w.len()).sum();
            assert_eq!(foreseen.parameters, 4 * 4 * parameters);
            let hot = if ranks > 1 { 50 } else { 0 };
            let x = kernels::Mat::zeros((hot as usize, 6));
            let kept = RowData::Dense(Arc::new(x));
            let cache = Cache::of(&(0..hot).collect::<Vec<_>>(), kept);
            assert_eq!(foreseen.cache, if hot > 0 { cache.bytes() } else { 0 });
            let numbers = part.block.n_edges() * 8 + (part.own.len() + 1) * 8;
            assert_eq!(part.block.bytes(), numbers, "an index and a weight an edge");
            (part.own.len(), part.block.n_edges(), foreseen.features)
        });
        let sum = all
            .iter()
            .fold((0, 0, 0), |s, r| (s.0 + r.0, s.1 + r.1, s.2 + r.2));
        let whole = data.graph.propagation(spec.model.propagation());
        assert_eq!(sum, (300, whole.n_edges(), data.features.bytes()));
    }
}

#[test]
fn what_has_no_formula_is_not_guessed() {
    let sparse = random_dataset(40, 100, 6, 3, true, 5);
    let dense = random_dataset(40, 100, 6, 3, false, 5);
    for (model, data) in [("gat", dense.clone()), ("rgcn", dense), ("gcn", sparse)] {
        let data = Arc::new(data);
        let pairs = [("strategy", "distdgl"), ("model", model)];
        let pairs = pairs.map(|(k, v)| (k, Value::from_word(v)));
        let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
        let said = world(&spec, 1, |cx, _| {
            let data = Arc::clone(&data);
            let build = crate::strategy::find("distdgl").expect("registered").build;
            let built = build(Setup::of(data, None), cx).expect("builds");
            built.facts.memory
        });
        assert_eq!(said, [None], "{model}");
    }
}
