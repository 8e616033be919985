//! Ports for a kernel's sockets, which whoever starts it names before it opens them.

use anyhow::ensure;
use std::net::{IpAddr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below those that a system gives to outgoing connections (from 32 768 on, on Linux): one of them is some other
/// kernel's or client's before the kernel that was promised it opens it.
const FIRST: u32 = 10_000;
const END: u32 = 32_768;

/// How many have been looked at; other processes begin elsewhere.
static LOOKED_AT: LazyLock<AtomicU32> =
    LazyLock::new(|| AtomicU32::new(std::process::id().wrapping_mul(97)));

/// `n` ports of `ip` on which nobody listens; no two calls of a process give the same.
///
/// # Errors
/// When there are not as many.
pub(crate) fn free(ip: IpAddr, n: usize) -> anyhow::Result<Vec<u16>> {
    let next = || FIRST + LOOKED_AT.fetch_add(1, Ordering::Relaxed) % (END - FIRST);
    let ports: Vec<u16> = (FIRST..END)
        .filter_map(|_| u16::try_from(next()).ok())
        .filter(|&port| TcpListener::bind((ip, port)).is_ok())
        .take(n)
        .collect();
    ensure!(ports.len() == n, "no {n} free ports below {END}");
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn ports_are_free_and_never_the_same() {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let first = free(local, 5).expect("ports");
        let held = TcpListener::bind((local, first[0])).expect("nobody listens");
        let other = free(local, 5).expect("ports");
        assert!(first.iter().all(|port| !other.contains(port)));
        assert!(
            first
                .iter()
                .chain(&other)
                .all(|&port| u32::from(port) < END)
        );
        drop(held);
    }
}
