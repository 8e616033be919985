//! What is true of a comparison of two numbers.

/// How two numbers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `==`
    Equal,
    /// `!=`
    Different,
    /// `~`
    Near,
}

/// Relations as they are written, the longer ones first.
pub(super) const RELATIONS: [(&str, Relation); 8] = [
    ("<=", Relation::LessOrEqual),
    (">=", Relation::GreaterOrEqual),
    ("==", Relation::Equal),
    ("!=", Relation::Different),
    ("<", Relation::Less),
    (">", Relation::Greater),
    ("=", Relation::Equal),
    ("~", Relation::Near),
];

impl Relation {
    /// The relation that is written so.
    pub fn parse(word: &str) -> Option<Relation> {
        RELATIONS
            .iter()
            .find(|(known, _)| *known == word)
            .map(|(_, relation)| *relation)
    }

    /// As it is written.
    pub fn sign(self) -> &'static str {
        RELATIONS
            .iter()
            .find(|(_, known)| *known == self)
            .map_or("", |(sign, _)| sign)
    }
}

/// Whether a claim holds, and what its two sides are.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The claim as it is written.
    pub text: String,
    /// What it says, in words.
    pub label: Option<String>,
    /// Its sides.
    pub left: f64,
    /// How they are compared.
    pub relation: Relation,
    /// The other one.
    pub right: f64,
    /// How far apart they may be, where they need only be near.
    pub apart: Option<f64>,
    /// Whether it is so. Nothing is so of what is not a number.
    pub holds: bool,
    /// Why it is only shown and does not fail; none where it can.
    pub shown: Option<String>,
}

impl Verdict {
    /// What is true of two numbers; `apart` is what is near.
    pub fn of(left: f64, relation: Relation, right: f64, apart: f64) -> Verdict {
        let holds = match relation {
            Relation::Less => left < right,
            Relation::LessOrEqual => left <= right,
            Relation::Greater => left > right,
            Relation::GreaterOrEqual => left >= right,
            Relation::Equal => left == right,
            Relation::Different => !left.is_nan() && !right.is_nan() && left != right,
            Relation::Near => (left - right).abs() <= apart,
        };
        Verdict {
            text: format!("{} {} {}", short(left), relation.sign(), short(right)),
            label: None,
            left,
            relation,
            right,
            apart: (relation == Relation::Near).then_some(apart),
            holds,
            shown: None,
        }
    }

    /// Whether it must fail whatever asks: it does not hold, and is not only shown.
    pub fn fails(&self) -> bool {
        !self.holds && self.shown.is_none()
    }

    /// `holds`, `FAILS` or `shown`.
    pub fn mark(&self) -> &'static str {
        match (&self.shown, self.holds) {
            (Some(_), _) => "shown",
            (None, true) => "holds",
            (None, false) => "FAILS",
        }
    }

    /// What is judged of something that is only shown: whether it is so here, and why that decides nothing.
    /// Of two numbers that nobody said to be near there is only the reason.
    pub fn remark(&self) -> Option<String> {
        let why = self.shown.as_ref()?;
        if self.apart == Some(0.0) {
            return Some(why.clone());
        }
        let so = if self.holds { "so here" } else { "NOT so here" };
        Some(format!("{so}; {why}"))
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = self.mark();
        write!(
            f,
            "{mark}  {}: ",
            self.label.as_deref().unwrap_or(&self.text)
        )?;
        write!(f, "{} against {}", short(self.left), short(self.right))?;
        if let Some(apart) = self.apart {
            write!(f, " ± {}", short(apart))?;
        }
        match self.remark() {
            Some(remark) => write!(f, " ({remark})"),
            None => Ok(()),
        }
    }
}

/// A number in few digits, all of them if it is whole.
pub fn short(x: f64) -> String {
    if x.fract() == 0.0 && x.abs() < 1e15 {
        return format!("{x:.0}");
    }
    let digits = (5 - x.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{x:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_read_back() {
        for (sign, relation) in RELATIONS {
            assert_eq!(Relation::parse(sign), Some(relation));
            assert!(sign == "=" || relation.sign() == sign);
        }
        assert_eq!(Relation::parse("=<"), None);
    }

    #[test]
    fn only_what_can_fail_fails() {
        let mut verdict = Verdict::of(2.0, Relation::Less, 1.0, 0.0);
        assert!(verdict.fails() && verdict.mark() == "FAILS");
        verdict.shown = Some("ranks share cores".into());
        assert!(!verdict.fails() && verdict.mark() == "shown");
        assert_eq!(
            verdict.remark().as_deref(),
            Some("NOT so here; ranks share cores")
        );
        let mut beside = Verdict::of(2.0, Relation::Near, 1.0, 0.0);
        beside.shown = Some("another machine".into());
        assert_eq!(beside.remark().as_deref(), Some("another machine"));
        assert!(Verdict::of(f64::NAN, Relation::Equal, f64::NAN, 0.0).fails());
    }
}
