//! `%%sql`: Polars SQL over what is bound and over the run store, in this process.

use launcher::sql::{self, Bound};
use launcher::{partition, plan, store, sweep};

use super::{CUT, FRAME, PARAM, PLAN, SWEEP, Session, lines, report};
use crate::front::{Outcome, Shown};
use crate::magic::SqlRequest;

/// Answers, binds where a name is given, and shows the frame.
pub fn query(request: &SqlRequest, session: &Session<'_>) -> Outcome {
    let refused = |error: launcher::Error| lines::refused(&error);
    let mut frame = sql::query(&request.text, &tables(session)).map_err(refused)?;
    let shown: Shown = report::frame(&frame);
    if let Some(name) = &request.output {
        let id = sql::keep(&mut frame).map_err(refused)?;
        (session.bind)(&binding(name, &id))?;
        session.remember(name, &format!("{FRAME}{id}"));
    }
    Ok(Some(shown))
}

/// What the session's names stand for. A name whose file is gone is left out.
pub(super) fn tables(session: &Session<'_>) -> Vec<(String, Bound)> {
    let bound = session
        .bound
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let found = bound.iter().filter_map(|(name, id)| {
        let to = if let Some(id) = id.strip_prefix(CUT) {
            Bound::Frame(partition::dir(id).ok()?.join("partition.parquet"))
        } else if let Some(id) = id.strip_prefix(PLAN) {
            Bound::Frame(plan::path(id).ok()?)
        } else if let Some(id) = id.strip_prefix(SWEEP) {
            Bound::Frame(sweep::dir(id).ok()?.join("frame.parquet"))
        } else if let Some(id) = id.strip_prefix(FRAME) {
            Bound::Frame(sql::kept(id).ok()?)
        } else if id.starts_with(PARAM) {
            return None;
        } else {
            Bound::Run(store::run_dir(id).ok()?)
        };
        Some((name.clone(), to))
    });
    found.collect()
}

/// The Rust that binds a frame. Its type is written out, so that nothing has to be inferred.
fn binding(name: &str, id: &str) -> String {
    format!("let {name}: halobook::polars::prelude::DataFrame = halobook::kept({id:?});\n")
}
