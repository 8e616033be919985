//! Lazy: block rows that travel in some epochs and are used again in the others.
//!
//! # Idea
//! As `broadcast`, but activations and gradients travel in every `every`-th epoch alone; in between, ranks
//! multiply by what they were sent last. Evaluation always fetches.
//! # Exact when
//! `every = 1`.

use gnn_core::backend::Mat;
use gnn_core::checkpoint::State;
use gnn_core::ctx::Ctx;
use gnn_core::frame;
use gnn_core::model::{Aggregate, At, ModelKind};
use gnn_core::record::Direction;
use gnn_core::record::frame::FrameRow;
use gnn_core::spec::Value;
use gnn_core::strategy::full_graph::block_rows::{self, BlockRows, Trip};
use gnn_core::strategy::{Built, Entry, Exact, Knob, Setup};
use gnn_core::{Error, Result};
use std::collections::BTreeMap;
use std::rc::Rc;

frame! {
    /// What a rank made of its rows, in one layer and direction of one epoch.
    LazyRow in "lazy" by layer, direction {
        /// Layer, from 0.
        layer: u16,
        /// Activations or their gradients.
        direction: Direction,
        /// Whether they travelled.
        travels: bool,
        /// Epochs since they did.
        age_epochs: u32,
        /// Bytes of them that went to all others.
        bytes_sent: u64,
    }
}

/// Others' rows of one layer and direction, by rank, and when they came.
#[derive(Default)]
struct Kept {
    epoch: u64,
    rows: BTreeMap<usize, Rc<Mat>>,
}

struct Lazy {
    blocks: BlockRows,
    every: u64,
    kept: BTreeMap<(usize, bool), Kept>,
}

impl Aggregate for Lazy {
    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        if !matches!(at.direction, Direction::Forward | Direction::Backward) {
            return self.blocks.exact(cx, at, x);
        }
        let backward = at.direction == Direction::Backward;
        let kept = self.kept.entry((at.layer, backward)).or_default();
        let travels = cx.epoch.is_multiple_of(self.every);
        if travels {
            kept.epoch = cx.epoch;
        }
        let bytes = if travels { 4 * x.len() as u64 } else { 0 };
        let all = vec![travels; cx.size()];
        self.blocks.foresee(cx, at, x.ncols(), &all);
        cx.row(LazyRow {
            layer: at.layer as u16,
            direction: at.direction,
            travels,
            age_epochs: (cx.epoch - kept.epoch) as u32,
            bytes_sent: bytes * (cx.size() as u64 - 1),
        });
        let trip = Trip {
            at,
            own: x,
            sent: x,
            travels: &all,
        };
        self.blocks.product(cx, &trip, &mut |_, root, arrived| {
            if let Some(rows) = arrived {
                kept.rows.insert(root, Rc::new(rows));
            }
            Rc::clone(&kept.rows[&root])
        })
    }

    fn save(&self, cx: &Ctx, own: &mut State) {
        for ((layer, backward), kept) in &self.kept {
            let name = format!("lazy/{layer}/{}", u8::from(*backward));
            own.put_number(&name, kept.epoch);
            for (rank, rows) in &kept.rows {
                own.put(format!("{name}/{rank}"), cx.backend.as_ref(), rows);
            }
        }
    }

    fn restore(&mut self, cx: &Ctx, own: &mut State) -> Result<()> {
        for (name, &epoch) in &own.numbers.clone() {
            let Some(place) = name.strip_prefix("lazy/") else {
                continue;
            };
            let (layer, backward) = place.split_once('/').expect("as it was saved");
            let kept = Kept {
                epoch,
                rows: (0..cx.size())
                    .filter(|&rank| rank != cx.rank())
                    .map(|rank| {
                        let rows = own.take(&format!("{name}/{rank}"))?;
                        Ok::<_, Error>((rank, Rc::new(cx.backend.upload(rows))))
                    })
                    .collect::<Result<_>>()?,
            };
            let layer = layer.parse().expect("as it was saved");
            self.kept.insert((layer, backward == "1"), kept);
        }
        Ok(())
    }
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    block_rows::build(setup, cx, |cx, parts| {
        let lazy = Lazy {
            blocks: parts.blocks,
            every: cx.plan.spec.knobs.count("every") as u64,
            kept: BTreeMap::new(),
        };
        (lazy, Vec::new())
    })
}

pub const ENTRY: Entry = Entry {
    name: "lazy",
    summary: "block rows travel in some epochs and are used again in the others",
    models: &[ModelKind::Gcn],
    knobs: &[Knob {
        name: "every",
        default: "2",
        doc: "epochs from one exchange to the next",
        check: |v| matches!(v, Value::Int(1..)),
    }],
    frames: &[LazyRow::FRAME],
    exact: Exact::With(&[("every", "1")]),
    resumes: true,
    build,
    ..Entry::BASE
};
