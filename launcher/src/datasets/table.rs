//! What is in the catalogue.
//!
//! Addresses, sizes, licences and scores are quoted from memory of their sources and were not compared
//! with them again; no download has been tried.

use gnn_core::Error as CoreError;

use crate::error::Result;

/// A published test score, in per cent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    /// The model.
    pub model: &'static str,
    /// Mean score in per cent; accuracy unless the entry's task says otherwise.
    pub percent: f64,
    /// Where it was published.
    pub source: &'static str,
}

/// What the files of a data set are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// Files that are read as they are, from their folder.
    Files(&'static [&'static str]),
    /// One zip archive, unpacked into the folder.
    Zip(&'static str),
    /// One edge list, for `halobook convert`.
    Edges(&'static str),
}

/// One data set.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// What to write.
    pub name: &'static str,
    /// Vertices.
    pub vertices: u64,
    /// Edges as published.
    pub edges: u64,
    /// What is learned, and the metric where it is not accuracy.
    pub task: &'static str,
    /// Bytes to download, about.
    pub bytes: u64,
    /// Under which terms, as far as its source says.
    pub licence: &'static str,
    /// Who made it.
    pub source: &'static str,
    /// A published score.
    pub accuracy: Option<Accuracy>,
    /// Where its files are: a folder's address that the names of the payload follow.
    pub address: &'static str,
    /// Its files.
    pub payload: Payload,
}

const OGB: &str = "Hu et al., Open Graph Benchmark, 2020";
const SHCHUR: &str = "Shchur et al., Pitfalls of GNN Evaluation, 2018";
const PLATONOV: &str = "Platonov et al., A Critical Look at GNNs under Heterophily, 2023";
const KIPF: &str = "Kipf & Welling, 2017";
const SNAP: &str = "Leskovec & Krevl, SNAP Datasets";
const MIT: &str = "MIT (its repository)";
const NONE: &str = "none stated; cite the source";

const OGB_NODES: &str = "http://snap.stanford.edu/ogb/data/nodeproppred/";
const PLANETOID: &str = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/";
const BENCHMARK: &str = "https://raw.githubusercontent.com/shchur/gnn-benchmark/master/data/npz/";
const HETEROPHILOUS: &str =
    "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/main/data/";
const SNAP_DATA: &str = "https://snap.stanford.edu/data/";

const fn score(model: &'static str, percent: f64, source: &'static str) -> Option<Accuracy> {
    Some(Accuracy {
        model,
        percent,
        source,
    })
}

const fn planetoid(
    name: &'static str,
    size: (u64, u64, u64),
    files: &'static [&'static str],
    percent: f64,
) -> Entry {
    Entry {
        name,
        vertices: size.0,
        edges: size.1,
        task: "classes",
        bytes: size.2,
        licence: MIT,
        source: "Yang et al., Planetoid, 2016",
        accuracy: score("GCN", percent, KIPF),
        address: PLANETOID,
        payload: Payload::Files(files),
    }
}

const fn npz(
    name: &'static str,
    size: (u64, u64, u64),
    kind: (&'static str, &'static str, &'static str),
    percent: f64,
    files: &'static [&'static str],
) -> Entry {
    let (task, source, address) = kind;
    Entry {
        name,
        vertices: size.0,
        edges: size.1,
        task,
        bytes: size.2,
        licence: MIT,
        source,
        accuracy: score("GCN", percent, source),
        address,
        payload: Payload::Files(files),
    }
}

const fn ogb(
    name: &'static str,
    size: (u64, u64, u64),
    licence: &'static str,
    accuracy: Option<Accuracy>,
    file: &'static str,
) -> Entry {
    Entry {
        name,
        vertices: size.0,
        edges: size.1,
        task: "classes",
        bytes: size.2,
        licence,
        source: OGB,
        accuracy,
        address: OGB_NODES,
        payload: Payload::Zip(file),
    }
}

const fn edges(name: &'static str, size: (u64, u64, u64), file: &'static str) -> Entry {
    Entry {
        name,
        vertices: size.0,
        edges: size.1,
        task: "none (edges only)",
        bytes: size.2,
        licence: NONE,
        source: SNAP,
        accuracy: None,
        address: SNAP_DATA,
        payload: Payload::Edges(file),
    }
}

const PITFALLS: (&str, &str, &str) = ("classes", SHCHUR, BENCHMARK);
const CLASSES: (&str, &str, &str) = ("classes", PLATONOV, HETEROPHILOUS);
const BINARY: (&str, &str, &str) = ("two classes, ROC AUC", PLATONOV, HETEROPHILOUS);

/// All entries, small ones first within their source.
pub const ALL: &[Entry] = &[
    planetoid(
        "cora",
        (2_708, 5_429, 700_000),
        &[
            "ind.cora.x",
            "ind.cora.tx",
            "ind.cora.allx",
            "ind.cora.y",
            "ind.cora.ty",
            "ind.cora.ally",
            "ind.cora.graph",
            "ind.cora.test.index",
        ],
        81.5,
    ),
    planetoid(
        "citeseer",
        (3_327, 4_732, 1_000_000),
        &[
            "ind.citeseer.x",
            "ind.citeseer.tx",
            "ind.citeseer.allx",
            "ind.citeseer.y",
            "ind.citeseer.ty",
            "ind.citeseer.ally",
            "ind.citeseer.graph",
            "ind.citeseer.test.index",
        ],
        70.3,
    ),
    planetoid(
        "pubmed",
        (19_717, 44_338, 13_000_000),
        &[
            "ind.pubmed.x",
            "ind.pubmed.tx",
            "ind.pubmed.allx",
            "ind.pubmed.y",
            "ind.pubmed.ty",
            "ind.pubmed.ally",
            "ind.pubmed.graph",
            "ind.pubmed.test.index",
        ],
        79.0,
    ),
    npz(
        "amazon-photo",
        (7_650, 119_081, 5_600_000),
        PITFALLS,
        91.2,
        &["amazon_electronics_photo.npz"],
    ),
    npz(
        "amazon-computers",
        (13_752, 245_861, 9_500_000),
        PITFALLS,
        82.6,
        &["amazon_electronics_computers.npz"],
    ),
    npz(
        "coauthor-cs",
        (18_333, 81_894, 5_300_000),
        PITFALLS,
        91.1,
        &["ms_academic_cs.npz"],
    ),
    npz(
        "coauthor-physics",
        (34_493, 247_962, 16_000_000),
        PITFALLS,
        92.8,
        &["ms_academic_phy.npz"],
    ),
    npz(
        "minesweeper",
        (10_000, 39_402, 500_000),
        BINARY,
        89.75,
        &["minesweeper.npz"],
    ),
    npz(
        "tolokers",
        (11_758, 519_000, 1_000_000),
        BINARY,
        83.64,
        &["tolokers.npz"],
    ),
    npz(
        "roman-empire",
        (22_662, 32_927, 26_000_000),
        CLASSES,
        73.69,
        &["roman_empire.npz"],
    ),
    npz(
        "amazon-ratings",
        (24_492, 93_050, 28_000_000),
        CLASSES,
        48.70,
        &["amazon_ratings.npz"],
    ),
    npz(
        "questions",
        (48_921, 153_540, 55_000_000),
        BINARY,
        76.09,
        &["questions.npz"],
    ),
    ogb(
        "ogbn-arxiv",
        (169_343, 1_166_243, 81_000_000),
        "ODC-BY",
        score("GCN", 71.74, OGB),
        "arxiv.zip",
    ),
    ogb(
        "ogbn-mag",
        (1_939_743, 21_111_007, 413_000_000),
        "ODC-BY",
        score("R-GCN", 39.77, OGB),
        "mag.zip",
    ),
    ogb(
        "ogbn-products",
        (2_449_029, 61_859_140, 1_480_000_000),
        "Amazon licence",
        score("GraphSAGE", 78.50, OGB),
        "products.zip",
    ),
    ogb(
        "ogbn-papers100M",
        (111_059_956, 1_615_685_872, 57_000_000_000),
        "ODC-BY",
        score("SGC", 63.29, OGB),
        "papers100M-bin.zip",
    ),
    edges(
        "web-google",
        (875_713, 5_105_039, 21_000_000),
        "web-Google.txt.gz",
    ),
    edges(
        "com-livejournal",
        (3_997_962, 34_681_189, 124_000_000),
        "bigdata/communities/com-lj.ungraph.txt.gz",
    ),
    edges(
        "com-orkut",
        (3_072_441, 117_185_083, 447_000_000),
        "bigdata/communities/com-orkut.ungraph.txt.gz",
    ),
    edges(
        "com-friendster",
        (65_608_366, 1_806_067_135, 9_400_000_000),
        "bigdata/communities/com-friendster.ungraph.txt.gz",
    ),
];

impl Entry {
    /// The paths of its files behind [`Entry::address`].
    pub fn files(&self) -> Vec<&'static str> {
        match self.payload {
            Payload::Files(files) => files.to_vec(),
            Payload::Zip(file) | Payload::Edges(file) => vec![file],
        }
    }
}

/// The entry of that name.
///
/// # Errors
/// An unknown name, with the nearest one.
pub fn find(name: &str) -> Result<&'static Entry> {
    let names: Vec<&str> = ALL.iter().map(|e| e.name).collect();
    let found = ALL.iter().find(|e| e.name == name);
    Ok(found.ok_or_else(|| CoreError::unknown("data set of the catalogue", name, &names))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_complete_and_names_unique() {
        let mut names: Vec<&str> = ALL.iter().map(|e| e.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for e in ALL {
            assert!(e.vertices > 0 && e.edges > 0 && e.bytes > 0, "{}", e.name);
            assert!(e.address.starts_with("http") && e.address.ends_with('/'));
            assert!(!e.files().is_empty() && !e.licence.is_empty() && !e.source.is_empty());
            assert!(
                e.accuracy
                    .is_none_or(|a| (0.0..=100.0).contains(&a.percent))
            );
            assert_eq!(find(e.name).expect("listed").name, e.name);
        }
        let e = find("ogbn-product").expect_err("no such name");
        assert!(e.to_string().contains("ogbn-products"), "{e}");
    }
}
