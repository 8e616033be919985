//! SQL over the run store: Polars answers, nothing is compiled.
//!
//! | table | rows |
//! |---|---|
//! | `runs` | one a run |
//! | `epochs`, `ranks`, `comm`, `spans`, `traced`, `partition` | those of all runs, by `run_id` |
//! | the name of a frame that a strategy adds | those of all its runs, by `run_id` |
//! | `r1_epochs`, `r1_ranks`, … | those of the run that is bound to `r1` |
//! | `latest_epochs`, `latest_ranks`, … | those of the last run, unless a run is bound to that name |
//! | a name | the frame of a sweep, a partition or a query that is bound to it |
//!
//! A table is read only if the query names it. What cannot be read of a run, or has other columns than the newest
//! run's (an older version's), is left out of the tables of all runs, and that is said.

use crate::error::{Error, Result};
use crate::{frames, store};
use polars::prelude::{DataFrame, IntoLazy, PolarsResult};
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

/// What a query answers.
#[derive(Debug)]
pub struct Answer {
    /// Its rows.
    pub frame: DataFrame,
    /// Which runs are not in it, and why, a line each.
    pub left_out: Vec<String>,
}

/// What a query answers of whole tables. `bound` are the names that it may use beside the store's tables.
///
/// # Errors
/// As [`query_in_part`], and where a run is left out of a table.
pub fn query(text: &str, bound: &[(String, Bound)]) -> Result<DataFrame> {
    let Answer { frame, left_out } = query_in_part(text, bound)?;
    match left_out.first() {
        None => Ok(frame),
        Some(first) => Err(Error::refused(
            format!("{} cannot be asked: {first}", plural(left_out.len())),
            "`halobook rm RUN` deletes a damaged run; a query says what it leaves out",
        )),
    }
}

fn plural(runs: usize) -> String {
    match runs {
        1 => "a run".to_owned(),
        runs => format!("{runs} runs"),
    }
}

/// What a query answers of the runs that can be read.
///
/// # Errors
/// [`Error::Refused`] with what Polars says about the query and the tables there are; what reading
/// a table of one run reports.
pub fn query_in_part(text: &str, bound: &[(String, Bound)]) -> Result<Answer> {
    let mut left_out = Vec::new();
    let mut context = SQLContext::new();
    let mut words: Vec<&str> = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    words.sort_unstable();
    words.dedup();
    let own: Vec<String> = frames::of_strategies()
        .into_iter()
        .map(|f| f.name)
        .collect();
    let mut rest = Vec::new();
    for word in words {
        match table(word, bound, &own, &mut left_out)? {
            Some(table) => context.register(word, table.lazy()),
            None => rest.push(word),
        }
    }
    let mut answered = execute(&mut context, text);
    if answered.is_err() && register_rest(&mut context, &rest, &mut left_out)? {
        answered = execute(&mut context, text);
    }
    left_out.sort_unstable();
    left_out.dedup();
    let frame = answered.map_err(|e| {
        let names = bound.iter().map(|(name, to)| match to {
            Bound::Run(_) => format!("{name}_epochs, {name}_ranks, …"),
            Bound::Frame(_) => name.clone(),
        });
        let mut tables = frames::names();
        tables.extend(names);
        if store::run_dir("latest").is_ok() {
            tables.push("latest_epochs, latest_ranks, …".to_owned());
        }
        Error::refused(
            format!("sql: {e}"),
            format!("tables: {}", tables.join(", ")),
        )
    })?;
    Ok(Answer { frame, left_out })
}

fn execute(context: &mut SQLContext, text: &str) -> PolarsResult<DataFrame> {
    context.execute(text).and_then(|lazy| lazy.collect())
}

/// The table of that name, if there is one; `own` are the frames of the strategies that are known here.
fn table(
    name: &str,
    bound: &[(String, Bound)],
    own: &[String],
    left_out: &mut Vec<String>,
) -> Result<Option<DataFrame>> {
    for (of, to) in bound {
        match to {
            Bound::Frame(path) if of == name => return frames::read_named(path, name).map(Some),
            Bound::Run(dir) => {
                let frame = name.strip_prefix(of.as_str());
                let frame = frame.and_then(|rest| rest.strip_prefix('_'));
                if let Some(frame) = frame.filter(|frame| frames::has(dir, frame)) {
                    return frames::load(dir, frame).map(Some);
                }
            }
            Bound::Frame(_) => {}
        }
    }
    if let Some(frame) = name.strip_prefix("latest_")
        && let Ok(dir) = store::run_dir("latest")
        && frames::has(&dir, frame)
    {
        return frames::load(&dir, frame).map(Some);
    }
    match name {
        "runs" => frames::runs().map(Some),
        _ if frames::of_every_run(name) || own.iter().any(|frame| frame == name) => {
            stacked(name, left_out).map(Some)
        }
        _ => Ok(None),
    }
}

/// Adds the tables among `words` that only runs know: frames of strategies which are gone. Whether there
/// are any.
fn register_rest(
    context: &mut SQLContext,
    words: &[&str],
    left_out: &mut Vec<String>,
) -> Result<bool> {
    let mut known: Vec<String> = Vec::new();
    for run in store::list()? {
        // A run whose list cannot be read says so where it is asked for by itself.
        let own = frames::of_run(&store::runs_dir().join(&run.run_id)).unwrap_or_default();
        known.extend(own.into_iter().map(|frame| frame.name));
    }
    let named = words
        .iter()
        .filter(|word| known.iter().any(|name| name == *word));
    let mut any = false;
    for word in named {
        context.register(word, stacked(word, left_out)?.lazy());
        any = true;
    }
    Ok(any)
}

/// A frame of all runs. Runs that cannot be read, or have other columns than the newest, are noted in `left_out`.
fn stacked(frame: &str, left_out: &mut Vec<String>) -> Result<DataFrame> {
    let gathered = frames::gathered(frame)?;
    left_out.extend(gathered.left_out);
    Ok(gathered.frame)
}

/// Keeps a frame in the store; its name there.
///
/// # Errors
/// When the store cannot be written.
pub fn keep(frame: &mut DataFrame) -> Result<String> {
    let dir = store::home().join("frames");
    store::make(&dir)?;
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
