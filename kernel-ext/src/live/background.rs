//! `%jobs`, `%wait` and `%attach`: runs and sweeps that nobody waits for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use halobook::df_html;
use halobook::polars::prelude::{Column, DataFrame};
use launcher::jobs::{self as under_way, Target};
use launcher::store::{Manifest, Status};

use super::bound::Thing;
use super::follow::Follower;
use super::sweep_card::SweepCard;
use super::{Session, lines, replay, report, sweep};
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
    let variable = |job: &under_way::Job| match job.kind {
        "sweep" => session.bound.name_of_sweep(&job.run_id),
        _ => session.bound.name_of_run(&job.run_id),
    };
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
    let targets = named(line, session)?;
    for target in &targets {
        let run_dir = match target {
            Target::Run(run_dir) => run_dir,
            Target::Sweep(_) => {
                let mut card = SweepCard::new(&target.id(), session.output);
                let ended = card.has_ended();
                card.show();
                match ended {
                    true => card.close(),
                    false => card.leave(),
                }
                continue;
            }
        };
        let mut follower = Follower::new(&id(run_dir), session.output);
        let ended = follower.has_ended();
        follower.show();
        match ended {
            Some(manifest) => follower.close(&manifest),
            None => follower.leave(),
        }
    }
    bind(line, &targets, session)?;
    Ok(targets.is_empty().then(|| Shown::text(under_way::NONE)))
}

/// Waits for runs and sweeps to end. An interrupt ends the waiting; they go on.
pub fn wait(line: &Line, session: &Session<'_>) -> Outcome {
    let targets = named(line, session)?;
    bind(line, &targets, session)?;
    let follow = |target: &Target| Waited::new(target, session);
    let mut waited: Vec<Waited> = targets.iter().map(follow).collect();
    let mut interrupts = session.interrupt.watch();
    loop {
        waited.iter_mut().for_each(Waited::look);
        let left: Vec<String> = waited
            .iter()
            .filter(|w| !w.over())
            .map(Waited::id)
            .collect();
        if left.is_empty() {
            break;
        }
        if interrupts.look().is_some() {
            return Err(no_longer(&left));
        }
        std::thread::sleep(LOOK);
    }
    let outcomes = waited.iter().map(|one| one.came_to(line, session));
    let mut shown = outcomes.collect::<Result<Vec<_>, Failure>>()?;
    let runs: Option<Vec<PathBuf>> = targets
        .iter()
        .map(|target| match target {
            Target::Run(dir) => Some(dir.clone()),
            Target::Sweep(_) => None,
        })
        .collect();
    match (shown.len(), runs) {
        (0, _) => Ok(Some(Shown::text(under_way::NONE))),
        (1, _) => Ok(shown.remove(0)),
        (_, Some(runs)) => table(&runs).map(Some),
        (n, None) => Ok(Some(Shown::text(format!("all {n} have ended")))),
    }
}

/// Something that is waited for.
enum Waited {
    Run(Box<Follower>, Option<Box<Manifest>>),
    Sweep(Box<SweepCard>, bool),
}

impl Waited {
    fn new(target: &Target, session: &Session<'_>) -> Waited {
        match target {
            Target::Run(dir) => {
                Waited::Run(Box::new(Follower::new(&id(dir), session.output)), None)
            }
            Target::Sweep(_) => Waited::Sweep(
                Box::new(SweepCard::new(&target.id(), session.output)),
                false,
            ),
        }
    }

    fn over(&self) -> bool {
        match self {
            Waited::Run(_, end) => end.is_some(),
            Waited::Sweep(_, over) => *over,
        }
    }

    fn id(&self) -> String {
        match self {
            Waited::Run(follower, _) => id(follower.run_dir()),
            Waited::Sweep(card, _) => card.id.clone(),
        }
    }

    fn look(&mut self) {
        if self.over() {
            return;
        }
        match self {
            Waited::Run(follower, end) => {
                *end = follower.has_ended().map(Box::new);
                match end {
                    Some(manifest) => follower.close(manifest),
                    None => follower.draw(),
                }
            }
            Waited::Sweep(card, over) => {
                *over = card.has_ended();
                match over {
                    true => card.close(),
                    false => card.draw(),
                }
            }
        }
    }

    fn came_to(&self, line: &Line, session: &Session<'_>) -> Outcome {
        match self {
            Waited::Run(follower, Some(manifest)) => came_to(follower, manifest, session),
            Waited::Run(_, None) => Ok(None),
            Waited::Sweep(card, _) => {
                let known = session.bound.name_of_sweep(&card.id);
                let name = line.flag("output").map(str::to_owned).or(known);
                let known = name.as_deref().and_then(|name| session.bound.get(name));
                let thing = match known {
                    Some(Thing::Going(thing)) => *thing,
                    Some(thing @ Thing::Runs(_)) => thing,
                    _ => Thing::Sweep(card.id.clone()),
                };
                sweep::finished(card, (name.as_deref(), thing), session)
            }
        }
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

/// What the line names, or all that is under way.
fn named(line: &Line, session: &Session<'_>) -> Result<Vec<Target>, Failure> {
    let targets = match line.args.is_empty() {
        true => under_way::named(&[]),
        false => line.args.iter().map(|name| session.target(name)).collect(),
    };
    targets.map_err(|error| lines::refused(&error))
}

/// Binds the one run to the name that was given, if one was; a sweep's frame is bound once it has ended.
fn bind(line: &Line, targets: &[Target], session: &Session<'_>) -> Result<(), Failure> {
    let Some(name) = line.flag("output") else {
        return Ok(());
    };
    match targets {
        [Target::Run(run_dir)] => session.bind_as(name, Thing::Run(id(run_dir))).map(drop),
        [target @ Target::Sweep(_)] => {
            let known = session.bound.all().into_iter().map(|(_, thing)| thing);
            let mut going = known.filter(|thing| matches!(thing, Thing::Going(_)));
            let thing = going.find(|thing| thing.sweep() == Some(&target.id()));
            let sweep = || Thing::Going(Box::new(Thing::Sweep(target.id())));
            session.bound.insert(name, thing.unwrap_or_else(sweep));
            Ok(())
        }
        _ => Err(Failure::config(
            format!("-o {name} binds one run, and there are {}", targets.len()),
            [format!("help: name one, as in %{} r1 -o {name}", line.name)],
        )),
    }
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
