//! The settings of a sweep: keys with several values, crossed or side by side.

use crate::error::{Error, Result};
use crate::request::Pair;
use gnn_core::spec::{RunSpec, Value};

/// A key and the values that it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The key, as in [`gnn_core::spec::KEYS`] or a knob.
    pub key: String,
    /// Its values, in the order written.
    pub values: Vec<Value>,
}

/// What is swept, and what stays as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Grid {
    /// Keys with a list.
    pub axes: Vec<Axis>,
    /// The others.
    pub fixed: Vec<Pair>,
}

/// The values of a text that is a list, as in `[halo, sancus]`: elements of TOML, or bare words.
fn list(text: &str) -> Option<std::result::Result<Vec<Value>, String>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let scalar = |value: toml::Value| match value {
        toml::Value::String(text) => Ok(Value::Str(text)),
        toml::Value::Integer(i) => Ok(Value::Int(i)),
        toml::Value::Float(x) => Ok(Value::Float(x)),
        toml::Value::Boolean(b) => Ok(Value::Bool(b)),
        other => Err(format!("{other} is no number, true, false or text")),
    };
    let table = toml::from_str::<toml::Table>(&format!("v = {text}"));
    if let Ok(Some(toml::Value::Array(values))) = table.map(|mut t| t.remove("v")) {
        return Some(values.into_iter().map(scalar).collect());
    }
    if inner.contains(['"', '\'']) {
        return Some(Err("the quotes do not close, or a comma is missing".into()));
    }
    let words = inner.split(',').map(str::trim).filter(|w| !w.is_empty());
    Some(Ok(words.map(Value::from_word).collect()))
}

impl Grid {
    /// Sorts pairs: those whose value is a list are swept. A later pair of a key replaces an earlier one.
    ///
    /// # Errors
    /// [`Error::Refused`] for a list that cannot be read or is empty.
    pub fn of(pairs: Vec<Pair>) -> Result<Grid> {
        let mut grid = Grid::default();
        for (key, value) in pairs {
            let key = key.replace('-', "_");
            let values = match &value {
                Value::Str(text) => list(text),
                _ => None,
            };
            grid.axes.retain(|axis| axis.key != key);
            grid.fixed.retain(|(other, _)| *other != key);
            let Some(values) = values else {
                grid.fixed.push((key, value));
                continue;
            };
            let wrong = |what: String| {
                Error::refused(
                    format!("{key}: {what}"),
                    "write a list as in ranks = [1, 2, 4] or strategy = [\"halo\", \"sancus\"]",
                )
            };
            let values = values.map_err(wrong)?;
            if values.is_empty() {
                return Err(wrong("the list is empty".into()));
            }
            grid.axes.push(Axis { key, values });
        }
        Ok(grid)
    }

    /// Each setting `times` times, with as many seeds, one after the other from the request's on.
    ///
    /// # Errors
    /// [`Error::Refused`] where seeds are swept already.
    pub fn repeat(&mut self, times: usize) -> Result<()> {
        if times <= 1 {
            return Ok(());
        }
        if self.axes.iter().any(|axis| axis.key == "seed") {
            return Err(Error::refused(
                "repeat: seeds are a list already",
                "leave out --repeat, or give one seed",
            ));
        }
        let at = self.fixed.iter().position(|(key, _)| key == "seed");
        let first = match at.map(|at| self.fixed.remove(at).1) {
            Some(Value::Int(seed)) => seed,
            None => RunSpec::default().seed as i64,
            Some(other) => {
                return Err(Error::refused(
                    format!("seed: expected a whole number, got {other}"),
                    "write seed = 7, for example",
                ));
            }
        };
        self.axes.push(Axis {
            key: "seed".into(),
            values: (0..times as i64).map(|k| Value::Int(first + k)).collect(),
        });
        Ok(())
    }

    /// The swept pairs of every setting: each value with each of the others', the first key's changing
    /// slowest; or, `side_by_side`, all keys' first values, all second ones and so on.
    ///
    /// # Errors
    /// [`Error::Refused`] for lists of different lengths that are to stand side by side.
    pub fn settings(&self, side_by_side: bool) -> Result<Vec<Vec<Pair>>> {
        if !side_by_side {
            let mut settings = vec![Vec::new()];
            for axis in &self.axes {
                let with = |set: &Vec<Pair>, value: &Value| {
                    let mut set = set.clone();
                    set.push((axis.key.clone(), value.clone()));
                    set
                };
                let each =
                    |set: &Vec<Pair>| axis.values.iter().map(|v| with(set, v)).collect::<Vec<_>>();
                settings = settings.iter().flat_map(each).collect();
            }
            return Ok(settings);
        }
        let len = self.axes.first().map_or(1, |axis| axis.values.len());
        if let Some(other) = self.axes.iter().find(|axis| axis.values.len() != len) {
            return Err(Error::refused(
                format!(
                    "zip: {} has {len} values, {} has {}",
                    self.axes[0].key,
                    other.key,
                    other.values.len()
                ),
                "give all lists as many values, or leave out --zip to cross them",
            ));
        }
        let pair = |axis: &Axis, k: usize| (axis.key.clone(), axis.values[k].clone());
        let at = |k: usize| self.axes.iter().map(|axis| pair(axis, k)).collect();
        Ok((0..len).map(at).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(pairs: &[(&str, &str)]) -> Result<Grid> {
        let pair = |(k, v): &(&str, &str)| ((*k).to_owned(), Value::from_word(v));
        Grid::of(pairs.iter().map(pair).collect())
    }

    fn said(settings: &[Vec<Pair>]) -> Vec<String> {
        let one = |set: &Vec<Pair>| {
            let words = set.iter().map(|(k, v)| format!("{k}={v}"));
            words.collect::<Vec<_>>().join(" ")
        };
        settings.iter().map(one).collect()
    }

    #[test]
    fn lists_are_crossed_the_first_key_slowest() {
        let grid = grid(&[
            ("data", "karate"),
            ("strategy", "[halo, sancus]"),
            ("weight-decay", "[0.5, 1e-3]"),
        ]);
        let grid = grid.expect("lists");
        assert_eq!(grid.fixed.len(), 1);
        let settings = grid.settings(false).expect("crossed");
        assert_eq!(
            said(&settings),
            [
                "strategy=halo weight_decay=0.5",
                "strategy=halo weight_decay=0.001",
                "strategy=sancus weight_decay=0.5",
                "strategy=sancus weight_decay=0.001"
            ]
        );
        let beside = grid.settings(true).expect("as long");
        assert_eq!(beside.len(), 2);
        assert_eq!(said(&beside)[1], "strategy=sancus weight_decay=0.001");
    }

    #[test]
    fn quoted_elements_keep_their_commas_and_no_list_is_one_setting() {
        let quoted = grid(&[("fanout", "[\"10,25\", \"5,5\"]")]).expect("a list");
        assert_eq!(quoted.axes[0].values[0], Value::Str("10,25".into()));
        let none = grid(&[("ranks", "2")]).expect("no list");
        assert_eq!(none.settings(false).expect("one"), [Vec::new()]);
    }

    #[test]
    fn the_last_word_on_a_key_counts() {
        let grid = grid(&[
            ("ranks", "[1, 2]"),
            ("lr", "1"),
            ("ranks", "4"),
            ("lr", "[1, 2]"),
        ]);
        let grid = grid.expect("lists");
        assert_eq!(grid.fixed, [("ranks".to_owned(), Value::Int(4))]);
        assert_eq!(grid.axes.len(), 1);
    }

    #[test]
    fn repeats_are_seeds() {
        let mut seeded = grid(&[("seed", "5"), ("ranks", "[1, 2]")]).expect("a list");
        seeded.repeat(3).expect("one seed");
        let settings = seeded.settings(false).expect("crossed");
        assert_eq!(said(&settings)[1], "ranks=1 seed=6");
        assert_eq!(settings.len(), 6);
        assert!(
            grid(&[("seed", "[1, 2]")])
                .expect("a list")
                .repeat(2)
                .is_err()
        );
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_key() {
        for (pairs, part) in [
            (&[("ranks", "[]")][..], "ranks: the list is empty"),
            (&[("data", "[\"a, \"b\"]")], "data: the quotes"),
            (&[("lr", "[[1], 2]")], "lr: [1]"),
        ] {
            let error = grid(pairs).expect_err("no list").to_string();
            assert!(error.contains(part), "{error}");
        }
        let uneven = grid(&[("lr", "[1, 2]"), ("ranks", "[1]")]).expect("lists");
        let error = uneven.settings(true).expect_err("uneven").to_string();
        assert!(error.contains("lr has 2 values, ranks has 1"), "{error}");
    }
}
