//! Clipping of gradients by their L2 norm.

use crate::backend::Mat;
use crate::ctx::Ctx;

/// A rank's gradients `g: [n_i, d]`, scaled to the norm `threshold · √N` on `N` ranks; none where they are
/// no longer than that, or the threshold is 0.
///
/// # Paper
/// § 4.3.2, `th_i = P^½ · th`: norms of independent gradients add up like that.
pub(super) fn clipped(cx: &Ctx, g: &Mat, threshold: f64) -> Option<Mat> {
    let most = threshold * (cx.size() as f64).sqrt();
    if most == 0.0 {
        return None;
    }
    let length = cx.norm(g);
    (length > most).then(|| {
        let mut scaled = cx.backend.copy(g);
        cx.backend
            .axpby((most / length) as f32, g, 0.0, &mut scaled);
        scaled
    })
}

#[cfg(test)]
mod tests {
    use super::clipped;
    use crate::spec::RunSpec;
    use crate::testing::world;

    /// A block of norm 6, with the threshold 2: what is left of it is 2 on one rank, 4 on four, and all of it
    /// on nine. Without the root of the number of ranks it were 2 on all.
    #[test]
    fn the_norm_that_is_left_grows_with_the_root_of_the_number_of_ranks() {
        for (ranks, left) in [(1, Some(2.0)), (4, Some(4.0)), (9, None)] {
            let norms = world(&RunSpec::default(), ranks, |cx, _| {
                let g = cx.backend.upload(kernels::Mat::from_elem((9, 4), 1.0));
                assert_eq!(cx.norm(&g), 6.0);
                assert!(clipped(cx, &g, 0.0).is_none(), "0 is never");
                clipped(cx, &g, 2.0).map(|scaled| cx.norm(&scaled))
            });
            for norm in norms {
                let close = norm
                    .zip(left)
                    .map(|(a, b): (f64, f64)| (a - b).abs() < 1e-6);
                assert_eq!(close, left.map(|_| true), "{ranks} ranks: {norm:?}");
            }
        }
    }
}
