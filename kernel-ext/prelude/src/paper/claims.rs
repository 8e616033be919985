//! Claims of a paper, each with both numbers: what `%%check` does, for numbers that a cell has computed.

use launcher::check::{Relation, Verdict};
use serde_json::json;

use super::decides::undecided;
use super::draft;
use super::table::Table;
use super::verdicts::Verdicts;
use crate::display::tell;
use crate::run::Run;

/// Claims of a figure or table, to be checked at once.
///
/// ```
/// use halobook::prelude::*;
/// let table6 = published("sancus").table("Table 6").clone();
/// let held = claims("Table 6")
///     .claim("the cache grows with the number of GPUs", 297.9, ">", 170.2)
///     .near("half of the cache of 2 GPUs, MB", 85.1, table6.at(&["Flickr"], "2 GPUs") / 2.0, 0.05)
///     .check();
/// assert_eq!(held.verdicts().len(), 2);
/// ```
#[must_use = "claims are checked by .check()"]
#[derive(Clone, Debug)]
pub struct Claims {
    of: String,
    verdicts: Vec<Verdict>,
}

/// Claims of a figure or table, none yet; `of` is its number.
pub fn claims(of: &str) -> Claims {
    Claims {
        of: of.to_owned(),
        verdicts: Vec::new(),
    }
}

impl Claims {
    /// That `left relation right`, in the paper's words; the relation as `%%check` writes it: `<`, `<=`,
    /// `==`, `!=`, `>=`, `>`.
    ///
    /// # Panics
    /// On another relation.
    pub fn claim(self, words: &str, left: f64, relation: &str, right: f64) -> Claims {
        let relation = read(relation);
        assert!(
            relation != Relation::Near,
            "what is near has its own form: .near()"
        );
        self.add(words, Verdict::of(left, relation, right, 0.0))
    }

    /// That two numbers differ by no more than `within`.
    pub fn near(self, words: &str, left: f64, right: f64, within: f64) -> Claims {
        self.add(words, Verdict::of(left, Relation::Near, right, within))
    }

    /// What is judged, and cannot fail because of `why`.
    ///
    /// # Panics
    /// On a relation that `%%check` does not know.
    pub fn shown(self, words: &str, left: f64, relation: &str, right: f64, why: &str) -> Claims {
        let mut verdict = Verdict::of(left, read(relation), right, 0.0);
        verdict.shown = Some(why.to_owned());
        self.add(words, verdict)
    }

    /// Only shows the last claim, because of `why`, where a condition of it is not met.
    pub fn only_if(mut self, met: bool, why: &str) -> Claims {
        if let Some(last) = self.verdicts.last_mut().filter(|_| !met) {
            last.shown = Some(why.to_owned());
        }
        self
    }

    /// A claim about times of `runs`, which are medians. It fails where the machine decides it and the two
    /// are apart by more than `margin`, a part of the right one: where every rank has a core, or a modelled
    /// link takes most of an epoch, and there are three epochs behind the warm-up. Otherwise it is shown,
    /// and why.
    ///
    /// # Panics
    /// On a relation that `%%check` does not know.
    pub fn time(
        self,
        words: &str,
        left: f64,
        relation: &str,
        right: f64,
        margin: f64,
        runs: &[&Run],
    ) -> Claims {
        let mut verdict = Verdict::of(left, read(relation), right, 0.0);
        verdict.shown = undecided(runs);
        if verdict.shown.is_none() && !verdict.holds && (left - right).abs() <= margin * right.abs()
        {
            verdict.shown = Some(format!("apart by less than {:.0} %", 100.0 * margin));
        }
        self.add(words, verdict)
    }

    /// That every number of a published table is what `of` gives for its labels and column, rounded as it
    /// was printed; of sizes `of` gives bytes.
    pub fn printed(mut self, table: &Table, of: impl Fn(&[&str], &str) -> f64) -> Claims {
        for (labels, column) in table.cells() {
            let Ok(printed) = table.try_at(&labels, column) else {
                continue;
            };
            let exact = (printed.value, printed.rounding);
            let (value, rounding) = printed.bytes().unwrap_or(exact);
            let words = format!("{}, {column}", labels.join(", "));
            // What was rounded lies within half a digit, and a rounding error of ours.
            let within = rounding * (1.0 + 1e-9);
            self = self.near(&words, of(&labels, column), value, within);
        }
        self
    }

    /// A published table beside what was measured: every number that `of` gives is shown with its ratio.
    pub fn beside(
        mut self,
        table: &Table,
        why: &str,
        of: impl Fn(&[&str], &str) -> Option<f64>,
    ) -> Claims {
        for (labels, column) in table.cells() {
            let printed = table.try_at(&labels, column);
            if let (Ok(printed), Some(found)) = (printed, of(&labels, column)) {
                let words = format!("{}, {column}", labels.join(", "));
                self = self.shown(&words, found, "~", printed.value, why);
            }
        }
        self
    }

    fn add(mut self, words: &str, mut verdict: Verdict) -> Claims {
        verdict.label = Some(words.to_owned());
        self.verdicts.push(verdict);
        self
    }

    /// Judges them all: the table of them, if none fails.
    ///
    /// # Panics
    /// When a claim fails, with both numbers of each: the cell ends as `%%check` does.
    #[track_caller]
    pub fn check(&self) -> Verdicts {
        let mut verdicts = self.verdicts.clone();
        if draft::asked() {
            draft::forgive(&mut verdicts);
        }
        let verdicts = Verdicts::new(&self.of, verdicts);
        let Some(failure) = verdicts.failure() else {
            return verdicts;
        };
        let lines: Vec<String> = verdicts
            .verdicts()
            .iter()
            .map(|v| format!("  {v}"))
            .collect();
        let named =
            json!({"failed": {"ename": "HaloCheckFailed", "evalue": &failure, "lines": &lines}});
        match tell(&named) {
            // The kernel shows the claims.
            true => panic!("{failure}"),
            false => panic!("{failure}\n{}", lines.join("\n")),
        }
    }
}

fn read(relation: &str) -> Relation {
    Relation::parse(relation).unwrap_or_else(|| panic!("{relation:?} is no relation of %%check"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_claim_ends_the_cell_with_both_numbers() {
        let failing = claims("Table 1")
            .claim("less", 3.0, "<", 2.0)
            .claim("equal", 1.0, "==", 1.0);
        let end = std::panic::catch_unwind(|| failing.check()).expect_err("one fails");
        let words = end.downcast_ref::<String>().expect("a panic with words");
        assert!(
            words.starts_with("1 of 2 claims of Table 1 do not hold"),
            "{words}"
        );
        assert!(words.contains("FAILS  less: 3 against 2"), "{words}");
    }

    #[test]
    fn what_is_shown_never_fails() {
        let held = claims("Figure 1")
            .shown("faster", 3.0, "<", 2.0, "ranks share cores")
            .check();
        assert_eq!(
            held.verdicts()[0].remark().as_deref(),
            Some("NOT so here; ranks share cores")
        );
        let stand_in = |met| {
            let claim = claims("Figure 1").claim("less", 3.0, "<", 2.0);
            claim.only_if(met, "a stand-in").check()
        };
        assert_eq!(
            stand_in(false).verdicts()[0].shown.as_deref(),
            Some("a stand-in")
        );
        assert!(std::panic::catch_unwind(|| stand_in(true)).is_err());
        let held = claims("Figure 1")
            .time("faster", 3.0, "<", 2.0, 0.05, &[])
            .check();
        assert!(
            held.verdicts()[0].shown.is_some(),
            "nobody says how it was measured"
        );
    }

    #[test]
    fn printed_numbers_are_met_within_their_last_digit() {
        let table = Table {
            number: "Table 6".into(),
            labels: vec!["data".into()],
            columns: vec!["2 GPUs".into(), "4 GPUs".into()],
            rows: vec![vec!["Flickr".into(), "170.2 MB".into(), "OOM".into()]],
            ..Table::default()
        };
        let held = claims("Table 6")
            .printed(&table, |_, _| 178_500_000.0)
            .check();
        assert_eq!(held.verdicts().len(), 1, "what has no number is no claim");
        let failing = claims("Table 6").printed(&table, |_, _| 179_000_000.0);
        assert!(std::panic::catch_unwind(|| failing.check()).is_err());
    }
}
