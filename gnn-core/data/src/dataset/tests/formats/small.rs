//! Miniature folders: every reader against what was written.

use super::*;

/// Writes files with their folders.
pub(super) fn folder(files: &made::Files) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("tiny_set");
    for (name, content) in files {
        let at = path.join(name);
        std::fs::create_dir_all(at.parent().expect("within the folder")).expect("writable");
        std::fs::write(at, content).expect("writable");
    }
    (dir, path)
}

fn read(files: &made::Files) -> Dataset {
    let (_dir, path) = folder(files);
    load_path(&path).expect("a valid data set")
}

/// Sources of the in-edges of each vertex.
fn edges(d: &Dataset) -> Vec<Vec<u32>> {
    (0..d.n()).map(|v| d.graph.neighbours(v).to_vec()).collect()
}

#[test]
fn planetoid_with_a_gap_keeps_the_vertices_in_between() {
    let d = read(&made::planetoid());
    assert_eq!((d.name.as_str(), d.n(), d.n_classes), ("tiny", 8, 2));
    let want: [&[u32]; 8] = [&[1, 7], &[0], &[5], &[], &[], &[2], &[], &[0]];
    assert_eq!(edges(&d), want);
    assert_eq!(d.labels, [0, 1, 1, -1, -1, 0, -1, 1]);
    assert_eq!(parts(&d), [2, 1, 2]);
    assert!(d.val[2] && d.test[5] && d.test[7]);
    let x = rows(&d.features);
    assert_eq!(
        (x[3].as_slice(), x[4].as_slice()),
        (&[(2, 1.0)][..], &[][..])
    );
    assert_eq!(
        (x[5].as_slice(), x[7].as_slice()),
        (&[(0, 1.0)][..], &[(2, 1.0)][..])
    );
    assert!(d.about.notes[0].starts_with("2 vertices between"));
}

#[test]
fn npz_layouts_are_told_apart_and_objects_left_alone() {
    let d = read(&made::benchmark());
    assert_eq!(edges(&d), [vec![1, 2], vec![0, 2], vec![0, 1]]);
    assert_eq!((d.labels.as_slice(), d.n_classes), (&[1, 0, 1][..], 2));
    assert_eq!(rows(&d.features), [vec![(3, 2.0)], vec![(0, 3.0)], vec![]]);
    let d = read(&made::heterophilous());
    assert_eq!(edges(&d), [vec![1], vec![0, 2], vec![1]]);
    assert_eq!(rows(&d.features)[1], [(0, 0.5), (1, 0.5)]);
    assert_eq!((d.train[0], d.val[1], d.test[2]), (true, true, true));
    let (_dir, path) = folder(&made::heterophilous());
    let d = load_split(path.to_str().expect("UTF-8"), "1", 0).expect("two splits");
    assert!(d.train[1]);
    let (_dir, path) = written(&[("x.npz", &made::npz(&[("weights", ints(&[1]))]))]);
    let e = load_path(&path).expect_err("of no layout");
    assert!(e.to_string().contains("'weights' are of no layout"), "{e}");
}

#[test]
fn geom_gcn_and_musae_have_features_and_classes() {
    let d = read(&made::geom_gcn());
    assert_eq!(
        (d.name.as_str(), d.features.dim(), d.n_classes),
        ("tiny_set", 3, 2)
    );
    assert_eq!(edges(&d), [vec![1], vec![0, 2], vec![1]]);
    assert_eq!(d.labels, [0, 1, 1]);
    assert_eq!(rows(&d.features)[2], [(1, 0.5), (2, 2.0)]);
    assert!(d.train[0] && d.val[1] && d.test[2]);
    let (_dir, path) = folder(&made::geom_gcn());
    let path = path.to_str().expect("UTF-8");
    assert!(load_split(path, "3", 0).is_ok());
    assert!(matches!(
        load_split(path, "4", 0),
        Err(Error::UnknownName { .. })
    ));
    let d = read(&made::musae());
    assert_eq!(d.labels, [0, 0, 1]);
    assert_eq!(
        rows(&d.features),
        [vec![], vec![], vec![(1, 1.0), (3, 1.0)]]
    );
    assert_eq!(d.features.dim(), 4);
}

#[test]
fn knowledge_graphs_keep_names_and_hold_triples_out() {
    let d = read(&made::openke());
    assert_eq!((d.n(), d.graph.n_edges()), (5, 6));
    let ids = d.about.ids.as_ref().expect("names");
    assert_eq!(ids.iter().collect::<Vec<_>>(), ["a", "b x", "c", "d", "e"]);
    let names: Vec<(&str, usize)> = d
        .about
        .types
        .relations
        .iter()
        .map(|r| (r.name.as_str(), r.count))
        .collect();
    assert_eq!(
        names,
        [("next", 1), ("likes", 2), ("next^-1", 1), ("likes^-1", 2)]
    );
    let links = d.links.as_ref().expect("held out");
    assert_eq!(
        (links.val.as_slice(), links.test.as_slice()),
        (&[[0, 2]][..], &[[1, 3]][..])
    );
    for [u, v] in links.val_neg.iter().chain(&links.test_neg) {
        assert!(!d.graph.neighbours(*u as usize).contains(v));
    }
    let (_dir, path) = folder(&made::openke());
    let mut spec = DataSpec {
        data: &path.display().to_string(),
        task: TaskKind::Link,
        ..DataSpec::default()
    };
    let linked = load_for(spec, &Verdicts::none()).expect("its own split");
    assert_eq!((linked.task, linked.links), (Task::LinkPrediction, d.links));
    spec.task = TaskKind::Node;
    let e = load_for(spec, &Verdicts::none()).expect_err("no classes");
    assert!(e.to_string().contains("no vertex has a class"), "{e}");

    let d = read(&made::rdf());
    assert_eq!((d.n(), d.graph.n_edges(), d.n_classes), (5, 8, 2));
    let ids = d.about.ids.expect("names");
    let want = [
        "<http://a>",
        "<http://b>",
        "\"a \\\"quoted\\\" text\"@en",
        "_:x",
        "\"5\"^^<http://int>",
    ];
    assert_eq!(ids.iter().collect::<Vec<_>>(), want);
    assert_eq!(d.node_types.expect("types"), [0, 0, 1, 2, 1]);
    let counts: Vec<usize> = d.about.types.vertices.iter().map(|t| t.count).collect();
    assert_eq!(counts, [2, 2, 1]);
    assert_eq!(
        (d.labels, d.about.classes),
        (
            vec![1, 0, -1, -1, -1],
            vec!["bad".to_owned(), "good".into()]
        )
    );
    assert_eq!((d.train[0], d.test[1]), (true, true));
}

#[test]
fn edge_lists_of_every_kind_are_read() {
    let d = read(&made::matrix_market());
    assert_eq!(edges(&d), [vec![1, 2], vec![0], vec![0], vec![]]);
    assert_eq!(d.about.notes, ["values of the matrix ignored"]);
    let d = read(&made::edge_list());
    let ids = d.about.ids.as_ref().expect("names");
    assert_eq!(
        ids.iter().collect::<Vec<_>>(),
        ["New York", "Boston", "York"]
    );
    assert_eq!(
        (edges(&d), d.about.notes.len()),
        (vec![vec![1], vec![0, 2], vec![1]], 1)
    );
    let texts: [(&str, &[u8]); 7] = [
        ("a.txt", b"% c\n# c\n\n0 1\n1\t2\r\n2   2\n0 1\n"),
        (
            "b.csv",
            b"\xef\xbb\xbfsource,target,weight\n0,1,0.5\n1,2,1\n",
        ),
        ("c.el", b"0;1\n1;2\n"),
        ("d.edges", b"0|1\n1|2"),
        ("e.txt", b"# FromNodeId\tToNodeId\n0\t1\n2\t1\n"),
        ("f.csv", b"\"0\",\"1\"\n\"1\",\"2\"\n"),
        ("g.wel", b"0 1 7 8\n1 2 9 9\n"),
    ];
    for (name, text) in texts {
        for (packed, ending) in [
            (text.to_vec(), ""),
            (made::gz(text), ".gz"),
            (made::zst(text), ".zst"),
        ] {
            let (_dir, path) = written(&[(&format!("{name}{ending}"), &packed)]);
            let d = load_path(&path).unwrap_or_else(|e| panic!("{name}{ending}: {e}"));
            assert_eq!(edges(&d), [vec![1], vec![0, 2], vec![1]], "{name}");
        }
    }
    let (_dir, path) = written(&[
        ("a.txt", b"0 1\n1 2\n"),
        ("meta.json", b"{\"directed\": true}"),
    ]);
    assert_eq!(load_path(&path).expect("valid").graph.n_edges(), 2);
    let pairs = array(
        "<u4",
        &[2, 2],
        &[0u32, 1, 1, 2].map(u32::to_le_bytes).concat(),
    );
    let (_dir, path) = written(&[("pairs.npy", &pairs)]);
    assert_eq!(load_path(&path).expect("valid").graph.n_edges(), 4);
    // Features beside an edge list make a plain folder, labels or not.
    let (_dir, path) = written(&[
        ("edges.txt.gz", &made::gz(b"0 1\n1 2\n")),
        ("features.npy", &floats(3, &[1.0; 6])),
    ]);
    let d = load_path(&path).expect("valid");
    assert_eq!(
        (d.graph.n_edges(), d.features.dim(), d.n_classes),
        (4, 2, 0)
    );
}

#[test]
fn a_folder_of_names_has_classes_and_parts_by_name() {
    let files: [(&str, &[u8]); 5] = [
        ("edges.csv", b"who,whom\nann,bob\nbob,cid\n"),
        ("labels.csv", b"name,team\ncid,red\nann,blue\nbob,red\n"),
        ("train.txt", b"ann\n"),
        ("val.txt", b"bob\n"),
        ("test.txt", b"cid\n"),
    ];
    // Two words before names cannot be told from names, so this header is a usual one.
    let mut usual = files;
    usual[0].1 = b"source,target\nann,bob\nbob,cid\n";
    let (_dir, path) = written(&usual);
    let d = load_path(&path).expect("valid");
    assert_eq!(edges(&d), [vec![1], vec![0, 2], vec![1]]);
    assert_eq!(
        (d.labels.as_slice(), d.about.classes.join(" ")),
        (&[0, 1, 1][..], "blue red".into())
    );
    assert!(d.train[0] && d.val[1] && d.test[2]);
    let (_dir, path) = written(&files);
    assert_eq!(load_path(&path).expect("valid").n(), 5);
    let mut wrong = usual;
    wrong[1].1 = b"cid,red\ndan,blue\n";
    let (_dir, path) = written(&wrong);
    let e = load_path(&path).expect_err("a name that no edge has");
    assert!(
        e.to_string()
            .contains("labels.csv: line 2: no edge has a vertex 'dan'"),
        "{e}"
    );
    // Any header is one where numbers follow.
    let (_dir, path) = written(&[("a.csv", b"left,right\n0,1\n1,2\n")]);
    assert_eq!(load_path(&path).expect("valid").n(), 3);
}

#[test]
fn ogb_folders_are_read_as_text_and_as_arrays() {
    let (text, binary) = (read(&made::ogb_node()), read(&made::ogb_binary()));
    assert_eq!((text.name.as_str(), text.n_classes), ("tiny_set", 5));
    assert_eq!(edges(&text), [vec![1], vec![0, 2, 3], vec![1], vec![1]]);
    assert_eq!(text.labels, [4, 0, 1, 4]);
    assert_eq!(parts(&text), [2, 1, 1]);
    assert_eq!(
        (&text.graph, &text.features),
        (&binary.graph, &binary.features)
    );
    assert_eq!(
        (text.labels, text.train, text.test),
        (binary.labels, binary.train, binary.test)
    );
    let d = read(&made::ogb_link());
    let links = d.links.expect("held out");
    assert_eq!(links.train, [[0, 1], [1, 2]]);
    assert_eq!((links.val, links.val_neg), (vec![[3, 1]], vec![[0, 3]]));
    assert_eq!((links.test, links.test_neg), (vec![[0, 2]], vec![[2, 3]]));
    let mut several = made::ogb_node();
    several.push(("split/random/train.csv.gz".into(), made::gz(b"3\n")));
    let (_dir, path) = folder(&several);
    let e = load_path(&path).expect_err("two splits");
    assert!(e.help().contains("random, time"), "{}", e.help());
}

#[test]
fn ogb_mag_keeps_types_and_gives_each_its_own_features() {
    let d = read(&made::ogb_mag());
    // Two authors, then three papers.
    assert_eq!((d.n(), d.graph.n_edges(), d.n_classes), (5, 10, 2));
    assert_eq!(d.node_types, Some(vec![0, 0, 1, 1, 1]));
    assert_eq!(d.graph.neighbours(4), [0, 1, 3]);
    let count = |name: &str, count| TypeCount {
        name: name.into(),
        count,
    };
    assert_eq!(
        d.about.types.vertices,
        [count("author", 2), count("paper", 3)]
    );
    let relations = [
        ("author writes paper", 3),
        ("paper cites paper", 2),
        ("author writes paper^-1", 3),
        ("paper cites paper^-1", 2),
    ];
    assert_eq!(d.about.types.relations, relations.map(|(n, c)| count(n, c)));
    let x = rows(&d.features);
    assert_eq!(
        (d.features.dim(), x[1].as_slice(), x[3].as_slice()),
        (4, &[(1, 1.0)][..], &[(2, 3.0), (3, 4.0)][..])
    );
    assert_eq!(d.labels, [-1, -1, 0, 1, 0]);
    assert!(d.train[2] && d.val[3] && d.test[4]);
}

#[test]
fn what_is_of_no_format_is_told_what_was_looked_for() {
    let (_dir, path) = written(&[("notes.md", b"hello")]);
    let e = load_path(&path).expect_err("nothing to read");
    assert!(e.to_string().contains("of no format that is known"), "{e}");
    for word in [
        "graph.npz",
        "ind.NAME.graph",
        "raw/edge.csv.gz",
        "train2id.txt",
        "*.mtx",
        "*.nt",
    ] {
        assert!(e.help().contains(word), "{word}: {}", e.help());
    }
    let (_dir, path) = written(&[("a.txt", b"0 1\n"), ("b.txt", b"0 1\n")]);
    let e = load_path(&path).expect_err("two edge lists");
    assert!(e.to_string().contains("give the path of one"), "{e}");
    let two = [
        made::planetoid(),
        vec![("ind.other.graph".into(), Vec::new())],
    ]
    .concat();
    let (_dir, path) = folder(&two);
    let e = load_path(&path).expect_err("two data sets");
    assert!(e.to_string().contains("several data sets"), "{e}");
    let (_dir, path) = written(&[("edges.parquet", b"PAR1")]);
    let e = load_path(&path).expect_err("a table");
    assert!(e.to_string().contains("edges.parquet is a table"), "{e}");
}
