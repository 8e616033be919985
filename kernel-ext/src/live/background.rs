//! `%jobs`, `%wait` and `%attach`: runs that nobody waits for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use halobook::df_html;
use halobook::polars::prelude::{Column, DataFrame};
use launcher::jobs as under_way;
use launcher::store::{Manifest, Status};

use super::bound::Thing;
use super::follow::Follower;
use super::{Session, lines, replay, report};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::Line;

/// How often runs that are waited for are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The runs under way, with the variables that they are bound to.
pub fn jobs(session: &Session<'_>) -> Outcome {
    let refused = |error: launcher::Error| lines::refused(&error);
    let jobs = under_way::jobs().map_err(refused)?;
    if jobs.is_empty() {
        return Ok(Some(Shown::text(under_way::NONE)));
    }
    let mut frame = under_way::frame(&jobs).map_err(refused)?;
    let variable = |job: &under_way::Job| session.bound.name_of_run(&job.run_id);
    let variables: Vec<Option<String>> = jobs.iter().map(variable).collect();
    frame
        .with_column(Column::new("variable".into(), variables))
        .map_err(|e| refused(launcher::Error::frame("jobs")(e)))?;
    Ok(Some(Shown::html(
        launcher::frames::text(&frame).trim_end(),
        df_html(&frame),
    )))
}

/// Shows the cards of runs in this cell and leaves them there.
pub fn attach(line: &Line, session: &Session<'_>) -> Outcome {
    let runs = named(line, session)?;
    for run_dir in &runs {
        let mut follower = Follower::new(&id(run_dir), session.output);
        let ended = follower.has_ended();
        follower.show();
        match ended {
            Some(manifest) => follower.close(&manifest),
            None => follower.leave(),
        }
    }
    bind(line, &runs, session)?;
    Ok(runs.is_empty().then(|| Shown::text(under_way::NONE)))
}

/// Waits for runs to end. An interrupt ends the waiting; the runs go on.
pub fn wait(line: &Line, session: &Session<'_>) -> Outcome {
    let runs = named(line, session)?;
    bind(line, &runs, session)?;
    let follow = |dir: &PathBuf| (Follower::new(&id(dir), session.output), None);
    let mut waited: Vec<(Follower, Option<Manifest>)> = runs.iter().map(follow).collect();
    let mut interrupts = session.interrupt.watch();
    loop {
        for (follower, end) in waited.iter_mut().filter(|(_, end)| end.is_none()) {
            *end = follower.has_ended();
            match end {
                Some(manifest) => follower.close(manifest),
                None => follower.draw(),
            }
        }
        let left: Vec<String> = waited
            .iter()
            .filter(|(_, end)| end.is_none())
            .map(|(follower, _)| id(follower.run_dir()))
            .collect();
        if left.is_empty() {
            break;
        }
        if interrupts.look().is_some() {
            return Err(no_longer(&left));
        }
        std::thread::sleep(LOOK);
    }
    let ended = waited.iter().filter_map(|(follower, end)| {
        let manifest = end.as_ref()?;
        Some((follower, manifest))
    });
    let outcomes = ended.map(|(follower, manifest)| came_to(follower, manifest, session));
    let mut shown = outcomes.collect::<Result<Vec<_>, Failure>>()?;
    match shown.len() {
        0 => Ok(Some(Shown::text(under_way::NONE))),
        1 => Ok(shown.remove(0)),
        _ => table(&runs).map(Some),
    }
}

/// What a run came to, as the cell that started it would say.
fn came_to(follower: &Follower, manifest: &Manifest, session: &Session<'_>) -> Outcome {
    if manifest.status == Status::Ok {
        return replay::finished(follower.run_dir(), &follower.card, manifest);
    }
    let name = session.bound.name_of_run(&manifest.run_id);
    Err(report::unfinished(manifest, name.as_deref()))
}

/// A row for each run.
fn table(runs: &[PathBuf]) -> Result<Shown, Failure> {
    let mut all: Option<DataFrame> = None;
    for run_dir in runs {
        let row = launcher::frames::load(run_dir, "runs").map_err(|e| lines::refused(&e))?;
        all = match all {
            None => Some(row),
            Some(rows) => Some(
                rows.vstack(&row)
                    .map_err(|e| lines::refused(&launcher::Error::frame("runs")(e)))?,
            ),
        };
    }
    Ok(report::frame(&all.unwrap_or_default()))
}

/// The waiting was interrupted.
fn no_longer(left: &[String]) -> Failure {
    let runs = left.join(" ");
    let (verb, be) = match left {
        [_] => ("goes on", "run"),
        _ => ("go on", "runs"),
    };
    Failure::new(
        "HaloInterrupted",
        format!("no longer waited for; {be} {} {verb}", left.join(", ")),
        [format!(
            "help: %wait {runs} waits again; %stop ends a run after its epoch"
        )],
    )
}

/// The runs that the line names, or all that are under way.
fn named(line: &Line, session: &Session<'_>) -> Result<Vec<PathBuf>, Failure> {
    let runs = match line.args.is_empty() {
        true => under_way::named(&[]),
        false => line.args.iter().map(|name| session.run_dir(name)).collect(),
    };
    runs.map_err(|error| lines::refused(&error))
}

/// Binds the one run to the name that was given, if one was.
fn bind(line: &Line, runs: &[PathBuf], session: &Session<'_>) -> Result<(), Failure> {
    let Some(name) = line.flag("output") else {
        return Ok(());
    };
    let [run_dir] = runs else {
        return Err(Failure::config(
            format!("-o {name} binds one run, and there are {}", runs.len()),
            [format!("help: name one, as in %{} r1 -o {name}", line.name)],
        ));
    };
    session.bind_as(name, Thing::Run(id(run_dir)))?;
    Ok(())
}

fn id(run_dir: &Path) -> String {
    let name = run_dir.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_no_longer_waits_is_told_what_goes_on() {
        let one = no_longer(&["a".to_owned()]);
        assert_eq!(one.evalue, "no longer waited for; run a goes on");
        let two = no_longer(&["a".to_owned(), "b".to_owned()]);
        assert_eq!(two.evalue, "no longer waited for; runs a, b go on");
        assert!(two.traceback[1].contains("%wait a b"), "{two:?}");
    }
}
