//! The command line of `halobook-kernel`.

mod ask;
mod bench;
mod plot;
mod strategy;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
halobook-kernel: the Jupyter kernel of Halobook

usage:
  halobook-kernel install (--user | --prefix DIR) [--name NAME] [--prepared DIR]
  halobook-kernel uninstall (--user | --prefix DIR) [--name NAME]
  halobook-kernel prepare --target-dir DIR [--out DIR] [--workspace DIR]
  halobook-kernel run CONNECTION_FILE
  halobook-kernel sql QUERY [--json] [--partial]
  halobook-kernel check CLAIMS [--run NAME=RUN] [--tol PART] [--json]
  halobook-kernel plot RUN KIND [--epoch K] [-o FILE.svg|pdf|png] [--width 8.4cm] [--font FAMILY] [--bare]
  halobook-kernel figure FILE.pdf|png < SVG
  halobook-kernel strategy NAME FILE [--no-verify] [--set KEY=VALUE] [--json]
  halobook-kernel bench [--against KERNEL] [--rounds N] [--python PATH] [--json]
  halobook-kernel bench polars [--rows N] [--rounds N] [--against python] [--python PATH] [--json]
  halobook-kernel --version
";

/// Runs the command line; errors are one line what is wrong, one line what to do.
pub fn main() -> ExitCode {
    match dispatch() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            eprintln!("help: `halobook-kernel --help` lists the commands");
            ExitCode::from(1)
        }
    }
}

fn dispatch() -> Result<ExitCode> {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    // What follows `--` belongs to the process that runs the cells.
    let rest: Vec<String> = args.take_while(|arg| arg != "--").collect();
    if matches!(command.as_str(), "sql" | "check" | "plot") {
        // `halobook plot r1 gantt | head` ends quietly.
        launcher::sys::restore_sigpipe();
    }
    match command.as_str() {
        "run" => {
            let file = rest.first().context("run needs the connection file")?;
            crate::front::run(file.as_ref())
        }
        "install" => crate::install::install(&Options::parse(&rest)?),
        "uninstall" => crate::install::uninstall(&Options::parse(&rest)?),
        "prepare" => crate::cell::prepare::main(&Options::parse(&rest)?),
        "sql" => Ok(ask::sql(&rest)),
        "check" => Ok(ask::check(&rest)),
        "plot" => Ok(plot::plot(&rest)),
        "figure" => {
            let to = rest.first().context("figure needs a file to write")?;
            let svg = std::io::read_to_string(std::io::stdin())?;
            crate::figure::write(&svg, to.as_ref()).map(|()| ExitCode::SUCCESS)
        }
        "bench" => bench::bench(&rest),
        "strategy" => Ok(strategy::strategy(&rest)),
        "--version" | "-V" => {
            println!("halobook-kernel {}", env!("CARGO_PKG_VERSION"));
            Ok(ExitCode::SUCCESS)
        }
        "--help" | "-h" | "help" | "" => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        other => bail!("there is no command `{other}`"),
    }
}

/// The options of the set-up commands.
#[derive(Debug, Default)]
pub struct Options {
    /// Install for the current user.
    pub user: bool,
    /// Install below this folder (`PREFIX/share/jupyter/kernels`).
    pub prefix: Option<PathBuf>,
    /// The kernelspec's name.
    pub name: Option<String>,
    /// Cargo's target folder holding the release build.
    pub target_dir: Option<PathBuf>,
    /// Where the prepared scratch folder goes.
    pub out: Option<PathBuf>,
    /// The workspace whose prelude is prepared.
    pub workspace: Option<PathBuf>,
    /// The prepared scratch folder that the installed kernel shall use.
    pub prepared: Option<PathBuf>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (flag, inline) = match arg.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (arg.as_str(), None),
            };
            if flag == "--user" {
                options.user = true;
                continue;
            }
            let mut value = || -> Result<String> {
                inline
                    .clone()
                    .or_else(|| args.next().cloned())
                    .with_context(|| format!("`{flag}` needs a value"))
            };
            match flag {
                "--prefix" => options.prefix = Some(value()?.into()),
                "--name" => options.name = Some(value()?),
                "--target-dir" => options.target_dir = Some(value()?.into()),
                "--out" => options.out = Some(value()?.into()),
                "--workspace" => options.workspace = Some(value()?.into()),
                "--prepared" => options.prepared = Some(value()?.into()),
                _ => bail!("there is no option `{flag}`"),
            }
        }
        Ok(options)
    }
}
