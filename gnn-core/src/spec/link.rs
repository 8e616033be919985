//! The modelled link between ranks that a request may ask for ([`crate::comm`] has the model).

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Rate and latency between any two ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Link {
    /// Bits a second through each port.
    pub(crate) bits_per_s: u64,
    /// Nanoseconds between the departure of a message's head and its arrival.
    pub(crate) latency_ns: u64,
}

const RATES: [(&str, f64); 5] = [
    ("kbit", 1e3),
    ("mbit", 1e6),
    ("gbit", 1e9),
    ("tbit", 1e12),
    ("bit", 1.0),
];
const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
/// A century, in nanoseconds: sums of a few stay far below the end of the clock.
const LONGEST: f64 = 3e18;

impl Link {
    /// Milliseconds that so many bytes take through one port, without latency.
    pub fn ms(&self, bytes: u64) -> f64 {
        8e3 * bytes as f64 / self.bits_per_s as f64
    }

    /// Reads `1gbit,50us`: bits a second in `bit`, `kbit`, `mbit`, `gbit` or `tbit` (powers of
    /// 1000), and a latency in `ns`, `us`, `ms` or `s`.
    ///
    /// # Errors
    /// [`Error::Spec`] that says which part is wrong.
    pub fn parse(text: &str) -> Result<Link> {
        let wrong = |reason: String| Error::Spec {
            key: "link".into(),
            reason,
            help: "write a rate and a latency, as in link = \"1gbit,50us\", or \"none\"".into(),
        };
        let (rate, latency) = text
            .split_once(',')
            .ok_or_else(|| wrong(format!("expected RATE,LATENCY, got {text}")))?;
        let rate = number(rate, &RATES)
            .filter(|bits| (1.0..=1e18).contains(bits))
            .ok_or_else(|| {
                wrong(format!(
                    "{rate} is no rate in bit, kbit, mbit, gbit or tbit"
                ))
            })?;
        let latency = number(latency, &TIMES)
            .filter(|ns| (0.0..=LONGEST).contains(ns))
            .ok_or_else(|| wrong(format!("{latency} is no latency in ns, us, ms or s")))?;
        Ok(Link {
            bits_per_s: rate.round() as u64,
            latency_ns: latency.round() as u64,
        })
    }

    /// Words that pass in some nanoseconds; one at least.
    pub(crate) fn words_in(self, ns: u64) -> usize {
        let words = u128::from(self.bits_per_s) * u128::from(ns) / (32 * 1_000_000_000);
        usize::try_from(words).unwrap_or(usize::MAX).max(1)
    }

    /// Nanoseconds for which a message occupies a port.
    pub(crate) fn occupies_ns(self, bytes: u64) -> u64 {
        let ns = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.bits_per_s);
        u64::try_from(ns).unwrap_or(u64::MAX).min(LONGEST as u64)
    }
}

/// A number with one of some units; the longer of two matching units is listed first.
fn number(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim().to_ascii_lowercase();
    let (digits, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let digits = digits.trim();
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value: f64 = digits.parse().ok().filter(|_| plain)?;
    Some(value * factor)
}

/// A whole number in the largest unit that leaves it whole.
fn written(value: u64, units: &[(&str, f64)]) -> String {
    let whole = |factor: f64| value.is_multiple_of(factor as u64);
    let largest = units
        .iter()
        .filter(|(_, factor)| whole(*factor) && (value > 0 || *factor == 1.0))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let (unit, factor) = largest.expect("every unit list has a unit of 1");
    format!("{}{unit}", value / *factor as u64)
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rate, latency) = (
            written(self.bits_per_s, &RATES),
            written(self.latency_ns, &TIMES),
        );
        write!(f, "{rate},{latency}")
    }
}

impl TryFrom<String> for Link {
    type Error = Error;

    fn try_from(text: String) -> Result<Link> {
        Link::parse(&text)
    }
}

impl From<Link> for String {
    fn from(link: Link) -> String {
        link.to_string()
    }
}
