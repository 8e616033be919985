//! Attention of several heads: that of `single` whatever slices the columns are cut into, in the bytes of
//! the closed form. Cannot catch: an error that `single` has too (`model/tests.rs` does).

use super::*;

/// Fewer and more heads than columns, fewer and more columns than ranks.
#[test]
fn several_heads_equal_single_and_send_a_number_an_edge_and_head() {
    let n = 41;
    for classes in [2, 5] {
        let data = Arc::new(random_dataset(n, 170, 6, classes, false, 8));
        let edges = data.graph.propagation(ModelKind::Gat.propagation());
        let edges = edges.n_edges();
        for heads in [1, 3, 7] {
            let more = [
                ("decoupled", "true".to_owned()),
                ("layers", "3".to_owned()),
                ("heads", heads.to_string()),
                ("attention_dropout", "0.3".to_owned()),
            ];
            let alone = request("single", ModelKind::Gat, &more);
            let single = train(&STRATEGIES[0], &alone, &data, None, 1);
            let spec = request("neutrontp", ModelKind::Gat, &more);
            for ranks in 1..=4 {
                let what = format!("{heads} heads over {classes} columns on {ranks} ranks");
                let got = trained(&spec, &data, ranks);
                assert_same(&what, ModelKind::Gat, &single[0], &got);
                got.iter().for_each(|rank| rank.assert_predicted(&what));
                let scores = 4 * heads * (ranks - 1) * (n + edges);
                // A split and a gather each way.
                let slices = 2 * one_way(n, classes, ranks, 0);
                let sent = total(&got) - of_weights(&got);
                assert_eq!(sent, 2 * (slices + scores as u64), "{what}");
            }
        }
    }
}

/// Heads are not ignored: each has vectors of its own, and other numbers of them train otherwise.
#[test]
fn the_number_of_heads_is_that_of_the_request() {
    let data = Arc::new(random_dataset(41, 170, 6, 3, false, 8));
    let with = |strategy: &str, heads: usize| {
        let more = [
            ("decoupled", "true".to_owned()),
            ("heads", heads.to_string()),
        ];
        let spec = request(strategy, ModelKind::Gat, &more);
        let trained = trained(&spec, &data, 1);
        let vectors = trained[0].gradients.iter().rev().take(2).map(Vec::len);
        assert_eq!(vectors.collect::<Vec<_>>(), [3 * heads; 2], "{strategy}");
        trained[0].losses.clone()
    };
    for strategy in ["single", "neutrontp", "halo", "depcache"] {
        assert_ne!(with(strategy, 1), with(strategy, 4), "{strategy}");
    }
}

#[test]
fn heads_of_a_last_layer_are_refused_where_there_is_none() {
    let pairs = [("model", "gat"), ("decoupled", "true"), ("out_heads", "2")];
    let pairs = pairs.map(|(k, v)| (k, Value::from_word(v)));
    let e = RunSpec::from_pairs(pairs).expect_err("averaged in every round");
    assert!(e.to_string().contains("averaged in every round"), "{e}");
}
