//! The crate graph that rust-analyzer is shown: a cell, the prelude, and the crates whose types
//! people meet. Everything below them is left out, so that loading takes a second, not eleven.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::outline;

const FILE: &str = "graph.json";
/// Stands for the folder of the kernel's own cell crate.
const ROOT: &str = "@CELL@";
/// Crates beside ours and polars' own whose types appear in signatures that cells use.
const EXTRA: &[&str] = &[
    "chrono",
    "compact_str",
    "either",
    "hashbrown",
    "indexmap",
    "num-traits",
];
/// Crates of polars and of ours that only work behind the scenes.
const HIDDEN: &[&str] = &[
    "gnn-mpi",
    "kernels",
    "polars-arrow-format",
    "polars-async",
    "polars-config",
    "polars-mem-engine",
    "polars-ooc",
    "polars-parquet",
    "polars-parquet-format",
    "polars-stream",
];

/// Cuts cargo's full answer down and stores it, with outlines of the crates that are left.
///
/// # Errors
/// When the answer does not hold the prelude, or the folder cannot be written.
pub fn store(full: &Value, prepared: &Path) -> Result<()> {
    let mut graph = trim(full).context("the workspace holds no package `halobook`")?;
    for package in graph["packages"].as_array_mut().into_iter().flatten() {
        outlined(package, &prepared.join("outlines"))?;
    }
    fs::write(prepared.join(FILE), graph.to_string())?;
    Ok(())
}

/// The stored graph for a cell crate at `root`.
///
/// # Errors
/// When nothing is stored.
pub fn load(prepared: &Path, root: &Path) -> Result<Value> {
    let text = fs::read_to_string(prepared.join(FILE)).context("the crate graph is missing")?;
    let root = root.to_string_lossy();
    let quoted = Value::from(root.as_ref()).to_string();
    Ok(serde_json::from_str(
        &text.replace(ROOT, quoted.trim_matches('"')),
    )?)
}

/// Has a package's entry speak of an outline of it, which is written below `outlines`.
fn outlined(package: &mut Value, outlines: &Path) -> Result<()> {
    let name = format!("{}-{}", words(&package["name"]), words(&package["version"]));
    let manifest = PathBuf::from(words(&package["manifest_path"]));
    if manifest.starts_with(ROOT) {
        return Ok(());
    }
    let outline = outlines.join(name);
    for target in package["targets"].as_array_mut().into_iter().flatten() {
        let root = PathBuf::from(words(&target["src_path"]));
        let folder = root.parent().context("a source lies in a folder")?;
        let file = root.file_name().context("a source has a name")?;
        let to = outline.join("src");
        outline::folder(folder, &to, &["target", "tests", "benches", "examples"])?;
        target["src_path"] = json!(to.join(file));
    }
    fs::copy(&manifest, outline.join("Cargo.toml"))?;
    package["manifest_path"] = json!(outline.join("Cargo.toml"));
    Ok(())
}

fn words(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn trim(full: &Value) -> Option<Value> {
    let packages = full["packages"].as_array()?;
    let prelude = packages
        .iter()
        .find(|package| package["name"] == "halobook" && package["source"].is_null())?;
    let nodes: BTreeMap<&str, &Value> = full["resolve"]["nodes"]
        .as_array()?
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let wanted: BTreeSet<&str> = packages
        .iter()
        .filter(|package| {
            let name = package["name"].as_str().unwrap_or_default();
            let ours = package["source"].is_null() || name.starts_with("polars");
            (ours && !HIDDEN.contains(&name)) || EXTRA.contains(&name)
        })
        .filter_map(|package| package["id"].as_str())
        .collect();
    // Only what the prelude reaches through wanted crates.
    let prelude_id = prelude["id"].as_str()?;
    let mut kept = BTreeSet::from([prelude_id]);
    let mut open = vec![prelude_id];
    while let Some(id) = open.pop() {
        for dep in normal_deps(nodes.get(id)?) {
            if let Some(id) = dep["pkg"].as_str()
                && wanted.contains(id)
                && kept.insert(id)
            {
                open.push(id);
            }
        }
    }
    let mut kept_packages: Vec<Value> = packages
        .iter()
        .filter(|package| package["id"].as_str().is_some_and(|id| kept.contains(id)))
        .map(|package| {
            let mut package = package.clone();
            if let Some(targets) = package["targets"].as_array_mut() {
                targets.retain(|target| {
                    target["kind"].as_array().is_some_and(|kinds| {
                        kinds.iter().any(|kind| kind == "lib" || kind == "rlib")
                    })
                });
            }
            package["dependencies"] = json!([]);
            package
        })
        .collect();
    let mut kept_nodes: Vec<Value> = kept
        .iter()
        .filter_map(|id| {
            let node = nodes.get(id)?;
            let deps: Vec<Value> = normal_deps(node)
                .filter(|dep| dep["pkg"].as_str().is_some_and(|id| kept.contains(id)))
                .cloned()
                .collect();
            Some(node_of(id, deps, node["features"].clone()))
        })
        .collect();
    let cell = format!("path+file://{ROOT}#ctx@1.0.0");
    kept_packages.push(cell_package(prelude, &cell));
    kept_nodes.push(node_of(
        &cell,
        vec![json!({
            "name": "halobook",
            "pkg": prelude_id,
            "dep_kinds": [{ "kind": null, "target": null }],
        })],
        json!([]),
    ));
    Some(json!({
        "packages": kept_packages,
        "workspace_members": [cell],
        "workspace_default_members": [cell],
        "resolve": { "nodes": kept_nodes, "root": cell },
        "target_directory": format!("{ROOT}/target"),
        "version": 1,
        "workspace_root": ROOT,
        "metadata": null,
    }))
}

fn normal_deps(node: &Value) -> impl Iterator<Item = &Value> {
    node["deps"].as_array().into_iter().flatten().filter(|dep| {
        dep["dep_kinds"]
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    })
}

fn node_of(id: &str, deps: Vec<Value>, features: Value) -> Value {
    let dependencies: Vec<&Value> = deps.iter().map(|dep| &dep["pkg"]).collect();
    json!({ "id": id, "dependencies": dependencies, "deps": deps, "features": features })
}

/// The cell's own package, in the shape of another one.
fn cell_package(pattern: &Value, id: &str) -> Value {
    let mut package = pattern.clone();
    package["name"] = json!("ctx");
    package["version"] = json!("1.0.0");
    package["id"] = json!(id);
    package["manifest_path"] = json!(format!("{ROOT}/Cargo.toml"));
    package["dependencies"] = json!([]);
    package["features"] = json!({});
    package["targets"] = json!([{
        "kind": ["cdylib"],
        "crate_types": ["cdylib"],
        "name": "ctx",
        "src_path": format!("{ROOT}/src/lib.rs"),
        "edition": "2024",
        "doc": true,
        "doctest": false,
        "test": true,
    }]);
    package
}

/// Adds the prelude and its crates to cargo's answer about a cell with crates of its own.
pub fn merge(mut users: Value, prelude: &Value) -> Value {
    let cell = users["resolve"]["root"].clone();
    let own = &prelude["resolve"]["root"];
    add_missing(&mut users["packages"], &prelude["packages"], own);
    let edge = prelude["resolve"]["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|node| node["id"] == *own)
        .map(|node| node["deps"][0].clone());
    let nodes = &mut users["resolve"]["nodes"];
    add_missing(nodes, &prelude["resolve"]["nodes"], own);
    let root = nodes
        .as_array_mut()
        .into_iter()
        .flatten()
        .find(|node| node["id"] == cell);
    if let (Some(node), Some(edge)) = (root, edge) {
        if let Some(names) = node["dependencies"].as_array_mut() {
            names.push(edge["pkg"].clone());
        }
        if let Some(deps) = node["deps"].as_array_mut() {
            deps.push(edge);
        }
    }
    users
}

/// Appends what is not there yet, by `id`, and never the entry `except`.
fn add_missing(to: &mut Value, from: &Value, except: &Value) {
    let (Some(to), Some(from)) = (to.as_array_mut(), from.as_array()) else {
        return;
    };
    let known: BTreeSet<String> = to
        .iter()
        .filter_map(|entry| entry["id"].as_str().map(str::to_owned))
        .collect();
    to.extend(
        from.iter()
            .filter(|entry| entry["id"] != *except)
            .filter(|entry| entry["id"].as_str().is_some_and(|id| !known.contains(id)))
            .cloned(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, source: Option<&str>) -> Value {
        json!({ "name": name, "id": name, "source": source, "targets": [
            { "kind": ["lib"], "name": name }, { "kind": ["custom-build"], "name": "build" } ] })
    }

    fn node(id: &str, deps: &[&str]) -> Value {
        let deps: Vec<Value> = deps
            .iter()
            .map(|dep| json!({ "name": dep, "pkg": dep, "dep_kinds": [{ "kind": null }] }))
            .collect();
        json!({ "id": id, "deps": deps, "features": ["f"] })
    }

    fn full() -> Value {
        json!({
            "packages": [package("halobook", None), package("launcher", None),
                package("polars", Some("r")), package("zstd", Some("r")), package("tests", None)],
            "resolve": { "nodes": [node("halobook", &["polars", "launcher"]),
                node("launcher", &["zstd"]), node("polars", &["zstd"]), node("zstd", &[]),
                node("tests", &["halobook"])] },
        })
    }

    #[test]
    fn only_what_cells_can_name_is_kept() {
        let graph = trim(&full()).expect("there is a prelude");
        let names: Vec<&str> = graph["packages"]
            .as_array()
            .expect("an array")
            .iter()
            .filter_map(|package| package["name"].as_str())
            .collect();
        assert_eq!(names, ["halobook", "launcher", "polars", "ctx"]);
        assert!(!graph.to_string().contains("zstd"));
        assert!(!graph.to_string().contains("custom-build"));
    }

    #[test]
    fn a_users_crate_keeps_its_own_entries() {
        let prelude = trim(&full()).expect("there is a prelude");
        let users = json!({
            "packages": [package("ctx2", None), package("rand", Some("r"))],
            "resolve": { "root": "ctx2", "nodes": [node("ctx2", &["rand"]), node("rand", &[])] },
        });
        let mut users = users;
        users["resolve"]["nodes"][0]["dependencies"] = json!(["rand"]);
        let merged = merge(users, &prelude);
        let cell = &merged["resolve"]["nodes"][0];
        assert_eq!(cell["deps"].as_array().map(Vec::len), Some(2));
        assert!(merged.to_string().contains("polars"));
        assert!(!merged.to_string().contains("\"ctx\""));
    }
}
