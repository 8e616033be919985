//! Facts about this machine.

use gnn_core::memory::Memory;
use serde::Serialize;

/// The machine a run is started on.
#[derive(Debug, Clone, Serialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Processor cores that this process may use.
    pub cores: usize,
    /// Memory in bytes (the smaller of the machine's and the control group's), 0 if unknown.
    pub memory_bytes: u64,
}

impl Host {
    /// This machine.
    pub fn this() -> Host {
        Host {
            name: name(),
            cores: cores(),
            memory_bytes: Memory::now().machine.unwrap_or(0),
        }
    }

    /// What a reader needs to judge a timing: cores, memory, architecture.
    pub fn class(&self) -> String {
        let gib = self.memory_bytes as f64 / f64::from(1u32 << 30);
        format!(
            "{} cores, {gib:.0} GiB, {} {}",
            self.cores,
            std::env::consts::ARCH,
            std::env::consts::OS
        )
    }
}

/// The machine's name.
pub fn name() -> String {
    let read = |path| std::fs::read_to_string(path).ok();
    read("/proc/sys/kernel/hostname")
        .or_else(|| read("/etc/hostname"))
        .map(|s| s.trim().to_owned())
        .filter(|s| !s.is_empty())
        .unwrap_or_else(|| "localhost".into())
}

/// Memory that a process has in use now; none for one that is gone.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(1024 * kib)
}

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How many processes the kernel has killed for want of memory, in the control groups this process
/// is in (or on the whole machine where those do not say). Only differences mean anything.
pub fn oom_kills() -> u64 {
    let mut files = vec![
        "/sys/fs/cgroup/memory.events".to_owned(),
        "/sys/fs/cgroup/memory/memory.oom_control".to_owned(),
        "/proc/vmstat".to_owned(),
    ];
    for line in std::fs::read_to_string("/proc/self/cgroup")
        .unwrap_or_default()
        .lines()
    {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next(), parts.next(), parts.next());
        match (controllers, path) {
            (Some(""), Some(path)) => files.push(format!("/sys/fs/cgroup{path}/memory.events")),
            (Some("memory"), Some(path)) => {
                files.push(format!("/sys/fs/cgroup/memory{path}/memory.oom_control"));
            }
            _ => {}
        }
    }
    files.sort();
    files.dedup();
    files
        .iter()
        .filter_map(|path| count_oom_kills(&std::fs::read_to_string(path).ok()?))
        .sum()
}

fn count_oom_kills(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|l| l.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// The version of the NVIDIA driver that the kernel has loaded.
pub fn driver() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let first = text.lines().next()?;
    let words = first.split_whitespace();
    let version = words
        .into_iter()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))?;
    Some(format!("NVIDIA {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_events_are_read_in_both_generations() {
        assert_eq!(
            count_oom_kills("low 0\noom 2\noom_kill 3\noom_group_kill 0\n"),
            Some(3)
        );
        assert_eq!(
            count_oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
            Some(1)
        );
        assert_eq!(count_oom_kills("nothing\n"), None);
    }

    #[test]
    fn this_machine_has_cores_and_a_name() {
        let host = Host::this();
        assert!(host.cores >= 1 && !host.name.is_empty());
        assert!(host.class().contains("cores"));
    }
}
