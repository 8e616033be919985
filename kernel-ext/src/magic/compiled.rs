//! Cells whose Rust becomes a program of its own.

use super::action::{Refusal, identifier, place};
use super::flags::Parsed;
use super::own_flags::GROUPS;

/// A strategy as the cell writes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StrategyRequest {
    /// Its name in other cells; empty where only the traits are to be shown.
    pub name: String,
    /// The cell's Rust, at its lines; the magic's is blank.
    pub code: String,
    /// Whether it is compared with `single`.
    pub verify: bool,
    /// Numbers of ranks to compare it on, where given.
    pub ranks: Option<String>,
    /// Settings to compare it with.
    pub pairs: Vec<(String, String)>,
    /// Show what can be implemented instead.
    pub show_trait: bool,
}

/// Reads the cell of a strategy; `head` is its text up to and with the magic's `line`.
pub(super) fn strategy(
    parsed: Parsed,
    head: &str,
    line: &str,
    body: &str,
) -> Result<StrategyRequest, Refusal> {
    let whole = |message: String, help: &str| Refusal {
        message,
        line: line.to_owned(),
        span: (0, line.chars().count()),
        help: help.to_owned(),
    };
    let mut request = StrategyRequest {
        code: format!("{}{body}", "\n".repeat(head.lines().count())),
        verify: true,
        ..StrategyRequest::default()
    };
    for (flag, value) in parsed.flags {
        match flag {
            "no-verify" => request.verify = false,
            "show-trait" => request.show_trait = true,
            "ranks" => request.ranks = Some(value),
            "set" => match value.split_once('=') {
                Some((key, value)) => {
                    let pair = (key.trim().to_owned(), value.trim().to_owned());
                    request.pairs.push(pair);
                }
                None => {
                    return Err(whole(
                        "--set takes KEY=VALUE".into(),
                        "for example --set every=1",
                    ));
                }
            },
            _ => request.pairs.push((flag.to_owned(), value)),
        }
    }
    if request.show_trait {
        return Ok(request);
    }
    let name = parsed.args.into_iter().next().unwrap_or_default();
    check_name(&name).map_err(|[what, help]| whole(what, &help))?;
    request.name = name;
    Ok(request)
}

/// How what ranks print is laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Group {
    /// Lines that all ranks printed once, the others by rank; as it comes.
    #[default]
    Same,
    /// All of rank 0, then all of rank 1, …; in the end.
    Rank,
    /// Line by line as it comes, each with its rank.
    Order,
    /// Standard output as in `Same`, standard error apart from it.
    Type,
    /// As it comes, without a word about ranks.
    None,
}

impl Group {
    fn parse(word: &str) -> Option<Group> {
        let all = [
            Group::Same,
            Group::Rank,
            Group::Order,
            Group::Type,
            Group::None,
        ];
        let at = GROUPS.iter().position(|name| *name == word)?;
        all.get(at).copied()
    }
}

/// What every rank is to run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RanksRequest {
    /// The cell's Rust, at its lines; the magic's is blank.
    pub code: String,
    /// How many ranks, where given.
    pub ranks: Option<usize>,
    /// Those that run it; all where empty.
    pub only: Vec<u32>,
    /// Variables of the notebook that the cell is given.
    pub inputs: Vec<String>,
    /// The variable to bind.
    pub output: Option<String>,
    /// Seconds that it may take.
    pub timeout: Option<f64>,
    /// Seconds that all may wait.
    pub stall: Option<f64>,
    /// The layout of what they print.
    pub group: Group,
    /// Whether ranks begin anew.
    pub fresh: bool,
    /// The data set of `ctx.graph()`.
    pub data: Option<String>,
    /// How it is cut.
    pub partition: Option<String>,
}

/// Reads the cell for every rank; `head` is its text up to and with the magic's `line`.
pub(super) fn ranks(
    parsed: Parsed,
    head: &str,
    line: &str,
    body: &str,
) -> Result<RanksRequest, Refusal> {
    let refuse = |value: &str, message: String, help: &str| Refusal {
        message,
        line: line.to_owned(),
        span: place(line, value),
        help: help.to_owned(),
    };
    let mut request = RanksRequest {
        code: format!("{}{body}", "\n".repeat(head.lines().count())),
        ..RanksRequest::default()
    };
    for (flag, value) in parsed.flags {
        let seconds = || {
            let number = gnn_core::spec::seconds(&value);
            number.filter(|s| *s > 0.0).ok_or_else(|| {
                let what = format!("--{flag} takes seconds, not `{value}`");
                refuse(&value, what, "for example --timeout 10")
            })
        };
        match flag {
            "ranks" => {
                let number = value.parse().ok().filter(|n| *n > 0);
                request.ranks = Some(number.ok_or_else(|| {
                    let what = format!("-n takes a number of ranks, not `{value}`");
                    refuse(&value, what, "for example -n 4")
                })?);
            }
            "targets" => {
                request.only = targets(&value).ok_or_else(|| {
                    let what = format!("-t takes ranks, not `{value}`");
                    refuse(&value, what, "for example -t 0,2..3")
                })?;
            }
            "input" => request.inputs.push(identifier(value, line)?),
            "output" => request.output = Some(identifier(value, line)?),
            "timeout" => request.timeout = Some(seconds()?),
            "stall" => request.stall = Some(seconds()?),
            "group" => {
                request.group = Group::parse(&value).ok_or_else(|| {
                    let what = format!("--group takes one of {}, not `{value}`", GROUPS.join(", "));
                    refuse(&value, what, "for example --group rank")
                })?;
            }
            "fresh" => request.fresh = true,
            "data" => request.data = Some(value),
            _ => request.partition = Some(value),
        }
    }
    Ok(request)
}

/// `0,2..3`: ranks and ranges of them, both ends included.
fn targets(written: &str) -> Option<Vec<u32>> {
    let mut ranks = Vec::new();
    for part in written.split(',') {
        match part.split_once("..") {
            Some((from, to)) => {
                let (from, to): (u32, u32) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
                ranks.extend(from..=to);
            }
            None => ranks.push(part.trim().parse().ok()?),
        }
    }
    ranks.sort_unstable();
    ranks.dedup();
    Some(ranks)
}

/// Whether a strategy can be called that; it names a folder, too.
///
/// # Errors
/// What is wrong, and what to do.
pub fn check_name(name: &str) -> Result<(), [String; 2]> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(plain) {
        let what = match name {
            "" => "the strategy has no name".to_owned(),
            _ => format!("`{name}` cannot be a strategy's name"),
        };
        let help = "use lower-case letters, for example %%strategy halo_stale";
        return Err([what, help.to_owned()]);
    }
    if gnn_core::strategy::find(name).is_ok() {
        return Err([
            format!("{name} is a built-in strategy"),
            "give yours a name of its own".to_owned(),
        ]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Action, expand};
    use super::{GROUPS, Group};

    #[test]
    fn a_strategys_rust_stays_at_its_lines() {
        let cell = "// mine\n%%strategy halo_stale --set every=1\nstruct X;\n";
        let Action::Strategy(request) = expand(cell) else {
            panic!("{:?}", expand(cell))
        };
        assert_eq!(request.name, "halo_stale");
        assert_eq!(request.code, "\n\nstruct X;\n");
        assert_eq!(request.pairs, [("every".to_owned(), "1".to_owned())]);
        assert!(request.verify);
    }

    #[test]
    fn a_cell_for_ranks_is_read() {
        let cell = "%%ranks -n 4 -t 0,2..3 -i xs -o owned --timeout 10s --data karate\nrank";
        let Action::Ranks(request) = expand(cell) else {
            panic!("{:?}", expand(cell))
        };
        assert_eq!((request.ranks, request.timeout), (Some(4), Some(10.0)));
        assert_eq!(request.only, [0, 2, 3]);
        assert_eq!(request.inputs, ["xs"]);
        assert_eq!(request.output.as_deref(), Some("owned"));
        assert_eq!(request.code, "\nrank");
        assert_eq!(request.group, Group::Same);
        for (word, group) in GROUPS.iter().zip([
            Group::Same,
            Group::Rank,
            Group::Order,
            Group::Type,
            Group::None,
        ]) {
            let Action::Ranks(request) = expand(&format!("%%ranks --group {word}\nrank")) else {
                panic!("{word}")
            };
            assert_eq!(request.group, group);
        }
        for cell in [
            "%%ranks --group x\n",
            "%%ranks -n 0\n",
            "%%ranks -t a\n",
            "%%ranks -o 1x\n",
        ] {
            assert!(matches!(expand(cell), Action::Refused(_)), "{cell}");
        }
    }

    #[test]
    fn names_are_checked() {
        for (cell, said) in [
            ("%%strategy\nstruct X;", "no name"),
            ("%%strategy Halo\n", "cannot be"),
            ("%%strategy ../x\n", "cannot be"),
            ("%%strategy halo\n", "built-in"),
        ] {
            let Action::Refused(refusal) = expand(cell) else {
                panic!("{cell}")
            };
            assert!(refusal.message.contains(said), "{refusal:?}");
        }
    }
}
