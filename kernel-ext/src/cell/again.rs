//! A thread that fails begins again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// A failure so soon has nothing to do with what was asked.
const SOON: Duration = Duration::from_secs(1);

/// How many of those in a row are enough.
const TRIES: u32 = 3;

/// Runs `work` until it returns; after each panic, `mend` and then `work` again. Work that fails at its start again
/// and again is left.
pub fn again_when_it_panics(work: impl Fn(), mend: impl Fn()) {
    let mut soon = 0;
    while soon < TRIES {
        let started = Instant::now();
        if catch_unwind(AssertUnwindSafe(&work)).is_ok() {
            return;
        }
        soon = if started.elapsed() < SOON {
            soon + 1
        } else {
            0
        };
        mend();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn work_that_fails_begins_again_but_not_for_ever() {
        let (begun, mended) = (Cell::new(0), Cell::new(0));
        let work = |fails| {
            begun.set(begun.get() + 1);
            assert!(begun.get() > fails, "as a test");
        };
        again_when_it_panics(|| work(2), || mended.set(mended.get() + 1));
        assert_eq!((begun.get(), mended.get()), (3, 2));
        begun.set(0);
        again_when_it_panics(|| work(u32::MAX), || {});
        assert_eq!(begun.get(), TRIES);
    }
}
