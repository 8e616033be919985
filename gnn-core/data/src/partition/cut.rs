//! A request carried out: foreseen, refused where it cannot fit, taken from the cache or made, and
//! measured.

use std::time::Instant;

use crate::Result;
use crate::clock::peak_during;
use crate::partition::cache::KeptCut;
use crate::partition::{Cache, Need, Nested, Request, balance, digest};

/// A cut, and what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// Part of each vertex: `[n]`.
    pub owner: Vec<u32>,
    /// Where parts are cut again, the part of each vertex within its own: `[n]`.
    pub nested: Option<Vec<u32>>,
    /// Into how many each part is cut again, 1 where it is not.
    pub each: usize,
    /// The method that cut, with knobs that are not default: limits may have chosen them.
    pub method: String,
    /// Milliseconds that the method took, now or when the cut was first made.
    pub ms: f64,
    /// Memory that the method took beside the data set, now or when the cut was first made.
    pub peak_bytes: u64,
    /// What was foreseen, now or when the cut was first made.
    pub need: Need,
    /// Whether the cut was there already.
    pub cached: bool,
    /// Balances that were wished for and are missed, a sentence each.
    pub missed: Vec<String>,
    /// Why the cache could not be used, where it could not.
    pub cache_failed: Option<String>,
}

/// The two levels of a cut.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Labels {
    /// Part of each vertex: `[n]`.
    pub(super) owner: Vec<u32>,
    /// Its part within that one, where parts are cut again: `[n]`.
    pub(super) nested: Option<Vec<u32>>,
}

impl Labels {
    /// One level.
    pub(super) fn flat(owner: Vec<u32>) -> Labels {
        let nested = None;
        Labels { owner, nested }
    }

    /// Both levels in one number, as the cache keeps them.
    fn joined(self, each: usize) -> Vec<u32> {
        match self.nested {
            None => self.owner,
            Some(nested) => {
                let pairs = self.owner.into_iter().zip(nested);
                pairs
                    .map(|(part, place)| part * each as u32 + place)
                    .collect()
            }
        }
    }

    /// Of such numbers.
    fn parted(labels: Vec<u32>, nested: Nested) -> Labels {
        if nested == Nested::No {
            return Labels::flat(labels);
        }
        let each = nested.count() as u32;
        Labels {
            nested: Some(labels.iter().map(|l| l % each).collect()),
            owner: labels.into_iter().map(|l| l / each).collect(),
        }
    }
}

impl Request<'_> {
    /// Makes the cut or takes it from `cache`.
    ///
    /// # Errors
    /// As [`Request::assign`]; [`crate::Error::Unsupported`] with numbers when the method needs
    /// more than the request's limits. What is in the cache is given whatever the limits.
    pub fn cut(&self, cache: Option<&Cache>) -> Result<Cut> {
        self.check()?;
        let request = self.settled();
        let n = request.graph.n();
        let done = |kept: KeptCut, cached: bool, cache_failed: Option<String>| {
            let Labels { owner, nested } = Labels::parted(kept.labels, request.nested);
            Cut {
                // A cut that could be made has weights that can be counted.
                missed: balance::missed(&request, &owner).unwrap_or_default(),
                owner,
                nested,
                each: request.nested.count(),
                method: request.method.label(),
                ms: kept.ms,
                peak_bytes: kept.peak_bytes,
                need: kept.need,
                cached,
                cache_failed,
            }
        };
        let Some(cache) = cache else {
            return Ok(done(request.made()?, false, None));
        };
        let key = digest::of_request(&request);
        if let Some(kept) = cache.get(key, n, request.total()) {
            return Ok(done(kept, true, None));
        }
        let lock = cache.lock(key);
        // Who held the lock has made it, most likely.
        if let Some(kept) = cache.get(key, n, request.total()) {
            return Ok(done(kept, true, None));
        }
        let kept = request.made()?;
        let stored = lock.and_then(|_held| cache.put(key, request.total(), &kept));
        let failed = stored
            .err()
            .map(|e| format!("{}: {e}", cache.folder().display()));
        Ok(done(kept, false, failed))
    }

    /// Makes the cut, measured, unless it cannot fit.
    fn made(&self) -> Result<KeptCut> {
        let need = self.foreseen_nested();
        self.refuse(need)?;
        let began = Instant::now();
        let (labels, peak_bytes) = peak_during(|| self.assign_nested());
        Ok(KeptCut {
            labels: labels?.joined(self.nested.count()),
            need,
            ms: began.elapsed().as_secs_f64() * 1e3,
            peak_bytes,
        })
    }
}
