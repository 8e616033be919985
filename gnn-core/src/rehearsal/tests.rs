//! A rehearsal against the run: bytes by lane, edges, and matrices that exist at once.
//!
//! Can catch: a strategy that sends something else when nothing is computed, a backend call whose
//! buffers the books forget. Cannot catch: memory that no backend holds.

use super::*;
use crate::spec::Value;
use crate::strategy::STRATEGIES;
use crate::testing::{random_dataset, world};

fn plan(pairs: &[(&str, &str)]) -> Plan {
    let pairs = pairs.iter().map(|(k, v)| (*k, Value::from_word(v)));
    Plan::in_threads(RunSpec::from_pairs(pairs).expect("a request"))
}

fn owner(n: usize, ranks: usize) -> Arc<Vec<u32>> {
    Arc::new((0..n).map(|v| (v * 7 % ranks) as u32).collect())
}

/// Traffic and work of the first epoch on the host, and the most bytes of matrices of two epochs.
fn trained(plan: &Plan, setup: &Setup) -> Vec<(BTreeMap<Lane, Traffic>, Work, u64)> {
    world(&plan.spec, plan.spec.ranks, |cx, meter| {
        let entry = find_in(STRATEGIES, &plan.spec.strategy).expect("registered");
        cx.pass(Pass::Setup);
        let mut built = (entry.build)(setup.clone(), cx).expect("builds");
        meter.take_traffic();
        meter.take_times();
        built.strategy.epoch(cx).expect("trains");
        let (sent, (_, work)) = (meter.take_traffic(), meter.take_times());
        evaluate(cx, built.strategy.as_mut(), &built.rows).expect("evaluates");
        cx.epoch = 1;
        built.strategy.epoch(cx).expect("trains");
        cx.comm.drain().expect("nothing is left");
        (sent, work, meter.most_held())
    })
}

#[test]
fn every_strategy_sends_and_computes_what_it_rehearsed() {
    let all_forms = STRATEGIES.iter().map(|entry| (entry, None));
    let forms = [("groups", "1"), ("groups", "2"), ("interleave", "2")];
    let pipelines = forms.map(|form| (find_in(STRATEGIES, "gnnpipe").expect("there"), Some(form)));
    for (entry, form) in all_forms.chain(pipelines) {
        let counts = if form.is_some() { [2, 4] } else { [1, 3] };
        for ranks in counts {
            if ranks > entry.ranks.1 {
                continue;
            }
            let ranks_text = ranks.to_string();
            let mut pairs = vec![
                ("strategy", entry.name),
                ("ranks", ranks_text.as_str()),
                ("dropout", "0.5"),
                ("epochs", "2"),
            ];
            if let Some(form) = form {
                pairs.extend([form, ("layers", "8"), ("chunks", "5"), ("freeze", "3")]);
            }
            let plan = plan(&pairs);
            let data = Arc::new(random_dataset(300, 1500, 12, 4, false, 3));
            let parts = entry.cut_into(&plan.spec);
            let setup = Setup {
                data,
                owner: parts.map(|parts| owner(300, parts.count)),
                nested: parts
                    .filter(|parts| parts.nested.count() > 1)
                    .map(|parts| owner(300, parts.nested.count())),
            };
            let all = rehearse(&plan, setup.clone(), STRATEGIES).expect("rehearses");
            let real = trained(&plan, &setup);
            for (rank, (seen, (sent, work, most))) in all.iter().zip(real).enumerate() {
                let what = format!("{} on {ranks}, rank {rank}", entry.name);
                assert_eq!(seen.sent, sent, "{what}");
                assert_eq!(seen.work, work, "{what}");
                let Some(memory) = seen.memory else {
                    continue;
                };
                if entry.background {
                    continue;
                }
                let matrices = memory.features + memory.activations + memory.halo + memory.history;
                let held = (matrices + memory.parameters) as f64;
                // The pool keeps more than exists at once.
                assert!(held >= 0.98 * most as f64, "{what}: {held} of {most}");
                assert!(held < 2.5 * most as f64, "{what}: {held} of {most}");
            }
        }
    }
}

#[test]
fn parts_of_memory_are_what_they_are_called() {
    let plan = plan(&[("strategy", "halo"), ("ranks", "2"), ("dropout", "0")]);
    let data = Arc::new(random_dataset(200, 900, 10, 3, false, 4));
    let owner = owner(200, 2);
    let all = rehearse(&plan, Setup::of(data, Some(owner)), STRATEGIES).expect("rehearses");
    for rank in &all {
        let memory = rank.memory.expect("full-graph training is known");
        let own = rank.facts.owned_nodes as usize;
        assert_eq!(memory.features, own * 10 * 4);
        let weights = 10 * 16 + 16 + 16 * 3 + 3;
        assert_eq!(memory.parameters, 4 * 4 * weights);
        assert!(memory.halo > 0 && memory.activations > own * 16 * 4);
        assert!(memory.graph > 0 && rank.setup > memory.graph);
        assert!(rank.asked.flops > 0.0 && rank.bytes() > 0 && rank.messages() > 0);
    }
}

/// Versions of historical rows, made before the first epoch, are no features; and each of two stages has
/// half of the layers' activations, beside the whole rows that evaluation has of a layer or two.
#[test]
fn a_stage_has_its_part_of_the_activations_and_its_history() {
    let chunked = [("layers", "8"), ("chunks", "5"), ("hidden", "10")];
    let of = |strategy, ranks, more: &[(&str, &str)]| {
        let own = [("strategy", strategy), ("ranks", ranks), ("dropout", "0")];
        let plan = plan(&[&own, &chunked[..1], &chunked[2..], more].concat());
        let data = Arc::new(random_dataset(4096, 9000, 10, 3, false, 4));
        let owner = (!more.is_empty()).then(|| owner(4096, 5));
        let all = rehearse(&plan, Setup::of(data, owner), STRATEGIES).expect("rehearses");
        let memory = |rank: &Rehearsed| rank.memory.expect("full-graph training is known");
        all.iter().map(memory).collect::<Vec<_>>()
    };
    let single = of("single", "1", &[])[0];
    let stages = of("gnnpipe", "2", &chunked[1..2]);
    let row = 4096 * 10 * 4;
    assert_eq!([stages[0].features, stages[1].features], [row, 0]);
    // Three layers of the first stage, and four, read rows that are kept twice, with their gradients.
    assert_eq!(
        [stages[0].history, stages[1].history],
        [3 * 3 * row, 4 * 3 * row]
    );
    for stage in stages {
        let half = 0.5 * single.activations as f64;
        let got = stage.activations as f64;
        assert!(got < half + 6.0 * row as f64, "{got}, half is {half}");
    }
}

#[test]
fn models_and_tasks_are_rehearsed() {
    let sparse = random_dataset(80, 300, 9, 3, true, 5);
    let dense = random_dataset(80, 300, 9, 3, false, 5);
    for model in ["sage", "gat", "gin", "gcnii"] {
        for data in [&sparse, &dense] {
            let plan = plan(&[("strategy", "halo"), ("ranks", "2"), ("model", model)]);
            let data = Arc::new(data.clone());
            let owner = Some(owner(80, 2));
            let setup = Setup::of(data, owner);
            let all = rehearse(&plan, setup.clone(), STRATEGIES).expect("rehearses");
            let real = trained(&plan, &setup);
            for (seen, (sent, work, _)) in all.iter().zip(real) {
                assert_eq!((&seen.sent, seen.work), (&sent, work), "{model}");
            }
        }
    }
}

/// What a rehearsal says of a device with a budget is what the run has there, for models whose edges have
/// values of their own too.
#[test]
fn bytes_on_a_device_with_a_budget_are_foreseen() {
    let data = Arc::new(random_dataset(200, 900, 10, 6, false, 4));
    for (model, decoupled) in [("gcn", "false"), ("sage", "true"), ("gat", "true")] {
        let pairs = [
            ("strategy", "neutrontp"),
            ("ranks", "2"),
            ("model", model),
            ("decoupled", decoupled),
            ("device_mem", "6000"),
        ];
        let plan = plan(&pairs);
        let all =
            rehearse(&plan, Setup::of(Arc::clone(&data), None), STRATEGIES).expect("rehearses");
        let entry = find_in(STRATEGIES, "neutrontp").expect("registered");
        let real = world(&plan.spec, 2, |cx, meter| {
            let setup = Setup::of(Arc::clone(&data), None);
            let mut built = (entry.build)(setup, cx).expect("builds");
            for epoch in 0..2 {
                cx.epoch = epoch;
                built.strategy.epoch(cx).expect("trains");
            }
            meter.most_on_device()
        });
        for (seen, real) in all.iter().zip(real) {
            assert_eq!(seen.device, real, "{model}");
            assert!(real.is_some_and(|bytes| bytes <= 6000), "{model}");
        }
    }
    let none = plan(&[("strategy", "neutrontp"), ("ranks", "2")]);
    let all = rehearse(&none, Setup::of(data, None), STRATEGIES).expect("rehearses");
    assert!(all.iter().all(|seen| seen.device.is_none()));
}
