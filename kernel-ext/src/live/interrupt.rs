//! Interrupts that a magic under way looks at.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A second interrupt within this time means it.
pub const SECOND_WITHIN: Duration = Duration::from_secs(3);

/// Counts interrupts; raised by the control socket, cleared when a cell starts.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicU64>);

impl Interrupt {
    /// One more interrupt.
    pub fn raise(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// A new cell starts.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Whether the present cell was interrupted.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    /// A reader of the interrupts of the present cell.
    pub fn watch(&self) -> Watch {
        Watch {
            interrupt: self.clone(),
            seen: 0,
            first: None,
        }
    }
}

/// What an interrupt means when it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Please stop at the end of the epoch.
    Ask,
    /// Stop now.
    Kill,
}

/// Tells first from second interrupts.
pub struct Watch {
    interrupt: Interrupt,
    seen: u64,
    first: Option<Instant>,
}

impl Watch {
    /// The meaning of what has come since the last look.
    pub fn look(&mut self) -> Option<Meaning> {
        let now = self.interrupt.0.load(Ordering::Acquire);
        if now <= self.seen {
            return None;
        }
        let several = now - self.seen > 1;
        self.seen = now;
        let again = self.first.is_some_and(|at| at.elapsed() < SECOND_WITHIN);
        self.first = Some(Instant::now());
        Some(if again || several {
            Meaning::Kill
        } else {
            Meaning::Ask
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_interrupt_means_it() {
        let interrupt = Interrupt::default();
        let mut watch = interrupt.watch();
        assert_eq!(watch.look(), None);
        interrupt.raise();
        assert_eq!(watch.look(), Some(Meaning::Ask));
        assert_eq!(watch.look(), None);
        interrupt.raise();
        assert_eq!(watch.look(), Some(Meaning::Kill));
    }
}
