//! `%%ranks`: the cell's Rust on every rank of a pool that stays; `%cluster`: that pool.

use std::fmt::Write;
use std::time::Duration;

use halobook::df_html;
use halobook::ranks::{Answer, Ended, Request, frame};
use launcher::{host, sql};

use super::bound::Thing;
use super::grouped::named;
use super::pool::{Came, Limits, Pool, Why};
use super::printed::Printer;
use super::strategy::unprepared;
use super::{Session, lines, report};
use crate::compile::ranks as compile;
use crate::front::{Failure, Outcome, Shown};
use crate::magic::{Group, Line, RanksRequest};

/// Ranks of a pool that nobody has asked a number of.
const RANKS: usize = 2;

/// Compiles, runs it everywhere, prints, binds the frame of what came back.
pub fn ranks(request: &RanksRequest, session: &Session<'_>) -> Outcome {
    let facts = session.facts.ok_or_else(|| unprepared("%%ranks"))?;
    let mut slot = session.pool();
    if request.fresh || slot.as_mut().is_some_and(|pool| !pool.is_alive()) {
        *slot = None;
    }
    let wanted = request
        .ranks
        .or(slot.as_ref().map(|pool| pool.ranks))
        .unwrap_or(RANKS);
    if slot.as_ref().is_some_and(|pool| pool.ranks != wanted) {
        *slot = None;
    }
    if let Some(rank) = request.only.iter().find(|rank| **rank as usize >= wanted) {
        return Err(Failure::config(
            format!("there is no rank {rank} of {wanted}"),
            ["help: ranks are numbered from 0".to_owned()],
        ));
    }
    // What is wrong with the cell is said before ranks are started for it.
    let given = given(request, session)?;
    let started = match slot.take() {
        Some(pool) => pool,
        None => Pool::up(wanted, facts, session.interrupt)?,
    };
    let pool = slot.insert(started);
    let library = compile::library(
        &request.code,
        &given,
        &pool.next_dir(),
        facts,
        session.interrupt,
    )?;
    let asked = Request {
        library,
        only: request.only.clone(),
        data: request.data.clone().unwrap_or_else(|| "karate".into()),
        partition: request.partition.clone().unwrap_or_else(|| "metis".into()),
        seed: 0,
        errors_apart: request.group == Group::Type,
    };
    let limits = Limits {
        timeout: request.timeout.map(Duration::from_secs_f64),
        stall: Duration::from_secs_f64(request.stall.unwrap_or(3.0)),
        at_once: matches!(request.group, Group::Order | Group::None),
    };
    let mine = |rank: &u32| request.only.is_empty() || request.only.contains(rank);
    let mut printer = Printer::new((0..wanted as u32).filter(mine), request.group);
    let mut meanwhile = |pool: &Pool| printer.go_on(pool, false, session.output);
    let came = pool.run(&asked, limits, session.interrupt, &mut meanwhile)?;
    printer.go_on(pool, true, session.output);
    let shown = bind(request, &came, session)?;
    let failure = failure(&came, &request.code);
    if came.lost.is_some() {
        *slot = None;
    }
    match failure {
        Some(failure) => Err(failure),
        None => Ok(shown),
    }
}

/// Declarations of what the cell is given of the notebook's variables.
fn given(request: &RanksRequest, session: &Session<'_>) -> Result<String, Failure> {
    let mut code = String::new();
    for name in &request.inputs {
        let refused = |what: String| {
            let help = "help: -i takes a variable that is bound; its type has to be serialisable";
            Failure::config(what, [help.to_owned()])
        };
        let declared = match session.bound.get(name) {
            Some(thing) => thing.value(),
            None => {
                let shown = (session.bind)(&format!("halobook::ranks::hand_over(&{name})"))?;
                let text =
                    shown.and_then(|s| Some(s.bundle.get("text/plain")?.as_str()?.to_owned()));
                let text = text.unwrap_or_default();
                // Shown with `Debug`, as any text is.
                let text: String = serde_json::from_str(&text).unwrap_or(text);
                let (kind, json) = text
                    .split_once('\n')
                    .ok_or_else(|| refused(format!("{name} cannot be sent to ranks")))?;
                format!("halobook::ranks::handed::<{kind}>({json:?})")
            }
        };
        let _ = write!(code, "let {name} = {declared}; ");
    }
    Ok(code)
}

/// The frame of what ranks returned, if they returned anything.
fn bind(
    request: &RanksRequest,
    came: &Came,
    session: &Session<'_>,
) -> Result<Option<Shown>, Failure> {
    let mut rows = Vec::new();
    for (rank, answer) in came.answers.iter().enumerate() {
        let of = answer.iter().flat_map(|answer| &answer.rows);
        rows.extend(of.map(|row| (rank as u32, row.clone())));
    }
    if rows.is_empty() && request.output.is_none() {
        return Ok(None);
    }
    let mut frame = frame(&rows).map_err(|error| Failure::config(error.to_string(), []))?;
    let shown = report::frame(&frame);
    if let Some(name) = &request.output {
        let id = sql::keep(&mut frame).map_err(|error| lines::refused(&error))?;
        session.bind_as(name, Thing::Frame(id))?;
    }
    Ok((!rows.is_empty()).then_some(shown))
}

/// The cell's failure, if it failed on a rank or was not finished.
fn failure(came: &Came, code: &str) -> Option<Failure> {
    let mut failed: Vec<(u32, &Answer)> = (0..)
        .zip(came.answers.iter().flatten())
        .filter(|(_, a)| matches!(a.ended, Ended::Error(_) | Ended::Panic(..)))
        .collect();
    failed.sort_by(|a, b| a.1.ms.total_cmp(&b.1.ms));
    let gave_up: Vec<u32> = (0..)
        .zip(&came.answers)
        .filter(|(_, a)| {
            a.as_ref()
                .is_none_or(|a| matches!(a.ended, Ended::GaveUp(_)))
        })
        .map(|(rank, _)| rank)
        .collect();
    let mut lines = Vec::new();
    let (name, what) = if let Some((rank, first)) = failed.first() {
        let (words, line) = words(&first.ended);
        let at = line.map_or(String::new(), |line| format!(" at line {line}"));
        if let Some(line) = line {
            let source = code.lines().nth(line as usize - 1).unwrap_or_default();
            lines.push(format!("{line} | {source}"));
        }
        for (rank, answer) in &failed[1..] {
            lines.push(format!("rank {rank}: {}", self::words(&answer.ended).0));
        }
        if !gave_up.is_empty() {
            let waited = format!("{} waited and gave up", named(&gave_up));
            lines.push(waited);
        }
        ("HaloRankFailed", format!("rank {rank} failed{at}: {words}"))
    } else if let Some(lost) = came.lost.as_ref().filter(|_| came.why.is_none()) {
        ("HaloRankFailed", lost.clone())
    } else {
        match came.why.as_ref()? {
            Why::Failed => return None,
            Why::Interrupted => (
                "HaloInterrupted",
                format!("interrupted; {} had not ended", named(&gave_up)),
            ),
            Why::TimedOut => (
                "HaloTimeout",
                format!("{} had not ended in time", named(&gave_up)),
            ),
            Why::Stalled(who) => ("HaloStalled", format!("nobody gets on: {who}")),
        }
    };
    lines.push(match &came.lost {
        Some(why) => format!("the pool is gone ({why}), and with it what ranks kept"),
        None => "the pool goes on; what ranks keep is intact".to_owned(),
    });
    Some(Failure::new(name, what, lines))
}

fn words(ended: &Ended) -> (&str, Option<u32>) {
    match ended {
        Ended::Panic(words, line) => (words, *line),
        Ended::Error(words) | Ended::GaveUp(words) => (words, None),
        Ended::Ok | Ended::Left => ("", None),
    }
}

/// `%cluster`, `%cluster up -n 4`, `%cluster down`.
pub fn cluster(line: &Line, session: &Session<'_>) -> Outcome {
    let mut pool = session.pool();
    match line.args.first().map_or("status", String::as_str) {
        "down" => {
            let was = pool.take();
            return Ok(Some(Shown::text(match was {
                Some(pool) => format!("{} ranks have ended", pool.ranks),
                None => "there are no ranks".to_owned(),
            })));
        }
        "up" => {
            let facts = session.facts.ok_or_else(|| unprepared("%cluster"))?;
            let wanted = match line.flag("ranks").map(str::parse) {
                None => RANKS,
                Some(Ok(n)) if n > 0 => n,
                Some(_) => {
                    return Err(Failure::config(
                        "-n takes a number of ranks",
                        ["help: for example %cluster up -n 4".to_owned()],
                    ));
                }
            };
            let stays = pool
                .as_mut()
                .is_some_and(|pool| pool.ranks == wanted && pool.is_alive());
            if !stays {
                *pool = None;
                *pool = Some(Pool::up(wanted, facts, session.interrupt)?);
            }
        }
        _ => {}
    }
    if pool.as_mut().is_some_and(|pool| !pool.is_alive()) {
        *pool = None;
    }
    let Some(pool) = pool.as_ref() else {
        return Ok(Some(Shown::text(
            "there are no ranks; %cluster up -n 4, or a %%ranks cell, starts them",
        )));
    };
    let mut rows = Vec::new();
    for (rank, state) in pool.states().into_iter().enumerate() {
        let mut row = halobook::ranks::Row::default();
        row.push("host", host::name());
        if let Some(state) = state {
            row.push("device", "cpu");
            row.push("pid", state.pid);
            row.push("memory_bytes", launcher::host::resident_bytes(state.pid));
            row.push("cells", state.epoch);
        }
        let rows_of = halobook::ranks::IntoRows::into_rows(row);
        rows.extend(rows_of.into_iter().map(|row| (rank as u32, row)));
    }
    let frame = frame(&rows).map_err(|error| Failure::config(error.to_string(), []))?;
    let crowd = match pool.ranks > host::cores() {
        true => format!(
            "\noversubscribed: {} ranks share {} cores; read shapes, not speed-ups",
            pool.ranks,
            host::cores()
        ),
        false => String::new(),
    };
    Ok(Some(Shown::html(
        format!("{frame}{crowd}"),
        format!("{}<p>{}</p>", df_html(&frame), crowd.trim()),
    )))
}
