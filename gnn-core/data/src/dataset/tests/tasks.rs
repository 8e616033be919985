//! Relations, several labels a vertex, and edges held out for link prediction.

use std::collections::HashSet;

use super::*;
use crate::graph::Propagation;

fn typed(types: &[i64]) -> Arrays {
    Arrays::valid()
        .with("edge_src", ints(&[0, 0, 1]))
        .with("edge_dst", ints(&[1, 1, 2]))
        .with("edge_type", ints(types))
        .with("node_type", ints(&[0, 1, 0, 2]))
}

#[test]
fn inverse_relations_are_added_where_edges_have_no_reverse() {
    let (_dir, path) = written(&[("graph.npz", &typed(&[0, 2, 1]).zip())]);
    let d = load_path(&path).expect("valid");
    assert_eq!(d.node_types, Some(vec![0, 1, 0, 2]));
    let relations = d.graph.relations().expect("typed");
    assert_eq!((d.graph.n_edges(), relations.count()), (6, 6));
    // Into 0 the inverses 3 and 5 of 0 and 2; into 1 those two and the inverse 4 of 1; then 1.
    assert_eq!(d.graph.indptr(), [0, 2, 5, 6, 6]);
    assert_eq!(d.graph.indices(), [1, 1, 0, 0, 2, 1]);
    assert_eq!(relations.types(), [3, 5, 0, 2, 4, 1]);
    let meta = b"{\"directed\": true, \"num_edge_types\": 4}";
    let (_dir, path) = written(&[("graph.npz", &typed(&[0, 2, 1]).zip()), ("meta.json", meta)]);
    let d = load_path(&path).expect("valid");
    let relations = d.graph.relations().expect("typed");
    assert_eq!((d.graph.n_edges(), relations.count()), (3, 4));
    let both = Arrays::valid().with("edge_type", ints(&[0, 1, 0, 1, 0, 1]));
    let (_dir, path) = written(&[("graph.npz", &both.zip())]);
    let d = load_path(&path).expect("valid");
    let block = d.graph.propagation(Propagation::RelationMean);
    assert_eq!(block.n_relations(), 2);
    assert_eq!(d.graph.n_edges(), 6);
}

#[test]
fn labels_of_two_dimensions_are_several_classes() {
    let label = array("|i1", &[4, 3], &[0, 1, 1, 0, 0, 0, 255, 255, 255, 1, 0, 0]);
    let (_dir, path) = written(&[("graph.npz", &Arrays::valid().with("label", label).zip())]);
    let d = load_path(&path).expect("valid");
    assert_eq!((d.task, d.n_classes), (Task::MultiLabel, 3));
    assert_eq!(d.labels, [0, 0, -1, 0]);
    let multi = d.multi_labels.as_deref();
    assert_eq!(multi, Some(&[0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0][..]));
    let damaged = Dataset {
        multi_labels: None,
        ..d
    };
    assert!(damaged.check().is_err());
}

#[test]
fn planted_vertices_can_be_in_two_classes() {
    let single = load("sbm:nodes=300,classes=5", 3).expect("generated");
    let same = load("sbm:nodes=300,classes=5,multilabel=false", 3).expect("generated");
    assert_eq!((&single.graph, &single.labels), (&same.graph, &same.labels));
    let d = load("sbm:nodes=300,classes=5,multilabel=true", 3).expect("generated");
    assert_eq!(d.task, Task::MultiLabel);
    let multi = d.multi_labels.as_deref().expect("several labels");
    let counts: Vec<u8> = multi.chunks_exact(5).map(|row| row.iter().sum()).collect();
    assert!(counts.iter().all(|c| (1..=2).contains(c)));
    let two = counts.iter().filter(|&&c| c == 2).count();
    assert!((200..280).contains(&two), "{two} of 300 in two classes");
    // Most edges join vertices that share a class.
    let shares =
        |a: u32, b: usize| (0..5).any(|c| multi[a as usize * 5 + c] + multi[b * 5 + c] == 2);
    let inside: usize = (0..300)
        .map(|v| {
            d.graph
                .neighbours(v)
                .iter()
                .filter(|&&u| shares(u, v))
                .count()
        })
        .sum();
    assert!(inside as f64 > 0.8 * d.graph.n_edges() as f64);
    assert!(load("sbm:multilabel=maybe", 0).is_err());
}

fn links_of(data: &str, seed: u64) -> Result<(Dataset, Links)> {
    let spec = DataSpec {
        data,
        task: TaskKind::Link,
        seed,
        ..DataSpec::default()
    };
    let d = load_for(spec, &Verdicts::none())?;
    let links = d.links.clone().expect("held out");
    Ok((d, links))
}

#[test]
fn held_out_edges_leave_the_graph_and_negatives_never_were_in_it() {
    let name = "sbm:nodes=400,degree=12,feat=4";
    let whole = load(name, 5).expect("generated").graph;
    let (d, links) = links_of(name, 5).expect("enough edges");
    assert_eq!(d.task, Task::LinkPrediction);
    let m = whole.n_edges() / 2;
    let share = |part: f64| (m as f64 * part).round() as usize;
    assert_eq!(
        (links.val.len(), links.test.len()),
        (share(0.05), share(0.10))
    );
    assert_eq!(links.train.len() + links.val.len() + links.test.len(), m);
    assert_eq!(d.graph.n_edges(), 2 * links.train.len());
    let has = |g: &Graph, [u, v]: Pair| g.neighbours(v as usize).contains(&u);
    for &p in &links.train {
        assert!(has(&d.graph, p) && has(&d.graph, [p[1], p[0]]));
    }
    for &p in links.val.iter().chain(&links.test) {
        assert!(has(&whole, p) && !has(&d.graph, p) && !has(&d.graph, [p[1], p[0]]));
    }
    let negatives: Vec<Pair> = links
        .val_neg
        .iter()
        .chain(&links.test_neg)
        .copied()
        .collect();
    assert!(negatives.iter().all(|&p| p[0] < p[1] && !has(&whole, p)));
    assert_eq!(
        negatives.iter().collect::<HashSet<_>>().len(),
        negatives.len()
    );
    assert_eq!(negatives.len(), links.val.len() + links.test.len());
    assert_eq!(links_of(name, 5).expect("again").1, links);
}

#[test]
fn graphs_that_cannot_spare_edges_are_refused() {
    let e = links_of("sbm:nodes=3,degree=1", 0).expect_err("too few edges");
    assert!(
        e.to_string().contains("undirected edges are too few"),
        "{e}"
    );
    let complete: Vec<(i64, i64)> = (0..8)
        .flat_map(|u| (0..8).map(move |v| (u, v)))
        .filter(|(u, v)| u != v)
        .collect();
    let side = |k: usize| -> Vec<i64> { complete.iter().map(|&(u, v)| [u, v][k]).collect() };
    let arrays = Arrays(vec![])
        .with("edge_src", ints(&side(0)))
        .with("edge_dst", ints(&side(1)))
        .with("label", ints(&[0; 8]))
        .with("train_mask", bytes(&[1; 8]))
        .with("val_mask", bytes(&[0; 8]))
        .with("test_mask", bytes(&[0; 8]));
    let (_dir, path) = written(&[("graph.npz", &arrays.zip())]);
    let e = links_of(path.to_str().expect("UTF-8"), 0).expect_err("no pair is free");
    assert!(e.to_string().contains("without an edge"), "{e}");
}

#[test]
fn a_given_link_split_is_used_and_checked() {
    let pairs = |values: &[i64]| {
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        array("<i8", &[values.len() / 2, 2], &data)
    };
    let split = || {
        Arrays(vec![])
            .with("train_pos", pairs(&[0, 1]))
            .with("val_pos", pairs(&[1, 2]))
            .with("test_pos", pairs(&[3, 2]))
            .with("val_neg", pairs(&[0, 3]))
            .with("test_neg", pairs(&[0, 2]))
    };
    let read = |split: Arrays| {
        let (_dir, path) = written(&[
            ("graph.npz", &Arrays::valid().zip()),
            ("link_split.npz", &split.zip()),
        ]);
        links_of(path.to_str().expect("UTF-8"), 0)
    };
    let (d, links) = read(split()).expect("valid");
    assert_eq!((links.train, links.test), (vec![[0, 1]], vec![[3, 2]]));
    assert_eq!((d.graph.n_edges(), d.graph.neighbours(1)), (2, &[0][..]));
    for (name, wrong, want) in [
        (
            "train_pos",
            &[0i64, 2][..],
            "train_pos[0]: 0 and 2 have no edge",
        ),
        ("train_pos", &[0, 1, 2, 1], "train_pos[1]: is also held out"),
        ("val_neg", &[1, 0], "val_neg[0]: 1 and 0 have an edge"),
        ("test_pos", &[1, 4], "test_pos[0]: vertex 4 is outside 0..4"),
        ("val_pos", &[], "val_pos: expected some pairs"),
    ] {
        let e = read(split().with(name, pairs(wrong))).expect_err("damaged");
        assert!(e.to_string().contains(want), "{e}");
    }
}
