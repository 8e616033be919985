//! How much memory this process may have: what the machine has, what its control groups leave of that, and
//! the limits of the process itself (`ulimit -v`, `ulimit -d`).
//!
//! Nothing here can say what another process will take in the next moment; what is refused for want of memory
//! is refused on what is true when it is asked.

use std::path::{Path, PathBuf};

/// What was found, in bytes; none where nobody says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// All that the machine has, or that the control groups allow.
    pub machine: Option<u64>,
    /// What of that is free: pages that only keep a file's copy count as free.
    pub machine_left: Option<u64>,
    /// What each process may have.
    pub process: Option<u64>,
    /// What of that this process has not taken.
    pub process_left: Option<u64>,
}

impl Memory {
    /// Now.
    pub fn now() -> Memory {
        Memory::under(Path::new("/"))
    }

    /// What this process could have if it had taken nothing.
    pub fn total(&self) -> Option<u64> {
        least([self.machine, self.process])
    }

    /// What this process may still take.
    pub fn left(&self) -> Option<u64> {
        least([self.machine_left, self.process_left])
    }

    /// The same, of a system whose files begin at `root`.
    fn under(root: &Path) -> Memory {
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let info = read("proc/meminfo");
        let groups: Vec<Group> = groups(root, &read("proc/self/cgroup"));
        let (status, own) = (read("proc/self/status"), read("proc/self/limits"));
        let limits = [
            ("Max address space", "VmSize:"),
            ("Max data size", "VmData:"),
        ];
        let limits = limits.map(|(most, used)| Some((limit(&own, most)?, used)));
        let process_left = limits.map(|limit| {
            let (most, used) = limit?;
            Some(most.saturating_sub(kib(&status, used).unwrap_or(0)))
        });
        Memory {
            machine: least([
                kib(&info, "MemTotal:"),
                least(groups.iter().map(|g| Some(g.most))),
            ]),
            machine_left: least([
                kib(&info, "MemAvailable:"),
                least(groups.iter().map(|g| Some(g.left()))),
            ]),
            process: least(limits.map(|limit| limit.map(|(most, _)| most))),
            process_left: least(process_left),
        }
    }
}

fn least(of: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    of.into_iter().flatten().min()
}

/// A line `name  … kB` of a file of the kernel.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// The soft limit of `name`, where it is one.
fn limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A control group that has a limit.
struct Group {
    most: u64,
    used: u64,
    /// Pages of files that nobody has read lately.
    given_back: u64,
}

impl Group {
    /// The group whose files lie in `dir`; none where it has no limit.
    fn read(dir: &Path, [most, used, stale]: [&str; 3]) -> Option<Group> {
        let number = |file: &str| {
            let text = std::fs::read_to_string(dir.join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let stat = std::fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
        let given_back = stat.lines().find_map(|line| {
            let (name, bytes) = line.split_once(' ')?;
            (name == stale).then(|| bytes.trim().parse().ok())?
        });
        Some(Group {
            most: number(most)?,
            used: number(used)?,
            given_back: given_back.unwrap_or(0),
        })
    }

    fn left(&self) -> u64 {
        let used = self.used.saturating_sub(self.given_back);
        self.most.saturating_sub(used)
    }
}

/// Every control group with a limit that this process is in, by `/proc/self/cgroup`: its own and those
/// around it, of both versions. A container often sees only the outermost, where its own should be.
fn groups(root: &Path, own: &str) -> Vec<Group> {
    const UNIFIED: [&str; 3] = ["memory.max", "memory.current", "inactive_file"];
    const FIRST: [&str; 3] = [
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ];
    let at = root.join("sys/fs/cgroup");
    let mut dirs: Vec<(PathBuf, [&str; 3])> = vec![
        (at.clone(), UNIFIED),
        (at.join("unified"), UNIFIED),
        (at.join("memory"), FIRST),
    ];
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let (bases, files): (&[PathBuf], _) = match controllers {
            "" => (&[at.clone(), at.join("unified")], UNIFIED),
            _ if controllers.split(',').any(|c| c == "memory") => (&[at.join("memory")], FIRST),
            _ => continue,
        };
        let steps = Path::new(path.trim_start_matches('/')).ancestors();
        for step in steps.filter(|step| !step.as_os_str().is_empty()) {
            dirs.extend(bases.iter().map(|base| (base.join(step), files)));
        }
    }
    let read = |(dir, files): (PathBuf, _)| Group::read(&dir, files);
    dirs.into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, Memory) {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        let memory = Memory::under(root.path());
        (root, memory)
    }

    const INFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       1000 kB\nMemFree: 5 kB\nMemAvailable:    800 kB\n",
    );

    #[test]
    fn a_system_that_says_nothing_has_no_numbers() {
        assert_eq!(system(&[]).1, Memory::default());
    }

    #[test]
    fn the_narrowest_group_around_the_process_counts_without_its_stale_pages() {
        let (_root, memory) = system(&[
            INFO,
            ("proc/self/cgroup", "3:cpuset:/x\n0::/outer/inner\n"),
            ("sys/fs/cgroup/outer/memory.max", "600000\n"),
            ("sys/fs/cgroup/outer/memory.current", "500000\n"),
            (
                "sys/fs/cgroup/outer/memory.stat",
                "anon 1\ninactive_file 300000\n",
            ),
            ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
            ("sys/fs/cgroup/outer/inner/memory.current", "1\n"),
        ]);
        assert_eq!(memory.machine, Some(600_000));
        assert_eq!(memory.machine_left, Some(400_000));
        assert_eq!((memory.process, memory.left()), (None, Some(400_000)));
    }

    #[test]
    fn groups_of_the_first_version_are_found_by_their_controller() {
        let (_root, memory) = system(&[
            INFO,
            ("proc/self/cgroup", "4:cpu,memory:/a/b\n"),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "7\n"),
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "5000\n"),
            ("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "1000\n"),
        ]);
        assert_eq!(
            (memory.machine, memory.machine_left),
            (Some(5000), Some(4000))
        );
    }

    #[test]
    fn limits_of_the_process_count_what_it_has() {
        let (_root, memory) = system(&[
            INFO,
            (
                "proc/self/limits",
                "Limit  Soft Limit  Hard Limit  Units\nMax data size   unlimited  unlimited  bytes\n\
                 Max address space   409600   unlimited   bytes\n",
            ),
            ("proc/self/status", "VmSize:\t 100 kB\nVmData:\t 1 kB\n"),
        ]);
        assert_eq!(memory.process, Some(409_600));
        assert_eq!(memory.process_left, Some(409_600 - 102_400));
        assert_eq!(memory.total(), Some(409_600));
        assert_eq!(memory.left(), Some(307_200));
    }
}
