//! Compiled kernels are kept on disk by the hash of all that they are made of.

use std::path::PathBuf;

/// The folder of compiled kernels: `halobook/kernels` in the user's cache folder, else in the
/// system's folder for temporary files.
fn folder() -> PathBuf {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
        .join("halobook/kernels")
}

/// A key of `parts`, for file names.
pub(super) fn key(parts: &[&str]) -> String {
    let (mut a, mut b) = (1u64, 2u64);
    for part in parts {
        a = crate::hash::join(a, part.len() as u64);
        for chunk in part.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            a = crate::hash::join(a, u64::from_le_bytes(word));
            b = crate::hash::join(b ^ a, u64::from_le_bytes(word));
        }
    }
    format!("{a:016x}{b:016x}")
}

/// The file `name` of the cache, made by `make` (called with the path to write) when it is not
/// there. Several processes may do so at the same time: a file appears whole or not at all.
pub(super) fn file<E: From<std::io::Error>>(
    name: &str,
    make: impl FnOnce(&std::path::Path) -> Result<(), E>,
) -> Result<PathBuf, E> {
    let path = folder().join(name);
    if path.is_file() {
        return Ok(path);
    }
    private_folder(&folder())?;
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let own = path.with_extension(format!("{}-{count}", std::process::id()));
    let made = make(&own).and_then(|()| Ok(std::fs::rename(&own, &path)?));
    if made.is_err() {
        let _ = std::fs::remove_file(&own);
    }
    made.map(|()| path)
}

/// Makes the folder so that only this user writes to it: what lies there is executed.
fn private_folder(path: &std::path::Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_depend_on_every_part_and_its_place() {
        assert_eq!(key(&["a", "bc"]), key(&["a", "bc"]));
        assert_ne!(key(&["a", "bc"]), key(&["ab", "c"]));
        assert_ne!(key(&["0123456789"]), key(&["0123456788"]));
        assert_ne!(key(&["x", "y"]), key(&["y", "x"]));
    }
}
