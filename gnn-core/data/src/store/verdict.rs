//! What was found of a stored graph before: that its structure is sound.
//!
//! Opening a graph looks at every index, because code behind relies on them. Whoever opens it again may
//! leave that out, as long as the file is the one that was looked at. A verdict is a small file in a
//! folder of the user's, named after the graph's path, that says of which file it was: device, inode,
//! length, times of the last change of content and of the inode (in nanoseconds), a checksum of the
//! header, and the versions of the format, of this program and of what is looked at. It holds
//! when its bytes are exactly those that would be written now; a damaged one is none.
//!
//! # Why that is enough
//! - A file that is replaced has another inode; one that is written to in place another time. The time of
//!   the inode's change cannot be set, so setting back the other one helps nobody.
//! - Times move in ticks, and two changes within one look the same. So nothing is kept of a file that
//!   changed just before ([`Stamp::settled`]): whatever changes it from then on gets another time.
//! - The times are taken from the open file before anything of it is looked at. A change while it is
//!   looked at is one after that.
//! - A folder that somebody else can write to is not protected against: it is where compiled strategies
//!   lie too, which are run.
//!
//! # Not done
//! Bytes that go bad on the disk, and writes through a mapping that another process made writable and
//! dirtied before, change no time. The first is what [`Stored::verify`](super::Stored::verify) is for.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::checksum;
use super::header::{SPACE, VERSION};

/// Raised when more is looked at when a graph is opened: what was found before says too little then.
const LOOKS: u32 = 1;

/// How long ago the last change must be. Systems here tick every 10 ms at the most.
const TICK: Duration = Duration::from_millis(100);

/// The same where times seem to be whole seconds; on FAT they are even ones.
const COARSE: Duration = Duration::from_secs(3);

/// A verdict that was written so long ago is removed, and made again if it is still wanted.
const OLD: Duration = Duration::from_secs(90 * 24 * 3600);

/// Where it is kept which stored graphs were found sound.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Verdicts(Option<PathBuf>);

impl Verdicts {
    /// Kept in a folder, which is made when there is something to keep. One that cannot be written
    /// costs time and is no error.
    pub fn within(folder: impl Into<PathBuf>) -> Verdicts {
        Verdicts(Some(folder.into()))
    }

    /// Kept nowhere: every opening looks at everything.
    pub fn none() -> Verdicts {
        Verdicts(None)
    }

    /// What is known of the file of that path.
    pub(super) fn of(&self, path: &Path, about: &Metadata, bytes: &[u8]) -> Verdict {
        let Some(folder) = &self.0 else {
            return Verdict::Unknown;
        };
        // Somebody may have removed it since it was opened; then there is nothing to find again.
        let Ok(path) = fs::canonicalize(path) else {
            return Verdict::Unknown;
        };
        let name = checksum::of(path.as_os_str().as_encoded_bytes());
        let file = folder.join(format!("{name:016x}.sound"));
        let stamp = Stamp::of(about, bytes);
        if fs::read(&file).is_ok_and(|kept| kept == stamp.text().as_bytes()) {
            return Verdict::Sound;
        }
        match stamp.settled(SystemTime::now()) {
            true => Verdict::Open { file, stamp },
            false => Verdict::Unknown,
        }
    }
}

/// What is known of an open file.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It was looked at before.
    Sound,
    /// It was not, and may be kept when it was.
    Open { file: PathBuf, stamp: Stamp },
    /// It was not, and nothing is to be kept.
    Unknown,
}

impl Verdict {
    /// Takes note that all was looked at and is sound.
    pub(super) fn keep(&self) {
        let Verdict::Open { file, stamp } = self else {
            return;
        };
        // Every failure costs the next opening its time, and nothing else.
        let _ = put(file, &stamp.text());
    }
}

/// Gives the file its name when it is whole.
fn put(file: &Path, text: &str) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    sweep(folder);
    let temporary = file.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&temporary, text)
        .and_then(|()| fs::rename(&temporary, file))
        // What cannot be removed is swept later.
        .inspect_err(|_| fs::remove_file(&temporary).unwrap_or_default())
}

/// Removes what is old, of killed writers too.
fn sweep(folder: &Path) {
    let now = SystemTime::now();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let written = entry.metadata().and_then(|about| about.modified()).ok();
        let age = written.and_then(|then| now.duration_since(then).ok());
        if age.is_some_and(|age| age > OLD) {
            // Somebody else may have removed it just now.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Which file, as it was when it was opened.
#[derive(Debug)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Nanoseconds since 1970 at which its content and its inode changed last.
    modified: i128,
    changed: i128,
    header: u64,
}

impl Stamp {
    fn of(about: &Metadata, bytes: &[u8]) -> Stamp {
        let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
        Stamp {
            device: about.dev(),
            inode: about.ino(),
            bytes: about.len(),
            modified: ns(about.mtime(), about.mtime_nsec()),
            changed: ns(about.ctime(), about.ctime_nsec()),
            header: checksum::block(&bytes[..SPACE.min(bytes.len())]),
        }
    }

    /// Whether every change from `now` on will have another time than the last one has. A time ahead of
    /// this clock is of another one, and says nothing.
    fn settled(&self, now: SystemTime) -> bool {
        let now = now.duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_nanos() as i128);
        let last = self.modified.max(self.changed);
        let whole = |ns: i128| ns % 1_000_000_000 == 0;
        let wait = match whole(self.changed) {
            true => COARSE,
            false => TICK,
        };
        now - last >= wait.as_nanos() as i128
    }

    /// What is kept.
    fn text(&self) -> String {
        let program = env!("CARGO_PKG_VERSION");
        let Stamp {
            device,
            inode,
            bytes,
            modified,
            changed,
            header,
        } = self;
        format!(
            "sound: format {VERSION}, looks {LOOKS}, program {program}, device {device}, inode {inode}, \
             {bytes} bytes, modified {modified}, changed {changed}, header {header:016x}\n"
        )
    }
}

#[cfg(test)]
mod tests;
