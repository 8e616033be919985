//! Repeat, and keep the quartiles.

use std::time::Instant;

/// Shortest sample: a call that takes less is repeated within one sample.
const SAMPLE_MS: f64 = 0.5;

/// How often something is timed.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Calls before the first sample.
    pub warmup: usize,
    /// Samples, at least one.
    pub samples: usize,
    /// Stops early (after three samples) when all together took so long, in seconds.
    pub seconds: f64,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock {
            warmup: 2,
            samples: 15,
            seconds: 3.0,
        }
    }
}

/// Quartiles of some samples, in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The smallest.
    pub best: f64,
    /// A quarter of the samples are below.
    pub low: f64,
    /// The middle.
    pub median: f64,
    /// A quarter of the samples are above.
    pub high: f64,
    /// How many there were.
    pub samples: usize,
}

impl Spread {
    /// The quartiles of `values`, interpolated; `None` when there are none.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (sorted[place as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Some(Spread {
            best: sorted[0],
            low: at(0.25),
            median: at(0.5),
            high: at(0.75),
            samples: sorted.len(),
        })
    }
}

impl Clock {
    /// Quartiles of the milliseconds of one call of `f`.
    pub fn time(&self, f: impl FnMut()) -> Spread {
        Spread::of(&self.samples(f)).expect("at least one sample")
    }

    /// Milliseconds of one call of `f`, by sample.
    pub fn samples(&self, mut f: impl FnMut()) -> Vec<f64> {
        for _ in 0..self.warmup {
            f();
        }
        let begun = Instant::now();
        let once = sample(1, &mut f);
        let calls = (SAMPLE_MS / once.max(1e-6)).ceil().clamp(1.0, 1e5) as usize;
        // A single call was as cold as its first samples are, so it is one only if nothing else is.
        let mut ms = if calls == 1 { vec![once] } else { Vec::new() };
        while ms.len() < self.samples.max(1)
            && (ms.len() < 3 || begun.elapsed().as_secs_f64() < self.seconds)
        {
            ms.push(sample(calls, &mut f));
        }
        ms
    }
}

fn sample(calls: usize, f: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        f();
    }
    start.elapsed().as_secs_f64() * 1e3 / calls as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_known_values() {
        let got = Spread::of(&[4.0, 1.0, 3.0, 2.0, 5.0]).expect("five values");
        let want = Spread {
            best: 1.0,
            low: 2.0,
            median: 3.0,
            high: 4.0,
            samples: 5,
        };
        assert_eq!(got, want);
        let two = Spread::of(&[1.0, 2.0]).expect("two values");
        assert_eq!((two.low, two.median, two.high), (1.25, 1.5, 1.75));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn every_sample_and_warm_up_calls() {
        let mut calls = 0;
        let clock = Clock {
            warmup: 2,
            samples: 4,
            seconds: 10.0,
        };
        let spread = clock.time(|| {
            calls += 1;
            std::thread::sleep(std::time::Duration::from_millis(1));
        });
        assert_eq!((calls, spread.samples), (6, 4));
        assert!(spread.best >= 1.0 && spread.best <= spread.median);
    }
}
