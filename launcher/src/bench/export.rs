//! A data set as arrays that any Python reads: one `.npy` file each in a folder of this benchmark.

use crate::error::{Error, Result};
use gnn_core::dataset::{Dataset, Features};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A folder that goes when its owner does.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one below the system's temporary folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make() -> Result<Folder> {
        let name = format!("halobook-bench-{}", crate::store::new_id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(Error::io(&path))?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is for the system's own cleaning of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes the in-edges (`indptr`, `indices`), the features (`feat`; sparse ones as `feat_indptr`,
/// `feat_indices`, `feat_values` and the number of columns, `feat_dim`), the classes (`label`) and
/// the training mask (`train`) of `data` to `folder`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(data: &Dataset, folder: &Path) -> Result<()> {
    let (indptr, indices) = (data.graph.indptr(), data.graph.indices());
    let n = data.n();
    let array = |name: &str, kind: &str, shape: String, fill: &dyn Fn(&mut Out) -> _| {
        let path = folder.join(format!("{name}.npy"));
        npy(&path, kind, &shape, fill).map_err(Error::io(&path))
    };
    array("indptr", "<i8", format!("({},)", n + 1), &|out| {
        each(out, indptr, |&p| (p as i64).to_le_bytes())
    })?;
    array("indices", "<i8", format!("({},)", indices.len()), &|out| {
        each(out, indices, |&v| i64::from(v).to_le_bytes())
    })?;
    let dim = data.features.dim();
    if let Some(x) = data.features.dense() {
        array("feat", "<f4", format!("({n}, {dim})"), &|out| {
            each(out, x, |v| v.to_le_bytes())
        })?;
    } else {
        let rows: Vec<u32> = (0..n as u32).collect();
        let Features::Sparse(x) = data.features.select_rows(&rows) else {
            unreachable!("features that are not dense are sparse")
        };
        let count = x.indices.len();
        array("feat_dim", "<i8", "(1,)".into(), &|out| {
            each(out, &[dim as i64], |d| d.to_le_bytes())
        })?;
        array("feat_indptr", "<i8", format!("({},)", n + 1), &|out| {
            each(out, &x.indptr, |&p| (p as i64).to_le_bytes())
        })?;
        array("feat_indices", "<i8", format!("({count},)"), &|out| {
            each(out, &x.indices, |&c| i64::from(c).to_le_bytes())
        })?;
        let ones = vec![1f32; count];
        let values = x.weights.as_ref().unwrap_or(&ones);
        array("feat_values", "<f4", format!("({count},)"), &|out| {
            each(out, values, |v| v.to_le_bytes())
        })?;
    }
    array("label", "<i8", format!("({n},)"), &|out| {
        each(out, &data.labels, |&c| i64::from(c).to_le_bytes())
    })?;
    array("train", "|b1", format!("({n},)"), &|out| {
        each(out, &data.train, |&t| [u8::from(t)])
    })
}

/// Writes a list of vertices to `folder`, as `order`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_order(order: &[u32], folder: &Path) -> Result<()> {
    let path = folder.join("order.npy");
    let fill = |out: &mut Out| each(out, order, |&v| i64::from(v).to_le_bytes());
    npy(&path, "<i8", &format!("({},)", order.len()), &fill).map_err(Error::io(&path))
}

type Out = BufWriter<std::fs::File>;

fn each<'a, T: 'a, const N: usize>(
    out: &mut Out,
    values: impl IntoIterator<Item = &'a T>,
    bytes: impl Fn(&T) -> [u8; N],
) -> std::io::Result<()> {
    values
        .into_iter()
        .try_for_each(|value| out.write_all(&bytes(value)))
}

/// One array in NumPy's format, version 1: a magic, the length of a header padded to 64 bytes, the
/// header, the elements in C order.
fn npy(
    path: &Path,
    kind: &str,
    shape: &str,
    fill: &dyn Fn(&mut Out) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut out = BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(length as u16).to_le_bytes())?;
    writeln!(out, "{header:<width$}", width = length - 1)?;
    fill(&mut out)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_have_their_shapes_and_the_folder_goes() {
        let data = gnn_core::dataset::load("sbm:nodes=50,classes=3,feat=4,degree=6", 1)
            .expect("a built-in");
        let folder = Folder::make().expect("a folder");
        write(&data, folder.path()).expect("writes");
        let read = |name: &str| std::fs::read(folder.path().join(name)).expect("a file");
        let (feat, indptr, train) = (read("feat.npy"), read("indptr.npy"), read("train.npy"));
        for (bytes, shape, elements) in [
            (&feat, "(50, 4)", 800),
            (&indptr, "(51,)", 408),
            (&train, "(50,)", 50),
        ] {
            let length = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
            assert_eq!(length % 64, 0);
            let header = String::from_utf8_lossy(&bytes[10..length]).into_owned();
            assert!(
                header.contains(shape) && header.ends_with('\n'),
                "{header:?}"
            );
            assert_eq!(bytes.len() - length, elements);
        }
        let last: [u8; 8] = indptr[indptr.len() - 8..].try_into().expect("eight bytes");
        assert_eq!(i64::from_le_bytes(last), data.graph.n_edges() as i64);
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn sparse_features_are_written_as_rows_of_elements() {
        let data = gnn_core::dataset::load("karate", 0).expect("a built-in");
        let folder = Folder::make().expect("a folder");
        write(&data, folder.path()).expect("writes");
        let elements = |name: &str, each: usize| {
            let bytes = std::fs::read(folder.path().join(name)).expect("a file");
            let length = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
            (bytes.len() - length) / each
        };
        assert!(!folder.path().join("feat.npy").exists());
        // One column a vertex.
        assert_eq!(elements("feat_dim.npy", 8), 1);
        assert_eq!(elements("feat_indptr.npy", 8), 35);
        assert_eq!(elements("feat_indices.npy", 8), 34);
        assert_eq!(elements("feat_values.npy", 4), 34);
    }
}
