//! `halobook jobs`, `wait` and `attach`: runs and sweeps that are under way.

use super::outcome::{Said, tell};
use super::progress::{Progress, Shown};
use super::sweep;

use super::words::Words;
use crate::jobs::{self as under_way, Target};
use crate::{Error, Result, frames as framing, sweep as sweeps};

/// `halobook jobs`.
pub fn jobs(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &["json"], &[])?;
    words.names([])?;
    let frame = under_way::frame(&under_way::jobs()?)?;
    if words.has("json") {
        framing::json_lines(&frame)
            .iter()
            .for_each(|line| println!("{line}"));
    } else if frame.height() == 0 {
        println!("{}", under_way::NONE);
    } else {
        print!("{}", framing::text(&frame));
    }
    Ok(0)
}

/// `halobook wait [RUN …]`: the exit status is that of the first run that did not finish.
pub fn wait(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &["json"], &[])?;
    let runs = under_way::named(words.all_names())?;
    if runs.is_empty() {
        eprintln!("{}", under_way::NONE);
    }
    let mut status = 0;
    for target in runs {
        let of_run = match target {
            Target::Run(run_dir) => {
                let manifest = under_way::wait(&run_dir)?;
                tell(&run_dir, &manifest, Said::of(words.has("json"), true))?
            }
            Target::Sweep(dir) => sweep::tell(&sweeps::wait(&dir), words.has("json")),
        };
        if status == 0 {
            status = of_run;
        }
    }
    Ok(status)
}

/// `halobook attach [RUN]`.
pub fn attach(words: &[String]) -> Result<i32> {
    let words = Words::sort(words, &[], &[])?;
    let runs = under_way::named(words.all_names())?;
    let run_dir = match runs.as_slice() {
        [] => {
            println!("{}", under_way::NONE);
            return Ok(0);
        }
        [Target::Run(run_dir)] => run_dir,
        [Target::Sweep(dir)] => return Ok(sweep::tell(&sweep::follow(dir), false)),
        _ => {
            return Err(Error::refused(
                format!("attach: expected one run, there are {}", runs.len()),
                "name one; `halobook jobs` lists those that are under way",
            ));
        }
    };
    let progress = Progress::show(run_dir, Shown::Anywhere);
    let manifest = under_way::wait(run_dir);
    if let Some(progress) = progress {
        progress.end();
    }
    tell(run_dir, &manifest?, Said::Page)
}
