//! Counter-based randomness: pure functions from keys and counters to bits.
//!
//! Nothing here has a state, so any element's randomness can be had in any order, on any rank and
//! on any device.

/// Mixes 64 bits so that every input bit moves every output bit (a bijection).
///
/// # Paper
/// The finaliser of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014, <https://doi.org/10.1145/2660193.2660195>.
#[inline]
pub const fn mix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Joins a key and one more word to a new key; the order of the words matters.
#[inline]
pub const fn join(key: u64, word: u64) -> u64 {
    mix64(key ^ mix64(word ^ 0x6a09_e667_f3bc_c909))
}

/// The key of row `v` under `key`; the elements of the row follow with [`element`].
#[inline]
pub const fn row(key: u64, v: u32) -> u64 {
    join(key, v as u64)
}

/// 32 random bits for column `c` of the row with key `row`: two 32-bit multiplications, so that
/// it vectorises on every processor.
#[inline(always)]
pub const fn element(row: u64, c: u32) -> u32 {
    let x = c.wrapping_mul(0x9e37_79b9).wrapping_add(row as u32);
    let x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d) ^ ((row >> 32) as u32);
    let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_balanced_and_rows_are_not_shifts_of_each_other() {
        let mut ones = [0u32; 32];
        let n = 4096u32;
        for c in 0..n {
            let h = element(row(7, c % 64), c / 64);
            for (b, count) in ones.iter_mut().enumerate() {
                *count += (h >> b) & 1;
            }
        }
        for count in ones {
            assert!((count as f64 - n as f64 / 2.0).abs() < 6.0 * (n as f64 / 4.0).sqrt());
        }
        let (a, b) = (row(7, 1), row(7, 2));
        let seen: std::collections::HashSet<u32> = (0..2000).map(|c| element(a, c)).collect();
        assert!((0..2000).filter(|&c| seen.contains(&element(b, c))).count() < 4);
    }

    #[test]
    fn join_depends_on_order() {
        assert_ne!(join(join(1, 2), 3), join(join(1, 3), 2));
        assert_ne!(join(0, 0), 0);
    }
}
