//! Whether a checkpoint is of the same training.

use crate::dataset::Dataset;
use crate::spec::{Role, RunSpec, find_key};
use crate::store::checksum;

/// Whether that key may have another value when a run goes on.
pub fn may_change(name: &str) -> bool {
    find_key(name).is_some_and(|key| key.role == Role::Course)
}

/// A number that is the same for requests which train alike on data of the same sizes. Keys at their
/// defaults are not in it, so that a key which is new does not make old checkpoints worthless.
pub fn digest(spec: &RunSpec, data: &Dataset) -> u64 {
    let plain = RunSpec::default();
    let counts = |of: &[bool]| of.iter().filter(|&&m| m).count();
    let mut text = format!(
        "{} vertices, {} edges, {} features, {} classes, {} of them trained on, {} links\n",
        data.n(),
        data.graph.n_edges(),
        data.features.dim(),
        data.n_classes,
        counts(&data.train),
        data.links.as_ref().map_or(0, |l| l.train.len()),
    );
    for (name, value) in spec.to_pairs() {
        let default = find_key(&name).is_some_and(|key| (key.get)(&plain) == value);
        if !default && !may_change(&name) {
            text.push_str(&format!("{name} = {value}\n"));
        }
    }
    checksum::of(text.as_bytes())
}
