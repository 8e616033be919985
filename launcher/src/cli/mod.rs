//! The command line: words in, exit status out. A library, so that a program that has strategies of its
//! own is the same command line.
//!
//! Exit status: 0 ok, 1 the run failed, 2 the request was wrong and nothing was started, 130
//! interrupted. Errors are two lines on standard error: what is wrong, what to do.

mod announce;
mod background;
mod bench;
mod commands;
mod convert;
mod datasets;
mod gc;
mod help;
mod jobs;
#[cfg(test)]
mod manual;
mod outcome;
mod own;
mod pace;
mod partition;
mod plan;
mod progress;
mod replay;
mod step;
mod sweep;
mod train;
mod verify;
mod words;
mod worker;

use crate::tables::sound;
use crate::{Error, Result, sys};
use gnn_core::comm::Transport;
use gnn_core::strategy::Entry;

/// What a program is made of beside this library.
#[derive(Clone, Copy)]
pub struct Program {
    /// The strategies that it knows.
    pub strategies: &'static [Entry],
    /// The MPI that its ranks speak, if it was built with one.
    pub mpi: Option<MpiLibrary>,
}

/// An MPI that is linked into the program.
#[derive(Clone, Copy)]
pub struct MpiLibrary {
    /// Joins the world.
    pub init: fn() -> gnn_core::Result<Box<dyn Transport>>,
    /// What it calls itself.
    pub name: fn() -> String,
}

/// What a subcommand does.
enum Run {
    /// With its words.
    Plain(fn(&[String]) -> Result<i32>),
    /// With its words, and what this program knows.
    Knowing(fn(&[String], &Program) -> Result<i32>),
}
use Run::{Knowing, Plain};

/// A subcommand: its name, its arguments, one line about it, and what it does.
struct Command {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: Run,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "train",
        arguments: "[--key value …]",
        about: "train once and wait, or with --bg not; with --repeat K as often, each with a seed of its own; --help lists the keys",
        run: Knowing(train::train),
    },
    Command {
        name: "sweep",
        arguments: "[--key value|[list] …] [--repeat K] [--resume] [--bg]",
        about: "train many settings, lists crossed; --help says how",
        run: Knowing(sweep::sweep),
    },
    Command {
        name: "partition",
        arguments: "--data NAME|PATH -n PARTS [--method metis] [--balance train,edges]",
        about: "cut a graph and see what that costs; --help lists methods and knobs",
        run: Plain(partition::partition),
    },
    Command {
        name: "plan",
        arguments: "[--like RUN] [--key value …] [-n 1,2,4] [--limit 8GB] [--json]",
        about: "say what a run would send, hold and take, without training; --help says what each number is",
        run: Knowing(plan::plan),
    },
    Command {
        name: "runs",
        arguments: "[--json]",
        about: "list runs",
        run: Plain(commands::runs),
    },
    Command {
        name: "frames",
        arguments: "[RUN [FRAME]] [--json|--csv|--parquet] [-o FILE]",
        about: "list the frames that there are, or those of a run, with their columns; or print one, or write it to FILE",
        run: Plain(commands::frames),
    },
    Command {
        name: "sql",
        arguments: "QUERY [--json] [--partial]",
        about: "ask the run store: tables runs, epochs, ranks, comm, … of all runs; exit status 1 if one cannot be read, unless --partial",
        run: Plain(commands::sql),
    },
    Command {
        name: "check",
        arguments: "CLAIMS [--run NAME=RUN] [--tol PART] [--json]",
        about: "check claims about runs, as in 'latest.test >= 0.9'; exit status 1 if one does not hold",
        run: Plain(commands::check),
    },
    Command {
        name: "diff",
        arguments: "RUN RUN [--json]",
        about: "which settings of two runs differ, and what that came to",
        run: Plain(commands::diff),
    },
    Command {
        name: "run",
        arguments: "RUN",
        about: "one run in a page: what was asked for, where it ran, what it came to",
        run: Plain(commands::run),
    },
    Command {
        name: "probe",
        arguments: "RUN [--json]",
        about: "what the embeddings that a run has kept are worth for the classes of vertices: a linear probe",
        run: Plain(commands::probe),
    },
    Command {
        name: "pin",
        arguments: "RUN [--off]",
        about: "keep a run from being deleted, or let it be again",
        run: Plain(commands::pin),
    },
    Command {
        name: "rm",
        arguments: "RUN",
        about: "delete a run with its frames, logs and checkpoints",
        run: Plain(commands::rm),
    },
    Command {
        name: "gc",
        arguments: "--size 10GB|--keep N|--days N [--dry-run] [--json]",
        about: "delete the oldest runs until the store is that small, never pinned or running ones",
        run: Plain(gc::gc),
    },
    Command {
        name: "log",
        arguments: "RUN [--rank K] [--tail N] [--grep TEXT]",
        about: "print what the ranks printed",
        run: Plain(commands::log),
    },
    Command {
        name: "plot",
        arguments: "RUN KIND [--epoch K] [-o FILE]",
        about: "draw a run: its numbers here, the figure as SVG in FILE; kinds as in %plot",
        run: Plain(commands::plot),
    },
    Command {
        name: "trace",
        arguments: "RUN [-o FILE]",
        about: "print the spans of a run that was trained with --trace, for a trace viewer (Chrome's JSON)",
        run: Plain(commands::trace),
    },
    Command {
        name: "stop",
        arguments: "RUN|SWEEP [--now]",
        about: "end a run after its epoch, a sweep after what runs, or at once",
        run: Plain(commands::stop),
    },
    Command {
        name: "jobs",
        arguments: "[--json]",
        about: "list the runs and sweeps that are under way",
        run: Plain(jobs::jobs),
    },
    Command {
        name: "wait",
        arguments: "[RUN|SWEEP …] [--json]",
        about: "wait for runs and sweeps, all that are under way if none is named; exit status is that of the run",
        run: Plain(jobs::wait),
    },
    Command {
        name: "attach",
        arguments: "[RUN|SWEEP]",
        about: "follow a run or a sweep to its end; Ctrl-C stops following, and it goes on",
        run: Plain(jobs::attach),
    },
    Command {
        name: "replay",
        arguments: "RUN [--run-id ID] [--bg] [--json]",
        about: "repeat a run exactly and say whether the same bits came back",
        run: Knowing(replay::replay),
    },
    Command {
        name: "strategies",
        arguments: "[--json]",
        about: "list strategies and their knobs",
        run: Knowing(commands::strategies),
    },
    Command {
        name: "cite",
        arguments: "[STRATEGY]",
        about: "what a text cites that uses a strategy: its paper and this program, as BibTeX",
        run: Knowing(commands::cite),
    },
    Command {
        name: "strategy",
        arguments: "NAME FILE [--no-verify] [--set KEY=VALUE] [--json]",
        about: "compile a strategy written in Rust, as %%strategy does, and compare it with single",
        run: Plain(commands::strategy),
    },
    Command {
        name: "verify",
        arguments: "STRATEGY [-n [1,2,3,4]] [--key value …] [--json]",
        about: "compare a strategy with single on a small graph; exit status 1 if it is not exact",
        run: Knowing(verify::verify),
    },
    Command {
        name: "datasets",
        arguments: "[get NAME | verify PATH] [--to DIR] [--json]",
        about: "list data sets, built-in ones and a catalogue; get one of them",
        run: Plain(datasets::datasets),
    },
    Command {
        name: "convert",
        arguments: "SRC DST [--mem 1GB] [--symmetrise] [--relabel degree] …",
        about: "write a data set or an edge list in the form that is mapped into memory",
        run: Plain(convert::convert),
    },
    Command {
        name: "doctor",
        arguments: "[--json]",
        about: "look at what this machine has and lacks",
        run: Plain(commands::doctor),
    },
    Command {
        name: "bench",
        arguments: "machine|kernels|epoch|sample|cache|data|notebook|polars [--against python] [--json]",
        about: "time this machine, the kernels, whole epochs, or the notebook's cells; --help lists the flags",
        run: Plain(bench::bench),
    },
    Command {
        name: sound::COMMAND,
        arguments: "FILE [BLOCK MEM]",
        about: "read a table to its end and say nothing (started by convert, to see whether it can be)",
        run: Plain(|words| sound::read(words).map(|()| 0)),
    },
    Command {
        name: "worker",
        arguments: "--run-dir DIR",
        about: "be a rank of a run (started by the launcher)",
        run: Knowing(worker::worker),
    },
];

/// Runs the command that the process's arguments name; returns the exit status.
pub fn main(program: &Program) -> i32 {
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|w| w.to_string_lossy().into_owned())
        .collect();
    sys::end_by_sent_faults();
    let Some((name, rest)) = words.split_first() else {
        eprint!("{}", help::overview(COMMANDS));
        return 2;
    };
    match name.as_str() {
        "help" | "--help" | "-h" => {
            print!("{}", help::overview(COMMANDS));
            return 0;
        }
        "--version" | "-V" => {
            println!("halobook {}", env!("CARGO_PKG_VERSION"));
            return 0;
        }
        _ => {}
    }
    let outcome = match COMMANDS.iter().find(|c| c.name == name) {
        Some(command) => {
            if !matches!(
                command.name,
                "train" | "sweep" | "verify" | "replay" | "worker"
            ) {
                sys::restore_sigpipe();
            }
            if rest.iter().any(|w| w == "--help" || w == "-h") {
                print!("{}", help::command(command));
                return 0;
            }
            match command.run {
                Plain(run) => run(rest),
                Knowing(run) => run(rest, program),
            }
        }
        None => Err(unknown_command(name)),
    };
    outcome.unwrap_or_else(|error| report(&error))
}

fn unknown_command(name: &str) -> Error {
    let near = gnn_core::error::nearest(name, COMMANDS.iter().map(|c| c.name));
    let near = near.map_or(String::new(), |n| format!("; did you mean '{n}'?"));
    Error::refused(
        format!("unknown command '{name}'{near}"),
        "`halobook help` lists the commands",
    )
}

/// Prints an error in two lines; returns the exit status it stands for.
fn report(error: &Error) -> i32 {
    let one_line = |text: String| text.lines().collect::<Vec<_>>().join(" ");
    eprintln!("error: {}", one_line(error.to_string()));
    eprintln!("help: {}", one_line(error.help()));
    match error {
        Error::Refused { .. } | Error::PlanRefused { .. } | Error::Core(_) => 2,
        _ => 1,
    }
}
