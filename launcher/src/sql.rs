//! SQL over the run store: Polars answers, nothing is compiled.
//!
//! | table | rows |
//! |---|---|
//! | `runs` | one a run |
//! | `epochs`, `ranks`, `comm`, `stale`, `batches`, `hops`, `spans`, `traced`, `partition` | those of all runs, by `run_id` |
//! | `r1_epochs`, `r1_ranks`, … | those of the run that is bound to `r1` |
//! | a name | the frame of a sweep, a partition or a query that is bound to it |
//!
//! A table is read only if the query names it. Runs of an older version whose frames have other columns
//! are left out of the tables of all runs.

use crate::error::{Error, Result};
use crate::{frames, store};
use polars::prelude::{DataFrame, IntoLazy};
use polars::sql::SQLContext;
use std::path::{Path, PathBuf};

/// What a name is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// A run, by its folder.
    Run(PathBuf),
    /// A frame, by its file.
    Frame(PathBuf),
}

/// What a query answers. `bound` are the names that it may use beside the store's tables.
///
/// # Errors
/// [`Error::Refused`] with what Polars says about the query and the tables there are; what reading
/// a table reports.
pub fn query(text: &str, bound: &[(String, Bound)]) -> Result<DataFrame> {
    let mut context = SQLContext::new();
    let mut words: Vec<&str> = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    words.sort_unstable();
    words.dedup();
    for word in words {
        if let Some(table) = table(word, bound)? {
            context.register(word, table.lazy());
        }
    }
    let answered = context.execute(text).and_then(|lazy| lazy.collect());
    answered.map_err(|e| {
        let names = bound.iter().map(|(name, to)| match to {
            Bound::Run(_) => format!("{name}_epochs, {name}_ranks, …"),
            Bound::Frame(_) => name.clone(),
        });
        let mut tables: Vec<String> = frames::FRAMES.iter().map(|f| (*f).to_owned()).collect();
        tables.extend(names);
        Error::refused(
            format!("sql: {e}"),
            format!("tables: {}", tables.join(", ")),
        )
    })
}

/// The table of that name, if there is one.
fn table(name: &str, bound: &[(String, Bound)]) -> Result<Option<DataFrame>> {
    for (of, to) in bound {
        match to {
            Bound::Frame(path) if of == name => return frames::read_named(path, name).map(Some),
            Bound::Run(dir) => {
                let frame = name.strip_prefix(of.as_str());
                let frame = frame.and_then(|rest| rest.strip_prefix('_'));
                if let Some(frame) = frame.filter(|f| frames::FRAMES.contains(f)) {
                    return frames::load(dir, frame).map(Some);
                }
            }
            Bound::Frame(_) => {}
        }
    }
    match name {
        "runs" => frames::runs().map(Some),
        _ if frames::FRAMES.contains(&name) => stacked(name).map(Some),
        _ => Ok(None),
    }
}

/// A frame of all runs, one below the other. The newest run says which columns there are.
fn stacked(frame: &str) -> Result<DataFrame> {
    let mut all: Option<DataFrame> = None;
    for run in store::list()?.into_iter().rev() {
        // A run whose rows cannot be read says so where it is asked for by itself.
        let Ok(part) = frames::load(&store::runs_dir().join(&run.run_id), frame) else {
            continue;
        };
        match &mut all {
            None => all = Some(part),
            Some(all) if all.schema() == part.schema() => {
                all.vstack_mut(&part).map_err(Error::frame(frame))?;
            }
            Some(_) => {}
        }
    }
    Ok(all.unwrap_or_default())
}

/// Keeps a frame in the store; its name there.
///
/// # Errors
/// When the store cannot be written.
pub fn keep(frame: &mut DataFrame) -> Result<String> {
    let dir = store::home().join("frames");
    std::fs::create_dir_all(&dir).map_err(Error::io(&dir))?;
    let id = store::new_id();
    frames::write_named(&kept(&id)?, "query", frame)?;
    Ok(id)
}

/// The file of a frame that is kept under `id`.
///
/// # Errors
/// [`Error::Refused`] for what is no name of one.
pub fn kept(id: &str) -> Result<PathBuf> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if id.is_empty() || !id.chars().all(plain) {
        return Err(Error::refused(
            format!("there is no frame {id:?}"),
            "%%sql -o NAME keeps one",
        ));
    }
    Ok(store::home().join("frames").join(format!("{id}.parquet")))
}

/// Reads it back.
///
/// # Errors
/// When it cannot be read.
pub fn load(path: &Path) -> Result<DataFrame> {
    frames::read_named(path, "query")
}
