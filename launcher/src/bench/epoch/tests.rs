use super::*;

fn python(torch: &str, pyg: Option<&str>, dgl: Option<&str>) -> Python {
    Python {
        path: "/nowhere/python".into(),
        torch: torch.into(),
        pyg: pyg.map(str::to_owned),
        dgl: dgl.map(str::to_owned),
    }
}

fn spec(model: &str) -> RunSpec {
    let pairs = [
        ("model", model),
        ("dropout", "0.0"),
        ("weight_decay", "0.0"),
        ("attention_dropout", "0.0"),
    ];
    let value = |v: &str| gnn_core::spec::Value::from_word(v);
    RunSpec::from_pairs(pairs.map(|(k, v)| (k, value(v)))).expect("a request")
}

fn request(model: &str, pythons: Vec<Python>) -> Request {
    Request {
        spec: spec(model),
        rounds: 1,
        seconds: 1.0,
        patience: Duration::ZERO,
        pythons,
    }
}

#[test]
fn each_library_comes_from_the_python_that_has_its_newest() {
    let pythons = [
        python("2.2.1", Some("2.5.3"), Some("2.1.0")),
        python("2.15.0", Some("2.8.1"), None),
    ];
    let forms = forms(&spec("gcn"), &pythons);
    let versions: Vec<(&str, &str)> = forms.iter().map(|f| (f.name, &*f.version)).collect();
    assert_eq!(versions[2], ("dgl", "DGL 2.1.0, torch 2.2.1"));
    assert_eq!(versions[4], ("pyg-csr", "PyG 2.8.1, torch 2.15.0"));
    assert_eq!(versions[6], ("tuned-pre", "torch 2.15.0"));
    assert_eq!(forms.len(), 7);
    let alone = super::forms(&spec("sage"), &[]);
    assert_eq!(alone.len(), 2, "ours in both settings");
    let attention: Vec<&str> = super::forms(&spec("gat"), &pythons)
        .iter()
        .map(|f| f.name)
        .collect();
    assert_eq!(attention, ["halobook", "dgl", "pyg-mp", "tuned"]);
    assert!(check(&request("gat", pythons.to_vec())).is_ok());
    let error = check(&request("gin", pythons.to_vec())).expect_err("no form");
    assert!(error.to_string().contains("gin"), "{error}");
}

#[test]
fn mini_batches_are_compared_with_mini_batches() {
    let pythons = [python("2.2.1", Some("2.5.3"), Some("2.1.0"))];
    let drawing = |set: &[(&str, &str)]| {
        let pairs = [("strategy", "distdgl"), ("dropout", "0"), ("layers", "3")];
        let pairs = pairs.iter().chain(set);
        let value = |v: &str| gnn_core::spec::Value::from_word(v);
        RunSpec::from_pairs(pairs.map(|&(k, v)| (k, value(v)))).expect("a request")
    };
    let of = |spec: &RunSpec| drawn(spec).map(|drawn| drawn.map_err(|e| e.to_string()));
    assert_eq!(
        of(&drawing(&[("fanout", "5"), ("batch", "100")])),
        Some(Ok((vec![5; 3], 100)))
    );
    let by_layer = drawing(&[("fanout", "15,10,5")]);
    assert_eq!(of(&by_layer), Some(Ok((vec![15, 10, 5], 1000))));
    assert_eq!(of(&spec("sage")), None, "the full graph");
    for wrong in [("fanout", "all"), ("replace", "true"), ("bias", "degree")] {
        let refused = of(&drawing(&[("batch", "100"), wrong]));
        assert!(refused.is_some_and(|r| r.is_err()), "{wrong:?}");
    }
    let names: Vec<&str> = forms(&by_layer, &pythons).iter().map(|f| f.name).collect();
    let theirs = [
        "dgl-plain",
        "dgl-graphbolt",
        "dgl-graphbolt-ahead",
        "pyg-sample",
    ];
    assert_eq!(names[0], "halobook");
    assert_eq!(names[1..], theirs);
}

#[test]
fn ratios_compare_form_with_form_and_the_fastest_of_a_kind() {
    let mut forms = forms(&spec("gcn"), &[python("2.2.1", Some("2.5"), Some("2.1"))]);
    for (form, ms) in forms
        .iter_mut()
        .zip([10.0, 5.0, 40.0, 20.0, 30.0, 15.0, 8.0])
    {
        form.rounds = vec![vec![ms, ms], vec![ms]];
        form.peak_bytes = ms as u64;
    }
    let mut outcome = Outcome {
        spec: spec("gcn"),
        size: [1; 4],
        threads: 1,
        planned: None,
        forms,
        interrupted: false,
    };
    let speeds = |outcome: &Outcome| -> Vec<(&str, &str, f64)> {
        let short = |r: &Ratio| (r.ours, r.theirs, r.speed);
        outcome.ratios().iter().map(short).collect()
    };
    let want = [
        ("halobook", "pyg-csr", 3.0),
        ("halobook", "tuned", 1.5),
        ("halobook-once", "dgl-pre", 4.0),
        ("halobook-once", "tuned-pre", 1.6),
    ];
    assert_eq!(speeds(&outcome), want);
    assert_eq!(outcome.ratios()[1].memory, 10.0 / 15.0);
    outcome.forms[4].failure = Some("out of memory".into());
    assert_eq!(speeds(&outcome)[0], ("halobook", "dgl", 4.0));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let some = || vec![python("2.2.1", None, None)];
    let mut with_dropout = request("gcn", some());
    with_dropout.spec.dropout = 0.5;
    let error = check(&with_dropout).expect_err("dropout").to_string();
    assert!(error.contains("without dropout"), "{error}");
    let mut many = request("gcn", some());
    many.spec.ranks = 2;
    assert!(check(&many).is_err());
    many.pythons.clear();
    assert!(check(&many).is_ok(), "alone, anything that runs is timed");
}

#[test]
fn a_form_that_trains_differently_with_one_aggregate_is_wrong() {
    let mut forms = forms(&spec("gcn"), &[]);
    forms[0].losses = (3.0, 1.0);
    forms[1].losses = (3.0, 1.0005);
    same_answers(&mut forms);
    assert!(forms[1].failure.is_none());
    forms[1].losses.1 = 1.1;
    same_answers(&mut forms);
    assert!(
        forms[1]
            .failure
            .as_deref()
            .is_some_and(|f| f.contains("1.1"))
    );
}

#[test]
fn a_loss_that_is_no_number_fails_the_form() {
    let mut form = Form::new("halobook", Kind::Ours, false, String::new());
    assert!(!form.take_ours(None), "interrupted");
    let epochs = Epochs {
        ms: vec![1.0],
        phases: vec![[1.0; PHASES.len()]],
        losses: (2.0, f64::NAN),
        peak_bytes: 5,
    };
    assert!(form.take_ours(Some(epochs)));
    assert!(form.failure.is_some() && form.spread().is_none());
    assert_eq!(form.phase_medians(), [1.0; PHASES.len()]);
}
