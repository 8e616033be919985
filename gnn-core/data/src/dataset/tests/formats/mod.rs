//! Published formats: real files against the numbers and arrays they are known to hold, miniature
//! files made here where there are no real ones, hostile ones against the promise that nothing
//! panics and every message names file and place.

use super::*;

mod hostile;
mod made;
mod py;
mod real;
mod refused;
mod small;

/// How many are set.
fn count(mask: &[bool]) -> usize {
    mask.iter().filter(|&&x| x).count()
}

/// Sizes of the three parts.
fn parts(d: &Dataset) -> [usize; 3] {
    [&d.train, &d.val, &d.test].map(|m| count(m))
}

/// Features by row as pairs of column and value, without zeros, whatever they are stored as.
fn rows(features: &Features) -> Vec<Vec<(u32, f32)>> {
    let mut rows: Vec<Vec<(u32, f32)>> = match features {
        Features::Dense(x) => {
            let row = |r: ndarray::ArrayView1<f32>| {
                let values = r.iter().enumerate();
                values.map(|(c, &v)| (c as u32, v)).collect()
            };
            x.rows().into_iter().map(row).collect()
        }
        Features::Mapped { .. } | Features::Identity(_) => {
            return rows(&features.clone().into_memory());
        }
        Features::Sparse(x) => {
            let value = |e: usize| x.weights.as_ref().map_or(1.0, |w| w[e]);
            let row = |v: usize| x.view().span(v).map(|e| (x.indices[e], value(e))).collect();
            (0..x.rows()).map(row).collect()
        }
    };
    for row in &mut rows {
        row.retain(|&(_, v)| v != 0.0);
        row.sort_unstable_by_key(|&(c, _)| c);
    }
    rows
}
