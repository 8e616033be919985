//! GNNPipe: layers in stages, chunks of vertices in a pipeline, groups of ranks a stage.
//!
//! # Paper
//! Chen, Chen & Qian, "GNNPipe: Scaling Deep GNN Training with Pipelined Model Parallelism", 2023,
//! <https://arxiv.org/abs/2308.10087>.
//! # Idea
//! Each stage has some consecutive layers, and all vertices. Vertices are cut into chunks, which go through
//! the stages one behind the other, forward and then back in the reverse order, so that stages work at the
//! same time. Only rows at the boundary of two stages travel, whatever the number of layers.
//!
//! Chunks have edges between them. A layer aggregates neighbours in the same chunk, or in one that went
//! before it, as they are in this epoch; of the others it reads *historical* rows of an earlier epoch.
//! What is historical is what the layer aggregates, behind activation, normalisation and the dropout of the
//! epoch that made it. The first layer reads features, which are never historical.
//! # Training
//! Chunks go in another order every epoch (`shuffle`). Epochs `[jα, (j+1)α)` read the rows that epoch
//! `jα - 1` made (`freeze` = α); the first α those of an exact pass at the first weights without dropout,
//! which set-up makes. Gradients through neighbours that have not gone back yet are zero; with
//! `history_gradients` they are those of the epoch before, never frozen. With history constant, gradients
//! are exact, because chunks go back in the reverse order.
//! # Hybrid
//! With `groups` = G, each chunk is cut again into G parts. The G ranks of a stage exchange rows layer by
//! layer and chunk by chunk as `halo` does: each row goes once a layer to every rank that reads it in any
//! chunk, which keeps it; gradients add up at the reader and return once.
//! # Bytes
//! `4 · width · V` over each boundary of stages, forward and back; the width is the hidden one, twice that
//! for models with an initial residual. Within a stage as `halo`, but for the first layer's aggregation
//! of dense features in several chunks: features do not change, so every reader has them from set-up on.
//! # Differs
//! Evaluation is exact, and neither reads nor writes historical rows.
//! # Exact when
//! `chunks = 1`.

mod chunk;
mod frames;
mod history;
mod over_chunks;
mod passing;
mod piece;
mod schedule;
mod split;
mod stage;
#[cfg(test)]
mod tests;
mod today;

use super::full_graph::{OverBlock, input_of, shape_of};
use super::halo::{self, Halo};
use super::ordered::Ordered;
use super::reduce::Reduction;
use super::{Built, Entry, Exact, Knob, Rows, Setup};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::head::Head;
use crate::model::{Model, Optimiser, Shape};
use crate::partition::{LocalPart, Parts};
use crate::record::{Direction, RankFacts};
use crate::spec::Value;
use chunk::Chunks;
use frames::Standing;
use history::History;
use over_chunks::OverChunks;
use piece::{Piece, Seam, Source};
use split::Split;
use stage::Stage;
use std::sync::Arc;

/// A rank's place among those of its stage, and how many these are.
type Among = (usize, usize);

/// A rank's rows, and how layers reach others.
struct Placed {
    seam: Seam,
    /// Global vertex ids, chunk by chunk.
    ids: Vec<Vec<u32>>,
    halo_nodes: usize,
    /// Vertices of other chunks that chunks read.
    read_of_chunks: usize,
    /// Rows that each rank of the stage reads of this one's, and this one of theirs.
    counts: (Vec<usize>, Vec<usize>),
}

/// The rank's rows in one chunk.
fn in_one(ordered: &Ordered, among: Among) -> Result<Placed> {
    let part = LocalPart::new(&ordered.whole, &ordered.owner, among.0, among.1)?;
    let (own, remote) = (ordered.vertices(&part.own), ordered.vertices(&part.halo));
    let read = part.recv_counts();
    let halo = Halo::new(part.send, read, true);
    let (sends, reads) = halo.counts();
    let (counts, halo_nodes) = ((sends, reads.to_vec()), remote.len());
    let sources = [own.clone(), remote].concat();
    Ok(Placed {
        seam: Seam::One(OverBlock::new(halo, part.block, part.n_interior, sources)),
        ids: vec![own],
        halo_nodes,
        read_of_chunks: 0,
        counts,
    })
}

/// The rank's rows in several.
fn in_several(
    ordered: &Ordered,
    setup: &Setup,
    among: Among,
    cx: &Ctx,
    count: usize,
) -> Result<Placed> {
    let chunk = setup.owner.as_deref();
    let of = |&v: &u32| chunk.map_or(0, |chunk| chunk[v as usize]);
    let by_number: Vec<u32> = ordered.ids().iter().map(of).collect();
    let chunks = Chunks::new(ordered, &by_number, among, count)?;
    let knobs = &cx.plan.spec.knobs;
    let history = History::new(
        chunks.sources.len(),
        knobs.count("freeze") as u64,
        knobs.flag("history_gradients"),
    );
    Ok(Placed {
        ids: chunks.all.iter().map(|chunk| chunk.ids.to_vec()).collect(),
        halo_nodes: chunks.sources.len() - chunks.rows(),
        read_of_chunks: chunks.reads_of_others(),
        counts: chunks.counts(),
        seam: Seam::Several(OverChunks::new(chunks, history)),
    })
}

/// What the first layer of the first stage reads.
fn source_of(setup: &Setup, cx: &Ctx, model: &Model, placed: &Placed) -> Source {
    let input = |ids: &[u32]| input_of(Arc::clone(&setup.data), cx, ids);
    let reads = model.layer(0).facts().is_some();
    match &placed.seam {
        Seam::Several(over) if reads => {
            let sources = input(over.source_ids());
            if sources.dense().is_some() && model.aggregates_features() {
                return Source::Sources(sources);
            }
            Source::Rows(input(&placed.ids.concat()))
        }
        _ => Source::Chunks(placed.ids.iter().map(|ids| input(ids)).collect()),
    }
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let plan = Arc::clone(&cx.plan);
    let spec = &plan.spec;
    let split = Split::of(spec)?;
    let (me, stages) = (cx.rank(), split.stages);
    let (stage, member) = split.place(spec, me);
    let members = (0..split.groups).map(|m| split.rank(spec, (stage, m)));
    let mut group = cx.comm.group(&members.collect::<Vec<_>>())?;
    cx.comm.lines(&split.neighbours(spec))?;
    let of_places = Setup::of(Arc::clone(&setup.data), setup.nested.clone());
    let ordered = Ordered::of(&of_places, cx);
    let placed = match split.chunks {
        1 => in_one(&ordered, (member, split.groups))?,
        count => in_several(&ordered, &setup, (member, split.groups), cx, count)?,
    };
    drop(ordered);
    let shape = Shape {
        aggregate_first: split.aggregate_first(),
        ..shape_of(&setup, cx)
    };
    let whole = Model::of_layers(spec, cx.backend.as_ref(), shape, 0..0);
    let mut predicted = Vec::new();
    let mut pieces = Vec::new();
    let held = split.ranges(&whole).into_iter().enumerate();
    for (k, layers) in held.filter(|(k, _)| k % stages == stage) {
        let model = Model::of_layers(spec, cx.backend.as_ref(), shape, layers);
        let source = match k {
            0 => source_of(&setup, cx, &model, &placed),
            _ => Source::Before,
        };
        let sparse = matches!(&source, Source::Rows(x) if x.is_sparse())
            || matches!(&source, Source::Chunks(x) if x.iter().any(|x| x.is_sparse()));
        let mut aggregations = model.aggregations(sparse);
        if matches!(source, Source::Sources(_)) {
            aggregations.retain(|a| (a.layer, a.direction) != (0, Direction::Forward));
        }
        predicted.extend(halo::predict(
            &aggregations,
            &placed.counts.0,
            &placed.counts.1,
        ));
        pieces.push(Piece {
            source,
            reduction: cx.within(&mut group, |cx| Reduction::new(&model.weights, cx)),
            optimiser: Optimiser::new(spec, &model, cx.backend.as_ref()),
            model,
        });
    }
    for ((_, _, dst), _) in &mut predicted {
        *dst = group.world_rank(*dst as usize) as u32;
    }
    let ends = (split.layers.len() - 1) % stages == stage;
    let beside = |stage: usize| split.rank(spec, (stage % stages, member));
    let rows = Rows::of(&setup.data, &placed.ids.concat());
    let of_chunks = placed.ids.iter().filter(|_| ends);
    let mut stage = Stage {
        standing: Standing {
            stage,
            stages,
            member,
            before: beside(stage + stages - 1),
            after: beside(stage + 1),
            per_host: match spec.knobs.count("per_host") {
                0 => cx.size(),
                ranks => ranks,
            },
            reads: [placed.read_of_chunks, placed.halo_nodes],
            begun: cx.so_far(),
            blocked: [0; 2],
        },
        group,
        seam: placed.seam,
        pieces,
        head: Head::of(&rows, cx, whole.layers())?,
        of_chunks: of_chunks.map(|ids| Rows::of(&setup.data, ids)).collect(),
        ids: placed.ids.into_iter().map(Into::into).collect(),
        shuffle: spec.knobs.flag("shuffle"),
        split: spec.knobs.flag("late_weights") && stages > 1,
        none: cx.backend.zeros(0, 0),
        rows,
    };
    stage.found(cx)?;
    predicted.extend(stage.predict(cx)?);
    let reported = match ends {
        true => stage.rows.clone(),
        false => Rows::of(&setup.data, &[]),
    };
    Ok(Built {
        facts: RankFacts {
            rank: me as u32,
            owned_nodes: reported.ids.len() as u64,
            halo_nodes: placed.halo_nodes as u64,
            train_nodes: reported.train_count() as u64,
            bubble: split.bubble(spec),
            ..RankFacts::default()
        },
        rows: reported,
        strategy: Box::new(stage),
        predicted,
        part: None,
    })
}

const KNOBS: &[Knob] = &[
    split::STAGES,
    split::GROUPS,
    split::CHUNK_COUNT,
    split::INTERLEAVE,
    Knob {
        name: "late_weights",
        default: "true",
        doc: "weight gradients of a chunk are made when its input's have gone to the stage before",
        check: |v| matches!(v, Value::Bool(_)),
    },
    Knob {
        name: "shuffle",
        default: "true",
        doc: "chunks go in another order every epoch, the same on all ranks",
        check: |v| matches!(v, Value::Bool(_)),
    },
    Knob {
        name: "freeze",
        default: "10",
        doc: "epochs that read the same historical rows; 1: always those of the epoch before",
        check: |v| matches!(v, Value::Int(1..)),
    },
    Knob {
        name: "history_gradients",
        default: "false",
        doc: "neighbours that have not gone back yet give the gradients of the epoch before, instead of none",
        check: |v| matches!(v, Value::Bool(_)),
    },
    split::SCHEDULE,
    split::MAPPING,
    split::PER_HOST,
];

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "gnnpipe",
    paper: "https://arxiv.org/abs/2308.10087",
    summary: "layers in stages; chunks of vertices stream through them, reading some rows of earlier epochs",
    knobs: KNOBS,
    frames: frames::FRAMES,
    exact: Exact::With(&[("chunks", "1")]),
    parts: |spec| Split::of(spec).map_or(Parts::of(spec.ranks), |split| split.parts()),
    empty_parts: true,
    resumes: true,
    refuse: split::refuse,
    share_out: Some(split::SHARE_OUT),
    build,
    ..Entry::BASE
};
