//! Data sets: built-in ones against their definition, readers against files written here, hostile
//! files against the promise that nothing panics and every message names file, array and index.
//! The real data behind `HALOBOOK_DATA` is optional; its test prints a skip.

use std::io::Write;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

/// A little data set as NumPy arrays that single tests damage.
struct Arrays(Vec<(String, Vec<u8>)>);

/// One `.npy` file.
fn npy(descr: &str, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let shape: String = shape.iter().map(|s| format!("{s}, ")).collect();
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.bytes());
    out.extend(data);
    out
}

fn ints(values: &[i64]) -> Vec<u8> {
    npy(
        "<i8",
        &[values.len()],
        &values
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<_>>(),
    )
}

fn floats(rows: usize, values: &[f32]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    npy("<f4", &[rows, values.len() / rows], &data)
}

fn bytes(values: &[u8]) -> Vec<u8> {
    npy("|u1", &[values.len()], values)
}

impl Arrays {
    /// A path of four vertices, two classes, two features.
    fn valid() -> Arrays {
        let list = [
            ("edge_src", ints(&[0, 1, 1, 2, 2, 3])),
            ("edge_dst", ints(&[1, 0, 2, 1, 3, 2])),
            ("label", ints(&[0, 1, -1, 1])),
            ("feat", floats(4, &[1.0, 0.0, 0.5, 0.5, 3.0, 1.0, 0.0, 0.0])),
            ("train_mask", bytes(&[1, 1, 0, 0])),
            ("val_mask", bytes(&[0, 0, 0, 1])),
            ("test_mask", bytes(&[0, 0, 0, 0])),
        ];
        Arrays(list.map(|(n, a)| (n.to_owned(), a)).into())
    }

    fn with(mut self, name: &str, array: Vec<u8>) -> Arrays {
        self.0.retain(|(n, _)| n != name);
        self.0.push((name.into(), array));
        self
    }

    fn without(mut self, name: &str) -> Arrays {
        self.0.retain(|(n, _)| n != name);
        self
    }

    fn zip(&self) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, array) in &self.0 {
            let options = zip::write::SimpleFileOptions::default();
            zip.start_file(format!("{name}.npy"), options)
                .expect("unique names");
            zip.write_all(array).expect("memory");
        }
        zip.finish().expect("memory").into_inner()
    }
}

/// A folder with these files that is removed when dropped.
fn folder(files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (name, content) in files {
        std::fs::write(dir.path().join(name), content).expect("a writable temporary folder");
    }
    let path = dir.path().to_owned();
    (dir, path)
}

fn load_path(path: &Path) -> Result<Dataset> {
    load(path.to_str().expect("temporary paths are UTF-8"), 0)
}

/// The error of an archive, as message and help.
fn refusal(arrays: Arrays) -> (String, String) {
    let (_dir, path) = folder(&[("graph.npz", &arrays.zip())]);
    let e = load_path(&path).expect_err("a damaged data set");
    assert!(!e.to_string().contains('\n') && !e.help().is_empty() && !e.help().contains('\n'));
    assert!(
        e.to_string().contains("graph.npz") || !matches!(e, Error::Data { .. }),
        "{e}"
    );
    (e.to_string(), e.help())
}

#[test]
fn an_npz_is_read_as_written() {
    let (_dir, path) = folder(&[("graph.npz", &Arrays::valid().zip())]);
    let d = load_path(&path).expect("valid");
    assert_eq!((d.n(), d.n_classes, d.features.dim()), (4, 2, 2));
    assert_eq!(d.graph.neighbours(1), [0, 2]);
    assert_eq!(d.labels, [0, 1, -1, 1]);
    assert_eq!(d.train, [true, true, false, false]);
    assert!(!d.synthetic);
    let Features::Dense(x) = &d.features else {
        panic!("dense features")
    };
    assert_eq!(x[[2, 0]], 3.0);
    let bare = Arrays::valid().without("feat");
    let (_dir, path) = folder(&[("graph.npz", &bare.zip())]);
    assert_eq!(
        load_path(&path).expect("featureless").features,
        Features::identity(4)
    );
}

#[test]
fn sparse_features_are_read_and_equal_the_dense_ones() {
    let sparse = |indices: &[i64]| {
        Arrays::valid()
            .without("feat")
            .with("feat_indptr", ints(&[0, 1, 3, 5, 5]))
            .with("feat_indices", ints(indices))
            .with(
                "feat_data",
                npy(
                    "<f4",
                    &[5],
                    &[1.0f32, 0.5, 0.5, 3.0, 1.0].map(f32::to_le_bytes).concat(),
                ),
            )
            .with("feat_shape", ints(&[4, 2]))
    };
    let (_dir, path) = folder(&[("graph.npz", &sparse(&[0, 0, 1, 0, 1]).zip())]);
    let d = load_path(&path).expect("valid");
    let Features::Sparse(x) = &d.features else {
        panic!("sparse features")
    };
    assert_eq!((x.rows(), x.n_cols, x.view().span(2)), (4, 2, 3..5));
    assert!(
        refusal(sparse(&[0, 0, 1, 0, 2]))
            .0
            .contains("feat_indices[4]: column 2 is outside 0..2")
    );
    assert!(
        refusal(sparse(&[0, 0, 1, 0, 1]).with("feat_indptr", ints(&[0, 3, 1, 5, 5])))
            .0
            .contains("indptr[2]")
    );
    assert!(
        refusal(sparse(&[0, 0, 1, 0, 1]).with("feat_shape", ints(&[5, 2])))
            .0
            .contains("feat_shape")
    );
    assert!(
        refusal(sparse(&[0, 0, 1, 0, 1]).with("feat", floats(4, &[0.0; 8])))
            .0
            .contains("beside feat_data")
    );
    let nan = npy(
        "<f4",
        &[5],
        &[1.0f32, 0.5, 0.5, f32::NAN, 1.0]
            .map(f32::to_le_bytes)
            .concat(),
    );
    assert!(
        refusal(sparse(&[0, 0, 1, 0, 1]).with("feat_data", nan))
            .0
            .contains("feat[2, 0]: NaN")
    );
}

#[test]
fn wrong_content_is_refused_with_array_index_and_value() {
    let valid = Arrays::valid;
    let says = |arrays: Arrays, want: &str| {
        let (message, _) = refusal(arrays);
        assert!(message.contains(want), "{message}");
    };
    says(valid().without("label"), "label: is missing");
    says(
        valid()
            .without("train_mask")
            .with("train_msk", bytes(&[1, 1, 0, 0])),
        "train_mask: is missing (there is 'train_msk')",
    );
    says(
        valid().with(
            "feat",
            floats(4, &[1.0, 0.0, 0.5, f32::NAN, 3.0, 1.0, 0.0, 0.0]),
        ),
        "feat[1, 1]: NaN",
    );
    says(
        valid().with("feat", floats(4, &[f32::INFINITY; 8])),
        "feat[0, 0]: inf",
    );
    says(
        valid().with("feat", floats(2, &[1.0; 8])),
        "expected 4 rows (one a vertex), got 2",
    );
    says(
        valid().with("label", ints(&[0, 1, -2, 1])),
        "label[2]: class -2 is outside",
    );
    says(
        valid().with("label", ints(&[0, 1, 99, 1])),
        "label[2]: class 99 although no vertex has class 2",
    );
    says(
        valid().with("label", ints(&[0, 1, i64::MAX, 1])),
        "label[2]: class 9223372036854775807",
    );
    says(
        valid().with("edge_src", ints(&[0, 1, 1, 2, 2, 4])),
        "edge_src[5]: vertex 4 is outside 0..4",
    );
    says(
        valid().with("edge_dst", ints(&[1, 0, 2, -1, 3, 2])),
        "edge_dst[3]: vertex -1 is outside 0..4",
    );
    says(
        valid().with("edge_dst", ints(&[1, 0])),
        "edge_dst: expected 6 elements like edge_src, got 2",
    );
    says(valid().with("edge_dst", floats(6, &[0.0; 6])), "edge_dst: ");
    says(
        valid().with("val_mask", bytes(&[0, 1, 0, 1])),
        "train_mask[1]: the vertex is also in val_mask",
    );
    says(
        valid().with("test_mask", bytes(&[0, 0, 1, 0])),
        "test_mask[2]: selects a vertex without a label",
    );
    says(
        valid().with("test_mask", bytes(&[0])),
        "test_mask: expected 4 rows",
    );
    says(
        valid().with("train_mask", bytes(&[0; 4])),
        "train_mask: selects no vertex",
    );
    says(valid().with("edge_type", ints(&[0; 6])), "heterogeneous");
    says(
        valid().with("label", npy("|O", &[4], b"")),
        "holds elements of type |O",
    );
    says(
        valid().with("label", ints(&[0, 1, -1, 1])[..100].to_vec()),
        "label: ",
    );
    says(
        valid().with("label", npy("<i8", &[usize::MAX / 2], b"")),
        "claims the shape",
    );
    says(
        valid().with("label", npy("<i8", &[4], &[0; 40])),
        "goes on after the 32 bytes",
    );
    says(
        valid().with("label", b"not an array at all".to_vec()),
        "is not in NumPy's array format",
    );
}

#[test]
fn meta_json_declares_the_classes() {
    let zip = Arrays::valid().zip();
    let (_dir, path) = folder(&[("graph.npz", &zip), ("meta.json", b"{\"num_classes\": 1}")]);
    assert!(
        load_path(&path)
            .unwrap_err()
            .to_string()
            .contains("label[1]: class 1 is outside 0..1")
    );
    let (_dir, path) = folder(&[
        ("graph.npz", &zip),
        ("meta.json", b"{\"num_classes\": 5, \"x\": [1]}"),
    ]);
    assert_eq!(
        load_path(&path).expect("more classes than used").n_classes,
        5
    );
    let (_dir, path) = folder(&[("graph.npz", &zip), ("meta.json", b"{\"num_classes\"")]);
    assert!(
        load_path(&path)
            .unwrap_err()
            .to_string()
            .contains("meta.json: line 1")
    );
}

#[test]
fn an_array_that_is_there_twice_is_refused() {
    // The writer refuses a second one of the same name, so a name of the same length is patched.
    let mut zip = Arrays::valid().with("labe2", ints(&[0, 1, -1, 0])).zip();
    while let Some(at) = zip.windows(9).position(|w| w == b"labe2.npy") {
        zip[at..at + 9].copy_from_slice(b"label.npy");
    }
    let twice = zip.windows(9).filter(|w| w == b"label.npy").count();
    assert_eq!(twice, 4);
    let (_dir, path) = folder(&[("graph.npz", &zip)]);
    let e = load_path(&path).expect_err("two arrays of one name");
    assert!(
        e.to_string().ends_with("graph.npz: label: is there twice"),
        "{e}"
    );
}

#[test]
fn numbers_of_every_type_and_order_are_read() {
    let read = |descr: &str, data: &[u8], shape: &[usize]| {
        npy::read(&npy(descr, shape, data)[..], "f", "a").expect("valid")
    };
    assert_eq!(
        read("<i2", &[0xff, 0xff, 2, 0], &[2]).ints().expect("ints"),
        [-1, 2]
    );
    assert_eq!(
        read(">i4", &[0xff, 0xff, 0xff, 0xfe], &[1])
            .ints()
            .expect("ints"),
        [-2]
    );
    assert_eq!(
        read("|b1", &[1, 0], &[2]).bools().expect("ints"),
        [true, false]
    );
    assert_eq!(
        read("<u4", &[0xff; 4], &[1]).ints().expect("ints"),
        [i64::from(u32::MAX)]
    );
    assert!(read("<u8", &[0xff; 8], &[1]).ints().is_err());
    assert_eq!(read("<f8", &1.5f64.to_le_bytes(), &[1]).floats(), [1.5]);
    assert_eq!(read(">f4", &2.5f32.to_be_bytes(), &[1]).floats(), [2.5]);
    assert_eq!(read("<i8", &3i64.to_le_bytes(), &[]).floats(), [3.0]);
}

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
    let (_dir, path) = folder(files);
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
    let (_dir, path) = folder(&directed);
    assert_eq!(load_path(&path).expect("valid").graph.n_edges(), 3);

    let pairs = npy(
        "<i4",
        &[2, 2],
        &[0i32, 1, 1, 2].map(i32::to_le_bytes).concat(),
    );
    let masks = npy("|b1", &[3, 3], &[1, 0, 0, 0, 1, 0, 0, 0, 1]);
    let (_dir, path) = folder(&[
        ("edges.npy", &pairs),
        ("labels.txt", b"0 0\n1 1\n2 0\n"),
        ("masks.npy", &masks),
    ]);
    let d = load_path(&path).expect("valid");
    assert_eq!(
        (d.labels.as_slice(), d.test.as_slice()),
        (&[0, 1, 0][..], &[false, false, true][..])
    );
    assert_eq!(d.features, Features::identity(3));
}

#[test]
fn wrong_tables_are_refused_with_file_and_line() {
    let labels: (&str, &[u8]) = ("labels.csv", b"0\n1\n0\n");
    let says = |files: &[(&str, &[u8])], want: &str| {
        let (_dir, path) = folder(files);
        let e = load_path(&path).expect_err("a damaged folder");
        assert!(e.to_string().contains(want), "{e}");
        assert!(!e.help().is_empty());
    };
    says(
        &[labels],
        "edges: none of edges.csv, edges.txt, edges.npy is there",
    );
    says(&[("edges.csv", b"0,1\n")], "labels: none of");
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

#[test]
fn rows_are_normalised_and_selected_alike_dense_and_sparse() {
    let mut dense = Features::Dense(ndarray::array![[1.0, 3.0], [0.0, 0.0], [2.0, 0.0]]);
    let mut sparse = Features::Sparse(CsrBuf {
        indptr: vec![0, 2, 2, 3],
        indices: vec![0, 1, 0],
        weights: Some(vec![1.0, 3.0, 2.0]),
        n_cols: 2,
    });
    dense.row_normalise();
    sparse.row_normalise();
    assert_eq!(
        dense,
        Features::Dense(ndarray::array![[0.25, 0.75], [0.0, 0.0], [1.0, 0.0]])
    );
    let Features::Sparse(x) = sparse.select_rows(&[2, 0]) else {
        panic!("stays sparse")
    };
    assert_eq!(
        (x.indptr, x.indices, x.weights),
        (vec![0, 1, 3], vec![0, 0, 1], Some(vec![1.0, 0.25, 0.75]))
    );
    assert_eq!(
        dense.select_rows(&[2, 0]),
        Features::Dense(ndarray::array![[1.0, 0.0], [0.25, 0.75]])
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn damaged_archives_are_refused_or_read_but_never_panic(cut in 0.0f64..1.0, at in 0.0f64..1.0, bits in 0u8..=255, truncate: bool) {
        let mut zip = Arrays::valid().zip();
        if truncate {
            zip.truncate((zip.len() as f64 * cut) as usize);
        } else {
            let k = (zip.len() as f64 * at) as usize;
            zip[k] ^= bits;
        }
        let (_dir, path) = folder(&[("graph.npz", &zip)]);
        let result = load_path(&path);
        prop_assert!(!truncate || result.is_err());
    }

    #[test]
    fn any_text_is_refused_or_read_but_never_panics(edges in "[-0-9a-z,. \n#;]{0,60}", labels in "[-0-9, \n]{0,30}") {
        let (_dir, path) = folder(&[("edges.txt", edges.as_bytes()), ("labels.csv", labels.as_bytes())]);
        if let Ok(d) = load_path(&path) {
            d.check().expect("what was loaded is valid");
        }
    }

    #[test]
    fn any_bytes_as_an_array_never_panic(mut data in prop::collection::vec(any::<u8>(), 0..200), header: bool) {
        if header {
            let mut whole = npy("<f4", &[3, 2], &[]);
            whole.append(&mut data);
            data = whole;
        }
        if let Ok(array) = npy::read(&data[..], "f", "a") {
            array.floats();
            let _ = array.ints();
        }
    }
}

/// The folder with real data, if there is one.
fn real_data() -> Option<PathBuf> {
    let given = std::env::var_os("HALOBOOK_DATA").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    given.or(Some(beside)).filter(|p| p.join("cora").is_dir())
}

#[test]
fn real_data_sets_have_their_published_sizes() {
    let Some(folder) = real_data() else {
        eprintln!("SKIP: no real data; set HALOBOOK_DATA to its folder to run this test");
        return;
    };
    let load = |name: &str| load_path(&folder.join(name));
    let cora = load("cora").expect("a valid data set");
    assert_eq!(
        (cora.name.as_str(), cora.n(), cora.graph.n_edges()),
        ("cora", 2708, 10_556)
    );
    assert_eq!((cora.features.dim(), cora.n_classes), (1433, 7));
    let count = |m: &[bool]| m.iter().filter(|&&x| x).count();
    assert_eq!(
        (count(&cora.train), count(&cora.val), count(&cora.test)),
        (140, 500, 1000)
    );
    assert!(cora.graph.is_symmetric());
    for (name, n, edges, width, classes) in [
        ("squirrel", 5201, 396_706, 2089, 5),
        ("amazon_computers", 13_752, 491_722, 767, 10),
        ("coauthor_physics", 34_493, 495_924, 8415, 5),
    ] {
        let d = load(name).expect("a valid data set");
        assert_eq!(
            (d.n(), d.graph.n_edges(), d.features.dim(), d.n_classes),
            (n, edges, width, classes)
        );
        assert!(matches!(d.features, Features::Sparse(_)));
    }
    assert!(matches!(load("acm"), Err(Error::Unsupported { .. })));
}
