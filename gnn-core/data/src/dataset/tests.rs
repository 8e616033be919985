//! Data sets: built-in ones against their definition, readers against files written here, hostile
//! files against the promise that nothing panics and every message names file, array and index.
//! The real data behind `HALOBOOK_DATA` is optional; its test prints a skip.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::*;
use crate::load::{catalogue, load, load_for, load_split, load_within};
use crate::store::Verdicts;

mod damaged;
mod folder;
mod formats;
mod generated;
mod npz;
mod splits;
mod tables;
mod tasks;

/// A little data set as NumPy arrays that single tests damage.
struct Arrays(Vec<(String, Vec<u8>)>);

/// One `.npy` file.
fn array(descr: &str, shape: &[usize], data: &[u8]) -> Vec<u8> {
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
    array(
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
    array("<f4", &[rows, values.len() / rows], &data)
}

fn bytes(values: &[u8]) -> Vec<u8> {
    array("|u1", &[values.len()], values)
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
fn written(files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
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
    let (_dir, path) = written(&[("graph.npz", &arrays.zip())]);
    let e = load_path(&path).expect_err("a damaged data set");
    assert!(!e.to_string().contains('\n') && !e.help().is_empty() && !e.help().contains('\n'));
    assert!(
        e.to_string().contains("graph.npz") || !matches!(e, Error::Data { .. }),
        "{e}"
    );
    (e.to_string(), e.help())
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

/// The folder with real data, if there is one.
fn real_data() -> Option<PathBuf> {
    let given = std::env::var_os("HALOBOOK_DATA").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
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
    // Resources, people and predicates: 45 relations and their inverses.
    let aifb = load("aifb").expect("a valid data set");
    let relations = aifb.graph.relations().expect("typed");
    assert_eq!((aifb.n(), aifb.n_classes, relations.count()), (8285, 4, 90));
    assert_eq!(aifb.graph.n_edges(), 2 * 29_043);
    assert_eq!(aifb.node_types.as_ref().map(Vec::len), Some(8285));
    // Both directions are stored, as types of their own.
    let acm = load("acm").expect("a valid data set");
    let relations = acm.graph.relations().expect("typed");
    assert_eq!((acm.n(), relations.count()), (11_246, 4));
    assert_eq!(acm.graph.n_edges(), 34_852);
}

#[test]
fn real_splits_are_found_by_name() {
    let Some(folder) = real_data() else {
        eprintln!("SKIP: no real data; set HALOBOOK_DATA to its folder to run this test");
        return;
    };
    let of = |name: &str, split: &str| {
        let path = folder.join(name);
        let d = load_split(path.to_str().expect("UTF-8"), split, 0).expect("a valid split");
        d.check().expect("disjoint and labelled");
        [d.train, d.val, d.test].map(|m| m.iter().filter(|&&x| x).count())
    };
    assert_eq!(of("amazon_computers", "pc20")[..2], [200, 300]);
    assert_eq!(of("aifb", STANDARD), [112, 28, 36]);
    assert_eq!(of("aifb", "full"), [140, 0, 36]);
    assert_eq!(of("acm", "40")[0], 120);
    for k in 0..10 {
        assert_eq!(of("squirrel", &k.to_string()).iter().sum::<usize>(), 5201);
    }
    assert_ne!(of("squirrel", "0"), [0; 3]);
    let cora = DataSpec {
        data: &folder.join("cora").display().to_string(),
        task: TaskKind::Link,
        ..DataSpec::default()
    };
    let cora = load_for(cora, &Verdicts::none()).expect("a link split");
    let links = cora.links.expect("links");
    let sizes = [
        &links.train,
        &links.val,
        &links.test,
        &links.val_neg,
        &links.test_neg,
    ];
    assert_eq!(sizes.map(Vec::len), [4488, 263, 527, 263, 527]);
    assert_eq!(cora.graph.n_edges(), 2 * 4488);
}

#[test]
fn sparse_features_with_many_elements_are_stored_densely() {
    let sparse = |indices: Vec<u32>, n_cols: usize| {
        let values = (0..indices.len()).map(|k| k as f32 + 0.5).collect();
        Features::Sparse(CsrBuf {
            indptr: vec![0, indices.len() as u64, indices.len() as u64],
            indices,
            weights: Some(values),
            n_cols,
        })
    };
    // Two of eight elements, then two of ten.
    let mut many = sparse(vec![1, 3], 4);
    many.densify();
    let Features::Dense(x) = &many else {
        panic!("a quarter of them is enough")
    };
    assert_eq!(x.row(0).to_vec(), [0.0, 0.5, 0.0, 1.5]);
    assert_eq!(x.row(1).to_vec(), [0.0; 4]);
    let few = sparse(vec![1, 3], 5);
    let mut same = few.clone();
    same.densify();
    assert_eq!(same, few);
}
