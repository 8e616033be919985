//! Processes from outside: who is left, and signals to one of them.

use std::path::Path;
use std::time::{Duration, Instant};

/// Processes, apart from this one and from zombies, whose command line or environment names
/// `mark`: a folder that only one run or kernel uses.
pub fn naming(mark: &Path) -> Vec<(u32, String)> {
    let mark = mark.to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if pid == std::process::id() {
            continue;
        }
        let read = |file: &str| {
            let bytes = std::fs::read(entry.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let command = read("cmdline");
        if command.contains(&mark) || read("environ").contains(&mark) {
            found.push((pid, command));
        }
    }
    found
}

/// Waits until nobody names `mark`; returns who still does at the end.
pub fn wait_gone(mark: &Path, limit: Duration) -> Vec<(u32, String)> {
    let until = Instant::now() + limit;
    loop {
        let left = naming(mark);
        if left.is_empty() || Instant::now() >= until {
            return left;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to one process.
#[allow(unsafe_code)]
pub fn signal(pid: u32, signal: i32) {
    let pid = i32::try_from(pid).expect("Linux process numbers are below 2^22");
    // SAFETY: `kill` reads two integers and touches no memory of ours; `pid` is positive, so it
    // names one process, not a group.
    unsafe { libc::kill(pid, signal) };
}

/// Bytes of memory that a process holds; none where the system does not say.
pub fn resident(pid: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}
