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
        _ => Vec::new(),
    }
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
