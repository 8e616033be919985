//! What the first cell of a kernel waits for, said while it waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError};

use crate::front::{CellOutput, Shown};

/// A wait that nobody asks about.
const MOMENT: Duration = Duration::from_secs(1);

const LOOK: Duration = Duration::from_millis(50);

/// Whether a cell has been through the compiler.
#[derive(Default)]
pub struct First {
    over: AtomicBool,
}

impl First {
    /// The evaluation's result. Of the first cell it is said, after a moment, that the session is made ready, until
    /// the cell is `compiled` and its own output may come.
    ///
    /// # Errors
    /// When the evaluation has ended without one.
    pub fn wait<T>(
        &self,
        done: &Receiver<T>,
        output: &CellOutput,
        compiled: &dyn Fn() -> bool,
    ) -> Result<T, RecvError> {
        let quiet = std::env::var("HALOBOOK_NONINTERACTIVE").is_ok_and(|value| value == "1");
        if quiet || self.over.load(Ordering::Acquire) {
            return done.recv();
        }
        let (started, mut said) = (Instant::now(), None);
        loop {
            let result = done.recv_timeout(LOOK);
            let waits = matches!(result, Err(RecvTimeoutError::Timeout)) && !compiled();
            match (&said, waits) {
                (None, true) if started.elapsed() > MOMENT => said = Some(say(output)),
                (Some(id), false) => {
                    // A saved notebook need not have it.
                    output.update(&Shown::text(""), id);
                    said = None;
                }
                _ => {}
            }
            if !waits {
                self.over.store(true, Ordering::Release);
                return match result {
                    Ok(value) => Ok(value),
                    Err(_) => done.recv(),
                };
            }
        }
    }
}

fn say(output: &CellOutput) -> String {
    let id = format!("halobook-session-{}", launcher::store::new_id());
    let text = "The session is being made ready: the libraries that cells use are read, once for this kernel …";
    output.display(&Shown::text(text), &id);
    id
}
