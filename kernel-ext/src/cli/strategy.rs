//! A strategy in a file: compiled and kept as `%%strategy` does.

use std::process::{Command, ExitCode};

use crate::cell::{facts::Facts, scratch};
use crate::compile::{self, Source};
use crate::front::Failure;

/// Compiles, keeps, compares; exit status 2 if it is refused, 1 if it is not exact.
pub fn strategy(words: &[String]) -> ExitCode {
    match kept(words) {
        Ok(verify) => match verify {
            Some(mut command) => match command.status() {
                Ok(status) => ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)),
                Err(error) => refused(&Failure::config(format!("halobook: {error}"), [])),
            },
            None => ExitCode::SUCCESS,
        },
        Err(failure) => refused(&failure),
    }
}

fn refused(failure: &Failure) -> ExitCode {
    eprintln!("error: {}", failure.evalue);
    for line in &failure.traceback[1..] {
        eprintln!("{line}");
    }
    ExitCode::from(2)
}

/// Keeps the strategy; the command that compares it, if it is to be compared.
fn kept(words: &[String]) -> Result<Option<Command>, Failure> {
    let usage = || {
        let help = "help: halobook strategy NAME FILE [--no-verify] [--set KEY=VALUE] [--json]";
        Failure::config("a strategy needs a name and a file", [help.to_owned()])
    };
    let [name, file, rest @ ..] = words else {
        return Err(usage());
    };
    let code = std::fs::read_to_string(file)
        .map_err(|error| Failure::config(format!("{file}: {error}"), []))?;
    crate::magic::check_name(name).map_err(|[what, help]| Failure::config(what, [help]))?;
    let prepared = scratch::prepared_version().and_then(|dir| Facts::load(&dir).ok());
    let facts = prepared.ok_or_else(|| crate::live::unprepared("strategy"))?;
    let source = Source { name, code: &code };
    let about = compile::compile(&source, &facts, None)?;
    let stored = |error: launcher::Error| Failure::config(error.to_string(), [error.help()]);
    about.keep().map_err(stored)?;
    let json = rest.iter().any(|word| word == "--json");
    if !json {
        println!("strategy {name}: {}", about.summary);
    }
    if rest.iter().any(|word| word == "--no-verify") {
        return Ok(None);
    }
    let mut command = Command::new(crate::live::halobook_path());
    command.arg("verify").arg(name).args(rest);
    Ok(Some(command))
}
