//! The rows of the `plan` frame.

use super::foresee::{Foreseen, Work};
use crate::resolve::Resolved;
use gnn_core::record::rows::PlanRow;

const EXACT: &str = "exact";
const MODELLED: &str = "modelled";

/// One row a rank and item of what was foreseen of a resolved request, against its limit.
pub fn rows(resolved: &Resolved, seen: &[Foreseen]) -> Vec<PlanRow> {
    let spec = &resolved.plan.spec;
    let limit = (spec.limit > 0).then_some(spec.limit as f64);
    let mut rows = Vec::new();
    for rank in seen {
        let memory = rank.memory();
        let fits = memory.is_none_or(|need| spec.limit == 0 || need <= spec.limit);
        let mut add = |item: &str, value: Option<f64>, unit: &str, basis: &str| {
            rows.extend(value.map(|value| PlanRow {
                ranks: spec.ranks as u32,
                rank: rank.rank,
                item: item.into(),
                value,
                unit: unit.into(),
                basis: basis.into(),
                limit,
                fits,
            }));
        };
        let part = |of: fn(&gnn_core::record::Holds) -> usize| {
            rank.holds.as_ref().map(|holds| of(holds) as f64)
        };
        add("graph", part(|h| h.graph), "bytes", EXACT);
        add("features", part(|h| h.features), "bytes", EXACT);
        add("activations", part(|h| h.activations), "bytes", MODELLED);
        let history = part(|h| h.history).filter(|bytes| *bytes > 0.0);
        add("history", history, "bytes", EXACT);
        let offloaded = part(|h| h.offloaded).filter(|bytes| *bytes > 0.0);
        add("offloaded", offloaded, "bytes", EXACT);
        add("halo", part(|h| h.halo), "bytes", EXACT);
        add("optimizer", part(|h| h.parameters), "bytes", EXACT);
        let device = rank.device.map(|bytes| bytes as f64);
        add("device", device, "bytes", EXACT);
        add("setup", Some(rank.setup as f64), "bytes", MODELLED);
        let program = rank.program.map(|bytes| bytes as f64);
        add("program", program, "bytes", MODELLED);
        add(
            "memory",
            memory.map(|bytes| bytes as f64),
            "bytes",
            MODELLED,
        );
        if rank.rank == 0 {
            let cut = resolved.report.as_ref();
            let bytes = cut.map(|report| report.predicted_bytes as f64);
            add("partitioner", bytes, "bytes", MODELLED);
        }
        add("epoch_time", rank.wall_ms, "ms", MODELLED);
        add("bubble", rank.bubble, "share", MODELLED);
        let work = |of: fn(Work) -> f64| rank.work.map(of);
        add("dense", work(|w| w.flops), "operations", EXACT);
        add("along_edges", work(|w| w.elements), "elements", EXACT);
        add("beside", work(|w| w.moved), "bytes", EXACT);
        add("epoch_bytes", Some(rank.bytes as f64), "bytes", EXACT);
        let copied = |way: usize| rank.copied.map(|copied| copied[way] as f64);
        add("to_device", copied(0), "bytes", EXACT);
        add("to_host", copied(1), "bytes", EXACT);
    }
    rows
}
