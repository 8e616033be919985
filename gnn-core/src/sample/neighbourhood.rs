//! A rule for drawing neighbours that is written elsewhere: in the cell of a notebook, say.
//!
//! # Paper
//! ByteGNN § 4.2.1: users say how neighbours are drawn, and nothing about when or where that is done.

use super::Hop;
use super::hop::{Edges, Rule};
use crate::error::{Error, Result};
use crate::rng;
use kernels::hash;
use kernels::par::{Par, split_rows};

/// Rows that a thread draws for at a time.
const ROWS: usize = 256;
/// Vertices that a rule is tried on.
const TRIED: usize = 512;

/// Draws in-neighbours of a vertex. It runs at the vertex's owner, whoever asks, and sees nothing but the vertex and
/// random numbers that depend on seed, epoch, batch, layer and vertex alone: so the same is drawn on any number
/// of ranks, in any order, by any thread.
pub trait Neighbourhood: Send + Sync {
    /// Takes some of `of`'s in-edges: at most its fan-out, all where it has none.
    fn draw(&self, of: &Vertex<'_>, random: &mut Random, drawn: &mut Drawn);
}

/// A vertex whose in-neighbours are drawn.
#[derive(Clone, Copy)]
pub struct Vertex<'a> {
    /// The data set's id.
    pub id: u32,
    /// The layer that it is drawn for; the last one is of the seeds.
    pub layer: usize,
    /// How many in-edges to take at most; none for all.
    pub fan_out: Option<usize>,
    edges: Edges<'a>,
    degrees: &'a [u32],
    first: usize,
    degree: usize,
}

impl Vertex<'_> {
    /// Number of its in-edges, self-loops of the model included.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// The data set's id of the source of its `k`-th in-edge.
    pub fn source(&self, k: usize) -> u32 {
        self.edges.id(self.column(k))
    }

    /// The in-degree of that source in the whole graph.
    pub fn source_degree(&self, k: usize) -> u32 {
        self.degrees[self.column(k) as usize]
    }

    /// The weight of that edge in the model's sum.
    pub fn weight(&self, k: usize) -> f32 {
        self.edges.a.weight(self.first + self.at(k))
    }

    /// The type of that edge; 0 where there are none.
    pub fn edge_type(&self, k: usize) -> u16 {
        self.edges
            .types
            .map_or(0, |types| types[self.first + self.at(k)])
    }

    fn column(&self, k: usize) -> u32 {
        self.edges.a.indices[self.first + self.at(k)]
    }

    fn at(&self, k: usize) -> usize {
        assert!(
            k < self.degree,
            "in-edge {k} of {} of vertex {}",
            self.degree,
            self.id
        );
        k
    }
}

/// Random numbers of one vertex.
pub struct Random {
    key: u64,
    count: u64,
}

impl Random {
    /// A number below `n`, each as likely.
    pub fn below(&mut self, n: usize) -> usize {
        self.count += 1;
        rng::below(self.key, self.count, n as u64) as usize
    }

    /// A number from 0 to 1, without 1.
    pub fn uniform(&mut self) -> f64 {
        self.count += 1;
        rng::uniform_f64(self.key, self.count)
    }
}

/// What is drawn of one vertex.
#[derive(Default)]
pub struct Drawn {
    /// Which in-edges, and what each counts for where the rule says so.
    taken: Vec<(u32, Option<f32>)>,
}

impl Drawn {
    /// Takes the `k`-th in-edge. It counts for as many as there are for each that is taken, which makes a mean of
    /// neighbours that are drawn alike a mean of all.
    pub fn take(&mut self, k: usize) {
        self.taken.push((k as u32, None));
    }

    /// Takes it, and says what it counts for: one over the expected number of times that it is taken, for sums
    /// that are right on average.
    pub fn take_for(&mut self, k: usize, counts: f32) {
        self.taken.push((k as u32, Some(counts)));
    }

    /// How many have been taken.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }
}

/// A rule with what it may ask of vertices.
#[derive(Clone, Copy)]
pub(super) struct Custom<'a> {
    pub(super) by: &'a dyn Neighbourhood,
    /// By column, the in-degree in the whole graph.
    pub(super) degrees: &'a [u32],
    pub(super) layer: usize,
}

impl Custom<'_> {
    fn of<'e>(&'e self, edges: Edges<'e>, rule: &Rule<'_>, row: u32) -> (Vertex<'e>, Random) {
        let span = edges.a.span(row as usize);
        let id = edges.id(row);
        let vertex = Vertex {
            id,
            layer: self.layer,
            fan_out: rule.fan_out.of(0).map(|k| k as usize),
            edges,
            degrees: self.degrees,
            first: span.start,
            degree: span.len(),
        };
        let key = hash::row(rule.key, id);
        (vertex, Random { key, count: 0 })
    }

    /// What the rule draws of a row, in the order of the in-edges; why that cannot be, if it cannot.
    fn drawn(
        &self,
        edges: Edges<'_>,
        rule: &Rule<'_>,
        row: u32,
        drawn: &mut Drawn,
    ) -> std::result::Result<usize, String> {
        let (vertex, mut random) = self.of(edges, rule, row);
        drawn.taken.clear();
        self.by.draw(&vertex, &mut random, drawn);
        let (id, degree) = (vertex.id, vertex.degree);
        if let Some((k, _)) = drawn.taken.iter().find(|(k, _)| *k as usize >= degree) {
            return Err(format!(
                "in-edge {k} of vertex {id} was taken, which has {degree}"
            ));
        }
        let most = vertex.fan_out.unwrap_or(degree);
        if drawn.len() > most {
            return Err(format!(
                "{} in-edges of vertex {id} were taken, at most {most} were asked for",
                drawn.len()
            ));
        }
        if vertex.fan_out.is_none() && drawn.len() < degree {
            return Err(format!(
                "{} of {degree} in-edges of vertex {id} were taken, all were asked for",
                drawn.len()
            ));
        }
        let bad = |x: &f32| !x.is_finite();
        if drawn
            .taken
            .iter()
            .any(|(_, counts)| counts.as_ref().is_some_and(bad))
        {
            return Err(format!(
                "an in-edge of vertex {id} counts for what is no number"
            ));
        }
        drawn.taken.sort_by_key(|(k, _)| *k);
        Ok(degree)
    }

    /// The in-edges of `rows` that the rule draws.
    ///
    /// # Panics
    /// When the rule takes what it may not: [`Custom::check`] is to find that before.
    pub(super) fn hop(&self, par: &Par, edges: Edges<'_>, rule: Rule<'_>, rows: &[u32]) -> Hop {
        let bounds = split_rows(rows.len(), rows.len().div_ceil(ROWS));
        let runs = bounds.windows(2).map(|b| &rows[b[0]..b[1]]).collect();
        Hop::joined(par.map(runs, |rows: &[u32]| self.run(edges, &rule, rows)))
    }

    fn run(&self, edges: Edges<'_>, rule: &Rule<'_>, rows: &[u32]) -> Hop {
        let weighs = edges.a.weights.is_some() || rule.weigh;
        let mut hop = Hop {
            indptr: vec![0],
            sources: Vec::new(),
            weights: weighs.then(Vec::new),
            types: edges.types.map(|_| Vec::new()),
        };
        let mut drawn = Drawn::default();
        for &row in rows {
            let degree = match self.drawn(edges, rule, row, &mut drawn) {
                Ok(degree) => degree,
                Err(why) => panic!("a sampling function went wrong: {why}"),
            };
            let first = edges.a.span(row as usize).start;
            let each = degree as f32 / drawn.len().max(1) as f32;
            for &(k, counts) in &drawn.taken {
                let e = first + k as usize;
                hop.sources.push(edges.a.indices[e]);
                if let Some(weights) = &mut hop.weights {
                    let factor = if rule.weigh {
                        counts.unwrap_or(each)
                    } else {
                        1.0
                    };
                    weights.push(factor * edges.a.weight(e));
                }
                if let (Some(to), Some(from)) = (&mut hop.types, edges.types) {
                    to.push(from[e]);
                }
            }
            hop.indptr.push(hop.sources.len() as u64);
        }
        hop
    }

    /// Tries the rule on some rows: in-edges that there are, no more than were asked for, and the same twice.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with what it did.
    pub(super) fn check(&self, edges: Edges<'_>, rule: Rule<'_>, rows: usize) -> Result<()> {
        let wrong = |reason: String| {
            Error::Unsupported {
            what: "this sampling function".into(),
            reason,
            help: "take in-edges 0 to of.degree(), at most of.fan_out of them and all where that is none, and \
                   draw with `random` alone"
                .into(),
        }
        };
        let (mut once, mut again) = (Drawn::default(), Drawn::default());
        for row in (0..rows).step_by(rows.div_ceil(TRIED).max(1)) {
            for drawn in [&mut once, &mut again] {
                self.drawn(edges, &rule, row as u32, drawn).map_err(wrong)?;
            }
            let bits = |drawn: &Drawn| -> Vec<(u32, Option<u32>)> {
                let taken = drawn.taken.iter();
                taken.map(|(k, c)| (*k, c.map(f32::to_bits))).collect()
            };
            if bits(&once) != bits(&again) {
                let id = edges.id(row as u32);
                return Err(wrong(format!(
                    "vertex {id} was drawn otherwise the second time"
                )));
            }
        }
        Ok(())
    }
}
