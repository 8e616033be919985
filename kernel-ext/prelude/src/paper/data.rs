//! Real data where it can be had.

use super::draft;
use std::path::Path;

/// The folder `name` in `folder` if it has a graph, else `otherwise`, a generated one, and says so: results
/// of it are of another graph than the paper's.
///
/// The folder is absolute or seen from the notebook's own, as cells are. A draft takes the generated one, which
/// can be made smaller.
pub fn real(folder: &str, name: &str, otherwise: &str) -> String {
    if draft::asked() {
        println!("a draft: {otherwise} (synthetic) stands in the place of {name}");
        return otherwise.to_owned();
    }
    let found = Path::new(folder).join(name);
    if found.join("graph.npz").is_file() {
        return found.to_string_lossy().into_owned();
    }
    println!("{name} is not in {folder}: {otherwise} (synthetic) stands in its place");
    otherwise.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_has_a_stand_in() {
        let empty = tempfile::tempdir().expect("a temporary folder");
        let folder = empty.path().to_string_lossy().into_owned();
        assert_eq!(real(&folder, "cora", "karate"), "karate");
        std::fs::create_dir(empty.path().join("cora")).expect("a folder");
        assert_eq!(
            real(&folder, "cora", "karate"),
            "karate",
            "a folder without a graph"
        );
        std::fs::write(empty.path().join("cora/graph.npz"), "").expect("a file");
        assert!(real(&folder, "cora", "karate").ends_with("cora"));
    }
}
