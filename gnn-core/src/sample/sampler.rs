//! The sampler: one graph, how many in-edges each layer takes, and how they are drawn.

use super::hop::{self, Edges};
use super::neighbourhood::{Custom, Neighbourhood};
use super::{Compact, FanOut, Hop, MiniBatch, Without};
use crate::error::{Error, Result};
use crate::graph::{Block, Relations};
use crate::rng::{self, Purpose};
use kernels::cuda::Device;
use kernels::cuda::ops::{DrawHow, DrawnFrom};
use kernels::hash::join;
use kernels::par::Par;
use std::sync::Arc;

/// Draws mini-batches from one graph.
#[derive(Debug, Clone)]
pub struct Sampler {
    pub(super) graph: Arc<Block>,
    pub(super) fan_outs: Vec<FanOut>,
    pub(super) replace: bool,
    pub(super) weigh: bool,
    /// By edge, how likely it is drawn beside others of the same row.
    pub(super) bias: Option<Arc<Vec<f32>>>,
    /// By column, the vertex's number in the whole graph, where it has another.
    pub(super) ids: Option<Arc<Vec<u32>>>,
    /// A rule that is written elsewhere, and the in-degree of each column in the whole graph.
    pub(super) custom: Option<CustomRule>,
    /// The graph on a device that draws.
    pub(super) device: Option<Arc<DrawnFrom>>,
    pub(super) seed: u64,
}

/// A rule that is written elsewhere.
#[derive(Clone)]
pub(super) struct CustomRule {
    pub(super) by: Arc<dyn Neighbourhood>,
    pub(super) degrees: Arc<Vec<u32>>,
}

impl std::fmt::Debug for CustomRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a rule that is written elsewhere")
    }
}

impl Sampler {
    /// Draws from the in-edges of `graph`, whose rows and columns are all vertices. `fan_outs` are those
    /// of the layers, in the order in which layers run: the last one is of the seeds' own in-edges.
    pub fn new(graph: Arc<Block>, fan_outs: Vec<FanOut>, seed: u64) -> Sampler {
        Sampler {
            graph,
            fan_outs,
            replace: false,
            weigh: true,
            bias: None,
            ids: None,
            custom: None,
            device: None,
            seed,
        }
    }

    /// With replacement: `k` draws of each vertex, an edge as often as it is drawn.
    pub fn with_replacement(mut self) -> Sampler {
        self.replace = true;
        self
    }

    /// Drawn edges weigh what they do in the graph, nothing where it has no weights. For what is no sum
    /// over in-edges, attention for instance.
    pub fn unweighted(mut self) -> Sampler {
        self.weigh = false;
        self
    }

    /// Edges are drawn in proportion to `bias: [edges]`, in the order of the graph's in-edges; those with
    /// 0 never. Without replacement one after the other, in proportion among those that are left.
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of them, [`Error::Spec`] for a negative or infinite one.
    pub fn with_bias(mut self, bias: Vec<f32>) -> Result<Sampler> {
        let edges = self.graph.n_edges();
        if bias.len() != edges {
            return Err(Error::Shape {
                op: "bias of a sampler".into(),
                expected: format!("{edges} numbers, one an edge"),
                got: bias.len().to_string(),
            });
        }
        if let Some(e) = bias.iter().position(|b| !(0.0..f32::INFINITY).contains(b)) {
            return Err(Error::Spec {
                key: "bias".into(),
                reason: format!("edge {e} has {}", bias[e]),
                help: "give finite numbers that are not negative".into(),
            });
        }
        self.bias = Some(Arc::new(bias));
        Ok(self)
    }

    /// The graph is a part: column `c` is the vertex `ids[c]` of the whole graph, and rows are the first
    /// columns. What is drawn for a row is then what the whole graph draws for its vertex, where the
    /// part has all of its in-edges in the same order.
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of them.
    pub fn with_ids(mut self, ids: Vec<u32>) -> Result<Sampler> {
        let columns = self.graph.n_src;
        if ids.len() != columns {
            return Err(Error::Shape {
                op: "ids of a sampler".into(),
                expected: format!("{columns} numbers, one a column"),
                got: ids.len().to_string(),
            });
        }
        self.ids = Some(Arc::new(ids));
        Ok(self)
    }

    /// Edges are drawn by a rule that is written elsewhere, in the place of fan-outs with or without replacement;
    /// `degrees: [columns]` are in-degrees in the whole graph. Tried on some rows first.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the rule draws what it may not; [`Error::Shape`] for another number of degrees.
    pub(crate) fn with_rule(
        mut self,
        by: Arc<dyn Neighbourhood>,
        degrees: Vec<u32>,
    ) -> Result<Sampler> {
        if degrees.len() != self.graph.n_src {
            return Err(Error::Shape {
                op: "degrees of a sampler".into(),
                expected: format!("{} numbers, one a column", self.graph.n_src),
                got: degrees.len().to_string(),
            });
        }
        let degrees = Arc::new(degrees);
        self.custom = Some(CustomRule { by, degrees });
        for layer in 0..self.fan_outs.len() {
            let (edges, rule) = self.rule(layer, (0, 0), None);
            if let Some(custom) = self.custom_at(layer) {
                custom.check(edges, rule, self.graph.n_dst)?;
            }
        }
        Ok(self)
    }

    /// `device` draws, where the graph is copied to: the same edges. What it cannot draw (in proportion to a bias, by
    /// a rule that is written elsewhere, by type, without some edges) the host does.
    pub(crate) fn on_device(mut self, device: &Arc<Device>) -> Sampler {
        let a = self.graph.csr();
        let types = self.graph.types().map(|t| &t[..]);
        let ids = self.ids.as_ref().map(|ids| &ids[..]);
        self.device = Some(Arc::new(DrawnFrom::new(device, a, types, ids)));
        self
    }

    /// What the device draws of `rows`, if it does.
    fn drawn_on_device(&self, rule: hop::Rule<'_>, rows: &[u32]) -> Option<Hop> {
        let from = self.device.as_ref().filter(|_| !rows.is_empty())?;
        let k = match rule.fan_out {
            FanOut::All => None,
            FanOut::Of(k) => Some(*k),
            FanOut::PerType(_) => return None,
        };
        if self.bias.is_some() || self.custom.is_some() {
            return None;
        }
        let drawn = from.draw(
            rows,
            DrawHow {
                k,
                replace: rule.replace,
                weigh: rule.weigh,
                key: rule.key,
            },
        );
        Some(Hop {
            indptr: drawn.indptr,
            sources: drawn.sources,
            weights: drawn.weights,
            types: drawn.types,
        })
    }

    fn custom_at(&self, layer: usize) -> Option<Custom<'_>> {
        let custom = self.custom.as_ref()?;
        Some(Custom {
            by: custom.by.as_ref(),
            degrees: &custom.degrees,
            layer,
        })
    }

    /// Edges are drawn in proportion to the in-degree of their sources. Of a part, give the degrees of
    /// the whole graph with [`Sampler::with_bias`] instead.
    pub fn by_degree(self) -> Sampler {
        let a = self.graph.csr();
        let degree = |&s: &u32| a.span(s as usize).len() as f32;
        let bias = Arc::new(a.indices.iter().map(degree).collect());
        Sampler {
            bias: Some(bias),
            ..self
        }
    }

    /// The batch of `seeds`, which are distinct, that has the number `batch` in its epoch.
    ///
    /// # Errors
    /// [`Error::Shape`] for a seed that is no vertex, and for fan-outs that do not fit the graph.
    pub fn batch(
        &self,
        (epoch, batch): (u64, u64),
        seeds: &[u32],
        par: &Par,
        compact: &mut Compact,
    ) -> Result<MiniBatch> {
        self.batch_by(seeds, compact, |layer, rows| {
            self.draw(layer, (epoch, batch), rows, par)
        })
    }

    /// The batches of some lists of seeds, which have the numbers from `batch` on in their epoch: the same
    /// as one after the other, but each is drawn by one thread. Keeps one of `compacts` a thread.
    ///
    /// # Errors
    /// As [`Sampler::batch`].
    pub fn batches(
        &self,
        (epoch, batch): (u64, u64),
        seeds: &[&[u32]],
        par: &Par,
        compacts: &mut Vec<Compact>,
    ) -> Result<Vec<MiniBatch>> {
        let threads = par.threads().min(seeds.len()).max(1);
        if compacts.len() < threads {
            compacts.resize_with(threads, Compact::default);
        }
        let jobs = compacts[..threads].iter_mut().enumerate().collect();
        let drawn = par.map(jobs, |(t, compact)| -> Result<Vec<MiniBatch>> {
            let alone = Par::new(1);
            let mine = (batch..).zip(seeds).skip(t).step_by(threads);
            mine.map(|(number, seeds)| self.batch((epoch, number), seeds, &alone, compact))
                .collect()
        });
        let drawn = drawn.into_iter().collect::<Result<Vec<_>>>()?;
        let mut drawn: Vec<_> = drawn.into_iter().map(Vec::into_iter).collect();
        let in_turn = (0..seeds.len()).map(|k| drawn[k % threads].next());
        Ok(in_turn.flatten().collect())
    }

    /// Refuses fan-outs by type that the graph does not have.
    ///
    /// # Errors
    /// [`Error::Shape`] with how many types there are.
    pub fn check_types(&self) -> Result<()> {
        let relations = self.graph.n_relations();
        for fan_out in &self.fan_outs {
            if let FanOut::PerType(each) = fan_out
                && (each.len() != relations || relations == 0)
            {
                let expected = match relations {
                    0 => "edges with types".to_owned(),
                    _ => format!("{relations} numbers, one a type of edges"),
                };
                return Err(Error::Shape {
                    op: "fan-outs by type".into(),
                    expected,
                    got: each.len().to_string(),
                });
            }
        }
        Ok(())
    }

    /// What does not fit the graph.
    fn check(&self) -> Result<()> {
        self.check_types()?;
        let (rows, columns) = (self.graph.n_dst, self.graph.n_src);
        if rows != columns && self.fan_outs.len() > 1 {
            return Err(Error::Shape {
                op: "hops of a batch".into(),
                expected: format!("one, since only {rows} of {columns} vertices are rows"),
                got: self.fan_outs.len().to_string(),
            });
        }
        Ok(())
    }

    /// The batch of `seeds` with what `draw` gives for the rows of each layer.
    pub(super) fn batch_by(
        &self,
        seeds: &[u32],
        compact: &mut Compact,
        draw: impl Fn(usize, &[u32]) -> Hop,
    ) -> Result<MiniBatch> {
        self.check()?;
        let n = self.graph.n_dst;
        if let Some(v) = seeds.iter().find(|&&v| v as usize >= n) {
            return Err(Error::Shape {
                op: "seeds of a batch".into(),
                expected: format!("vertices below {n}"),
                got: v.to_string(),
            });
        }
        let mut inputs = seeds.to_vec();
        let mut blocks = Vec::with_capacity(self.fan_outs.len());
        for layer in (0..self.fan_outs.len()).rev() {
            let drawn = draw(layer, &inputs);
            let (block, columns) = self.block(drawn, &inputs, compact)?;
            blocks.push(block);
            inputs = columns;
        }
        blocks.reverse();
        Ok(MiniBatch {
            seeds: seeds.to_vec(),
            inputs,
            blocks,
        })
    }

    /// The in-edges that layer `layer` draws of `rows`, which are rows of the graph.
    ///
    /// # Panics
    /// For rows that are none, and fan-outs by type that do not fit the graph's.
    pub(crate) fn draw(
        &self,
        layer: usize,
        (epoch, batch): (u64, u64),
        rows: &[u32],
        par: &Par,
    ) -> Hop {
        self.draw_without(layer, (epoch, batch), rows, None, par)
    }

    /// [`Sampler::draw`], as if the graph did not have some edges.
    pub(crate) fn draw_without(
        &self,
        layer: usize,
        (epoch, batch): (u64, u64),
        rows: &[u32],
        without: Option<&Without>,
        par: &Par,
    ) -> Hop {
        let (edges, rule) = self.rule(layer, (epoch, batch), without);
        if without.is_none()
            && let Some(hop) = self.drawn_on_device(rule, rows)
        {
            return hop;
        }
        match self.custom_at(layer) {
            Some(custom) => custom.hop(par, edges, rule, rows),
            None => hop::hop(par, edges, rule, rows),
        }
    }

    /// What layer `layer` draws from in a batch, and how.
    fn rule<'a>(
        &'a self,
        layer: usize,
        (epoch, batch): (u64, u64),
        without: Option<&'a Without>,
    ) -> (Edges<'a>, hop::Rule<'a>) {
        let edges = Edges {
            a: self.graph.csr(),
            types: self.graph.types().map(|t| &t[..]),
            relations: self.graph.n_relations(),
            bias: self.bias.as_ref().map(|b| &b[..]),
            ids: self.ids.as_ref().map(|ids| &ids[..]),
            without,
        };
        let key = rng::key(self.seed, epoch, Purpose::Sample, layer as u64);
        let rule = hop::Rule {
            fan_out: &self.fan_outs[layer],
            replace: self.replace,
            weigh: self.weigh,
            key: join(key, batch),
        };
        (edges, rule)
    }

    /// About how many edges layer `layer` draws of `rows` rows, if they have as many as others.
    pub(crate) fn expects(&self, layer: usize, rows: usize) -> usize {
        let mean = self.graph.n_edges() / self.graph.n_dst.max(1);
        let each = match &self.fan_outs[layer] {
            FanOut::All => mean,
            FanOut::Of(k) => mean.min(*k as usize),
            FanOut::PerType(each) => mean.min(each.iter().map(|&k| k as usize).sum()),
        };
        rows * each
    }

    /// The block of a hop from `rows`, and the vertices of its columns.
    fn block(&self, drawn: Hop, rows: &[u32], compact: &mut Compact) -> Result<(Block, Vec<u32>)> {
        let Hop {
            indptr,
            mut sources,
            weights,
            types,
        } = drawn;
        let columns = compact.number(self.graph.n_src, rows, &mut sources);
        let block = Block::new(rows.len(), columns.len(), indptr, sources, weights)?;
        let block = match types {
            Some(types) => {
                let relations = Relations::new(types, self.graph.n_relations())?;
                block.with_relations(relations)?
            }
            None => block,
        };
        Ok((block, columns))
    }
}
