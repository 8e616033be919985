//! What is bound in this session: variables to things on disk, so that they can be bound again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a variable stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thing {
    /// A run, by its id.
    Run(String),
    /// A cut, by its id.
    Cut(String),
    /// A plan's frame, by its id.
    Plan(String),
    /// A sweep's frame, by its id.
    Sweep(String),
    /// Runs that repeat one setting, by their sweep's id.
    Runs(String),
    /// What becomes of a sweep that goes on: magics know its name, Rust not yet.
    Going(Box<Thing>),
    /// A query's answer, by its id.
    Frame(String),
    /// A parameter.
    Param {
        /// As magics write it.
        word: String,
        /// Its type in Rust.
        kind: String,
        /// Its value in Rust.
        literal: String,
    },
}

impl Thing {
    /// Its type in Rust.
    pub fn kind(&self) -> &str {
        match self {
            Thing::Run(_) => "halobook::Run",
            Thing::Runs(_) => "halobook::Runs",
            Thing::Going(thing) => thing.kind(),
            Thing::Cut(_) | Thing::Plan(_) | Thing::Sweep(_) | Thing::Frame(_) => {
                "halobook::polars::prelude::DataFrame"
            }
            Thing::Param { kind, .. } => kind,
        }
    }

    /// Its value in Rust.
    pub fn value(&self) -> String {
        match self {
            Thing::Run(id) => format!("halobook::Run::open({id:?})"),
            Thing::Cut(id) => format!("halobook::partition({id:?})"),
            Thing::Plan(id) => format!("halobook::plan({id:?})"),
            Thing::Sweep(id) => format!("halobook::sweep({id:?})"),
            Thing::Runs(id) => format!("halobook::Runs::of_sweep({id:?})"),
            Thing::Going(thing) => thing.value(),
            Thing::Frame(id) => format!("halobook::kept({id:?})"),
            Thing::Param { literal, .. } => literal.clone(),
        }
    }

    /// The Rust that binds it. The type is written out, so that nothing has to be inferred.
    pub fn binding(&self, name: &str) -> String {
        format!("let {name}: {} = {};\n", self.kind(), self.value())
    }

    /// The sweep that it is, or whose runs it is, by its id.
    pub fn sweep(&self) -> Option<&str> {
        match self {
            Thing::Sweep(id) | Thing::Runs(id) => Some(id),
            Thing::Going(thing) => thing.sweep(),
            _ => None,
        }
    }

    /// Whether a variable of this type may stand for it; a cell may have bound the name anew.
    pub fn may_be(&self, kind: &str) -> bool {
        let last = |path: &str| path.rsplit("::").next().unwrap_or_default().to_owned();
        last(self.kind()) == last(kind)
    }
}

/// `r1[2]` as the name of several and which of them.
pub fn element(name: &str) -> Option<(&str, usize)> {
    let (name, at) = name.strip_suffix(']')?.split_once('[')?;
    Some((name, at.trim().parse().ok()?))
}

/// Variables and what they stand for.
#[derive(Default)]
pub struct Bound(Mutex<BTreeMap<String, Thing>>);

impl Bound {
    fn map(&self) -> MutexGuard<'_, BTreeMap<String, Thing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a variable stands for.
    pub fn get(&self, name: &str) -> Option<Thing> {
        self.map().get(name).cloned()
    }

    /// A variable stands for this from now on.
    pub fn insert(&self, name: &str, thing: Thing) {
        self.map().insert(name.to_owned(), thing);
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<(String, Thing)> {
        let map = self.map();
        map.iter()
            .map(|(n, thing)| (n.clone(), thing.clone()))
            .collect()
    }

    /// The variable that a run is bound to, if the user has named one.
    pub fn name_of_run(&self, id: &str) -> Option<String> {
        self.name_where(|thing| matches!(thing, Thing::Run(run) if run == id))
    }

    /// The same of a sweep.
    pub fn name_of_sweep(&self, id: &str) -> Option<String> {
        self.name_where(|thing| thing.sweep() == Some(id))
    }

    fn name_where(&self, wanted: impl Fn(&Thing) -> bool) -> Option<String> {
        let all = self.all().into_iter();
        let named = |(name, thing): &(String, Thing)| !name.starts_with('_') && wanted(thing);
        all.filter(named).map(|(name, _)| name).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_need_no_inference() {
        let param = Thing::Param {
            word: "2".into(),
            kind: "i64".into(),
            literal: "2".into(),
        };
        for (thing, rust) in [
            (
                Thing::Run("x".into()),
                "let n: halobook::Run = halobook::Run::open(\"x\");\n",
            ),
            (
                Thing::Sweep("x".into()),
                "let n: halobook::polars::prelude::DataFrame = halobook::sweep(\"x\");\n",
            ),
            (
                Thing::Cut("x".into()),
                "let n: halobook::polars::prelude::DataFrame = halobook::partition(\"x\");\n",
            ),
            (
                Thing::Runs("x".into()),
                "let n: halobook::Runs = halobook::Runs::of_sweep(\"x\");\n",
            ),
            (param, "let n: i64 = 2;\n"),
        ] {
            assert_eq!(thing.binding("n"), rust);
        }
    }

    #[test]
    fn a_name_that_a_cell_bound_anew_is_another_things() {
        let run = Thing::Run("x".into());
        assert!(run.may_be("halobook::Run") && run.may_be("Run"));
        assert!(!run.may_be("i32") && !run.may_be("DataFrame"));
        let frame = Thing::Frame("x".into());
        assert!(frame.may_be("polars_core::frame::DataFrame"));
    }

    #[test]
    fn one_of_several_is_named_as_in_rust() {
        assert_eq!(element("r1[2]"), Some(("r1", 2)));
        for other in ["r1", "r1[", "r1[x]", "[", "r1[-1]"] {
            assert_eq!(element(other), None, "{other}");
        }
    }

    #[test]
    fn the_variable_of_a_run_is_the_one_the_user_named() {
        let bound = Bound::default();
        bound.insert("_run", Thing::Run("x".into()));
        assert_eq!(bound.name_of_run("x"), None);
        bound.insert("r1", Thing::Run("x".into()));
        bound.insert("r2", Thing::Run("y".into()));
        assert_eq!(bound.name_of_run("x").as_deref(), Some("r1"));
    }
}
