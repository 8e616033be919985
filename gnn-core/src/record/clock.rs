//! The one clock, and the times of one epoch.
#![allow(unsafe_code)] // clock_gettime and getrusage are C calls that fill a struct of ours

use super::phase::Pass;

fn clock_ns(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a valid timespec that outlives the call; both clocks used exist on Linux and
    // macOS, and a failure leaves the zeros above.
    unsafe { libc::clock_gettime(id, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Nanoseconds of the machine's monotonic clock, the same for every process of a host.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Processor time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time of the whole process in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Peak resident memory of the process in bytes.
pub fn peak_memory_bytes() -> u64 {
    // SAFETY: rusage is plain data for which all zeros is a value, and getrusage only writes it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    usage.ru_maxrss as u64 * unit
}

/// Nanoseconds spent in one epoch, by what they were spent on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// Kernels, by pass: forward, backward, optimiser (indexed by [`Pass`]).
    pub compute: [u64; 3],
    /// Packing and unpacking.
    pub copy: u64,
    /// Blocked while data moved.
    pub xfer: u64,
    /// Blocked before the peer had sent.
    pub wait: u64,
    /// Data moving while the rank did something else.
    pub hidden: u64,
}

impl Times {
    /// Adds kernel time of a pass; evaluation and set-up are not part of an epoch.
    pub fn add_compute(&mut self, pass: Pass, ns: u64) {
        if let Some(slot) = self.compute.get_mut(pass as usize) {
            *slot += ns;
        }
    }

    /// Kernel time of all passes.
    pub fn compute_total(&self) -> u64 {
        self.compute.iter().sum()
    }

    /// Everything that is part of wall time.
    pub fn accounted(&self) -> u64 {
        self.compute_total() + self.copy + self.xfer + self.wait
    }
}
