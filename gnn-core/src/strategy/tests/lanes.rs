//! Strategies whose messages go from device to device, through the host's twin of NCCL. They catch rows that
//! take another way than where they are awaited, other sums, bytes that are counted otherwise, and memory
//! that is used while it is on its way. They cannot catch what GPUs and NCCL do beside each other.

use super::*;
use crate::backend::Cuda;
use crate::spec::{SumOrder, TransportKind};
use crate::strategy::find;
use crate::testing::shim;
use kernels::cuda::nccl;

/// Trains on devices of the host shim, by NCCL or through the host.
fn on_devices(
    entry: &Entry,
    spec: &RunSpec,
    data: &Arc<Dataset>,
    (owner, ranks): (&[u32], usize),
    transport: TransportKind,
) -> Vec<Trained> {
    let spec = RunSpec {
        backend: "cuda".into(),
        transport,
        ..spec.clone()
    };
    let open = |meter: Rc<Meter>| {
        let device = shim().expect("there before");
        Box::new(Metered::new(Cuda::new(device), meter)) as Box<dyn Backend>
    };
    train_on(
        entry,
        &spec,
        data,
        Some(owner.to_vec()),
        (ranks, EPOCHS),
        open,
    )
}

/// Rows of features lie on the device, or in the host's memory that it reads, and copies of others' beside them: what
/// a batch reads is put together there, and is what the processor reads, whoever draws. Attention reads rows, GraphSAGE sums and its own, after dropout rows.
#[test]
fn batches_are_put_together_on_the_device_as_on_the_host() {
    if shim().is_none() {
        return;
    }
    let data = Arc::new(random_dataset(40, 150, 6, 4, false, 5));
    let owner = random_owner(40, 2, true, 5);
    for (name, more) in [
        ("distdgl", &[("prefetch", 0)][..]),
        ("bytegnn", &[("grain", 2), ("sample_threads", 2)]),
        ("distgnn-mb", &[]),
    ] {
        let entry = find(name).expect("registered");
        for (model, dropout, cache) in [
            (ModelKind::Gat, 0.4, 6),
            (ModelKind::Sage, 0.0, 6),
            (ModelKind::Sage, 0.4, 0),
        ] {
            let mut pairs = spec(entry, model, 2, 8).to_pairs();
            pairs.retain(|(key, _)| !["fanout", "batch", "dropout"].contains(&key.as_str()));
            let mut set = |key: &str, value| pairs.push((key.into(), value));
            set("fanout", Value::Str("3,4".into()));
            set("batch", Value::Int(7));
            set("dropout", Value::Float(dropout));
            if name != "distgnn-mb" {
                set("cache", Value::Int(cache));
            }
            more.iter().for_each(|&(key, n)| set(key, Value::Int(n)));
            let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
            let what = format!("{name} {model}, dropout {dropout}, {cache} rows kept");
            let host = train(entry, &spec, &data, Some(owner.clone()), 2);
            for (draw_on, features_on) in [("host", "device"), ("device", "host")] {
                let mut spec = spec.clone();
                let word = |word: &str| Value::Str(word.into());
                spec.knobs.set("draw_on", word(draw_on));
                spec.knobs.set("features_on", word(features_on));
                let host_way = TransportKind::Host;
                let device = on_devices(entry, &spec, &data, (&owner, 2), host_way);
                let what = format!("{what}, drawn on {draw_on}, features on {features_on}");
                for (host, device) in host.iter().zip(&device) {
                    assert_eq!(host.losses.len(), device.losses.len(), "{what}");
                    for (a, b) in host.losses.iter().zip(&device.losses) {
                        assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "{what}: {a} {b}");
                    }
                    assert_eq!(host.sent, device.sent, "{what}");
                    assert_eq!(host.cached, device.cached, "{what}");
                }
            }
        }
    }
}

#[test]
fn from_device_to_device_all_is_as_through_the_host() {
    if shim().is_none() {
        return;
    }
    nccl::load_shim().expect("there is a compiler");
    let plain = Arc::new(random_dataset(40, 150, 6, 4, false, 5));
    let typed = Arc::new(with_relations(
        random_dataset(40, 150, 6, 4, false, 5),
        3,
        5,
    ));
    for entry in STRATEGIES {
        // The first model of each, attention, and relations, where it has them.
        let models: Vec<ModelKind> = coupled(entry).collect();
        let wanted = |(k, model): (usize, &ModelKind)| {
            (k == 0 || matches!(model, ModelKind::Gat | ModelKind::Rgcn)).then_some(*model)
        };
        for model in models.iter().enumerate().filter_map(wanted) {
            let data = if model == ModelKind::Rgcn {
                &typed
            } else {
                &plain
            };
            let spec = spec(entry, model, 2, 5);
            // A rank in the middle, where the strategy has three.
            let most = rank_counts(entry).filter(|&r| (2..=3).contains(&r)).max();
            if let Some(ranks) = most {
                let owner = random_owner(40, ranks, true, 5);
                let what = format!("{} {model} on {ranks} ranks", entry.name);
                let on = |transport| on_devices(entry, &spec, data, (&owner, ranks), transport);
                let (host, nccl) = (on(TransportKind::Host), on(TransportKind::Nccl));
                for (host, nccl) in host.iter().zip(&nccl) {
                    assert_eq!(host.losses, nccl.losses, "{what}");
                    assert!(host.gradients == nccl.gradients, "{what}");
                    assert!(host.logits == nccl.logits, "{what}");
                    assert_eq!(host.sent, nccl.sent, "{what}");
                    nccl.assert_predicted(&what);
                }
            }
        }
    }
}

/// One to four devices, rows from one to the other: every strategy trains what one processor trains.
#[test]
fn on_one_to_four_devices_every_strategy_equals_single() {
    if shim().is_none() {
        return;
    }
    nccl::load_shim().expect("there is a compiler");
    let data = Arc::new(random_dataset(40, 150, 6, 4, false, 5));
    for entry in STRATEGIES {
        let model = coupled(entry).next().expect("a model");
        let alone = train(
            &STRATEGIES[0],
            &spec(&STRATEGIES[0], model, 2, 5),
            &data,
            None,
            1,
        );
        for ranks in rank_counts(entry) {
            let owner = random_owner(40, ranks, false, 5);
            let spec = spec(entry, model, 2, 5);
            let got = on_devices(entry, &spec, &data, (&owner, ranks), TransportKind::Nccl);
            let what = format!("{} {model} on {ranks} device(s)", entry.name);
            assert_same(&what, model, &alone[0], &got);
        }
    }
}

/// The twin adds from the last rank to the first, so that its bits are others on three ranks.
#[test]
fn sums_in_nccls_own_order_are_the_same_up_to_rounding() {
    if shim().is_none() {
        return;
    }
    nccl::load_shim().expect("there is a compiler");
    let data = Arc::new(random_dataset(40, 150, 6, 4, false, 5));
    let owner = random_owner(40, 3, false, 5);
    let entry = find("halo").expect("registered");
    let on = |sums| {
        let spec = RunSpec {
            sums,
            ..spec(entry, ModelKind::Gcn, 2, 5)
        };
        on_devices(entry, &spec, &data, (&owner, 3), TransportKind::Nccl)
    };
    let (ordered, any) = (on(SumOrder::Ordered), on(SumOrder::Any));
    assert!(ordered[0].gradients != any[0].gradients, "other last bits");
    for (ordered, any) in ordered.iter().zip(&any) {
        for (a, b) in ordered.losses.iter().zip(&any.losses) {
            assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "{a} {b}");
        }
        assert_eq!(ordered.sent, any.sent);
        any.assert_predicted("sums in any order");
    }
}
