//! Heterogeneous OGB folders (ogbn-mag).
//!
//! | file | content |
//! |---|---|
//! | `raw/num-node-dict.csv.gz` | types of vertices, and below how many there are |
//! | `raw/triplet-type-list.csv.gz` | head type, relation and tail type a line |
//! | `raw/relations/HEAD___RELATION___TAIL/edge.csv.gz`, `num-edge-list.csv.gz` | its edges, numbered within their types |
//! | `raw/node-feat/TYPE/node-feat.csv.gz` | features of the vertices of a type, if it has any |
//! | `raw/nodetype-has-label.csv.gz`, `raw/node-label/TYPE/node-label.csv.gz` | classes of the vertices of a type |
//! | `split/NAME/nodetype-has-split.csv.gz`, `split/NAME/TYPE/{train,valid,test}.csv.gz` | its parts |
//!
//! Types are numbered in sorted order, and vertices type by type, as are the relations. Inverse
//! relations are added. Each type with features has columns of its own; the vertices of types
//! without any are one-hot, each in a column of its own, so that a model learns an embedding of each
//! as the published example does.

use std::path::Path;

use kernels::{CsrBuf, Mat};

use super::{AGAIN, Ask, csv};
use crate::Result;
use crate::dataset::source::shown;
use crate::dataset::{Dataset, Features, Limit, Types, bad, check, typed};

/// Types of vertices at most, and relations.
const MAX_TYPES: usize = 1 << 12;

/// Vertices of one type.
struct Kind {
    name: String,
    n: usize,
    /// Number of the first of them.
    from: usize,
}

/// Loads the folder `at`.
pub(super) fn load(ask: &Ask, at: &Path) -> Result<Dataset> {
    let (raw, limit) = (at.join("raw"), ask.limit);
    let kinds = kinds(&raw.join("num-node-dict.csv.gz"), limit)?;
    let n = kinds.last().map_or(0, |k| k.from + k.n);
    let list = raw.join("triplet-type-list.csv.gz");
    let mut triplets = csv::words(&list, 3, limit)?;
    triplets.sort();
    let list = list.display().to_string();
    if triplets.len() > MAX_TYPES {
        let reason = format!("{} relations are more than {MAX_TYPES}", triplets.len());
        return Err(bad(&list, "lines", reason, AGAIN));
    }
    let (mut src, mut dst, mut types) = (Vec::new(), Vec::new(), Vec::new());
    let mut names = Vec::new();
    for (r, triplet) in triplets.iter().enumerate() {
        let kind = |name: &str| {
            kinds.iter().find(|k| k.name == name).ok_or_else(|| {
                let reason = format!("'{name}' is no type of vertices");
                bad(&list, format!("line {}", r + 1), reason, AGAIN)
            })
        };
        let (head, tail) = (kind(&triplet[0])?, kind(&triplet[2])?);
        let folder = raw
            .join("relations")
            .join(safe(&list, &triplet.join("___"))?);
        let declared = super::count(&folder.join("num-edge-list.csv.gz"), limit)?;
        let ends = super::edges(
            &folder.join("edge.csv.gz"),
            declared,
            [head.n, tail.n],
            limit,
        )?;
        limit.take(10 * declared as u64, &list, "edges")?;
        src.extend(ends[0].iter().map(|&v| v + head.from as u32));
        dst.extend(ends[1].iter().map(|&v| v + tail.from as u32));
        types.resize(src.len(), r as u16);
        names.push(triplet.join(" "));
    }
    limit.graph(n as u64, 2 * src.len() as u64, &list)?;
    let graph = typed::graph(n, [src, dst], types, triplets.len(), false)?;
    let mut dataset = Dataset::unlabelled(super::name(at), graph);
    let node_types: Vec<u16> = kinds
        .iter()
        .enumerate()
        .flat_map(|(t, k)| std::iter::repeat_n(t as u16, k.n))
        .collect();
    let kind_names: Vec<String> = kinds.iter().map(|k| k.name.clone()).collect();
    dataset.about.types = Types::count(Some(&node_types), &kind_names, &dataset.graph, &names);
    dataset.about.format = "OGB";
    dataset.node_types = Some(node_types);
    let mut blocks = Vec::new();
    for kind in &kinds {
        let at = raw
            .join("node-feat")
            .join(&kind.name)
            .join("node-feat.csv.gz");
        let x = at.is_file().then(|| super::features(&at, kind.n, limit));
        blocks.push(x.transpose()?);
    }
    if blocks.iter().any(Option::is_some) {
        let values: u64 = blocks.iter().flatten().map(|x| x.len() as u64).sum();
        limit.take(8 * (values + 3 * n as u64), &list, "features")?;
        dataset.features = Features::Sparse(side_by_side(&kinds, &blocks));
    }
    label(&mut dataset, &kinds, &raw, limit)?;
    let split = super::split(at, ask.split)?;
    for kind in chosen(&kinds, &split.join("nodetype-has-split.csv.gz"), limit)? {
        let masks = [&mut dataset.train, &mut dataset.val, &mut dataset.test];
        for (mask, part) in masks.into_iter().zip(["train", "valid", "test"]) {
            let file = split.join(&kind.name).join(format!("{part}.csv.gz"));
            super::select(mask, &file, kind.from, kind.n, limit)?;
        }
    }
    Ok(dataset)
}

/// The types of vertices in sorted order.
fn kinds(at: &Path, limit: &Limit) -> Result<Vec<Kind>> {
    let file = at.display().to_string();
    let mut counts = csv::named(at, limit)?;
    counts.sort();
    if let Some(twice) = counts.windows(2).find(|w| w[0].0 == w[1].0) {
        let reason = format!("{} is there twice", shown(&twice[0].0));
        return Err(bad(&file, "types", reason, AGAIN));
    }
    if counts.len() > MAX_TYPES {
        let reason = format!("{} types are more than {MAX_TYPES}", counts.len());
        return Err(bad(&file, "types", reason, AGAIN));
    }
    let mut from = 0;
    let mut out = Vec::new();
    for (name, count) in counts {
        safe(&file, &name)?;
        let n = count.parse::<u32>().ok().map(|n| n as usize);
        let n = n.filter(|n| from + n < u32::MAX as usize).ok_or_else(|| {
            let reason = format!("'{count}' vertices cannot be numbered by 32 bits");
            bad(&file, &name, reason, AGAIN)
        })?;
        out.push(Kind { name, n, from });
        from += n;
    }
    limit.graph(from as u64, 0, &file)?;
    Ok(out)
}

/// A name that a file gave, which must not lead out of the folder nor break a message's line.
fn safe<'a>(file: &str, name: &'a str) -> Result<&'a str> {
    let special = |c: char| c.is_control() || matches!(c, '/' | '\\');
    let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(special);
    if plain {
        return Ok(name);
    }
    let shown = shown(name);
    let reason = format!("{shown} is not the name of a type");
    Err(bad(file, "names", reason, AGAIN))
}

/// The types that a table says `True` of.
fn chosen<'k>(kinds: &'k [Kind], at: &Path, limit: &Limit) -> Result<Vec<&'k Kind>> {
    let flags = csv::named(at, limit)?;
    let yes = |k: &&Kind| {
        flags
            .iter()
            .any(|(name, flag)| *name == k.name && flag == "True")
    };
    Ok(kinds.iter().filter(yes).collect())
}

/// Sets the classes of the types that have some.
fn label(dataset: &mut Dataset, kinds: &[Kind], raw: &Path, limit: &Limit) -> Result<()> {
    let at = raw.join("nodetype-has-label.csv.gz");
    let mut all = vec![-1i64; dataset.n()];
    limit.take(8 * all.len() as u64, &at.display().to_string(), "labels")?;
    for kind in chosen(kinds, &at, limit)? {
        let file = raw
            .join("node-label")
            .join(&kind.name)
            .join("node-label.csv.gz");
        let label = csv::labels(&file, limit)?;
        label.columns(1)?;
        check::length(&label.file, &kind.name, kind.n, label.n())?;
        all[kind.from..][..kind.n].copy_from_slice(&label.values);
    }
    let label = csv::CsvRows {
        file: at.display().to_string(),
        width: 1,
        values: all,
    };
    super::labelled(dataset, label)
}

/// Features with columns of their own for each type: those it has, or one a vertex.
fn side_by_side(kinds: &[Kind], blocks: &[Option<Mat>]) -> CsrBuf {
    let mut out = CsrBuf {
        weights: Some(Vec::new()),
        ..CsrBuf::empty(0)
    };
    let weights = out.weights.get_or_insert_default();
    let mut from = 0u32;
    for (kind, block) in kinds.iter().zip(blocks) {
        let width = block.as_ref().map_or(kind.n, Mat::ncols) as u32;
        for v in 0..kind.n {
            match block {
                Some(x) => {
                    out.indices.extend(from..from + width);
                    weights.extend(x.row(v));
                }
                None => {
                    out.indices.push(from + v as u32);
                    weights.push(1.0);
                }
            }
            out.indptr.push(out.indices.len() as u64);
        }
        from += width;
    }
    out.n_cols = from as usize;
    out
}
