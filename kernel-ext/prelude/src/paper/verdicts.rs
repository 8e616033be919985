//! Verdicts as one table: claim, both numbers, their ratio, and how it stands.

use launcher::check::{Verdict, short};

use crate::display::Bundle;
use crate::plot::escape;
use crate::plot::text::table;
use crate::show::Show;

/// Verdicts of the claims of a figure or table.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdicts {
    of: String,
    verdicts: Vec<Verdict>,
}

const HEAD: [&str; 6] = ["claim", "found", "", "said", "ratio", "state"];

impl Verdicts {
    /// Of a figure or table; `of` may be empty.
    pub fn new(of: &str, verdicts: Vec<Verdict>) -> Verdicts {
        let of = of.to_owned();
        Verdicts { of, verdicts }
    }

    /// Them one by one.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// What fails, in a line; none where nothing does.
    pub fn failure(&self) -> Option<String> {
        let failed = self.verdicts.iter().filter(|v| v.fails()).count();
        let of = self.of_words();
        let all = self.verdicts.len();
        (failed > 0).then(|| format!("{failed} of {all} claims{of} do not hold"))
    }

    /// How they stand, in a line.
    pub fn heading(&self) -> String {
        if let Some(failure) = self.failure() {
            return failure;
        }
        let count = self.verdicts.len();
        let shown = self.verdicts.iter().filter(|v| v.shown.is_some()).count();
        let claims = if count == 1 { "claim" } else { "claims" };
        let of = self.of_words();
        match shown {
            0 => format!("{count} {claims}{of}: all hold"),
            _ => format!(
                "{count} {claims}{of}: {} hold, {shown} shown",
                count - shown
            ),
        }
    }

    fn of_words(&self) -> String {
        match self.of.as_str() {
            "" => String::new(),
            of => format!(" of {of}"),
        }
    }

    fn rows(&self) -> Vec<[String; 6]> {
        let row = |v: &Verdict| {
            let ratio = v.left / v.right;
            let state = match v.remark() {
                Some(remark) => format!("{}: {remark}", v.mark()),
                None => v.mark().to_owned(),
            };
            let near = v.apart.filter(|_| v.shown.is_none());
            [
                v.label.clone().unwrap_or_else(|| v.text.clone()),
                short(v.left),
                v.relation.sign().to_owned(),
                short(v.right)
                    + &near.map_or(String::new(), |apart| format!(" ± {}", short(apart))),
                if ratio.is_finite() {
                    format!("{ratio:.3}")
                } else {
                    "-".into()
                },
                state,
            ]
        };
        self.verdicts.iter().map(row).collect()
    }
}

impl Show for Verdicts {
    fn bundle(&self) -> Bundle {
        let heading = self.heading();
        let rows = self.rows();
        let lines: Vec<Vec<String>> = rows.iter().map(|row| row.to_vec()).collect();
        let text = format!("{heading}\n{}", table(&HEAD, &lines));
        let cells = |tag: &str, cells: &[&str]| -> String {
            let cells = cells.iter().enumerate().map(|(k, cell)| {
                let side = if matches!(k, 1 | 3 | 4) {
                    "right"
                } else {
                    "left"
                };
                format!(
                    "<{tag} style=\"text-align:{side}\">{}</{tag}>",
                    escape(cell)
                )
            });
            format!("<tr>{}</tr>", cells.collect::<String>())
        };
        let body = rows
            .iter()
            .map(|row| cells("td", &row.each_ref().map(|cell| &**cell)));
        let html = format!(
            "<p>{}</p><table><thead>{}</thead><tbody>{}</tbody></table>",
            escape(&heading),
            cells("th", &HEAD),
            body.collect::<String>()
        );
        Bundle::text(text.trim_end()).with("text/html", html)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use launcher::check::Relation;

    #[test]
    fn one_table_has_what_holds_and_what_is_shown() {
        let mut time = Verdict::of(3.0, Relation::Less, 2.0, 0.0);
        time.shown = Some("ranks share cores".into());
        let all = Verdicts::new(
            "Figure 4",
            vec![Verdict::of(1.0, Relation::Equal, 1.0, 0.0), time],
        );
        assert_eq!(all.heading(), "2 claims of Figure 4: 1 hold, 1 shown");
        let bundle = all.bundle();
        let text = bundle.get("text/plain").expect("words are always there");
        assert!(
            text.contains("1.500  shown: NOT so here; ranks share cores"),
            "{text}"
        );
        assert!(
            bundle
                .get("text/html")
                .is_some_and(|html| html.contains("<td"))
        );
    }
}
