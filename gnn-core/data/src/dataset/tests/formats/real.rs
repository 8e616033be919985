//! The real files: the same data set in several formats must be the same data set. Skipped aloud
//! where the files are not.

use super::*;

/// A real file in its original format, and the folder of converted sets.
fn raw(name: &str) -> Option<(Dataset, PathBuf)> {
    let Some(folder) = real_data() else {
        eprintln!("SKIP: no real data; set HALOBOOK_DATA to its folder to run this test");
        return None;
    };
    let d = load_path(&folder.join("raw").join(name)).expect("a valid data set");
    Some((d, folder))
}

#[test]
fn planetoid_cora_equals_the_converted_one() {
    let Some((raw, folder)) = raw("planetoid") else {
        return;
    };
    let converted = load_path(&folder.join("cora")).expect("valid");
    assert_eq!(
        (raw.name.as_str(), raw.n(), raw.graph.n_edges()),
        ("cora", 2708, 10_556)
    );
    assert_eq!(raw.graph, converted.graph);
    assert_eq!(raw.labels, converted.labels);
    assert_eq!(parts(&raw), [140, 500, 1000]);
    assert_eq!(
        (raw.train, raw.val, raw.test),
        (converted.train, converted.val, converted.test)
    );
    assert_eq!(rows(&raw.features), rows(&converted.features));
    let one = load_path(&folder.join("raw/planetoid/ind.cora.x")).expect("one of its files");
    assert_eq!(one.graph, raw.graph);
}

#[test]
fn gnn_benchmark_cora_has_the_sizes_of_planetoids() {
    let Some((d, folder)) = raw("gnn-benchmark") else {
        return;
    };
    // Another order of vertices: sizes, degrees and classes are the same.
    let converted = load_path(&folder.join("cora")).expect("valid");
    assert_eq!(
        (d.n(), d.graph.n_edges(), d.features.dim(), d.n_classes),
        (2708, 10_556, 1433, 7)
    );
    let sorted = |d: &Dataset, of: fn(&Dataset, usize) -> usize| {
        let mut all: Vec<usize> = (0..d.n()).map(|v| of(d, v)).collect();
        all.sort_unstable();
        all
    };
    let degree = |d: &Dataset, v: usize| d.graph.in_degree(v);
    assert_eq!(sorted(&d, degree), sorted(&converted, degree));
    let words = |d: &Dataset| rows(&d.features).iter().map(Vec::len).sum::<usize>();
    assert_eq!(words(&d), words(&converted));
    let classes = |d: &Dataset| {
        let mut counts = [0; 7];
        d.labels.iter().for_each(|&c| counts[c as usize] += 1);
        counts.sort_unstable();
        counts
    };
    assert_eq!(classes(&d), classes(&converted));
    assert_eq!(parts(&d).iter().sum::<usize>(), 2708);
}

#[test]
fn chameleon_is_the_same_graph_in_three_formats() {
    let Some((heterophilous, folder)) = raw("heterophilous") else {
        return;
    };
    let d = &heterophilous;
    assert_eq!(
        (d.n(), d.graph.n_edges(), d.features.dim(), d.n_classes),
        (2277, 62_742, 2325, 5)
    );
    assert_eq!(parts(d).iter().sum::<usize>(), 2277);
    let file = folder.join("raw/heterophilous/chameleon.npz");
    let file = file.to_str().expect("UTF-8");
    let ninth = load_split(file, "9", 0).expect("ten splits");
    assert_ne!(ninth.train, d.train);
    let e = load_split(file, "10", 0).expect_err("ten splits");
    assert!(e.to_string().contains("has 10 splits"), "{e}");
    let geom = load_path(&folder.join("raw/geom-gcn")).expect("valid");
    assert_eq!(geom.graph, d.graph);
    assert_eq!((geom.n_classes, geom.about.notes.len()), (0, 1));
    let musae = load_path(&folder.join("raw/musae")).expect("valid");
    assert_eq!(musae.graph, d.graph);
    assert_eq!(musae.features.n(), 2277);
    // Geom-GCN cut the traffic into the same five classes, in an order of its own.
    let mut matches = [[0usize; 5]; 5];
    let pairs = musae.labels.iter().zip(&d.labels);
    pairs.for_each(|(&a, &b)| matches[a as usize][b as usize] += 1);
    let best: usize = matches
        .iter()
        .map(|row| row.iter().max().expect("five"))
        .sum();
    assert_eq!(best, 2277, "{matches:?}");
    // The same file as an edge list of numbers.
    let text = folder.join("raw/musae/chameleon_edges.csv");
    let other = tempfile::tempdir().expect("a temporary folder");
    let to = other.path().join("links.csv");
    std::fs::copy(text, &to).expect("a writable folder");
    let list = load_path(&to).expect("valid");
    assert_eq!((list.graph, list.n_classes), (musae.graph, 0));
}

#[test]
fn wn18rr_and_mutag_have_their_published_sizes() {
    let Some((wordnet, folder)) = raw("openke") else {
        return;
    };
    let relations = wordnet.graph.relations().expect("typed").count();
    assert_eq!(
        (wordnet.n(), relations, wordnet.graph.n_edges()),
        (40_943, 22, 2 * 86_835)
    );
    let links = wordnet.links.as_ref().expect("held out");
    let sizes = [
        &links.train,
        &links.val,
        &links.test,
        &links.val_neg,
        &links.test_neg,
    ];
    assert_eq!(sizes.map(Vec::len), [86_835, 3034, 3134, 3034, 3134]);
    let names = &wordnet.about.types.relations;
    assert_eq!(
        (names[0].name.as_str(), names[11].name.as_str()),
        ("_hypernym", "_hypernym^-1")
    );
    assert_eq!(names.iter().map(|r| r.count).sum::<usize>(), 2 * 86_835);
    assert_eq!(names[0].count, 34_796);

    let freebase = load_path(&folder.join("fb15k237")).expect("valid");
    let relations = freebase.graph.relations().expect("typed").count();
    assert_eq!((freebase.n(), relations), (14_541, 474));
    assert_eq!(freebase.graph.n_edges(), 2 * 272_115);
    let links = freebase.links.expect("held out");
    assert_eq!(
        [&links.train, &links.val, &links.test].map(Vec::len),
        [272_115, 17_535, 20_466]
    );

    let mutag = load_path(&folder.join("raw/rdf")).expect("valid");
    let relations = mutag.graph.relations().expect("typed").count();
    assert_eq!(
        (mutag.n(), relations, mutag.graph.n_edges()),
        (23_644, 46, 2 * 74_227)
    );
    assert_eq!((parts(&mutag), mutag.n_classes), ([218, 54, 68], 2));
    let full = folder.join("raw/rdf");
    let full = load_split(full.to_str().expect("UTF-8"), "full", 0).expect("valid");
    assert_eq!(parts(&full), [272, 0, 68]);
    let kinds = &mutag.about.types.vertices;
    assert_eq!(kinds.iter().map(|k| k.count).sum::<usize>(), mutag.n());
    assert!(
        mutag
            .about
            .ids
            .expect("names")
            .iter()
            .any(|id| id.contains("#d305"))
    );
}
