//! A setting: keys and values that make a run.

use std::path::{Path, PathBuf};

use gnn_core::spec::Value;
use launcher::request::{Pair, parse_body};
use launcher::store::{self, Status};
use launcher::{Result, forecast};
use serde_json::json;

use super::draft;
use super::named::Named;
use super::planned::Planned;
use crate::in_words::or_end;
use crate::run::Run;
use crate::{program, source, train};

/// The file in a run's folder that says what was asked for, and of which program.
const ASKED: &str = "asked.json";

/// Keys and values of runs, in the words of a `%%gnn` cell; what is said later counts.
///
/// ```no_run
/// use halobook::prelude::*;
/// let setting = Setting::new("data = karate; ranks = 4; epochs = 20; link = \"1gbit,50us\"");
/// let one = setting.run("halo", "strategy = halo");
/// let methods = [("CAGNET", "strategy = broadcast"), ("SCS-E1", "strategy = sancus; bound = \"epoch-fixed=1\"")];
/// let by_method = setting.runs(&methods);
/// let by_ranks = setting.across(&[("2 ranks", "ranks = 2"), ("4 ranks", "ranks = 4")], &methods);
/// by_method.of("SCS-E1").plot("stale");
/// by_ranks.at("2 ranks", "CAGNET");
/// ```
///
/// A run that this store has finished for the same keys, by the same program, is taken over and not run
/// again: a notebook that is executed again computes what has changed. [`Setting::fresh`] runs again all
/// the same.
///
/// With `HALOBOOK_DRAFT=1` in the environment a run has two epochs at most, one seed, and a generated graph
/// of half of the vertices: whether all cells work is seen in minutes. Claims that do not hold then are
/// shown, and no cell fails by them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    pairs: Vec<Pair>,
    seeds: Option<u64>,
    fresh: bool,
}

impl Setting {
    /// A setting from the body of a `%%gnn` cell.
    ///
    /// # Panics
    /// When a statement is no `key = value`.
    pub fn new(body: &str) -> Setting {
        Setting::default().with(body)
    }

    /// The same with other values.
    ///
    /// # Panics
    /// When a statement is no `key = value`.
    #[must_use]
    #[track_caller]
    pub fn with(&self, body: &str) -> Setting {
        let mut more = self.clone();
        for (key, value) in or_end(parse_body(body)) {
            more.pairs.retain(|(known, _)| *known != key);
            more.pairs.push((key, value));
        }
        more
    }

    /// The same with so many seeds, from its own one on: every run is then as many.
    #[must_use]
    pub fn seeds(&self, count: u64) -> Setting {
        Setting {
            seeds: Some(count.max(1)),
            ..self.clone()
        }
    }

    /// The same, taking no finished run over.
    #[must_use]
    pub fn fresh(&self) -> Setting {
        Setting {
            fresh: true,
            ..self.clone()
        }
    }

    /// The value of a key, as it is written; none where it is not said.
    pub fn get(&self, key: &str) -> Option<String> {
        let found = self.pairs.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| match value {
            Value::Str(text) => text.clone(),
            other => other.to_string(),
        })
    }

    /// The value of a key that is a number; `otherwise` where it is not said.
    pub fn number(&self, key: &str, otherwise: f64) -> f64 {
        let found = self.pairs.iter().find(|(known, _)| known == key);
        found
            .and_then(|(_, value)| value.as_f64())
            .unwrap_or(otherwise)
    }

    /// The run of this setting and `body`, called `name`: a finished one, or a new one.
    ///
    /// # Panics
    /// When the request is refused or the run does not finish, with what it said.
    #[track_caller]
    pub fn run(&self, name: &str, body: &str) -> Run {
        or_end(self.try_run(name, body))
    }

    /// Like [`Setting::run`].
    ///
    /// # Errors
    /// [`launcher::Error::Refused`] with what `halobook train` wrote.
    pub fn try_run(&self, name: &str, body: &str) -> Result<Run> {
        let mut pairs = self.with(body).pairs;
        pairs.retain(|(key, _)| key != "name");
        if draft::asked() {
            draft::shorten(&mut pairs);
            draft::shrink(&mut pairs);
        }
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.push(("name".into(), Value::Str(name.into())));
        let asked = asked(&pairs);
        if let Some(run) = (!self.fresh).then(|| finished(&asked)).flatten() {
            return Ok(run);
        }
        let run = train::try_train_pairs(pairs)?;
        let path = run.dir().join(ASKED);
        store::write_atomic(&path, asked.to_string().as_bytes())?;
        Ok(run)
    }

    /// What a run of this setting and `body` would send, hold and take; nothing is trained. A plan that this
    /// store has is taken over, as runs are.
    ///
    /// ```no_run
    /// use halobook::prelude::*;
    /// let deep = Setting::new("data = \"like:flickr\"; layers = 32; hidden = 100; ranks = 8");
    /// let gib = deep.plan("strategy = gnnpipe").total("epoch_bytes") / 1024f64.powi(3);
    /// ```
    ///
    /// # Panics
    /// When the request is refused, with what it said.
    #[track_caller]
    pub fn plan(&self, body: &str) -> Planned {
        or_end(self.try_plan(body))
    }

    /// Like [`Setting::plan`].
    ///
    /// # Errors
    /// [`launcher::Error::Refused`] with what `halobook plan` wrote.
    pub fn try_plan(&self, body: &str) -> Result<Planned> {
        let mut pairs = self.with(body).pairs;
        if draft::asked() {
            draft::shrink(&mut pairs);
        }
        self.planned(pairs, &[])
    }

    /// Like [`Setting::plan`], of a generated graph that is too large to be made here (`like:reddit`): small graphs
    /// of its kind are planned, and what they come to is extended to its size. A draft plans the smallest of its kind.
    ///
    /// # Panics
    /// When the request is refused, with what it said.
    #[track_caller]
    pub fn forecast(&self, body: &str) -> Planned {
        let mut pairs = self.with(body).pairs;
        if draft::asked() {
            draft::shrink_most(&mut pairs);
            return or_end(self.planned(pairs, &[]));
        }
        or_end(self.planned(pairs, &["--forecast"]))
    }

    fn planned(&self, mut pairs: Vec<Pair>, how: &[&str]) -> Result<Planned> {
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        let words = how
            .iter()
            .map(|word| ((*word).to_owned(), Value::Bool(true)));
        let asked = asked(&pairs.iter().cloned().chain(words).collect::<Vec<_>>());
        let known = match self.fresh {
            true => None,
            false => same(&forecast::folder(), &asked).pop(),
        };
        if let Some(dir) = known {
            return source::plan(&name_of(&dir)).map(Planned);
        }
        let id = train::try_plan_pairs(pairs, how)?;
        let path = forecast::folder().join(&id).join(ASKED);
        store::write_atomic(&path, asked.to_string().as_bytes())?;
        source::plan(&id).map(Planned)
    }

    /// A run for each of `methods`, which are names and bodies.
    ///
    /// # Panics
    /// As [`Setting::run`].
    pub fn runs(&self, methods: &[(impl AsRef<str>, impl AsRef<str>)]) -> Named {
        self.family("method", methods)
    }

    /// A run for each of `members`; `what` says what their names are: `ranks`, `graph`.
    ///
    /// # Panics
    /// As [`Setting::run`].
    pub fn family(&self, what: &str, members: &[(impl AsRef<str>, impl AsRef<str>)]) -> Named {
        let mut named = Named::new(&[what]);
        for (name, body) in members {
            self.add(&mut named, &[name.as_ref()], body.as_ref());
        }
        named
    }

    /// A run for each of `methods` in each of `shapes`, which are names and bodies, too.
    ///
    /// # Panics
    /// As [`Setting::run`].
    pub fn across(
        &self,
        shapes: &[(impl AsRef<str>, impl AsRef<str>)],
        methods: &[(impl AsRef<str>, impl AsRef<str>)],
    ) -> Named {
        let mut named = Named::new(&["shape", "method"]);
        for (shape, how) in shapes {
            let setting = self.with(how.as_ref());
            for (method, body) in methods {
                let labels = [shape.as_ref(), method.as_ref()];
                setting.add(&mut named, &labels, body.as_ref());
            }
        }
        named
    }

    /// Adds the run, or the run of each seed.
    fn add(&self, named: &mut Named, labels: &[&str], body: &str) {
        let name: Vec<&str> = labels.iter().rev().copied().collect();
        let name = name.join(", ");
        let Some(seeds) = self.seeds else {
            return named.push(labels, self.run(&name, body));
        };
        let first = self.number("seed", 0.0) as u64;
        let seeds = if draft::asked() { 1 } else { seeds };
        for seed in first..first + seeds {
            let one = self.with(body).with(&format!("seed = {seed}"));
            named.push(labels, one.run(&name, ""));
        }
    }
}

/// What is asked for, in one form, and the program that it is asked of.
fn asked(pairs: &[Pair]) -> serde_json::Value {
    let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    json!({ "pairs": pairs, "program": identity(&program::program()) })
}

/// What tells a program from what is compiled later: its size and the time of its last change.
fn identity(program: &Path) -> Option<(PathBuf, u64, u128)> {
    let facts = std::fs::metadata(program).ok()?;
    let changed = facts.modified().ok()?.duration_since(std::time::UNIX_EPOCH);
    Some((program.to_owned(), facts.len(), changed.ok()?.as_nanos()))
}

/// Folders in `of` that were asked for in the same words, the newest last; none where nobody knows of which
/// program.
fn same(of: &Path, asked: &serde_json::Value) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found.retain(|dir| {
        let text = std::fs::read(dir.join(ASKED)).ok();
        let known = text.and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
        !asked["program"].is_null() && known.as_ref() == Some(asked)
    });
    found
}

fn name_of(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The newest finished run that was asked for in the same words.
fn finished(asked: &serde_json::Value) -> Option<Run> {
    let run = Run::at(same(&store::runs_dir(), asked).pop()?);
    (run.manifest().status == Status::Ok).then_some(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_later_counts() {
        let setting = Setting::new("data = karate; ranks = 4").with("ranks = 2; hidden = 8");
        assert_eq!(setting.get("ranks").as_deref(), Some("2"));
        assert_eq!(setting.get("data").as_deref(), Some("karate"));
        assert_eq!(setting.number("hidden", 16.0), 8.0);
        assert_eq!(setting.number("layers", 2.0), 2.0);
        assert_eq!(setting.get("layers"), None);
    }

    #[test]
    fn the_same_request_is_asked_in_the_same_words() {
        let of = |body: &str| {
            let mut pairs = Setting::new(body).pairs;
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            asked(&pairs)
        };
        assert_eq!(of("a = 1; b = x"), of("b = x; a = 1"));
        assert_ne!(of("a = 1"), of("a = 2"));
    }
}
