//! The `.npz` reader: what is written is read, what is wrong is named.

use super::*;
use crate::dataset::npy;

#[test]
fn an_npz_is_read_as_written() {
    let (_dir, path) = written(&[("graph.npz", &Arrays::valid().zip())]);
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
    let (_dir, path) = written(&[("graph.npz", &bare.zip())]);
    assert_eq!(
        load_path(&path).expect("featureless").features,
        Features::Identity(4)
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
                array(
                    "<f4",
                    &[5],
                    &[1.0f32, 0.5, 0.5, 3.0, 1.0].map(f32::to_le_bytes).concat(),
                ),
            )
            .with("feat_shape", ints(&[4, 2]))
    };
    let (_dir, path) = written(&[("graph.npz", &sparse(&[0, 0, 1, 0, 1]).zip())]);
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
    let nan = array(
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
    says(
        valid().with("edge_type", ints(&[0; 5])),
        "edge_type: expected 6 elements like edge_src, got 5",
    );
    says(
        valid().with("edge_type", ints(&[0, 0, 0, -1, 0, 0])),
        "edge_type[3]: type -1 is outside 0..",
    );
    says(
        valid().with("edge_type", ints(&[0, 0, 0, 1 << 20, 0, 0])),
        "edge_type[3]: type 1048576 is outside 0..",
    );
    says(
        valid().with("node_type", ints(&[0; 3])),
        "node_type: expected 4 rows",
    );
    says(
        valid().with("label", array("|i1", &[4, 2], &[0, 1, 1, 1, 2, 0, 0, 1])),
        "label[2, 0]: 2 is neither 0 nor 1",
    );
    says(
        valid().with("label", array("|i1", &[4, 2], &[0, 1, 1, 1, 255, 0, 0, 1])),
        "label[2, 1]: 0 is neither 0 nor 1",
    );
    says(
        valid().with("label", array("|i1", &[4, 0], &[])),
        "label: has 0 columns",
    );
    says(
        valid().with("label", array("|O", &[4], b"")),
        "holds elements of type |O",
    );
    says(
        valid().with("label", ints(&[0, 1, -1, 1])[..100].to_vec()),
        "label: ",
    );
    says(
        valid().with("label", array("<i8", &[usize::MAX / 2], b"")),
        "claims the shape",
    );
    says(
        valid().with("label", array("<i8", &[4], &[0; 40])),
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
    let (_dir, path) = written(&[("graph.npz", &zip), ("meta.json", b"{\"num_classes\": 1}")]);
    assert!(
        load_path(&path)
            .unwrap_err()
            .to_string()
            .contains("label[1]: class 1 is outside 0..1")
    );
    let (_dir, path) = written(&[
        ("graph.npz", &zip),
        ("meta.json", b"{\"num_classes\": 5, \"x\": [1]}"),
    ]);
    assert_eq!(
        load_path(&path).expect("more classes than used").n_classes,
        5
    );
    let (_dir, path) = written(&[("graph.npz", &zip), ("meta.json", b"{\"num_classes\"")]);
    assert!(
        load_path(&path)
            .unwrap_err()
            .to_string()
            .contains("meta.json: line 1")
    );
}

/// An archive with two members of that name. The writer refuses a second one, so names of the same length are
/// patched.
fn with_two(name: &[u8]) -> Vec<u8> {
    let other = |last: &str| "x".repeat(name.len() - 5) + last;
    let zip = Arrays::valid()
        .with(&other("1"), ints(&[0]))
        .with(&other("2"), ints(&[0]));
    let mut zip = zip.without("label").zip();
    for last in ["1", "2"] {
        let own = other(last) + ".npy";
        while let Some(at) = zip.windows(name.len()).position(|w| w == own.as_bytes()) {
            zip[at..at + name.len()].copy_from_slice(name);
        }
    }
    zip
}

#[test]
fn an_array_that_is_there_twice_is_refused() {
    let said: [(&[u8], &str); 3] = [
        (b"label.npy", "graph.npz: label: is there twice"),
        (b"lab\nl.npy", "graph.npz: lab\\nl: is there twice"),
        (
            b".npy.npy",
            "graph.npz: archive: two arrays are without a name",
        ),
    ];
    for (name, end) in said {
        let (_dir, path) = written(&[("graph.npz", &with_two(name))]);
        let e = load_path(&path).expect_err("two arrays of one name");
        let e = e.to_string();
        assert!(e.ends_with(end), "{e}");
    }
}

#[test]
fn numbers_of_every_type_and_order_are_read() {
    let read = |descr: &str, data: &[u8], shape: &[usize]| {
        npy::read(&array(descr, shape, data)[..], "f", "a", &Limit::machine()).expect("valid")
    };
    assert_eq!(
        read("<i2", &[0xff, 0xff, 2, 0], &[2])
            .into_ints()
            .expect("ints"),
        [-1, 2]
    );
    assert_eq!(
        read(">i4", &[0xff, 0xff, 0xff, 0xfe], &[1])
            .into_ints()
            .expect("ints"),
        [-2]
    );
    assert_eq!(
        read("|b1", &[1, 0], &[2]).into_bools().expect("ints"),
        [true, false]
    );
    assert_eq!(
        read("<u4", &[0xff; 4], &[1]).into_ints().expect("ints"),
        [i64::from(u32::MAX)]
    );
    assert!(read("<u8", &[0xff; 8], &[1]).into_ints().is_err());
    assert_eq!(
        read("<f8", &1.5f64.to_le_bytes(), &[1]).into_floats(),
        [1.5]
    );
    assert_eq!(
        read(">f4", &2.5f32.to_be_bytes(), &[1]).into_floats(),
        [2.5]
    );
    assert_eq!(read("<i8", &3i64.to_le_bytes(), &[]).into_floats(), [3.0]);
}

#[test]
fn the_names_of_pyg_and_dgl_are_read() {
    let expected = {
        let (_dir, path) = written(&[("graph.npz", &Arrays::valid().zip())]);
        load_path(&path).expect("valid")
    };
    let index = |shape: &[usize], ends: [i64; 12]| {
        let data: Vec<u8> = ends.iter().flat_map(|v| v.to_le_bytes()).collect();
        array("<i8", shape, &data)
    };
    let valid = Arrays::valid();
    let own = |name: &str| {
        valid
            .0
            .iter()
            .find(|(n, _)| n == name)
            .expect(name)
            .1
            .clone()
    };
    let pyg = || {
        let bare = ["edge_src", "edge_dst", "label", "feat"];
        let bare = bare
            .iter()
            .fold(Arrays::valid(), |arrays, name| arrays.without(name));
        bare.with("x", own("feat")).with("y", own("label"))
    };
    let rows = pyg().with(
        "edge_index",
        index(&[2, 6], [0, 1, 1, 2, 2, 3, 1, 0, 2, 1, 3, 2]),
    );
    let pairs = pyg().with(
        "edge_index",
        index(&[6, 2], [0, 1, 1, 0, 1, 2, 2, 1, 2, 3, 3, 2]),
    );
    let dgl = pyg()
        .with("src", own("edge_src"))
        .with("dst", own("edge_dst"));
    let column = pyg()
        .with(
            "edge_index",
            index(&[2, 6], [0, 1, 1, 2, 2, 3, 1, 0, 2, 1, 3, 2]),
        )
        .with(
            "y",
            array(
                "<i8",
                &[4, 1],
                &[0_i64, 1, -1, 1].map(i64::to_le_bytes).concat(),
            ),
        );
    for arrays in [rows, pairs, dgl, column] {
        let (_dir, path) = written(&[("mine.npz", &arrays.zip())]);
        let read = load_path(&path).expect("names of others");
        assert_eq!(
            (&read.graph, &read.features),
            (&expected.graph, &expected.features)
        );
        assert_eq!(
            (&read.labels, &read.train),
            (&expected.labels, &expected.train)
        );
    }
    let wrong = pyg().with("edge_index", index(&[3, 4], [0; 12]));
    assert!(refusal(wrong).0.contains("expected (2, edges), got [3, 4]"));
}
