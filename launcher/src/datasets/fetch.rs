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

/// Fetches one file under a temporary name.
fn fetch(entry: &Entry, file: &str, to: &Path, folder: &Path, curl: &str) -> Result<()> {
    let part = to.with_file_name(format!(
        "{}.part",
        to.file_name().unwrap_or_default().to_string_lossy()
    ));
    let status = Command::new(curl)
        .args(["--fail", "--location", "--silent", "--show-error"])
        .args([
            "--retry",
            "2",
            "--connect-timeout",
            "10",
            "--continue-at",
            "-",
        ])
        .arg("--output")
        .arg(&part)
        .arg(format!("{}{file}", entry.address))
        .status();
    match status {
        Ok(status) if status.success() => std::fs::rename(&part, to).map_err(Error::io(to)),
        Ok(status) => {
            let why = status
                .code()
                .map_or("a signal".into(), |c| format!("status {c}"));
            Err(by_hand(entry, folder, &format!("{curl} ended with {why}")))
        }
        Err(e) => Err(by_hand(entry, folder, &format!("{curl}: {e}"))),
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

/// Compares a file with its recorded checksum, or records it.
fn compare(folder: &Path, name: &str, path: &Path) -> Result<String> {
    let sums_at = folder.join(SUMS);
    let mut sums: BTreeMap<String, String> = match std::fs::read(&sums_at) {
        Ok(text) => serde_json::from_slice(&text).map_err(|source| Error::Json {
            path: sums_at.clone(),
            source,
        })?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
        Err(e) => return Err(Error::io(&sums_at)(e)),
    };
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
mod tests {
    use super::*;
    use crate::datasets::find;
    use std::os::unix::fs::PermissionsExt;

    /// A program in place of curl, which a test must not reach the network with.
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
        let curl = program(dir.path(), "exit 6");
        let to = dir.path().join("data");
        for program in [curl.as_str(), "/no/such/curl"] {
            let e = get(find("cora").expect("listed"), &to, program).expect_err("no network");
            assert!(matches!(e, Error::Unreachable { .. }), "{e}");
            let help = e.help();
            let place = to.display().to_string();
            for part in ["ind.cora.graph", "ind.cora.test.index", place.as_str()] {
                assert!(help.contains(part), "{help}");
            }
        }
    }
}
