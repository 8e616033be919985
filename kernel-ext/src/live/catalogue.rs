//! Names to complete, read when asked for: the registry and the run store's folder names.

use crate::live::bound::{Bound, Thing};
use crate::magic::table::Value;

/// How many runs are proposed.
const LATEST: usize = 20;

/// What can stand where a `value` is asked for.
pub fn names(value: Value, bound: &Bound) -> Vec<String> {
    match value {
        Value::Strategy => {
            let own = gnn_core::strategy::STRATEGIES.iter();
            let own = own.map(|entry| entry.name.to_owned());
            own.chain(launcher::strategies::all().into_iter().map(|s| s.name))
                .collect()
        }
        Value::Run => runs(bound),
        Value::Table => tables(bound),
        _ => Vec::new(),
    }
}

/// Tables of all runs, those of each bound run, and bound frames.
fn tables(bound: &Bound) -> Vec<String> {
    let mut names = launcher::frames::names();
    for (name, thing) in bound.all() {
        match thing {
            Thing::Run(id) => {
                let dir = launcher::store::run_dir(&id).ok();
                let frames = dir.and_then(|dir| launcher::frames::names_of(&dir).ok());
                let of_run = frames.unwrap_or_default();
                names.extend(of_run.into_iter().map(|frame| format!("{name}_{frame}")));
            }
            Thing::Param { .. } => {}
            _ => names.push(name),
        }
    }
    names
}

fn runs(bound: &Bound) -> Vec<String> {
    let drawn = |thing: &Thing| matches!(thing, Thing::Run(_) | Thing::Runs(_) | Thing::Cut(_));
    let all = bound.all().into_iter().filter(|(_, thing)| drawn(thing));
    let mut names: Vec<String> = all.map(|(name, _)| name).collect();
    names.push("latest".to_owned());
    let mut ids: Vec<String> = std::fs::read_dir(launcher::store::runs_dir())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    // Ids begin with their time.
    ids.sort_by(|a, b| b.cmp(a));
    ids.truncate(LATEST);
    names.extend(ids);
    names
}
