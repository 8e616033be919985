//! From what the user wrote to a data set.

use std::path::Path;

use crate::dataset::{
    DataSpec, Dataset, FeatureNorm, FeatureStorage, Limit, STANDARD, Task, TaskKind, bad, builtin,
    check, format, links, split,
};
use crate::store::{self, Stored, Verdicts};
use crate::{Error, Result};

/// A name that [`load`] understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// What to write, complete as it stands.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
}

/// What can be loaded without any file; completion and help read it.
pub fn catalogue() -> &'static [CatalogueEntry] {
    &[
        CatalogueEntry {
            name: "karate",
            about: "Zachary's karate club: 34 vertices, 4 classes",
        },
        CatalogueEntry {
            name: "sbm:nodes=1000,classes=4,feat=16,degree=10,homophily=0.8",
            about: "planted partition with learnable features",
        },
        CatalogueEntry {
            name: "rmat:scale=12,edge-factor=8,feat=16,classes=4",
            about: "power-law graph (Graph500) with learnable features",
        },
        CatalogueEntry {
            name: "like:flickr,scale=0.1",
            about: "look-alike of a published data set, synthetic; `halobook datasets` lists them",
        },
    ]
}

/// Loads a data set: a built-in (`karate`, `sbm:key=value,…`, `rmat:key=value,…`) or a path to a
/// folder. `seed` decides everything that is generated; files do not depend on it.
///
/// Files and folders are of the formats that the module [`crate::dataset`] lists; which one it is,
/// the names of the files say.
///
/// # Errors
/// [`Error::UnknownName`] when `name` is neither, with the nearest built-in; [`Error::Spec`] for a
/// wrong key; [`Error::Data`] or [`Error::Io`] for files that cannot be used.
pub fn load(name: &str, seed: u64) -> Result<Dataset> {
    load_split(name, STANDARD, seed)
}

/// Loads all that a request asks of its data: the data set with its split, feature rows scaled and
/// stored as they are faster, edges held out where links are to be predicted.
///
/// # Errors
/// As [`load_split`]; [`Error::Data`] when the graph has too few edges to hold some out.
pub fn load_for(spec: DataSpec<'_>, verdicts: &Verdicts) -> Result<Dataset> {
    let limit = Limit::machine();
    let mut data = load_within(spec.data, spec.split, spec.seed, &limit, verdicts)?;
    if spec.feature_norm == FeatureNorm::Row {
        data.features.row_normalise();
    }
    data.features.densify();
    let sparse = data.features.is_sparse();
    if sparse && spec.feature_storage == FeatureStorage::Bf16 {
        return Err(Error::Spec {
            key: "feature_storage".into(),
            reason: format!("the features of {} are sparse, and stay f32", spec.data),
            help: "leave the key out, or write feature_storage = \"f32\"".into(),
        });
    }
    if spec.task != TaskKind::Node {
        let path = Path::new(spec.data.trim());
        let folder = if path.is_file() {
            path.parent()
        } else {
            Some(path)
        };
        let given = folder.map(|f| f.join("link_split.npz"));
        match &mut data.links {
            Some(links) => {
                links.negatives = spec.negatives;
                data.task = Task::LinkPrediction;
            }
            None => links::hold_out(
                &mut data,
                given.as_deref().filter(|p| p.is_file()),
                spec.negatives,
                &limit,
            )?,
        }
        if let Some(links) = data
            .links
            .as_mut()
            .filter(|_| spec.task == TaskKind::Unsupervised)
        {
            links.pairing = Some(spec.pairing);
        }
    }
    if spec.task == TaskKind::Node && data.n_classes == 0 {
        return Err(bad(
            spec.data,
            "labels",
            "no vertex has a class",
            "learn which vertices are joined (task = link), or add labels",
        ));
    }
    if spec.task == TaskKind::Node {
        check::trains(&data, spec.data)?;
    }
    Ok(data)
}

/// [`load`] with the masks of a named split: `standard`, a number, or another name that the data
/// set has.
///
/// # Errors
/// As [`load`]; [`Error::UnknownName`] or [`Error::Spec`] for a split that is not there.
pub fn load_split(name: &str, split: &str, seed: u64) -> Result<Dataset> {
    load_within(name, split, seed, &Limit::machine(), &Verdicts::none())
}

/// [`load_split`] within a limit of memory; a stored graph that was found sound before is not looked at
/// again.
///
/// # Errors
/// As [`load_split`]; [`Error::Data`] when files need or declare more than `limit`.
pub fn load_within(
    name: &str,
    split: &str,
    seed: u64,
    limit: &Limit,
    verdicts: &Verdicts,
) -> Result<Dataset> {
    let name = name.trim();
    let (kind, spec) = name.split_once(':').unwrap_or((name, ""));
    if let Some(make) = builtin::find(kind) {
        split::only_standard(split, kind)?;
        let dataset = make(name, spec, seed)?;
        dataset.check()?;
        return Ok(dataset);
    }
    let path = Path::new(name);
    if !path.exists() {
        return Err(unknown(name, kind));
    }
    if let Some(file) = store::find(path) {
        split::only_standard(split, "a stored graph")?;
        return Stored::open_known(&file, verdicts)?.dataset();
    }
    let (file, dataset) = format::load(path, split, limit)?;
    check::dataset(&dataset, &file)?;
    Ok(dataset)
}

/// Nothing of that name; a word that looks like a path is told about files instead of built-ins.
fn unknown(name: &str, kind: &str) -> Error {
    if name.contains(['/', '\\']) || name.starts_with('.') {
        let not_found = std::io::ErrorKind::NotFound.into();
        return Error::Io {
            path: name.into(),
            source: not_found,
        };
    }
    let mut e = Error::unknown("data set", kind, &builtin::NAMES);
    if let Error::UnknownName { known, .. } = &mut e {
        known.push("or the path of a folder with graph.npz or edges.csv".into());
    }
    e
}
