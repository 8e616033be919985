//! The operators that a batch is made of: what each does for an instance, and what that costs. When and by whom
//! it is done, they do not know.

use super::super::rows::RowData;
use super::super::wire::{What, unpack};
use super::dag::{Dag, Finder, Seeded, State, Todo};
use super::run::Worker;
use crate::comm::Words;
use crate::error::Result;
use crate::record::now_ns;
use std::sync::Arc;

/// An operator.
pub(super) trait Operator: Send + Sync {
    /// What traces call it.
    fn name(&self) -> &'static str;

    /// The layer that it is for, if it is for one.
    fn layer(&self) -> Option<usize> {
        None
    }

    /// What the owner of an instance's rows is asked for; none where this rank does it itself whosever the
    /// rows are.
    fn asks(&self) -> Option<What> {
        None
    }

    /// Words that an instance is expected to touch.
    fn cost(&self, of: &State, instance: usize, by: &Finder<'_>) -> u64;

    /// Does an instance. What may be done next.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn run(&self, by: &mut Worker, what: Instance<'_>) -> Result<Vec<Todo>>;
}

/// An instance that is done now.
pub(super) struct Instance<'a> {
    pub(super) dag: &'a Arc<Dag>,
    pub(super) number: usize,
    /// What its rows' owner has answered.
    pub(super) came: Option<Words>,
    /// When it was begun.
    pub(super) start: u64,
}

/// Draws a batch's seeds.
pub(super) struct Seed;

/// Draws pairs that are joined, of some seeds.
pub(super) struct Positive;

/// Draws pairs that are not, beside those.
pub(super) struct Negative;

/// Puts all pairs of a batch together.
pub(super) struct Pairs;

/// Draws in-edges of some rows of a layer, here or at their owner.
pub(super) struct Neighbourhood(pub(super) usize);

/// Makes a layer's block, out of its hop.
pub(super) struct Block(pub(super) usize);

/// Fetches features of some rows from their owner.
pub(super) struct Features;

/// Collects what a batch is made of.
pub(super) struct End;

impl Operator for Seed {
    fn name(&self) -> &'static str {
        "seed"
    }

    fn cost(&self, _: &State, _: usize, _: &Finder<'_>) -> u64 {
        0
    }

    fn run(&self, by: &mut Worker, what: Instance<'_>) -> Result<Vec<Todo>> {
        let (dag, (epoch, step)) = (what.dag, what.dag.at);
        let places = by.maker.places(epoch, step);
        let seeded = match by.maker.links.clone() {
            Some(links) => Seeded::Pairs(links.at(&places), links.exclude),
            None => {
                let begun = by.maker.begin_at(step, &places);
                let mut making = by.maker.making(begun, dag.at);
                making.stats.draw_ns += now_ns() - what.start;
                Seeded::Rows(Box::new(making))
            }
        };
        let plan = &by.pool.plan;
        Ok(by.finding(|finder| dag.seeded(plan, seeded, finder)))
    }
}

/// Some pairs of an instance, which are positives or not.
fn pairs(by: &mut Worker, what: &Instance<'_>, joined: bool) -> Vec<Todo> {
    let Instance { dag, number, .. } = *what;
    let links = by.maker.links.clone();
    let links = links.expect("there are pairs of edges and of vertices alone");
    let (batch, some) = dag.state().seeds(number);
    let pairs = match joined {
        true => links.positives(dag.at.0, &batch, some),
        false => links.negatives(dag.at.0, &batch, some),
    };
    let ends: Vec<u32> = links.ends(&pairs).collect();
    by.finding(|finder| {
        let mut state = dag.state();
        let todo = state.paired((joined, number), pairs, &ends, finder);
        state.stats(|stats| stats.draw_ns += now_ns() - what.start);
        todo
    })
}

impl Operator for Positive {
    fn name(&self) -> &'static str {
        "positive"
    }

    fn cost(&self, of: &State, instance: usize, _: &Finder<'_>) -> u64 {
        of.seeds(instance).1.len() as u64
    }

    fn run(&self, by: &mut Worker, what: Instance<'_>) -> Result<Vec<Todo>> {
        Ok(pairs(by, &what, true))
    }
}

impl Operator for Negative {
    fn name(&self) -> &'static str {
        "negative"
    }

    fn cost(&self, of: &State, instance: usize, _: &Finder<'_>) -> u64 {
        of.seeds(instance).1.len() as u64
    }

    fn run(&self, by: &mut Worker, what: Instance<'_>) -> Result<Vec<Todo>> {
        Ok(pairs(by, &what, false))
    }
}

impl Operator for Pairs {
    fn name(&self) -> &'static str {
        "pairs"
    }

    fn cost(&self, _: &State, _: usize, _: &Finder<'_>) -> u64 {
        0
    }

    fn run(&self, by: &mut Worker, what: Instance<'_>) -> Result<Vec<Todo>> {
        let dag = what.dag;
        let links = by.maker.links.clone();
        let links = links.expect("there are pairs of edges and of vertices alone");
        let (seeds, positives, negatives) = dag.state().take_pairs();
        let all = (seeds, &positives[..], &negatives[..]);
        let begun = by.maker.begin_of(dag.at.1, &links, all)?;
        let mut making = by.maker.making(begun, dag.at);
        making.stats.draw_ns += now_ns() - what.start;
        Ok(by.finding(|finder| dag.begun(making, finder)))
    }
}

impl Operator for Neighbourhood {
    fn name(&self) -> &'static str {
        "neighbourhood"
    }

    fn layer(&self) -> Option<usize> {
        Some(self.0)
    }

    fn asks(&self) -> Option<What> {
        Some(What::Draw(self.0))
    }

    /// How many neighbours others' rows have is not known: as many as this rank's, on average.
    fn cost(&self, of: &State, instance: usize, by: &Finder<'_>) -> u64 {
        let (_, rows) = of.part_of_hop(self.0, instance);
        (rows + by.shard.expects(self.0, rows)) as u64
    }

    fn run(&self, by: &mut Worker, what: Instance<'_>) -> Result<Vec<Todo>> {
        let Instance { dag, number, .. } = what;
        let (owner, rows) = dag.state().part_of_hop(self.0, number);
        let hop = match what.came {
            Some(words) => unpack(owner, rows, &words)?,
            None => {
                let rows = dag.state().rows_to_draw(self.0, number);
                by.draw(dag, self.0, rows)
            }
        };
        let me = by.maker.collector.reach.shard.rank;
        Ok(by.finding(|finder| {
            let mut state = dag.state();
            let todo = state.drawn(self.0, number, hop, finder);
            state.stats(|stats| {
                stats.draw_ns += now_ns() - what.start;
                stats.drawn_remote += if owner == me { 0 } else { rows as u64 };
            });
            todo
        }))
    }
}

impl Operator for Block {
    fn name(&self) -> &'static str {
        "block"
    }

    fn layer(&self) -> Option<usize> {
        Some(self.0)
    }

    fn cost(&self, of: &State, _: usize, _: &Finder<'_>) -> u64 {
        of.edges_of_hop(self.0) as u64
    }

    fn run(&self, by: &mut Worker, what: Instance<'_>) -> Result<Vec<Todo>> {
        let (parts, mut making) = what.dag.state().take_hop(self.0);
        making.layer = self.0;
        by.block(parts, &mut making)?;
        making.stats.draw_ns += now_ns() - what.start;
        Ok(by.finding(|finder| what.dag.state().blocked(making, finder)))
    }
}

impl Operator for Features {
    fn name(&self) -> &'static str {
        "features"
    }

    fn asks(&self) -> Option<What> {
        Some(What::Rows)
    }

    fn cost(&self, of: &State, instance: usize, by: &Finder<'_>) -> u64 {
        (of.part_of_features(instance).1 * by.width) as u64
    }

    fn run(&self, by: &mut Worker, what: Instance<'_>) -> Result<Vec<Todo>> {
        let Instance { dag, number, .. } = what;
        let (owner, count) = dag.state().part_of_features(number);
        let words = what.came.expect("rows of this rank are not fetched");
        let rows: RowData = by.maker.collector.reach.rows.unpack(owner, count, words)?;
        Ok(by.finding(|finder| {
            let mut state = dag.state();
            state.stats(|stats| stats.collect_ns += now_ns() - what.start);
            state.fetched(number, rows, finder)
        }))
    }
}

impl Operator for End {
    fn name(&self) -> &'static str {
        "end"
    }

    fn cost(&self, of: &State, _: usize, by: &Finder<'_>) -> u64 {
        (of.rows_of_features() * by.width) as u64
    }

    fn run(&self, by: &mut Worker, what: Instance<'_>) -> Result<Vec<Todo>> {
        by.end(what.dag, what.start)?;
        Ok(Vec::new())
    }
}
