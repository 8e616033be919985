//! `%%params`: named values with defaults, that the environment may override.

use toml::Value;

use super::Session;
use super::bound::Thing;
use crate::front::{Failure, Outcome, Shown};
use crate::magic::{self, ParamsRequest};
use crate::text::escape;

/// What overrides them: the same lines as in the cell.
const OVERRIDES: &str = "HALOBOOK_PARAMS";

/// A parameter as it is bound.
#[derive(Debug, PartialEq)]
struct Bound {
    name: String,
    /// In Rust.
    kind: String,
    literal: String,
    /// As magics write it.
    word: String,
    overridden: bool,
}

impl Bound {
    fn thing(&self) -> Thing {
        Thing::Param {
            word: self.word.clone(),
            kind: self.kind.clone(),
            literal: self.literal.clone(),
        }
    }
}

/// Binds them as variables, remembers them for magics, and shows them.
pub fn params(request: &ParamsRequest, session: &Session<'_>) -> Outcome {
    let text = std::env::var(OVERRIDES).unwrap_or_default();
    let overrides = magic::typed(&text).map_err(|refusal| {
        let lines = [
            format!("  {}", refusal.line),
            format!("help: {}", refusal.help),
        ];
        Failure::config(format!("{OVERRIDES}: {}", refusal.message), lines)
    })?;
    let bound = values(&request.pairs, &overrides)?;
    let all = || bound.iter().map(|b| (b.name.as_str(), b.thing()));
    let code: String = all()
        .map(|(name, thing)| session.binding(name, &thing))
        .collect();
    (session.bind)(&code)?;
    all().for_each(|(name, thing)| session.bound.insert(name, thing));
    Ok(Some(shown(&bound)))
}

/// `text` with the values of parameters in the places of their `$name`s.
///
/// # Errors
/// For a name that is no parameter.
pub fn fill(text: &str, session: &Session<'_>) -> Result<String, Failure> {
    fill_from(text, &|name| match session.bound.get(name)? {
        Thing::Param { word, .. } => Some(word),
        _ => None,
    })
}

fn fill_from(text: &str, of: &dyn Fn(&str) -> Option<String>) -> Result<String, Failure> {
    let mut pieces = text.split('$');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) = piece.split_at(end.unwrap_or(piece.len()));
        if !name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_') {
            filled.push('$');
            filled.push_str(piece);
            continue;
        }
        let value = of(name).ok_or_else(|| {
            Failure::config(
                format!("${name} is no parameter"),
                ["help: a %%params cell names parameters: epochs = 60".to_owned()],
            )
        })?;
        filled.push_str(&value);
        filled.push_str(rest);
    }
    Ok(filled)
}

/// Each default, or what overrides it, which is of its type.
fn values(
    defaults: &[(String, Value)],
    overrides: &[(String, Value)],
) -> Result<Vec<Bound>, Failure> {
    let one = |(name, default): &(String, Value)| {
        let kind = kind(default).ok_or_else(|| {
            Failure::config(
                format!("{name} has no type"),
                ["help: lists have elements, all of one type".to_owned()],
            )
        })?;
        let over = overrides.iter().rev().find(|(key, _)| key == name);
        let value = match over {
            None => default.clone(),
            Some((_, value)) => as_kind(value, &kind).ok_or_else(|| {
                Failure::config(
                    format!("{OVERRIDES}: {name} is {kind}, not {value}"),
                    ["help: its default in the cell says its type".to_owned()],
                )
            })?,
        };
        Ok(Bound {
            name: name.clone(),
            literal: literal(&value),
            word: match &value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
            kind,
            overridden: over.is_some(),
        })
    };
    defaults.iter().map(one).collect()
}

/// The type of a value in Rust.
fn kind(value: &Value) -> Option<String> {
    Some(match value {
        Value::Integer(_) => "i64".into(),
        Value::Float(_) => "f64".into(),
        Value::Boolean(_) => "bool".into(),
        Value::String(_) => "String".into(),
        Value::Array(all) => {
            let first = kind(all.first()?)?;
            let same = all.iter().all(|v| kind(v).as_ref() == Some(&first));
            return same.then(|| format!("Vec<{first}>"));
        }
        _ => return None,
    })
}

/// A value of that type; whole numbers are numbers, too.
fn as_kind(value: &Value, wanted: &str) -> Option<Value> {
    if let Some(inner) = wanted
        .strip_prefix("Vec<")
        .and_then(|k| k.strip_suffix('>'))
    {
        let all = value.as_array()?.iter().map(|v| as_kind(v, inner));
        return all.collect::<Option<Vec<_>>>().map(Value::Array);
    }
    match value {
        Value::Integer(x) if wanted == "f64" => Some(Value::Float(*x as f64)),
        value => (kind(value)? == wanted).then(|| value.clone()),
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("String::from({text:?})"),
        Value::Array(all) => {
            let all: Vec<String> = all.iter().map(literal).collect();
            format!("vec![{}]", all.join(", "))
        }
        Value::Float(x) if x.is_nan() => "f64::NAN".into(),
        Value::Float(x) if x.is_infinite() && *x > 0.0 => "f64::INFINITY".into(),
        Value::Float(x) if x.is_infinite() => "f64::NEG_INFINITY".into(),
        Value::Float(x) => format!("{x:?}"),
        other => other.to_string(),
    }
}

fn shown(all: &[Bound]) -> Shown {
    let from = |b: &Bound| {
        if b.overridden {
            "environment"
        } else {
            "default"
        }
    };
    let text = all
        .iter()
        .map(|b| format!("{}: {} = {}  ({})", b.name, b.kind, b.word, from(b)));
    let rows = all.iter().map(|b| {
        let cells = [b.name.as_str(), &b.kind, &b.word, from(b)].map(escape);
        format!("<tr><td>{}</td></tr>", cells.join("</td><td>"))
    });
    Shown::html(
        text.collect::<Vec<_>>().join("\n"),
        format!("<table>{}</table>", rows.collect::<String>()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(cell: &str, environment: &str) -> Result<Vec<Bound>, Failure> {
        let read = |text: &str| magic::typed(text).expect("pairs");
        values(&read(cell), &read(environment))
    }

    #[test]
    fn the_environment_overrides_what_is_of_the_same_type() {
        let cell = "epochs = 60; lr = 0.01\ndata = \"karate\"\nranks = [1, 2]";
        let all = bound(cell, "epochs = 5\nlr = 1; ranks = [4]; other = 3").expect("bound");
        let said: Vec<(&str, &str, &str)> = all
            .iter()
            .map(|b| (&*b.kind, &*b.literal, &*b.word))
            .collect();
        assert_eq!(
            said,
            [
                ("i64", "5", "5"),
                ("f64", "1.0", "1.0"),
                ("String", "String::from(\"karate\")", "karate"),
                ("Vec<i64>", "vec![4]", "[4]"),
            ]
        );
        let overridden: Vec<bool> = all.iter().map(|b| b.overridden).collect();
        assert_eq!(overridden, [true, true, false, true]);
        let failure = bound("epochs = 60", "epochs = 0.5").expect_err("another type");
        assert_eq!(failure.evalue, "HALOBOOK_PARAMS: epochs is i64, not 0.5");
        assert!(bound("ranks = []", "").is_err() && bound("ranks = [1, 0.5]", "").is_err());
    }

    #[test]
    fn names_are_filled_in_anywhere() {
        let of = |name: &str| (name == "n").then(|| "40".to_owned());
        let filled = fill_from("sbm:nodes=$n,classes=4 $n", &of).expect("filled");
        assert_eq!(filled, "sbm:nodes=40,classes=4 40");
        assert_eq!(
            fill_from("nothing", &of).expect("nothing to fill"),
            "nothing"
        );
        assert_eq!(fill_from("'a$' $1", &of).expect("no name"), "'a$' $1");
        let failure = fill_from("$m", &of).expect_err("unknown");
        assert_eq!(failure.evalue, "$m is no parameter");
    }
}
