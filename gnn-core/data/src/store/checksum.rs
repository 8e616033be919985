//! A fast checksum against damage, not against forgers.
//!
//! Four lanes of the 64-bit rounds of xxHash. For given surroundings every round is a bijection of
//! the word it takes, so damage within one word, and so a single flipped bit, is always found.

use kernels::hash::{join, mix64};

/// Bytes of a block: blocks are summed up on their own, and their sums once more.
pub const BLOCK: usize = 1 << 20;

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// The checksum of at most a block.
pub fn block(bytes: &[u8]) -> u64 {
    let mut lanes = [P1, P2, !P1, !P2];
    let (stripes, rest) = bytes.as_chunks::<32>();
    let round = |lane: u64, word: u64| {
        let lane = lane.wrapping_add(word.wrapping_mul(P2));
        lane.rotate_left(31).wrapping_mul(P1)
    };
    for stripe in stripes {
        let (words, _) = stripe.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = round(*lane, u64::from_le_bytes(*word));
        }
    }
    let mut sum = bytes.len() as u64;
    for lane in lanes {
        sum = join(sum, lane);
    }
    for piece in rest.chunks(8) {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        sum = join(sum, u64::from_le_bytes(word));
    }
    mix64(sum)
}

/// The checksum of blocks that follow one another.
#[derive(Default)]
pub struct Chain(u64);

impl Chain {
    /// Adds the checksum of the next block.
    pub fn add(&mut self, block: u64) {
        self.0 = join(self.0, block);
    }

    /// The checksum of all that were added.
    pub fn value(&self) -> u64 {
        self.0
    }
}

/// The checksum of bytes of any length.
pub fn of(bytes: &[u8]) -> u64 {
    chain(bytes.chunks(BLOCK).map(block).collect())
}

/// The checksum of a section from those of its blocks.
pub fn chain(blocks: Vec<u64>) -> u64 {
    let mut chain = Chain::default();
    blocks.into_iter().for_each(|sum| chain.add(sum));
    chain.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_length_changes_it() {
        let bytes: Vec<u8> = (0..77u8).collect();
        let sum = block(&bytes);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                assert_ne!(block(&other), sum, "byte {at}, bit {bit}");
            }
            assert_ne!(block(&bytes[..at]), sum, "{at} bytes");
        }
    }
}
