//! Fetching memory while a product computes.
//!
//! A product alternates between reading rows that lie far away and reusing them. The processor's
//! own prefetchers stop at each page and know nothing of rows that will be written, so the tiles
//! ask for the next rows themselves, a line or two every few inner indices: more at once would
//! occupy all buffers for lines under way and stall the tile.
//!
//! Unsafe: the prefetch instruction takes a pointer; it never faults.
#![allow(unsafe_code)]

use std::ops::Range;

/// Inner indices between two requests.
pub(crate) const EVERY: usize = 4;

/// Floats of a cache line.
const LINE: usize = 16;

/// Regions at most.
const REGIONS: usize = 4;

/// Memory that the next calls will touch.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    /// Next line, end, and whether it will be written.
    regions: [(*const f32, *const f32, bool); REGIONS],
    used: usize,
    /// The region that is being fetched.
    at: usize,
    /// Lines of one request.
    lines: usize,
}

impl Ahead {
    /// Nothing.
    pub(crate) const NONE: Ahead = Ahead {
        regions: [(std::ptr::null(), std::ptr::null(), false); REGIONS],
        used: 0,
        at: 0,
        lines: 0,
    };

    /// Also what will be read; more than four regions are forgotten.
    pub(crate) fn read(self, data: &[f32]) -> Ahead {
        self.with(data.as_ptr_range(), false)
    }

    /// Also what will be written: `len` floats at `to`, which is not dereferenced.
    pub(crate) fn write(self, to: *const f32, len: usize) -> Ahead {
        self.with(to..to.wrapping_add(len), true)
    }

    fn with(mut self, range: Range<*const f32>, write: bool) -> Ahead {
        if self.used < REGIONS && range.start != range.end {
            self.regions[self.used] = (range.start, range.end, write);
            self.used += 1;
        }
        self
    }

    /// Spreads the regions over `requests`, of at most `most` lines each; what is then left is not
    /// fetched.
    pub(crate) fn spread(&mut self, requests: usize, most: usize) {
        let lines: usize = self.regions[..self.used]
            .iter()
            .map(|(from, to, _)| (*to as usize - *from as usize) / (4 * LINE) + 1)
            .sum();
        self.lines = lines.div_ceil(requests.max(1)).min(most);
    }

    /// One request, of one region: to look where each line is would make every line wait for the one before.
    #[inline(always)]
    pub(crate) fn step(&mut self) {
        if self.lines == 0 {
            return;
        }
        let Some((from, to, write)) = self.regions[..self.used].get_mut(self.at) else {
            self.lines = 0;
            return;
        };
        let mut line = *from;
        for _ in 0..self.lines {
            prefetch(line, *write);
            line = line.wrapping_add(LINE);
        }
        *from = line;
        self.at += usize::from(line >= *to);
    }
}

/// Asks for the line at `at`: what will be written into the first-level cache (a hint for writing
/// where the compiler may assume one), what will be read into the second.
#[inline(always)]
fn prefetch(at: *const f32, write: bool) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch is a hint that never faults, whatever the address.
        unsafe {
            if write {
                _mm_prefetch::<_MM_HINT_ET0>(at.cast());
            } else {
                _mm_prefetch::<_MM_HINT_T1>(at.cast());
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, write);
}
