//! Settings that only one strategy or one partitioner has: listed by it, checked against its list.

use super::{Value, normalise};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One setting of its own.
#[derive(Debug, Clone, Copy)]
pub struct Knob {
    /// Name, as in a cell.
    pub name: &'static str,
    /// Default, as it would be written; empty, where empty text is not allowed, for one that has to be
    /// given.
    pub default: &'static str,
    /// What it does, with its unit.
    pub doc: &'static str,
    /// Whether a written value is allowed.
    pub check: fn(&Value) -> bool,
}

/// Settings by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Knobs(BTreeMap<String, Value>);

impl Knobs {
    /// Settings out of written pairs, complete with the defaults of `list`. `owner` is whose they
    /// are; `also` are keys of others, for the nearest name.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for a key that is not in the list, [`Error::Spec`] for a value that
    /// is not allowed.
    pub fn parse(
        owner: &str,
        list: &[Knob],
        pairs: impl IntoIterator<Item = (String, Value)>,
        also: &[&str],
    ) -> Result<Knobs> {
        let mut knobs = BTreeMap::new();
        for knob in list {
            knobs.insert(knob.name.to_owned(), Value::from_word(knob.default));
        }
        for (key, value) in pairs {
            let key = normalise(&key);
            let Some(knob) = list.iter().find(|k| k.name == key) else {
                let known: Vec<&str> = also
                    .iter()
                    .copied()
                    .chain(list.iter().map(|k| k.name))
                    .collect();
                return Err(Error::unknown("key", &key, &known));
            };
            if !(knob.check)(&value) {
                return Err(Error::Spec {
                    key,
                    reason: format!("{value} is not a value of this knob of {owner}"),
                    help: format!("{}: {} (default {})", knob.name, knob.doc, knob.default),
                });
            }
            knobs.insert(key, value);
        }
        let missing = |knob: &&Knob| {
            let given = &knobs[knob.name];
            *given == Value::Str(String::new()) && !(knob.check)(given)
        };
        if let Some(knob) = list.iter().find(missing) {
            return Err(Error::Spec {
                key: knob.name.to_owned(),
                reason: format!("{owner} needs it, and it has no default"),
                help: format!("{}: {}", knob.name, knob.doc),
            });
        }
        Ok(Knobs(knobs))
    }

    /// The settings by name.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter()
    }

    /// Sets one; the caller knows that the value is allowed.
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// A setting by its name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// A yes-or-no setting; false when there is none of that name.
    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    /// A setting that is a number; 0 when there is none of that name.
    pub fn number(&self, name: &str) -> f64 {
        self.0.get(name).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// A setting that is a whole number; 0 when there is none of that name.
    pub fn count(&self, name: &str) -> usize {
        self.number(name) as usize
    }

    /// A setting as it would be written; empty when there is none of that name.
    pub fn written(&self, name: &str) -> String {
        self.0.get(name).map(Value::to_string).unwrap_or_default()
    }

    /// A setting that is text; empty when there is none of that name.
    pub fn word(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Value::Str(text)) => text,
            _ => "",
        }
    }
}
