//! Running a command with its output in a log, a line now and then, and a limit.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a command ended by itself.
#[derive(Debug)]
pub enum Ended {
    /// Status 0.
    Ok,
    /// Anything else, in words.
    Failed(String),
}

/// Why there is no end to speak of.
#[derive(Debug)]
pub enum Fault {
    /// It could not be started.
    Start(std::io::Error),
    /// It ran past the deadline and was ended, with everything it had started.
    Limit,
}

/// How often a running command says where it is.
const EVERY: Duration = Duration::from_secs(30);

/// Runs `command` with both output streams in the file `log`, calling `say` with the newest line
/// every half minute.
///
/// # Errors
/// When the command cannot start, or the deadline passes.
pub fn run(
    command: &mut Command,
    log: &Path,
    deadline: Instant,
    say: impl Fn(String),
) -> Result<Ended, Fault> {
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder).map_err(Fault::Start)?;
    }
    let file = File::create(log).map_err(Fault::Start)?;
    let both = file.try_clone().map_err(Fault::Start)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(both)
        .spawn()
        .map_err(Fault::Start)?;
    let started = Instant::now();
    let mut next = started + EVERY;
    let mut pause = Duration::from_millis(5);
    loop {
        match child.try_wait().map_err(Fault::Start)? {
            Some(status) if status.success() => return Ok(Ended::Ok),
            Some(status) => return Ok(Ended::Failed(in_words(status))),
            None => {}
        }
        let now = Instant::now();
        if now >= deadline {
            end(&mut child);
            return Err(Fault::Limit);
        }
        if now >= next {
            next += EVERY;
            let last = tail(log, 1);
            let clock = crate::flow::clock(now - started);
            say(format!("… {clock}: {}", shorten(last.trim(), 90)));
        }
        std::thread::sleep(pause.min(deadline - now));
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

/// The last `lines` lines of a log.
pub fn tail(log: &Path, lines: usize) -> String {
    // More than forty lines never fit in this much, and logs of a build are long.
    const BYTES: u64 = 1 << 16;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// The command as one would type it, without its folder.
pub fn words(command: &Command) -> String {
    let name = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let rest = command.get_args().map(|arg| arg.to_string_lossy());
    let all: Vec<String> = std::iter::once(name)
        .chain(rest.map(|arg| arg.into_owned()))
        .collect();
    format!("`{}`", shorten(&all.join(" "), 120))
}

/// What a short command prints to standard output, or `None` when it fails or is not there.
pub fn output(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Option<String> {
    let out = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    out.status
        .success()
        .then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

fn in_words(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(9)) => "was killed (signal 9: often the machine ran out of memory)".into(),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended without a status".into(),
    }
}

fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_string();
    }
    let head: String = text.chars().take(most).collect();
    format!("{head}…")
}

/// Ends a child and everything below it, children first named from `/proc`.
///
/// The child stays in this process's group, so that an interrupt from the keyboard reaches it;
/// hence its descendants are found by parent, not by group.
fn end(child: &mut Child) {
    let mut doomed = vec![child.id()];
    let mut at = 0;
    while at < doomed.len() {
        doomed.extend(children(doomed[at]));
        at += 1;
    }
    let list: Vec<String> = doomed.iter().map(u32::to_string).collect();
    // `kill` is part of every shell, `/bin/kill` is not part of every system.
    let _ = Command::new("sh")
        .arg("-c")
        .arg(format!("kill -9 {}", list.join(" ")))
        .stderr(Stdio::null())
        .status();
    let _ = child.wait();
}

fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let parent_of = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // `pid (name) state ppid …`; the name may hold spaces and brackets.
        stat.rsplit_once(')')?
            .1
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_past_its_limit_is_ended_with_its_children() {
        let folder = std::env::temp_dir().join(format!("setup-exec-{}", std::process::id()));
        let log = folder.join("limit.log");
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & echo $!; wait"]);
        let deadline = Instant::now() + Duration::from_millis(500);
        let outcome = run(&mut command, &log, deadline, |_| {});
        assert!(matches!(outcome, Err(Fault::Limit)), "{outcome:?}");
        let grandchild = tail(&log, 1);
        let alive = || {
            std::fs::read_to_string(format!("/proc/{grandchild}/stat"))
                .is_ok_and(|stat| !stat.contains(") Z "))
        };
        // Nobody waits for a grandchild, so its end is seen a moment after the signal.
        let until = Instant::now() + Duration::from_secs(5);
        while alive() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!alive(), "process {grandchild} was left behind");
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn status_and_tail_of_a_failing_command() {
        let folder = std::env::temp_dir().join(format!("setup-tail-{}", std::process::id()));
        let log = folder.join("fail.log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let deadline = Instant::now() + Duration::from_secs(20);
        match run(&mut command, &log, deadline, |_| {}) {
            Ok(Ended::Failed(words)) => assert_eq!(words, "ended with status 3"),
            other => panic!("{other:?}"),
        }
        assert_eq!(tail(&log, 1), "two");
        assert_eq!(tail(&log, 9), "one\ntwo");
        let _ = std::fs::remove_dir_all(folder);
    }
}
