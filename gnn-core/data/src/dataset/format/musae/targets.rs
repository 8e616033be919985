//! The table of targets. Its first line names its columns, and each family of data sets has its own:
//!
//! | family | columns | vertex | target |
//! |---|---|---|---|
//! | Wikipedia | `id,target` | `id` | traffic, a number |
//! | Facebook | `id,facebook_id,page_name,page_type` | `id` | `page_type`, a name |
//! | GitHub | `id,name,ml_target` | `id` | `ml_target`, 0 or 1 |
//! | Twitch | `id,days,mature,views,partner,new_id` | `new_id` | `mature`, `True` or `False` |
//!
//! A target with few values is a class: names are numbered in sorted order, `False` is 0. Numbers with many
//! values are cut into five classes of equal size, as Geom-GCN did: the lowest fifth is class 0.

use std::io::Read;
use std::path::Path;

use crate::dataset::source::{open, shown};
use crate::dataset::{Limit, bad};
use crate::{Error, Result};

/// Different targets that still are classes.
const MAX_CLASSES: usize = 64;

/// Classes that numbers with more values are cut into.
const FIFTHS: usize = 5;

/// Columns of targets, the first that is there.
const TARGETS: [&str; 4] = ["target", "page_type", "ml_target", "mature"];

/// Columns of vertices, the first that is there.
const IDS: [&str; 2] = ["new_id", "id"];

/// Bytes of a line that are counted against the limit beside its text.
const LINE: u64 = 64;

/// The class of every vertex.
pub(super) struct Targets {
    /// By vertex.
    pub(super) classes: Vec<i64>,
    /// What the classes are called, where targets were no numbers.
    pub(super) names: Vec<String>,
    /// Whether numbers had to be cut into fifths.
    pub(super) fifths: bool,
}

/// Reads the table `path`, which may be compressed.
///
/// # Errors
/// [`Error::Data`] with the line that is damaged or names a vertex that is not there or was before.
pub(super) fn read(path: &Path, limit: &Limit) -> Result<Targets> {
    let file = path.display().to_string();
    let mut table = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        // A field may end nowhere.
        .from_reader(open(path, limit)?.take(limit.bytes() / 4));
    let mut record = csv::StringRecord::new();
    let mut next = |record: &mut csv::StringRecord| {
        let at = table.position().line();
        let more = table
            .read_record(record)
            .map_err(|e| unreadable(&file, at, &e))?;
        limit.take(2 * record.as_slice().len() as u64 + LINE, &file, "targets")?;
        Ok::<_, Error>(more.then_some(record.position().map_or(at, csv::Position::line)))
    };
    let (id, target) = if next(&mut record)?.is_some() {
        columns(&record, &file)?
    } else {
        return Err(bad(&file, "line 1", "the table is empty", HEAD));
    };
    let mut given: Vec<(String, String, u64)> = Vec::new();
    while let Some(line) = next(&mut record)? {
        let (Some(v), Some(target)) = (record.get(id), record.get(target)) else {
            let reason = format!("has {} fields", record.len());
            let help = "give every column that the first line names one value a line";
            return Err(bad(&file, format!("line {line}"), reason, help));
        };
        given.push((v.to_owned(), target.to_owned(), line));
    }
    let n = given.len();
    let mut by_vertex: Vec<Option<String>> = vec![None; n];
    for (v, target, line) in given {
        let slot = v.parse().ok().and_then(|v: usize| by_vertex.get_mut(v));
        let Some(slot) = slot.filter(|slot| slot.is_none()) else {
            let reason = format!("vertex {} is outside 0..{n} or there twice", shown(&v));
            return Err(bad(
                &file,
                format!("line {line}"),
                reason,
                "give every vertex one line",
            ));
        };
        *slot = Some(target);
    }
    classes(by_vertex.into_iter().flatten().collect(), &file)
}

const HEAD: &str = "name the columns in the first line: id,target";

fn unreadable(file: &str, line: u64, e: &csv::Error) -> Error {
    let help = "save the table as UTF-8 text, or download the file again";
    bad(
        file,
        format!("line {line}"),
        format!("cannot be read: {e}"),
        help,
    )
}

/// Where the first line says that vertices and targets are.
fn columns(names: &csv::StringRecord, file: &str) -> Result<(usize, usize)> {
    let find = |wanted: &[&str]| {
        let mut wanted = wanted.iter();
        wanted.find_map(|w| {
            names
                .iter()
                .position(|name| name.trim_start_matches('\u{feff}') == *w)
        })
    };
    let target = find(&TARGETS).or((names.len() == 2).then_some(1));
    let target = target.ok_or_else(|| {
        let reason = format!(
            "names no target: {}",
            shown(&names.iter().collect::<Vec<_>>().join(","))
        );
        bad(
            file,
            "line 1",
            reason,
            "call the column of the classes target",
        )
    })?;
    match find(&IDS).unwrap_or(0) {
        id if id != target => Ok((id, target)),
        _ => Err(bad(file, "line 1", "names no column of vertices", HEAD)),
    }
}

fn classes(targets: Vec<String>, file: &str) -> Result<Targets> {
    let numbers: Option<Vec<i64>> = targets.iter().map(|t| t.parse().ok()).collect();
    if let Some(numbers) = numbers {
        let (classes, fifths) = of_numbers(&numbers);
        return Ok(Targets {
            classes,
            names: Vec::new(),
            fifths,
        });
    }
    let truth = |t: &String| match t.to_lowercase().as_str() {
        "false" => Some(0),
        "true" => Some(1),
        _ => None,
    };
    let truths: Option<Vec<i64>> = targets.iter().map(truth).collect();
    if let Some(classes) = truths {
        let names = ["False", "True"].map(str::to_owned).into();
        return Ok(Targets {
            classes,
            names,
            fifths: false,
        });
    }
    let mut names = targets.clone();
    names.sort_unstable();
    names.dedup();
    if names.len() > MAX_CLASSES {
        let reason = format!("{} different names are no classes", names.len());
        let help = format!("give at most {MAX_CLASSES} classes, or numbers");
        return Err(bad(file, "target", reason, help));
    }
    let class = |t: &String| names.binary_search(t).map_or(-1, |c| c as i64);
    let classes = targets.iter().map(class).collect();
    Ok(Targets {
        classes,
        names,
        fifths: false,
    })
}

/// A class for each number, and whether they had to be cut into fifths.
fn of_numbers(targets: &[i64]) -> (Vec<i64>, bool) {
    let mut values = targets.to_vec();
    values.sort_unstable();
    let sorted = values.clone();
    values.dedup();
    if values.len() <= MAX_CLASSES {
        let class = |t: &i64| values.binary_search(t).map_or(-1, |c| c as i64);
        return (targets.iter().map(class).collect(), false);
    }
    // Equal targets are of one class.
    let class = |t: &i64| sorted.partition_point(|x| x < t) * FIFTHS / sorted.len();
    (targets.iter().map(|t| class(t) as i64).collect(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Targets> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        read(file.path(), &Limit::new(1 << 20))
    }

    fn reason(text: &str) -> String {
        of(text).err().expect("refused").to_string()
    }

    #[test]
    fn every_published_family_is_read() {
        let wikipedia = of("id,target\n1,9\n0,4\n2,9\n").expect("numbers");
        assert_eq!(
            (wikipedia.classes, wikipedia.names.len()),
            (vec![0, 1, 1], 0)
        );
        let facebook = of("id,facebook_id,page_name,page_type\n\
                           0,145647315578475,\"Voice, of China\",tvshow\n1,2,\"a \"\"b\"\"\",company\n");
        let facebook = facebook.expect("names");
        assert_eq!(facebook.classes, [1, 0]);
        assert_eq!(facebook.names, ["company", "tvshow"]);
        let github = of("\u{feff}id,name,ml_target\r\n0,x,1\r\n1,y,0\r\n").expect("0 and 1");
        assert_eq!(github.classes, [1, 0]);
        let twitch = of(
            "id,days,mature,views,partner,new_id\n73045350,1459,True,9528,False,1\n\
                         61573865,1629,FALSE,3615,False,0\n",
        );
        let twitch = twitch.expect("truths");
        assert_eq!(twitch.classes, [0, 1]);
    }

    #[test]
    fn many_numbers_are_cut_into_fifths() {
        let mut text = String::from("id,target\n");
        (0..100).for_each(|v| text += &format!("{v},{}\n", 7 * v));
        let cut = of(&text).expect("numbers");
        assert!(cut.fifths);
        assert_eq!(
            (cut.classes[0], cut.classes[20], cut.classes[99]),
            (0, 1, 4)
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        assert!(reason("").contains("empty"));
        assert!(
            reason("id,target\n0,1\n0,2\n").contains("line 3"),
            "{}",
            reason("id,target\n0,1\n0,2\n")
        );
        assert!(reason("id,target\n5,1\n").contains("outside 0..1"));
        assert!(reason("id,target\n0\n").contains("has 1 fields"));
        assert!(reason("a,b,c\n0,1,2\n").contains("names no target"));
        let names: String = (0..70).map(|v| format!("{v},n{v}\n")).collect();
        assert!(reason(&format!("id,target\n{names}")).contains("70 different names"));
    }
}
