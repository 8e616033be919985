//! Files of data sets are regular ones: reading a pipe may wait for ever, and a device may never end.

use std::fs::File;
use std::path::Path;

use crate::dataset::bad;
use crate::{Error, Result};

/// Opens a file to read it.
///
/// # Errors
/// [`Error::Data`] for what is not a regular file, [`Error::Io`] when it cannot be opened.
pub(crate) fn open(path: &Path) -> Result<File> {
    // Asked before it is opened, since that alone waits where somebody has to write.
    let about = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
    if !about.is_file() {
        return Err(bad(
            &path.display().to_string(),
            "file",
            "is not a regular file",
            "give the path of a file with data",
        ));
    }
    File::open(path).map_err(|e| Error::io(path, e))
}

#[cfg(test)]
mod tests {
    use super::open;

    #[test]
    fn devices_and_folders_are_refused() {
        for path in ["/dev/zero", "/"] {
            let error = open(path.as_ref())
                .expect_err("no regular file")
                .to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
    }
}
