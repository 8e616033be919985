//! `%%sql`: Polars SQL over what is bound and over the run store, in this process.

use launcher::sql::{self, Bound};
use launcher::{forecast, partition, store, sweep};

use super::bound::Thing;
use super::{Session, lines, report};
use crate::front::{Outcome, Shown};
use crate::magic::SqlRequest;

/// Answers, binds where a name is given, and shows the frame.
pub fn query(request: &SqlRequest, session: &Session<'_>) -> Outcome {
    let refused = |error: launcher::Error| lines::refused(&error);
    let mut frame = sql::query(&request.text, &tables(session)).map_err(refused)?;
    let shown: Shown = report::frame(&frame);
    if let Some(name) = &request.output {
        let id = sql::keep(&mut frame).map_err(refused)?;
        session.bind_as(name, Thing::Frame(id))?;
    }
    Ok(Some(shown))
}

/// What the session's names stand for. A name whose file is gone is left out.
pub(super) fn tables(session: &Session<'_>) -> Vec<(String, Bound)> {
    let file = |thing: Thing| {
        Some(match thing {
            Thing::Cut(id) => Bound::Frame(partition::dir(&id).ok()?.join("partition.parquet")),
            Thing::Plan(id) => Bound::Frame(forecast::path(&id).ok()?),
            Thing::Sweep(_) | Thing::Runs(_) | Thing::Going(_) => {
                Bound::Frame(sweep::dir(thing.sweep()?).ok()?.join("frame.parquet"))
            }
            Thing::Frame(id) => Bound::Frame(sql::kept(&id).ok()?),
            Thing::Run(id) => Bound::Run(store::run_dir(&id).ok()?),
            Thing::Param { .. } => return None,
        })
    };
    let all = session.bound.all().into_iter();
    all.filter_map(|(name, thing)| Some((name, file(thing)?)))
        .collect()
}
