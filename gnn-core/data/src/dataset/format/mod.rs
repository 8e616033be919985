//! Published formats of graphs, one file each, and how they are told apart.
//!
//! | module | format |
//! |---|---|
//! | `planetoid` | `ind.NAME.*` (Cora, Citeseer, Pubmed) |
//! | `benchmark`, `heterophilous` | `.npz` files of gnn-benchmark and heterophilous-graphs |
//! | `geom_gcn`, `musae` | text files of Geom-GCN and MUSAE |
//! | `edge_list`, `named`, `nodes`, `matrix_market` | edges, and vertices, in text files |
//! | `ogb` | Open Graph Benchmark, node, link and heterogeneous |
//! | `rdf`, `openke` | RDF and knowledge graphs |
//! | `pickle`, `objects`, `torch` | what Python pickled, as data |
//! | `compressed` | compressed sparse rows, checked |

mod benchmark;
mod compressed;
pub(super) mod edge_list;
mod geom_gcn;
mod heterophilous;
mod matrix_market;
mod musae;
mod named;
mod nodes;
mod objects;
mod ogb;
mod openke;
mod pickle;
mod planetoid;
mod rdf;
mod torch;

use std::io::Read;
use std::path::{Path, PathBuf};

use compressed::Csr;

use crate::dataset::archive::Archive;
use crate::dataset::{Dataset, Limit, bad, folder, npz, split};
use crate::{Error, Result};

/// Names in a folder that are looked at; others are of no format.
const MAX_NAMES: usize = 10_000;

/// What a reader is asked for, beside the file.
pub(super) struct Ask<'a> {
    split: &'a str,
    limit: &'a Limit,
}

/// A format: how it is recognised and read.
struct Format {
    /// What is looked for, for messages.
    looks: &'static str,
    /// Whether a file of that name is of this format, or the main file of a folder that is.
    is: fn(&str) -> bool,
    /// Whether the file says all. Otherwise it is only taken from a folder that has no other such
    /// file.
    certain: bool,
    load: fn(&Ask, &Path) -> Result<Dataset>,
}

/// All formats but OGB's and the project's own; the first that fits is taken.
const FORMATS: [Format; 10] = [
    Format {
        looks: "ind.NAME.graph (Planetoid)",
        is: |name| name.starts_with("ind.") && name.ends_with(".graph"),
        certain: true,
        load: planetoid::load,
    },
    Format {
        looks: "train2id.txt (OpenKE)",
        is: |name| name.ends_with("train2id.txt"),
        certain: true,
        load: openke::load,
    },
    Format {
        looks: "*.nt or *.nt.gz (RDF)",
        is: |name| ends(name, &["nt"]),
        certain: true,
        load: rdf::load,
    },
    Format {
        looks: "*out1_graph_edges.txt (Geom-GCN)",
        is: |name| name.ends_with("out1_graph_edges.txt"),
        certain: true,
        load: geom_gcn::load,
    },
    Format {
        looks: "NAME_edges.csv with NAME_target.csv (MUSAE)",
        is: |name| name.ends_with("_edges.csv"),
        certain: true,
        load: musae_or_edges,
    },
    Format {
        looks: "edges.csv, .txt or .npy with nodes.csv, labels or features",
        is: |name| name.starts_with("edges.") && (ends(name, &TEXT) || name == "edges.npy"),
        certain: true,
        load: plain,
    },
    Format {
        looks: "*.npz",
        is: |name| ends(name, &["npz"]),
        certain: false,
        load: any_npz,
    },
    Format {
        looks: "*.mtx (Matrix Market)",
        is: |name| ends(name, &["mtx"]),
        certain: false,
        load: matrix_market::load,
    },
    Format {
        looks: "an edge list (*.txt, .csv, .tsv, .el, .edges, .npy, also .gz and .zst)",
        is: |name| ends(name, &TEXT) && !name.to_lowercase().starts_with("readme"),
        certain: false,
        load: edge_list::load,
    },
    Format {
        looks: "*.npy with a pair of vertices a row",
        is: |name| ends(name, &["npy"]),
        certain: false,
        load: edge_list::load,
    },
];

/// Endings of edge lists.
const TEXT: [&str; 7] = ["txt", "csv", "tsv", "el", "edges", "edgelist", "wel"];

/// Whether a name is one of a plain folder's files that are not its edges.
fn beside(name: &str) -> bool {
    let beginnings = [
        "labels.",
        "features.",
        "train.",
        "val.",
        "test.",
        "masks.",
        "nodes.",
        "vertices.",
    ];
    beginnings.iter().any(|b| name.starts_with(b))
}

/// Endings of tables that Halobook reads elsewhere.
const TABLES: [&str; 4] = ["parquet", "arrow", "feather", "ipc"];

/// Whether a name has one of the endings, or one followed by that of a compressed file.
fn ends(name: &str, endings: &[&str]) -> bool {
    let plain = [".gz", ".zst"].iter().find_map(|e| name.strip_suffix(e));
    let ending = plain
        .unwrap_or(name)
        .rsplit_once('.')
        .map_or("", |(_, e)| e);
    endings.contains(&ending)
}

/// Loads the file or folder `path` with the masks of the split of that name; also returns the file
/// that it was.
pub(crate) fn load(path: &Path, split: &str, limit: &Limit) -> Result<(String, Dataset)> {
    let ask = Ask { split, limit };
    let (at, load) = if path.is_dir() {
        in_folder(path)?
    } else {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let planetoid = name.starts_with("ind.");
        let known = FORMATS.iter().find(|f| (f.is)(&name));
        match known {
            Some(format) => (path.to_owned(), format.load),
            None if planetoid => (path.to_owned(), planetoid::load as Load),
            None => return Err(nothing(path, &[name.into_owned()])),
        }
    };
    let dataset = load(&ask, &at)?;
    Ok((at.display().to_string(), dataset))
}

type Load = fn(&Ask, &Path) -> Result<Dataset>;

/// The main file of a folder and its reader.
fn in_folder(path: &Path) -> Result<(PathBuf, Load)> {
    let own = path.join("graph.npz");
    if own.is_file() {
        return Ok((own, any_npz));
    }
    // OGB's downloader makes a folder with `raw` in it.
    let raw = path.join("raw");
    let ogb = ["edge.csv.gz", "data.npz", "triplet-type-list.csv.gz"];
    if ogb.iter().any(|f| raw.join(f).is_file()) {
        return Ok((path.to_owned(), ogb::load));
    }
    let listing = Listing::of(path)?;
    for format in &FORMATS {
        let fits = |n: &&String| (format.is)(n) && (format.certain || !beside(n));
        let mut fits = listing.names().filter(fits);
        let (Some(first), second) = (fits.next(), fits.next()) else {
            continue;
        };
        if let Some(second) = second
            && !first.starts_with("edges.")
        {
            if !format.certain {
                continue;
            }
            let reason = format!("holds several data sets: {first}, {second}");
            let help = format!(
                "give the path of one, {} for instance",
                path.join(first).display()
            );
            return Err(bad(&path.display().to_string(), "folder", reason, help));
        }
        return Ok((path.join(first), format.load));
    }
    // The reader of plain folders knows best what is missing when some of its files are there.
    if listing.names().any(|n| beside(n)) {
        return Ok((path.join("edges.csv"), plain_folder));
    }
    Err(nothing(path, &listing.names))
}

/// Nothing that any reader knows.
fn nothing(path: &Path, names: &[String]) -> Error {
    let looks: Vec<&str> = FORMATS.iter().map(|f| f.looks).collect();
    let file = path.display().to_string();
    if let Some(name) = names.iter().find(|n| ends(n, &TABLES)) {
        let reason = format!("{name} is a table that readers of graphs do not know");
        let help = "convert a table of edges first: halobook convert SRC DST";
        return bad(&file, "format", reason, help);
    }
    if let Some(name) = irregular(path) {
        let help = "put a file with data in its place";
        return bad(&file, &name, "is not a regular file", help);
    }
    let several = names
        .iter()
        .filter(|n| ends(n, &TEXT) || ends(n, &["npz", "mtx", "npy"]));
    let reason = match several.count() {
        0 | 1 => "is of no format that is known".to_owned(),
        k => {
            format!("holds {k} files, none of which is known to be the graph; give the path of one")
        }
    };
    let help = format!(
        "looked for graph.npz; raw/edge.csv.gz, raw/data.npz or raw/triplet-type-list.csv.gz (OGB); {}",
        looks.join("; ")
    );
    bad(&file, "format", reason, help)
}

/// A pipe, a device or a socket in the folder: names of formats are looked for among files.
fn irregular(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?;
    let odd = |entry: std::fs::DirEntry| {
        let about = std::fs::metadata(entry.path()).ok()?;
        let odd = !about.is_file() && !about.is_dir();
        odd.then(|| entry.file_name().to_string_lossy().into_owned())
    };
    entries.flatten().filter_map(odd).min()
}

/// One of the layouts of `.npz` files, by the arrays that are there.
fn any_npz(ask: &Ask, at: &Path) -> Result<Dataset> {
    let archive = Archive::open(at, ask.limit)?;
    let has = |names: &[&str]| names.iter().all(|n| archive.has(n));
    if has(&["adj_indptr"]) {
        return benchmark::load(ask, at);
    }
    if has(&["node_features"]) || has(&["edges", "node_labels"]) {
        return heterophilous::load(ask, at);
    }
    let known = ["edge_src", "edge_index", "src", "label", "y", "x"];
    if at.ends_with("graph.npz") || known.iter().any(|name| has(&[name])) {
        return npz::load(at, ask.split, ask.limit);
    }
    let mut names = archive.names();
    names.truncate(8);
    Err(bad(
        &archive.file,
        "arrays",
        format!(
            "{} are of no layout that is known",
            crate::dataset::source::shown(&names.join(", "))
        ),
        npz::EXPECTED,
    ))
}

/// A MUSAE folder, or an edge list that is called like one.
fn musae_or_edges(ask: &Ask, at: &Path) -> Result<Dataset> {
    let name = at.file_name().unwrap_or_default().to_string_lossy();
    let target = name.replace("_edges.csv", "_target.csv");
    if at.with_file_name(target).is_file() {
        return musae::load(ask, at);
    }
    edge_list::load(ask, at)
}

/// A plain folder, or an edge list that nothing lies beside.
fn plain(ask: &Ask, at: &Path) -> Result<Dataset> {
    if let Some(nodes) = nodes::beside(at)? {
        return nodes::load(ask, at, &nodes);
    }
    let listing = Listing::of(at.parent().unwrap_or(Path::new(".")))?;
    if !listing.names().any(|n| beside(n)) {
        return edge_list::load(ask, at);
    }
    if !at.ends_with("edges.npy") {
        let mut edges = edge_list::EdgeLines::open(at, ask.limit)?;
        // What is wrong with the first edge the reader of plain folders says in its own words.
        if let Ok(Some(edge_list::Edge::Names(..))) = edges.next() {
            return named::load(ask, at);
        }
    }
    plain_folder(ask, at)
}

fn plain_folder(ask: &Ask, at: &Path) -> Result<Dataset> {
    split::only_standard(ask.split, "a folder of plain files")?;
    folder::load(at.parent().unwrap_or(Path::new(".")), ask.limit)
}

/// The names of the files of a folder, sorted.
struct Listing {
    folder: PathBuf,
    names: Vec<String>,
}

impl Listing {
    /// The files of the folder.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    fn of(folder: &Path) -> Result<Listing> {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        let names = Listing::read(folder, |p| p.is_file())?;
        Ok(Listing {
            folder: folder.to_owned(),
            names,
        })
    }

    /// The names of the folders in a folder; none when there is no such folder.
    fn folders(folder: &Path) -> Result<Vec<String>> {
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        Listing::read(folder, |p| p.is_dir())
    }

    fn read(folder: &Path, which: fn(&Path) -> bool) -> Result<Vec<String>> {
        let entries = std::fs::read_dir(folder).map_err(|e| Error::io(folder, e))?;
        let named = |e: std::io::Result<std::fs::DirEntry>| e.ok()?.file_name().into_string().ok();
        let names = entries.take(MAX_NAMES).filter_map(named);
        let mut names: Vec<String> = names.filter(|n| which(&folder.join(n))).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter()
    }

    /// The path of the file of that name, if it is there.
    fn path(&self, name: &str) -> Option<PathBuf> {
        let found = self.names().any(|n| n == name);
        found.then(|| self.folder.join(name))
    }
}

/// A whole file, unpacked if it is compressed.
fn whole(path: &Path, limit: &Limit) -> Result<Vec<u8>> {
    let file = path.display().to_string();
    let mut from = crate::dataset::source::open(path, limit)?;
    let mut out: Vec<u8> = Vec::new();
    loop {
        let step = 1 << 20;
        limit.take(2 * step, &file, "file")?;
        let got = from.by_ref().take(step).read_to_end(&mut out);
        let got = got.map_err(|e| {
            let help = "copy or download the file again";
            bad(
                &file,
                format!("byte {}", out.len()),
                format!("cannot be read: {e}"),
                help,
            )
        })?;
        if (got as u64) < step {
            limit.give(2 * (step - got as u64));
            return Ok(out);
        }
    }
}

/// A file's name without its endings.
fn stem(path: &Path) -> String {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let plain = [".gz", ".zst"].iter().find_map(|e| name.strip_suffix(e));
    let plain = plain.unwrap_or(&name);
    plain
        .rsplit_once('.')
        .map_or(plain, |(stem, _)| stem)
        .to_owned()
}

/// The name of the folder of a file.
fn folder_name(file: &Path) -> String {
    let folder = file.parent().and_then(|p| p.canonicalize().ok());
    let name = folder.as_deref().and_then(Path::file_name);
    match name {
        Some(name) => name.to_string_lossy().into_owned(),
        None => file.display().to_string(),
    }
}
