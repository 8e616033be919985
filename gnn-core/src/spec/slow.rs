//! A rank that is slowed down on purpose, to show what one slow rank does to all others.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// The largest factor.
const MOST: f64 = 1000.0;

/// Which rank, and how many times as long its compute takes.
///
/// The rank really waits after each of its computations, away from its core; results have the same bits.
/// What is packed, sent or waited for is not slowed down, and neither are background threads that draw
/// mini-batches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slow {
    /// The rank.
    pub rank: u32,
    /// At least 1.
    pub factor: f64,
}

impl Slow {
    /// Reads `2:3x`: rank 2 takes three times as long.
    ///
    /// # Errors
    /// [`Error::Spec`] for anything else, and for a factor below 1 or above 1000.
    pub fn parse(text: &str) -> Result<Slow> {
        let wrong = || Error::Spec {
            key: "slow".into(),
            reason: format!("expected a rank and a factor from 1 to {MOST}, got {text}"),
            help: "write slow = \"2:3x\" for rank 2 at a third of its speed, or none".into(),
        };
        let (rank, factor) = text.trim().split_once(':').ok_or_else(wrong)?;
        let factor = factor.trim().trim_end_matches(['x', 'X']);
        let plain = factor.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let factor = factor.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
        if !(1.0..=MOST).contains(&factor) {
            return Err(wrong());
        }
        Ok(Slow {
            rank: rank.trim().parse().map_err(|_| wrong())?,
            factor,
        })
    }
}

impl std::fmt::Display for Slow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}x", self.rank, self.factor)
    }
}

impl TryFrom<String> for Slow {
    type Error = Error;

    fn try_from(text: String) -> Result<Slow> {
        Slow::parse(&text)
    }
}

impl From<Slow> for String {
    fn from(slow: Slow) -> String {
        slow.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_and_a_factor_survive_a_round_trip() {
        for (text, rank, factor) in [("2:3x", 2, 3.0), (" 0 : 1.5X", 0, 1.5), ("1:4", 1, 4.0)] {
            let slow = Slow::parse(text).expect(text);
            assert_eq!((slow.rank, slow.factor), (rank, factor));
            assert_eq!(Slow::parse(&slow.to_string()).expect("its own words"), slow);
        }
        for wrong in [
            "3x", "2:", "2:x", "2:0.5x", "-1:2x", "2:1e9", "2:infx", "2:1001x", "a:2x",
        ] {
            assert!(Slow::parse(wrong).is_err(), "{wrong}");
        }
    }
}
