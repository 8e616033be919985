//! Whether a strategy gives what `single` gives: short trainings on a small graph, compared.
//!
//! Each is a run of its own, by threads, in a store of its own that is deleted afterwards; so ranks that
//! wait for each other for ever are found and named, and no strategy can take the process down.

use crate::error::{Error, Result};
use crate::frames;
use crate::request::Pair;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A graph with several classes whose parts share edges.
const DATA: &str = "sbm:nodes=240,classes=4";
/// How far two losses may be apart, as a part: sums are rounded in another order.
pub const NEAR: f64 = 1e-5;
/// Epochs of each training.
const EPOCHS: usize = 10;
/// Seconds after which waiting ranks are given up.
const STALL: &str = "5";

/// What is to be compared.
#[derive(Debug, Clone)]
pub struct Request {
    /// The strategy.
    pub strategy: String,
    /// Numbers of ranks.
    pub ranks: Vec<usize>,
    /// Settings; data, model and epochs may be among them.
    pub pairs: Vec<Pair>,
}

/// One number of ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Ranks.
    pub ranks: usize,
    /// The largest difference of an epoch's loss, as a part of it; none where it did not train.
    pub apart: Option<f64>,
    /// The first epoch whose loss differs by more than rounding.
    pub from_epoch: Option<usize>,
    /// Why it did not train.
    pub error: Option<String>,
}

/// What it came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// On what, in words.
    pub on: String,
    /// By number of ranks.
    pub cases: Vec<Case>,
}

impl Verdict {
    /// Whether every case trained and none differs by more than rounding.
    pub fn exact(&self) -> bool {
        let same = |case: &Case| case.apart.is_some_and(|apart| apart <= NEAR);
        !self.cases.is_empty() && self.cases.iter().all(same)
    }

    /// The first case that did not train: ranks and why.
    pub fn failed(&self) -> Option<(usize, &str)> {
        let of = |case: &'_ Case| case.error.is_some();
        let case = self.cases.iter().find(|case| of(case))?;
        Some((case.ranks, case.error.as_deref().unwrap_or_default()))
    }
}

/// `exact: …` or `not exact: …`, and a line for each number of ranks.
impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let head = if self.exact() {
            "exact: the losses of single"
        } else if self.failed().is_some() {
            "it does not train"
        } else {
            "not exact: other losses than single"
        };
        writeln!(f, "{head} ({})", self.on)?;
        for Case {
            ranks,
            apart,
            from_epoch,
            error,
        } in &self.cases
        {
            let ranks = match ranks {
                1 => "1 rank ".to_owned(),
                n => format!("{n} ranks"),
            };
            match (apart, error, from_epoch) {
                (_, Some(error), _) => writeln!(f, "  {ranks}  {error}")?,
                (Some(apart), _, None) => writeln!(f, "  {ranks}  within {apart:.1e}")?,
                (Some(apart), _, Some(epoch)) => {
                    writeln!(f, "  {ranks}  {apart:.1e} apart, from epoch {epoch} on")?;
                }
                (None, ..) => writeln!(f, "  {ranks}  nothing to compare")?,
            }
        }
        Ok(())
    }
}

/// Compares. `halobook` is the program that knows the strategy.
///
/// # Errors
/// [`Error::Refused`] when `single` refuses the request; a strategy that fails is no error.
pub fn verify(halobook: &Path, request: &Request) -> Result<Verdict> {
    let home = Home::new()?;
    let train = |strategy: &str, ranks: usize, pairs: &[Pair]| -> std::result::Result<_, String> {
        let mut command = Command::new(halobook);
        command
            .args(["train", "--quiet", "--json", "--launch", "threads"])
            .args(["--stall", STALL, "--threads", "1"])
            .args(["--data", DATA, "--epochs", &EPOCHS.to_string()])
            .args(["--strategy", strategy, "--ranks", &ranks.to_string()]);
        for (key, value) in pairs {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        let done = command
            .env("HALOBOOK_HOME", &home.0)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("cannot start {}: {e}", halobook.display()))?;
        let said = String::from_utf8_lossy(&done.stderr);
        if !done.status.success() {
            let line = said.lines().find_map(|line| line.strip_prefix("error: "));
            return Err(line.unwrap_or("it ended without a word").to_owned());
        }
        let last = String::from_utf8_lossy(&done.stdout);
        let last = last.lines().last().unwrap_or_default();
        let object: serde_json::Value = serde_json::from_str(last).unwrap_or_default();
        let id = object["run_id"].as_str().unwrap_or_default();
        losses(&home.0.join("runs").join(id)).map_err(|e| e.to_string())
    };
    let own = |pair: &&Pair| gnn_core::spec::find_key(&pair.0).is_some();
    let shared: Vec<Pair> = request.pairs.iter().filter(own).cloned().collect();
    let single = train("single", 1, &shared).map_err(|why| {
        Error::refused(
            format!("single cannot train that: {why}"),
            "change the settings that it is compared with",
        )
    })?;
    let cases =
        request.ranks.iter().map(
            |&ranks| match train(&request.strategy, ranks, &request.pairs) {
                Ok(losses) => compare(ranks, &single, &losses),
                Err(error) => Case {
                    ranks,
                    apart: None,
                    from_epoch: None,
                    error: Some(error),
                },
            },
        );
    let cases = cases.collect();
    let of = |name: &str| {
        let found = request.pairs.iter().rev().find(|pair| pair.0 == name);
        found.map(|pair| pair.1.to_string())
    };
    let settings = request.pairs.iter().filter(|pair| !own(pair));
    let settings: String = settings.map(|(k, v)| format!(", {k} = {v}")).collect();
    Ok(Verdict {
        on: format!(
            "{} on {}, {} epochs{settings}",
            of("model").unwrap_or("gcn".into()),
            of("data").unwrap_or(DATA.into()),
            single.len()
        ),
        cases,
    })
}

fn compare(ranks: usize, single: &[f64], losses: &[f64]) -> Case {
    let apart = |(a, b): (&f64, &f64)| match (a - b).abs() / a.abs().max(1e-3) {
        part if part.is_nan() => f64::INFINITY,
        part => part,
    };
    let parts: Vec<f64> = single.iter().zip(losses).map(apart).collect();
    Case {
        ranks,
        apart: parts.iter().copied().reduce(f64::max),
        from_epoch: parts.iter().position(|part| *part > NEAR),
        error: None,
    }
}

/// The training losses of a run.
fn losses(run_dir: &Path) -> Result<Vec<f64>> {
    let frame = frames::load(run_dir, "epochs")?;
    let column = frame.column("train_loss").and_then(|c| c.f64().cloned());
    let column = column.map_err(Error::frame("epochs"))?;
    Ok(column.iter().map(|x| x.unwrap_or(f64::NAN)).collect())
}

/// A store for these runs alone.
struct Home(PathBuf);

impl Home {
    fn new() -> Result<Home> {
        let name = format!(
            "halobook-verify-{}-{}",
            std::process::id(),
            crate::store::new_id()
        );
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).map_err(Error::io(&dir))?;
        Ok(Home(dir))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What cannot be removed is for the system's own cleaning of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_the_same_and_a_drifting_loss_is_not() {
        let single = [1.0, 0.5, 0.25];
        let near = compare(2, &single, &[1.0, 0.5 + 1e-7, 0.25]);
        let off = compare(3, &single, &[1.0, 0.5, 0.3]);
        let nan = compare(4, &single, &[f64::NAN, 0.5, 0.25]);
        assert_eq!(near.from_epoch, None);
        assert_eq!(off.from_epoch, Some(2));
        assert_eq!(nan.from_epoch, Some(0));
        let verdict = |cases| Verdict {
            on: "gcn".into(),
            cases,
        };
        assert!(verdict(vec![near.clone()]).exact());
        assert!(!verdict(vec![near, off]).exact());
        assert!(!verdict(Vec::new()).exact());
    }
}
