//! Variables bound again after the process that held them has ended: runs, frames and parameters
//! are files or plain values first.

use super::Session;
use super::bound::{Bound, Thing};
use crate::front::{Outcome, Shown};

/// What became of the variables of a process that has ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Bound again.
    pub back: Vec<String>,
    /// Gone for good.
    pub gone: Vec<String>,
}

/// Binds again what can be of the `variables` (with their types) that a process held. `bind`
/// evaluates Rust and says whether that went well.
pub fn restore_lost(
    variables: &[(String, String)],
    bound: &Bound,
    bind: &dyn Fn(&str) -> bool,
) -> Lost {
    let held = |(name, thing): &(String, Thing)| {
        let mut variables = variables.iter();
        variables.any(|(variable, kind)| variable == name && thing.may_be(kind))
    };
    let things: Vec<_> = bound
        .all()
        .into_iter()
        .filter(is_bound)
        .filter(held)
        .collect();
    let back = rebind(&things, bind);
    let gone = variables.iter().map(|(name, _)| name.clone());
    Lost {
        gone: gone
            .filter(|name| told(name) && !back.contains(name))
            .collect(),
        back: back.into_iter().filter(|name| told(name)).collect(),
    }
}

/// `%restore`: binds again all there is.
pub fn restore(session: &Session<'_>) -> Outcome {
    let things: Vec<_> = session.bound.all().into_iter().filter(is_bound).collect();
    let back = rebind(&things, &|code| (session.bind)(code).is_ok());
    let names = |wanted: bool| -> Vec<&str> {
        let names = things.iter().map(|(name, _)| name.as_str());
        names
            .filter(|name| told(name) && back.iter().any(|b| b == name) == wanted)
            .collect()
    };
    let (there, gone) = (names(true), names(false));
    let mut text = match there.is_empty() {
        true => "there is nothing to bind again".to_owned(),
        false => format!("bound again: {}", there.join(", ")),
    };
    if !gone.is_empty() {
        text.push_str(&format!("\nno longer in the store: {}", gone.join(", ")));
    }
    Ok(Some(Shown::text(text)))
}

/// Binds all in one cell, or, where one of them cannot be bound, each by itself.
fn rebind(things: &[(String, Thing)], bind: &dyn Fn(&str) -> bool) -> Vec<String> {
    let code = |(name, thing): &(String, Thing)| thing.binding(name);
    let all: String = things.iter().map(code).collect();
    let whole = !things.is_empty() && bind(&all);
    let there = things
        .iter()
        .filter(|&one| whole || (things.len() > 1 && bind(&code(one))));
    there.map(|(name, _)| name.clone()).collect()
}

/// A sweep that goes on has no variable yet.
fn is_bound((_, thing): &(String, Thing)) -> bool {
    !matches!(thing, Thing::Going(_))
}

/// Names that the user has given.
fn told(name: &str) -> bool {
    !name.starts_with('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound() -> Bound {
        let bound = Bound::default();
        bound.insert("r1", Thing::Run("one".into()));
        bound.insert("r2", Thing::Run("two".into()));
        bound.insert("_run", Thing::Run("two".into()));
        bound.insert("part", Thing::Cut("cut".into()));
        bound
    }

    fn variables(all: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |(name, kind): &(&str, &str)| ((*name).to_owned(), (*kind).to_owned());
        all.iter().map(own).collect()
    }

    #[test]
    fn what_is_on_disk_comes_back_unless_a_cell_bound_its_name_anew() {
        let held = variables(&[
            ("r1", "halobook::Run"),
            ("r2", "i32"),
            ("_run", "halobook::Run"),
            ("x", "i32"),
        ]);
        let cells = std::cell::RefCell::new(Vec::new());
        let lost = restore_lost(&held, &bound(), &|code| {
            cells.borrow_mut().push(code.to_owned());
            true
        });
        assert_eq!(lost.back, ["r1"]);
        assert_eq!(lost.gone, ["r2", "x"]);
        let cells = cells.into_inner();
        assert_eq!(cells.len(), 1);
        assert!(cells[0].contains("_run") && !cells[0].contains("r2"));
    }

    #[test]
    fn a_run_that_was_deleted_does_not_keep_others_away() {
        let held = variables(&[("r1", "Run"), ("part", "DataFrame")]);
        let lost = restore_lost(&held, &bound(), &|code| !code.contains("one"));
        assert_eq!(lost.back, ["part"]);
        assert_eq!(lost.gone, ["r1"]);
        let nothing = restore_lost(&[], &bound(), &|_| panic!("nothing to bind"));
        assert_eq!(nothing, Lost::default());
    }
}
