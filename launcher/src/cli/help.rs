//! Help, generated from the table of keys and the registries.

use super::Command;
use crate::flags::{self, PAIRS, TRAIN};
use gnn_core::spec::{KEYS, RunSpec};
use gnn_core::strategy::STRATEGIES;
use std::fmt::Write;

/// All commands.
pub fn overview(commands: &[Command]) -> String {
    let mut text = String::from(
        "Halobook trains graph neural networks on several ranks and returns what happened as frames.\n\n",
    );
    for command in commands {
        let _ = writeln!(text, "  halobook {:<11} {}", command.name, command.about);
    }
    text.push_str(
        "\nExit status: 0 ok, 1 the run failed, 2 the request was wrong, 130 interrupted.\n\
         Runs lie in $HALOBOOK_HOME/runs (see `halobook doctor`).\n",
    );
    text
}

/// One command; `train` with every key.
pub fn command(command: &Command) -> String {
    let mut text = format!(
        "halobook {} {}\n\n{}\n",
        command.name, command.arguments, command.about
    );
    if command.name == "train" {
        text.push_str(&keys());
    }
    if command.name == "sweep" {
        text.push_str(&super::sweep::help());
    }
    if command.name == "check" {
        text.push_str(CHECK);
    }
    if command.name == "partition" {
        text.push_str(&super::partition::help());
    }
    if command.name == "plan" {
        text.push_str(&super::plan::help());
    }
    if command.name == "bench" {
        text.push_str(super::bench::help());
    }
    if command.name == "datasets" {
        text.push_str(super::datasets::HELP);
    }
    if command.name == "convert" {
        text.push_str(super::convert::HELP);
    }
    text
}

const CHECK: &str = "
One claim a line, or several words: two numbers with <, <=, ==, !=, ~ (near), >= or > between them.

  halobook check 'latest.test >= 0.9' 'count(runs.run_id where status = \'failed\') == 0'
  halobook check 'max(r1_epochs.wall_ms) < 20' 'r1.test ~ 0.97 +- 0.01' --run r1=latest

RUN.COLUMN is a column of a run's row in the frame runs; mean, median, min, max, sum, std, count, first and
last take TABLE.COLUMN, with a condition in SQL if need be. Tables are runs, those of all runs (epochs,
ranks, …), and NAME_epochs, NAME_ranks, … of a run that --run names. Near may say how near, +- 0.01 or
within 5 %; --tol is for claims that do not, as a part of the right side [0.05].
Exit status: 0 all hold, 1 one does not, 2 a claim was refused.
";

/// Every key, every strategy's knobs, and the flags that are no keys.
fn keys() -> String {
    let defaults = RunSpec::default();
    let mut text = String::from("\nKeys (flags here; the same names in a file and in a cell):\n");
    for key in KEYS {
        let short = key.short.map_or(String::from("   "), |c| format!("-{c},"));
        let name = key.flag;
        let default = (key.get)(&defaults).to_string();
        let default = if default.is_empty() {
            String::new()
        } else {
            format!(" [{default}]")
        };
        let _ = writeln!(
            text,
            "  {short} --{name:<13} {:<24} {}{default}",
            flags::values(key.kind),
            key.doc
        );
    }
    for entry in STRATEGIES.iter().filter(|e| !e.knobs.is_empty()) {
        let _ = writeln!(text, "\nKnobs of {}:", entry.name);
        for knob in entry.knobs {
            let name = knob.name.replace('_', "-");
            let _ = writeln!(
                text,
                "      --{name:<13} {:<24} {} [{}]",
                "", knob.doc, knob.default
            );
        }
    }
    text.push_str("\nOther flags:\n");
    text.push_str(&flags::help(PAIRS));
    text.push_str(&flags::help(TRAIN));
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn help_lists_every_key() {
        let text = super::keys();
        for key in gnn_core::spec::KEYS {
            assert!(text.contains(&format!("--{}", key.flag)), "{}", key.name);
        }
    }
}
