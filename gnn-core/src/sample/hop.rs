//! One hop: in-edges of many rows, drawn by several threads.
//!
//! How many edges a row gives is known before any is drawn, so rows are counted first and every
//! thread then writes where its edges belong.

use super::FanOut;
use super::among::Among;
use super::draw::Draw;
use super::links::Without;
use kernels::par::{Par, cut_mut, split_rows};
use kernels::{Csr, hash, prefetch};
use std::ops::Range;

/// Rows that a thread draws for at a time.
const ROWS: usize = 512;

/// Rows whose edges are on their way from memory while others are drawn.
const GROUP: usize = 32;

/// How far ahead of its use the place where a row's edges start is asked for.
const AHEAD: usize = 16;

/// What is drawn from.
#[derive(Clone, Copy)]
pub(super) struct Edges<'a> {
    pub(super) a: Csr<'a>,
    pub(super) types: Option<&'a [u16]>,
    pub(super) relations: usize,
    pub(super) bias: Option<&'a [f32]>,
    /// The vertex of each column, where it is another number.
    pub(super) ids: Option<&'a [u32]>,
    /// Edges that are as if they were not there.
    pub(super) without: Option<&'a Without>,
}

/// How it is drawn.
#[derive(Clone, Copy)]
pub(super) struct Rule<'a> {
    pub(super) fan_out: &'a FanOut,
    pub(super) replace: bool,
    /// Whether an edge counts for the inverse of its probability.
    pub(super) weigh: bool,
    /// What randomness is made of, with the vertex.
    pub(super) key: u64,
}

/// What was drawn, row by row.
#[derive(Debug, Default, PartialEq)]
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

impl Hop {
    /// No rows, and room for all edges of `parts`, which were drawn from one graph.
    pub(crate) fn like(parts: &[Hop]) -> Hop {
        let edges = parts.iter().map(|p| p.sources.len()).sum();
        // Parts without rows say nothing.
        let mut said = parts.iter().filter(|p| p.indptr.len() > 1);
        let weights = said.clone().any(|p| p.weights.is_some());
        let types = said.any(|p| p.types.is_some());
        Hop {
            indptr: vec![0],
            sources: Vec::with_capacity(edges),
            weights: weights.then(|| Vec::with_capacity(edges)),
            types: types.then(|| Vec::with_capacity(edges)),
        }
    }

    /// Adds some rows of a part.
    #[inline]
    pub(crate) fn push_rows(&mut self, part: &Hop, rows: Range<usize>) {
        let (first, end) = (part.indptr[rows.start], part.indptr[rows.end]);
        let span = first as usize..end as usize;
        let before = self.sources.len() as u64;
        let ends = &part.indptr[rows.start + 1..=rows.end];
        self.indptr.extend(ends.iter().map(|e| e - first + before));
        self.sources.extend_from_slice(&part.sources[span.clone()]);
        if let (Some(to), Some(from)) = (&mut self.weights, &part.weights) {
            to.extend_from_slice(&from[span.clone()]);
        }
        if let (Some(to), Some(from)) = (&mut self.types, &part.types) {
            to.extend_from_slice(&from[span]);
        }
    }

    /// The rows of several hops, one after the other.
    pub(crate) fn joined(mut parts: Vec<Hop>) -> Hop {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let mut all = Hop::like(&parts);
        for part in &parts {
            all.push_rows(part, 0..part.indptr.len() - 1);
        }
        all
    }
}

/// Some rows, and where their edges go.
struct Job<'a> {
    rows: &'a [u32],
    sources: &'a mut [u32],
    weights: Option<&'a mut [f32]>,
    types: Option<&'a mut [u16]>,
}

impl Edges<'_> {
    /// The vertex of column `c` in the whole graph.
    #[inline]
    pub(super) fn id(&self, c: u32) -> u32 {
        self.ids.map_or(c, |ids| ids[c as usize])
    }
}

impl Rule<'_> {
    /// How many of `d` edges are drawn, of which so many `can` be.
    #[inline]
    pub(super) fn count(&self, k: Option<u32>, d: usize, can: impl FnOnce() -> usize) -> usize {
        let Some(k) = k else { return d };
        let can = can();
        match self.replace {
            true if can > 0 => k as usize,
            true => 0,
            false => can.min(k as usize),
        }
    }
}

/// The in-edges of `rows` that `rule` draws.
pub(super) fn hop(par: &Par, edges: Edges<'_>, rule: Rule<'_>, rows: &[u32]) -> Hop {
    let mut indptr = vec![0u64; rows.len() + 1];
    let bounds = split_rows(rows.len(), rows.len().div_ceil(ROWS));
    let counts = cut_mut(&mut indptr[1..], 1, &bounds);
    par.run(counts, |(first, out)| {
        let rows = &rows[first..first + out.len()];
        count(edges, rule, rows, out);
    });
    let mut end = 0;
    indptr.iter_mut().for_each(|count| {
        end += *count;
        *count = end;
    });
    let weighs = edges.a.weights.is_some() || (rule.weigh && *rule.fan_out != FanOut::All);
    let n = end as usize;
    let mut sources = vec![0; n];
    let mut weights = weighs.then(|| vec![0.0; n]);
    let mut types = edges.types.map(|_| vec![0; n]);
    {
        let at: Vec<usize> = bounds.iter().map(|&r| indptr[r] as usize).collect();
        let mut weights = weights.as_mut().map(|w| cut_mut(w, 1, &at).into_iter());
        let mut types = types.as_mut().map(|t| cut_mut(t, 1, &at).into_iter());
        // Runs without an edge are left out, here as there.
        let runs = bounds.windows(2).zip(at.windows(2));
        let runs = runs.filter(|(_, at)| at[0] < at[1]);
        let sources = cut_mut(&mut sources, 1, &at);
        let jobs = runs.zip(sources).map(|((b, _), (_, sources))| Job {
            rows: &rows[b[0]..b[1]],
            sources,
            weights: weights.as_mut().and_then(|w| Some(w.next()?.1)),
            types: types.as_mut().and_then(|t| Some(t.next()?.1)),
        });
        par.run(jobs.collect(), |job| fill(edges, rule, job));
    }
    Hop {
        indptr,
        sources,
        weights,
        types,
    }
}

/// How many edges each row gives.
fn count(edges: Edges<'_>, rule: Rule<'_>, rows: &[u32], out: &mut [u64]) {
    let a = edges.a;
    let mut among = Among::default();
    for (r, (&v, out)) in rows.iter().zip(out).enumerate() {
        if let Some(&next) = rows.get(r + AHEAD) {
            prefetch(&a.indptr[next as usize]);
        }
        if among.list(&edges, rule.fan_out, v) {
            let groups = among.groups(rule.fan_out);
            let counts = groups.map(|(_, k, group)| {
                let can = |bias: &[f32]| group.iter().filter(|&&e| bias[e as usize] > 0.0).count();
                rule.count(k, group.len(), || {
                    edges
                        .bias
                        .map_or(group.len(), |b| can(&b[a.span(v as usize)]))
                })
            });
            *out = counts.sum::<usize>() as u64;
            continue;
        }
        let span = a.span(v as usize);
        let d = span.len();
        let can = |bias: &[f32]| bias.iter().filter(|b| **b > 0.0).count();
        let k = match rule.fan_out {
            FanOut::Of(k) => Some(*k),
            _ => None,
        };
        *out = rule.count(k, d, || edges.bias.map_or(d, |b| can(&b[span]))) as u64;
    }
}

/// Draws the edges of a job's rows.
fn fill(edges: Edges<'_>, rule: Rule<'_>, job: Job<'_>) {
    let a = edges.a;
    let (mut draw, mut among) = (Draw::default(), Among::default());
    let mut drawn: Vec<usize> = Vec::new();
    let (mut weights, mut types) = (job.weights, job.types);
    let mut done = 0;
    for rows in job.rows.chunks(GROUP) {
        let from = done;
        drawn.clear();
        for (r, &v) in rows.iter().enumerate() {
            if let Some(&next) = rows.get(r + 1) {
                prefetch(&a.indptr[next as usize]);
            }
            let span = a.span(v as usize);
            let (key, first) = (hash::row(rule.key, edges.id(v)), span.start);
            if among.list(&edges, rule.fan_out, v) {
                among.draw(&mut draw, rule, key, edges.bias.map(|b| &b[span]));
            } else {
                let k = match rule.fan_out {
                    FanOut::Of(k) => Some(*k as usize),
                    _ => None,
                };
                draw.draw(
                    key,
                    span.len(),
                    k,
                    edges.bias.map(|b| &b[span]),
                    rule.replace,
                );
            }
            for &p in &draw.picked {
                let e = first + p as usize;
                prefetch(a.indices.as_ptr().wrapping_add(e));
                if let Some(all) = a.weights {
                    prefetch(all.as_ptr().wrapping_add(e));
                }
                drawn.push(e);
            }
            if let Some(weights) = &mut weights {
                let out = &mut weights[done..done + draw.picked.len()];
                match (rule.weigh, draw.factors.is_empty()) {
                    (false, _) => out.fill(1.0),
                    (true, true) => out.fill(draw.factor),
                    (true, false) => out.copy_from_slice(&draw.factors),
                }
            }
            done += draw.picked.len();
        }
        for (source, &e) in job.sources[from..done].iter_mut().zip(&drawn) {
            *source = a.indices[e];
        }
        if let (Some(weights), Some(all)) = (&mut weights, a.weights) {
            for (weight, &e) in weights[from..done].iter_mut().zip(&drawn) {
                *weight *= all[e];
            }
        }
        if let (Some(types), Some(all)) = (&mut types, edges.types) {
            for (t, &e) in types[from..done].iter_mut().zip(&drawn) {
                *t = all[e];
            }
        }
    }
}
