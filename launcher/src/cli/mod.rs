//! The command line: words in, exit status out.
//!
//! Exit status: 0 ok, 1 the run failed, 2 the request was wrong and nothing was started, 130
//! interrupted. Errors are two lines on standard error: what is wrong, what to do.

mod bench;
mod commands;
mod convert;
mod datasets;
mod help;
mod own;
mod pace;
mod partition;
mod progress;
mod step;
mod sweep;
mod train;
mod words;
mod worker;

use launcher::{Error, Result, sys};

/// A subcommand: its name, its arguments, one line about it, and what it does.
struct Command {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<i32>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "train",
        arguments: "[--key value …]",
        about: "train once and wait; --help lists the keys",
        run: train::train,
    },
    Command {
        name: "sweep",
        arguments: "[--key value|[list] …] [--repeat K] [--resume]",
        about: "train many settings, lists crossed; --help says how",
        run: sweep::sweep,
    },
    Command {
        name: "partition",
        arguments: "--data NAME|PATH -n PARTS [--method metis] [--balance train,edges]",
        about: "cut a graph and see what that costs; --help lists methods and knobs",
        run: partition::partition,
    },
    Command {
        name: "runs",
        arguments: "[--json]",
        about: "list runs",
        run: commands::runs,
    },
    Command {
        name: "frames",
        arguments: "RUN FRAME [--json]",
        about: "print a frame of a run: runs, epochs, ranks, comm, partition",
        run: commands::frames,
    },
    Command {
        name: "sql",
        arguments: "QUERY [--json]",
        about: "ask the run store: tables runs, epochs, ranks, comm, … of all runs",
        run: commands::sql,
    },
    Command {
        name: "check",
        arguments: "CLAIMS [--run NAME=RUN] [--tol PART] [--json]",
        about: "check claims about runs, as in 'latest.test >= 0.9'; exit status 1 if one does not hold",
        run: commands::check,
    },
    Command {
        name: "diff",
        arguments: "RUN RUN [--json]",
        about: "which settings of two runs differ, and what that came to",
        run: commands::diff,
    },
    Command {
        name: "run",
        arguments: "RUN",
        about: "one run in a page: what was asked for, where it ran, what it came to",
        run: commands::run,
    },
    Command {
        name: "pin",
        arguments: "RUN [--off]",
        about: "keep a run from being deleted, or let it be again",
        run: commands::pin,
    },
    Command {
        name: "rm",
        arguments: "RUN",
        about: "delete a run with its frames, logs and checkpoints",
        run: commands::rm,
    },
    Command {
        name: "log",
        arguments: "RUN [--rank K] [--tail N] [--grep TEXT]",
        about: "print what the ranks printed",
        run: commands::log,
    },
    Command {
        name: "stop",
        arguments: "RUN [--now]",
        about: "end a run after its epoch, or at once",
        run: commands::stop,
    },
    Command {
        name: "strategies",
        arguments: "[--json]",
        about: "list strategies and their knobs",
        run: commands::strategies,
    },
    Command {
        name: "datasets",
        arguments: "[get NAME | verify PATH] [--to DIR] [--json]",
        about: "list data sets, built-in ones and a catalogue; get one of them",
        run: datasets::datasets,
    },
    Command {
        name: "convert",
        arguments: "SRC DST [--mem 1GB] [--symmetrise] [--relabel degree] …",
        about: "write a data set or an edge list in the form that is mapped into memory",
        run: convert::convert,
    },
    Command {
        name: "doctor",
        arguments: "[--json]",
        about: "look at what this machine has and lacks",
        run: commands::doctor,
    },
    Command {
        name: "bench",
        arguments: "machine|kernels|epoch [--against python] [--json]",
        about: "time this machine, the kernels, or whole epochs; --help lists the flags",
        run: bench::bench,
    },
    Command {
        name: "worker",
        arguments: "--run-dir DIR",
        about: "be a rank of a run (started by the launcher)",
        run: worker::worker,
    },
];

/// Runs the command that the process's arguments name; returns the exit status.
pub fn main() -> i32 {
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|w| w.to_string_lossy().into_owned())
        .collect();
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
            if !matches!(command.name, "train" | "sweep" | "worker") {
                sys::restore_sigpipe();
            }
            if rest.iter().any(|w| w == "--help" || w == "-h") {
                print!("{}", help::command(command));
                return 0;
            }
            (command.run)(rest)
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
        Error::Refused { .. } | Error::Core(_) => 2,
        _ => 1,
    }
}
