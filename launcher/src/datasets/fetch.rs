//! Getting the files of a data set: resumed, compared with their checksums, unpacked.

use super::table::{Entry, Payload};
use super::unpack::unpack;
use crate::error::{Error, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where checksums are kept beside the files that they are of.
const SUMS: &str = "sha256.json";

/// What [`get`] did.
#[derive(Debug, Clone, PartialEq)]
pub struct Fetched {
    /// The folder or file to give as `--data`, or to `halobook convert`.
    pub path: PathBuf,
    /// What was found out about each file.
    pub notes: Vec<String>,
}

/// Gets the files of `entry` into `folder` with the program `curl`, going on where an earlier attempt
/// ended; files that are there are not fetched again. Nobody publishes checksums of these files, so
/// that of the first download is recorded, and later ones are compared with it.
///
/// # Errors
/// [`Error::Refused`] when a file cannot be fetched, with the files and where to put them, or when
/// its checksum is another than the recorded one; [`Error::Io`].
pub fn get(entry: &Entry, folder: &Path, curl: &str) -> Result<Fetched> {
    std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
    let mut notes = Vec::new();
    for file in entry.files() {
        let name = file.rsplit('/').next().unwrap_or(file);
        let to = folder.join(name);
        if !to.is_file() {
            fetch(entry, file, &to, folder, curl)?;
        }
        notes.push(compare(folder, name, &to)?);
    }
    let path = match entry.payload {
        Payload::Files([only]) => folder.join(only),
        Payload::Files(_) => folder.to_owned(),
        Payload::Edges(file) => folder.join(file.rsplit('/').next().unwrap_or(file)),
        Payload::Zip(file) => {
            unpack(&folder.join(file), folder)?;
            folder.to_owned()
        }
    };
    Ok(Fetched { path, notes })
}

/// Times that a cut connection is taken up again, as long as each brings more of the file.
const RESUMED: usize = 20;

/// How curl ends when a transfer stops early: a partial file, a time limit, nothing received, a
/// connection that breaks, a broken stream of HTTP/2.
const CUT: [i32; 5] = [18, 28, 52, 56, 92];

/// How curl ends when a server does not send the rest of a file.
const NO_RANGE: i32 = 33;

/// What a server says when there is nothing where the rest of a file should begin. Curl takes that for
/// success, as it does not know whether the file is whole, or of another version that was longer.
const NO_REST: u16 = 416;

/// Fetches one file under a temporary name.
fn fetch(entry: &Entry, file: &str, to: &Path, folder: &Path, curl: &str) -> Result<()> {
    let part = to.with_file_name(format!(
        "{}.part",
        to.file_name().unwrap_or_default().to_string_lossy()
    ));
    let address = format!("{}{file}", entry.address);
    let got = || std::fs::metadata(&part).map_or(0, |m| m.len());
    let mut before = got();
    let mut left = RESUMED;
    loop {
        let ended = Command::new(curl)
            .args(["--fail", "--location", "--silent", "--show-error"])
            .args(["--retry", "2", "--connect-timeout", "10"])
            // A connection over which nothing comes for a minute is taken for cut.
            .args(["--speed-limit", "1", "--speed-time", "60"])
            .args(["--dump-header", "-", "--continue-at", "-", "--output"])
            .arg(&part)
            .arg(&address)
            .output();
        let ended = ended.map_err(|e| by_hand(entry, folder, &format!("{curl}: {e}")))?;
        let code = ended.status.code();
        let answer = Answer::last(&String::from_utf8_lossy(&ended.stdout));
        let no_rest = answer.status == NO_REST && before > 0;
        let whole = match no_rest {
            true => is_whole(folder, to, &part, answer.total)?,
            false => ended.status.success() && answer.status != NO_REST,
        };
        if whole {
            return std::fs::rename(&part, to).map_err(Error::io(to));
        }
        let again = if no_rest || code == Some(NO_RANGE) && before > 0 {
            // What is there is no use then.
            std::fs::remove_file(&part).map_err(Error::io(&part))?;
            true
        } else {
            code.is_some_and(|code| CUT.contains(&code)) && got() > before
        };
        if !again || left == 0 {
            let words = String::from_utf8_lossy(&ended.stderr);
            let why = match (words.trim().lines().last(), code) {
                (Some(line), _) => line.to_owned(),
                (None, Some(code)) => format!("{curl} ended with status {code}"),
                (None, None) => format!("{curl} was ended by a signal"),
            };
            return Err(by_hand(entry, folder, &why));
        }
        left -= 1;
        before = got();
    }
}

/// What a server answered.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    /// 0 where it was not asked over HTTP.
    status: u16,
    /// Bytes that the file has, where it was asked for others.
    total: Option<u64>,
}

impl Answer {
    /// The last of those whose heads are there: before it are redirections.
    fn last(heads: &str) -> Answer {
        let mut answer = Answer::default();
        for line in heads.lines() {
            if let Some(rest) = line.strip_prefix("HTTP/") {
                let status = rest.split(' ').nth(1).and_then(|s| s.trim().parse().ok());
                answer = Answer {
                    status: status.unwrap_or(0),
                    total: None,
                };
            }
            if let Some(("content-range", range)) = line.to_lowercase().split_once(':') {
                let total = range.split('/').nth(1);
                answer.total = total.and_then(|t| t.trim().parse().ok());
            }
        }
        answer
    }
}

/// Whether what is there is the file, of which a server has no rest: its checksum decides where one is
/// recorded, else how many bytes the server says the file has.
fn is_whole(folder: &Path, to: &Path, part: &Path, total: Option<u64>) -> Result<bool> {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    match recorded(folder)?.get(&*name) {
        Some(sum) => Ok(*sum == sha256(part)?),
        None => Ok(total == Some(std::fs::metadata(part).map_err(Error::io(part))?.len())),
    }
}

/// What to do without a network.
fn by_hand(entry: &Entry, folder: &Path, why: &str) -> Error {
    let files: Vec<String> = entry
        .files()
        .iter()
        .map(|f| format!("{}{f}", entry.address))
        .collect();
    Error::Unreachable {
        what: format!("{}: cannot be downloaded ({why})", entry.name),
        help: format!(
            "on a machine with a network get {} and put {} into {}, then run this again",
            files.join(" and "),
            if files.len() == 1 { "it" } else { "them" },
            folder.display()
        ),
    }
}

/// Recorded checksums by file.
fn recorded(folder: &Path) -> Result<BTreeMap<String, String>> {
    let path = folder.join(SUMS);
    match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|source| Error::Json { path, source }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(e) => Err(Error::io(&path)(e)),
    }
}

/// Compares a file with its recorded checksum, or records it.
fn compare(folder: &Path, name: &str, path: &Path) -> Result<String> {
    let sums_at = folder.join(SUMS);
    let mut sums = recorded(folder)?;
    let sum = sha256(path)?;
    match sums.get(name) {
        Some(recorded) if *recorded == sum => Ok(format!("{name}: sha256 {sum}, as recorded")),
        Some(recorded) => Err(Error::refused(
            format!(
                "{}: sha256 {sum}, but {recorded} was recorded",
                path.display()
            ),
            format!(
                "remove the file to get it again; if its source changed it, remove {} too",
                sums_at.display()
            ),
        )),
        None => {
            sums.insert(name.to_owned(), sum.clone());
            let text = serde_json::to_vec_pretty(&sums).expect("text");
            std::fs::write(&sums_at, text).map_err(Error::io(&sums_at))?;
            Ok(format!(
                "{name}: sha256 {sum}, recorded now (no published one is known)"
            ))
        }
    }
}

fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(Error::io(path))?;
    let (mut hash, mut block) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        let got = file.read(&mut block).map_err(Error::io(path))?;
        if got == 0 {
            break;
        }
        hash.update(&block[..got]);
    }
    let sum = hash.finalize();
    Ok(sum.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests;
