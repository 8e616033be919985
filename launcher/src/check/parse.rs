//! Claims as they are written.

use super::verdict::RELATIONS;
use super::{Aggregate, Claim, Expr, Relation, Tolerance};
use crate::error::{Error, Result};

/// Functions of a column, and their names in SQL.
const FUNCTIONS: &[(&str, &str)] = &[
    ("mean", "AVG"),
    ("median", "MEDIAN"),
    ("min", "MIN"),
    ("max", "MAX"),
    ("sum", "SUM"),
    ("std", "STDDEV"),
    ("count", "COUNT"),
    ("first", "FIRST"),
    ("last", "LAST"),
];

/// Reads claims, one a line; empty lines and remarks after `#` or `//` are left out.
///
/// # Errors
/// [`Error::Refused`] naming the line that is none.
pub fn read(text: &str) -> Result<Vec<Claim>> {
    let mut claims = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = without_remark(line).trim();
        if line.is_empty() {
            continue;
        }
        let claim = claim(line).map_err(|what| {
            Error::refused(
                format!("line {}: {what}: {line}", index + 1),
                "write for example r1.test >= 0.9, or median(r1_epochs.wall_ms where epoch > 0) < 20",
            )
        })?;
        claims.push(claim);
    }
    match claims.is_empty() {
        true => Err(Error::refused(
            "there is no claim",
            "write for example r1.test >= 0.9",
        )),
        false => Ok(claims),
    }
}

/// The line before a remark; quotes hold anything.
fn without_remark(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == '#' || line[at..].starts_with("//") => return &line[..at],
            None => {}
        }
    }
    line
}

type Read<T> = std::result::Result<T, String>;

fn claim(line: &str) -> Read<Claim> {
    let bare = line.strip_prefix("shown ").map(str::trim_start);
    let (line, shown) = (bare.unwrap_or(line), bare.is_some());
    let mut why = shown.then(|| "not decided here".to_owned());
    let (label, text) = match line.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
        Some((label, rest)) => {
            let mut rest = rest.trim_start();
            if let Some((reason, after)) = rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
                let why = why.as_mut().ok_or("only what is shown has a reason")?;
                reason.clone_into(why);
                rest = after.trim_start();
            }
            let text = rest.strip_prefix(':');
            let text = text.ok_or("expected ':' after the words in quotes")?;
            (Some(label.to_owned()), text.trim())
        }
        None => (None, line),
    };
    let mut words = Words { text, at: 0 };
    let left = words.sum()?;
    let relation = words.relation()?;
    let right = words.sum()?;
    let tolerance = words.tolerance()?;
    if tolerance.is_some() && relation != Relation::Near {
        return Err("only what is near (~) has a tolerance".into());
    }
    match words.rest() {
        "" => Ok(Claim {
            text: text.to_owned(),
            label,
            left,
            relation,
            right,
            tolerance,
            shown: why,
        }),
        rest => Err(format!("`{rest}` has no place")),
    }
}

/// What is left of a line.
struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        &self.text[self.at..]
    }

    fn takes(&mut self, word: &str) -> bool {
        let there = self.rest().starts_with(word);
        self.at += if there { word.len() } else { 0 };
        there
    }

    /// The characters from here on that `is` is true of.
    fn run(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !is(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn sum(&mut self) -> Read<Expr> {
        let mut sum = self.product()?;
        loop {
            // `+-` begins a tolerance.
            let sign = match self.rest() {
                rest if rest.starts_with("+-") => return Ok(sum),
                rest if rest.starts_with('+') => '+',
                rest if rest.starts_with('-') => '-',
                _ => return Ok(sum),
            };
            self.at += 1;
            sum = Expr::Binary(sign, sum.into(), self.product()?.into());
        }
    }

    fn product(&mut self) -> Read<Expr> {
        let mut product = self.factor()?;
        loop {
            let sign = match self.rest().chars().next() {
                Some(sign @ ('*' | '/')) => sign,
                _ => return Ok(product),
            };
            self.at += 1;
            product = Expr::Binary(sign, product.into(), self.factor()?.into());
        }
    }

    fn factor(&mut self) -> Read<Expr> {
        if self.takes("-") {
            return Ok(Expr::Negative(self.factor()?.into()));
        }
        if self.takes("(") {
            let inner = self.sum()?;
            return match self.takes(")") {
                true => Ok(inner),
                false => Err("a parenthesis is not closed".into()),
            };
        }
        match self.rest().chars().next() {
            Some(c) if c.is_ascii_digit() || c == '.' => self.number().map(Expr::Number),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.named(),
            Some(c) => Err(format!("expected a number or a name, got `{c}`")),
            None => Err("expected a number or a name".into()),
        }
    }

    fn number(&mut self) -> Read<f64> {
        let rest = self.rest().as_bytes();
        let mut end = 0;
        while let Some(&c) = rest.get(end) {
            let after_e = end > 0 && matches!(rest[end - 1], b'e' | b'E');
            let part = c.is_ascii_digit() || matches!(c, b'.' | b'_' | b'e' | b'E');
            if !(part || after_e && matches!(c, b'+' | b'-')) {
                break;
            }
            end += 1;
        }
        let text = &self.rest()[..end];
        self.at += end;
        let number = text.replace('_', "").parse();
        number.map_err(|_| format!("`{text}` is no number"))
    }

    fn identifier(&mut self) -> Read<String> {
        let name = self.run(|c| c.is_ascii_alphanumeric() || c == '_');
        match name {
            "" => Err("expected a name".into()),
            name => Ok(name.to_owned()),
        }
    }

    /// `run.field`, or a function of a column.
    fn named(&mut self) -> Read<Expr> {
        let name = self.identifier()?;
        if self.takes("(") {
            return self.aggregate(&name).map(Expr::Of);
        }
        if self.takes("[") {
            return self.cell(name);
        }
        if !self.takes(".") {
            return Err(format!("expected `{name}.FIELD` or a function"));
        }
        Ok(Expr::Field {
            run: name,
            field: self.identifier()?,
        })
    }

    /// `'LABEL', 'LABEL'].COLUMN`
    fn cell(&mut self, table: String) -> Read<Expr> {
        let mut labels = Vec::new();
        loop {
            if !self.takes("'") {
                return Err(format!("expected `{table}['LABEL'].COLUMN`"));
            }
            let rest = &self.text[self.at..];
            let end = rest.find('\'').ok_or("a label is not closed")?;
            labels.push(rest[..end].to_owned());
            self.at += end + 1;
            if self.takes("]") {
                break;
            }
            if !self.takes(",") {
                return Err("expected `]` or `,` after a label".into());
            }
        }
        if !self.takes(".") {
            return Err(format!("expected a column after `{table}[…]`"));
        }
        Ok(Expr::Cell {
            table,
            labels,
            column: self.identifier()?,
        })
    }

    fn aggregate(&mut self, name: &str) -> Read<Aggregate> {
        let known = FUNCTIONS.iter().find(|(known, _)| *known == name);
        let Some((_, function)) = known else {
            let near = gnn_core::error::nearest(name, FUNCTIONS.iter().map(|f| f.0));
            let near = near.map_or(String::new(), |n| format!("; did you mean {n}?"));
            return Err(format!("there is no function {name}{near}"));
        };
        let table = self.identifier()?;
        if !self.takes(".") {
            return Err(format!("expected `{name}(TABLE.COLUMN)`"));
        }
        let column = self.identifier()?;
        let condition = match self.takes("where ") || self.takes("WHERE ") {
            true => Some(self.condition()?),
            false => None,
        };
        match self.takes(")") {
            true => Ok(Aggregate {
                function,
                table,
                column,
                condition,
            }),
            false => Err(format!("`{name}(` is not closed")),
        }
    }

    /// SQL up to the parenthesis that closes the function.
    fn condition(&mut self) -> Read<String> {
        let rest = self.rest();
        let (mut open, mut quoted) = (0, false);
        for (at, c) in rest.char_indices() {
            match c {
                '\'' => quoted = !quoted,
                _ if quoted => {}
                '(' => open += 1,
                ')' if open == 0 => {
                    self.at += at;
                    return match rest[..at].trim() {
                        "" => Err("expected a condition".into()),
                        condition => Ok(condition.to_owned()),
                    };
                }
                ')' => open -= 1,
                _ => {}
            }
        }
        Err("a condition is not closed".into())
    }

    fn relation(&mut self) -> Read<Relation> {
        let found = RELATIONS.iter().find(|(word, _)| self.takes(word));
        found
            .map(|r| r.1)
            .ok_or_else(|| "expected <, <=, ==, !=, ~, >= or > between two numbers".into())
    }

    fn tolerance(&mut self) -> Read<Option<Tolerance>> {
        if self.takes("±") || self.takes("+-") {
            return self.number().map(|most| Some(Tolerance::Absolute(most)));
        }
        if !self.takes("within") {
            return Ok(None);
        }
        let part = self.number()?;
        Ok(Some(match self.takes("%") {
            true => Tolerance::Relative(part / 100.0),
            false => Tolerance::Absolute(part),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        read(line).expect_err("no claim").to_string()
    }

    #[test]
    fn names_and_functions_are_read() {
        let text = "\"a label\": mean(s.test where strategy = 'a (b)' and (ranks > 2)) ~ r1.test";
        let claim = &read(text).expect("a claim")[0];
        assert_eq!(claim.label.as_deref(), Some("a label"));
        assert_eq!(
            claim.left,
            Expr::Of(Aggregate {
                function: "AVG",
                table: "s".into(),
                column: "test".into(),
                condition: Some("strategy = 'a (b)' and (ranks > 2)".into()),
            })
        );
        let field = Expr::Field {
            run: "r1".into(),
            field: "test".into(),
        };
        assert_eq!(claim.right, field);
    }

    #[test]
    fn rows_are_named_by_their_labels() {
        let text = "t['SCS-E1'].saved < 0.5 * t['4 ranks', 'it is [b]'].saved";
        let claim = &read(text).expect("a claim")[0];
        let cell = |labels: &[&str]| Expr::Cell {
            table: "t".into(),
            labels: labels.iter().map(|l| (*l).to_owned()).collect(),
            column: "saved".into(),
        };
        assert_eq!(claim.left, cell(&["SCS-E1"]));
        let half = Expr::Binary(
            '*',
            Expr::Number(0.5).into(),
            cell(&["4 ranks", "it is [b]"]).into(),
        );
        assert_eq!(claim.right, half);
        assert!(refused("t[1].x < 2").contains("expected `t['LABEL'].COLUMN`"));
        assert!(refused("t['a' 'b'].x < 2").contains("expected `]` or `,`"));
        assert!(refused("t['a'] < 2").contains("expected a column"));
    }

    #[test]
    fn what_is_no_claim_is_refused_with_its_line() {
        assert!(refused("1 < 2\nr1.test").contains("line 2: expected <, <="));
        assert!(refused("average(s.x) < 2").contains("there is no function average"));
        assert!(refused("meen(s.x) < 2").contains("did you mean mean?"));
        assert!(refused("1 < 2 +- 3").contains("only what is near"));
        assert!(refused("mean(s.x where a = 'b' < 2").contains("not closed"));
        assert!(refused("1 < 2 3").contains("`3` has no place"));
        assert!(refused("# nothing\n").contains("there is no claim"));
        assert!(refused("\"label\" 1 < 2").contains("expected ':'"));
        assert!(refused("1..2 < 3").contains("is no number"));
        assert!(refused("\"label\" (why): 1 < 2").contains("only what is shown has a reason"));
    }
}
