//! What a data set says about itself, as JSON in a section of its own.

use serde::{Deserialize, Serialize};

use crate::dataset::{About, TypeCount, Types};

/// The format that a stored data set says it was read from.
const FORMAT: &str = "a stored graph";

/// [`About`] as it is written.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Saved {
    vertex_types: Vec<(String, u64)>,
    relations: Vec<(String, u64)>,
    classes: Vec<String>,
    names: Option<Vec<String>>,
    notes: Vec<String>,
}

impl Saved {
    pub(super) fn of(about: &About) -> Saved {
        let list = |types: &[TypeCount]| {
            let pair = |t: &TypeCount| (t.name.clone(), t.count as u64);
            types.iter().map(pair).collect()
        };
        Saved {
            vertex_types: list(&about.types.vertices),
            relations: list(&about.types.relations),
            classes: about.classes.clone(),
            names: about
                .ids
                .as_ref()
                .map(|ids| ids.iter().map(str::to_owned).collect()),
            notes: about.notes.clone(),
        }
    }

    /// What was written, for `n` vertices; names of another number of vertices are dropped.
    pub(super) fn about(self, n: usize) -> About {
        let list = |types: Vec<(String, u64)>| {
            let types = types.into_iter();
            types
                .map(|(name, count)| TypeCount {
                    name,
                    count: count as usize,
                })
                .collect()
        };
        About {
            format: FORMAT,
            types: Types {
                vertices: list(self.vertex_types),
                relations: list(self.relations),
            },
            classes: self.classes,
            ids: self
                .names
                .filter(|names| names.len() == n)
                .map(|names| names.into_iter().collect()),
            notes: self.notes,
        }
    }
}
