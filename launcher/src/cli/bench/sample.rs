//! `halobook bench sample`: mini-batches drawn, and by DGL's samplers by turns.

use super::super::step::Steps;
use super::super::words::Words;
use super::{disturbed, positive, pythons, spread_json};
use crate::bench::sample::{self, Form, Outcome, Request};
use crate::host::{self, Host};
use crate::{Error, Result, sys};
use kernels::bench::Spread;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

const DATA: &str = "rmat:scale=16,edge-factor=16,feat=4,classes=32";

/// Runs the command.
pub fn run(words: &[String]) -> Result<i32> {
    let valued = [
        "data", "fan-outs", "batch", "threads", "rounds", "seconds", "against", "python",
        "patience",
    ];
    let words = Words::sort(words, &["json", "quiet"], &valued)?;
    words.names([])?;
    let request = Request {
        data: words.value("data").unwrap_or(DATA).to_owned(),
        fan_outs: fan_outs(words.value("fan-outs").unwrap_or("10,25"))?,
        batch: positive(&words, "batch", 1000)?,
        threads: positive(&words, "threads", host::cores())?,
        rounds: positive(&words, "rounds", 3)?,
        seconds: words.number("seconds")?.unwrap_or(3.0),
        patience: Duration::from_secs(words.number("patience")?.unwrap_or(0)),
        pythons: pythons(words.value("against"), &words.values("python"))?,
    };
    sys::catch_interrupts();
    let mut steps = Steps::new(words.has("quiet"));
    let outcome = sample::run(&request, &mut |what| steps.show(what))?;
    drop(steps);
    if !words.has("quiet") {
        print!("{}", text(&request, &outcome));
    }
    if words.has("json") {
        println!("{}", outcome_json(&request, &outcome));
    }
    if outcome.interrupted {
        eprintln!("error: interrupted; the figures are of the rounds until then");
        eprintln!("help: run it again");
        return Ok(130);
    }
    let wrong = outcome.forms.iter().any(|f| f.ours && f.wrong_rows > 0);
    if wrong {
        eprintln!("error: what was drawn is not what should be");
        eprintln!("help: this is a fault of Halobook: please report it with the command line");
    }
    Ok(i32::from(wrong))
}

fn fan_outs(list: &str) -> Result<Vec<u32>> {
    let each: std::result::Result<Vec<u32>, _> =
        list.split(',').map(|k| k.trim().parse()).collect();
    each.map_err(|_| {
        Error::refused(
            format!("fan-outs: expected numbers, got {list}"),
            "write --fan-outs 10,25 for ten in-edges in the first layer, 25 in the second",
        )
    })
}

fn text(request: &Request, outcome: &Outcome) -> String {
    let [n, edges, train] = outcome.size;
    // Writing to a String cannot fail.
    let mut text = format!(
        "{}\n{}: {n} vertices, {edges} edges, {train} to train on; fan-outs {:?}, {} seeds a batch, \
         {} thread(s)\n\n{:<20} {:>11} {:>17} {:>10} {:>10} {:>11} {:>8}\n",
        Host::this().class(),
        request.data,
        request.fan_outs,
        request.batch,
        request.threads,
        "form",
        "M edges/s",
        "quartiles",
        "epoch ms",
        "edges",
        "wrong",
        "others",
    );
    for form in &outcome.forms {
        let _ = writeln!(text, "{}", form_text(form));
    }
    if let Some((ours, theirs, ratio)) = outcome.ratio() {
        let _ = writeln!(
            text,
            "{}: {ratio:.2} times the edges a second of {}",
            ours.name, theirs.name
        );
    }
    let most = outcome.forms.iter().filter_map(|f| f.others);
    if let Some(note) = disturbed(most.reduce(f64::max)) {
        let _ = writeln!(text, "{note}");
    }
    text
}

fn form_text(form: &Form) -> String {
    let (Some(rate), Some(ms)) = (form.rate(), Spread::of(&form.ms)) else {
        let why = form.failure.as_deref().unwrap_or("not timed");
        return format!("{:<20} {why}", form.name);
    };
    format!(
        "{:<20} {:>11.2} {:>17} {:>10.2} {:>10} {:>11} {:>8}  {}",
        form.name,
        rate.median,
        format!("{:.2}–{:.2}", rate.low, rate.high),
        ms.median,
        form.edges,
        form.wrong_rows,
        form.others.map_or("-".into(), |c| format!("{c:.2}")),
        form.version,
    )
}

fn outcome_json(request: &Request, outcome: &Outcome) -> Value {
    let form = |f: &Form| {
        json!({
            "form": f.name, "ours": f.ours, "version": f.version, "edges": f.edges,
            "rate": f.rate().as_ref().map(spread_json),
            "ms": Spread::of(&f.ms).as_ref().map(spread_json),
            "wrong_rows": f.wrong_rows, "others_cores": f.others, "failure": f.failure,
        })
    };
    let [n, edges, train] = outcome.size;
    json!({
        "bench": "sample", "version": env!("CARGO_PKG_VERSION"), "machine": Host::this().class(),
        "data": request.data, "vertices": n, "edges": edges, "train": train,
        "fan_outs": request.fan_outs, "batch": request.batch, "threads": request.threads,
        "rounds": request.rounds, "forms": outcome.forms.iter().map(form).collect::<Vec<_>>(),
        "ratio": outcome.ratio().map(|(ours, theirs, ratio)| {
            json!({ "ours": ours.name, "theirs": theirs.name, "ratio": ratio })
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_graph_is_sampled_on_the_command_line() {
        let words = "--data sbm:nodes=300,classes=3,feat=4,degree=6 --fan-outs 2,3 --batch 20 \
                     --threads 2 --rounds 1 --seconds 0 --json";
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        assert_eq!(run(&words).expect("runs, with right answers"), 0);
    }
}
