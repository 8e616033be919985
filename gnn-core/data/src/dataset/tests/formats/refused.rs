//! Text that is none, and elements of other types and orders: read, or refused with the place.

use super::hostile::{load_small, refused};
use super::made::npz;
use super::small::folder;
use super::*;

#[test]
fn text_that_is_no_text_is_refused_with_its_line() {
    let says = |name: &str, content: &[u8], want: &str| {
        let message = refused(name, content);
        assert!(message.contains(want), "{message}");
    };
    says("a.txt", b"0 1\n\xff\xfe\n", "line 2: is not UTF-8 text");
    says("a.txt", b"0 1\n2\n", "line 2: has fewer than two fields");
    says(
        "a.txt",
        b"0 1\nx 2\n",
        "line 2: 'x' is not a whole number like the ids before",
    );
    says("a.txt", b"0 1\n-2 2\n", "vertex -2 is negative");
    says("a.txt", b"# nothing\n", "holds no edge");
    says(
        "a.txt",
        b"0 1\n0 \x07\n",
        "line 2: '\\u{7}' is not a whole number",
    );
    says(
        "a.txt",
        b"0 9223372036854775808\n1 2\n",
        "'9223372036854775808' is not a whole number",
    );
    says("a.nt", b"<a> <b> .\n", "is not a triple");
    says("a.nt", b"\"a\" <b> <c> .\n", "is not a triple");
    says("a.nt", b"<a> <b> \"c .\n", "is not a triple");
    says(
        "out1_graph_edges.txt",
        b"node_id\tnode_id\n0\t1\n0\t-1\n",
        "line 3: '0\\t-1' is not an edge",
    );
    says("a.mtx", b"hello\n", "is not the first line of a matrix");
    says(
        "a.mtx",
        b"%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 1\n",
        "ends after 1 of 2 entries",
    );
    says(
        "a.mtx",
        b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n3 1\n",
        "outside 1..=2",
    );
    says(
        "train2id.txt",
        b"2\n0 1 0\n",
        "the first line says 2 lines, there are 1",
    );
    says("train2id.txt", b"1\n0 1\n", "'0 1' is not a triple");
}

#[test]
fn types_of_elements_are_read_or_refused_whatever_their_order() {
    let big = |descr: &str, shape: &[usize], data: &[u8]| array(descr, shape, data);
    let labels = [0i64, 1, 0].map(i64::to_be_bytes).concat();
    let features = [1f32, 0.0, 0.5, 0.5, 0.0, 2.0]
        .map(f32::to_be_bytes)
        .concat();
    let edges = [0u16, 1, 1, 2].map(u16::to_be_bytes).concat();
    let mask = |x: &[u8]| array("|b1", &[1, 3], x);
    let with = |labels: Vec<u8>, val: &str| {
        npz(&[
            ("node_labels", labels),
            ("node_features", big(">f4", &[3, 2], &features)),
            ("edges", big(">u2", &[2, 2], &edges)),
            ("train_masks", mask(&[1, 0, 0])),
            (val, mask(&[0, 1, 0])),
            ("test_masks", mask(&[0, 0, 1])),
        ])
    };
    let (_dir, path) = written(&[("a.npz", &with(big(">i8", &[3], &labels), "val_masks"))]);
    let d = load_small(&path).expect("big-endian numbers");
    let (_dir, path) = folder(&made::heterophilous());
    let little = load_small(&path).expect("little-endian numbers");
    assert_eq!(
        (d.graph, d.features, d.labels),
        (little.graph, little.features, little.labels)
    );
    let says = |content: Vec<u8>, want: &str| {
        let message = refused("a.npz", &content);
        assert!(message.contains(want), "{message}");
    };
    says(
        with(big(">f8", &[3], &labels), "val_masks"),
        "node_labels: holds floats; expected integers",
    );
    says(
        with(big("<c8", &[3], &labels), "val_masks"),
        "holds elements of type <c8",
    );
    // A part that is absent is the file's fault, not the request's.
    says(
        with(big(">i8", &[3], &labels), "val_mask"),
        "val_masks: is missing (there is 'val_mask')",
    );
}
