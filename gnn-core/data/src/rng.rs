//! Randomness as a pure function of (seed, epoch, purpose, layer, counter).
//!
//! Nothing is drawn from a stream: rank, thread and order can never change a number. A counter is
//! usually a vertex or an edge.

use kernels::hash::{join, mix64};

/// What random numbers are for; each purpose has its own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Initial weights.
    Weights = 1,
    /// Dropout masks.
    Dropout = 2,
    /// Orders.
    Shuffle = 3,
    /// Training, validation and test masks.
    Split = 4,
    /// Edges of generated graphs.
    Graph = 5,
    /// Features of generated graphs.
    Features = 6,
    /// Labels of generated graphs.
    Labels = 7,
    /// Partitioners.
    Partition = 8,
    /// Negative examples.
    Negative = 10,
    /// Dropout of attention coefficients.
    Attention = 11,
    /// Neighbours of mini-batches.
    Sample = 12,
    /// Learnt rows of vertices before the first step.
    Embedding = 13,
    /// Walks that say what a vertex is near to.
    Walk = 14,
    /// Rows that are pushed to other ranks.
    Push = 15,
}

/// The key of everything drawn for this seed, epoch, purpose and layer.
#[inline]
pub const fn key(seed: u64, epoch: u64, purpose: Purpose, layer: u64) -> u64 {
    join(join(join(mix64(seed), purpose as u64), epoch), layer)
}

/// 64 random bits for `counter` under `key`.
#[inline]
pub const fn at(key: u64, counter: u64) -> u64 {
    mix64(key.wrapping_add(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// Uniform in `[0, 1)` with 24 bits.
#[inline]
pub fn uniform_f32(key: u64, counter: u64) -> f32 {
    (at(key, counter) >> 40) as f32 / (1u64 << 24) as f32
}

/// Uniform in `[0, 1)` with 53 bits.
#[inline]
pub fn uniform_f64(key: u64, counter: u64) -> f64 {
    (at(key, counter) >> 11) as f64 / (1u64 << 53) as f64
}

/// Uniform in `0..n`; `n` must not be 0. The bias is below `n / 2⁶⁴`.
#[inline]
pub const fn below(key: u64, counter: u64, n: u64) -> u64 {
    ((at(key, counter) as u128 * n as u128) >> 64) as u64
}

/// Standard normal (Box-Muller, from the two halves of the bits).
#[inline]
pub fn normal(key: u64, counter: u64) -> f32 {
    normal_pair(at(key, counter)).0
}

/// Two independent standard normals from 64 random bits.
#[inline]
pub fn normal_pair(bits: u64) -> (f32, f32) {
    // In (0, 1], so that the logarithm is finite.
    let u = ((bits >> 40) as f32 + 1.0) / (1u64 << 24) as f32;
    let angle = std::f32::consts::TAU * ((bits & 0xff_ffff) as f32 / (1u64 << 24) as f32);
    let radius = (-2.0 * u.ln()).sqrt();
    (radius * angle.cos(), radius * angle.sin())
}

/// Shuffles `items` (Fisher-Yates).
pub fn shuffle<T>(key: u64, items: &mut [T]) {
    for k in (1..items.len()).rev() {
        items.swap(k, below(key, k as u64, k as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_in_every_part() {
        let base = key(1, 2, Purpose::Dropout, 3);
        assert_ne!(base, key(2, 2, Purpose::Dropout, 3));
        assert_ne!(base, key(1, 3, Purpose::Dropout, 2));
        assert_ne!(base, key(1, 2, Purpose::Weights, 3));
        assert_eq!(base, key(1, 2, Purpose::Dropout, 3));
    }

    #[test]
    fn normals_have_mean_zero_and_variance_one() {
        let k = key(0, 0, Purpose::Features, 0);
        let draws: Vec<f64> = (0..20_000).map(|c| f64::from(normal(k, c))).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| x * x).sum::<f64>() / draws.len() as f64;
        assert!(
            mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05,
            "{mean} {variance}"
        );
    }

    #[test]
    fn uniform_and_below_stay_in_range_and_shuffle_permutes() {
        let k = key(7, 0, Purpose::Shuffle, 0);
        for c in 0..1000 {
            assert!(
                (0.0..1.0).contains(&uniform_f32(k, c)) && (0.0..1.0).contains(&uniform_f64(k, c))
            );
            assert!(below(k, c, 7) < 7);
        }
        let mut items: Vec<u32> = (0..100).collect();
        shuffle(k, &mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
