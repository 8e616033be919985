//! Exponentials and logarithms in operations that vectorise at every SIMD level.
//!
//! # Paper
//! Cody, Waite, "Software Manual for the Elementary Functions", 1980: reduction by a two-part
//! ln 2, here with the polynomials of Cephes' `expf` and `logf`.

/// Adding this leaves the rounded integer in the low bits of the sum.
const ROUND: f32 = 12_582_912.0;

/// `(2^n, e^r - 1)` with `x = n ln 2 + r` and `|r| <= ln 2 / 2`, for `-87.3 <= x <= 88.3` or NaN.
#[inline(always)]
fn reduced(x: f32) -> (f32, f32) {
    let t = x * std::f32::consts::LOG2_E + ROUND;
    let n = t - ROUND;
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_6e-1;
    let p = p * r + 0.5;
    let exponent = t.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    (f32::from_bits(exponent), p * r * r + r)
}

/// `e^x` for `x ≤ 88` to two units in the last place; NaN stays NaN and what would be subnormal
/// becomes the smallest normal number.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let (power, e) = reduced(if x < -87.3 { -87.3 } else { x });
    power * (e + 1.0)
}

/// `e^x - 1` for `x ≤ 0`, accurate relative to itself also near zero; NaN stays NaN.
#[inline(always)]
pub(crate) fn exp_m1(x: f32) -> f32 {
    let (power, e) = reduced(if x < -87.3 { -87.3 } else { x });
    power * e + (power - 1.0)
}

/// `ln x` for positive normal `x`, within 2.5e-7 of itself or, near one, of a half; something finite for zero,
/// and NaN stays NaN.
#[inline(always)]
pub(crate) fn ln(x: f32) -> f32 {
    // `x = m 2^n` with `m` within `[√½, √2)`.
    let bits = x.to_bits().wrapping_sub(0x3f35_04f3);
    let n = (bits as i32 >> 23) as f32;
    let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(0x3f35_04f3)) - 1.0;
    let p = 7.037_683_6e-2;
    let p = p * m - 1.151_461e-1;
    let p = p * m + 1.167_699_9e-1;
    let p = p * m - 1.242_014_1e-1;
    let p = p * m + 1.424_932_3e-1;
    let p = p * m - 1.666_805_7e-1;
    let p = p * m + 2.000_071_5e-1;
    let p = p * m - 2.499_999_4e-1;
    let p = p * m + 3.333_333e-1;
    let square = m * m;
    let y = p * m * square - n * 2.121_944_4e-4 - 0.5 * square;
    let y = m + y + n * 0.693_359_4;
    // Carries NaN on.
    y + 0.0 * x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ln_is_accurate_for_normal_numbers() {
        let mut x = f32::MIN_POSITIVE;
        while x < 1e38 {
            let want = f64::from(x).ln();
            let got = f64::from(ln(x));
            assert!(
                (got - want).abs() <= 2.5e-7 * want.abs().max(0.5),
                "ln({x}) = {got} instead of {want}"
            );
            x *= 1.000_37;
        }
        assert_eq!(ln(1.0), 0.0);
        assert!(ln(f32::NAN).is_nan() && ln(0.0).is_finite());
    }

    #[test]
    fn exp_is_accurate() {
        for k in -100_000..100_000 {
            let x = k as f32 * 8.7e-4;
            let want = f64::from(x).exp();
            assert!(
                (f64::from(exp(x)) - want).abs() <= 2.5e-7 * want,
                "exp({x})"
            );
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NEG_INFINITY) < 1.3e-38 && exp(f32::NAN).is_nan());
    }

    #[test]
    fn exp_m1_is_accurate_relative_to_itself() {
        for k in 1..100_000 {
            for x in [-(k as f32) * 8.7e-4, -(k as f32) * 1e-9] {
                let want = f64::from(x).exp_m1();
                assert!(
                    (f64::from(exp_m1(x)) - want).abs() <= 2.5e-7 * want.abs(),
                    "exp_m1({x}) = {} instead of {want}",
                    exp_m1(x)
                );
            }
        }
        assert_eq!(exp_m1(0.0), 0.0);
        assert!(exp_m1(f32::NEG_INFINITY) == -1.0 && exp_m1(f32::NAN).is_nan());
    }
}
