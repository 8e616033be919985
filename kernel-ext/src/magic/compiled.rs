//! Cells whose Rust becomes a program of its own.

use super::action::Refusal;
use super::flags::Parsed;

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
