//! The options of a conversion for a data set that is in memory, with its features, labels and masks.

use rayon::prelude::*;

use super::{Options, Relabel};
use crate::dataset::{About, Dataset, Features, Links, TypeCount, Types};
use crate::graph::{EdgeOptions, Graph, Relations, SelfLoops};
use crate::{Error, Result};

/// `data` after what `options` ask for, and the ids its vertices had before where they are others.
///
/// # Errors
/// [`Error::Unsupported`] for changes to typed edges that have no clear meaning, [`Error::Data`] for
/// a vertex to keep that is not there.
pub fn apply(data: Dataset, options: &Options) -> Result<(Dataset, Option<Vec<u64>>)> {
    let mut data = data;
    let edges = EdgeOptions {
        symmetrise: options.symmetrise,
        dedup: options.dedup,
        self_loops: options.self_loops,
    };
    if edges != EdgeOptions::AS_IS {
        if data.graph.relations().is_some() {
            return Err(Error::Unsupported {
                what: data.name,
                reason: "its edges are typed, and stay as they are".into(),
                help: "leave --symmetrise, --dedup and --self-loops out".into(),
            });
        }
        if !data.graph.is_already(edges) {
            let (src, dst) = ends(&data.graph);
            data.graph = Graph::from_edges(data.n(), &src, &dst, edges)?;
        }
    }
    let mut kept: Option<Vec<u32>> = None;
    if let Some(ids) = &options.induce {
        kept = Some(among(&data, ids)?);
    }
    if let Some(ids) = &kept {
        data = select(data, ids)?;
    }
    let order: Option<Vec<u32>> = match options.relabel {
        Relabel::None => None,
        Relabel::Compact => Some(with_edges(&data.graph)),
        Relabel::Degree => {
            let mut order: Vec<u32> = (0..data.n() as u32).collect();
            order.par_sort_by_key(|&v| std::cmp::Reverse(data.graph.in_degree(v as usize)));
            Some(order)
        }
    };
    if let Some(order) = order {
        data = select(data, &order)?;
        kept = Some(match kept {
            None => order,
            Some(before) => order.iter().map(|&v| before[v as usize]).collect(),
        });
    }
    Ok((
        data,
        kept.map(|ids| ids.into_iter().map(u64::from).collect()),
    ))
}

/// The vertices to keep, ascending.
fn among(data: &Dataset, ids: &[u64]) -> Result<Vec<u32>> {
    let n = data.n() as u64;
    if let Some(k) = ids.iter().position(|&v| v >= n) {
        let reason = format!("vertex {} is outside 0..{n}", ids[k]);
        let place = format!("vertex {k} to keep");
        let help = "name vertices of the source";
        return Err(crate::store::bad(&data.name, &place, reason, help));
    }
    let mut ids: Vec<u32> = ids.iter().map(|&v| v as u32).collect();
    ids.par_sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// The vertices that have any edge, ascending.
fn with_edges(graph: &Graph) -> Vec<u32> {
    let mut used = vec![false; graph.n()];
    graph
        .indices()
        .iter()
        .for_each(|&s| used[s as usize] = true);
    let has = |&v: &u32| used[v as usize] || graph.in_degree(v as usize) > 0;
    (0..graph.n() as u32).filter(has).collect()
}

/// Sources and destinations of all edges.
fn ends(graph: &Graph) -> (Vec<u32>, Vec<u32>) {
    let row = |v: usize| std::iter::repeat_n(v as u32, graph.in_degree(v));
    (
        graph.indices().to_vec(),
        (0..graph.n()).flat_map(row).collect(),
    )
}

/// The vertices `ids` in that order and the edges between them, with all that belongs to them.
fn select(data: Dataset, ids: &[u32]) -> Result<Dataset> {
    let mut number = vec![u32::MAX; data.n()];
    for (new, &old) in ids.iter().enumerate() {
        number[old as usize] = new as u32;
    }
    let (mut src, mut dst, mut types) = (Vec::new(), Vec::new(), Vec::new());
    for (new, &old) in ids.iter().enumerate() {
        let start = data.graph.indptr()[old as usize] as usize;
        for (e, &s) in (start..).zip(data.graph.neighbours(old as usize)) {
            if number[s as usize] == u32::MAX {
                continue;
            }
            src.push(number[s as usize]);
            dst.push(new as u32);
            if let Some(relations) = data.graph.relations() {
                types.push(relations.types()[e]);
            }
        }
    }
    let graph = match data.graph.relations() {
        None => Graph::from_edges(ids.len(), &src, &dst, EdgeOptions::AS_IS)?,
        Some(r) => {
            let relations = Relations::new(types, r.count())?;
            Graph::from_typed_edges(ids.len(), &src, &dst, &relations)?
        }
    };
    let node_types: Option<Vec<u16>> = data.node_types.as_ref().map(|of| pick(of, ids));
    let about = about(&data.about, ids, node_types.as_deref(), &graph);
    let classes = data.n_classes;
    let row = |&v: &u32, of: &[u8]| of[v as usize * classes..][..classes].to_vec();
    Ok(Dataset {
        graph,
        features: match data.features {
            Features::Identity(_) => Features::Identity(ids.len()),
            features => features.select_rows(ids),
        },
        labels: pick(&data.labels, ids),
        train: pick(&data.train, ids),
        val: pick(&data.val, ids),
        test: pick(&data.test, ids),
        multi_labels: data
            .multi_labels
            .map(|of| ids.iter().flat_map(|v| row(v, &of)).collect()),
        node_types,
        about,
        links: data.links.map(|links| moved(&links, &number)),
        ..data
    })
}

/// What is said of a data set after only the vertices `ids` of it are left.
fn about(of: &About, ids: &[u32], types: Option<&[u16]>, graph: &Graph) -> About {
    let count = |list: &[TypeCount], types: &[u16]| -> Vec<TypeCount> {
        let mut list = list.to_vec();
        list.iter_mut().for_each(|t| t.count = 0);
        for &t in types {
            if let Some(t) = list.get_mut(usize::from(t)) {
                t.count += 1;
            }
        }
        list
    };
    let relations = graph.relations().map_or(&[][..], Relations::types);
    About {
        types: Types {
            vertices: count(&of.types.vertices, types.unwrap_or(&[])),
            relations: count(&of.types.relations, relations),
        },
        ids: of.ids.as_ref().map(|names| {
            let name = |&v: &u32| names.get(v as usize).unwrap_or_default();
            ids.iter().map(name).collect()
        }),
        ..of.clone()
    }
}

fn pick<T: Copy + Send + Sync>(of: &[T], ids: &[u32]) -> Vec<T> {
    ids.par_iter().map(|&v| of[v as usize]).collect()
}

/// The pairs whose vertices both stay, in their new numbers.
fn moved(links: &Links, number: &[u32]) -> Links {
    let list = |pairs: &[[u32; 2]]| -> Vec<[u32; 2]> {
        let new = pairs.iter().map(|p| p.map(|v| number[v as usize]));
        new.filter(|p| !p.contains(&u32::MAX)).collect()
    };
    Links {
        train: list(&links.train),
        val: list(&links.val),
        test: list(&links.test),
        val_neg: list(&links.val_neg),
        test_neg: list(&links.test_neg),
        negatives: links.negatives,
        pairing: None,
    }
}

impl Options {
    /// The options that change nothing of a data set.
    pub fn as_is() -> Options {
        Options {
            dedup: false,
            self_loops: SelfLoops::Keep,
            ..Options::default()
        }
    }
}
