//! The feed of a strategy whose batches are made beside the training.

use super::cache::Cache;
use super::collect::MadeInput;
use super::launch::{BatchRange, Launching};
use super::learnt::Learnt;
use super::make::{MadeBatch, Maker};
use super::on_device::{Lies, on_device};
use super::queue::{Crew, Queue};
use super::rows::RowData;
use super::stats::{BatchRow, HopRow, Stats};
use super::{Batch, Feed};
use crate::backend::Mat;
use crate::checkpoint::State;
use crate::comm::Post;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::Input;
use crate::record::{Direction, Pass, now_ns};
use std::sync::Arc;

/// Batches out of a queue, with their features on the device.
pub(crate) struct Prefetched {
    queue: Option<Queue>,
    /// Who will make batches, and how far ahead: from the first epoch on, which a run that goes on from a
    /// checkpoint learns late.
    waiting: (Vec<Maker>, Option<Launching>),
    batches: u64,
    /// Features of this rank's vertices.
    store: Input,
    /// Features of others that it keeps.
    cached: Option<Mat>,
    /// What of the input is learnt.
    learnt: Option<Learnt>,
    stats: Option<Stats>,
    /// When the epoch's first batch was asked for, and how long training has waited for batches.
    began_ns: u64,
    stalled_ns: u64,
    /// By layer, which vertices were computed in this epoch, by the data set's ids.
    computed: Vec<Vec<u64>>,
    post: Option<Post>,
}

impl Prefetched {
    /// Batches of `makers`, made ahead as `launching` says or else when they are asked for, `batches` an
    /// epoch; `store` are the rank's features, `cache` copies of others' and `learnt` what there is beside
    /// them.
    pub(crate) fn new(
        makers: Vec<Maker>,
        launching: Option<Launching>,
        batches: u64,
        (store, cache, learnt): (Input, &Cache, Option<Learnt>),
        post: Option<Post>,
        cx: &Ctx,
    ) -> Prefetched {
        let cached = match &cache.rows {
            RowData::Dense(x) if x.nrows() > 0 => Some(cx.backend.share(x)),
            _ => None,
        };
        Prefetched {
            queue: None,
            waiting: (makers, launching),
            batches,
            store,
            cached,
            learnt,
            stats: None,
            began_ns: 0,
            stalled_ns: 0,
            computed: Vec::new(),
            post,
        }
    }

    /// The queue of batches from `cx`'s epoch on.
    fn started(&mut self, cx: &Ctx) -> Result<&mut Queue> {
        if self.queue.is_none() {
            let (mut makers, launching) = std::mem::take(&mut self.waiting);
            let range = BatchRange {
                batches: self.batches,
                first: cx.epoch,
                end: cx.plan.spec.epochs as u64,
            };
            let queue = match launching {
                None => Queue::inline(makers.pop().expect("a feed has a maker")),
                Some(Launching { launcher, how }) => Queue::ahead(Crew {
                    makers,
                    launcher: launcher(range),
                    how,
                    range,
                    post: self.post.clone(),
                    traced: cx.meter().trace().is_some(),
                })?,
            };
            self.queue = Some(queue);
        }
        Ok(self.queue.as_mut().expect("started above"))
    }

    fn count(&mut self, made: &MadeBatch, n: usize) {
        let layers = made.hops.layers.len();
        self.stats
            .get_or_insert_with(|| Stats::new(layers))
            .add(&made.stats);
        self.computed.resize(layers, Vec::new());
        for (seen, layer) in self.computed.iter_mut().zip(&made.hops.layers) {
            seen.resize(n.div_ceil(64), 0);
            for &v in layer.rows.iter() {
                seen[v as usize / 64] |= 1 << (v % 64);
            }
        }
    }
}

impl Feed for Prefetched {
    fn batches(&self) -> u64 {
        self.batches
    }

    fn next(&mut self, cx: &mut Ctx, step: u64) -> Result<Batch> {
        let asked = now_ns();
        if step == 0 {
            self.began_ns = asked;
            self.stalled_ns = 0;
        }
        let epoch = cx.epoch;
        let queue = self.started(cx)?;
        let mut made = cx.sample(|| queue.take(epoch, step))?;
        self.stalled_ns += now_ns() - asked;
        cx.pass(Pass::Forward);
        let ids = made.hops.layers.iter().map(|layer| &layer.rows);
        let n = ids.flat_map(|ids| ids.iter()).max();
        let n = n
            .map_or(0, |&v| v as usize + 1)
            .max(self.computed.first().map_or(0, |c| 64 * c.len()));
        self.count(&made, n);
        if let Some(learnt) = &mut self.learnt {
            let features = match made.input {
                MadeInput::Rows(rows, _) => Some(rows),
                _ => None,
            };
            let read = std::mem::take(&mut made.read);
            let x = learnt.pull(cx, step, (read, features))?;
            made.input = MadeInput::Rows(RowData::Dense(Arc::new(x)), None);
        }
        let lies = Lies {
            store: &self.store,
            cached: self.cached.as_ref(),
        };
        let input = on_device(cx, made.input, lies);
        Ok(Batch {
            step: made.step,
            input,
            hops: made.hops,
            rows: made.rows,
            pairs: made.pairs,
        })
    }

    fn learns(&self) -> bool {
        self.learnt.is_some()
    }

    fn learn(&mut self, cx: &mut Ctx, step: u64, gradient: Mat) -> Result<()> {
        match &mut self.learnt {
            Some(learnt) => {
                let gradient = cx.backend.take(gradient);
                learnt.push(cx, step, &gradient)
            }
            None => Ok(()),
        }
    }

    fn whole(&mut self, cx: &mut Ctx) -> Result<Option<kernels::Mat>> {
        self.learnt.as_mut().map(|l| l.whole(cx)).transpose()
    }

    fn save(&mut self, cx: &mut Ctx, state: &mut State) -> Result<()> {
        match &mut self.learnt {
            Some(learnt) => learnt.save(cx, state),
            None => Ok(()),
        }
    }

    fn restore(&mut self, state: &mut State) -> Result<()> {
        match &mut self.learnt {
            Some(learnt) => learnt.restore(state),
            None => Ok(()),
        }
    }

    fn close(&mut self, cx: &mut Ctx) {
        if let Some(post) = &self.post {
            cx.letters(post.take_sent(cx.epoch));
        }
        if let Some(queue) = &self.queue {
            let (launches, spans) = queue.noted();
            launches.into_iter().for_each(|row| cx.row(row));
            cx.beside(spans);
        }
        let Some(stats) = self.stats.take() else {
            return;
        };
        let ms = |ns: u64| ns as f64 / 1e6;
        let made_ns = stats.draw_ns + stats.collect_ns + stats.wait_ns;
        let hidden = made_ns.saturating_sub(self.stalled_ns) as f64 / made_ns.max(1) as f64;
        let wall = (now_ns() - self.began_ns).max(1);
        let (fetched, cached) = (stats.rows_remote as usize, stats.rows_cached as usize);
        cx.halo(Direction::Forward, fetched, cached);
        cx.row(BatchRow {
            batches: stats.batches,
            seeds: stats.seeds,
            seeds_per_s: stats.seeds as f64 / (wall as f64 / 1e9),
            draw_ms: ms(stats.draw_ns),
            collect_ms: ms(stats.collect_ns),
            answer_ms: ms(stats.wait_ns),
            stall_ms: ms(self.stalled_ns),
            hidden_pct: 100.0 * hidden,
            rows_local: stats.rows_local,
            rows_cached: stats.rows_cached,
            rows_remote: stats.rows_remote,
            drawn_remote: stats.drawn_remote,
        });
        for (layer, (hop, seen)) in stats.hops.iter().zip(&mut self.computed).enumerate() {
            let distinct: u64 = seen.iter().map(|w| u64::from(w.count_ones())).sum();
            seen.fill(0);
            cx.row(HopRow {
                layer: layer as u16,
                rows: hop.rows,
                columns: hop.columns,
                edges: hop.edges,
                distinct_rows: distinct,
                redundancy: hop.rows as f64 / distinct.max(1) as f64,
            });
        }
    }
}
