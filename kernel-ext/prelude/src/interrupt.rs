//! Interrupts of a cell that runs: a library call that sees one ends the cell, and variables stay.
//!
//! A process cannot be stopped from outside in the middle of Rust code without losing what it holds. So
//! the notebook kernel leaves a token beside its scratch files, and every call into this library looks for
//! it. In a cell every loop does so as well, and so does `std::thread::sleep`: the kernel writes [`poll`] and [`sleep`]
//! there. Code that takes long otherwise asks by itself:
//!
//! ```
//! use halobook::prelude::*;
//! let mut sum = 0_u64;
//! for n in 0..1_000 {
//!     interrupt::check(); // ends the cell here when somebody has interrupted it
//!     sum += n;
//! }
//! interrupt::sleep(std::time::Duration::from_millis(1)); // like the standard one, but it wakes up
//! # assert_eq!(sum, 499_500);
//! ```
//!
//! What the cell has changed in variables of earlier cells stays changed; what it has bound itself is
//! gone, as after a panic. In another kernel, and outside of one, nothing is ever asked.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::display;

/// What a cell's unwinding carries.
struct Interrupted;

/// How soon a wait notices.
const SOON: Duration = Duration::from_millis(20);

/// The token of the process `pid` in a kernel's scratch folder.
pub fn token(scratch: &Path, pid: u32) -> PathBuf {
    // With the process's number, so that no other process that has inherited the environment sees it.
    scratch.join(format!("interrupt-{pid}"))
}

/// Whether somebody has interrupted the cell that runs now.
pub fn asked() -> bool {
    let scratch = std::env::var_os("HALOBOOK_SCRATCH");
    scratch.is_some_and(|scratch| token(Path::new(&scratch), std::process::id()).exists())
}

/// Nobody looks for the token yet.
const ALONE: u8 = 0;
/// A thread looks for it, and has seen none.
const QUIET: u8 = 1;
/// It is there.
const ASKED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(ALONE);

/// [`check`] for loops, as a load and a branch: a thread looks for the token.
///
/// # Panics
/// As [`check`].
#[inline]
pub fn poll() {
    if STATE.load(Ordering::Relaxed) != QUIET {
        look();
    }
}

#[cold]
#[inline(never)]
fn look() {
    let first = STATE.compare_exchange(ALONE, QUIET, Ordering::AcqRel, Ordering::Acquire);
    if first.is_ok()
        && let Some(scratch) = std::env::var_os("HALOBOOK_SCRATCH")
    {
        let token = token(Path::new(&scratch), std::process::id());
        let watch = move || {
            loop {
                let state = if token.exists() { ASKED } else { QUIET };
                STATE.store(state, Ordering::Release);
                std::thread::sleep(SOON);
            }
        };
        // Without the thread, loops go on as they would outside of a kernel.
        let _ = std::thread::Builder::new()
            .name("interrupts".into())
            .spawn(watch);
    }
    check();
}

/// Ends the cell if somebody has interrupted it.
///
/// # Panics
/// When it was interrupted: the cell unwinds up to its start, without the words of a panic.
pub fn check() {
    if asked() {
        end("");
    }
}

/// Waits, and ends the cell as soon as somebody interrupts it.
///
/// # Panics
/// As [`check`].
pub fn sleep(duration: Duration) {
    let started = Instant::now();
    loop {
        check();
        let left = duration.saturating_sub(started.elapsed());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(SOON));
    }
}

/// Ends the cell, and says what became of what it was waiting for.
pub(crate) fn end(remark: &str) {
    // A value that is dropped on the way out may call the library too.
    if !std::thread::panicking() {
        display::tell(&json!({ "interrupted": remark }));
        resume_unwind(Box::new(Interrupted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_asked_outside_of_a_kernel() {
        assert!(!asked());
        check();
        poll();
        poll();
        assert_eq!(STATE.load(Ordering::Relaxed), QUIET);
        sleep(Duration::ZERO);
    }

    #[test]
    fn the_end_of_a_cell_is_quiet_and_comes_once() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                end("again");
            }
        }
        let ended = std::panic::catch_unwind(|| {
            let _late = Late;
            end("");
        });
        assert!(ended.is_err_and(|cause| cause.is::<Interrupted>()));
    }
}
