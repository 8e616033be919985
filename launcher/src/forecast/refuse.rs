//! Which runs are rehearsed before they start, and what comes of it.

use super::{Foreseen, Machine, foresee, limit};
use crate::error::{Error, Result};
use crate::resolve::Resolved;
use gnn_core::dataset::Dataset;
use gnn_core::memory::Memory;
use gnn_core::parameters;
use gnn_core::strategy::{self, Entry};
use std::sync::Arc;

/// Elements of features and edges, times ranks, of data so small that a rehearsal is a small part of
/// starting: 34 million of them (`sbm:nodes=50000,classes=8,feat=128,degree=20` on four ranks) took about
/// 0.1 s of the 0.9 s that a run of one epoch took, on two cores of an AMD EPYC.
const SMALL: usize = 40_000_000;

/// What is known before the data is read.
#[derive(Debug, Clone, Copy)]
pub struct Foresight {
    /// Memory that there is.
    memory: Memory,
    /// Start also what does not fit.
    force: bool,
}

impl Foresight {
    /// Now; with `force`, nothing is refused.
    pub fn now(force: bool) -> Foresight {
        Foresight {
            memory: Memory::now(),
            force,
        }
    }

    /// Whether a rehearsal of the request pays: it has a limit, is small, or might not fit.
    fn pays(&self, resolved: &Resolved, data: &Dataset) -> bool {
        let spec = &resolved.plan.spec;
        let elements = data.graph.n_edges() + data.n() * data.features.dim();
        if spec.limit > 0 {
            return true;
        }
        // Of others nobody knows whether they can be rehearsed.
        if strategy::find(&spec.strategy).is_err() {
            return false;
        }
        if elements.saturating_mul(spec.ranks) <= SMALL {
            return !resolved.entry.background;
        }
        let held = data.features.bytes() as u64 + 8 * data.graph.n_edges() as u64;
        let columns = data.features.dim() + spec.layers * spec.hidden * spec.heads.max(1);
        let most = spec.ranks as u64 * 2 * held + 16 * (data.n() * columns) as u64;
        self.memory
            .left()
            .is_some_and(|free| most > free / 2 && 2 * held < free)
    }
}

/// What is foreseen of a run that is to be started, where finding out pays; what does not fit is
/// refused. Nothing is said of a strategy that cannot be rehearsed.
///
/// # Errors
/// [`crate::Error::PlanRefused`] for what does not fit, [`gnn_core::Error::Budget`] for what does not fit into
/// a device or a host that has a budget; with a limit, as [`foresee()`].
pub fn expected(
    resolved: &Resolved,
    data: &Arc<Dataset>,
    strategies: &'static [Entry],
    foresight: Foresight,
) -> Result<Vec<Foreseen>> {
    if !foresight.pays(resolved, data) {
        return Ok(Vec::new());
    }
    let limited = resolved.plan.spec.limit > 0 && !foresight.force;
    if let Some(may) = foresight.memory.process {
        let parameters = parameters(&resolved.plan.spec, data) as u64;
        if !foresight.force {
            limit::check_parameters(resolved, parameters, may)?;
        }
        // A rehearsal's ranks are threads of this process, and send what they would.
        let messages = (parameters / 4).saturating_mul(resolved.plan.spec.ranks as u64);
        if foresight
            .memory
            .process_left
            .is_some_and(|left| messages > left)
        {
            return Ok(Vec::new());
        }
    }
    let known = Machine::known();
    let seen = foresee(resolved, Arc::clone(data), strategies, known.as_ref());
    let ranks = match seen {
        Ok(ranks) => ranks,
        Err(error) if limited => return Err(error),
        // What a budget cannot hold need not be tried.
        Err(error @ Error::Core(gnn_core::Error::Budget { .. })) if !foresight.force => {
            return Err(error);
        }
        Err(_) => Vec::new(),
    };
    if !foresight.force {
        limit::check(resolved, &ranks, foresight.memory)?;
    }
    Ok(ranks)
}
