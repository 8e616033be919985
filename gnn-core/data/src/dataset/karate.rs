//! Zachary's karate club.
//!
//! # Paper
//! Zachary, "An Information Flow Model for Conflict and Fission in Small Groups", Journal of
//! Anthropological Research 33(4), 1977, <https://doi.org/10.1086/jar.33.4.3629752>. The four
//! classes are the modularity clusters that are commonly learned (Brandes et al., "On Modularity
//! Clustering", 2008, <https://doi.org/10.1109/TKDE.2007.190689>).

use crate::Result;
use crate::dataset::{About, Dataset, Features, Task};
use crate::graph::{EdgeOptions, Graph};

/// Friends of each member with a larger id.
const FRIENDS: [&[u32]; 34] = [
    &[1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31],
    &[2, 3, 7, 13, 17, 19, 21, 30],
    &[3, 7, 8, 9, 13, 27, 28, 32],
    &[7, 12, 13],
    &[6, 10],
    &[6, 10, 16],
    &[16],
    &[],
    &[30, 32, 33],
    &[33],
    &[],
    &[],
    &[],
    &[33],
    &[32, 33],
    &[32, 33],
    &[],
    &[],
    &[32, 33],
    &[33],
    &[32, 33],
    &[],
    &[32, 33],
    &[25, 27, 29, 32, 33],
    &[25, 27, 31],
    &[31],
    &[29, 33],
    &[33],
    &[31, 33],
    &[32, 33],
    &[32, 33],
    &[32, 33],
    &[33],
    &[],
];

/// Class of each member.
const CLASSES: [i32; 34] = [
    1, 1, 1, 1, 3, 3, 3, 1, 0, 1, 3, 1, 1, 1, 0, 0, 3, 1, 0, 1, 0, 1, 0, 0, 2, 2, 0, 0, 2, 0, 0, 2,
    0, 0,
];

/// The club with one-hot features. Of each class the first two members are trained on; of the
/// others every third validates and the rest test. The seed changes nothing.
pub(super) fn load(name: &str, _spec: &str, _seed: u64) -> Result<Dataset> {
    let pairs = FRIENDS
        .iter()
        .enumerate()
        .flat_map(|(v, f)| f.iter().map(move |&u| (v as u32, u)));
    let (src, dst): (Vec<u32>, Vec<u32>) = pairs.unzip();
    let mut seen = [0usize; 4];
    let role: Vec<usize> = CLASSES
        .iter()
        .map(|&c| {
            let k = seen[c as usize];
            seen[c as usize] += 1;
            if k < 2 {
                0
            } else if k % 3 == 2 {
                1
            } else {
                2
            }
        })
        .collect();
    let mask = |want: usize| role.iter().map(|&r| r == want).collect();
    Ok(Dataset {
        name: name.into(),
        graph: Graph::from_edges(34, &src, &dst, EdgeOptions::SIMPLE)?,
        features: Features::Identity(34),
        labels: CLASSES.to_vec(),
        n_classes: 4,
        train: mask(0),
        val: mask(1),
        test: mask(2),
        synthetic: false,
        task: Task::NodeClassification,
        multi_labels: None,
        node_types: None,
        links: None,
        about: About::default(),
    })
}
