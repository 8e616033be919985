//! A downloaded zip archive to the files in it.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Bytes that one byte of a deflated file can grow to.
const MAX_RATIO: u64 = 1032;

/// Unpacks `archive` into `folder`. A first folder that all files are in is left out.
///
/// # Errors
/// [`Error::Refused`] for an archive that is damaged, that names places outside of `folder`, or that
/// would grow beyond what compression can; [`Error::Io`].
pub(super) fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    let wrong = |reason: String| {
        let what = format!("{}: {reason}", archive.display());
        Error::refused(what, "remove the file and get the data set again")
    };
    let file = File::open(archive).map_err(Error::io(archive))?;
    let size = file.metadata().map_err(Error::io(archive))?.len();
    let zip = zip::ZipArchive::new(BufReader::new(file));
    let mut zip = zip.map_err(|e| wrong(format!("is no zip archive ({e})")))?;
    let mut total = 0u64;
    let first = first_folder(zip.file_names());
    for k in 0..zip.len() {
        let mut entry = zip.by_index(k).map_err(|e| wrong(e.to_string()))?;
        let name = entry.name().to_owned();
        let inside = entry.enclosed_name().filter(|_| !entry.is_symlink());
        let path = inside.ok_or_else(|| wrong(format!("'{name}' leaves its folder")))?;
        let path = match &first {
            Some(first) => path.strip_prefix(first).unwrap_or(&path).to_owned(),
            None => path,
        };
        total = total.saturating_add(entry.size());
        if total / MAX_RATIO > size {
            return Err(wrong(format!("claims {total} bytes in {size}")));
        }
        let to = folder.join(path);
        if entry.is_dir() {
            std::fs::create_dir_all(&to).map_err(Error::io(&to))?;
            continue;
        }
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
        }
        let claimed = entry.size();
        let mut out = File::create(&to).map_err(Error::io(&to))?;
        let mut limited = std::io::Read::take(&mut entry, claimed + 1);
        let got = std::io::copy(&mut limited, &mut out).map_err(Error::io(&to))?;
        if got != claimed {
            return Err(wrong(format!(
                "'{name}' has {got} bytes instead of {claimed}"
            )));
        }
    }
    Ok(())
}

/// The folder that all names are in.
fn first_folder<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = names.next()?.split_once('/')?.0.to_owned();
    let all = names.all(|n| n.split_once('/').is_some_and(|(f, _)| f == first));
    all.then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn zipped(files: &[(&str, &str)]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("a.zip");
        let mut zip = zip::ZipWriter::new(File::create(&path).expect("writable"));
        for (name, text) in files {
            let options = zip::write::SimpleFileOptions::default();
            zip.start_file(*name, options).expect("a new name");
            zip.write_all(text.as_bytes()).expect("space");
        }
        zip.finish().expect("space");
        (dir, path)
    }

    #[test]
    fn a_common_folder_is_left_out_and_places_outside_are_refused() {
        let (dir, path) = zipped(&[("arxiv/raw/edge.csv.gz", "x"), ("arxiv/split/a", "yy")]);
        unpack(&path, &dir.path().join("to")).expect("sound");
        let text = std::fs::read_to_string(dir.path().join("to/split/a"));
        assert_eq!(text.expect("unpacked"), "yy");
        assert!(dir.path().join("to/raw/edge.csv.gz").is_file());
        for name in ["../evil", "/evil"] {
            let (dir, path) = zipped(&[("a", "x"), (name, "x")]);
            let to = dir.path().join("deep/to");
            let done = unpack(&path, &to);
            assert!(done.is_err() || to.join("evil").is_file(), "{name}");
            assert!(!dir.path().join("deep/evil").exists() && !Path::new("/evil").exists());
        }
        std::fs::write(&path, "not a zip").expect("writable");
        let e = unpack(&path, dir.path()).expect_err("damaged");
        assert!(e.to_string().contains("no zip archive"), "{e}");
    }
}
