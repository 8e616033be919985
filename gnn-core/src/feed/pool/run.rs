//! A thread that does what batches need, operation by operation.

use super::super::collect::{MadeInput, Reading};
use super::super::make::Maker;
use super::super::making::Making;
use super::super::rows::RowData;
use super::dag::{Dag, Finder};
use super::found::Part;
use super::operation::Operation;
use super::operator::{Instance, Operator};
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
        while let Some(operation) = pool.next() {
            #[cfg(test)]
            super::super::tests::delay(pool.settings.delays);
            let number = operation.dag.number;
            if let Err(e) = self.run(operation) {
                return pool.board.put(number, Err(e));
            }
        }
    }

    fn run(&mut self, operation: Operation) -> Result<()> {
        let start = now_ns();
        let pool = Arc::clone(&self.pool);
        let (place, number) = operation.what;
        let (operator, dag) = (pool.plan.logical.operator(place), &operation.dag);
        let came = operation.came;
        let instance = Instance {
            dag,
            number,
            came,
            start,
        };
        let todo = operator.run(self, instance)?;
        let done = start..now_ns();
        pool.begin(dag, todo, &self.maker.collector.reach)?;
        self.keep_span(dag, operator, done);
        Ok(())
    }

    /// What is drawn of some of this rank's rows.
    pub(super) fn draw(&self, dag: &Dag, layer: usize, mut rows: Vec<u32>) -> Hop {
        let reach = &self.maker.collector.reach;
        let first = reach.shard.numbers.first[reach.shard.rank];
        rows.iter_mut().for_each(|v| *v -= first);
        let without = dag.without();
        reach.shard.draw(layer, dag.at, &rows, without, &reach.par)
    }

    /// A layer's block, out of the parts of its hop.
    pub(super) fn block(&mut self, parts: Vec<Part<Hop>>, making: &mut Making) -> Result<()> {
        let n = self.maker.collector.reach.shard.numbers.ids.len();
        let compact = &mut self.maker.collector.compact;
        let hop = unsplit(parts, making.rows(), n, compact);
        self.maker.make_block(making, hop)
    }

    /// The batch, out of its blocks and the parts of its features.
    pub(super) fn end(&mut self, dag: &Dag, start: u64) -> Result<()> {
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

    /// With what this thread knows when it finds rows.
    pub(super) fn finding<T>(&self, find: impl FnOnce(&Finder<'_>) -> T) -> T {
        let reach = &self.maker.collector.reach;
        find(&Finder {
            shard: &reach.shard,
            is_kept: &|v| reach.cache.find(v).is_some(),
            width: reach.rows.width(),
        })
    }

    fn keep_span(&self, dag: &Dag, operator: &dyn Operator, at: Range<u64>) {
        let Some(spans) = &self.pool.spans else {
            return;
        };
        lock(spans).push(Span {
            stream: Stream::Sampler,
            phase: match operator.name() {
                "features" | "end" => SpanPhase::Copy,
                _ => SpanPhase::Sample,
            },
            pass: operator.name(),
            layer: operator.layer().unwrap_or(0) as u16,
            chunk: Some(dag.at.1 as u32),
            op: None,
            peer: None,
            bytes: None,
            at,
        });
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
