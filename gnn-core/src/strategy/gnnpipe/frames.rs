//! What is recorded: chunk by chunk, and stage by stage.

use super::piece::{Seam, Source};
use super::stage::Stage;
use crate::ctx::{Ctx, SoFar};
use crate::frame;
use crate::model::Model;
use crate::record::frame::FrameDef;
use crate::record::frame::FrameRow;
use crate::record::{Direction, Op};
use crate::strategy::full_graph::{Freshness, StaleRow};
use serde::Deserialize;

/// Frames that are added.
pub(super) const FRAMES: &[FrameDef] = &[ChunkRow::FRAME, StageRow::FRAME, StaleRow::FRAME];

frame! {
    /// One chunk in one piece of a stage's layers, forward or back: when, on what, waiting for whom.
    ChunkRow in "chunks" by direction, turn, piece {
        /// Stage, from 0.
        stage: u16,
        /// Piece of the stage's layers, from 0; more than one where stages are interleaved.
        piece: u16,
        /// Chunk, by number.
        chunk: u32,
        /// Its place in the epoch's order of chunks; backward is the reverse.
        turn: u32,
        /// Rows forward, or gradients back.
        direction: Direction,
        /// Vertices of the chunk at this rank.
        rows: u64,
        /// Edges over which its layers aggregate; the first layer, which reads features, is left out.
        edges: u64,
        /// Of them, those that read historical rows; backward, those whose gradient is taken as zero.
        stale_edges: u64,
        /// When its turn began, in ms from the beginning of the rank's epoch.
        start_ms: f64,
        /// How long it took.
        dur_ms: f64,
        /// Time in kernels.
        compute_ms: f64,
        /// Time blocked until its rows came from another stage.
        bubble_ms: f64,
        /// Time blocked for other ranks of the stage, and in sending.
        exchange_ms: f64,
        /// Bytes sent to the stage behind; backward, before.
        bytes_crossed: u64,
        /// Bytes sent to ranks of the same stage.
        bytes_exchanged: u64,
    }
}

frame! {
    /// A rank's epoch in its stage.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    StageRow in "stages" {
        /// Stage, from 0.
        stage: u16,
        /// Place among the ranks of the stage, from 0.
        member: u16,
        /// Layers, from 0, as in `0..4` or `0..2 4..6`.
        layers: String,
        /// Vertices of this rank.
        rows: u64,
        /// Vertices of other chunks that a chunk reads, once for every chunk that does: the sum over a
        /// stage's ranks over all vertices is the paper's α of as many parts.
        read_of_chunks: u64,
        /// Vertices of other ranks of the stage that this one reads: the sum over a stage's ranks over all
        /// vertices is the paper's α of the hybrid.
        read_of_ranks: u64,
        /// Edges over which layers aggregate forward; the first layer is left out.
        edges: u64,
        /// Of them, those that read historical rows.
        stale_edges: u64,
        /// Epochs since the historical rows were made; none with one chunk.
        version_age_epochs: Option<u32>,
        /// Time in kernels.
        compute_ms: f64,
        /// Time blocked for rows and gradients of other stages.
        bubble_ms: f64,
        /// Other time blocked while chunks are computed.
        exchange_ms: f64,
        /// Bytes sent to other stages.
        bytes_crossed: u64,
        /// Bytes of rows and gradients sent to ranks of the same stage.
        bytes_exchanged: u64,
        /// Bytes of weight gradients.
        bytes_weights: u64,
        /// Of all bytes, those that stay in the host (`per_host`).
        bytes_in_host: u64,
        /// Those that do not.
        bytes_between_hosts: u64,
        /// Historical rows and gradients that are kept.
        history_bytes: u64,
    }
}

/// Where a rank stands among the others, and how its epoch goes.
pub(super) struct Standing {
    pub(super) stage: usize,
    pub(super) stages: usize,
    pub(super) member: usize,
    /// The rank that the first layers read from, and the one that the last send to.
    pub(super) before: usize,
    pub(super) after: usize,
    /// Ranks of a host.
    pub(super) per_host: usize,
    /// Vertices that chunks read of each other, and this rank of others in its stage.
    pub(super) reads: [usize; 2],
    pub(super) begun: SoFar,
    /// Nanoseconds blocked in this epoch: for other stages, and else.
    pub(super) blocked: [u64; 2],
}

impl Standing {
    /// An epoch begins.
    pub(super) fn begin(&mut self, cx: &Ctx) {
        (self.begun, self.blocked) = (cx.so_far(), [0; 2]);
    }
}

/// A chunk's turn that has begun.
pub(super) struct Mark {
    /// Piece, chunk, and the chunk's place in the order.
    of: (usize, usize, usize),
    direction: Direction,
    start: SoFar,
    came: SoFar,
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl Mark {
    /// Now; what is done from now on is this chunk's.
    pub(super) fn new(cx: &Ctx, of: (usize, usize, usize), direction: Direction) -> Mark {
        cx.chunk(Some(of.1));
        let start = cx.so_far();
        Mark {
            of,
            direction,
            start,
            came: start,
        }
    }

    /// Its rows have come.
    pub(super) fn came(self, cx: &Ctx) -> Mark {
        let came = cx.so_far();
        Mark { came, ..self }
    }

    /// It is over.
    pub(super) fn done(self, cx: &Ctx, of: &mut Stage) {
        let (piece, chunk, turn) = self.of;
        let (now, forward) = (cx.so_far(), self.direction == Direction::Forward);
        let bubble = self.came.blocked - self.start.blocked;
        let exchange = now.blocked - self.came.blocked;
        let blocked = &mut of.standing.blocked;
        *blocked = [blocked[0] + bubble, blocked[1] + exchange];
        let held = &of.pieces[piece];
        let model = &held.model;
        let leaves = match forward {
            true => (model.held().end < model.layers()).then_some(model.held().end),
            false => matches!(held.source, Source::Before).then_some(model.held().start),
        };
        let rows = of.ids[chunk].len();
        let width = leaves.and_then(|layer| Some(model.crossing(layer).ok()?.width()));
        let crossed = 4 * (rows * width.unwrap_or(0)) as u64;
        let [edges, stale_edges] = edges(&mut of.seam, model, chunk);
        cx.row(ChunkRow {
            stage: of.standing.stage as u16,
            piece: piece as u16,
            chunk: chunk as u32,
            turn: turn as u32,
            direction: self.direction,
            rows: rows as u64,
            edges,
            stale_edges,
            start_ms: ms(self.start.at - of.standing.begun.at),
            dur_ms: ms(now.at - self.start.at),
            compute_ms: ms(now.compute - self.start.compute),
            bubble_ms: ms(bubble),
            exchange_ms: ms(exchange),
            bytes_crossed: crossed,
            bytes_exchanged: (now.bytes - self.start.bytes).saturating_sub(crossed),
        });
    }
}

/// Layers that read neighbours, but for the first of the model.
fn reading(model: &Model) -> impl Iterator<Item = usize> {
    let reads = |l: &usize| *l > 0 && model.layer(*l).facts().is_some();
    model.held().filter(reads)
}

/// Edges of a chunk in all layers of a piece, and the stale ones.
fn edges(seam: &mut Seam, model: &Model, chunk: usize) -> [u64; 2] {
    let layers = reading(model).count() as u64;
    let [all, stale] = match seam {
        Seam::One(over) => [over.block().edges().n_edges() as u64, 0],
        Seam::Several(over) => {
            let all = over.chunks().all[chunk].edges.n_edges() as u64;
            [all, over.stale(chunk)]
        }
    };
    [layers * all, layers * stale]
}

/// Writes down an epoch that is over.
pub(super) fn close(cx: &Ctx, of: &mut Stage) {
    let (now, sent, me) = (cx.so_far(), cx.sent(), cx.rank());
    let by_op = |op: Op| sent.iter().filter(move |((_, _, o, _), _)| *o == op);
    let bytes = |op: Op| by_op(op).map(|(_, t)| t.bytes).sum::<u64>();
    let host = |rank: usize| rank / of.standing.per_host;
    let here = |peer: u32| host(peer as usize) == host(me);
    let [mut in_host, mut between] = [0; 2];
    for ((.., peer), traffic) in &sent {
        let side = if here(*peer) {
            &mut in_host
        } else {
            &mut between
        };
        *side += traffic.bytes;
    }
    let chunks = of.ids.len();
    let (mut all, mut stale) = (0, 0);
    for piece in &of.pieces {
        for chunk in 0..chunks {
            let [edges, old] = edges(&mut of.seam, &piece.model, chunk);
            (all, stale) = (all + edges, stale + old);
        }
    }
    let (mut age, mut kept, mut layers) = (None, 0, Vec::new());
    let stale_rows = of.seam.several().map_or(0, |over| over.stale_rows());
    if let Some(over) = of.seam.several() {
        let history = over.history();
        age = Some(history.age(cx.epoch) as u32);
        kept = history.bytes();
        layers = history.layers().collect();
    }
    let ranges = of.pieces.iter().map(|piece| {
        let held = piece.model.held();
        format!("{}..{}", held.start, held.end)
    });
    let standing = &of.standing;
    cx.row(StageRow {
        stage: standing.stage as u16,
        member: standing.member as u16,
        layers: ranges.collect::<Vec<_>>().join(" "),
        rows: of.rows.ids.len() as u64,
        read_of_chunks: standing.reads[0] as u64,
        read_of_ranks: standing.reads[1] as u64,
        edges: all,
        stale_edges: stale,
        version_age_epochs: age,
        compute_ms: ms(now.compute - standing.begun.compute),
        bubble_ms: ms(standing.blocked[0]),
        exchange_ms: ms(standing.blocked[1]),
        bytes_crossed: bytes(Op::P2p),
        bytes_exchanged: bytes(Op::Alltoall),
        bytes_weights: bytes(Op::Allreduce),
        bytes_in_host: in_host,
        bytes_between_hosts: between,
        history_bytes: kept,
    });
    let (Some(age), Some(over)) = (age, of.seam.several()) else {
        return;
    };
    let history = over.history();
    let renews = history.renews(cx.epoch);
    for layer in layers {
        let drift = renews.then(|| history.drift(cx, layer)).flatten();
        cx.row(StaleRow {
            layer: layer as u16,
            direction: Direction::Forward,
            peer: me as u32,
            state: match renews {
                true => Freshness::Active,
                false => Freshness::Stale,
            },
            age_mean_epochs: f64::from(age),
            age_max_epochs: age,
            rows_reused: stale_rows,
            bytes_sent: 0,
            bytes_saved: 0,
            bytes_agreed: 0,
            drift_l2: None,
            drift_rel: drift,
        });
    }
}
