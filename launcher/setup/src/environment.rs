//! Holds `environment.yml` against the set-up table.

use crate::parts::{JUPYTER, PARTS};
use std::collections::BTreeSet;

/// The packages that `environment.yml` names: needed ones, and optional ones (commented out).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Packages {
    /// Lines `- name`.
    pub needed: BTreeSet<String>,
    /// Lines `# - name`.
    pub optional: BTreeSet<String>,
}

/// Reads the `dependencies:` list. Only the shape that our file has: one package a line.
pub fn parse(text: &str) -> Packages {
    let mut packages = Packages::default();
    let lines = text.lines().skip_while(|line| *line != "dependencies:");
    for line in lines.skip(1).map(str::trim) {
        if let Some(name) = line.strip_prefix("- ") {
            packages.needed.insert(name.trim().to_string());
        } else if let Some(name) = line.strip_prefix("# - ") {
            packages.optional.insert(name.trim().to_string());
        }
    }
    packages
}

/// What the set-up table says should be there.
pub fn expected() -> Packages {
    let mut packages = Packages::default();
    for part in PARTS {
        let set = match part.optional {
            true => &mut packages.optional,
            false => &mut packages.needed,
        };
        set.extend(part.conda.iter().map(|name| name.to_string()));
    }
    let pinned = JUPYTER
        .iter()
        .map(|(name, version)| format!("{name}={version}"));
    packages.needed.extend(pinned);
    packages
}

/// Each difference between the file and the table, in words.
pub fn drift(text: &str) -> Vec<String> {
    let (file, table) = (parse(text), expected());
    let mut found = Vec::new();
    for (kind, file, table) in [
        ("needed", &file.needed, &table.needed),
        ("optional", &file.optional, &table.optional),
    ] {
        let only_file = file.difference(table);
        found.extend(only_file.map(|name| format!("{kind} `{name}` is only in environment.yml")));
        let only_table = table.difference(file);
        found.extend(only_table.map(|name| format!("{kind} `{name}` is only in the set-up table")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = include_str!("../../../environment.yml");

    #[test]
    fn environment_yml_and_the_set_up_table_agree() {
        assert_eq!(drift(FILE), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_drift_is_seen() {
        let more = format!("{FILE}  - cowsay\n");
        assert_eq!(drift(&more), ["needed `cowsay` is only in environment.yml"]);
        let less = FILE.replace("  - openmpi\n", "");
        assert_eq!(
            drift(&less),
            ["needed `openmpi` is only in the set-up table"]
        );
        let moved = FILE.replace("  # - nccl", "  - nccl");
        assert_eq!(drift(&moved).len(), 2);
        let repinned = FILE.replace("nbclient=0.11.0", "nbclient=0.11.1");
        assert_eq!(drift(&repinned).len(), 2);
    }

    #[test]
    fn both_ways_to_nvrtc_bring_one_version() {
        let conda = PARTS.iter().find(|part| part.name == "NVRTC");
        let conda = conda.and_then(|part| part.conda[0].strip_prefix("cuda-nvrtc="));
        let pip = crate::parts::NVRTC.1;
        assert_eq!(pip.rsplit_once('.').map(|(version, _)| version), conda);
    }

    #[test]
    fn the_rust_version_is_the_workspace_s() {
        let manifest = include_str!("../../../Cargo.toml");
        let version = manifest
            .lines()
            .find_map(|line| line.strip_prefix("rust-version = "))
            .map(|value| value.trim_matches('"'));
        let wanted = PARTS[0].conda[0].strip_prefix("rust>=");
        assert_eq!(version, wanted);
    }
}
