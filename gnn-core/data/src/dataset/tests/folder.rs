//! The reader of plain folders.

use super::*;

#[test]
fn a_plain_folder_is_read() {
    let edges = b"source,target\n0,1\n1,2 # a comment\n\n2,3\n3,3\n0,1\n";
    let files: &[(&str, &[u8])] = &[
        ("edges.csv", edges),
        ("labels.csv", b"0\n1\n1\n-1\n"),
        ("features.csv", b"1,2\n3;4\n5\t6\n7 8\n"),
        ("train.csv", b"id\n0\n1\n"),
        ("val.csv", b"2\n"),
        ("test.csv", b""),
    ];
    let (_dir, path) = written(files);
    let d = load_path(&path).expect("valid");
    assert_eq!((d.n(), d.graph.n_edges(), d.n_classes), (4, 6, 2));
    assert_eq!(d.graph.neighbours(2), [1, 3]);
    assert_eq!(
        (d.train, d.val),
        (
            vec![true, true, false, false],
            vec![false, false, true, false]
        )
    );
    let Features::Dense(x) = &d.features else {
        panic!("dense features")
    };
    assert_eq!(x.row(2).to_vec(), [5.0, 6.0]);

    let mut directed = files.to_vec();
    directed.push(("meta.json", b"{\"directed\": true, \"num_nodes\": 4}"));
    let (_dir, path) = written(&directed);
    assert_eq!(load_path(&path).expect("valid").graph.n_edges(), 3);

    let pairs = array(
        "<i4",
        &[2, 2],
        &[0i32, 1, 1, 2].map(i32::to_le_bytes).concat(),
    );
    let masks = array("|b1", &[3, 3], &[1, 0, 0, 0, 1, 0, 0, 0, 1]);
    let (_dir, path) = written(&[
        ("edges.npy", &pairs),
        ("labels.txt", b"0 0\n1 1\n2 0\n"),
        ("masks.npy", &masks),
    ]);
    let d = load_path(&path).expect("valid");
    assert_eq!(
        (d.labels.as_slice(), d.test.as_slice()),
        (&[0, 1, 0][..], &[false, false, true][..])
    );
    assert_eq!(d.features, Features::Identity(3));
}

#[test]
fn wrong_tables_are_refused_with_file_and_line() {
    let labels: (&str, &[u8]) = ("labels.csv", b"0\n1\n0\n");
    let says = |files: &[(&str, &[u8])], want: &str| {
        let (_dir, path) = written(files);
        let e = load_path(&path).expect_err("a damaged folder");
        assert!(e.to_string().contains(want), "{e}");
        assert!(!e.help().is_empty());
    };
    says(
        &[labels],
        "edges: none of edges.csv, edges.txt, edges.npy is there",
    );
    says(
        &[("edges.csv", b"0,1\n"), ("train.csv", b"0\n")],
        "labels: none of",
    );
    says(
        &[("edges.csv", b"0,1\n1,x\n"), labels],
        "edges.csv: line 2: 'x' is not a number",
    );
    says(
        &[("edges.csv", b"0,1\n1\n"), labels],
        "edges.csv: line 2: expected 2 fields",
    );
    says(
        &[("edges.csv", b"0,1,2\n"), labels],
        "edges.csv: line 1: expected 2 columns, got 3",
    );
    says(
        &[("edges.csv", b"0,1\n0,3\n"), labels],
        "destination[1]: vertex 3 is outside 0..3",
    );
    says(
        &[("edges.csv", b"0,1\n0,-1\n"), labels],
        "vertex -1 is outside",
    );
    says(
        &[("edges.csv", b"0,1.5\n"), labels],
        "1.5 is not a whole number",
    );
    says(
        &[("edges.csv", b"0,\xff\xfe\n"), labels],
        "line 1: is not UTF-8 text",
    );
    says(
        &[
            ("edges.csv", b"0,1\n"),
            labels,
            ("features.csv", b"1\nnan\n2\n"),
        ],
        "feat[1, 0]: NaN",
    );
    says(
        &[("edges.csv", b"0,1\n"), ("labels.csv", b"0,0\n0,1\n")],
        "vertex 0 has a second label",
    );
    says(
        &[("edges.csv", b"0,1\n"), labels, ("train.csv", b"0\n")],
        "val: none of",
    );
    says(
        &[("edges.csv", b""), ("labels.csv", b"")],
        "has no vertices",
    );
    says(
        &[("edges.csv", b"0 1e15\n"), ("labels.csv", b"0 0\n")],
        "more than 4294967295",
    );
}

#[test]
fn a_table_of_nodes_is_read_by_its_names() {
    let nodes =
        b"id,y,split,age,score\na,cat,train,1,0.5\nb,dog,val,2,1.5\nc,,,3,2.5\nd,cat,test,4,3.5\n";
    let edges = b"source,target\na,b\nb,c\nc,d\n";
    let (_dir, path) = written(&[("edges.csv", edges), ("nodes.csv", nodes)]);
    let d = load_path(&path).expect("two tables");
    assert_eq!((d.n(), d.n_classes, d.features.dim()), (4, 2, 2));
    assert_eq!(d.labels, [0, 1, -1, 0]);
    assert_eq!(d.graph.neighbours(1), [0, 2]);
    assert_eq!(
        (d.train[0], d.val[1], d.test[3], d.test[2]),
        (true, true, true, false)
    );
    let Features::Dense(x) = &d.features else {
        panic!("dense features")
    };
    assert_eq!(x[[3, 1]], 3.5);

    let masks = b"label,train_mask,val_mask,test_mask\n1,1,0,0\n0,0,1,0\n1,0,0,1\n";
    let (_dir, path) = written(&[("edges.csv", b"0,1\n1,2\n"), ("nodes.csv", masks)]);
    let d = load_path(&path).expect("rows are vertices");
    assert_eq!(
        (d.n(), d.labels.clone(), d.features.dim()),
        (3, vec![1, 0, 1], 3)
    );
    assert!(d.train[0] && d.val[1] && d.test[2]);

    for (nodes, said) in [
        (&b"id,y,label\na,1,2\n"[..], "are both the same of a vertex"),
        (b"id,x0\na,1\na,2\n", "is there twice"),
        (b"id,x0\na,one\n", "x0 is 'one', which is no finite number"),
        (b"id,x0\na\n", "has 1 fields, and the first line names 2"),
        (b"0,1\n1,1\n", "not names of columns"),
    ] {
        let (_dir, path) = written(&[("edges.csv", b"a,a\na,a\n"), ("nodes.csv", nodes)]);
        let refused = load_path(&path).expect_err(said).to_string();
        assert!(refused.contains(said), "{refused}");
    }
}
