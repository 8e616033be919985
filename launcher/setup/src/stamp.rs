//! Whether anything a step reads has changed since it last succeeded.

use std::path::Path;

/// A hash over everything a step reads. FNV-1a: it guards against work, not against people.
#[derive(Clone, Copy, Debug)]
pub struct Inputs(u64);

impl Default for Inputs {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Inputs {
    /// Adds text, such as a version or a setting.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        // The length keeps "ab", "c" apart from "a", "bc".
        for byte in text.len().to_le_bytes().into_iter().chain(text.bytes()) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        self
    }

    /// Adds a source file's content.
    #[must_use]
    pub fn content(self, path: &Path) -> Self {
        self.text(&std::fs::read_to_string(path).unwrap_or_default())
    }

    /// Adds a large file by its size and time.
    #[must_use]
    pub fn identity(self, path: &Path) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        match std::fs::metadata(path) {
            Ok(meta) => self.text(&format!(
                "{} {}.{}",
                meta.len(),
                meta.mtime(),
                meta.mtime_nsec()
            )),
            Err(_) => self.text("absent"),
        }
    }

    /// Whether `stamp` holds this very hash.
    pub fn unchanged(self, stamp: &Path) -> bool {
        std::fs::read_to_string(stamp).is_ok_and(|text| text == self.to_string())
    }

    /// Remembers this hash; a stamp that cannot be written only costs time later.
    pub fn keep(self, stamp: &Path) {
        if let Some(folder) = stamp.parent() {
            let _ = std::fs::create_dir_all(folder);
        }
        let _ = std::fs::write(stamp, self.to_string());
    }
}

impl std::fmt::Display for Inputs {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_holds_until_an_input_changes() {
        let folder = std::env::temp_dir().join(format!("setup-stamp-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder in the temporary folder");
        let (file, stamp) = (folder.join("a.rs"), folder.join("stamps/step"));
        let read = || Inputs::default().content(&file).text("1.0");
        std::fs::write(&file, "one").expect("a file in our own folder");
        assert!(!read().unchanged(&stamp));
        read().keep(&stamp);
        assert!(read().unchanged(&stamp));
        std::fs::write(&file, "two").expect("a file in our own folder");
        assert!(!read().unchanged(&stamp));
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn texts_do_not_run_together() {
        let (a, b) = (Inputs::default(), Inputs::default());
        assert_ne!(a.text("ab").text("c").0, b.text("a").text("bc").0);
    }
}
