//! A batch in the making, as a value: whoever makes it goes on with it as far as answers have come, and
//! meanwhile may go on with another.

use super::collect::{Collecting, Collector, MadeInput, NamedBlock, Reading};
use super::hops::{Hops, LayerBlock, Leaves};
use super::make::{Begun, MadeBatch, Maker};
use super::stats::{HopStats, Stats};
use super::task::{DrawAt, HopTask};
use crate::backend::Kept;
use crate::dataset::Rows;
use crate::error::Result;
use crate::head::PairBatch;
use crate::record::now_ns;
use crate::sample::{Hop, Without};
use std::ops::Range;

/// A batch in the making.
pub(crate) struct Making {
    pub(super) at: (u64, u64),
    labels: Option<Rows>,
    pairs: Option<PairBatch>,
    without: Option<Without>,
    /// Numbers and ids of the rows of the layer at hand, and what is being done for it.
    rows: Vec<u32>,
    ids: Kept<u32>,
    pub(super) layer: usize,
    stage: Stage,
    /// The first layer's hop, where that one is summed in place.
    pub(super) in_place: Option<Hop>,
    /// Last layer first.
    layers: Vec<LayerBlock>,
    pub(super) stats: Stats,
}

enum Stage {
    /// Some of the layer's rows each.
    Hop(Vec<Piece>),
    /// All blocks are made, but for a first layer in place.
    Drawn,
    /// None where no features are read.
    Input(Option<Collecting>),
}

/// Some rows of a hop, and what is drawn of them.
struct Piece {
    rows: Range<usize>,
    task: HopTask,
    drawn: Option<Hop>,
}

impl Maker {
    /// Begins to make batch `step` of `epoch`: asks for its first hop.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn start(&mut self, epoch: u64, step: u64) -> Result<Making> {
        let start = now_ns();
        self.collector.reach.counted = epoch;
        self.collector.reach.take_waited();
        let mut making = self.seeded(epoch, step)?;
        self.start_hop(&mut making)?;
        making.stats.draw_ns += now_ns() - start;
        Ok(making)
    }

    /// A batch of which nothing is known but its seeds.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for pairs that leave the vertices.
    pub(super) fn seeded(&mut self, epoch: u64, step: u64) -> Result<Making> {
        let begun = self.begin(epoch, step)?;
        Ok(self.making(begun, (epoch, step)))
    }

    /// A batch of which nothing is known but where it begins.
    pub(super) fn making(&self, begun: Begun, at: (u64, u64)) -> Making {
        let layers = self.collector.wants.layers;
        Making {
            at,
            labels: Some(begun.labels),
            pairs: begun.pairs,
            without: begun.without,
            ids: self.ids(&begun.rows),
            rows: begun.rows,
            layer: layers - 1,
            stage: Stage::Hop(Vec::new()),
            in_place: None,
            layers: Vec::with_capacity(layers),
            stats: Stats {
                batches: 1,
                seeds: begun.seeds as u64,
                ..Stats::new(layers)
            },
        }
    }

    /// Goes on as far as answers have come; the batch, once it is whole.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn go_on(&mut self, making: &mut Making) -> Result<Option<MadeBatch>> {
        let mut start = now_ns();
        let mut lap = || {
            let before = std::mem::replace(&mut start, now_ns());
            start - before
        };
        self.collector.reach.counted = making.at.0;
        while let Stage::Hop(pieces) = &mut making.stage {
            let hop = drawn(&mut self.collector, &making.rows, pieces)?;
            let Some(hop) = hop else {
                making.stats.draw_ns += lap();
                return Ok(None);
            };
            self.end_hop(making, hop)?;
        }
        making.stats.draw_ns += lap();
        if let Stage::Drawn = making.stage {
            self.start_input(making)?;
        }
        let input = match &mut making.stage {
            Stage::Input(Some(collecting)) => collecting.poll(&mut self.collector)?,
            _ => Some(MadeInput::Nothing),
        };
        making.stats.collect_ns += lap();
        Ok(input.map(|input| self.whole(making, input)))
    }

    /// Waits for one more answer; the time counts for `making`.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn wait(&mut self, making: &mut Making) -> Result<()> {
        self.collector.reach.wait()?;
        making.stats.wait_ns += self.collector.reach.take_waited();
        Ok(())
    }

    /// Asks for the hop of the layer at hand.
    fn start_hop(&mut self, making: &mut Making) -> Result<()> {
        let of = DrawAt {
            layer: making.layer,
            at: making.at,
            without: making.without.as_ref(),
        };
        let (n, grain) = (making.rows.len(), self.grain.max(1));
        let mut pieces = Vec::with_capacity(n.div_ceil(grain).max(1));
        for first in (0..n.max(1)).step_by(grain) {
            let rows = first..n.min(first.saturating_add(grain));
            let task = HopTask::start(&mut self.collector.reach, of, &making.rows[rows.clone()])?;
            making.stats.drawn_remote += task.remote() as u64;
            pieces.push(Piece {
                rows,
                task,
                drawn: None,
            });
        }
        making.stage = Stage::Hop(pieces);
        Ok(())
    }

    /// Makes the layer's block, and begins with the next hop, if there is one.
    fn end_hop(&mut self, making: &mut Making, hop: Hop) -> Result<()> {
        self.make_block(making, hop)?;
        if making.layer > 0 {
            making.layer -= 1;
            return self.start_hop(making);
        }
        making.stage = Stage::Drawn;
        Ok(())
    }

    /// Makes the block of the layer at hand; a first layer in place has none, and its hop is kept.
    pub(super) fn make_block(&mut self, making: &mut Making, hop: Hop) -> Result<()> {
        let Maker { collector, .. } = self;
        let layer = making.layer;
        let hop = collector.kept(layer, hop);
        making.stats.hops[layer] = HopStats {
            rows: making.rows.len() as u64,
            columns: 0,
            edges: hop.sources.len() as u64,
        };
        if layer == 0 && collector.wants.in_place {
            making.layers.push(LayerBlock {
                block: None,
                rows: std::mem::take(&mut making.ids),
                columns: Kept::default(),
                leaves: None,
            });
            making.in_place = Some(hop);
            return Ok(());
        }
        let NamedBlock {
            block,
            mut columns,
            solid,
            leaves,
        } = collector.block(layer, hop, &making.rows)?;
        // What backward will ask of it is made here, beside the thread that trains.
        if collector.wants.goes_back(layer) {
            block.edges_t();
        }
        making.stats.hops[layer].columns = columns.len() as u64;
        collector.say_reads(layer, &columns[..solid], &columns[solid..]);
        // The input has the first layer's leaves, too.
        let solid = if layer == 0 { columns.len() } else { solid };
        let ids = self.ids(&columns);
        let below = match solid == columns.len() {
            true => ids.clone(),
            false => ids[..solid].to_vec().into(),
        };
        columns.truncate(solid);
        making.rows = columns;
        making.layers.push(LayerBlock {
            block: Some(block),
            columns: match leaves {
                Some(_) => below.clone(),
                None => ids,
            },
            rows: std::mem::replace(&mut making.ids, below),
            leaves: leaves.map(|edges| Leaves { edges, rows: None }),
        });
        Ok(())
    }

    /// Begins to collect what the first layer reads.
    fn start_input(&mut self, making: &mut Making) -> Result<()> {
        let collector = &mut self.collector;
        let reading = making.read(collector, None);
        let collecting = reading.map(|reading| collector.fetch(making.at, reading));
        making.stage = Stage::Input(collecting.transpose()?);
        Ok(())
    }

    /// The batch, now that all of it is there.
    pub(super) fn whole(&self, making: &mut Making, input: MadeInput) -> MadeBatch {
        let mut layers = std::mem::take(&mut making.layers);
        layers.reverse();
        let learnt = self.collector.wants.learnt;
        MadeBatch {
            step: making.at.1,
            input,
            hops: Hops {
                inputs: std::mem::take(&mut making.ids),
                layers,
            },
            read: match learnt {
                true => std::mem::take(&mut making.rows),
                false => Vec::new(),
            },
            rows: making.labels.take().expect("a batch is made once"),
            pairs: making.pairs.take(),
            stats: std::mem::take(&mut making.stats),
        }
    }
}

impl Making {
    /// Numbers of the rows of the layer at hand.
    pub(super) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// What the first layer reads; `fetched` are the numbers of rows that have been fetched, if they have.
    pub(super) fn read(&mut self, by: &mut Collector, fetched: Option<&[u32]>) -> Option<Reading> {
        let (hop, stats) = (self.in_place.take(), &mut self.stats);
        by.reads(hop, &self.rows, fetched, stats)
    }

    /// Takes the edges that are left out.
    pub(super) fn take_without(&mut self) -> Option<Without> {
        self.without.take()
    }
}

impl Piece {
    fn is_there(&self) -> bool {
        self.drawn.is_some()
    }
}

/// What was drawn of all `rows`, once that of every piece is there.
fn drawn(collector: &mut Collector, rows: &[u32], pieces: &mut [Piece]) -> Result<Option<Hop>> {
    for piece in pieces.iter_mut().filter(|p| !p.is_there()) {
        let rows = &rows[piece.rows.clone()];
        piece.drawn = piece.task.poll(&mut collector.reach, rows)?;
    }
    if !pieces.iter().all(Piece::is_there) {
        return Ok(None);
    }
    let parts = pieces.iter_mut().filter_map(|p| p.drawn.take());
    Ok(Some(Hop::joined(parts.collect())))
}
