//! When a stored graph is looked at again: whenever it may be another one, and only then. Whether it was
//! looked at is seen by an index out of range: only one who looks refuses it.
//! Not caught here: file systems whose times say less than this machine's.

use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};

use super::super::{Stored, save};
use super::*;
use crate::Result;
use crate::testing::{random_dataset, with_relations};

/// A stored graph, and where its verdicts are kept.
struct Case {
    dir: tempfile::TempDir,
    verdicts: Verdicts,
}

impl Case {
    fn new() -> Case {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let verdicts = Verdicts::within(dir.path().join("kept"));
        let case = Case { dir, verdicts };
        case.write();
        case
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("a.halo")
    }

    fn write(&self) {
        let data = with_relations(random_dataset(40, 200, 3, 4, false, 8), 3, 1);
        save(&data, "test", None, &self.path()).expect("a valid data set");
    }

    fn open(&self) -> Result<Stored> {
        Stored::open_known(&self.path(), &self.verdicts)
    }

    fn load(&self) -> Result<()> {
        self.open()?.dataset().map(drop)
    }

    fn is_known(&self) -> bool {
        matches!(self.open().expect("opens").verdict, Verdict::Sound)
    }

    /// The verdict's file.
    fn kept(&self) -> Option<PathBuf> {
        let mut entries = fs::read_dir(self.dir.path().join("kept")).ok()?.flatten();
        let first = entries.next().map(|entry| entry.path());
        assert_eq!(entries.count(), 0, "one file, nothing temporary");
        first
    }

    /// Opens it once its last change is long enough ago.
    fn settle(&self) {
        std::thread::sleep(2 * TICK);
        // On a file system of whole seconds.
        for _ in 0..40 {
            self.load().expect("sound");
            if self.kept().is_some() && self.is_known() {
                return;
            }
            std::thread::sleep(TICK);
        }
        panic!("nothing was kept");
    }

    /// Changes a source in place into a vertex that is not there; returns what stood there.
    fn spoil(&self) -> u32 {
        let stored = self.open().expect("opens");
        let at = stored.header().section("indices").expect("written").offset + 12;
        let file = File::options().read(true).write(true).open(self.path());
        let file = file.expect("ours");
        let mut old = [0; 4];
        file.read_exact_at(&mut old, at).expect("long enough");
        file.write_all_at(&[200, 0, 0, 0], at).expect("writable");
        u32::from_le_bytes(old)
    }

    fn is_refused(&self) {
        let e = self.load().expect_err("a source out of range");
        assert!(e.to_string().contains("sources below 40"), "{e}");
    }
}

#[test]
fn what_was_found_sound_is_not_looked_at_again_and_is_the_same() {
    let case = Case::new();
    let first = case.open().expect("opens").dataset().expect("sound");
    case.settle();
    let again = case.open().expect("opens").dataset().expect("sound");
    assert_eq!(first.graph, again.graph);
    assert_eq!(first.labels, again.labels);
    // By another name of the same path too, and by nobody who keeps nothing.
    let other = case.dir.path().join("kept/../a.halo");
    let by_other = Stored::open_known(&other, &case.verdicts).expect("opens");
    assert!(matches!(by_other.verdict, Verdict::Sound));
    let plain = Stored::open(&case.path()).expect("opens");
    assert!(matches!(plain.verdict, Verdict::Unknown));
}

#[test]
fn a_file_that_changed_just_now_is_not_kept() {
    let stamp = |modified, changed| Stamp {
        device: 1,
        inode: 1,
        bytes: 1,
        modified,
        changed,
        header: 1,
    };
    let second = 1_000_000_000;
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    for (modified, changed, settled) in [
        (5, 900 * second + 1, true),
        (5, 999 * second + 899_999_999, true),
        (5, 999 * second + 900_000_001, false),
        // Whole seconds may be all that the system knows.
        (5, 997 * second, true),
        (5, 998 * second, false),
        // Of another clock, or set by hand.
        (2000 * second, 900 * second + 1, false),
        (5, 1001 * second, false),
    ] {
        let stamp = stamp(modified, changed);
        assert_eq!(stamp.settled(now), settled, "{stamp:?}");
    }
}

#[test]
fn content_changed_in_place_with_the_same_length_is_looked_at_again() {
    let case = Case::new();
    case.settle();
    case.spoil();
    assert!(!case.is_known());
    case.is_refused();
    case.is_refused();
}

#[test]
fn setting_the_time_of_a_changed_file_back_does_not_help() {
    let case = Case::new();
    case.settle();
    let before = fs::metadata(case.path()).expect("there").modified();
    case.spoil();
    let file = File::options().write(true).open(case.path());
    let set = file.and_then(|f| f.set_modified(before.expect("has one")));
    set.expect("ours");
    assert!(!case.is_known());
    case.is_refused();
}

#[test]
fn a_touched_file_is_looked_at_once_more_and_known_then() {
    let case = Case::new();
    case.settle();
    let file = File::options().write(true).open(case.path());
    let then = SystemTime::now() - Duration::from_secs(3600);
    file.and_then(|f| f.set_modified(then)).expect("ours");
    assert!(!case.is_known());
    case.settle();
}

#[test]
fn a_file_written_anew_is_looked_at_again() {
    let case = Case::new();
    case.settle();
    case.write();
    assert!(!case.is_known(), "another inode");
    // And one that was moved there with its times as they were.
    case.settle();
    let other = case.dir.path().join("b.halo");
    fs::copy(case.path(), &other).expect("space");
    case.spoil();
    fs::rename(case.path(), case.dir.path().join("c.halo")).expect("ours");
    fs::rename(&other, case.path()).expect("ours");
    assert!(!case.is_known());
    fs::rename(case.dir.path().join("c.halo"), case.path()).expect("ours");
    case.is_refused();
}

#[test]
fn a_damaged_verdict_is_none_and_is_mended() {
    let case = Case::new();
    case.settle();
    let kept = case.kept().expect("settled");
    let whole = fs::read(&kept).expect("ours");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&kept, &bytes).expect("ours");
        assert!(!case.is_known(), "byte {at}");
        fs::write(&kept, &whole[..at]).expect("ours");
        assert!(!case.is_known(), "cut off at {at}");
    }
    fs::write(&kept, [&whole[..], b"\n"].concat()).expect("ours");
    assert!(!case.is_known(), "longer");
    case.load().expect("sound");
    assert_eq!(fs::read(&kept).expect("ours"), whole);
    assert!(case.is_known());
}

#[test]
fn a_verdict_that_cannot_be_kept_costs_no_more_than_a_look() {
    let mut case = Case::new();
    std::thread::sleep(2 * TICK);
    // A file where the folder should be, which stops everybody.
    case.verdicts = Verdicts::within(case.path().join("kept"));
    case.load().expect("sound");
    assert!(!case.is_known());
    // A folder without the right to write, which stops everybody but root.
    let locked = case.dir.path().join("kept");
    fs::create_dir(&locked).expect("ours");
    let rights = |mode| fs::set_permissions(&locked, fs::Permissions::from_mode(mode));
    rights(0o555).expect("ours");
    case.verdicts = Verdicts::within(&locked);
    case.load().expect("sound");
    rights(0o755).expect("ours");
    case.spoil();
    case.is_refused();
}

#[test]
fn an_unsound_file_is_never_kept() {
    let case = Case::new();
    case.spoil();
    std::thread::sleep(2 * TICK);
    case.is_refused();
    assert_eq!(case.kept(), None);
}

#[test]
fn what_a_verdict_is_not_about_is_looked_at_each_time() {
    let case = Case::new();
    let labels = case
        .open()
        .expect("opens")
        .header()
        .section("label")
        .cloned();
    let file = File::options().write(true).open(case.path()).expect("ours");
    let at = labels.expect("written").offset;
    file.write_all_at(&[9, 9], at).expect("writable");
    std::thread::sleep(2 * TICK);
    for _ in 0..2 {
        let e = case.load().expect_err("a class out of range");
        assert!(e.to_string().contains("class"), "{e}");
    }
}

#[test]
fn old_verdicts_and_leftovers_are_removed_when_one_is_kept() {
    let case = Case::new();
    let folder = case.dir.path().join("kept");
    fs::create_dir(&folder).expect("ours");
    let old = folder.join("0123456789abcdef.1.tmp");
    fs::write(&old, "half").expect("ours");
    let file = File::options().write(true).open(&old).expect("ours");
    file.set_modified(SystemTime::now() - 2 * OLD)
        .expect("ours");
    std::thread::sleep(2 * TICK);
    case.load().expect("sound");
    assert!(!old.exists());
}
