//! The one clock, and the memory of the process.
#![allow(unsafe_code)] // clock_gettime and getrusage are C calls that fill a struct of ours

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

/// Waits until the clock shows `end`, away from the core.
pub fn sleep_until(end: u64) {
    /// A sleep may take so much longer than it was asked to.
    const LATE_NS: u64 = 80_000;
    loop {
        let left = end.saturating_sub(now_ns());
        if left == 0 {
            return;
        }
        match left.checked_sub(LATE_NS) {
            Some(ns) if ns > 0 => std::thread::sleep(std::time::Duration::from_nanos(ns)),
            _ => std::thread::yield_now(),
        }
    }
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
///
/// Linux is asked for the process's own address space: its `ru_maxrss` begins with the size of the
/// process that started this one, so a worker started by a large notebook would look large.
pub fn peak_memory_bytes() -> u64 {
    own_peak().unwrap_or_else(peak_of_usage)
}

/// `VmHWM`, where there is one.
fn own_peak() -> Option<u64> {
    own_status("VmHWM:")
}

/// A line of the process's status that counts bytes.
fn own_status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Gives memory that was freed back to the system, where the allocator can.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim takes an integer, and may be called at any time by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Does something, and says how many bytes more were resident at its peak than before it. What
/// other threads of the process do meanwhile is in it. Where the peak cannot be reset (outside
/// Linux), a process that once was larger looks as if nothing was needed.
pub fn peak_during<T>(work: impl FnOnce() -> T) -> (T, u64) {
    // Memory that was freed before would be used again and be missing from the count.
    give_back();
    let before = own_status("VmRSS:").unwrap_or_else(peak_memory_bytes);
    // Sets the peak to what is resident now. Refused by some sandboxes; then the peak is older.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let done = work();
    (done, peak_memory_bytes().saturating_sub(before))
}

fn peak_of_usage() -> u64 {
    // SAFETY: rusage is plain data for which all zeros is a value, and getrusage only writes it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    usage.ru_maxrss as u64 * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set in the process that [`alone`] starts.
    const ALONE: &str = "HALOBOOK_TEST_ALONE";

    /// Runs one of these tests in a process of its own, without the memory of the tests beside it.
    fn alone(test: &str) -> String {
        let own = std::env::current_exe().expect("a test program");
        let name = format!("clock::tests::{test}");
        let child = std::process::Command::new(own)
            .args([&name, "--exact", "--nocapture"])
            .env(ALONE, "1")
            .output()
            .expect("starts");
        let said = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(child.status.success(), "{said}");
        said
    }

    #[test]
    fn the_peak_of_some_work_is_what_it_held_at_once() {
        if std::env::var_os(ALONE).is_none() {
            alone("the_peak_of_some_work_is_what_it_held_at_once");
            return;
        }
        let large = std::hint::black_box(vec![1u8; 96 << 20]);
        drop(large);
        let (sum, peak) = peak_during(|| {
            let held = std::hint::black_box(vec![1u8; 48 << 20]);
            held.iter().map(|&x| u64::from(x)).sum::<u64>()
        });
        assert_eq!(sum, 48 << 20);
        assert!(peak > 40 << 20, "{peak}");
    }

    /// What the child of the test below says.
    #[test]
    fn the_peak_is_said() {
        println!("peak {}", peak_memory_bytes());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_peak_of_a_process_is_not_that_of_the_one_that_started_it() {
        let large = std::hint::black_box(vec![1u8; 256 << 20]);
        let peak = peak_memory_bytes();
        assert!(peak >= large.len() as u64, "{peak} of {}", large.len());
        let text = alone("the_peak_is_said");
        let said = text.lines().find_map(|l| l.split("peak ").nth(1));
        let said: u64 = said.and_then(|n| n.trim().parse().ok()).expect(&text);
        assert!(said < large.len() as u64 / 2, "{said}, started by {peak}");
        drop(std::hint::black_box(large));
    }
}
