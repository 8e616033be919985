//! The models by name, and the stack of layers that each is.

use super::decoupled::{Round, Rule};
use super::decoupled_gat::AttentionRound;
use super::decoupled_rgcn::{RelationDense, RelationRound};
use super::dense::{Dense, NormDense};
use super::gat::Gat;
use super::gcn::Gcn;
use super::gcnii::Gcnii;
use super::gin::Gin;
use super::layer::Layer;
use super::resgcn::ResBlock;
use super::rgcn::Rgcn;
use super::sage::Sage;
use crate::backend::Act;
use crate::graph::Propagation;
use crate::spec::{AggregateWidth, FirstAggregate, ModelKind, RunSpec};

/// The widths that a data set and a task ask of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Width of the features.
    pub d_in: usize,
    /// Width of the output: classes, or an embedding's.
    pub d_out: usize,
    /// Number of relations of the graph; 1 where edges have no types.
    pub relations: usize,
    /// Which layers aggregate dense input also where its product is narrower.
    pub aggregate_first: AggregateFirst,
}

/// Which layers aggregate dense input also where its product is narrower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateFirst {
    /// None.
    Narrower,
    /// The first: a gradient of the features is not asked for, so that nothing comes back through
    /// them.
    Features,
    /// All: blocks have many more columns than rows, so that a product of the columns is the dearest.
    Always,
}

impl AggregateFirst {
    /// Of full-graph training: features that are aggregated once need no aggregation in an epoch, however wide they
    /// are.
    pub fn of(spec: &RunSpec) -> AggregateFirst {
        match spec.first_aggregate {
            FirstAggregate::Once => AggregateFirst::Features,
            FirstAggregate::EveryEpoch => AggregateFirst::Narrower,
        }
    }
}

/// Where a layer drops elements in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drop {
    /// Nowhere.
    No,
    /// Its input.
    Input,
    /// Behind its own normalisation.
    Inside,
}

/// A layer in its place.
pub(super) struct Stage {
    pub(super) layer: Box<dyn Layer>,
    /// What follows it.
    pub(super) act: Act,
    pub(super) drop: Drop,
}

impl Stage {
    fn new(layer: impl Layer + 'static, act: Act, drop: Drop) -> Stage {
        let layer = Box::new(layer);
        Stage { layer, act, drop }
    }
}

impl ModelKind {
    /// How the graph's edges are weighted for it.
    pub fn propagation(self) -> Propagation {
        match self {
            ModelKind::Gcn | ModelKind::Gcnii | ModelKind::Resgcn => Propagation::GcnSym,
            ModelKind::Sage => Propagation::Mean,
            ModelKind::Gin => Propagation::Sum,
            ModelKind::Gat => Propagation::Loops,
            ModelKind::Rgcn => Propagation::RelationMean,
        }
    }

    /// Whether it has a decoupled form: dense layers first, then rounds of propagation.
    pub fn decouples(self) -> bool {
        !matches!(self, ModelKind::Gcnii | ModelKind::Resgcn)
    }

    /// Whether edges have parameters of their own in its layers, which then read whole rows of
    /// neighbours. Its decoupled form makes them before the rows propagate.
    pub fn has_edge_parameters(self) -> bool {
        matches!(self, ModelKind::Gat | ModelKind::Rgcn)
    }

    /// Number of weights of all its layers.
    pub fn weights(self, spec: &RunSpec, shape: Shape) -> usize {
        let stages = self.stages(spec, shape);
        let tensors = stages.iter().flat_map(|stage| stage.layer.tensors());
        tensors
            .map(|t| t.rows.saturating_mul(t.cols))
            .fold(0, usize::saturating_add)
    }

    /// Its layers.
    pub(super) fn stages(self, spec: &RunSpec, shape: Shape) -> Vec<Stage> {
        if spec.decoupled {
            return self.decoupled(spec, shape);
        }
        match self {
            ModelKind::Gcnii => gcnii(spec, shape),
            ModelKind::Resgcn => resgcn(spec, shape),
            ModelKind::Gat => gat(spec, shape),
            _ => self.convolutions(spec, shape),
        }
    }

    /// Message-passing layers with an activation between them.
    fn convolutions(self, spec: &RunSpec, shape: Shape) -> Vec<Stage> {
        let hidden = spec.hidden;
        widths(spec, shape)
            .enumerate()
            .map(|(l, (d_in, d_out, act))| {
                let inner = if self == ModelKind::Gin {
                    hidden
                } else {
                    d_out
                };
                // The narrower side of the first product is aggregated.
                let input_first = match (spec.aggregate_width, shape.aggregate_first) {
                    (AggregateWidth::Hidden, _) => l > 0,
                    _ if d_in <= inner => true,
                    (_, AggregateFirst::Narrower) => false,
                    (_, AggregateFirst::Features) => l == 0,
                    (_, AggregateFirst::Always) => true,
                };
                match self {
                    ModelKind::Sage => {
                        let sage = Sage {
                            d_in,
                            d_out,
                            input_first,
                        };
                        Stage::new(sage, act, Drop::Input)
                    }
                    ModelKind::Gin => {
                        let gin = Gin {
                            d_in,
                            hidden,
                            d_out,
                            input_first,
                        };
                        Stage::new(gin, act, Drop::Input)
                    }
                    ModelKind::Rgcn => {
                        let rgcn = Rgcn::new(d_in, d_out, shape.relations, spec.bases);
                        Stage::new(rgcn, act, Drop::Input)
                    }
                    _ => {
                        let gcn = Gcn {
                            d_in,
                            d_out,
                            input_first,
                        };
                        Stage::new(gcn, act, Drop::Input)
                    }
                }
            })
            .collect()
    }

    /// As many rounds of propagation behind dense layers as there are such layers.
    fn decoupled(self, spec: &RunSpec, shape: Shape) -> Vec<Stage> {
        let relations = shape.relations;
        let dense = widths(spec, shape)
            .enumerate()
            .map(|(l, (d_in, d_out, act))| {
                if self == ModelKind::Rgcn && l + 1 == spec.layers {
                    let last = RelationDense {
                        d_in,
                        d_out,
                        relations,
                    };
                    return Stage::new(last, act, Drop::Input);
                }
                let dense = Dense {
                    d_in,
                    d_out,
                    begins: false,
                };
                Stage::new(dense, act, Drop::Input)
            });
        let width = shape.d_out;
        let rounds = (0..spec.layers).map(|l| {
            let rule = match self {
                ModelKind::Gat => {
                    let round = AttentionRound {
                        width,
                        heads: spec.heads,
                        first: l == 0,
                        dropout: spec.attention_dropout as f32,
                    };
                    return Stage::new(round, Act::None, Drop::No);
                }
                ModelKind::Rgcn => {
                    let last = l + 1 == spec.layers;
                    let round = RelationRound {
                        width,
                        relations,
                        last,
                    };
                    return Stage::new(round, Act::None, Drop::No);
                }
                ModelKind::Sage => Rule::Sage,
                ModelKind::Gin => Rule::Gin,
                _ => Rule::Gcn,
            };
            Stage::new(Round { rule, width }, Act::None, Drop::No)
        });
        dense.chain(rounds).collect()
    }
}

/// Widths in and out of `spec.layers` layers, and what follows each: ReLU, but after the last.
fn widths(spec: &RunSpec, shape: Shape) -> impl Iterator<Item = (usize, usize, Act)> {
    let (last, hidden) = (spec.layers - 1, spec.hidden);
    (0..spec.layers).map(move |l| {
        let d_in = if l == 0 { shape.d_in } else { hidden };
        let (d_out, act) = if l == last {
            (shape.d_out, Act::None)
        } else {
            (hidden, Act::Relu)
        };
        (d_in, d_out, act)
    })
}

/// Attention layers with concatenated heads of `hidden` columns and ELU; the last one's average.
fn gat(spec: &RunSpec, shape: Shape) -> Vec<Stage> {
    let dropout = spec.attention_dropout as f32;
    let wide = spec.heads * spec.hidden;
    (0..spec.layers)
        .map(|l| {
            let d_in = if l == 0 { shape.d_in } else { wide };
            if l + 1 == spec.layers {
                let last = Gat::new(d_in, (spec.out_heads, shape.d_out), true, dropout);
                return Stage::new(last, Act::None, Drop::Input);
            }
            let layer = Gat::new(d_in, (spec.heads, spec.hidden), false, dropout);
            Stage::new(layer, Act::Elu, Drop::Input)
        })
        .collect()
}

fn gcnii(spec: &RunSpec, shape: Shape) -> Vec<Stage> {
    let hidden = spec.hidden;
    let first = Dense {
        d_in: shape.d_in,
        d_out: hidden,
        begins: true,
    };
    let last = Dense {
        d_in: hidden,
        d_out: shape.d_out,
        begins: false,
    };
    let mut stages = vec![Stage::new(first, Act::Relu, Drop::Input)];
    stages.extend((1..=spec.layers).map(|l| {
        let layer = Gcnii::new(hidden, spec.alpha, spec.lambda, l);
        Stage::new(layer, Act::Relu, Drop::Input)
    }));
    stages.push(Stage::new(last, Act::None, Drop::Input));
    stages
}

fn resgcn(spec: &RunSpec, shape: Shape) -> Vec<Stage> {
    let width = spec.hidden;
    let first = Dense {
        d_in: shape.d_in,
        d_out: width,
        begins: false,
    };
    let last = NormDense {
        d_in: width,
        d_out: shape.d_out,
    };
    let mut stages = vec![Stage::new(first, Act::None, Drop::No)];
    let two = spec.block_layers == 2;
    let block = |_| Stage::new(ResBlock { width, two }, Act::None, Drop::Inside);
    let blocks = (0..spec.layers).map(block);
    stages.extend(blocks);
    stages.push(Stage::new(last, Act::None, Drop::Inside));
    stages
}
