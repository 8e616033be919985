//! What is asked of the run store on the command line: queries and claims.

use std::process::ExitCode;

use launcher::check::{Claim, NEAR, Tolerance, Verdict, read};
use launcher::sql::Bound;
use launcher::{Error, Result, frames, store};

/// Prints what a query over the run store answers; exit status 2 if it is refused, 1 if runs had to be left out and
/// `--partial` does not say that this is well.
pub fn sql(words: &[String]) -> ExitCode {
    let is_flag = |word: &&String| matches!(word.as_str(), "--json" | "--partial");
    let (flags, texts): (Vec<&String>, Vec<&String>) = words.iter().partition(is_flag);
    let has = |flag: &str| flags.iter().any(|word| *word == flag);
    let [query] = texts[..] else {
        return refuse("sql takes one query", "halobook sql 'SELECT * FROM runs'");
    };
    let answer = match launcher::sql::query_in_part(query, &[]) {
        Ok(answer) => answer,
        Err(error) => return refuse(&error.to_string(), &error.help()),
    };
    match has("--json") {
        true => frames::json_lines(&answer.frame)
            .iter()
            .for_each(|line| println!("{line}")),
        false => println!("{}", answer.frame),
    }
    answer
        .left_out
        .iter()
        .for_each(|line| eprintln!("left out: {line}"));
    ExitCode::from(u8::from(!answer.left_out.is_empty() && !has("--partial")))
}

/// Prints which claims hold; exit status 1 if one does not, 2 if they are refused.
pub fn check(words: &[String]) -> ExitCode {
    match judged(words) {
        Ok((verdicts, json)) => {
            for verdict in &verdicts {
                match json {
                    true => println!("{}", object(verdict)),
                    false => println!("{verdict}"),
                }
            }
            ExitCode::from(u8::from(verdicts.iter().any(Verdict::fails)))
        }
        Err(error) => refuse(&error.to_string(), &error.help()),
    }
}

fn object(of: &Verdict) -> serde_json::Value {
    serde_json::json!({
        "claim": of.text, "label": of.label, "left": of.left, "right": of.right, "apart": of.apart,
        "holds": of.holds, "shown": of.shown,
    })
}

fn judged(words: &[String]) -> Result<(Vec<Verdict>, bool)> {
    let usage = |what: String| {
        Error::refused(
            what,
            "halobook check 'r1.test >= 0.9' --run r1=latest --tol 0.05",
        )
    };
    let (mut text, mut bound, mut json) = (String::new(), Vec::new(), false);
    let mut near = Tolerance::Relative(NEAR);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| usage(format!("{word} needs a value")))
        };
        match word.as_str() {
            "--json" => json = true,
            "--tol" => {
                let part = value()?.parse().ok().filter(|tol: &f64| *tol >= 0.0);
                let part = part.ok_or_else(|| usage("--tol takes a number from 0 on".into()))?;
                near = Tolerance::Relative(part);
            }
            "--run" => {
                let pair = value()?.split_once('=');
                let (name, run) = pair.ok_or_else(|| usage("--run takes NAME=RUN".into()))?;
                bound.push((name.to_owned(), Bound::Run(store::run_dir(run)?)));
            }
            flag if flag.starts_with("--") => return Err(usage(format!("unknown flag {flag}"))),
            claims => {
                text.push_str(claims);
                text.push('\n');
            }
        }
    }
    let claims: Vec<Claim> = read(&text)?;
    let verdicts = claims.iter().map(|claim| claim.judge(near, &bound));
    Ok((verdicts.collect::<Result<_>>()?, json))
}

/// Two lines on standard error, and the exit status of a wrong request.
pub(super) fn refuse(what: &str, help: &str) -> ExitCode {
    let one_line = |text: &str| text.lines().collect::<Vec<_>>().join(" ");
    eprintln!("error: {}\nhelp: {}", one_line(what), one_line(help));
    ExitCode::from(2)
}
