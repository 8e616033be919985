//! The dot product of two matrices.

use crate::{Mat, Par, expect_eq, flat};

/// Elements of one block; blocks are summed in order.
const BLOCK: usize = 8192;
/// Sums that run beside each other within a block.
const LANES: usize = 16;

/// Scalar reference in `f64`.
pub fn naive(a: &Mat, b: &Mat) -> f64 {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.sum()
}

fn block(a: &[f32], b: &[f32]) -> f64 {
    let mut lanes = [0f64; LANES];
    let (a_lanes, b_lanes) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a_lanes.remainder().iter().zip(b_lanes.remainder());
    let tail: f64 = rest.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    for (a, b) in a_lanes.zip(b_lanes) {
        for l in 0..LANES {
            lanes[l] += f64::from(a[l]) * f64::from(b[l]);
        }
    }
    lanes.iter().sum::<f64>() + tail
}

/// `Σ a · b` over all elements of two matrices `[n, d]`, summed in `f64` in an order that depends on
/// their shape alone.
///
/// # Panics
/// When the shapes disagree.
pub fn dot(par: &Par, a: &Mat, b: &Mat) -> f64 {
    expect_eq("dot", "b with rows", a.nrows(), b.nrows());
    expect_eq("dot", "b with columns", a.ncols(), b.ncols());
    let jobs: Vec<_> = flat("dot", a)
        .chunks(BLOCK)
        .zip(flat("dot", b).chunks(BLOCK))
        .collect();
    par.map(jobs, |(a, b)| block(a, b)).into_iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::tests::matrix;

    #[test]
    fn equals_the_reference_with_the_same_bits_for_any_number_of_threads() {
        for (n, d) in [(0, 3), (1, 1), (7, 5), (300, 33), (1000, 64)] {
            let (a, b) = (matrix(n, d, 1), matrix(n, d, 2));
            let one = dot(&Par::new(1), &a, &b);
            assert!((one - naive(&a, &b)).abs() <= 1e-9, "{n} {d}");
            for threads in [2, 3, 8] {
                assert_eq!(one.to_bits(), dot(&Par::new(threads), &a, &b).to_bits());
            }
        }
    }
}
