//! A request carried out: foreseen, refused where it cannot fit, taken from the cache or made, and
//! measured.

use std::time::Instant;

use crate::Result;
use crate::clock::peak_during;
use crate::partition::cache::Kept;
use crate::partition::{Cache, Need, Request, balance, digest};

/// A cut, and what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// Part of each vertex: `[n]`.
    pub owner: Vec<u32>,
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
        let done = |kept: Kept, cached: bool, cache_failed: Option<String>| Cut {
            // A cut that could be made has weights that can be counted.
            missed: balance::missed(&request, &kept.owner).unwrap_or_default(),
            owner: kept.owner,
            method: request.method.label(),
            ms: kept.ms,
            peak_bytes: kept.peak_bytes,
            need: kept.need,
            cached,
            cache_failed,
        };
        let Some(cache) = cache else {
            return Ok(done(request.made()?, false, None));
        };
        let key = digest::of_request(&request);
        if let Some(kept) = cache.get(key, n, request.parts) {
            return Ok(done(kept, true, None));
        }
        let lock = cache.lock(key);
        // Who held the lock has made it, most likely.
        if let Some(kept) = cache.get(key, n, request.parts) {
            return Ok(done(kept, true, None));
        }
        let kept = request.made()?;
        let stored = lock.and_then(|_held| cache.put(key, request.parts, &kept));
        let failed = stored
            .err()
            .map(|e| format!("{}: {e}", cache.folder().display()));
        Ok(done(kept, false, failed))
    }

    /// Makes the cut, measured, unless it cannot fit.
    fn made(&self) -> Result<Kept> {
        let need = self.foreseen();
        self.refuse(need)?;
        let began = Instant::now();
        let (owner, peak_bytes) = peak_during(|| self.assign());
        Ok(Kept {
            owner: owner?,
            need,
            ms: began.elapsed().as_secs_f64() * 1e3,
            peak_bytes,
        })
    }
}
