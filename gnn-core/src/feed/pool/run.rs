//! A thread that does what batches need, operation by operation.

use super::super::collect::{MadeInput, Reading};
use super::super::make::Maker;
use super::super::rows::RowData;
use super::super::wire::{What, unpack};
use super::dag::{Dag, Finder, Plan, Todo};
use super::found::Part;
use super::operation::{Do, Operation};
use super::{Pool, lock};
use crate::error::Result;
use crate::record::trace::Span;
use crate::record::{SpanPhase, Stream, now_ns};
use crate::sample::{Compact, Hop};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A thread of the pool.
pub(super) struct Worker {
    pub(super) maker: Maker,
    pub(super) pool: Arc<Pool>,
}

impl Worker {
    /// Does operations until no more batches are wanted, or one fails.
    pub(super) fn work(mut self) {
        let pool = Arc::clone(&self.pool);
        while let Some(Operation { dag, what, .. }) = pool.next() {
            #[cfg(test)]
            super::super::tests::delay(pool.settings.delays);
            if let Err(e) = self.run(&dag, what) {
                return pool.board.put(dag.number, Err(e));
            }
        }
    }

    fn run(&mut self, dag: &Arc<Dag>, what: Do) -> Result<()> {
        let start = now_ns();
        let (operator, layer) = name(&what);
        let todo = match what {
            Do::Seeds => self.seeds(dag, start)?,
            Do::Draw(layer, part) => {
                let rows = dag.state().rows_to_draw(layer, part);
                let hop = self.draw(dag, layer, rows);
                self.drawn(dag, (layer, part), hop, start)
            }
            Do::Arrived(What::Draw(layer), part, words) => {
                let (owner, rows) = dag.state().part_of_hop(layer, part);
                let hop = unpack(owner, rows, &words)?;
                self.drawn(dag, (layer, part), hop, start)
            }
            Do::Arrived(_, part, words) => {
                let (owner, rows) = dag.state().part_of_features(part);
                let reach = &self.maker.collector.reach;
                let rows = reach.rows.unpack(owner, rows, words)?;
                let mut state = dag.state();
                state.stats(|stats| stats.collect_ns += now_ns() - start);
                state.fetched(part, rows, &self.finder(&|_| true))
            }
            Do::Block(layer) => self.block(dag, layer, start)?,
            Do::End => {
                self.end(dag, start)?;
                Vec::new()
            }
            Do::Fetch(_) => unreachable!("rows of this rank are not fetched"),
        };
        let done = start..now_ns();
        self.pool.begin(dag, todo, &self.maker.collector.reach)?;
        self.keep_span(dag, (operator, layer), done);
        Ok(())
    }

    fn seeds(&mut self, dag: &Dag, start: u64) -> Result<Vec<Todo>> {
        let (epoch, step) = dag.at;
        let mut making = self.maker.seeded(epoch, step)?;
        making.stats.draw_ns += now_ns() - start;
        let plan = self.plan();
        let kept = |v| self.maker.collector.reach.cache.find(v).is_some();
        Ok(dag.seeded(plan, making, &self.finder(&kept)))
    }

    /// What is drawn of some of this rank's rows.
    fn draw(&self, dag: &Dag, layer: usize, mut rows: Vec<u32>) -> Hop {
        let reach = &self.maker.collector.reach;
        let first = reach.shard.numbers.first[reach.shard.rank];
        rows.iter_mut().for_each(|v| *v -= first);
        let without = dag.without();
        reach.shard.draw(layer, dag.at, &rows, without, &reach.par)
    }

    fn drawn(&self, dag: &Dag, of: (usize, usize), hop: Hop, start: u64) -> Vec<Todo> {
        let kept = |v| self.maker.collector.reach.cache.find(v).is_some();
        let (layer, part) = of;
        let mut state = dag.state();
        let (owner, rows) = state.part_of_hop(layer, part);
        let todo = state.drawn(layer, part, hop, &self.finder(&kept));
        let me = self.maker.collector.reach.shard.rank;
        state.stats(|stats| {
            stats.draw_ns += now_ns() - start;
            stats.drawn_remote += if owner == me { 0 } else { rows as u64 };
        });
        todo
    }

    /// A layer's block, out of the parts of its hop.
    fn block(&mut self, dag: &Dag, layer: usize, start: u64) -> Result<Vec<Todo>> {
        let (parts, mut making) = dag.state().take_hop(layer);
        making.layer = layer;
        let n = self.maker.collector.reach.shard.numbers.ids.len();
        let compact = &mut self.maker.collector.compact;
        let hop = unsplit(parts, making.rows(), n, compact);
        self.maker.make_block(&mut making, hop)?;
        making.stats.draw_ns += now_ns() - start;
        Ok(dag.state().blocked(making, &self.finder(&|_| true)))
    }

    /// The batch, out of its blocks and the parts of its features.
    fn end(&mut self, dag: &Dag, start: u64) -> Result<()> {
        let (parts, mut making) = dag.state().take_features();
        let collector = &mut self.maker.collector;
        let n = collector.reach.shard.numbers.ids.len();
        let fetched: Vec<u32> = parts.iter().flat_map(|p| p.rows.iter().copied()).collect();
        let input = match making.read(collector, Some(&fetched)) {
            None => MadeInput::Nothing,
            Some(Reading { missing, as_what }) => {
                let mut compact = std::mem::take(&mut collector.compact);
                let lies = || places(&parts, missing, n, &mut compact);
                let rows = parts.iter().filter_map(|part| part.got.as_ref());
                let rows: Vec<&RowData> = rows.collect();
                let input = as_what.input_of(collector, &rows, lies)?;
                collector.compact = compact;
                input
            }
        };
        let waited = self.pool.waited_ns.swap(0, Ordering::Relaxed);
        making.stats.wait_ns += waited;
        making.stats.collect_ns += now_ns() - start;
        let made = self.maker.whole(&mut making, input);
        self.pool.board.put(dag.number, Ok(made));
        Ok(())
    }

    fn finder<'a>(&'a self, is_kept: &'a dyn Fn(u32) -> bool) -> Finder<'a> {
        let reach = &self.maker.collector.reach;
        Finder {
            shard: &reach.shard,
            is_kept,
            width: reach.rows.width(),
        }
    }

    /// What is wanted of a batch.
    fn plan(&self) -> Plan {
        let collector = &self.maker.collector;
        let shard = &collector.reach.shard;
        let wants = collector.wants;
        let grain = self.pool.settings.grain;
        // An instance of so many seeds has as many rows below as they find.
        let mut grains = vec![grain; wants.layers];
        let mut rows = grain;
        for layer in (0..wants.layers).rev() {
            grains[layer] = rows;
            rows = rows.saturating_add(shard.expects(layer, rows));
        }
        Plan {
            wants,
            me: shard.rank,
            grains,
            fetches: rows,
        }
    }

    fn keep_span(&self, dag: &Dag, (operator, layer): (&'static str, usize), at: Range<u64>) {
        let Some(spans) = &self.pool.spans else {
            return;
        };
        lock(spans).push(Span {
            stream: Stream::Sampler,
            phase: match operator {
                "features" | "end" => SpanPhase::Copy,
                _ => SpanPhase::Sample,
            },
            pass: operator,
            layer: layer as u16,
            chunk: Some(dag.at.1 as u32),
            op: None,
            peer: None,
            bytes: None,
            at,
        });
    }
}

/// What an operation is called in a trace, and its layer.
fn name(what: &Do) -> (&'static str, usize) {
    match *what {
        Do::Seeds => ("seed", 0),
        Do::Draw(layer, _) | Do::Arrived(What::Draw(layer), ..) => ("neighbourhood", layer),
        Do::Fetch(_) | Do::Arrived(..) => ("features", 0),
        Do::Block(layer) => ("block", layer),
        Do::End => ("end", 0),
    }
}

/// The hop of `rows` out of its parts.
fn unsplit(mut parts: Vec<Part<Hop>>, rows: &[u32], n: usize, compact: &mut Compact) -> Hop {
    if parts.len() == 1 && parts[0].rows == rows {
        return parts.remove(0).got.unwrap_or_default();
    }
    let lies = places(&parts, rows.to_vec(), n, compact);
    let hops = parts.into_iter().filter_map(|part| part.got);
    let hops: Vec<Hop> = hops.collect();
    let mut all = Hop::like(&hops);
    all.indptr.reserve(rows.len());
    for (part, row) in lies {
        let row = row as usize;
        all.push_rows(&hops[part as usize], row..row + 1);
    }
    all
}

/// For each of `wanted`, numbers below `n`, the part that has its row, and where in it.
fn places<T>(
    parts: &[Part<T>],
    mut wanted: Vec<u32>,
    n: usize,
    compact: &mut Compact,
) -> Vec<(u32, u32)> {
    let rows: Vec<u32> = parts.iter().flat_map(|p| p.rows.iter().copied()).collect();
    let known = compact.number(n, &rows, &mut wanted).len();
    assert_eq!(known, rows.len(), "every row that is read has been wanted");
    let lies = parts.iter().zip(0..).flat_map(|(part, number)| {
        let rows = 0..part.rows.len() as u32;
        rows.map(move |row| (number, row))
    });
    let lies: Vec<(u32, u32)> = lies.collect();
    wanted.iter().map(|&k| lies[k as usize]).collect()
}
