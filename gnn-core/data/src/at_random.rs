//! Inputs with random changes, the same for a seed: for tests of whatever reads files and texts.

use crate::rng;

/// Numbers that look random, the same for a seed.
pub struct Dice {
    seed: u64,
    thrown: u64,
}

impl Dice {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Dice {
        Dice { seed, thrown: 0 }
    }

    /// One of `0..n`; 0 where there is none.
    pub fn below(&mut self, n: usize) -> usize {
        self.thrown += 1;
        rng::below(self.seed, self.thrown, n.max(1) as u64) as usize
    }

    /// Changes `bytes` in one to five places: flips, cuts, repeats, overwrites, and numbers in text.
    pub fn change(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(5) {
            let (a, b) = (self.below(bytes.len() + 1), self.below(bytes.len() + 1));
            let (from, to) = (a.min(b), a.max(b));
            // Most changes are small: large ones are found out by the first line of any reader.
            let near = to.min(from + self.below(17));
            match self.below(8) {
                0..=2 if from < bytes.len() => bytes[from] ^= 1 << self.below(8),
                3 => drop(bytes.drain(from..near)),
                4 => bytes.truncate(to),
                5 => {
                    let part = bytes[from..near].to_vec();
                    bytes.splice(to..to, part);
                }
                6 => {
                    let what = [0, 1, 0x7f, 0x80, 0xff][self.below(5)];
                    bytes[from..near].fill(what);
                }
                _ => self.change_number(bytes, from),
            }
        }
    }

    /// Puts another number in the place of the first one in text behind `from`.
    fn change_number(&mut self, bytes: &mut Vec<u8>, from: usize) {
        const NUMBERS: [&str; 12] = [
            "0",
            "-1",
            "1e308",
            "1e999",
            "-0.0",
            "4294967295",
            "4294967296",
            "9223372036854775808",
            "18446744073709551615",
            "null",
            "true",
            "\"\"",
        ];
        let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit) else {
            return;
        };
        let start = from + start;
        let len = bytes[start..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        let number = NUMBERS[self.below(NUMBERS.len())];
        bytes.splice(start..start + len, number.bytes());
    }
}

/// How many inputs a test tries: `few`, with `HALOBOOK_SOAK=1` `many`, and what `HALOBOOK_RANDOM_INPUTS` says.
pub fn inputs(few: u64, many: u64) -> u64 {
    let asked = std::env::var("HALOBOOK_RANDOM_INPUTS").ok();
    let soak = std::env::var("HALOBOOK_SOAK").is_ok_and(|soak| soak == "1");
    let otherwise = if soak { many } else { few };
    asked.and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}
