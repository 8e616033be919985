//! Faults that another process sends.
//!
//! The standard library looks at each bad access for a stack that has overflowed, and otherwise lets the instruction
//! run again, to fault for good. A signal that was sent (`kill -SEGV`) has no instruction: the first one would be lost.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The signals of bad accesses.
const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What handled each of them before.
static BEFORE: [AtomicUsize; 2] = [const { AtomicUsize::new(libc::SIG_DFL) }; 2];

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// From now on such a signal from another process ends this one, as it ends any program. Call it first of all.
pub fn end_by_sent_faults() {
    for (signal, kept) in SIGNALS.into_iter().zip(&BEFORE) {
        // SAFETY: sigaction is plain data for which all zeros is a value; the handler calls only what may be called
        // in one, and on the stack that the standard library keeps for it.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, ptr::null(), &mut before) != 0
                || before.sa_flags & libc::SA_SIGINFO == 0
            {
                // By default it ends the process already.
                continue;
            }
            kept.store(before.sa_sigaction, Ordering::Release);
            let mut ours = before;
            ours.sa_sigaction = handle as *const () as usize;
            libc::sigaction(signal, &ours, ptr::null_mut());
        }
    }
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system gives a handler with SA_SIGINFO a valid description.
    let sent = unsafe { (*info).si_code } <= 0;
    let kept = SIGNALS.iter().position(|one| *one == signal);
    let before = kept.map_or(libc::SIG_DFL, |at| BEFORE[at].load(Ordering::Acquire));
    if sent || before == libc::SIG_DFL {
        // SAFETY: all three may be called in a handler; the signal arrives once this one returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            if sent {
                libc::kill(libc::getpid(), signal);
            }
        }
        return;
    }
    // SAFETY: it was the handler of this signal, with SA_SIGINFO.
    let handler = unsafe { std::mem::transmute::<usize, Handler>(before) };
    handler(signal, info, context);
}
