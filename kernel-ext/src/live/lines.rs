//! The line magics. None of them needs rustc.

use gnn_core::strategy::STRATEGIES;
use halobook::plot::{Band, INTERACTIVE, KINDS, Plot, View};
use halobook::{Run, df_html};
use launcher::LogQuery;
use launcher::jobs::Target;

use super::bound::Thing;
use super::{Session, background, report};
use crate::figure::{self, Form};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::{Line, help};

/// Carries out a line magic.
pub fn line(line: &Line, session: &Session<'_>) -> Outcome {
    let shown = match line.name {
        "runs" => runs(line)?,
        "partition" => return super::partition::partition(line, session),
        "cluster" => return super::ranks::cluster(line, session),
        "jobs" => return background::jobs(session),
        "wait" => return background::wait(line, session),
        "attach" => return background::attach(line, session),
        "replay" => return super::replay::replay(line, session),
        "restore" => return super::restore::restore(session),
        "warm" => {
            let took = (session.warm)();
            Shown::text(format!(
                "ready for frames after {:.1} s",
                took.as_secs_f64()
            ))
        }
        "plan" => return super::plan::plan(line, session),
        "plot" => plot(line, session)?,
        "log" => log(line, session)?,
        "trace" => trace(line, session)?,
        "diff" => diff(line, session)?,
        "run" => {
            let page = launcher::page::page(&the_run(line, session)?);
            Shown::text(page.map_err(|error| refused(&error))?.trim_end())
        }
        "pin" | "rm" => return keep(line, session),
        "stop" => stop(line, session)?,
        "cite" => Shown::text(cite(line)?),
        "doctor" => Shown::text(launcher::doctor::report().to_string()),
        "lsmagic" => help::list(),
        other => return Err(Failure::config(format!("%{other} has no meaning here"), [])),
    };
    Ok(Some(shown))
}

/// A launcher's refusal in the notebook's words.
pub fn refused(error: &launcher::Error) -> Failure {
    let help = error.help();
    let lines = (!help.is_empty()).then(|| format!("help: {help}"));
    Failure::config(error.to_string(), lines)
}

fn number<T: std::str::FromStr>(line: &Line, flag: &str) -> Result<Option<T>, Failure> {
    let Some(text) = line.flag(flag) else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| {
        Failure::config(
            format!("--{flag} takes a number, not `{text}`"),
            [format!("help: %{}? shows what it takes", line.name)],
        )
    })
}

fn cite(line: &Line) -> Result<String, Failure> {
    match line.args.first() {
        None => Ok(launcher::cite::halobook()),
        Some(name) => launcher::cite::cite(name, STRATEGIES).map_err(|error| refused(&error)),
    }
}

fn runs(line: &Line) -> Result<Shown, Failure> {
    let last: usize = number(line, "last")?.unwrap_or(20);
    let frame = launcher::frames::runs().map_err(|error| refused(&error))?;
    Ok(report::frame(&frame.tail(Some(last))))
}

fn the_run(line: &Line, session: &Session<'_>) -> Result<std::path::PathBuf, Failure> {
    let name = line.args.first().map_or("latest", String::as_str);
    session.run_dir(name).map_err(|error| refused(&error))
}

fn plot(line: &Line, session: &Session<'_>) -> Result<Shown, Failure> {
    let plot = drawn(line, session)?;
    let form = Form {
        width: line.flag("width"),
        font: line.flag("font"),
        bare: line.flag("bare").is_some(),
    };
    match line.flag("to") {
        Some(file) => figure::save(&plot, file.as_ref(), form)
            .map_err(|error| Failure::config(format!("{error:#}"), []))?,
        None if form != Form::default() => {
            return Err(Failure::config(
                "--width, --font and --bare are of a file",
                ["help: name one: -o figure.pdf".into()],
            ));
        }
        None => {}
    }
    let mut shown = Shown::svg(plot.text, plot.svg);
    if line.flag("interactive").is_some() {
        let drawn = interactive(line, session)?;
        shown.bundle.insert(INTERACTIVE.to_owned(), drawn);
    }
    Ok(shown)
}

/// The plot as the front end draws it.
fn interactive(line: &Line, session: &Session<'_>) -> Result<serde_json::Value, Failure> {
    let Named { name, kind } = Named::of(line);
    let runs = match session.bound.get(name).as_ref().and_then(Thing::sweep) {
        Some(id) => halobook::Runs::try_of_sweep(id)
            .map_err(|error| refused(&error))?
            .iter()
            .cloned()
            .collect(),
        None => vec![Run::at(
            session.run_dir(name).map_err(|error| refused(&error))?,
        )],
    };
    let drawn = halobook::interactive(&runs.iter().collect::<Vec<_>>(), kind, view(line)?);
    drawn.map_err(|error| Failure::config(error.to_string(), []))
}

/// The run and the kind of plot that a line names.
struct Named<'l> {
    name: &'l str,
    kind: &'l str,
}

impl<'l> Named<'l> {
    /// `%plot stack` means the latest run.
    fn of(line: &'l Line) -> Named<'l> {
        let (name, kind) = match line.args.as_slice() {
            [] => ("latest", "curve"),
            [only] if KINDS.iter().any(|kind| kind.0 == only) => ("latest", only.as_str()),
            [name] => (name.as_str(), "curve"),
            [name, kind, ..] => (name.as_str(), kind.as_str()),
        };
        Named { name, kind }
    }
}

/// The part of a run that a line names.
fn view(line: &Line) -> Result<View, Failure> {
    let zoom = match line.flag("zoom") {
        None => None,
        Some(text) => Some(View::range(text).ok_or_else(|| {
            Failure::config(
                format!("--zoom takes a part of the epoch in ms, not `{text}`"),
                ["help: for example --zoom 2.5..4".into()],
            )
        })?),
    };
    Ok(View {
        epoch: number(line, "epoch")?,
        zoom,
    })
}

fn drawn(line: &Line, session: &Session<'_>) -> Result<Plot, Failure> {
    // `%plot stack` means the latest run, and a cut has one kind of plot.
    let cut = line.args.first().and_then(|name| session.cut_dir(name));
    if let Some(dir) = cut {
        let kind = line.args.get(1).map_or("partition", String::as_str);
        let dir = dir.map_err(|error| refused(&error))?;
        return halobook::plot_partition(&dir, kind)
            .map_err(|error| Failure::config(error.to_string(), []));
    }
    if let [name, kind, ..] = line.args.as_slice()
        && let Some(thing) = session.bound.get(name)
        && let Some(id) = thing.sweep()
    {
        let named = line.flag("band").unwrap_or("range");
        let band = Band::NAMES.iter().find(|known| known.0 == named);
        let band = band.map_or(Band::default(), |known| known.1);
        return halobook::plot_sweep(id, kind, band)
            .map_err(|error| Failure::config(error.to_string(), []));
    }
    let Named { name, kind } = Named::of(line);
    let dir = session.run_dir(name).map_err(|error| refused(&error))?;
    let run = Run::at(dir);
    let view = view(line)?;
    if kind != "gantt" && view != View::default() {
        return Err(Failure::config(
            format!("plot {kind} shows all epochs, not a part of one"),
            ["help: --epoch and --zoom are for gantt".into()],
        ));
    }
    let plot = match kind {
        "gantt" => run.try_gantt(view),
        kind => run.try_plot(kind),
    };
    plot.map_err(|error| Failure::config(error.to_string(), []))
}

fn log(line: &Line, session: &Session<'_>) -> Result<Shown, Failure> {
    let query = LogQuery {
        rank: number(line, "rank")?,
        tail: Some(number(line, "tail")?.unwrap_or(50)),
        grep: line.flag("grep").map(str::to_owned),
    };
    let dir = the_run(line, session)?;
    let text = launcher::log(&dir, query).map_err(|error| refused(&error))?;
    Ok(Shown::text(if text.trim().is_empty() {
        "the logs hold no such line".to_owned()
    } else {
        text.trim_end().to_owned()
    }))
}

fn trace(line: &Line, session: &Session<'_>) -> Result<Shown, Failure> {
    let dir = the_run(line, session)?;
    let path = line.flag("to").map(std::path::PathBuf::from);
    let path = path.unwrap_or_else(|| dir.join("trace.json"));
    let io = |e| refused(&launcher::Error::io(&path)(e));
    let trace = launcher::chrome::chrome(&dir).map_err(|error| refused(&error))?;
    std::fs::write(&path, trace).map_err(io)?;
    let summary = launcher::chrome::summary(&dir).map_err(|error| refused(&error))?;
    Ok(Shown::text(format!(
        "{summary}{}: open it in https://ui.perfetto.dev or chrome://tracing",
        path.display()
    )))
}

fn diff(line: &Line, session: &Session<'_>) -> Result<Shown, Failure> {
    let [left, right] = line.args.as_slice() else {
        return Err(Failure::config(
            "%diff takes two runs",
            ["help: for example %diff r1 r2".to_owned()],
        ));
    };
    let dir = |name: &str| session.run_dir(name).map_err(|error| refused(&error));
    let (left, right) = (dir(left)?, dir(right)?);
    let frame = launcher::diff::diff(&left, &right).map_err(|error| refused(&error))?;
    Ok(Shown::html(launcher::frames::text(&frame), df_html(&frame)))
}

/// `%pin` and `%rm`, which have to name their run.
fn keep(line: &Line, session: &Session<'_>) -> Outcome {
    if line.args.is_empty() {
        return Err(Failure::config(
            format!("%{} needs a run", line.name),
            [format!("help: for example %{} r1", line.name)],
        ));
    }
    let dir = the_run(line, session)?;
    let (done, what) = match (line.name, line.flag("off").is_some()) {
        ("rm", _) => (launcher::keep::remove(&dir), "is deleted"),
        (_, off) => {
            let what = if off { "may be deleted" } else { "is pinned" };
            (launcher::keep::pin(&dir, !off), what)
        }
    };
    done.map_err(|error| refused(&error))?;
    let id = dir.file_name().unwrap_or_default().to_string_lossy();
    Ok(Some(Shown::text(format!("{id} {what}"))))
}

fn stop(line: &Line, session: &Session<'_>) -> Result<Shown, Failure> {
    let name = line.args.first().map_or("latest", String::as_str);
    let target = session.target(name).map_err(|error| refused(&error))?;
    let now = line.flag("now").is_some();
    let dir = match target {
        Target::Run(dir) => dir,
        Target::Sweep(ref sweep) => {
            let went_on = launcher::sweep::stop(sweep, now).map_err(|error| refused(&error))?;
            let id = target.id();
            return Ok(Shown::text(match (went_on, now) {
                (true, false) => format!("sweep {id} stops after what runs"),
                (true, true) => format!("sweep {id} is being ended"),
                (false, _) => format!("sweep {id} has ended"),
            }));
        }
    };
    let was_running = launcher::stop(&dir, now).map_err(|error| refused(&error))?;
    let id = dir
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    Ok(Shown::text(match (was_running, now) {
        (true, false) => format!("{id} stops at the end of its epoch"),
        (true, true) => format!("{id} is being ended"),
        (false, _) => format!("{id} is not running"),
    }))
}
