//! Values as they are written, and settings that only one strategy or one partitioner has: listed by
//! it, checked against its list.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A value as it was written, before its key gives it a type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A decimal number.
    Float(f64),
    /// Text.
    Str(String),
}

/// From here on whole numbers are missing among the floats.
const EXACT: f64 = (1u64 << 53) as f64;

/// From here on numbers are not written out.
const LONG: f64 = 1e30;

impl Value {
    /// Reads a value from a command line word: booleans and numbers are recognised, the rest is
    /// text.
    pub fn from_word(word: &str) -> Value {
        if let Ok(b) = word.parse::<bool>() {
            return Value::Bool(b);
        }
        if let Ok(i) = word.parse::<i64>() {
            return Value::Int(i);
        }
        // A whole number that no float is would be another one.
        let other = |f: f64| word.bytes().all(|b| b.is_ascii_digit()) && format!("{f:.0}") != word;
        match word.parse::<f64>() {
            Ok(f) if word.bytes().any(|b| b.is_ascii_digit()) && !other(f) => Value::Float(f),
            _ => Value::Str(word.to_owned()),
        }
    }

    /// The number it is, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Int(i) => Some(*i as f64),
            Value::Float(x) => Some(*x),
            Value::Bool(_) | Value::Str(_) => None,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(i) => write!(f, "{i}"),
            // Digits that are its own, not zeros for what its neighbours share.
            Value::Float(x) if x.abs() >= EXACT && x.abs() < LONG => write!(f, "{x:.0}"),
            Value::Float(x) => write!(f, "{x}"),
            Value::Str(s) => f.write_str(s),
        }
    }
}

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

/// The spelling of a key used inside: `weight-decay` becomes `weight_decay`.
pub fn spelled(key: &str) -> String {
    key.trim().replace('-', "_")
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
            let key = spelled(&key);
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
    pub fn set(&mut self, name: &str, value: Value) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_does_not_fit_is_shown_as_it_was_written() {
        for word in [
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
            "1000000000000000000000001",
            "0.25",
        ] {
            assert_eq!(Value::from_word(word).to_string(), word);
        }
        assert_eq!(
            Value::from_word("100000000000000000000").as_f64(),
            Some(1e20)
        );
    }

    #[test]
    fn words_become_typed_values() {
        assert_eq!(Value::from_word("3"), Value::Int(3));
        assert_eq!(Value::from_word("5e-4"), Value::Float(5e-4));
        assert_eq!(Value::from_word("nan"), Value::Str("nan".into()));
        assert_eq!(Value::from_word("true"), Value::Bool(true));
        assert_eq!(
            Value::from_word("sbm:nodes=3"),
            Value::Str("sbm:nodes=3".into())
        );
    }
}
