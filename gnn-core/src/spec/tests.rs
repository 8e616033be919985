//! Requests out of pairs, and back.

use super::*;
use crate::partition::Method;
use crate::strategy::STRATEGIES;

#[test]
fn a_spec_survives_a_round_trip() {
    let pairs = [
        ("data", Value::Str("sbm:nodes=50".into())),
        ("ranks", Value::Int(3)),
        ("strategy", Value::Str("halo".into())),
        ("lr", Value::Float(0.2)),
        ("feature-norm", Value::Str("row".into())),
    ];
    let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
    assert_eq!(spec.ranks, 3);
    let again = RunSpec::from_pairs(spec.to_pairs()).expect("own pairs are valid");
    assert_eq!(spec, again);
}

#[test]
fn a_misspelt_key_names_the_nearest_one() {
    let err = RunSpec::from_pairs([("epoch", Value::Int(3))]).unwrap_err();
    assert!(err.to_string().contains("epochs"), "{err}");
}

#[test]
fn values_of_the_wrong_type_or_range_are_refused() {
    for (key, value) in [
        ("epochs", Value::Str("many".into())),
        ("dropout", Value::Float(1.0)),
        ("layers", Value::Int(0)),
        ("layers", Value::Int(1000)),
        ("lr", Value::Float(f64::NAN)),
        ("ranks", Value::Int(-1)),
        ("model", Value::Str("gnc".into())),
    ] {
        assert!(
            RunSpec::from_pairs([(key, value.clone())]).is_err(),
            "{key} = {value}"
        );
    }
}

#[test]
fn a_strategy_has_its_own_cut_unless_the_request_names_one() {
    let cut = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(k, v)| (*k, Value::from_word(v)));
        let spec = RunSpec::from_pairs(pairs).expect("known names");
        assert_eq!(RunSpec::from_pairs(spec.to_pairs()).expect("its own"), spec);
        spec.partition
    };
    let balanced = "metis:balance=train+edges";
    assert_eq!(cut(&[]), "metis");
    assert_eq!(cut(&[]), RunSpec::default().partition);
    assert_eq!(cut(&[("strategy", "halo")]), "metis");
    assert_eq!(cut(&[("strategy", "distdgl")]), balanced);
    let auto = [("partition", "auto"), ("strategy", "distdgl")];
    assert_eq!(cut(&auto), balanced);
    for method in ["metis", "random", "metis:slack=0.1"] {
        assert_eq!(
            cut(&[("strategy", "distdgl"), ("partition", method)]),
            method
        );
    }
    for entry in STRATEGIES {
        assert!(Method::parse(entry.partition).is_ok(), "{}", entry.name);
    }
}
