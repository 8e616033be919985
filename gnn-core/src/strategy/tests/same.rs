//! When two trainings are the same: how far numbers may be apart, and at what scale.

use super::{EPOCHS, Trained};
use crate::model::ModelKind;

/// How far a training may be from the reference, relative to the largest element.
fn tolerance(model: ModelKind) -> f64 {
    match model {
        // LayerNorm of a row of nearly equal elements multiplies rounding by up to 1/√ε = 316, and the
        // next layer's does so again: 1.3e-4 was seen.
        ModelKind::Resgcn => 5e-4,
        _ => 1e-5,
    }
}

pub(super) fn close(a: f64, b: f64, scale: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * scale.max(a.abs()).max(b.abs())
}

pub(super) fn largest<'a>(xs: impl IntoIterator<Item = &'a f32>) -> f64 {
    xs.into_iter()
        .fold(0.0f64, |m, x| m.max(f64::from(x.abs())))
}

/// How large the terms of a tensor's gradient are where they cancel, relative to the largest gradient; 0
/// where a gradient is compared at its own scale, of whatever size.
fn cancels(tensor: &str, elements: usize) -> f64 {
    match tensor {
        // Softmax does not change when all scores of a vertex do, so that what an attention vector gets
        // through its edges adds up to nothing where they have one slope: the sum is rounding, 1e-10 where
        // its terms were 1e-1.
        "att_src" | "att_dst" => 0.1,
        // Sums of what has either sign: GIN's ε over all vertices and columns (7e-5 was seen with an error of
        // 3e-9), a bias of a hidden layer of one column (5e-3 with 6e-8).
        "eps" | "bias" => 0.1,
        // The only weight between layers of one column is such a sum, too, and has no larger one beside it (6e-5 with
        // 1e-9).
        _ if elements == 1 => 0.1,
        _ => 0.0,
    }
}

/// Asserts that a training equals the reference.
pub(in crate::strategy) fn assert_same(
    what: &str,
    model: ModelKind,
    reference: &Trained,
    ranks: &[Trained],
) {
    let tolerance = tolerance(model);
    for epoch in 0..EPOCHS as usize {
        let loss: f64 = ranks.iter().map(|r| r.losses[epoch]).sum();
        let expected = reference.losses[epoch];
        assert!(
            close(loss, expected, 1e-3, tolerance),
            "{what}: epoch {epoch}: loss {expected}, got {loss}"
        );
    }
    for (t, expected) in reference.gradients.iter().enumerate() {
        let has = |rank: &Trained| {
            rank.gradients
                .get(t)
                .is_some_and(|g| g.len() == expected.len())
        };
        assert!(ranks.iter().any(has), "{what}: nobody has gradient {t}");
    }
    let all = largest(reference.gradients.iter().flatten());
    for rank in ranks {
        for (t, (g, expected)) in rank.gradients.iter().zip(&reference.gradients).enumerate() {
            let name = reference.tensors.get(t).copied().unwrap_or("head");
            let scale = largest(expected).max(cancels(name, expected.len()) * all);
            for (a, b) in g.iter().zip(expected) {
                assert!(
                    close(f64::from(*a), f64::from(*b), scale, tolerance),
                    "{what}: gradient {t}, {name} up to {}: {b}, got {a}",
                    largest(expected)
                );
            }
        }
        let scale = largest(&reference.logits);
        let place = |v: u32| reference.ids.iter().position(|&u| u == v);
        for (row, &v) in rank.ids.iter().enumerate() {
            for (a, b) in rank.logits.row(row).iter().zip(
                reference
                    .logits
                    .row(place(v).expect("the reference has all")),
            ) {
                assert!(
                    close(f64::from(*a), f64::from(*b), scale, tolerance),
                    "{what}: logits of {v}: {b}, got {a}"
                );
            }
        }
    }
    let mut owned: Vec<u32> = ranks.iter().flat_map(|r| r.ids.iter().copied()).collect();
    owned.sort_unstable();
    let all: Vec<u32> = (0..reference.ids.len() as u32).collect();
    assert_eq!(owned, all, "{what}: every vertex has one owner");
}
