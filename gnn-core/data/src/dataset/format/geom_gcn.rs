//! Geom-GCN's text files: `out1_graph_edges.txt` with one edge a line,
//! `out1_node_feature_label.txt` with a vertex, its features and its class a line, and splits
//! `NAME_split_0.6_0.2_K.npz`. The names may have a prefix.
//!
//! Features are separated by commas: the values, or for the data set `film` the columns that are 1.
//! As the published loaders do, edges are made symmetric, repeats and self loops are dropped.
//! Without the file of features and classes vertices are one-hot and have no class. Splits are
//! called by their number; the standard one is the first that is there.
//!
//! # Paper
//! Pei, Wei, Chang, Lei, Yang, "Geom-GCN: Geometric Graph Convolutional Networks", ICLR 2020,
//! <https://arxiv.org/abs/2002.05287>.

use std::path::{Path, PathBuf};

use kernels::CsrBuf;

use super::{Ask, Listing};
use crate::dataset::archive::Archive;
use crate::dataset::source::{Lines, shown};
use crate::dataset::{Dataset, Features, Limit, STANDARD, bad, check, split};
use crate::graph::{EdgeOptions, Graph};
use crate::{Error, Result};

/// Largest number of columns that a list of columns may name.
const MAX_COLUMNS: u32 = 1 << 24;

/// Loads the data set whose edges are the file `at`.
pub(super) fn load(ask: &Ask, at: &Path) -> Result<Dataset> {
    let (src, dst) = edges(at, ask.limit)?;
    let listing = Listing::of(at.parent().unwrap_or(Path::new(".")))?;
    let name = at
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let prefix = name
        .split("out1_graph_edges")
        .next()
        .unwrap_or("")
        .to_owned();
    let content = listing.path(&format!("{prefix}out1_node_feature_label.txt"));
    let content = content.map(|p| Content::read(&p, ask.limit)).transpose()?;
    let largest = src.iter().chain(&dst).max().map_or(0, |&v| v as usize + 1);
    let n = content.as_ref().map_or(largest, |c| c.labels.len());
    let file = at.display().to_string();
    ask.limit.graph(n as u64, src.len() as u64, &file)?;
    if let Some(&v) = src.iter().chain(&dst).find(|&&v| v as usize >= n) {
        let reason = format!("vertex {v} has no line of features among {n}");
        return Err(bad(&file, "edges", reason, "download both files again"));
    }
    let graph = Graph::from_edges(n, &src, &dst, EdgeOptions::SIMPLE)?;
    let mut dataset = Dataset::unlabelled(super::folder_name(at), graph);
    dataset.about.format = "Geom-GCN";
    let Some(content) = content else {
        split::only_standard(ask.split, "a graph without classes")?;
        let note = format!(
            "there is no {prefix}out1_node_feature_label.txt: one-hot features, no classes"
        );
        dataset.about.notes.push(note);
        return Ok(dataset);
    };
    let (labels, n_classes) = check::labels(&content.file, &content.labels, None)?;
    dataset.features = Features::Sparse(content.features);
    [dataset.train, dataset.val, dataset.test] = match split_file(&listing, ask.split)? {
        None => split::random(&labels),
        Some(path) => {
            let mut archive = Archive::open(&path, ask.limit)?;
            let mut masks = split::masks(&mut archive, STANDARD)?;
            // The published splits name a few vertices that have no class.
            let none =
                |m: &mut Vec<bool>| m.iter_mut().zip(&labels).for_each(|(m, &c)| *m &= c >= 0);
            masks.iter_mut().for_each(none);
            masks
        }
    };
    (dataset.labels, dataset.n_classes) = (labels, n_classes);
    Ok(dataset)
}

/// The file of the split of that name.
fn split_file(listing: &Listing, split: &str) -> Result<Option<PathBuf>> {
    let number = |name: &str| {
        let (_, rest) = name.split_once("_split_")?;
        Some(rest.strip_suffix(".npz")?.rsplit('_').next()?.to_owned())
    };
    let mut all: Vec<(String, &String)> = listing
        .names()
        .filter_map(|n| Some((number(n)?, n)))
        .collect();
    all.sort_unstable();
    let found = match (split, &all[..]) {
        (STANDARD, []) => return Ok(None),
        (STANDARD, [first, ..]) => Some(first),
        _ => all.iter().find(|(k, _)| k == split),
    };
    match found {
        Some((_, name)) => Ok(listing.path(name)),
        None => {
            let mut known: Vec<&str> = all.iter().map(|(k, _)| k.as_str()).collect();
            known.push(STANDARD);
            Err(Error::unknown("split", split, &known))
        }
    }
}

/// Both ends of all edges, after a header line.
fn edges(at: &Path, limit: &Limit) -> Result<(Vec<u32>, Vec<u32>)> {
    let mut lines = Lines::open(at, limit)?;
    let (mut src, mut dst) = (Vec::new(), Vec::new());
    let mut first = true;
    while lines.record(&['#'])?.is_some() {
        let mut fields = lines.line().split_whitespace();
        let ends = [fields.next(), fields.next()].map(|f| f?.parse::<u32>().ok());
        match ends {
            [Some(u), Some(v)] if u.max(v) < u32::MAX => {
                limit.take(16, &lines.file, "edges")?;
                src.push(u);
                dst.push(v);
            }
            _ if std::mem::take(&mut first) => {}
            _ => {
                let reason = format!("{} is not an edge", shown(lines.line()));
                return Err(lines.bad(reason, "write two vertex numbers a line"));
            }
        }
        first = false;
    }
    Ok((src, dst))
}

/// The features of a vertex that are not zero, by column.
type Row = Vec<(u32, f32)>;

/// Features and classes by vertex.
struct Content {
    file: String,
    labels: Vec<i64>,
    features: CsrBuf,
}

impl Content {
    fn read(at: &Path, limit: &Limit) -> Result<Content> {
        let mut lines = Lines::open(at, limit)?;
        // `film` lists the columns that are 1; the others write every value.
        let listed = super::folder_name(at).contains("film") || lines.file.contains("film");
        let mut rows: Vec<(u32, i64, Row)> = Vec::new();
        let (mut width, mut first) = (0u32, true);
        while lines.record(&['#'])?.is_some() {
            let fields: Vec<&str> = lines.line().split('\t').collect();
            let header = std::mem::take(&mut first);
            let parsed = match fields[..] {
                [v, x, c] => v
                    .parse::<u32>()
                    .ok()
                    .zip(c.trim().parse::<i64>().ok())
                    .map(|(v, c)| (v, x, c)),
                _ => None,
            };
            let Some((v, x, class)) = parsed else {
                if header {
                    continue;
                }
                let help = "write vertex, features and class, separated by tabs";
                return Err(lines.bad("is not a vertex with features and class", help));
            };
            let values = x.split(',').map(str::trim).filter(|f| !f.is_empty());
            let mut row = Vec::new();
            for (k, field) in values.enumerate() {
                let wrong = || {
                    lines.bad(
                        format!("{} is not a feature", shown(field)),
                        "write numbers",
                    )
                };
                let value = if listed {
                    let c = field.parse::<u32>().map_err(|_| wrong())?;
                    (c, 1.0)
                } else {
                    (k as u32, field.parse::<f32>().map_err(|_| wrong())?)
                };
                if value.0 >= MAX_COLUMNS {
                    return Err(wrong());
                }
                width = width.max(value.0 + 1);
                if value.1 != 0.0 {
                    limit.take(32, &lines.file, "features")?;
                    row.push(value);
                }
            }
            limit.take(80, &lines.file, "features")?;
            rows.push((v, class, row));
        }
        rows.sort_by_key(|&(v, ..)| v);
        let mut features = CsrBuf {
            weights: Some(Vec::new()),
            ..CsrBuf::empty(width as usize)
        };
        let mut labels = Vec::with_capacity(rows.len());
        for (k, (v, class, mut row)) in rows.into_iter().enumerate() {
            if v as usize != k {
                let reason = format!("vertex {k} is missing or there twice");
                let help = "write every vertex once, numbered from 0";
                return Err(bad(&lines.file, format!("vertex {k}"), reason, help));
            }
            labels.push(class);
            row.sort_by_key(|&(c, _)| c);
            row.dedup_by_key(|&mut (c, _)| c);
            features.indices.extend(row.iter().map(|&(c, _)| c));
            let weights = features.weights.get_or_insert_default();
            weights.extend(row.iter().map(|&(_, x)| x));
            features.indptr.push(features.indices.len() as u64);
        }
        Ok(Content {
            file: lines.file,
            labels,
            features,
        })
    }
}
