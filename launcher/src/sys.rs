//! The few calls into the operating system that the standard library lacks.
#![allow(unsafe_code)] // C calls on plain integers; each block names the fact it relies on

mod faults;

pub use faults::end_by_sent_faults;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How often the user asked to stop. A signal handler can reach nothing but a static.
static INTERRUPTS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_interrupt(_signal: libc::c_int) {
    INTERRUPTS.fetch_add(1, Ordering::SeqCst);
}

/// From now on SIGINT, SIGTERM and SIGHUP are counted instead of ending the process.
pub fn catch_interrupts() {
    let handler = count_interrupt as *const () as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only adds to an atomic, which is async-signal-safe, and it is a
        // plain function that lives for the whole program.
        unsafe { libc::signal(signal, handler) };
    }
}

/// How often the process was asked to stop since [`catch_interrupts`].
pub fn interrupts() -> usize {
    INTERRUPTS.load(Ordering::SeqCst)
}

/// Whether a process exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    match stat_fields(pid) {
        Some(fields) => !matches!(fields.first().map(String::as_str), Some("Z" | "X")),
        None if Path::new("/proc/self/stat").exists() => false,
        None => {
            // SAFETY: signal 0 only asks whether the process exists.
            pid != 0 && unsafe { libc::kill(pid as libc::pid_t, 0) } == 0
        }
    }
}

/// Whether a process is stopped (SIGSTOP, a debugger).
pub fn is_stopped(pid: u32) -> bool {
    stat_fields(pid).is_some_and(|fields| matches!(fields[0].as_str(), "T" | "t"))
}

/// The processes that a process has started itself, as far as this system tells.
pub fn children(pid: u32) -> Vec<u32> {
    let of_thread = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let lists = tasks.into_iter().flatten().flatten().map(of_thread);
    let lists: Vec<String> = lists.map_while(Result::ok).collect();
    let words = lists.iter().flat_map(|list| list.split_whitespace());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// All processes but this one that were started with `word` among their arguments.
pub fn started_with(word: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|&pid| pid != std::process::id() && was_started_with(pid, word))
        .collect()
}

/// The fields of `/proc/PID/stat` after the command name: state first.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// When a process started, in the kernel's ticks: together with the process id it names one
/// process for good, since ids are reused.
pub fn start_ticks(pid: u32) -> Option<u64> {
    stat_fields(pid)?.get(19)?.parse().ok()
}

/// Processor time of a process in the kernel's ticks.
pub fn cpu_ticks(pid: u32) -> Option<u64> {
    let fields = stat_fields(pid)?;
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// Processor time of this process and of its children that have ended and been waited for, in
/// seconds.
pub fn cpu_seconds() -> f64 {
    let of = |who| {
        // SAFETY: rusage is plain data for which all zeros is a value, and getrusage only writes it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &mut usage);
            usage
        };
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

/// The kernel's ticks in a second.
pub fn ticks_per_second() -> f64 {
    // SAFETY: sysconf takes an integer and touches no memory of ours.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

/// From now on this process gets so many bytes of memory of its own and no more; asking for more fails.
pub fn hold_memory(bytes: u64) {
    let most = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: setrlimit only reads the plain struct it is given. Where there is no such limit, there is none.
    unsafe { libc::setrlimit(libc::RLIMIT_DATA, &most) };
}

/// Settings under which the C library's allocator backs large blocks with large pages. They are
/// read when a process starts.
pub const LARGE_PAGES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// Starts this program again in this process with large pages for its memory, unless it was
/// started so. Where that fails, or elsewhere than on Linux, it just goes on without.
pub fn restart_with_large_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if std::env::var_os(LARGE_PAGES.0).is_none()
        && let Ok(program) = std::env::current_exe()
    {
        let _ = Command::new(program)
            .args(std::env::args_os().skip(1))
            .env(LARGE_PAGES.0, LARGE_PAGES.1)
            .exec();
    }
}

/// Whether the process was started with `word` somewhere among its arguments. Guards against
/// signalling a stranger that got a reused process id.
pub fn was_started_with(pid: u32, word: &Path) -> bool {
    let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    let word = word.as_os_str().as_encoded_bytes();
    line.split(|&b| b == 0).any(|argument| argument == word)
}

/// Sends a signal to one process.
pub fn signal(pid: u32, signal: i32) {
    if pid > 1 {
        // SAFETY: kill takes plain integers; pid is one process, not a group or everybody.
        unsafe { libc::kill(pid as libc::pid_t, signal) };
    }
}

/// Sends a signal to a process group.
pub fn signal_group(leader: u32, signal: i32) {
    if leader > 1 {
        // SAFETY: killpg takes plain integers; the group is not 0 (our own) or 1.
        unsafe { libc::killpg(leader as libc::pid_t, signal) };
    }
}

/// Asks the kernel to end this process when its parent ends. Linux only; elsewhere nothing.
pub fn die_with_parent() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    }
}

/// Ends this process soon after the one that started it has ended, whatever its other threads do. Unlike
/// [`die_with_parent`] it minds the process, not the thread that started this one.
pub fn end_when_orphaned() {
    // SAFETY: getppid has no arguments and cannot fail.
    let parent = || unsafe { libc::getppid() };
    let first = parent();
    std::thread::spawn(move || {
        while parent() == first {
            std::thread::sleep(LOOK);
        }
        // SAFETY: _exit ends the process at once and runs nothing of it: a thread that computes may hold any lock.
        unsafe { libc::_exit(1) }
    });
}

/// How often an orphan is looked for.
const LOOK: Duration = Duration::from_millis(300);

/// Has the kernel send `signal` to the program that `command` starts when the thread that starts
/// it ends. Linux only; elsewhere nothing.
pub fn end_with_parent(command: &mut Command, signal: i32) {
    let parent = std::process::id();
    let prepare = move || {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: both calls take plain integers and are async-signal-safe, which is all that
            // may run between fork and exec.
            let orphaned = unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, signal);
                libc::getppid() as u32 != parent
            };
            if orphaned {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (signal, parent);
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no lock: two system calls and an error that
    // is an integer.
    unsafe { command.pre_exec(prepare) };
}

/// Lets this process go on when the one that started it ends, whatever [`end_with_parent`] had
/// asked for. Linux only; elsewhere nothing was asked for.
pub fn outlive_parent() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: PR_SET_PDEATHSIG takes a signal number, here none, and touches no memory.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) };
    }
}

/// Gives the program that `command` starts a session of its own: no signal that is meant for this
/// process's group or terminal reaches it.
pub fn in_own_session(command: &mut Command) {
    let prepare = || {
        // SAFETY: setsid has no arguments and is async-signal-safe, which is all that may run
        // between fork and exec.
        if unsafe { libc::setsid() } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no lock: one system call and an error that is
    // an integer.
    unsafe { command.pre_exec(prepare) };
}

/// Sends this process's standard output and error to the end of a file.
///
/// # Errors
/// When the file cannot be opened or the descriptors cannot be replaced.
pub fn redirect_output(path: &Path) -> io::Result<()> {
    redirect(path, &[1, 2])
}

/// Sends this process's standard error alone to the end of a file.
///
/// # Errors
/// As [`redirect_output`].
pub fn redirect_errors(path: &Path) -> io::Result<()> {
    redirect(path, &[2])
}

fn redirect(path: &Path, targets: &[i32]) -> io::Result<()> {
    let file = File::options().create(true).append(true).open(path)?;
    for &target in targets {
        // SAFETY: `file` is open across the call, and 1 and 2 are the process's own descriptors.
        if unsafe { libc::dup2(file.as_raw_fd(), target) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Ends the process at once, without running exit handlers: a rank that failed must not wait in
/// the clean-up of a library whose peers are still working.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit takes an integer and does not return.
    unsafe { libc::_exit(status) }
}

/// Whether this process may do everything; Open MPI wants to be told.
pub fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Lets standard output end quietly when its reader has gone (`halobook frames … | head`).
pub fn restore_sigpipe() {
    // SAFETY: the default disposition is always valid; called once before any thread starts.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// From now on freed memory is kept for the next allocation instead of returned to the system.
/// Training frees and allocates the same large matrices every epoch; giving them back costs a page
/// fault for every 4 KiB of them, more time than the kernels take.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes two integers and only changes settings of the allocator; it is called
    // before the process has a second thread that allocates.
    unsafe {
        // No mapping per allocation: a threshold would stop at 32 MiB.
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        // One arena: those of other threads are returned whenever they are empty.
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// What the process of a notebook's frames begins with, before it has a second thread: memory of freed columns is
/// kept for the next ones, up to a gigabyte, and queries go to Polars' streaming engine, but for what only the
/// other one can.
pub fn settle_frames() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes two integers and only changes settings of the allocator.
    unsafe {
        // A mapping per column would be given back, and its pages be faulted in anew, with every operation.
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 30);
    }
    if std::env::var_os("POLARS_AUTO_STREAMING").is_none() {
        // SAFETY: no other thread reads the environment yet.
        unsafe { std::env::set_var("POLARS_AUTO_STREAMING", "1") };
    }
}

/// From now on each large allocation is a mapping of its own, whose zeros take no memory until somebody
/// writes: the allocator would soon give memory that was used before, and clear it.
pub fn map_large_zeros() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes two integers and only changes settings of the allocator.
    unsafe {
        // Set, the threshold no longer grows with what is freed.
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_an_ended_one_is_not() {
        let me = std::process::id();
        assert!(is_alive(me) && start_ticks(me).is_some() && cpu_ticks(me).is_some());
        let mut child = std::process::Command::new("true")
            .spawn()
            .expect("true exists");
        let pid = child.id();
        child.wait().expect("waits");
        assert!(!is_alive(pid));
    }

    #[test]
    fn arguments_are_matched_whole() {
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .expect("sleep");
        // The arguments appear when exec has happened, shortly after the spawn returns.
        let seen = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            was_started_with(child.id(), Path::new("30"))
        });
        assert!(seen && !was_started_with(child.id(), Path::new("3")));
        signal(child.id(), libc::SIGKILL);
        child.wait().expect("waits");
    }
}
