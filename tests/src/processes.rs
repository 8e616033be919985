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

/// Beginnings of addresses that only this host reaches, as the kernel lists them.
const LOOPBACK: [&str; 2] = ["0100007F:", "00000000000000000000000001000000:"];

/// Inodes and addresses of a process's sockets that wait for connections from other hosts.
pub fn listening(pid: u32) -> Vec<String> {
    let tables =
        ["tcp", "tcp6"].map(|table| std::fs::read_to_string(format!("/proc/{pid}/net/{table}")));
    let lines = tables
        .iter()
        .flatten()
        .flat_map(|text| text.lines().skip(1));
    let waiting = lines.filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (address, inode) = (*words.get(1)?, *words.get(9)?);
        let own = LOOPBACK
            .iter()
            .any(|loopback| address.starts_with(loopback));
        (words.get(3) == Some(&"0A") && !own).then(|| format!("{inode} {address}"))
    });
    let own = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let own: Vec<String> = own
        .filter_map(|fd| {
            Some(
                std::fs::read_link(fd.path())
                    .ok()?
                    .to_string_lossy()
                    .into_owned(),
            )
        })
        .collect();
    waiting
        .filter(|inode| {
            let inode = inode.split(' ').next().unwrap_or_default();
            own.contains(&format!("socket:[{inode}]"))
        })
        .collect()
}

/// Processes that have ended and whose end their parent `pid` has not taken note of, and those that go on.
pub fn children(pid: u32) -> (Vec<u32>, Vec<u32>) {
    let entries = std::fs::read_dir("/proc");
    let numbers = entries.into_iter().flatten().flatten().filter_map(|entry| {
        let child: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The command's name may hold anything; state and parent stand behind it.
        let (_, behind) = stat.rsplit_once(')')?;
        let mut words = behind.split_whitespace();
        let (state, parent) = (words.next()?, words.next()?.parse::<u32>().ok()?);
        (parent == pid).then_some((child, state == "Z"))
    });
    let (ended, on): (Vec<_>, Vec<_>) = numbers.partition(|(_, ended)| *ended);
    let ids = |list: Vec<(u32, bool)>| list.into_iter().map(|(id, _)| id).collect();
    (ids(ended), ids(on))
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
