//! One hop: in-edges of many rows, drawn by several threads.

use super::FanOut;
use super::draw::Draw;
use kernels::par::{Par, split_rows};
use kernels::{Csr, hash};

/// Rows that a thread draws for at a time.
const ROWS: usize = 512;

/// What is drawn from.
#[derive(Clone, Copy)]
pub(super) struct Edges<'a> {
    pub(super) a: Csr<'a>,
    pub(super) types: Option<&'a [u16]>,
    pub(super) bias: Option<&'a [f32]>,
    /// The vertex of each column, where it is another number.
    pub(super) ids: Option<&'a [u32]>,
}

/// How it is drawn.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub(super) fan_out: FanOut,
    pub(super) replace: bool,
    /// What randomness is made of, with the vertex.
    pub(super) key: u64,
}

/// What was drawn, row by row.
#[derive(Default)]
pub(crate) struct Hop {
    /// Where each row's edges start: `[rows + 1]`.
    pub(crate) indptr: Vec<u64>,
    /// Sources, as columns of the graph: `[edges]`.
    pub(crate) sources: Vec<u32>,
    /// What each edge counts for: `[edges]`; 1 when absent.
    pub(crate) weights: Option<Vec<f32>>,
    /// Type of each edge, where the graph has any: `[edges]`.
    pub(crate) types: Option<Vec<u16>>,
}

/// The in-edges of `rows` that `rule` draws.
pub(super) fn hop(par: &Par, edges: Edges<'_>, rule: Rule, rows: &[u32]) -> Hop {
    let bounds = split_rows(rows.len(), rows.len().div_ceil(ROWS));
    let runs: Vec<&[u32]> = bounds.windows(2).map(|b| &rows[b[0]..b[1]]).collect();
    let parts = par.map(runs, |rows| part(edges, rule, rows));
    let mut parts = parts.into_iter();
    let mut all = parts.next().unwrap_or_default();
    if all.indptr.is_empty() {
        all.indptr.push(0);
    }
    for part in parts {
        let before = all.sources.len() as u64;
        let ends = part.indptr[1..].iter().map(|end| before + end);
        all.indptr.extend(ends);
        all.sources.extend(part.sources);
        if let (Some(all), Some(more)) = (&mut all.weights, part.weights) {
            all.extend(more);
        }
        if let (Some(all), Some(more)) = (&mut all.types, part.types) {
            all.extend(more);
        }
    }
    all
}

fn part(edges: Edges<'_>, rule: Rule, rows: &[u32]) -> Hop {
    let a = edges.a;
    let (mut draw, mut indptr, mut sources) = (Draw::default(), vec![0], Vec::new());
    let weighs = a.weights.is_some() || rule.fan_out != FanOut::All;
    let mut weights = weighs.then(Vec::new);
    let mut types = edges.types.map(|_| Vec::new());
    for &v in rows {
        let span = a.span(v as usize);
        let id = edges.ids.map_or(v, |ids| ids[v as usize]);
        let (key, first, d) = (hash::row(rule.key, id), span.start, span.len());
        match (rule.fan_out, edges.bias, rule.replace) {
            (FanOut::All, ..) => draw.all(d),
            (FanOut::Of(k), None, false) => draw.distinct(key, d, k as usize),
            (FanOut::Of(k), None, true) => draw.repeated(key, d, k as usize),
            (FanOut::Of(k), Some(bias), false) => draw.distinct_by(key, &bias[span], k as usize),
            (FanOut::Of(k), Some(bias), true) => draw.repeated_by(key, &bias[span], k as usize),
        }
        let drawn = draw.picked.iter().map(|&p| first + p as usize);
        sources.extend(drawn.clone().map(|e| a.indices[e]));
        if let Some(weights) = &mut weights {
            if draw.factors.is_empty() {
                let factor = draw.factor;
                weights.extend(drawn.clone().map(|e| a.weight(e) * factor));
            } else {
                let with = drawn.clone().zip(&draw.factors);
                weights.extend(with.map(|(e, factor)| a.weight(e) * factor));
            }
        }
        if let (Some(types), Some(all)) = (&mut types, edges.types) {
            types.extend(drawn.map(|e| all[e]));
        }
        indptr.push(sources.len() as u64);
    }
    Hop {
        indptr,
        sources,
        weights,
        types,
    }
}
