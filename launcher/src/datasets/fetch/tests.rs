//! Fetching against a server of our own on this machine, with the system's curl, and against
//! programs in its place. What the servers in the catalogue do cannot be seen here.

use super::*;
use crate::datasets::find;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What a server does with requests.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Sends what is asked for.
    Whole,
    /// Ends each connection after so many bytes of the file.
    Cut(usize),
    /// Sends the whole file whatever range is asked for.
    NoRange,
    /// Knows no file.
    Nothing,
    /// Sends so many bytes of the file, and never more of it.
    Stuck(usize),
    /// Says that the file is elsewhere on this server.
    Moved,
    /// Does not say how long a file is of which it has no rest.
    Silent,
}

/// A server of one file until it is dropped.
struct Server {
    address: String,
    /// Where each request wanted to start.
    starts: Arc<Mutex<Vec<usize>>>,
    ended: Arc<AtomicBool>,
}

impl Server {
    fn start(content: Vec<u8>, manner: Manner) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let starts = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(AtomicBool::new(false));
        let (seen, end) = (Arc::clone(&starts), Arc::clone(&ended));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let _ = answer(stream, &content, manner, &seen);
            }
        });
        Server {
            address: format!("http://{address}/files/"),
            starts,
            ended,
        }
    }

    fn starts(&self) -> Vec<usize> {
        self.starts.lock().expect("no other panics").clone()
    }

    /// An entry of the catalogue with one file, as if this server had it.
    fn entry(&self) -> Entry {
        Entry {
            address: String::leak(self.address.clone()),
            ..*find("web-google").expect("listed")
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let host = self.address.trim_start_matches("http://");
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(host.trim_end_matches("/files/"));
    }
}

/// Answers one request, and notes where it wanted to start before whoever asked can know the answer.
fn answer(
    mut stream: TcpStream,
    content: &[u8],
    manner: Manner,
    seen: &Mutex<Vec<usize>>,
) -> Option<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?.to_lowercase();
    let range = head
        .split("range: bytes=")
        .nth(1)
        .and_then(|r| r.split('-').next()?.parse::<usize>().ok());
    let wanted = range.unwrap_or(0);
    if manner == Manner::Moved && head.starts_with("get /files/") {
        let to = "HTTP/1.1 302 Found\r\nLocation: /elsewhere/a\r\nContent-Length: 0\r\n\r\n";
        let _ = stream.write_all(to.as_bytes());
        return None;
    }
    seen.lock().expect("no other panics").push(wanted);
    let (status, start) = match (manner, range) {
        (Manner::Nothing, _) => ("404 Not Found", content.len()),
        (Manner::NoRange, _) | (_, None) => ("200 OK", 0),
        (_, Some(from)) if from >= content.len() => ("416 Range Not Satisfiable", content.len()),
        (_, Some(from)) => ("206 Partial Content", from),
    };
    let rest = &content[start..];
    let all = content.len();
    let place = match &status[..3] {
        "206" => format!("Content-Range: bytes {start}-{}/{all}\r\n", all - 1),
        "416" if manner != Manner::Silent => format!("Content-Range: bytes */{all}\r\n"),
        _ => String::new(),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{place}Connection: close\r\n\r\n",
        rest.len()
    );
    let sent = match manner {
        Manner::Cut(most) => &rest[..most.min(rest.len())],
        Manner::Stuck(most) => &rest[..most.saturating_sub(start).min(rest.len())],
        _ => rest,
    };
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(sent);
    Some(())
}

/// Whether the system has curl; says so where it has not.
fn has_curl() -> bool {
    let there = Command::new("curl").arg("--version").output().is_ok();
    if !there {
        println!("skipped: there is no curl");
    }
    there
}

fn content() -> Vec<u8> {
    (0..100_000u32).flat_map(u32::to_le_bytes).collect()
}

fn part(folder: &Path) -> PathBuf {
    folder.join("web-Google.txt.gz.part")
}

#[test]
fn a_file_comes_from_a_server_and_only_once() {
    if !has_curl() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(content(), Manner::Whole);
    let got = get(&server.entry(), dir.path(), "curl").expect("served");
    assert_eq!(std::fs::read(&got.path).expect("there"), content());
    assert!(got.notes[0].contains("recorded now"), "{:?}", got.notes);
    let again = get(&server.entry(), dir.path(), "curl").expect("there");
    assert!(again.notes[0].contains("as recorded"), "{:?}", again.notes);
    assert_eq!(server.starts(), [0]);
    assert!(!part(dir.path()).exists());
}

#[test]
fn a_cut_connection_is_taken_up_where_it_ended() {
    if !has_curl() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(content(), Manner::Cut(150_000));
    let got = get(&server.entry(), dir.path(), "curl").expect("served in three parts");
    assert_eq!(std::fs::read(&got.path).expect("there"), content());
    assert_eq!(server.starts(), [0, 150_000, 300_000]);
}

#[test]
fn a_later_attempt_goes_on_with_what_an_earlier_one_left() {
    if !has_curl() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(part(dir.path()), &content()[..1000]).expect("writable");
    let server = Server::start(content(), Manner::Whole);
    let got = get(&server.entry(), dir.path(), "curl").expect("served");
    assert_eq!(std::fs::read(&got.path).expect("there"), content());
    assert_eq!(server.starts(), [1000]);
}

#[test]
fn a_file_that_moved_is_followed_and_gone_on_with_there() {
    if !has_curl() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(part(dir.path()), &content()[..1000]).expect("writable");
    let server = Server::start(content(), Manner::Moved);
    let got = get(&server.entry(), dir.path(), "curl").expect("served elsewhere");
    assert_eq!(std::fs::read(&got.path).expect("there"), content());
    assert_eq!(server.starts(), [1000]);
}

#[test]
fn a_file_that_never_ends_is_given_up_and_what_came_is_kept() {
    if !has_curl() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let stuck = Server::start(content(), Manner::Stuck(5000));
    let e = get(&stuck.entry(), dir.path(), "curl").expect_err("truncated");
    assert!(matches!(e, Error::Unreachable { .. }), "{e}");
    // Once more from where it ended; nothing came, so not again.
    assert_eq!(stuck.starts(), [0, 5000]);
    assert!(!dir.path().join("web-Google.txt.gz").exists());
    let sound = Server::start(content(), Manner::Whole);
    let got = get(&sound.entry(), dir.path(), "curl").expect("served");
    assert_eq!(std::fs::read(&got.path).expect("there"), content());
    assert_eq!(sound.starts(), [5000]);
}

#[test]
fn a_file_that_was_all_there_but_not_named_is_not_fetched_twice() {
    if !has_curl() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(part(dir.path()), content()).expect("writable");
    let server = Server::start(content(), Manner::Whole);
    let got = get(&server.entry(), dir.path(), "curl").expect("served");
    assert_eq!(std::fs::read(&got.path).expect("there"), content());
    assert_eq!(server.starts(), [content().len()]);
}

/// What a first attempt leaves of another version of the file, longer or just as long, is no part of it.
#[test]
fn a_part_that_the_file_has_no_rest_of_is_fetched_anew_unless_its_checksum_is_the_recorded_one() {
    if !has_curl() {
        return;
    }
    let all = content().len();
    let longer = [content(), b"stale".to_vec()].concat();
    let other = vec![7; all];
    let sum = |bytes: &[u8]| {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(dir.path().join("a"), bytes).expect("writable");
        sha256(&dir.path().join("a")).expect("there")
    };
    let whole = sum(&content());
    for (there, recorded, manner, starts) in [
        (&longer, None, Manner::Whole, vec![all + 5, 0]),
        (&longer, Some(&whole), Manner::Whole, vec![all + 5, 0]),
        (&longer, Some(&whole), Manner::Silent, vec![all + 5, 0]),
        (&other, Some(&whole), Manner::Whole, vec![all, 0]),
        (&content(), Some(&whole), Manner::Silent, vec![all]),
        // Nobody says whether this is all of it.
        (&content(), None, Manner::Silent, vec![all, 0]),
    ] {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(part(dir.path()), there).expect("writable");
        if let Some(sum) = recorded {
            let sums = serde_json::json!({ "web-Google.txt.gz": sum });
            std::fs::write(dir.path().join(SUMS), sums.to_string()).expect("writable");
        }
        let server = Server::start(content(), manner);
        let got = get(&server.entry(), dir.path(), "curl").expect("served");
        assert_eq!(std::fs::read(&got.path).expect("there"), content());
        assert_eq!(server.starts(), starts);
        assert!(!part(dir.path()).exists());
    }
}

#[test]
fn the_last_answer_counts() {
    let answer = |status, total| Answer { status, total };
    assert_eq!(Answer::last(""), answer(0, None));
    let moved = "HTTP/1.1 302 Found\r\nContent-Range: bytes */9\r\n\r\n";
    assert_eq!(Answer::last(moved), answer(302, Some(9)));
    let then = format!("{moved}HTTP/2 416 \r\ncontent-range: bytes */12\r\n\r\n");
    assert_eq!(Answer::last(&then), answer(416, Some(12)));
    let unknown = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-2/*\r\n\r\n";
    assert_eq!(Answer::last(unknown), answer(206, None));
}

#[test]
fn a_server_that_ignores_ranges_is_asked_from_the_start() {
    if !has_curl() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(part(dir.path()), b"something else").expect("writable");
    let server = Server::start(content(), Manner::NoRange);
    let got = get(&server.entry(), dir.path(), "curl").expect("served");
    assert_eq!(std::fs::read(&got.path).expect("there"), content());
    assert_eq!(server.starts(), [14, 0]);
}

#[test]
fn a_missing_file_is_said_with_the_server_s_words_and_nothing_stays() {
    if !has_curl() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(content(), Manner::Nothing);
    let e = get(&server.entry(), dir.path(), "curl").expect_err("no such file");
    assert!(e.to_string().contains("404"), "{e}");
    let address = format!("{}web-Google.txt.gz", server.address);
    assert!(e.help().contains(&address), "{}", e.help());
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 0);
}

#[test]
fn a_file_that_its_server_changed_is_refused() {
    if !has_curl() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let first = Server::start(content(), Manner::Whole);
    let got = get(&first.entry(), dir.path(), "curl").expect("served");
    std::fs::remove_file(&got.path).expect("there");
    let other = Server::start(b"changed".to_vec(), Manner::Whole);
    let e = get(&other.entry(), dir.path(), "curl").expect_err("another checksum");
    assert!(e.to_string().contains("was recorded"), "{e}");
    assert!(e.help().contains("remove the file"), "{}", e.help());
}

#[test]
fn nobody_listening_is_said_with_the_files_and_their_place() {
    if !has_curl() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let entry = Entry {
        address: String::leak(format!("http://{address}/")),
        ..*find("web-google").expect("listed")
    };
    let e = get(&entry, dir.path(), "curl").expect_err("nobody listens");
    assert!(matches!(e, Error::Unreachable { .. }), "{e}");
    assert!(e.to_string().to_lowercase().contains("connect"), "{e}");
    let place = dir.path().display().to_string();
    for part in ["web-Google.txt.gz", place.as_str()] {
        assert!(e.help().contains(part), "{}", e.help());
    }
}

/// A program in place of curl.
fn program(folder: &Path, body: &str) -> String {
    let path = folder.join("curl");
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("writable");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("ours");
    path.display().to_string()
}

#[test]
fn files_are_fetched_once_recorded_and_compared() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    // The word after --output is the file; the last one is the address.
    let body = "while [ \"$1\" != --output ]; do shift; done; echo \"$3\" >> \"$2\"";
    let curl = program(dir.path(), body);
    let to = dir.path().join("data");
    let entry = find("web-google").expect("listed");
    let first = get(entry, &to, &curl).expect("fetched");
    assert_eq!(first.path, to.join("web-Google.txt.gz"));
    assert!(first.notes[0].contains("recorded now"), "{:?}", first.notes);
    let got = std::fs::read_to_string(&first.path).expect("there");
    assert!(got.ends_with("web-Google.txt.gz\n") && got.lines().count() == 1);
    let again = get(entry, &to, "/no/such/program").expect("nothing to fetch");
    assert!(again.notes[0].contains("as recorded"));
    std::fs::write(&first.path, "changed").expect("writable");
    let e = get(entry, &to, &curl).expect_err("another checksum");
    assert!(e.to_string().contains("was recorded"), "{e}");
}

#[test]
fn without_a_network_the_files_and_their_place_are_said() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    // What curl says where no name is resolved.
    let curl = program(
        dir.path(),
        "echo 'curl: (6) Could not resolve host' >&2; exit 6",
    );
    let to = dir.path().join("data");
    for program in [curl.as_str(), "/no/such/curl"] {
        let e = get(find("cora").expect("listed"), &to, program).expect_err("no network");
        assert!(matches!(e, Error::Unreachable { .. }), "{e}");
        let said = e.to_string().contains("Could not resolve host");
        assert_eq!(said, program == curl, "{e}");
        let help = e.help();
        let place = to.display().to_string();
        for part in ["ind.cora.graph", "ind.cora.test.index", place.as_str()] {
            assert!(help.contains(part), "{help}");
        }
    }
}
