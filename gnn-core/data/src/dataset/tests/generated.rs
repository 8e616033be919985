//! Data sets without a file: against their definitions, and that they can be learned.

use super::*;

#[test]
fn unknown_names_are_helped() {
    let e = load("karrate", 0).unwrap_err();
    assert_eq!(
        e.to_string(),
        "unknown data set 'karrate'; did you mean 'karate'?"
    );
    let e = load("sbm:nodez=5", 0).unwrap_err();
    assert_eq!(
        e.to_string(),
        "unknown key of sbm 'nodez'; did you mean 'nodes'?"
    );
    assert!(
        load("sbm:nodes=-1", 0)
            .unwrap_err()
            .to_string()
            .contains("out of range")
    );
    assert!(
        load("sbm:nodes=1.5", 0)
            .unwrap_err()
            .help()
            .contains("a whole number from 1")
    );
    assert!(
        load("rmat:scale=x", 0)
            .unwrap_err()
            .to_string()
            .contains("expected a number, got 'x'")
    );
    assert!(
        load("sbm:nodes=5,nodes=6", 0)
            .unwrap_err()
            .to_string()
            .contains("given twice")
    );
    assert!(
        load("rmat:scale=30,edge-factor=100", 0)
            .unwrap_err()
            .to_string()
            .contains("too many")
    );
    assert!(
        load("sbm:train=0.9,val=0.2", 0)
            .unwrap_err()
            .to_string()
            .contains("more than 1")
    );
    assert!(load("karate:x=1", 0).is_err());
    assert!(matches!(load("./no/such/folder", 0), Err(Error::Io { .. })));
    for entry in catalogue() {
        load(entry.name, 1).expect("the catalogue's names can be loaded");
    }
}

#[test]
fn karate_is_zacharys() {
    let d = load("karate", 5).expect("built in");
    assert_eq!(
        (d.n(), d.graph.n_edges(), d.n_classes, d.synthetic),
        (34, 156, 4, false)
    );
    assert_eq!(
        (
            d.graph.in_degree(33),
            d.graph.in_degree(0),
            d.graph.in_degree(11)
        ),
        (17, 16, 1)
    );
    assert!(d.graph.is_symmetric());
    let count = |m: &[bool]| m.iter().filter(|&&x| x).count();
    assert_eq!((count(&d.train), count(&d.val) + count(&d.test)), (8, 26));
    for c in 0..4 {
        assert!((0..34).any(|v| d.test[v] && d.labels[v] == c));
    }
}

#[test]
fn generated_data_depends_on_the_seed_only() {
    for spec in ["sbm:nodes=500,feat=5", "rmat:scale=9,feat=5"] {
        let (a, b, c) = (
            load(spec, 1).expect("valid"),
            load(spec, 1).expect("valid"),
            load(spec, 2).expect("valid"),
        );
        assert_eq!(
            (&a.graph, &a.features, &a.labels, &a.train),
            (&b.graph, &b.features, &b.labels, &b.train)
        );
        assert_ne!(a.graph, c.graph);
        assert_ne!(a.labels, c.labels);
        assert!(a.synthetic && a.graph.is_symmetric());
        let shares =
            [&a.train, &a.val, &a.test].map(|m| m.iter().filter(|&&x| x).count() as f64 / 500.0);
        assert!(
            (shares[0] - 0.6).abs() < 0.08
                && (shares[1] - 0.2).abs() < 0.08
                && (shares[2] - 0.2).abs() < 0.08
        );
    }
}

#[test]
fn sbm_has_the_degree_and_homophily_asked_for() {
    let d = load("sbm:nodes=5000,classes=5,degree=12,homophily=0.7", 0).expect("valid");
    assert!((d.graph.n_edges() as f64 / 5000.0 - 12.0).abs() < 0.3);
    let same = (0..5000).map(|v| {
        d.graph
            .neighbours(v)
            .iter()
            .filter(|&&u| d.labels[u as usize] == d.labels[v])
            .count()
    });
    assert!((same.sum::<usize>() as f64 / d.graph.n_edges() as f64 - 0.7).abs() < 0.02);
}

#[test]
fn rmat_has_hubs_and_isolated_vertices() {
    let d = load("rmat:scale=12,edge-factor=8", 0).expect("valid");
    let degrees: Vec<usize> = (0..d.n()).map(|v| d.graph.in_degree(v)).collect();
    let mean = d.graph.n_edges() / d.n();
    assert!(degrees.iter().max().expect("vertices") > &(20 * mean) && degrees.contains(&0));
    let hub = degrees
        .iter()
        .position(|d| d == degrees.iter().max().expect("vertices"))
        .expect("it is there");
    assert_ne!(hub, 0, "ids are shuffled");
}

/// Share of test vertices that a linear softmax on `[x, mean of neighbours' x]` gets right.
fn linear_accuracy(d: &Dataset) -> f64 {
    use crate::graph::Propagation;
    use kernels::{Par, adam, gemm, loss, spmm};
    let Features::Dense(x) = &d.features else {
        panic!("generated features are dense")
    };
    let par = Par::new(2);
    let block = d.graph.propagation(Propagation::Mean);
    let mut mean = Mat::zeros(x.dim());
    spmm::spmm_into(&par, block.csr(), 0..d.n(), x, &mut mean);
    let both = Mat::from_shape_fn((d.n(), 2 * x.ncols()), |(v, c)| {
        if c < x.ncols() {
            x[[v, c]]
        } else {
            mean[[v, c - x.ncols()]]
        }
    });
    let mut w = Mat::zeros((both.ncols(), d.n_classes));
    let (mut logits, mut grad) = (
        Mat::zeros((d.n(), d.n_classes)),
        Mat::zeros((d.n(), d.n_classes)),
    );
    let (mut m, mut v, mut dw) = (vec![0.0; w.len()], vec![0.0; w.len()], w.clone());
    let params = adam::AdamParams {
        lr: 0.1,
        ..adam::AdamParams::default()
    };
    for t in 1..=60 {
        gemm::gemm_into(&par, false, false, &both, &w, 0.0, &mut logits);
        loss::softmax_xent(
            &par,
            &logits,
            &d.labels,
            &d.train,
            1.0 / d.n() as f32,
            &mut grad,
        );
        gemm::gemm_into(&par, true, false, &both, &grad, 0.0, &mut dw);
        let (w, g) = (
            w.as_slice_mut().expect("made here"),
            dw.as_slice().expect("made here"),
        );
        adam::adam_step(&par, params, t, w, g, &mut m, &mut v);
    }
    gemm::gemm_into(&par, false, false, &both, &w, 0.0, &mut logits);
    let (right, all) = loss::accuracy(&logits, &d.labels, &d.test);
    right as f64 / all as f64
}

#[test]
fn generated_labels_can_be_learned() {
    for spec in ["sbm:nodes=3000,classes=4", "rmat:scale=11,classes=4"] {
        let accuracy = linear_accuracy(&load(spec, 0).expect("valid"));
        assert!(accuracy > 0.7, "{spec}: {accuracy}");
    }
}
