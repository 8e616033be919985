//! The rows of all runs in one table, and a copy of it that saves opening thousands of files.
//!
//! The copy lies in `$HALOBOOK_HOME/tables`, with a list of the runs in it and of the files that their rows came from.
//! It is only believed of a run whose file has the size and the time of change that the list has; whatever else
//! there is is read, and when that is much, the copy is written anew. Deleting it loses nothing.

use crate::error::{Error, Result};
use crate::manifest::{Manifest, Status};
use crate::{frames, store};
use polars::prelude::{DataFrame, SchemaRef};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Frames with a few rows an epoch or a rank: those with a row an operation are as large as their files.
const COPIED: [&str; 4] = ["epochs", "ranks", "comm", "partition"];

/// Runs that are read without writing the copy anew.
const FEW: usize = 32;

/// The rows of all runs, newest run first, and which runs are not among them, and why.
pub struct Gathered {
    /// One below the other. The newest run says which columns there are.
    pub frame: DataFrame,
    /// A line each.
    pub left_out: Vec<String>,
}

/// What the copy has of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    run_id: String,
    stamp: Stamp,
    rows: usize,
}

/// What tells a file from an earlier one in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    bytes: u64,
    changed_ns: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let about = std::fs::metadata(path).ok()?;
        let changed = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(Stamp {
            bytes: about.len(),
            changed_ns: changed.as_nanos() as u64,
        })
    }
}

/// The copy of one frame.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Copied {
    /// The file of its rows, which no other list names.
    file: String,
    entries: Vec<Entry>,
    #[serde(skip)]
    frame: DataFrame,
}

fn folder() -> PathBuf {
    store::home().join("tables")
}

impl Copied {
    /// Nothing where there is none, or none that is whole.
    fn read(frame: &str) -> Copied {
        let read = || -> Option<Copied> {
            let list = std::fs::read(folder().join(format!("{frame}.json"))).ok()?;
            let mut copied: Copied = serde_json::from_slice(&list).ok()?;
            if copied.file.contains(['/', '\\']) {
                return None;
            }
            copied.frame = frames::read_named(&folder().join(&copied.file), frame).ok()?;
            let rows: usize = copied.entries.iter().map(|entry| entry.rows).sum();
            (rows == copied.frame.height()).then_some(copied)
        };
        read().unwrap_or_default()
    }

    /// Where each run's rows begin, of runs whose files are as they were.
    fn starts(&self) -> HashMap<&str, (usize, &Entry)> {
        let mut from = 0;
        let places = self.entries.iter().map(|entry| {
            from += entry.rows;
            (&*entry.run_id, (from - entry.rows, entry))
        });
        places.collect()
    }

    /// A copy that cannot be written is no loss.
    fn write(mut self, frame: &str, before: &str) {
        self.file = format!("{frame}-{}.parquet", store::new_id());
        let list = serde_json::to_vec(&self).expect("plain words and numbers");
        let written = store::make(&folder())
            .and_then(|()| frames::write_named(&folder().join(&self.file), frame, &mut self.frame))
            .and_then(|()| store::write_atomic(&folder().join(format!("{frame}.json")), &list));
        if written.is_ok() && !before.is_empty() {
            let old = folder().join(before);
            let _ = std::fs::remove_file(old.with_extension("sha256"));
            let _ = std::fs::remove_file(old);
        }
    }
}

/// A frame of all runs of the store.
///
/// # Errors
/// When the store cannot be listed, or rows cannot be joined.
pub fn gathered(frame: &str) -> Result<Gathered> {
    let mut runs = store::list()?;
    runs.reverse();
    let is_copied = COPIED.contains(&frame);
    let copied = match is_copied {
        true => Copied::read(frame),
        false => Copied::default(),
    };
    let starts = copied.starts();
    let part = |run: &Manifest| -> Option<Part> {
        let dir = store::runs_dir().join(&run.run_id);
        let path = frames::path(&dir, frame);
        let ended = is_copied && run.status != Status::Running;
        let stamp = ended.then(|| Stamp::of(&path)).flatten();
        let known = starts.get(&*run.run_id);
        let rows = match known.filter(|(_, entry)| Some(entry.stamp) == stamp) {
            Some(&(from, entry)) => Source::Copied(from, entry.rows),
            None if frames::has(&dir, frame) => Source::Read(frames::load(&dir, frame)),
            None => return None,
        };
        let run_id = run.run_id.clone();
        Some(Part {
            run_id,
            stamp,
            rows,
        })
    };
    let mut joined = Joined::new(&copied.frame);
    for part in side_by_side(&runs, &part).into_iter().flatten() {
        joined.add(frame, part);
    }
    joined.flush();
    let used = joined.entries.len() - joined.read;
    if joined.read > FEW || copied.entries.len() - used > FEW {
        let again = Copied {
            file: String::new(),
            entries: std::mem::take(&mut joined.entries),
            frame: one_below_the_other(frame, std::mem::take(&mut joined.kept))?,
        };
        again.write(frame, &copied.file);
    }
    Ok(Gathered {
        frame: one_below_the_other(frame, joined.all)?,
        left_out: joined.left_out,
    })
}

/// What `of` makes of each, in order, by a few threads. They wait for the pool that reads columns, so they are none
/// of a pool themselves: a worker that waits begins the next file, and another one in that.
fn side_by_side<T: Sync, R: Send>(all: &[T], of: &(impl Fn(&T) -> R + Sync)) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let each = all.len().div_ceil(threads.min(8)).max(FEW);
    std::thread::scope(|scope| {
        let work = |chunk| scope.spawn(move || Vec::from_iter(<[T]>::iter(chunk).map(of)));
        let threads: Vec<_> = all.chunks(each).map(work).collect();
        let made = threads.into_iter().map(|thread| match thread.join() {
            Ok(made) => made,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        made.flatten().collect()
    })
}

/// What there is of one run.
struct Part {
    run_id: String,
    /// Of a file that may be copied.
    stamp: Option<Stamp>,
    rows: Source,
}

enum Source {
    /// In the copy: where they begin, and how many.
    Copied(usize, usize),
    Read(Result<DataFrame>),
}

/// The rows of runs, in order.
struct Joined<'a> {
    copy: &'a DataFrame,
    /// Rows of the copy that follow one another and are not among `all` yet: where they begin, and how many.
    pending: (usize, usize),
    all: Vec<DataFrame>,
    /// Those that the next copy would have, and of which runs.
    kept: Vec<DataFrame>,
    entries: Vec<Entry>,
    /// How many of those are not in the copy.
    read: usize,
    left_out: Vec<String>,
    columns: Option<SchemaRef>,
}

impl<'a> Joined<'a> {
    fn new(copy: &'a DataFrame) -> Joined<'a> {
        Joined {
            copy,
            pending: (0, 0),
            all: Vec::new(),
            kept: Vec::new(),
            entries: Vec::new(),
            read: 0,
            left_out: Vec::new(),
            columns: None,
        }
    }

    fn add(&mut self, frame: &str, part: Part) {
        let Part {
            run_id,
            stamp,
            rows,
        } = part;
        let schema = match &rows {
            Source::Copied(..) => self.copy.schema(),
            Source::Read(Ok(read)) => read.schema(),
            Source::Read(Err(error)) => {
                self.left_out
                    .push(format!("{frame} of run {run_id}: {error}"));
                return;
            }
        };
        if *self.columns.get_or_insert_with(|| schema.clone()) != *schema {
            self.left_out.push(format!(
                "{frame} of run {run_id}: it has other columns than the newest run's"
            ));
            return;
        }
        let count = match rows {
            Source::Copied(from, count) => {
                if self.pending.0 + self.pending.1 == from {
                    self.pending.1 += count;
                } else {
                    self.flush();
                    self.pending = (from, count);
                }
                count
            }
            Source::Read(read) => {
                let read = read.unwrap_or_default();
                let count = read.height();
                self.flush();
                if stamp.is_some() {
                    self.read += 1;
                    self.kept.push(read.clone());
                }
                self.all.push(read);
                count
            }
        };
        self.entries.extend(stamp.map(|stamp| Entry {
            run_id,
            stamp,
            rows: count,
        }));
    }

    fn flush(&mut self) {
        let (from, count) = std::mem::take(&mut self.pending);
        if count > 0 {
            let rows = self.copy.slice(from as i64, count);
            self.kept.push(rows.clone());
            self.all.push(rows);
        }
    }
}

fn one_below_the_other(frame: &str, parts: Vec<DataFrame>) -> Result<DataFrame> {
    let mut parts = parts.into_iter();
    let Some(mut all) = parts.next() else {
        return Ok(DataFrame::default());
    };
    for part in parts {
        all.vstack_mut_owned(part).map_err(Error::frame(frame))?;
    }
    all.align_chunks_par();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::*;

    fn part(run_id: &str, rows: Source) -> Part {
        Part {
            run_id: run_id.into(),
            stamp: Some(Stamp {
                bytes: 7,
                changed_ns: 9,
            }),
            rows,
        }
    }

    #[test]
    fn rows_of_the_copy_and_of_files_come_in_the_order_of_runs() {
        let copy = df!("x" => [0, 1, 2, 3, 4]).expect("a frame");
        let mut joined = Joined::new(&copy);
        joined.add("epochs", part("c", Source::Copied(0, 2)));
        joined.add("epochs", part("b", Source::Copied(2, 1)));
        let new = df!("x" => [9]).expect("a frame");
        joined.add("epochs", part("n", Source::Read(Ok(new))));
        joined.add("epochs", part("a", Source::Copied(4, 1)));
        let other = df!("y" => [1]).expect("a frame");
        joined.add("epochs", part("o", Source::Read(Ok(other))));
        joined.flush();
        assert_eq!(
            (joined.entries.len(), joined.read, joined.left_out.len()),
            (4, 1, 1)
        );
        assert_eq!(
            joined.all.len(),
            3,
            "rows that follow one another are one slice"
        );
        let all = one_below_the_other("epochs", joined.all).expect("joined");
        assert_eq!(all, df!("x" => [0, 1, 2, 9, 4]).expect("a frame"));
    }
}
