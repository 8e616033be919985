//! Files of the published formats, made on the spot: small, whole, and easy to damage.

use std::io::Write;

use super::super::{array, ints};
use super::py;

/// Packs with gzip.
pub(super) fn gz(data: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    to.write_all(data).expect("memory");
    to.finish().expect("memory")
}

/// Packs with Zstandard.
pub(super) fn zst(data: &[u8]) -> Vec<u8> {
    zstd::encode_all(data, 3).expect("memory")
}

/// A zip of members.
pub(super) fn zipped(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in members {
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file(*name, options).expect("unique names");
        zip.write_all(content).expect("memory");
    }
    zip.finish().expect("memory").into_inner()
}

/// An `.npz` of arrays.
pub(super) fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let named: Vec<(String, Vec<u8>)> = arrays
        .iter()
        .map(|(n, a)| (format!("{n}.npy"), a.clone()))
        .collect();
    let members: Vec<(&str, Vec<u8>)> =
        named.iter().map(|(n, a)| (n.as_str(), a.clone())).collect();
    zipped(&members)
}

/// Files by path within the folder of a data set.
pub(super) type Files = Vec<(String, Vec<u8>)>;

fn named(files: Vec<(&str, Vec<u8>)>) -> Files {
    files.into_iter().map(|(n, f)| (n.to_owned(), f)).collect()
}

/// Planetoid with a gap: vertices 0 to 3 known, 5 and 7 tested, 4 and 6 without features and class.
pub(super) fn planetoid() -> Files {
    let pickles = [
        ("x", py::rows(&[Some(0), Some(1)], 3)),
        ("y", py::one_hot(&[Some(0), Some(1)], 2)),
        ("allx", py::rows(&[Some(0), Some(1), None, Some(2)], 3)),
        ("ally", py::one_hot(&[Some(0), Some(1), Some(1), None], 2)),
        ("tx", py::rows(&[Some(2), Some(0)], 3)),
        ("ty", py::one_hot(&[Some(1), Some(0)], 2)),
        (
            "graph",
            py::neighbours(&[(0, &[1, 1, 7]), (1, &[0]), (5, &[2, 5]), (7, &[0])]),
        ),
    ];
    let pickled = pickles.map(|(n, p)| (format!("ind.tiny.{n}"), py::pickle(&p)));
    let mut files = pickled.to_vec();
    files.push(("ind.tiny.test.index".into(), b"7\n5\n".to_vec()));
    files
}

/// A gnn-benchmark file, with an array of objects in it.
pub(super) fn benchmark() -> Files {
    let floats = |x: &[f32]| {
        array(
            "<f4",
            &[x.len()],
            &x.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>(),
        )
    };
    let arrays = [
        ("adj_data", floats(&[1.0; 3])),
        ("adj_indices", ints(&[1, 2, 2])),
        ("adj_indptr", ints(&[0, 2, 3, 3])),
        ("adj_shape", ints(&[3, 3])),
        ("attr_data", floats(&[2.0, 3.0])),
        ("attr_indices", ints(&[3, 0])),
        ("attr_indptr", ints(&[0, 1, 2, 2])),
        ("attr_shape", ints(&[3, 4])),
        ("labels", ints(&[1, 0, 1])),
        ("node_names", array("|O", &[3], b"cposix\nsystem\n")),
    ];
    named(vec![("tiny.npz", npz(&arrays))])
}

/// A heterophilous-graphs file with two splits.
pub(super) fn heterophilous() -> Files {
    let mask = |x: &[u8]| array("|b1", &[2, 3], x);
    let features: Vec<u8> = [1f32, 0.0, 0.5, 0.5, 0.0, 2.0]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let edges: Vec<u8> = [0i64, 1, 1, 2]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let arrays = [
        ("node_features", array("<f4", &[3, 2], &features)),
        ("node_labels", ints(&[0, 1, 0])),
        ("edges", array("<i8", &[2, 2], &edges)),
        ("train_masks", mask(&[1, 0, 0, 0, 1, 0])),
        ("val_masks", mask(&[0, 1, 0, 0, 0, 1])),
        ("test_masks", mask(&[0, 0, 1, 1, 0, 0])),
    ];
    named(vec![("tiny.npz", npz(&arrays))])
}

/// Geom-GCN's text files with one split.
pub(super) fn geom_gcn() -> Files {
    let mask = |x: &[u8]| array("|u1", &[3], x);
    let split = npz(&[
        ("train_mask", mask(&[1, 0, 0])),
        ("val_mask", mask(&[0, 1, 0])),
        ("test_mask", mask(&[0, 0, 1])),
    ]);
    named(vec![
        (
            "out1_graph_edges.txt",
            b"node_id\tnode_id\n0\t1\n1\t0\n1\t2\n2\t2\n".to_vec(),
        ),
        (
            "out1_node_feature_label.txt",
            b"node_id\tfeature\tlabel\n1\t0,1,0\t1\n0\t1,0,0\t0\n2\t0,0.5,2\t1\n".to_vec(),
        ),
        ("tiny_split_0.6_0.2_3.npz", split),
    ])
}

/// A MUSAE folder.
pub(super) fn musae() -> Files {
    named(vec![
        ("tiny_edges.csv", b"id1,id2\n0,1\n1,2\n".to_vec()),
        ("tiny_target.csv", b"id,target\n0,10\n2,20\n1,10\n".to_vec()),
        (
            "tiny_features.json",
            b"{\"2\": [3, 1, 3], \"0\": []}".to_vec(),
        ),
    ])
}

/// A knowledge graph.
pub(super) fn openke() -> Files {
    named(vec![
        ("train2id.txt", b"3\n0 1 0\n1 2 1\n3 0 1\n".to_vec()),
        ("valid2id.txt", b"1\n0 2 1\n".to_vec()),
        ("test2id.txt", b"1\n1 3 0\n".to_vec()),
        (
            "entity2id.txt",
            b"5\nb x\t1\na\t0\nc\t2\nd\t3\ne\t4\n".to_vec(),
        ),
        ("relation2id.txt", b"2\nnext\t0\nlikes\t1\n".to_vec()),
    ])
}

/// RDF with a split.
pub(super) fn rdf() -> Files {
    let text = b"# a comment\n<http://a> <http://p> <http://b> .\n<http://a> <http://q> \"a \\\"quoted\\\" text\"@en .\n_:x <http://p> \"5\"^^<http://int> .\n<http://b> <http://p> _:x . # more\n";
    named(vec![
        ("tiny_stripped.nt.gz", gz(text)),
        (
            "tiny.trainingSet.tsv",
            b"id\tthing\tlabel_kind\n1\thttp://a\tgood\n".to_vec(),
        ),
        (
            "tiny.testSet.tsv",
            b"id\tthing\tlabel_kind\n2\thttp://b\tbad\n".to_vec(),
        ),
    ])
}

/// A symmetric matrix.
pub(super) fn matrix_market() -> Files {
    let text = "%%MatrixMarket matrix coordinate real symmetric\n% from somewhere\n4 4 3\n2 1 0.5\n3 1 1e3\n4 4 1\n";
    named(vec![("tiny.mtx", text.into())])
}

/// An edge list with names, packed.
pub(super) fn edge_list() -> Files {
    named(vec![(
        "links.tsv.zst",
        zst(b"# people\nNew York\tBoston\t3\nBoston\tYork\t1\n"),
    )])
}

/// A node folder of OGB.
pub(super) fn ogb_node() -> Files {
    let files: [(&str, &[u8]); 9] = [
        ("raw/edge.csv.gz", b"0,1\n1,2\n3,1\n"),
        ("raw/num-node-list.csv.gz", b"4\n"),
        ("raw/num-edge-list.csv.gz", b"3\n"),
        ("raw/node-feat.csv.gz", b"0.5,1\n-1e-3,2\n0,3\n4,5\n"),
        ("raw/node-label.csv.gz", b"4\n0\n1\n4\n"),
        ("raw/node_year.csv.gz", b"2013\n2014\n2015\n2016\n"),
        ("split/time/train.csv.gz", b"0\n1\n"),
        ("split/time/valid.csv.gz", b"2\n"),
        ("split/time/test.csv.gz", b"3\n"),
    ];
    files
        .iter()
        .map(|(n, f)| ((*n).to_owned(), gz(f)))
        .collect()
}

/// The same as arrays, as ogbn-papers100M is.
pub(super) fn ogb_binary() -> Files {
    let mut files = ogb_node();
    files.retain(|(n, _)| n.starts_with("split"));
    let floats = |shape: &[usize], x: &[f32]| {
        array(
            "<f4",
            shape,
            &x.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>(),
        )
    };
    let ends: Vec<u8> = [0i64, 1, 3, 1, 2, 1]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let data = npz(&[
        ("edge_index", array("<i8", &[2, 3], &ends)),
        ("num_nodes_list", ints(&[4])),
        ("num_edges_list", ints(&[3])),
        (
            "node_feat",
            floats(&[4, 2], &[0.5, 1.0, -1e-3, 2.0, 0.0, 3.0, 4.0, 5.0]),
        ),
        ("node_year", ints(&[2013, 2014, 2015, 2016])),
    ]);
    let label = npz(&[("node_label", floats(&[4, 1], &[4.0, 0.0, 1.0, 4.0]))]);
    files.push(("raw/data.npz".into(), data));
    files.push(("raw/node-label.npz".into(), label));
    files
}

/// A link folder of OGB: training pairs as NumPy arrays in the old form of PyTorch, the others as
/// tensors in zips.
pub(super) fn ogb_link() -> Files {
    let mut files = ogb_node();
    files.retain(|(n, _)| n.starts_with("raw/") && !n.contains("label"));
    let old = [
        py::pickle(b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19"),
        py::pickle(&py::int(1001)),
        py::pickle(&py::dict(&[(py::text("little_endian"), b"\x88".to_vec())])),
        py::pickle(&py::dict(&[
            (
                py::text("edge"),
                py::array(
                    "<i8",
                    &[2, 2],
                    &[0i64, 1, 1, 2].map(i64::to_le_bytes).concat(),
                    true,
                ),
            ),
            (py::text("weight"), py::array("<f4", &[2], &[0; 8], true)),
        ])),
        py::pickle(b"]"),
    ];
    files.push(("split/time/train.pt".into(), old.concat()));
    for (part, edge, negative) in [("valid", [3i64, 1], [0i64, 3]), ("test", [0, 2], [2, 3])] {
        let dict = py::dict(&[
            (py::text("edge"), py::tensor("LongStorage", "0", &[1, 2], 2)),
            (
                py::text("edge_neg"),
                py::tensor("LongStorage", "1", &[1, 2], 2),
            ),
        ]);
        let zip = zipped(&[
            ("archive/data.pkl", py::pickle(&dict)),
            ("archive/data/0", edge.map(i64::to_le_bytes).concat()),
            ("archive/data/1", negative.map(i64::to_le_bytes).concat()),
            ("archive/version", b"3\n".to_vec()),
        ]);
        files.push((format!("split/time/{part}.pt"), zip));
    }
    files
}

/// A heterogeneous folder of OGB, like ogbn-mag: papers have features and classes, authors not.
pub(super) fn ogb_mag() -> Files {
    let files: [(&str, &[u8]); 13] = [
        ("raw/num-node-dict.csv.gz", b"paper,author\n3,2\n"),
        (
            "raw/triplet-type-list.csv.gz",
            b"paper,cites,paper\nauthor,writes,paper\n",
        ),
        (
            "raw/relations/author___writes___paper/edge.csv.gz",
            b"0,0\n1,2\n0,2\n",
        ),
        (
            "raw/relations/author___writes___paper/num-edge-list.csv.gz",
            b"3\n",
        ),
        (
            "raw/relations/paper___cites___paper/edge.csv.gz",
            b"0,1\n2,1\n",
        ),
        (
            "raw/relations/paper___cites___paper/num-edge-list.csv.gz",
            b"2\n",
        ),
        ("raw/node-feat/paper/node-feat.csv.gz", b"1,2\n3,4\n5,6\n"),
        (
            "raw/nodetype-has-label.csv.gz",
            b"paper,author\nTrue,False\n",
        ),
        ("raw/node-label/paper/node-label.csv.gz", b"0\n1\n0\n"),
        (
            "split/time/nodetype-has-split.csv.gz",
            b"paper,author\nTrue,False\n",
        ),
        ("split/time/paper/train.csv.gz", b"0\n"),
        ("split/time/paper/valid.csv.gz", b"1\n"),
        ("split/time/paper/test.csv.gz", b"2\n"),
    ];
    files
        .iter()
        .map(|(n, f)| ((*n).to_owned(), gz(f)))
        .collect()
}

/// Every format with a name.
pub(super) fn all() -> Vec<(&'static str, Files)> {
    vec![
        ("planetoid", planetoid()),
        ("benchmark", benchmark()),
        ("heterophilous", heterophilous()),
        ("geom-gcn", geom_gcn()),
        ("musae", musae()),
        ("openke", openke()),
        ("rdf", rdf()),
        ("matrix market", matrix_market()),
        ("edge list", edge_list()),
        ("ogb node", ogb_node()),
        ("ogb binary", ogb_binary()),
        ("ogb link", ogb_link()),
        ("ogb mag", ogb_mag()),
    ]
}
