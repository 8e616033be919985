//! The project's `.npz` layout: a zip of NumPy arrays.
//!
//! `edge_src`, `edge_dst` `[E]` (both directions stored), `label` `[N]` (-1 unlabelled),
//! `train_mask`, `val_mask`, `test_mask` `[N]`, and the features either dense as `feat` `[N, F]`,
//! or as compressed rows in `feat_indptr` `[N + 1]`, `feat_indices`, `feat_data`, `feat_shape`
//! `[2]`, or not at all (then one-hot). Other arrays are left alone.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use kernels::{CsrBuf, Mat};

use crate::dataset::meta::Meta;
use crate::dataset::npy::{self, Array, MAX_BYTES};
use crate::dataset::{Dataset, Features, Task, bad, check};
use crate::graph::{EdgeOptions, Graph};
use crate::{Error, Result};

/// Bytes that one byte of a deflated file can grow to.
const MAX_RATIO: u64 = 1032;

/// Bytes of a zip's table of contents at most.
const MAX_DIRECTORY: u64 = 16 << 20;

/// An opened archive.
struct Archive {
    file: String,
    zip: zip::ZipArchive<BufReader<File>>,
}

/// Loads the data set in the file `path`.
pub(super) fn load(path: &Path) -> Result<Dataset> {
    let mut archive = Archive::open(path)?;
    let file = archive.file.clone();
    if archive.has("edge_type") {
        return Err(Error::Unsupported {
            what: file,
            reason: "has edge types, and heterogeneous graphs cannot be trained on yet".into(),
            help: "remove the arrays edge_type and node_type to train on it as one plain graph"
                .into(),
        });
    }
    let label = archive.vector("label")?.ints()?;
    let declared = Meta::beside(path)?.num_classes;
    let (labels, n_classes) = check::labels(&file, &label, declared)?;
    let n = labels.len();
    let graph = {
        let src = check::edges(&file, "edge_src", &archive.vector("edge_src")?.ints()?, n)?;
        let dst = check::edges(&file, "edge_dst", &archive.vector("edge_dst")?.ints()?, n)?;
        if src.len() != dst.len() {
            let reason = format!(
                "expected {} elements like edge_src, got {}",
                src.len(),
                dst.len()
            );
            return Err(bad(
                &file,
                "edge_dst",
                reason,
                "save both ends of every edge",
            ));
        }
        Graph::from_edges(n, &src, &dst, EdgeOptions::AS_IS)?
    };
    let features = features(&mut archive, n)?;
    let mut mask = |name| archive.vector(name)?.bools();
    let (train, val, test) = (mask("train_mask")?, mask("val_mask")?, mask("test_mask")?);
    let folder = path
        .parent()
        .and_then(Path::file_name)
        .filter(|_| path.ends_with("graph.npz"));
    let name = folder
        .or(path.file_stem())
        .map(|s| s.to_string_lossy().into_owned());
    let dataset = Dataset {
        name: name.unwrap_or_else(|| file.clone()),
        graph,
        features,
        labels,
        n_classes,
        train,
        val,
        test,
        synthetic: false,
        task: Task::NodeClassification,
    };
    Ok(dataset)
}

fn features(archive: &mut Archive, n: usize) -> Result<Features> {
    let file = archive.file.clone();
    let (dense, sparse) = (archive.has("feat"), archive.has("feat_data"));
    if dense && sparse {
        return Err(bad(
            &file,
            "feat",
            "is there beside feat_data",
            "keep either the dense or the sparse features",
        ));
    }
    if dense {
        let feat = archive.array("feat")?;
        feat.expect_dims(2)?;
        check::length(&file, "feat", n, feat.shape[0])?;
        let x = Mat::from_shape_vec((n, feat.shape[1]), feat.floats());
        return Ok(Features::Dense(
            x.expect("an array holds as many elements as its shape says"),
        ));
    }
    if !sparse {
        return Ok(Features::identity(n));
    }
    let shape = archive.vector("feat_shape")?.ints()?;
    let cols = match shape[..] {
        [rows, cols] if rows == n as i64 && (1..=i64::from(u32::MAX)).contains(&cols) => {
            cols as usize
        }
        _ => {
            let reason = format!("expected ({n}, features), got {shape:?}");
            return Err(bad(
                &file,
                "feat_shape",
                reason,
                "save (vertices, features)",
            ));
        }
    };
    let (indptr, indices) = (
        archive.vector("feat_indptr")?.ints()?,
        archive.vector("feat_indices")?.ints()?,
    );
    check::length(&file, "feat_indptr", n + 1, indptr.len())?;
    let out = |(e, x): (usize, i64)| {
        let reason = format!("column {x} is outside 0..{cols}");
        bad(
            &file,
            format!("feat_indices[{e}]"),
            reason,
            "number the features from 0",
        )
    };
    if let Some(wrong) = indices
        .iter()
        .copied()
        .enumerate()
        .find(|&(_, c)| c < 0 || c >= cols as i64)
    {
        return Err(out(wrong));
    }
    if let Some(v) = indptr.iter().position(|&p| p < 0) {
        let reason = format!("{} is negative", indptr[v]);
        return Err(bad(
            &file,
            format!("feat_indptr[{v}]"),
            reason,
            "save the row starts of compressed rows",
        ));
    }
    let x = CsrBuf {
        indptr: indptr.into_iter().map(|p| p as u64).collect(),
        indices: indices.into_iter().map(|c| c as u32).collect(),
        weights: Some(archive.vector("feat_data")?.floats()),
        n_cols: cols,
    };
    Ok(Features::Sparse(x))
}

impl Archive {
    fn open(path: &Path) -> Result<Archive> {
        let file = path.display().to_string();
        let mut from = BufReader::new(File::open(path).map_err(|e| Error::io(path, e))?);
        let help = "copy or download the file again";
        refuse_repeats(&mut from, &file).map_err(|e| Error::io(path, e))??;
        let zip = zip::ZipArchive::new(from).map_err(|e| {
            bad(
                &file,
                "archive",
                format!("cannot be read, is it truncated? ({e})"),
                help,
            )
        })?;
        Ok(Archive { file, zip })
    }

    fn has(&self, name: &str) -> bool {
        self.zip.index_for_name(&format!("{name}.npy")).is_some()
    }

    fn array(&mut self, name: &str) -> Result<Array> {
        let file = self.file.as_str();
        if self.zip.index_for_name(&format!("{name}.npy")).is_none() {
            let names: Vec<&str> = self
                .zip
                .file_names()
                .map(|n| n.trim_end_matches(".npy"))
                .collect();
            let near = crate::error::nearest(name, names.iter().copied());
            let near = near
                .map(|n| format!(" (there is '{n}')"))
                .unwrap_or_default();
            return Err(bad(
                file,
                name,
                format!("is missing{near}"),
                format!("save the array under the name {name}"),
            ));
        }
        let help = "copy or download the file again";
        let entry = self
            .zip
            .by_name(&format!("{name}.npy"))
            .map_err(|e| bad(file, name, format!("cannot be read: {e}"), help))?;
        let (size, packed) = (entry.size(), entry.compressed_size());
        if size > MAX_BYTES || size > packed.saturating_mul(MAX_RATIO).saturating_add(1024) {
            let reason = format!("claims {size} bytes from {packed} packed ones");
            return Err(bad(
                file,
                name,
                reason,
                "save the array again; this file is damaged or hostile",
            ));
        }
        // One byte more than claimed, so that more data than claimed is noticed and not just cut.
        npy::read(entry.take(size + 1), file, name)
    }

    fn vector(&mut self, name: &str) -> Result<Array> {
        let array = self.array(name)?;
        array.expect_dims(1)?;
        Ok(array)
    }
}

/// Refuses a zip that holds two arrays of one name, which readers otherwise resolve silently and
/// differently. Walks the table of contents at the end of the file; a damaged or 64-bit one is
/// left to the zip reader.
fn refuse_repeats(from: &mut (impl Read + Seek), file: &str) -> std::io::Result<Result<()>> {
    let len = from.seek(SeekFrom::End(0))?;
    let tail = len.min(22 + 65_535);
    from.seek(SeekFrom::Start(len - tail))?;
    let mut end = Vec::new();
    from.by_ref().take(tail).read_to_end(&mut end)?;
    let word = |b: &[u8], at: usize| {
        u64::from(u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]))
    };
    let found = (0..end.len().saturating_sub(21))
        .rev()
        .find(|&k| end[k..].starts_with(b"PK\x05\x06"));
    let directory = found.map(|k| (word(&end, k + 12), word(&end, k + 16)));
    let Some((size, start)) =
        directory.filter(|&(size, start)| size <= MAX_DIRECTORY && start + size <= len)
    else {
        from.rewind()?;
        return Ok(Ok(()));
    };
    from.seek(SeekFrom::Start(start))?;
    let mut entries = Vec::new();
    from.by_ref().take(size).read_to_end(&mut entries)?;
    from.rewind()?;
    let mut rest = &entries[..];
    let mut seen = HashSet::new();
    while rest.len() >= 46 && rest.starts_with(b"PK\x01\x02") {
        let short = |at: usize| usize::from(u16::from_le_bytes([rest[at], rest[at + 1]]));
        let (name, whole) = (short(28), 46 + short(28) + short(30) + short(32));
        if rest.len() < whole {
            break;
        }
        let name = &rest[46..46 + name];
        if !seen.insert(name) {
            let place = String::from_utf8_lossy(name)
                .trim_end_matches(".npy")
                .to_owned();
            return Ok(Err(bad(
                file,
                place,
                "is there twice",
                "save every array once",
            )));
        }
        rest = &rest[whole..];
    }
    Ok(Ok(()))
}
