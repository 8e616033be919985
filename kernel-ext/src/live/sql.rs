//! `%%sql`: Polars SQL over what is bound and over the run store, in this process. Frames that cells made are in
//! theirs: those that a query names are handed over as files.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use launcher::sql::{self, Bound};
use launcher::{forecast, partition, store, sweep};

use super::bound::Thing;
use super::{Session, lines, report};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::SqlRequest;

/// Answers, binds where a name is given, and shows the frame.
pub fn query(request: &SqlRequest, session: &Session<'_>) -> Outcome {
    let refused = |error: launcher::Error| lines::refused(&error);
    let mut tables = tables(session);
    let handed = HandedOver::of(&request.text, &tables, session)?;
    tables.extend(handed.tables());
    let answer = sql::query_in_part(&request.text, &tables).map_err(refused)?;
    for line in &answer.left_out {
        session.output.stderr(&format!("left out: {line}\n"));
    }
    let mut frame = answer.frame;
    let shown: Shown = report::frame(&frame);
    if let Some(name) = &request.output {
        let id = sql::keep(&mut frame).map_err(refused)?;
        session.bind_as(name, Thing::Frame(id))?;
    }
    Ok(Some(shown))
}

/// Frames of the cells' process that a query names, as files of their own until it is answered.
struct HandedOver {
    dir: PathBuf,
    names: Vec<String>,
}

impl HandedOver {
    fn of(
        query: &str,
        bound: &[(String, Bound)],
        session: &Session<'_>,
    ) -> Result<HandedOver, Failure> {
        let mut handed = HandedOver {
            dir: std::env::temp_dir().join(format!("halobook-sql-{}", launcher::store::new_id())),
            names: Vec::new(),
        };
        let words = query.split(|c: char| !c.is_alphanumeric() && c != '_');
        for word in words.filter(|word| !word.is_empty()) {
            let known = bound.iter().any(|(name, _)| name == word)
                || handed.names.iter().any(|name| name == word);
            let kind = if known { None } else { (session.kind_of)(word) };
            let collected = match kind.as_deref().and_then(|kind| kind.rsplit("::").next()) {
                Some("DataFrame") => "",
                Some("LazyFrame") => ".clone().collect()?",
                _ => continue,
            };
            private(&handed.dir).map_err(|error| {
                Failure::config(format!("{}: {error}", handed.dir.display()), [])
            })?;
            let file = handed.file(word);
            let code = format!(
                "halobook::Export::to_parquet(&{word}{collected}, {:?})?;",
                file.display().to_string()
            );
            (session.bind)(&code)?;
            handed.names.push(word.to_owned());
        }
        Ok(handed)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.parquet"))
    }

    fn tables(&self) -> impl Iterator<Item = (String, Bound)> {
        self.names
            .iter()
            .map(|name| (name.clone(), Bound::Frame(self.file(name))))
    }
}

/// A folder that nobody else reads; there is none of its name yet, or it is this query's.
fn private(dir: &Path) -> std::io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        made => made,
    }
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        if !self.names.is_empty() {
            // A file that is left behind is one of the system's temporary ones.
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// What the session's names stand for. A name whose file is gone is left out.
pub(super) fn tables(session: &Session<'_>) -> Vec<(String, Bound)> {
    let file = |thing: Thing| {
        Some(match thing {
            Thing::Cut(id) => Bound::Frame(partition::dir(&id).ok()?.join("partition.parquet")),
            Thing::Plan(id) => Bound::Frame(forecast::path(&id).ok()?),
            Thing::Sweep(_) | Thing::Runs(_) | Thing::Going(_) => {
                Bound::Frame(sweep::dir(thing.sweep()?).ok()?.join("frame.parquet"))
            }
            Thing::Frame(id) => Bound::Frame(sql::kept(&id).ok()?),
            Thing::Run(id) => Bound::Run(store::run_dir(&id).ok()?),
            Thing::Param { .. } => return None,
        })
    };
    let all = session.bound.all().into_iter();
    all.filter_map(|(name, thing)| Some((name, file(thing)?)))
        .collect()
}
