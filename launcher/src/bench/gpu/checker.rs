//! NVIDIA's memory checker over a training of each kind of kernel.

use super::answers::DATA;
use crate::error::{Error, Result};
use crate::mpi::on_path;
use crate::sys;
use std::path::Path;
use std::process::{Command, Stdio};

/// The tools, by what they look for: memory nobody has, hazards, barriers, memory nobody wrote.
const TOOLS: [&str; 4] = ["memcheck", "racecheck", "synccheck", "initcheck"];

/// Models whose kernels differ.
const MODELS: [&str; 3] = ["gcn", "gat", "rgcn"];

/// What one tool said of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The tool.
    pub tool: &'static str,
    /// The model.
    pub model: &'static str,
    /// Errors it counted; or why it could not say.
    pub errors: std::result::Result<u64, String>,
}

/// What all tools said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// By tool and model; empty where the checker is not there.
    pub outcomes: Vec<Outcome>,
}

impl Checked {
    /// Whether nobody found anything.
    pub fn clean(&self) -> bool {
        self.outcomes.iter().all(|o| o.errors == Ok(0))
    }
}

/// Runs all tools; none where there is no checker.
pub(super) fn run(worker: &Path, told: &mut dyn FnMut(&str)) -> Result<Checked> {
    let mut checked = Checked::default();
    let Some(checker) = on_path("compute-sanitizer") else {
        return Ok(checked);
    };
    let store = std::env::temp_dir().join(format!("halobook-checked-{}", std::process::id()));
    std::fs::create_dir_all(&store).map_err(Error::io(&store))?;
    for model in MODELS {
        for tool in TOOLS {
            if sys::interrupts() > 0 {
                break;
            }
            told(&format!("memory checker: {tool}, {model}"));
            let mut command = Command::new(&checker);
            command
                .args(["--tool", tool, "--target-processes", "all"])
                .arg(worker)
                .args(["train", "--launch", "threads", "--strategy", "single"])
                .args(["--backend", "cuda", "--model", model, "--data", DATA])
                .args(["--hidden", "16", "--epochs", "1", "--quiet"])
                .env("HALOBOOK_HOME", &store)
                .stdin(Stdio::null());
            let output = command.output().map_err(Error::io(&checker))?;
            let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
            said += &String::from_utf8_lossy(&output.stderr);
            let errors = match (errors(&said), output.status.success()) {
                (Some(0), false) | (None, _) => Err(last_words(&said)),
                (Some(errors), _) => Ok(errors),
            };
            checked.outcomes.push(Outcome {
                tool,
                model,
                errors,
            });
        }
    }
    // What cannot be removed is for the system's own cleaning of temporary files.
    let _ = std::fs::remove_dir_all(&store);
    Ok(checked)
}

/// The errors of all processes together; none where no process was checked.
fn errors(said: &str) -> Option<u64> {
    let counts = said.lines().filter_map(|line| {
        let rest = line.split_once("SUMMARY: ")?.1;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    });
    counts.reduce(|a, b| a + b)
}

fn last_words(said: &str) -> String {
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("it ended without a word").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_all_processes_are_added() {
        let clean = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n";
        assert_eq!(errors(clean), Some(0));
        let two = format!(
            "{clean}========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)\n"
        );
        assert_eq!(errors(&two), Some(3));
        assert_eq!(errors("nothing was checked\n\n"), None);
        assert_eq!(last_words("nothing was checked\n\n"), "nothing was checked");
        let wrong = Outcome {
            tool: "memcheck",
            model: "gcn",
            errors: Ok(1),
        };
        assert!(
            !Checked {
                outcomes: vec![wrong]
            }
            .clean()
        );
        assert!(Checked::default().clean());
    }
}
