//! Data sets: built-in ones against their definition, readers against files written here, hostile
//! files against the promise that nothing panics and every message names file, array and index.
//! The real data behind `HALOBOOK_DATA` is optional; its test prints a skip.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::*;

mod damaged;
mod folder;
mod generated;
mod npz;

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
