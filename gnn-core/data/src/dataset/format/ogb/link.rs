//! Link prediction in OGB folders: `split/NAME/{train,valid,test}.pt`, dictionaries that PyTorch
//! wrote, read as data.
//!
//! `edge` `[M, 2]` and perhaps `edge_neg` (ogbl-collab, -ppa, -ddi, -vessel); or `source_node`,
//! `target_node` and `target_node_neg` (ogbl-citation2); or `head`, `tail`, `relation`, `head_neg`,
//! `tail_neg` (ogbl-wikikg2). Of several negative targets an edge the first is kept; relations of
//! held-out pairs are not. Where there are no negative pairs some are drawn.

use std::path::Path;

use super::AGAIN;
use crate::Result;
use crate::dataset::format::torch::Saved;
use crate::dataset::{Dataset, Limit, Pair, bad, links};

/// Pairs and negative ones of a part.
struct Part {
    pairs: Vec<Pair>,
    negative: Option<Vec<Pair>>,
}

/// Sets the links of a data set whose graph has the training edges alone.
pub(super) fn hold_out(dataset: &mut Dataset, split: &Path, limit: &Limit) -> Result<()> {
    let part = |name: &str| Part::read(&split.join(format!("{name}.pt")), dataset.n(), limit);
    let [train, val, test] = [part("train")?, part("valid")?, part("test")?];
    let pairs = [train.pairs, val.pairs, test.pairs];
    let mut held = match (val.negative, test.negative) {
        (Some(val_neg), Some(test_neg)) => {
            let [train, val, test] = pairs;
            links::Links {
                train,
                val,
                test,
                val_neg,
                test_neg,
                negatives: 1,
                pairing: None,
            }
        }
        _ => links::given(&dataset.name, &dataset.graph, pairs)?,
    };
    held.negatives = 1;
    dataset.links = Some(held);
    Ok(())
}

impl Part {
    fn read(at: &Path, n: usize, limit: &Limit) -> Result<Part> {
        let mut saved = Saved::open(at, limit)?;
        let file = saved.file().to_owned();
        if let Some((ends, shape)) = saved.ints("edge")? {
            let pairs = rows(&file, "edge", &ends, &shape, n)?;
            let negative = saved.ints("edge_neg")?;
            let negative = negative.map(|(ends, shape)| rows(&file, "edge_neg", &ends, &shape, n));
            return Ok(Part {
                pairs,
                negative: negative.transpose()?,
            });
        }
        let names = [
            ("source_node", "target_node", "target_node_neg"),
            ("head", "tail", "tail_neg"),
        ];
        for (from, to, without) in names {
            let (Some((u, _)), Some((v, _))) = (saved.ints(from)?, saved.ints(to)?) else {
                continue;
            };
            let pairs = join(&file, from, &u, v.iter().copied(), n)?;
            let negative = match saved.ints(without)? {
                Some((x, shape)) if shape.len() == 2 && shape[0] == u.len() && shape[1] > 0 => {
                    let first = x.chunks_exact(shape[1]).map(|row| row[0]);
                    Some(join(&file, without, &u, first, n)?)
                }
                _ => None,
            };
            return Ok(Part { pairs, negative });
        }
        let reason = "has neither edge, nor source_node and target_node, nor head and tail";
        Err(bad(&file, "dictionary", reason, AGAIN))
    }
}

/// One pair a row.
fn rows(file: &str, place: &str, ends: &[i64], shape: &[usize], n: usize) -> Result<Vec<Pair>> {
    if shape.len() != 2 || shape[1] != 2 {
        let reason = format!("expected (edges, 2), got {shape:?}");
        return Err(bad(file, place, reason, AGAIN));
    }
    let of = |k: usize| ends[k.min(ends.len())..].iter().step_by(2).copied();
    let sources: Vec<i64> = of(0).collect();
    join(file, place, &sources, of(1), n)
}

/// Pairs of two lists.
fn join(
    file: &str,
    place: &str,
    from: &[i64],
    to: impl Iterator<Item = i64>,
    n: usize,
) -> Result<Vec<Pair>> {
    let end = |v: i64, k: usize| match u32::try_from(v) {
        Ok(v) if (v as usize) < n => Ok(v),
        _ => {
            let reason = format!("vertex {v} is outside 0..{n}");
            Err(bad(file, format!("{place}[{k}]"), reason, AGAIN))
        }
    };
    let to: Vec<i64> = to.collect();
    if to.len() != from.len() {
        let reason = format!("{} sources, but {} targets", from.len(), to.len());
        return Err(bad(file, place, reason, AGAIN));
    }
    let pairs = from.iter().zip(&to).enumerate();
    pairs
        .map(|(k, (&u, &v))| Ok([end(u, k)?, end(v, k)?]))
        .collect()
}
